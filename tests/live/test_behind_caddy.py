"""The front that compose.yaml ships: a real Caddy with the shipped Caddyfile, before a web process as on a real site.

It was a port of plain http with one trusted proxy that was not there: nobody could sign in, and everybody chose the
address by which they were counted.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tasks.database import Database
from tests.support import house
from tests.support.front_proxies import Caddy, caddy
from tests.support.processes import Process, answers, process
from webapp import passwords
from webapp.embedded import free_port
from webapp.models import Account

EMAIL, PASSWORD = "ada@example.org", "a harbour at night"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def cookie(self) -> str:
        return self.headers.get("Set-Cookie", "").partition(";")[0]

    @property
    def proof(self) -> str:
        return re.findall(r'name="csrf_token" value="([^"]+)"', self.text)[0]


@dataclass
class Front:
    """Caddy, and the web process behind it."""

    proxy: Caddy
    web_port: int
    web: Process

    def ask(self, method: str, path: str, body: bytes = b"", *, past: bool = False, **headers: str) -> Answer:
        """Ask through Caddy, by https; `past`: the web process itself, as the published port once was."""
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.web_port, timeout=20)
            if past
            else http.client.HTTPSConnection("localhost", self.proxy.https, context=self.proxy.trust, timeout=20)
        )
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["Referer"] = f"https://localhost:{self.proxy.https}/login"  # as browsers do; a proof of origin needs it
        connection.request(method, path, body, {"Connection": "close", **named})
        answer = connection.getresponse()
        found = Answer(answer.status, answer.headers, answer.read().decode())
        connection.close()
        return found

    def try_to_sign_in(self, password: str, *, past: bool = False, **headers: str) -> Answer:
        page = self.ask("GET", "/login", past=past, **headers)
        body = urlencode({"csrf_token": page.proof, "email": EMAIL, "password": password}).encode()
        return self.ask("POST", "/login", body, past=past, Cookie=page.cookie, **FORM, **headers)


@pytest.fixture(scope="module")
def front(addresses: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    directory: Path = tmp_path_factory.mktemp("caddy")
    port = free_port()
    with Database(house.settings(addresses), "waybill-test") as database, database.transaction() as session:
        house.empty(session)
        session.add(Account(email=EMAIL, password_hash=passwords.hash_password(PASSWORD)))
    real = {"WAYBILL_DEMO": "0", "SECRET_KEY": "a long random text of our own", "PROXY_HOPS": "1"}
    variables = house.environment(addresses, HOST="127.0.0.1", PORT=str(port), APP_BASE_URL="https://localhost", **real)
    with process(["-m", "gunicorn", "wsgi:app"], variables) as web, caddy(directory, port) as proxy:
        house.wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), within=40, what=lambda: web.log)
        yield Front(proxy, port, web)


@pytest.fixture(autouse=True)
def no_attempts_so_far(addresses: dict[str, str]) -> None:
    house.empty_redis(addresses["REDIS_URL"])


def test_a_person_signs_in_with_the_secure_cookie(front: Front) -> None:
    signed_in = front.try_to_sign_in(PASSWORD)
    assert (signed_in.status, signed_in.headers["Location"]) == (303, "/"), signed_in.text
    assert signed_in.cookie.startswith("__Host-session=")
    assert front.ask("GET", "/account", Cookie=signed_in.cookie).status == 200
    assert "request.not_https" not in front.web.log


def test_plain_http_leads_to_https(front: Front) -> None:
    connection = http.client.HTTPConnection("localhost", front.proxy.http, timeout=20)
    connection.request("GET", "/login")
    answer = connection.getresponse()
    assert answer.status == 308 and answer.headers["Location"].startswith("https://localhost")
    connection.close()


@pytest.mark.parametrize("past", [False, True], ids=["through Caddy", "past it: control"])
def test_nobody_chooses_the_address_they_are_counted_by(front: Front, past: bool) -> None:
    forged = {"X_Forwarded_Host": f"localhost:{front.proxy.https}", "X_Forwarded_Proto": "https"}
    page = front.ask("GET", "/login", past=past, **forged)

    def guess(number: int) -> int:
        fields = {"csrf_token": page.proof, "email": f"a{number}@example.org", "password": "-"}
        more = {**FORM, **forged, "Cookie": page.cookie, "X_Forwarded_For": f"10.0.0.{number}"}
        return front.ask("POST", "/login", urlencode(fields).encode(), past=past, **more).status

    statuses = [guess(number) for number in range(32)]
    assert statuses == ([401] * 32 if past else [401] * 30 + [429] * 2)


def test_a_client_cannot_say_that_it_came_by_http(front: Front) -> None:
    """The page about https would be shown for a made-up header; Caddy replaces it."""
    answer = front.ask("POST", "/login", b"", X_Forwarded_Proto="http", **FORM)
    assert answer.status == 400 and "This site needs https" not in answer.text
    control = front.ask("POST", "/login", b"", past=True, X_Forwarded_Proto="http", **FORM)
    assert "This site needs https" in control.text
