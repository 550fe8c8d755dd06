"""Forms that are too large come back with what was typed, and every answer waits until the sender has finished.

A browser that is still sending when the connection closes shows an error of its own instead of our page.
"""

from __future__ import annotations

from collections.abc import Mapping
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING

from flask import Flask, Response, request
from htmx_flask.requests import HtmxAwareRequest
from werkzeug.datastructures import ImmutableMultiDict
from werkzeug.exceptions import RequestEntityTooLarge

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

MOST_TO_READ = 128 * 1024 * 1024
"""Bytes of one request that are read at all. Whoever sends more than that sees the connection close."""
IN_MEMORY = 512 * 1024
"""Bytes of a file that are held in memory; what is longer goes to a temporary file."""
AT_ONCE = 64 * 1024


class Kept(SpooledTemporaryFile[bytes]):
    """A file of a form, of which no more is kept than the form has room for."""

    def __init__(self, form: FormRequest) -> None:
        super().__init__(max_size=IN_MEMORY, mode="rb+")
        self._of = form

    def write(self, data: ReadableBuffer) -> int:
        """Keep it, or as much of it as there is room for. The form knows when something was left out."""
        piece = memoryview(data)
        super().write(piece[: max(0, self._of.room)])
        self._of.room -= len(piece)
        return len(piece)


class FormRequest(HtmxAwareRequest):  # type: ignore[misc]
    """A request whose form is read to its end also where its files are too large.

    Then no view gets to see it: the first who asks for the form meets RequestEntityTooLarge. What was typed into its
    other fields is there for the page that says so, and its files are not.
    """

    room: int

    @property
    def max_content_length(self) -> int | None:
        """How much is read. Only the files of a form may go on beyond what is kept of them."""
        most: int | None = super().max_content_length
        return most if most is None or self.mimetype != "multipart/form-data" else max(most, MOST_TO_READ)

    @max_content_length.setter
    def max_content_length(self, value: int | None) -> None:
        self._max_content_length = value

    def _get_file_stream(self, *_: object, **__: object) -> IO[bytes]:
        self._streams.append(Kept(self))
        return self._streams[-1]

    def _load_form_data(self) -> None:
        if "form" in self.__dict__:
            return
        self.room = super().max_content_length or MOST_TO_READ
        self._streams: list[Kept] = []
        try:
            super()._load_form_data()
        finally:
            if self.room < 0 or not self.__dict__.get("files"):
                for stream in self._streams:
                    stream.close()
        if self.room < 0:
            self.__dict__["files"] = ImmutableMultiDict()
            raise RequestEntityTooLarge


def init_app(app: Flask) -> None:
    """To be called after `htmx.init_app`, which sets a request class of its own."""
    app.request_class = FormRequest
    app.after_request(_read_on)


def typed() -> Mapping[str, str]:
    """What was typed into the form that is being answered, as far as it could be read; empty where none was sent."""
    return request.form if request.method == "POST" and "form" in request.__dict__ else {}


def _read_on(response: Response) -> Response:
    """Read to the end of what is being sent, to a limit, and forget it: nobody read it, and it is still on its way."""
    stream = request.environ["wsgi.input"]
    left = MOST_TO_READ if request.environ.get("wsgi.input_terminated") else 0  # else reading on could wait for ever
    try:
        while left > 0 and (piece := stream.read(min(left, AT_ONCE))):
            left -= len(piece)
    except (OSError, ValueError):
        pass  # the sender is gone, or never kept to the rules
    return response
