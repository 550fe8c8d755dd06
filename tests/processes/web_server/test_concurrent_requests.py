"""Tests that need a real server with several processes: simultaneous clicks, limits that hold across processes, and
responses that arrive although the client was still sending."""

from __future__ import annotations

import http.client
import re
import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from sqlalchemy import select

from tasks.database import Database
from tasks.ledger.accounts import limits
from tasks.ledger.accounts.limits import Limit
from tests.support import factories
from tests.support.processes.processes import Process, answers, process
from webapp.auth import passwords
from webapp.local.ports import free_port
from webapp.models import Account

EMAIL, PASSWORD = "ada@example.org", "a harbour at night"
PROCESSES, LIMIT = 3, 1024 * 1024
FORM = "application/x-www-form-urlencoded"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    text: str


@dataclass
class Front:
    """Runs a site of three web processes behind one trusted proxy."""

    port: int
    web: Process
    database: Database

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Send a request over its own connection, which ends with the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"Connection": "close", **named})
        answer = connection.getresponse()
        found = Answer(answer.status, answer.headers, answer.read().decode())
        connection.close()
        return found

    def count(self, table: str) -> int:
        with self.database.transaction() as session:
            return factories.count(session, table)


@dataclass
class Visitor:
    """Holds the cookie and the CSRF token of a browser."""

    front: Front
    cookie: str
    proof: str

    @classmethod
    def at(cls, front: Front, path: str, cookie: str = "", **headers: str) -> Visitor:
        page = front.ask("GET", path, Cookie=cookie, **headers)
        given = cookie if cookie else page.headers["Set-Cookie"].partition(";")[0]
        for changed in page.headers.get_all("Set-Cookie", []):
            name, _, value = changed.partition(";")[0].partition("=")
            given = re.sub(rf"\b{name}=[^;]*", f"{name}={value}", given)
        return cls(front, given, re.findall(r'name="csrf_token" value="([^"]+)"', page.text)[0])

    def post(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        body = urlencode({"csrf_token": self.proof, **fields}).encode()
        return self.front.ask("POST", path, body, Cookie=self.cookie, Content_Type=FORM, **headers)


@pytest.fixture(scope="module")
def front(addresses: dict[str, str]) -> Iterator[Front]:
    settings, port = factories.settings(addresses), free_port()
    factories.empty_redis(addresses["REDIS_URL"])
    with Database(settings, "waybill-test") as database:
        with database.transaction() as session:
            factories.empty(session)
            for email in (EMAIL, "bob@example.org"):
                session.add(Account(email=email, password_hash=passwords.hash_password(PASSWORD)))
        variables = factories.environment(
            addresses,
            **{"HOST": "127.0.0.1", "PORT": str(port), "WEB_CONCURRENCY": str(PROCESSES), "WEB_THREADS": "4"},
            **{"PROXY_HOPS": "1", "MAX_UPLOAD_BYTES": str(LIMIT), "MAX_DOCUMENT_CHARS": "700000"},
        )
        with process(["-m", "gunicorn", "wsgi:app"], variables) as web:
            factories.wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), within=60, what=lambda: web.log)
            yield Front(port, web, database)


@pytest.fixture(scope="module")
def ada(front: Front) -> Visitor:
    return signed_in(front, EMAIL)


def signed_in(front: Front, email: str) -> Visitor:
    nobody = Visitor.at(front, "/login")
    answer = nobody.post("/login", {"email": email, "password": PASSWORD})
    assert answer.status == 303, answer.text
    cookies = [cookie.partition(";")[0] for cookie in answer.headers.get_all("Set-Cookie", [])]
    return Visitor.at(front, "/account", "; ".join(cookies))


def parts_of_a_form(ada: Visitor, content: bytes, **fields: str) -> tuple[bytes, str]:
    body = b""
    for name, value in {"csrf_token": ada.proof, **fields}.items():
        body += f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    body += b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' + content + b"\r\n--b--\r\n"
    return body, "multipart/form-data; boundary=b"


@pytest.mark.parametrize("way", ["one form", "a form each"])
def test_many_clicks_at_once_are_one_job_and_one_page(front: Front, ada: Visitor, way: str) -> None:
    """Check that simultaneous clicks in three processes make one job; five clicks once made five."""
    before, words = front.count("jobs"), f"Clicked in {way}. {uuid.uuid4()}"
    keys = ["one"] * 9 if way == "one form" else [f"form {number}" for number in range(9)]
    with ThreadPoolExecutor(9) as threads:
        sent = list(
            threads.map(lambda key: ada.post("/jobs", {"text": words, "idempotency_key": f"{key} {words}"}), keys)
        )
    assert {answer.status for answer in sent} == {303}
    assert len({urlsplit(answer.headers["Location"]).path for answer in sent}) == 1
    assert front.count("jobs") == before + 1 and front.count("deliveries") >= 1
    page = ada.front.ask("GET", sent[0].headers["Location"], Cookie=ada.cookie)
    fresh = ada.post("/jobs", {"text": words + " On purpose.", "idempotency_key": f"another {words}"})
    assert page.status == 200 and fresh.status == 303 and front.count("jobs") == before + 2


