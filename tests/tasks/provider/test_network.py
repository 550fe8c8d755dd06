"""Tests calls that end without an answer: the category depends on whether the request had been sent."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tasks.fake_provider import FakeProvider
from tasks.ledger.errors import Category
from tasks.provider import ProviderError

Failure = Callable[..., ProviderError]


def test_no_answer_within_the_limit_of_one_read_is_uncertain(fake: FakeProvider, failure: Failure) -> None:
    fake.script([{"mode": "hang"}])
    error = failure(call_seconds=0.3)
    assert (error.category, error.code, error.sent) == (Category.UNCERTAIN, "read_timeout", True)
    fake.wait_for_client_gone()


def test_answer_without_end_does_not_fill_the_memory(fake: FakeProvider, failure: Failure) -> None:
    fake.script([{"mode": "flood"}])
    error = failure()
    assert (error.category, error.code, error.sent) == (Category.UNCERTAIN, "too_big", True)
    fake.wait_for_client_gone()


def test_request_body_is_not_forwarded_by_a_redirect(fake: FakeProvider, failure: Failure) -> None:
    with FakeProvider() as elsewhere:
        fake.script([{"mode": "redirect", "to": f"{elsewhere.base_url}/responses"}])
        error = failure()
        assert (error.category, error.code, error.http_status) == (Category.PERMISSION, "redirect", 307)
        assert elsewhere.requests == []


def test_nobody_listens(failure: Failure) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        error = failure(base_url=f"http://127.0.0.1:{bound.getsockname()[1]}/v1")
    assert (error.category, error.code, error.sent) == (Category.CONNECTION, "connect", False)


def test_server_that_does_not_take_connections(failure: Failure) -> None:
    with _full_backlog() as url:
        error = failure(base_url=url, connect_timeout_seconds=0.3)
    assert (error.category, error.code, error.sent) == (Category.CONNECTION, "connect_timeout", False)


def test_budget_spent_before_anything_was_sent(failure: Failure) -> None:
    with _full_backlog() as url:
        error = failure(base_url=url, connect_timeout_seconds=30, budget_seconds=0.3)
    assert (error.category, error.code, error.sent) == (Category.TIMEOUT, "call_budget", False)


def test_plain_server_asked_for_tls(fake: FakeProvider, failure: Failure) -> None:
    error = failure(base_url=fake.base_url.replace("http:", "https:"))
    assert (error.category, error.code, error.sent) == (Category.CONNECTION, "connect", False)


def test_certificate_that_nobody_trusts(failure: Failure, tmp_path: Any) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    pem = tmp_path / "self-signed.pem"
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*command.split(), "-keyout", pem, "-out", f"{pem}.crt"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{pem}.crt", pem)
    with _raw_server(b"", context) as port:
        error = failure(base_url=f"https://127.0.0.1:{port}/v1")
    assert (error.category, error.code, error.sent) == (Category.PERMISSION, "tls", False)


@pytest.mark.parametrize(
    ("answer", "category", "code"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", Category.AUTH, "proxy_credentials"),
        (b"HTTP/1.1 503 Busy\r\n\r\n", Category.CONNECTION, "proxy"),
    ],
)
def test_proxy_refuses_the_tunnel(
    failure: Failure, monkeypatch: pytest.MonkeyPatch, answer: bytes, category: Category, code: str
) -> None:
    with _raw_server(answer) as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:PROXYPASSWORD@127.0.0.1:{port}")
        error = failure(base_url="https://provider.invalid/v1")
    assert (error.category, error.code, error.sent) == (category, code, False)


@contextmanager
def _raw_server(answer: bytes, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Run a server that sends these bytes to its first client, whatever the request."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    if tls is not None:
                        connection = tls.wrap_socket(connection, server_side=True)
                    connection.recv(65536)
                    connection.sendall(answer)
                except OSError:
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@contextmanager
def _full_backlog() -> Iterator[str]:
    """Provide an address where the kernel drops every new connection, as a firewall does."""
    with socket.socket() as server, socket.socket() as first, socket.socket() as second:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
