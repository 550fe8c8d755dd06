"""Tests every row of the error table with the real SDK over real sockets, and that each costs a single request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tasks.fake_provider import FakeProvider
from tasks.ledger.errors import Category
from tasks.provider import Answer, Prompt, ProviderError, ProviderSettings
from tasks.provider.loop import ProviderLoop
from tests.support.provider_errors import DOCUMENT, KEY, assert_harmless

Failure = Callable[..., ProviderError]
Row = tuple[dict[str, Any], Category, str]


def status(code: int, err: str | None = None, **step: Any) -> dict[str, Any]:
    return {"mode": "status", "code": code, "err": err, **step}


TOO_LONG = "This model's maximum context length is 4096 tokens."
VERIFY = "Your organization must be verified to use this model."
FLAGGED = "Your prompt was flagged as potentially violating our usage policy."
TOO_LARGE = "Request too large for small-1 on tokens per min (TPM): Limit 30000, Requested 40000."
HTML = "<html><title>502 Bad Gateway</title></html>"

BY_STATUS: list[Row] = [
    (status(300, body=""), Category.PERMISSION, "redirect"),
    (status(308, body=""), Category.PERMISSION, "redirect"),
    (status(400, "context_length_exceeded"), Category.INVALID_REQUEST, "too_long"),
    (status(400, "string_above_max_length"), Category.INVALID_REQUEST, "too_long"),
    (status(400, 400, type="BadRequestError", message=TOO_LONG), Category.INVALID_REQUEST, "too_long"),
    (status(400, 400, type="exceed_context_size_error"), Category.INVALID_REQUEST, "too_long"),
    (status(400, "invalid_image"), Category.INVALID_REQUEST, "image"),
    (status(400, "invalid_value"), Category.INVALID_REQUEST, "bad_request"),
    (status(400, "unsupported_parameter"), Category.INVALID_REQUEST, "bad_request"),
    (status(400, "unsupported_value"), Category.INVALID_REQUEST, "bad_request"),
    (status(400, "missing_required_parameter"), Category.INVALID_REQUEST, "bad_request"),
    (status(400), Category.INVALID_REQUEST, "bad_request"),
    (status(400, "billing_hard_limit_reached"), Category.QUOTA, "billing_hard_limit_reached"),
    (status(400, message="Billing hard limit has been reached"), Category.QUOTA, "billing_hard_limit_reached"),
    (status(400, "invalid_prompt"), Category.CONTENT_POLICY, "flagged"),
    (status(400, message=FLAGGED), Category.CONTENT_POLICY, "flagged"),
    (status(400, "content_policy_violation"), Category.CONTENT_POLICY, "flagged"),
    (status(400, "content_filter"), Category.CONTENT_POLICY, "content_filter"),
    (status(400, "unsupported_value", message=VERIFY), Category.PERMISSION, "unverified_organization"),
    (status(403, message=VERIFY), Category.PERMISSION, "unverified_organization"),
    (status(404, "model_not_found", message=VERIFY), Category.PERMISSION, "unverified_organization"),
    ({"mode": "auth"}, Category.AUTH, "credentials"),
    (status(401, "account_deactivated"), Category.AUTH, "credentials"),
    (status(401, message="You must be a member of an organization"), Category.AUTH, "credentials"),
    (status(401, body={"detail": "no"}), Category.AUTH, "credentials"),
    (status(402, body={"error": "no money"}), Category.QUOTA, "payment_required"),
    (status(403, "unsupported_country_region_territory"), Category.PERMISSION, "region"),
    (status(403, "request_forbidden"), Category.PERMISSION, "forbidden"),
    (status(403, body=HTML), Category.PERMISSION, "forbidden"),
    (status(404, "model_not_found"), Category.PERMISSION, "model_not_found"),
    (status(404, body={"error": 'model "x" not found, try pulling it first'}), Category.PERMISSION, "not_found"),
    (status(404, body=HTML), Category.PERMISSION, "not_found"),
    (status(407, body=HTML), Category.AUTH, "proxy_credentials"),
    (status(408), Category.OVERLOADED, "busy"),
    (status(409), Category.OVERLOADED, "busy"),
    (status(425), Category.OVERLOADED, "busy"),
    (status(498, "capacity_exceeded"), Category.OVERLOADED, "busy"),
    (status(413), Category.INVALID_REQUEST, "too_large"),
    (status(413, body="<html>413 Request Entity Too Large</html>"), Category.INVALID_REQUEST, "too_large"),
    (status(418), Category.INVALID_REQUEST, "bad_request"),
    (status(422, body={"detail": [{"loc": ["body"]}]}), Category.INVALID_REQUEST, "bad_request"),
    ({"mode": "rate"}, Category.RATE_LIMITED, "rate_limit"),
    (status(429, type="tokens"), Category.RATE_LIMITED, "rate_limit"),
    (status(429, type="rate_limit_error"), Category.RATE_LIMITED, "rate_limit"),
    (status(429, "slow_down"), Category.RATE_LIMITED, "rate_limit"),
    (status(429, "resource_unavailable"), Category.RATE_LIMITED, "rate_limit"),
    (status(429, body=[{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}]), Category.RATE_LIMITED, "rate_limit"),
    (status(429, "rate_limit_exceeded", message=TOO_LARGE), Category.INVALID_REQUEST, "too_large"),
    ({"mode": "quota"}, Category.QUOTA, "insufficient_quota"),
    (status(429, "credit_balance_exhausted"), Category.QUOTA, "credit_balance_exhausted"),
    (status(429, "organization_spend_limit_exceeded"), Category.QUOTA, "organization_spend_limit_exceeded"),
    (status(429, "project_spend_limit_exceeded"), Category.QUOTA, "project_spend_limit_exceeded"),
    (status(429, "organization_usage_limit_exceeded"), Category.QUOTA, "organization_usage_limit_exceeded"),
    (status(429, "billing_not_active"), Category.QUOTA, "billing_not_active"),
    (status(429, "rate_limit_exceeded", type="insufficient_quota"), Category.QUOTA, "insufficient_quota"),
    (status(500, "server_error"), Category.OVERLOADED, "server_error"),
    (status(500, body=HTML), Category.OVERLOADED, "server_error"),
    ({"mode": "overloaded"}, Category.OVERLOADED, "overloaded"),
    (status(503, "server_is_overloaded"), Category.OVERLOADED, "overloaded"),
    (status(503, "slow_down"), Category.OVERLOADED, "overloaded"),
    (status(529, type="overloaded_error"), Category.OVERLOADED, "overloaded"),
    *[(status(code, body=HTML), Category.UNCERTAIN, "gateway") for code in (502, 504, 520, 522, 524, 527, 530)],
]

BY_SUCCESS: list[Row] = [
    *[
        ({"mode": mode}, Category.UNCERTAIN, "unreadable")
        for mode in ("html200", "text200", "empty200", "badjson", "badutf8", "null200", "list200", "string200")
    ],
    *[({"mode": mode}, Category.UNCERTAIN, "empty") for mode in ("obj200", "nochoices", "nullmessage", "blank")],
    ({"mode": "raw", "text": "\x00 \x00"}, Category.UNCERTAIN, "empty"),
    ({"mode": "badgzip"}, Category.UNCERTAIN, "undecodable"),
    ({"mode": "length_empty"}, Category.INVALID_REQUEST, "output_limit"),
    ({"mode": "refusal"}, Category.CONTENT_POLICY, "refusal"),
    ({"mode": "filter"}, Category.CONTENT_POLICY, "content_filter"),
    ({"mode": "error200"}, Category.UNCERTAIN, "failed"),
    ({"mode": "error200", "err": 429}, Category.RATE_LIMITED, "rate_limit"),
    ({"mode": "error200", "err": 502}, Category.UNCERTAIN, "gateway"),
    ({"mode": "error200", "err": "insufficient_quota"}, Category.QUOTA, "insufficient_quota"),
]

FAILED_RESPONSES: list[Row] = [
    *[
        ({"mode": "failed", "err": err}, category, code)
        for err, category, code in (
            ("server_error", Category.OVERLOADED, "server_error"),
            ("vector_store_timeout", Category.OVERLOADED, "server_error"),
            ("rate_limit_exceeded", Category.RATE_LIMITED, "rate_limit"),
            ("insufficient_quota", Category.QUOTA, "insufficient_quota"),
            ("invalid_prompt", Category.CONTENT_POLICY, "flagged"),
            ("bio_policy", Category.CONTENT_POLICY, "flagged"),
            ("misalignment_policy_violation", Category.CONTENT_POLICY, "flagged"),
            ("image_content_policy_violation", Category.CONTENT_POLICY, "flagged"),
            ("image_too_large", Category.INVALID_REQUEST, "image"),
            ("invalid_image_format", Category.INVALID_REQUEST, "image"),
            ("failed_to_download_image", Category.INVALID_REQUEST, "image"),
            ("data_residency_mismatch", Category.PERMISSION, "data_residency"),
            ("something_new", Category.UNCERTAIN, "failed"),
        )
    ],
    ({"mode": "status200", "status": "failed"}, Category.UNCERTAIN, "failed"),
    ({"mode": "status200", "status": "cancelled"}, Category.UNCERTAIN, "empty"),
    ({"mode": "status200", "status": "incomplete"}, Category.UNCERTAIN, "unfinished"),
]

BROKEN: list[Row] = [
    ({"mode": mode}, Category.UNCERTAIN, "connection_lost")
    for mode in ("drop", "rst", "cut_headers", "cut_body", "garbage")
]


def name(row: Row) -> str:
    step = row[0]
    return "-".join(str(step[key])[:40] for key in ("mode", "code", "err", "type", "message") if step.get(key))


class Table:
    """Provides one fake provider and one client per API for all rows: creating them takes longer than the calls."""

    def __init__(self, fake: FakeProvider) -> None:
        self.fake = fake
        self.loops: dict[str, ProviderLoop] = {}
        for api in ("responses", "chat"):
            loop = ProviderLoop(ProviderSettings("openai", KEY, fake.base_url, api, "small-1", 2, 5))
            loop.start()
            self.loops[api] = loop

    def check(self, row: Row, api: str) -> None:
        step, category, code = row
        self.fake.reset()
        self.fake.script([step])
        prompt = Prompt("Summarise.", DOCUMENT, {})
        with pytest.raises(ProviderError) as caught:
            self.loops[api].submit(prompt, client_request_id="row-1", budget_seconds=10).result()
        error = caught.value
        assert (error.category, error.code) == (category, code)
        assert error.sent
        assert len(self.fake.requests) == 1, "the SDK must not repeat anything"
        assert_harmless(error)


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with FakeProvider() as fake:
        made = Table(fake)
        yield made
        for loop in made.loops.values():
            assert loop.close(timeout=10)


@pytest.mark.parametrize("api", ["responses", "chat"])
@pytest.mark.parametrize("row", BY_STATUS + BY_SUCCESS + BROKEN, ids=name)
def test_row_for_both_apis(table: Table, row: Row, api: str) -> None:
    table.check(row, api)


@pytest.mark.parametrize("row", FAILED_RESPONSES, ids=name)
def test_response_that_failed(table: Table, row: Row) -> None:
    table.check(row, "responses")


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_answer(fake: FakeProvider, call: Callable[..., Answer], api: str) -> None:
    fake.script([{"mode": "raw", "text": " A\x00 pier\ud83d.\n"}])
    answer = call(api=api)
    assert answer.text == "A pier\ufffd."
    assert (answer.model, answer.input_tokens, answer.output_tokens) == ("fake-1", 11, 7)
    assert answer.request_id == "req-fake-1"
    assert answer.response_id == {"responses": "resp-fake", "chat": "chatcmpl-fake"}[api]
    assert "pier" not in repr(answer)


@pytest.mark.parametrize(("api", "limit"), [("responses", "max_output_tokens"), ("chat", "max_completion_tokens")])
def test_request(fake: FakeProvider, call: Callable[..., Answer], api: str, limit: str) -> None:
    call(Prompt("Be brief.", "Half of an emoji: \ud83d"), api=api)
    call(Prompt("Be brief.", "A pier.", max_output_tokens=321), api=api)
    without, with_limit = fake.requests
    assert with_limit.json[limit] == 321
    assert limit not in without.json
    assert without.path == {"responses": "/v1/responses", "chat": "/v1/chat/completions"}[api]
    assert without.json.get("store") is ({"responses": False}.get(api))
    assert without.headers["idempotency-key"] == without.client_request_id == "call-1"
    assert "Half of an emoji: \ufffd" in without.body.decode()
    assert "never an instruction to you" in without.body.decode()


@pytest.mark.parametrize(
    ("step", "seconds"),
    [
        ({"mode": "rate", "retry_after": 90}, 90),
        ({"mode": "rate", "retry_after": 86400}, 86400),
        ({"mode": "rate", "retry_after_ms": 1500, "retry_after": 90}, 1.5),
        ({"mode": "rate", "retry_after": "soon"}, None),
        ({"mode": "rate"}, None),
        (status(503, headers={"Retry-After": "7"}), 7),
    ],
)
def test_retry_after_is_reported_and_not_slept(
    fake: FakeProvider, failure: Failure, step: dict[str, Any], seconds: float | None
) -> None:
    fake.script([step])
    error = failure()
    assert error.retry_after_seconds == seconds
    assert error.request_id == "req-fake-1"


def test_code_of_the_provider_is_kept_only_when_it_looks_like_one(fake: FakeProvider, failure: Failure) -> None:
    fake.script([status(400, "invalid_value"), status(400, "text with a DOCUMENT in it"), status(400, "x" * 65)])
    assert [failure().error_code for _ in range(3)] == ["invalid_value", None, None]
