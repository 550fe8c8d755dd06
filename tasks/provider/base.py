"""The interface of all providers: the request, the result, and the one exception for failures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from tasks.ledger.errors import Category, JobError

_ERROR_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_IDENTIFIER = re.compile(r"[\x21-\x7e]{1,200}\Z")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Prompt:
    """Represents one request to a provider. Its texts never show in a repr.

    `instructions` are ours; `document` is the user's and is sent as data. `options` holds the options that the
    instructions were made from (`length`: short, medium or long; `form`: prose or bullets), for a provider that cannot
    read sentences. `max_output_tokens` None leaves the limit to the provider.
    """

    instructions: str = field(repr=False)
    document: str = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    max_output_tokens: int | None = None


@dataclass(frozen=True)
class Answer:
    """Represents the provider's answer to a prompt.

    `text` is valid UTF-8 without NUL and never empty; it never shows in a repr. `cut_off` means that the provider's
    limit ended it, so that it is incomplete. Token counts are None if the provider does not report them. `request_id`
    is the id that its support asks for, `response_id` the id of the answer itself; None if there is none.
    """

    text: str = field(repr=False)
    model: str
    input_tokens: int | None
    output_tokens: int | None
    request_id: str | None
    response_id: str | None
    cut_off: bool = False


@dataclass(frozen=True)
class Pending:
    """Represents a request that the provider accepted and is working on. `response_id` is the id for polling it."""

    response_id: str


@dataclass
class CallProgress:
    """Records the progress of a call, outside the call, so that it can be read after the call was cut off.

    `sent` becomes True when the first byte of the request is about to leave: from then on it may be processed and
    billed.
    """

    sent: bool = False


call_progress: ContextVar[CallProgress | None] = ContextVar("call_progress", default=None)


class ProviderError(JobError):
    """Raised when a call to a provider gave no answer. Holds no text of the provider or the user, and no key.

    `http_status` is None if no HTTP response came. `error_code` is the provider's own code, kept only if it looks like
    a code. `retry_after_seconds` is the wait that the provider asked for, unbounded; None if it did not say.
    `sent` False means that the request certainly never reached the server, so nothing can have been billed.
    `response_over` True means that the polled response has ended without an answer, or is gone. False says nothing
    about it: it may still be running.
    """

    def __init__(
        self,
        category: Category,
        code: str | None = None,
        *,
        sent: bool,
        http_status: int | None = None,
        error_code: str | None = None,
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
        response_over: bool = False,
    ) -> None:
        super().__init__(category, code)
        self.sent = sent
        self.http_status = http_status
        self.error_code = error_code if error_code and _ERROR_CODE.match(error_code) else None
        self.request_id = clean_identifier(request_id)
        self.retry_after_seconds = retry_after_seconds
        self.response_over = response_over


_REFUSED = frozenset({Category.RATE_LIMITED, Category.OVERLOADED, Category.CONNECTION})


def may_have_been_billed(error: JobError) -> bool:
    """Return False if a request was refused, or never left, before any work was done for it."""
    if not isinstance(error, ProviderError):
        return True
    return error.sent and error.category not in _REFUSED


class Provider(Protocol):
    """Makes summaries. `name` is for rows and logs, `label` tells the user what made the summary."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str: ...

    async def complete(self, prompt: Prompt, *, client_request_id: str) -> Answer:
        """Make one call, without a retry. Raises only ProviderError, unless it is cancelled."""
        ...

    async def close(self) -> None:
        """Close every connection. No calls are allowed afterwards."""
        ...


@runtime_checkable
class BackgroundProvider(Provider, Protocol):
    """Makes summaries in the background: works on a request without a connection, and can be polled for it."""

    async def start(self, prompt: Prompt, *, client_request_id: str, metadata: Mapping[str, str]) -> Answer | Pending:
        """Send the request. Returns an Answer if the server ignored the background mode and answered at once."""
        ...

    async def poll(self, response_id: str) -> Answer | Pending:
        """Return the answer, or Pending while the provider is working on it.

        Raises ProviderError; its `response_over` distinguishes the end of the response from a poll that failed. An
        unknown id is UNCERTAIN, `response_gone`.
        """
        ...

    async def cancel(self, response_id: str) -> Answer | None:
        """Cancel the response and poll it once more. Returns the Answer if it was faster, None if there is none.

        Raises ProviderError: as `poll` does if it is gone; OVERLOADED, `still_running`, if it has not stopped yet.
        """
        ...

    async def delete(self, response_id: str) -> None:
        """Delete the response at the provider. Does nothing if it is gone already."""
        ...


def clean_text(text: str) -> str:
    """Return the text without NUL, which PostgreSQL refuses, and lone surrogates, which UTF-8 refuses."""
    return _LONE_SURROGATE.sub("\ufffd", text.replace("\x00", "")).strip()


def clean_identifier(value: object) -> str | None:
    """Return the value if it is a short word of printable ASCII, else None; a server may send anything as an id."""
    return value if isinstance(value, str) and _IDENTIFIER.match(value) else None
