"""The proxies of compose.yaml and docs/own-server.md: a real Caddy and a real nginx with these configurations, in front
of a web process that is set up as on a real site.

compose.yaml once published plain http and trusted a proxy that did not exist: nobody could sign in, and each client
chose the address by which it was counted.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.support import factories
from tests.support.processes.processes import Process, answers, process
from tests.support.services.proxies import Front, Visitor, blocks, caddy, nginx
from tests.web.http.test_path_prefix import addresses_in
from webapp.auth import passwords
from webapp.local.ports import free_port
from webapp.models import Account

EMAIL, PASSWORD = "ada@example.org", "a harbour at night"
PREFIX = "/waybill"
Running = Callable[[Path, int], AbstractContextManager[Front]]


def at(config: str, web_port: int) -> str:
    """Return the documented configuration, for localhost and the port of a test."""
    return re.sub(r"(waybill\.)?example\.org", "localhost", config).replace("127.0.0.1:8000", f"127.0.0.1:{web_port}")


def shipped_caddy(directory: Path, web_port: int) -> AbstractContextManager[Front]:
    return caddy(directory, (factories.ROOT / "Caddyfile").read_text(), WEB_ADDRESS=f"127.0.0.1:{web_port}")


def documented_caddy(directory: Path, web_port: int) -> AbstractContextManager[Front]:
    return caddy(directory, at(blocks("caddy")[0], web_port))


def documented_nginx(directory: Path, web_port: int) -> AbstractContextManager[Front]:
    return nginx(directory, at(blocks("nginx")[0], web_port))


def caddy_with_prefix(directory: Path, web_port: int) -> AbstractContextManager[Front]:
    return caddy(directory, at(blocks("caddy")[1], web_port))


def nginx_with_prefix(directory: Path, web_port: int) -> AbstractContextManager[Front]:
    whole, inside = blocks("nginx")
    other = re.sub(r"    location / \{.*?\n    \}\n", lambda _: inside, whole, flags=re.DOTALL)
    return nginx(directory, at(other, web_port))


@contextmanager
def real_site(addresses: dict[str, str], base_url: str) -> Iterator[tuple[int, Process]]:
    """Start the web process as docs/own-server.md sets it up, and yield its port."""
    port = free_port()
    written = dict(line.split("=", 1) for line in blocks("ini")[0].splitlines())
    ours = {"WAYBILL_DEMO": "0", "AI_PROVIDER": "openai", "QUEUE_NAME": factories.QUEUE, "SECRET_KEY": "s" * 40}
    variables = factories.environment({**written, **addresses}, **ours, PORT=str(port), APP_BASE_URL=base_url)
    with process(["-m", "gunicorn", "wsgi:app"], variables) as web:
        factories.wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), within=40, what=lambda: web.log)
        yield port, web


@pytest.fixture(scope="module")
def accounts(addresses: dict[str, str]) -> None:
    from tasks.database import Database

    with Database(factories.settings(addresses), "waybill-test") as database, database.transaction() as session:
        factories.empty(session)
        session.add(Account(email=EMAIL, password_hash=passwords.hash_password(PASSWORD)))


@pytest.fixture(scope="module", params=[shipped_caddy, documented_caddy, documented_nginx])
def visitor(
    request: pytest.FixtureRequest, addresses: dict[str, str], accounts: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Visitor]:
    run: Running = request.param
    directory = tmp_path_factory.mktemp("front")
    with real_site(addresses, "https://localhost") as (port, _), run(directory, port) as front:
        yield Visitor(front, port)


@pytest.fixture(autouse=True)
def no_attempts_so_far(addresses: dict[str, str]) -> None:
    factories.empty_redis(addresses["REDIS_URL"])


def test_a_person_signs_in_with_the_secure_cookie(visitor: Visitor) -> None:
    signed_in = visitor.sign_in(EMAIL, PASSWORD)
    assert (signed_in.status, signed_in.headers["Location"]) == (303, "/"), signed_in.text
    assert signed_in.cookie.startswith("__Host-session=")
    assert visitor.ask("GET", "/account", Cookie=signed_in.cookie).status == 200


def test_plain_http_leads_to_https(visitor: Visitor) -> None:
    answer = visitor.plain("/login")
    assert answer.status == 308 and answer.headers["Location"].startswith("https://localhost")


def test_nobody_chooses_the_address_they_are_counted_by(visitor: Visitor) -> None:
    assert visitor.guesses(12) == [401] * 10 + [429] * 2


def test_past_the_proxy_everybody_does(visitor: Visitor) -> None:
    """Check the control, which shows why the web process is not published."""
    as_a_proxy = {"X_Forwarded_Host": f"localhost:{visitor.front.https}", "X_Forwarded_Proto": "https"}
    assert visitor.guesses(12, past=True, **as_a_proxy) == [401] * 12


def test_a_client_cannot_say_how_it_came(visitor: Visitor) -> None:
    """Check that the proxy replaces forged headers. Past the proxy they are believed, which is the control."""
    forged = {"X_Forwarded_Proto": "http", "X_Forwarded_Host": "evil.example"}
    for past in (False, True):
        answer = visitor.ask("POST", "/login", {}, past=past, **forged)
        assert answer.status == 400 and ("This site needs https" in answer.text) is past


def test_a_client_cannot_put_a_path_before_every_address(visitor: Visitor) -> None:
    """Check a forged SCRIPT_NAME: gunicorn accepts that header from clients on the same machine, as the proxy is."""
    with socket.create_connection(("127.0.0.1", visitor.web_port), 20) as connection:
        head = (
            "GET //evil.example/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nSCRIPT_NAME: //evil.example\r\n\r\n"
        )
        connection.sendall(head.encode())
        reply = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b'="//evil' not in reply and reply.startswith(b"HTTP/1.1 404"), reply[:300]


@pytest.mark.parametrize("run", [caddy_with_prefix, nginx_with_prefix])
def test_under_a_path_of_another_site_everything_has_the_path(
    addresses: dict[str, str], accounts: None, tmp_path: Path, run: Running
) -> None:
    with real_site(addresses, f"https://localhost{PREFIX}") as (port, web), run(tmp_path, port) as front:
        visitor = Visitor(front, port, PREFIX)
        signed_in = visitor.sign_in(EMAIL, PASSWORD)
        assert (signed_in.status, signed_in.headers["Location"]) == (303, f"{PREFIX}/"), signed_in.text
        home = visitor.ask("GET", "/", Cookie=signed_in.cookie)
        found = set(addresses_in(home.text))
        assert len(found) > 8 and all(address.startswith(f"{PREFIX}/") for address in found)
        for address in found:
            opened = visitor.ask("GET", address.removeprefix(PREFIX).partition("#")[0], Cookie=signed_in.cookie)
            assert opened.status in (200, 204, 405), address
        assert Visitor(front, port).ask("GET", PREFIX).headers["Location"].endswith(f"{PREFIX}/")
        assert "look_at" not in web.log
