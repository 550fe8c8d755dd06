"""A mail server and a web server on loopback, real ones, that record what they receive."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.factories import wait_until
from webapp.local.ports import free_port


@dataclass(frozen=True)
class Received:
    """One request of a webhook."""

    path: str
    headers: Mapping[str, str]
    body: str

    @property
    def said(self) -> dict[str, Any]:
        """Return the parsed body."""
        return dict(json.loads(self.body))


@dataclass
class WebhookReceiver:
    """A web server. `answers` are the statuses of its responses, then always 204. 0 sends no response at all.

    `retry_after` is sent as the header of that name with each of them, unless empty.
    """

    url: str = ""
    retry_after: str = ""
    answers: list[int] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def wait_for(self, number: int) -> list[Received]:
        """Wait for this many requests and return them."""
        wait_until(lambda: len(self.received) >= number, what=lambda: f"{number} webhooks; came: {self.received}")
        return self.received


@contextmanager
def webhook_receiver(
    *, context: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> Iterator[WebhookReceiver]:
    """Listen while the block runs; with `context` by TLS."""
    receiver = WebhookReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, headers, body))
            status = receiver.answers.pop(0) if receiver.answers else 204
            if status == 0:
                receiver.closing.wait(30)
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"{receiver.url}/elsewhere")
            if receiver.retry_after:
                self.send_header("retry-after", receiver.retry_after)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            """Log nothing: tests read the requests themselves."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Ignore errors: some tests are about a TLS handshake that the client aborts."""

    server = Server((host, port), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    scheme = "http" if context is None else "https"
    receiver.url = f"{scheme}://{'localhost' if context else host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.closing.set()
        server.shutdown()
        server.server_close()


@dataclass
class MailReceiver:
    """A mail server. `refuse` is its reply to the recipient, such as `550 no such person`; empty accepts all."""

    port: int = 0
    refuse: str = ""
    received: list[EmailMessage] = field(default_factory=list)
    logins: list[tuple[str, str]] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.refuse:
            return self.refuse
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        message = message_from_bytes(envelope.content or b"", policy=default)  # type: ignore[arg-type]
        assert isinstance(message, EmailMessage)
        self.received.append(message)
        self.encrypted.append(session.ssl is not None)
        return "250 taken"

    def authenticate(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login.decode(), data.password.decode()))
        return AuthResult(success=data.password == b"right", handled=False)

    def wait_for(self, number: int) -> list[EmailMessage]:
        """Wait for this many mails and return them."""
        wait_until(lambda: len(self.received) >= number, what=lambda: f"{number} mails; came: {self.received}")
        return self.received


@contextmanager
def mail_receiver(*, context: ssl.SSLContext | None = None) -> Iterator[MailReceiver]:
    """Listen while the block runs; with `context` it requires STARTTLS and a login with the password `right`."""
    receiver = MailReceiver(port=free_port())
    secure = context is not None
    more: dict[str, Any] = {"tls_context": context, "require_starttls": True, "auth_required": True} if secure else {}
    controller = Controller(
        receiver,
        hostname="127.0.0.1",
        port=receiver.port,
        server_hostname="mail.test",
        authenticator=receiver.authenticate,
        **more,
    )
    controller.start()
    try:
        yield receiver
    finally:
        controller.stop()
