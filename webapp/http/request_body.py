"""Keeps the text of forms that are too large, and reads every request to its end before it responds.

A browser that is still sending when the connection closes shows its own error instead of our page.
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

MAX_REQUEST_BYTES = 128 * 1024 * 1024
"""Bytes of one request that are read at most. Larger requests see the connection close."""
IN_MEMORY = 512 * 1024
"""Bytes of a file that are held in memory; longer files go to a temporary file."""
AT_ONCE = 64 * 1024


class StoredFile(SpooledTemporaryFile[bytes]):
    """Stores a file of a form, up to the capacity of the form."""

    def __init__(self, form: FormRequest) -> None:
        super().__init__(max_size=IN_MEMORY, mode="rb+")
        self._form = form

    def write(self, data: ReadableBuffer) -> int:
        """Store the data as far as the form's capacity allows. The form notices if something was dropped."""
        piece = memoryview(data)
        super().write(piece[: max(0, self._form.capacity)])
        self._form.capacity -= len(piece)
        return len(piece)


class FormRequest(HtmxAwareRequest):  # type: ignore[misc]
    """Reads a form to its end even if its files are too large.

    No view sees such a request: the first access to the form raises RequestEntityTooLarge. The text fields are kept for
    the error page, the files are not.
    """

    capacity: int

    @property
    def max_content_length(self) -> int | None:
        """Return the limit of bytes to read. Only the files of a form may be read beyond what is kept of them."""
        limit: int | None = super().max_content_length
        return limit if limit is None or self.mimetype != "multipart/form-data" else max(limit, MAX_REQUEST_BYTES)

    @max_content_length.setter
    def max_content_length(self, value: int | None) -> None:
        self._max_content_length = value

    def _get_file_stream(self, *_: object, **__: object) -> IO[bytes]:
        self._streams.append(StoredFile(self))
        return self._streams[-1]

    def _load_form_data(self) -> None:
        if "form" in self.__dict__:
            return
        self.capacity = super().max_content_length or MAX_REQUEST_BYTES
        self._streams: list[StoredFile] = []
        try:
            super()._load_form_data()
        finally:
            if self.capacity < 0 or not self.__dict__.get("files"):
                for stream in self._streams:
                    stream.close()
        if self.capacity < 0:
            self.__dict__["files"] = ImmutableMultiDict()
            raise RequestEntityTooLarge


def init_app(app: Flask) -> None:
    """Install the request class. Call it after `htmx.init_app`, which sets its own."""
    app.request_class = FormRequest
    app.after_request(_read_on)


def typed() -> Mapping[str, str]:
    """Return the submitted text fields, as far as they could be read; empty if there are none."""
    return request.form if request.method == "POST" and "form" in request.__dict__ else {}


def _read_on(response: Response) -> Response:
    """Read and drop the rest of the request, up to a limit, if the view left it unread while it still arrives."""
    stream = request.environ["wsgi.input"]
    left = (
        MAX_REQUEST_BYTES if request.environ.get("wsgi.input_terminated") else 0
    )  # otherwise reading could wait forever
    try:
        while left > 0 and (piece := stream.read(min(left, AT_ONCE))):
            left -= len(piece)
    except (OSError, ValueError):
        pass  # the client is gone, or violated the protocol
    return response
