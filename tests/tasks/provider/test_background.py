"""Tests background requests: every reply of the provider becomes a result or one error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tasks.fake_provider import FakeProvider
from tasks.ledger.errors import Category
from tasks.provider import Answer, BackgroundProvider, Pending, Prompt, ProviderError, ProviderSettings, make_provider
from tasks.provider.loop import ProviderLoop
from tests.support.provider_errors import DOCUMENT, KEY, assert_harmless

Settings = Callable[..., ProviderSettings]
METADATA = {"job": "j-1", "generation": "2", "call": "c-1"}


class Background:
    """Provides one fake provider and one loop for all tests: creating them takes longer than the calls."""

    def __init__(self, fake: FakeProvider, loop: ProviderLoop) -> None:
        self.fake = fake
        self.loop = loop

    def start(self, step: dict[str, Any], budget_seconds: float = 10) -> Answer | Pending:
        self.fake.reset()
        self.fake.script([step])
        prompt = Prompt("Summarise.", DOCUMENT, {})
        return self.loop.submit_start(
            prompt, client_request_id="call-1", metadata=METADATA, budget_seconds=budget_seconds
        ).result()

    def started(self, step: dict[str, Any]) -> str:
        """Start a request and return the id of its running response."""
        pending = self.start(step)
        assert isinstance(pending, Pending)
        return pending.response_id

    def poll(self, response_id: str, budget_seconds: float = 10) -> Answer | Pending:
        return self.loop.submit_poll(response_id, budget_seconds=budget_seconds).result()

    def cancel(self, response_id: str) -> Answer | None:
        return self.loop.submit_cancel(response_id, budget_seconds=10).result()


@pytest.fixture(scope="module")
def background() -> Iterator[Background]:
    with FakeProvider() as fake:
        loop = ProviderLoop(ProviderSettings("openai", KEY, fake.base_url, "responses", "small-1", 2, 5))
        loop.start()
        yield Background(fake, loop)
        assert loop.close(timeout=10)


def failing(work: Callable[[], object]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        work()
    assert_harmless(caught.value)
    return caught.value


def verdict(error: ProviderError) -> tuple[Category, str | None, bool]:
    return error.category, error.code, error.response_over


def test_a_request_is_handed_over_with_our_ids_and_is_to_be_kept(background: Background) -> None:
    assert background.start({"mode": "ok"}) == Pending("resp_fake1")
    (request,) = background.fake.requests
    assert (request.json["background"], request.json["store"]) == (True, True)
    assert request.json["metadata"] == METADATA
    assert request.client_request_id == request.headers["idempotency-key"] == "call-1"
    assert DOCUMENT in request.body.decode()


def test_a_server_that_answers_at_once_has_answered(background: Background) -> None:
    answer = background.start({"mode": "ok", "sync": True, "text": "A pier."})
    assert isinstance(answer, Answer)
    assert (answer.text, answer.response_id) == ("A pier.", "resp-fake")


def test_it_is_pending_until_it_is_complete(background: Background) -> None:
    response_id = background.started({"mode": "ok", "polls": 2, "text": "A pier."})
    assert [background.poll(response_id) for _ in range(2)] == [Pending(response_id)] * 2
    answer = background.poll(response_id)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.response_id, answer.input_tokens) == ("A pier.", response_id, 11)
    assert len(background.fake.generations) == len(background.fake.requests) == 1


@pytest.mark.parametrize(
    ("step", "category", "code"),
    [
        ({"mode": "failed", "err": "server_error"}, Category.OVERLOADED, "server_error"),
        ({"mode": "failed", "err": "rate_limit_exceeded"}, Category.RATE_LIMITED, "rate_limit"),
        ({"mode": "failed", "err": "insufficient_quota"}, Category.QUOTA, "insufficient_quota"),
        ({"mode": "failed", "err": "invalid_prompt"}, Category.CONTENT_POLICY, "flagged"),
        ({"mode": "failed", "err": "something_new"}, Category.UNCERTAIN, "failed"),
        ({"mode": "length_empty"}, Category.INVALID_REQUEST, "output_limit"),
        ({"mode": "filter"}, Category.CONTENT_POLICY, "content_filter"),
        ({"mode": "refusal"}, Category.CONTENT_POLICY, "refusal"),
        ({"mode": "blank"}, Category.UNCERTAIN, "empty"),
        ({"mode": "gone"}, Category.UNCERTAIN, "response_gone"),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_one_that_ended_without_a_summary_is_over(
    background: Background, step: dict[str, Any], category: Category, code: str
) -> None:
    response_id = background.started(step)
    assert verdict(failing(lambda: background.poll(response_id))) == (category, code, True)


def test_one_cut_off_by_the_limit_is_an_answer_with_a_mark(background: Background) -> None:
    answer = background.poll(background.started({"mode": "length", "text": "The committee"}))
    assert isinstance(answer, Answer)
    assert answer.cut_off


@pytest.mark.parametrize(
    ("step", "category", "code"),
    [
        ({"mode": "overloaded"}, Category.OVERLOADED, "overloaded"),
        ({"mode": "rate", "retry_after": 7}, Category.RATE_LIMITED, "rate_limit"),
        ({"mode": "auth"}, Category.AUTH, "credentials"),
        ({"mode": "drop"}, Category.UNCERTAIN, "connection_lost"),
        ({"mode": "html200"}, Category.UNCERTAIN, "unreadable"),
        ({"mode": "badjson"}, Category.UNCERTAIN, "unreadable"),
        ({"mode": "obj200"}, Category.UNCERTAIN, "unreadable"),
        ({"mode": "error200", "err": 502}, Category.UNCERTAIN, "unreadable"),
        ({"mode": "status", "code": 502, "body": "<html>Bad Gateway"}, Category.UNCERTAIN, "gateway"),
    ],
    ids=lambda value: str(value["mode"]) if isinstance(value, dict) else None,
)
def test_a_poll_that_fails_says_nothing_of_the_response(
    background: Background, step: dict[str, Any], category: Category, code: str
) -> None:
    response_id = background.started({"mode": "ok", "looks": [step]})
    assert verdict(failing(lambda: background.poll(response_id))) == (category, code, False)
    assert isinstance(background.poll(response_id), Answer)


def test_every_exchange_has_a_wall_clock(background: Background) -> None:
    error = failing(lambda: background.start({"mode": "hang"}, budget_seconds=0.3))
    assert verdict(error) == (Category.UNCERTAIN, "call_budget", False)
    response_id = background.started(
        {"mode": "ok", "looks": [{"mode": "hang"}], "on_cancel": {"mode": "drip", "every": 0.1}}
    )
    assert failing(lambda: background.poll(response_id, budget_seconds=0.3)).code == "call_budget"
    late = background.loop.submit_cancel(response_id, budget_seconds=0.3)
    assert failing(late.result).code == "call_budget"


def test_what_the_provider_does_not_take_is_classified_as_ever(background: Background) -> None:
    error = failing(lambda: background.start({"mode": "status", "code": 400, "err": "unsupported_parameter"}))
    assert (error.category, error.code) == (Category.INVALID_REQUEST, "bad_request")
    assert failing(lambda: background.start({"mode": "html200"})).category is Category.UNCERTAIN


@pytest.mark.parametrize("response_id", ["resp/../../x", "resp?x", "", "x" * 201])
def test_an_id_that_would_change_the_address_is_none(background: Background, response_id: str) -> None:
    body = {"id": response_id, "object": "response", "status": "queued"}
    step = {"mode": "status", "code": 200, "body": body}
    assert failing(lambda: background.start(step)).category is Category.UNCERTAIN


def test_cancelling_twice_is_fine(background: Background) -> None:
    response_id = background.started({"mode": "never"})
    assert [background.cancel(response_id) for _ in range(2)] == [None, None]
    assert background.fake.generations[0].status == "cancelled"


@pytest.mark.parametrize("step", [{"mode": "ok", "on_cancel": "faster"}, {"mode": "gate", "name": "open"}])
def test_a_response_that_was_faster_than_its_cancel_is_an_answer(background: Background, step: dict[str, Any]) -> None:
    if step["mode"] == "gate":
        background.fake.release("open")
    assert isinstance(background.cancel(background.started(step)), Answer)
    assert background.fake.generations[0].status == "completed"


def test_a_cancel_that_the_provider_ignores_is_reported(background: Background) -> None:
    ignored = background.started({"mode": "never", "on_cancel": "ignored"})
    assert verdict(failing(lambda: background.cancel(ignored))) == (Category.OVERLOADED, "still_running", False)
    gone = background.started({"mode": "gone"})
    assert verdict(failing(lambda: background.cancel(gone))) == (Category.UNCERTAIN, "response_gone", True)
    refused = background.started({"mode": "never", "on_cancel": {"mode": "overloaded"}})
    assert verdict(failing(lambda: background.cancel(refused))) == (Category.OVERLOADED, "overloaded", False)


def test_deleting_twice_is_fine(background: Background) -> None:
    response_id = background.started({"mode": "ok"})
    for _ in range(2):
        background.loop.submit_delete(response_id, budget_seconds=5).result()
    assert background.fake.generations[0].deletes == 2
    assert failing(lambda: background.poll(response_id)).code == "response_gone"


def test_only_the_responses_api_can_be_asked_about(settings: Settings) -> None:
    assert isinstance(make_provider(settings()), BackgroundProvider)
    assert not isinstance(make_provider(settings(api="chat")), BackgroundProvider)
    assert not isinstance(make_provider(ProviderSettings("local")), BackgroundProvider)
