"""Tests the errors that no real server gives on demand: each cause, before and after the request was sent."""

from __future__ import annotations

import json
import ssl

import httpx2
import openai
import pytest

from tasks.ledger.errors import Category
from tasks.provider import ProviderError
from tasks.provider.error_classifier import classify_exception, classify_status
from tasks.provider.error_codes import QUOTA_CODES, parse_error_body, verdict_on_details

REQUEST = httpx2.Request("POST", "http://provider.invalid/v1/responses")


def wrapped(cause: BaseException) -> Exception:
    """Return the SDK's error with this cause, as the SDK raises it."""
    error = openai.APIConnectionError(request=REQUEST)
    error.__cause__ = cause
    return error


def with_context(error: Exception, context: BaseException) -> Exception:
    error.__context__ = context
    return error


NEVER_SENT = [
    (httpx2.ConnectTimeout("no"), Category.CONNECTION, "connect_timeout"),
    (httpx2.PoolTimeout("no"), Category.CONNECTION, "pool_timeout"),
    (httpx2.ConnectError("no"), Category.CONNECTION, "connect"),
    (httpx2.ProxyError("503 Busy"), Category.CONNECTION, "proxy"),
    (httpx2.ProxyError("407 Proxy Authentication Required"), Category.AUTH, "proxy_credentials"),
    (httpx2.UnsupportedProtocol("no"), Category.AUTH, "base_url"),
    (httpx2.InvalidURL("no"), Category.AUTH, "base_url"),
    (httpx2.LocalProtocolError("Illegal header value b'Bearer sk-1'"), Category.AUTH, "illegal_header"),
    (UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogates not allowed"), Category.INVALID_REQUEST, "unsendable"),
    (httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate"), Category.PERMISSION, "tls"),
    (with_context(httpx2.ConnectError("x"), ssl.SSLCertVerificationError("expired")), Category.PERMISSION, "tls"),
    (with_context(httpx2.ConnectError("x"), ssl.SSLError("WRONG_VERSION_NUMBER")), Category.CONNECTION, "connect"),
]


@pytest.mark.parametrize(("cause", "category", "code"), NEVER_SENT)
@pytest.mark.parametrize("sent", [True, False])
def test_never_sent_whatever_was_seen(cause: Exception, category: Category, code: str, sent: bool) -> None:
    for error in (cause, wrapped(cause)):
        verdict = classify_exception(error, sent=sent)
        assert (verdict.category, verdict.code, verdict.sent) == (category, code, False)


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (httpx2.ReadTimeout("no"), "read_timeout"),
        (httpx2.WriteTimeout("no"), "write_timeout"),
        (httpx2.ReadError("no"), "connection_lost"),
        (httpx2.WriteError("no"), "connection_lost"),
        (httpx2.CloseError("no"), "connection_lost"),
        (httpx2.RemoteProtocolError("no"), "connection_lost"),
        (httpx2.DecodingError("no"), "undecodable"),
        (OSError("something of the system"), "connection_lost"),
    ],
)
def test_uncertain_only_if_sent(cause: Exception, code: str) -> None:
    sent = classify_exception(wrapped(cause), sent=True)
    assert (sent.category, sent.code, sent.sent) == (Category.UNCERTAIN, code, True)
    unsent = classify_exception(wrapped(cause), sent=False)
    assert (unsent.category, unsent.code, unsent.sent) == (Category.CONNECTION, code, False)


@pytest.mark.parametrize(
    "error",
    [
        json.JSONDecodeError("no", "x", 0),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"),
        TypeError("'NoneType' object is not iterable"),
        openai.APIResponseValidationError(httpx2.Response(200, request=REQUEST), None),
    ],
)
def test_answer_that_could_not_be_read_is_uncertain(error: Exception) -> None:
    verdict = classify_exception(error, sent=True)
    assert (verdict.category, verdict.code, verdict.sent) == (Category.UNCERTAIN, "unreadable", True)


def test_client_that_was_closed() -> None:
    verdict = classify_exception(RuntimeError("Cannot send a request, as the client has been closed."), sent=False)
    assert (verdict.category, verdict.code, verdict.sent) == (Category.CONNECTION, "client_closed", False)


def test_unforeseen_before_sending_is_ours() -> None:
    verdict = classify_exception(KeyError("x"), sent=False)
    assert (verdict.category, verdict.code, verdict.sent) == (Category.INTERNAL, "unforeseen", False)


def test_provider_error_stays_what_it_is() -> None:
    error = ProviderError(Category.QUOTA, sent=True)
    assert classify_exception(error, sent=False) is error


def test_chain_that_bites_its_tail_ends() -> None:
    first, second = httpx2.ReadError("1"), httpx2.ReadError("2")
    first.__cause__, second.__cause__ = second, first
    assert classify_exception(first, sent=True).category is Category.UNCERTAIN


@pytest.mark.parametrize("status", range(300, 600))
def test_every_status_has_a_verdict_for_every_body(status: int) -> None:
    for body in (None, "", "<html>", [], [[]], {}, {"error": None}, {"error": {"code": {}, "message": 1}}, 7, True):
        error = classify_status(status, parse_error_body(body))
        assert error.http_status == status
        assert error.code


@pytest.mark.parametrize("code", sorted(QUOTA_CODES))
@pytest.mark.parametrize("field", ["code", "type"])
def test_quota_in_code_or_type(code: str, field: str) -> None:
    for status in (400, 402, 403, 429):
        error = classify_status(status, parse_error_body({"error": {field: code}}))
        assert error.category is Category.QUOTA


@pytest.mark.parametrize(
    ("body", "code", "type_", "message"),
    [
        ({"error": {"code": "A_b", "type": "T", "message": "Hello"}}, "a_b", "t", "hello"),
        ({"code": 401, "type": None, "message": None}, "401", None, ""),
        ({"error": "Model not found"}, None, None, "model not found"),
        ({"detail": "Not Found"}, None, None, "not found"),
        ([{"error": {"code": 429, "message": "Quota"}}], "429", None, "quota"),
        ("Bad Gateway", None, None, "bad gateway"),
        ([], None, None, ""),
        (None, None, None, ""),
        ({"error": {"code": True, "type": ["x"]}}, None, None, ""),
    ],
)
def test_words_in_every_shape_of_body(body: object, code: str | None, type_: str | None, message: str) -> None:
    details = parse_error_body(body)
    assert (details.code, details.type, details.message) == (code, type_, message)
    assert not message or message not in repr(details)


def test_words_that_mean_nothing() -> None:
    details = parse_error_body({"error": {"code": "new_code", "type": "invalid_request_error"}})
    assert verdict_on_details(details) is None
