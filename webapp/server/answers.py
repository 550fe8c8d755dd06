"""Writes responses to the connection: their headers, and when the connection closes after them."""

from __future__ import annotations

import time
from typing import Any

from waitress.channel import ClientDisconnected
from waitress.task import ErrorTask, Task, WSGITask
from waitress.utilities import build_http_date

from tasks.observability.logs import log_fields
from webapp.server.refusals import BY_CODE, FAILED, MALFORMED, Refusal, log

WITHOUT_BODY = ("1", "204", "304")


class Answer(Task):
    """Sends one response.

    Unlike waitress's, one without a body or without a known length leaves the connection open.
    """

    @property
    def has_body(self) -> bool:
        """True if anything follows the headers."""
        return self.request.command != "HEAD" and not self.status.startswith(WITHOUT_BODY)

    def service(self) -> None:
        """Create the response and send it. Never raises: errors are logged without the URL."""
        try:
            self.start()
            self.execute()
            self.finish()
        except ClientDisconnected:
            self.close_on_finish = True
        except Exception as error:
            log.error("request.broken", **log_fields(error))
            self.close_on_finish = True
            if not self.wrote_header:
                self._say(FAILED)

    def set_close_on_finish(self) -> None:
        """Close the connection after this response. The header is added where all headers are."""
        self.close_on_finish = True

    def build_response_header(self) -> bytes:
        """Return the status line and the headers."""
        headers = [(name, value) for name, value in self.response_headers if self._may_say(name)]
        named = {name.lower() for name, _ in headers}
        if "content-length" not in named and not self.status.startswith(WITHOUT_BODY):
            headers += self._framing()
        if self.channel.ends_with_answer(self.request):
            self.close_on_finish = True
        if self.close_on_finish:
            headers.append(("Connection", "close"))
        elif self.version == "1.0":
            headers.append(("Connection", "keep-alive"))
        if "date" not in named:
            headers.append(("Date", build_http_date(time.time())))
        lines = [f"HTTP/{self.version} {self.status}", *(f"{name}: {value}" for name, value in headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")

    def _may_say(self, name: str) -> bool:
        return name.lower() != "content-length" or not self.status.startswith(WITHOUT_BODY)

    def _framing(self) -> list[tuple[str, str]]:
        """Return the headers by which a client finds the end of a response for which the app gave no length."""
        if self.content_length is not None:
            return [("Content-Length", str(self.content_length))]
        if self.version == "1.1":
            self.chunked_response = self.has_body
            return [("Transfer-Encoding", "chunked")]
        self.close_on_finish = True
        return []

    def _say(self, refusal: Refusal) -> None:
        self.status, self.response_headers = refusal.status, list(refusal.headers)
        self.content_length, self.content_bytes_written = len(refusal.body), 0
        self.complete = self.close_on_finish = True
        try:
            self.write(refusal.body)
        except ClientDisconnected:
            return


class AppAnswer(Answer, WSGITask):
    """Sends the app's response."""

    def build_response_header(self) -> bytes:
        """Return the headers, and record the length so that downloads are known."""
        if self.request.command == "GET" and self.status.startswith("200"):
            self.channel.learn(self.request.path, self.content_length or 0)
        return super().build_response_header()

    def get_environment(self) -> dict[str, Any]:
        """Return waitress's environment, with the port of the socket that the client connected to."""
        environ: dict[str, Any] = super().get_environment()
        environ["SERVER_PORT"] = self.channel.port
        environ["wsgi.multiprocess"] = True
        return environ


class RefusedAnswer(Answer, ErrorTask):
    """Sends a response of the server itself."""

    def execute(self) -> None:
        """Send the reason as a short text."""
        error = self.request.error
        refusal = error if isinstance(error, Refusal) else BY_CODE.get(error.code, MALFORMED)
        self.channel.count_refusal(refusal)
        self._say(refusal)
