"""Turns every failure of a call into one ProviderError. Pure functions; nothing here retries.

The category decides what may happen next: RATE_LIMITED, OVERLOADED and CONNECTION mean that no answer was made, so a
retry is safe. UNCERTAIN means that an answer may have been made and billed. For the others a retry does not help.
Unless a source is named, the rule is from https://developers.openai.com/docs/guides/error-codes .
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping

import httpx2
import openai

from tasks.ledger.errors import Category
from tasks.provider.base import ProviderError
from tasks.provider.error_codes import ErrorDetails, Verdict, parse_error_body, verdict_on_details
from tasks.provider.send_tracker import AnswerTooBig
from tasks.retry_after import retry_after_seconds

_STATUSES: dict[int, Verdict] = {
    400: (Category.INVALID_REQUEST, "bad_request"),
    401: (Category.AUTH, "credentials"),
    402: (Category.QUOTA, "payment_required"),  # DeepSeek, OpenRouter and gateways
    403: (Category.PERMISSION, "forbidden"),
    404: (Category.PERMISSION, "not_found"),  # a wrong model or URL, which an operator can correct
    407: (Category.AUTH, "proxy_credentials"),
    408: (Category.OVERLOADED, "busy"),
    409: (Category.OVERLOADED, "busy"),
    413: (Category.INVALID_REQUEST, "too_large"),
    425: (Category.OVERLOADED, "busy"),
    429: (Category.RATE_LIMITED, "rate_limit"),
    498: (Category.OVERLOADED, "busy"),  # https://console.groq.com/docs/flex-processing
    500: (Category.OVERLOADED, "server_error"),
    503: (Category.OVERLOADED, "overloaded"),
    529: (Category.OVERLOADED, "overloaded"),
}
# A gateway that lost its upstream: the upstream may have finished.
_GATEWAY_STATUSES = frozenset({502, 504, 530, *range(520, 528)})

# The categories that may overrule a status. A 401 is about the key whatever its code says; a 500 says nothing about
# the prompt.
_OVERRULED_BY: dict[int, frozenset[Category]] = {
    400: frozenset(Category),
    403: frozenset({Category.QUOTA, Category.PERMISSION, Category.CONTENT_POLICY}),
    404: frozenset({Category.PERMISSION}),
    422: frozenset({Category.QUOTA, Category.CONTENT_POLICY, Category.INVALID_REQUEST}),
    429: frozenset({Category.QUOTA}),
}

_NEVER_SENT: dict[type[BaseException], Verdict] = {
    httpx2.ConnectTimeout: (Category.CONNECTION, "connect_timeout"),
    httpx2.PoolTimeout: (Category.CONNECTION, "pool_timeout"),
    httpx2.ConnectError: (Category.CONNECTION, "connect"),
    httpx2.UnsupportedProtocol: (Category.AUTH, "base_url"),
    httpx2.LocalProtocolError: (Category.AUTH, "illegal_header"),
    httpx2.InvalidURL: (Category.AUTH, "base_url"),
    httpx2.ProxyError: (Category.CONNECTION, "proxy"),
}
_MAY_BE_SENT: dict[type[BaseException], str] = {
    httpx2.ReadTimeout: "read_timeout",
    httpx2.WriteTimeout: "write_timeout",
    httpx2.DecodingError: "undecodable",
    AnswerTooBig: "too_big",
    httpx2.TransportError: "connection_lost",
    openai.APIConnectionError: "connection_lost",
}


def classify_exception(error: Exception, *, sent: bool) -> ProviderError:
    """Return the ProviderError for any exception of a call. `sent` is True if the request had begun to leave."""
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, openai.APIStatusError):
        details = parse_error_body(error.body)
        return classify_status(error.status_code, details, headers=error.response.headers, request_id=error.request_id)
    chain = list(_causes(error))
    for evaluate in (_tls, _proxy_credentials, _unsendable, _never_sent):
        verdict = evaluate(chain)
        if verdict:
            return ProviderError(*verdict, sent=False)
    code = _maybe_sent(chain)
    if code:
        return ProviderError(Category.UNCERTAIN if sent else Category.CONNECTION, code, sent=sent)
    return _unforeseen(error, sent=sent)


def classify_status(
    status: int, details: ErrorDetails, *, headers: Mapping[str, str] | None = None, request_id: str | None = None
) -> ProviderError:
    """Return the error for an HTTP status and the details in its body."""
    category, code = verdict_on_status(status, details)
    return ProviderError(
        category,
        code,
        sent=True,
        http_status=status,
        error_code=details.code or details.type,
        request_id=request_id,
        retry_after_seconds=retry_after_seconds(headers or {}),
    )


def verdict_on_status(status: int, details: ErrorDetails) -> Verdict:
    """Return category and code for a status. The details in the body overrule a status that is known to be vague."""
    if 300 <= status < 400:
        # Redirects are not followed, because that would send the document to whatever host they name.
        return Category.PERMISSION, "redirect"
    if status in _GATEWAY_STATUSES:
        return Category.UNCERTAIN, "gateway"
    if status == 429 and details.mentions("request too large for"):
        # Larger than the whole per-minute limit, so waiting does not help. https://github.com/TheR1D/shell_gpt/issues/653
        return Category.INVALID_REQUEST, "too_large"
    verdict = verdict_on_details(details)
    if verdict and verdict[0] in _OVERRULED_BY.get(status, frozenset()):
        return verdict
    if status in _STATUSES:
        return _STATUSES[status]
    if 400 <= status < 500:
        return Category.INVALID_REQUEST, "bad_request"
    return (Category.OVERLOADED, "server_error") if status >= 500 else (Category.UNCERTAIN, "unreadable")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes: the SDK wraps the HTTP client's error, which wraps the operating system's."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _tls(chain: list[BaseException]) -> Verdict | None:
    """Return PERMISSION for an untrusted certificate, since only an operator can make it trusted.

    Also compares the message, because newer ssl modules do not always keep the subclass.
    """
    if any(
        isinstance(cause, ssl.SSLCertVerificationError)
        or (isinstance(cause, httpx2.ConnectError) and "CERTIFICATE_VERIFY_FAILED" in str(cause))
        for cause in chain
    ):
        return Category.PERMISSION, "tls"
    return None


def _proxy_credentials(chain: list[BaseException]) -> Verdict | None:
    if any(isinstance(cause, httpx2.ProxyError) and str(cause).startswith("407") for cause in chain):
        return Category.AUTH, "proxy_credentials"
    return None


def _unsendable(chain: list[BaseException]) -> Verdict | None:
    """Return INVALID_REQUEST for text that cannot be encoded.

    The SDK calls it a connection error, but a retry never helps. https://github.com/Aider-AI/aider/issues/3693
    """
    if any(isinstance(cause, UnicodeEncodeError) for cause in chain):
        return Category.INVALID_REQUEST, "unsendable"
    return None


def _never_sent(chain: list[BaseException]) -> Verdict | None:
    return next((_NEVER_SENT[type(cause)] for cause in chain if type(cause) in _NEVER_SENT), None)


def _maybe_sent(chain: list[BaseException]) -> str | None:
    """Return the code of the innermost known error, since the HTTP client's error says more than the SDK's; or None."""
    codes = (code for cause in reversed(chain) for kind, code in _MAY_BE_SENT.items() if isinstance(cause, kind))
    return next(codes, None)


def _unforeseen(error: Exception, *, sent: bool) -> ProviderError:
    if isinstance(error, RuntimeError) and "client has been closed" in str(error):
        return ProviderError(Category.CONNECTION, "client_closed", sent=False)
    if sent:
        return ProviderError(Category.UNCERTAIN, "unreadable", sent=True)
    return ProviderError(Category.INTERNAL, "unforeseen", sent=False)