@pytest.mark.thorough
def test_a_made_up_address_or_another_process_is_no_way_around_a_limit(front: Front) -> None:
    """Check that neither a forged X-Forwarded-For nor a change of the process gives a client a new counter."""
    guesser = Visitor.at(front, "/login")

    def guess(number: int, real: str) -> int:
        forged = f"10.{number}.{number}.1, 172.16.0.{number}, {real}"
        return guesser.post("/login", {"email": f"a{number}@x.org", "password": "-"}, X_Forwarded_For=forged).status

    with ThreadPoolExecutor(6) as threads:
        statuses = list(threads.map(lambda number: guess(number, "203.0.113.9"), range(106)))
    assert sorted(statuses) == [401] * 100 + [429] * 6
    assert guess(199, "203.0.113.10") == 401, "somebody at another real address"


def test_documents_are_counted_for_the_account_wherever_it_comes_from(front: Front, ada: Visitor) -> None:
    """Check that of thirty submits with forged addresses over three processes five pass, and other accounts go on."""
    bob = signed_in(front, "bob@example.org")
    with front.database.transaction() as session:
        account_id = session.execute(select(Account.id).where(Account.email == "bob@example.org")).scalar_one()
        limits.set_limits(session, account_id, {Limit.JOBS_PER_DAY: 5})

    def submit(number: int) -> Answer:
        return bob.post("/jobs", {"text": f"Number {number} & kept."}, X_Forwarded_For=f"10.0.0.{number}, 203.0.113.5")

    with ThreadPoolExecutor(6) as threads:
        sent = list(threads.map(submit, range(30)))
    assert sorted(answer.status for answer in sent) == [303] * 5 + [429] * 25
    refused = next(answer for answer in sent if answer.status == 429)
    assert "5 of 5" in refused.text and "&amp; kept." in refused.text and int(refused.headers["Retry-After"]) > 0
    by_ada = ada.post("/jobs", {"text": f"By ada. {uuid.uuid4()}"}, X_Forwarded_For="203.0.113.5")
    assert by_ada.status == 303, "two people behind one address are two people"


def memory(web: Process) -> int:
    """Return the peak memory of the largest web process, in bytes."""
    children = Path(f"/proc/{web.popen.pid}/task/{web.popen.pid}/children").read_text().split()
    peaks = [re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()) for pid in children]
    assert len(peaks) == PROCESSES
    return max(int(peak) for [peak] in peaks) * 1024


@pytest.mark.parametrize(
    "length", [LIMIT + 1, 10 * LIMIT, 60 * LIMIT], ids=["one byte over", "ten times", "sixty times"]
)
def test_whoever_sends_too_much_gets_the_page_and_no_reset_connection(front: Front, ada: Visitor, length: int) -> None:
    """Check the fix: the server answered 413 while the browser was still sending, which showed "connection reset"."""
    before = memory(front.web)
    body, kind = parts_of_a_form(ada, b"x" * length, title="A kept title")
    answer = front.ask("POST", "/jobs", body, Cookie=ada.cookie, Content_Type=kind)
    assert answer.status == 413
    assert "The limit is 1 MB" in answer.text and 'value="A kept title"' in answer.text
    assert memory(front.web) - before < 25 * 1024 * 1024


def test_a_body_in_chunks_is_no_way_around_the_limit(front: Front, ada: Visitor) -> None:
    body, kind = parts_of_a_form(ada, b"x" * (10 * LIMIT), title="A kept title")
    sent = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:70_000], body[70_000:])) + b"0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", front.port), 60) as connection:
        head = f"POST /jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCookie: {ada.cookie}\r\n"
        connection.sendall(f"{head}Content-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + sent)
        said = b"".join(iter(lambda: connection.recv(65536), b""))
    assert said.startswith(b"HTTP/1.1 413") and b"The limit is 1 MB" in said and b"A kept title" in said


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/embed/no-link-of-ours", "/nothing"])
def test_whoever_is_refused_at_once_gets_the_answer_too(front: Front, path: str) -> None:
    answer = front.ask("POST", path, b"x" * (10 * LIMIT), Content_Type="application/octet-stream")
    assert answer.status in (400, 401, 404)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [450_000, 600_000, 900_000])
@pytest.mark.parametrize("multipart", [True, False], ids=["multipart", "urlencoded"])
def test_a_paste_up_to_the_limit_passes_and_beyond_it_the_form_comes_back(
    front: Front, ada: Visitor, size: int, multipart: bool
) -> None:
    """Check the fix: a field of more than 500 kB got a bare 413."""
    pasted = (f"{uuid.uuid4()} " + "word " * size)[:size].strip() + "."
    if multipart:
        body, kind = parts_of_a_form(ada, b"", text=pasted)
        body = body.replace(b'filename="a.txt"', b'filename=""')
        answer = front.ask("POST", "/jobs", body, Cookie=ada.cookie, Content_Type=kind)
    else:
        answer = ada.post("/jobs", {"text": pasted})
    if size < 700_000:
        assert answer.status == 303
    else:
        assert answer.status == 422 and "The limit is 700,000" in answer.text and pasted in answer.text
