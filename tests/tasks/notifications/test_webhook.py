"""A webhook reaches the address that was checked, by TLS and signed, and cannot be misused for anything else."""

from __future__ import annotations

import base64
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tasks.ledger.models.notifications import Channel
from tasks.ledger.notifications.outbox import PendingNotification
from tasks.notifications.errors import NotSent
from tasks.notifications.webhook import WebhookPost
from tasks.notifications.webhook_signature import signed_headers
from tasks.notifications.webhook_target import addresses_of, read_target
from tests.support import factories
from tests.support.fakes.mail_and_webhook_servers import WebhookReceiver, webhook_receiver
from tests.tasks.notifications.conftest import Certificates, notice
from webapp.local.ports import free_port

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def receiver(certificates: Certificates) -> Iterator[WebhookReceiver]:
    with webhook_receiver(context=certificates.server("localhost")) as receiver:
        yield receiver


@pytest.fixture
def post(certificates: Certificates) -> WebhookPost:
    return WebhookPost(loopback=True, context=certificates.client)


def to(url: str) -> PendingNotification:
    return notice(Channel.WEBHOOK, url)


def outcome(post: WebhookPost, url: str) -> tuple[str, bool] | None:
    try:
        post.send(to(url), SECRET)
    except NotSent as failure:
        return failure.code, failure.for_good
    return None


def test_what_arrives_is_signed_and_the_same_at_each_try(receiver: WebhookReceiver, post: WebhookPost) -> None:
    for _ in range(2):
        post.send(to(f"{receiver.url}/hook?for=ada"), SECRET)
    first, second = receiver.received
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == "job_7_2"
    assert first.path == "/hook?for=ada"
    assert first.headers["host"] == receiver.url.removeprefix("https://")
    payload = Webhook(SECRET).verify(first.body, dict(first.headers))
    assert payload == first.said
    assert (payload["type"], payload["timestamp"]) == ("job.succeeded", "2026-11-29T12:00:00+00:00")
    assert payload["data"]["id"] == "7"
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(first.body.replace("succeeded", "failed"), dict(first.headers))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, None),
        (204, None),
        (302, ("redirect", False)),
        (307, ("redirect", False)),
        (404, ("http_404", False)),
        (410, ("gone", True)),
        (429, ("http_429", False)),
        (500, ("http_500", False)),
    ],
)
def test_only_a_2xx_is_a_success_and_no_redirect_is_followed(
    receiver: WebhookReceiver, post: WebhookPost, status: int, expected: tuple[str, bool] | None
) -> None:
    receiver.answers = [status]
    assert outcome(post, receiver.url) == expected
    assert len(receiver.received) == 1


def test_the_certificate_has_to_be_that_of_the_name(certificates: Certificates, post: WebhookPost) -> None:
    with webhook_receiver(context=certificates.server("other.example.org")) as receiver:
        assert outcome(post, receiver.url) == ("tls", False)
        assert receiver.received == []
    with webhook_receiver(context=certificates.server("localhost")) as receiver:
        untrusting = WebhookPost(loopback=True, context=ssl.create_default_context())
        assert outcome(untrusting, receiver.url) == ("tls", False)
        assert outcome(post, receiver.url) is None


def test_the_limit_is_by_the_wall_clock(certificates: Certificates) -> None:
    """Check the limit with a server that sends a byte now and then, so that no single read times out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        post = WebhookPost(loopback=True, exchange_seconds=0.8)
        began = time.monotonic()

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    for byte in b"HTTP/1.1 200 OK\r\nx-slow: " + b"a" * 200:
                        connection.send(bytes([byte]))
                        time.sleep(0.1)  # the drip itself
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        assert outcome(post, f"http://127.0.0.1:{server.getsockname()[1]}/") == ("timeout", False)
        assert time.monotonic() - began < 10
        thread.join(10)


def test_a_refused_connection_is_reported_and_the_next_address_is_tried(
    receiver: WebhookReceiver, post: WebhookPost
) -> None:
    assert outcome(post, f"http://127.0.0.1:{free_port()}/") == ("connect", False)
    port = int(receiver.url.rpartition(":")[2])

    def two(host: str, at: int, **_: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, at)) for one in ("127.0.0.9", "127.0.0.1")]

    assert port and outcome(WebhookPost(loopback=True, context=post._context, resolve=two), receiver.url) is None


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machine_is_out_of_reach_unless_it_is_set(receiver: WebhookReceiver, name: str) -> None:
    port = receiver.url.rpartition(":")[2]
    assert outcome(WebhookPost(), f"https://{name}:{port}/") == ("not_public", True)
    assert outcome(WebhookPost(), f"http://{name}:{port}/") == ("not_https", True)
    assert receiver.received == []


def test_a_name_that_changes_its_address_after_the_check_changes_nothing(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check DNS rebinding: the first answer passes the check, all later answers are internal addresses."""
    with (
        webhook_receiver(context=certificates.server("moving.test")) as allowed,
        webhook_receiver(
            context=certificates.server("moving.test"), host="127.0.0.2", port=int(allowed.url.rpartition(":")[2])
        ) as forbidden,
    ):
        port = int(allowed.url.rpartition(":")[2])
        asked: list[str] = []
        real = socket.getaddrinfo

        def moving(host: Any, *rest: Any, **more: Any) -> Any:
            if host not in ("moving.test", b"moving.test"):
                return real(host, *rest, **more)
            asked.append(host)
            return real("127.0.0.1" if len(asked) == 1 else "127.0.0.2", *rest, **more)

        monkeypatch.setattr(socket, "getaddrinfo", moving)
        url = f"https://moving.test:{port}/"
        # The negative control: check, then let a client resolve the name for itself.
        addresses_of(read_target(url, loopback=True), loopback=True, resolve=moving)
        with httpx2.Client(verify=certificates.client, trust_env=False) as naive:
            naive.post(url, content=b"{}")
        assert (len(allowed.received), len(forbidden.received)) == (0, 1)

        asked.clear()
        assert outcome(WebhookPost(loopback=True, context=certificates.client, resolve=moving), url) is None
        assert (len(allowed.received), len(forbidden.received)) == (1, 1)
        assert len(asked) == 1, "resolved once"


def test_no_proxy_of_the_environment_gets_between(
    receiver: WebhookReceiver, post: WebhookPost, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert outcome(post, receiver.url) is None


def test_the_check_that_the_guide_shows_takes_what_we_sign_and_nothing_else(
    receiver: WebhookReceiver, post: WebhookPost
) -> None:
    guide = (factories.ROOT / "docs" / "api.md").read_text()
    [shown] = [block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "def event_in" in block]
    known: dict[str, Any] = {}
    exec(shown, known)
    event_in = known["event_in"]
    assert outcome(post, receiver.url) is None
    [sent] = receiver.received
    body = sent.body.encode()
    assert event_in(body, sent.headers, SECRET)["type"] == "job.succeeded"
    others = "whsec_" + base64.b64encode(b"somebody else's secret..").decode()
    for wrong in (
        (body + b" ", sent.headers, SECRET),
        (body, {**sent.headers, "webhook-id": "another"}, SECRET),
        (body, {**sent.headers, "webhook-timestamp": "1"}, SECRET),
        (body, {**sent.headers, "webhook-signature": "v1,"}, SECRET),
        (body, sent.headers, others),
    ):
        assert event_in(*wrong) is None
    old = int(sent.headers["webhook-timestamp"])
    late = signed_headers("job_7_2", sent.body, SECRET, datetime.fromtimestamp(old - 400, UTC))
    assert event_in(body, late, SECRET) is None, "rightly signed, and too old"
