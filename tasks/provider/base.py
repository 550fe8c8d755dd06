"""The words every provider speaks: what is asked, what comes back, and the one way in which it can fail."""

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
    """One request to a provider; its texts never show in a repr.

    `instructions` are ours; `document` is somebody's and is sent as data. `options` holds what the instructions were
    made from (`length`: short, medium or long; `form`: prose or bullets), for a provider that cannot read sentences.
    `max_output_tokens` None leaves the limit to the provider.
    """

    instructions: str = field(repr=False)
    document: str = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    max_output_tokens: int | None = None


@dataclass(frozen=True)
class Answer:
    """A summary. `text` is valid UTF-8 without NUL and never empty; it never shows in a repr. `cut_off` means that the
    provider's limit ended it, so that it is not complete.

    Token counts are None where the provider does not tell them. `request_id` is the id its support asks for,
    `response_id` the id of the answer itself; None where there is none.
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
    """The provider took the request and works on it; `response_id` is what it can be asked about by."""

    response_id: str


@dataclass
class CallProgress:
    """How far a call got, kept outside it, so that it can still be read after the call was cut off.

    `sent` turns True when the first byte of the request is about to leave: from then on it may be worked on and billed.
    """

    sent: bool = False


call_progress: ContextVar[CallProgress | None] = ContextVar("call_progress", default=None)


class ProviderError(JobError):
    """A call to a provider did not bring a summary. Holds no text of the provider, the person, or the key.

    `http_status` is None when no answer came. `error_code` is the provider's own word, only where it looks like one.
    `retry_after_seconds` is how long the provider asked to stay away, unbounded; None when it did not say.
    `sent` False means that the request certainly never reached the server, so nothing can have been billed.
    `response_over` True is about a response that was asked about: it has ended without a summary, or is gone. False
    says nothing of it: it may go on.
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


class Provider(Protocol):
    """What makes summaries. `name` is for rows and logs, `label` is what a page says about who made the summary."""

    @property
    def name(self) -> str: ...

    @property
    def label(self) -> str: ...

    async def complete(self, prompt: Prompt, *, client_request_id: str) -> Answer:
        """Make one call, without a retry. Raises ProviderError and nothing else, save cancellation."""
        ...

    async def close(self) -> None:
        """Close every connection. No call may follow."""
        ...


@runtime_checkable
class BackgroundProvider(Provider, Protocol):
    """A provider that works on a request while nobody is connected, and can be asked about it afterwards."""

    async def start(self, prompt: Prompt, *, client_request_id: str, metadata: Mapping[str, str]) -> Answer | Pending:
        """Hand the request over. An Answer where the server ignored the wish and answered at once."""
        ...

    async def look(self, response_id: str) -> Answer | Pending:
        """How it stands. Raises ProviderError; its `response_over` tells the end of the response from a look that
        failed. An id the provider does not know is UNCERTAIN, `response_gone`."""
        ...

    async def withdraw(self, response_id: str) -> Answer | None:
        """Cancel it, and look once more: the Answer if it was faster, None if nothing came of it.

        Raises ProviderError: as `look` does where it is gone; OVERLOADED, `still_running`, where it did not stop yet.
        """
        ...

    async def delete(self, response_id: str) -> None:
        """Let the provider forget it. One that is gone already is fine."""
        ...


def clean_text(text: str) -> str:
    """The text as every later reader can take it: PostgreSQL refuses NUL, and UTF-8 refuses half of an emoji."""
    return _LONE_SURROGATE.sub("\ufffd", text.replace("\x00", "")).strip()


def clean_identifier(value: object) -> str | None:
    """The value, if it is a short word of printable ASCII; what a server sends as an id may be anything."""
    return value if isinstance(value, str) and _IDENTIFIER.match(value) else None
