"""The HTTP server in front of the app: how it handles raw requests, and the end of its process."""

from __future__ import annotations

import http.client
import runpy
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from waitress.adjustments import Adjustments
from waitress.parser import HTTPRequestParser

from tests.support import factories
from tests.support.processes.processes import Process
from tests.support.processes.web_server import PATIENCE_SECONDS, QUICK, Line, serving
from webapp.server.limits import Limits
from webapp.server.request_parser import RequestParser
from webapp.server.server import _adjustments

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
AMBIGUOUS = {
    "chunks and a length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two hosts": HEAD + b"Host: y\r\n\r\n",
    "a folded line": HEAD + b"X-A: 1\r\n 2\r\n\r\n",
    "chunks twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunks in 1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a version that is none": b"GET / HTTP/3.1\r\nHost: x\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
}
REFUSED_BY_WAITRESS_TOO = {
    "two lengths": HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "a signed length": HEAD + b"Content-Length: +3\r\n\r\nabc",
    "a bare line end": HEAD + b"X-A: 1\nX-B: 2\r\n\r\n",
    "a chunk without a size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
}
TOO_LARGE = {
    "many fields": HEAD + b"X-A: 1\r\n" * 101 + b"\r\n",
    "long fields": HEAD + b"X-A: " + b"1" * 40_000 + b"\r\n\r\n",
}
ENDLESS_CHUNK_LINE = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 100_000


@pytest.fixture(scope="module")
def port() -> object:
    with serving() as (port, _):
        yield port


def refused(port: int, sent: bytes) -> bytes:
    """Send the bytes, check the refusal up to the end of the connection, and return its status."""
    with Line(port) as line:
        line.send(sent)
        reply = line.to_the_end()
    head, _, body = reply.partition(b"\r\n\r\n")
    assert b"Connection: close" in head and b"Content-Type: text/plain" in head and len(body) < 100
    return head[9:12]


@pytest.mark.parametrize("sent", {**AMBIGUOUS, **REFUSED_BY_WAITRESS_TOO}.values(), ids=lambda _: "")
def test_what_could_be_read_in_two_ways_is_refused(port: int, sent: bytes) -> None:
    assert refused(port, sent) == b"400"


@pytest.mark.parametrize("sent", TOO_LARGE.values(), ids=TOO_LARGE)
def test_headers_are_bounded(port: int, sent: bytes) -> None:
    assert refused(port, sent) == b"431"


def test_a_line_between_chunks_is_bounded(port: int) -> None:
    assert refused(port, ENDLESS_CHUNK_LINE) == b"400"


def test_a_length_of_thousands_of_digits_is_refused(port: int) -> None:
    assert refused(port, HEAD + b"Content-Length: " + b"1" * 5_000 + b"\r\n\r\n") == b"400"


@pytest.mark.parametrize("sent", {**AMBIGUOUS, "many fields": TOO_LARGE["many fields"]}.values(), ids=lambda _: "")
def test_waitress_alone_would_take_them(sent: bytes) -> None:
    """Check, as a negative control, that waitress accepts these requests."""
    alone, ours = HTTPRequestParser(Adjustments()), RequestParser(_adjustments(Limits(), None))
    for parser in (alone, ours):
        parser.received(sent)
    assert alone.error is None and alone.headers_finished
    assert ours.error is not None and ours.completed


def test_expect_100_continue_for_a_large_body_is_refused_at_once(port: int) -> None:
    """Check the fix: waitress sent "100 Continue" and refused the body afterwards."""
    asking = HEAD + b"Expect: 100-continue\r\nContent-Length: 200000000\r\n\r\n"
    assert refused(port, asking) == b"413"
    with Line(port) as line:
        assert line.ask("/", "POST", more="Expect: 100-continue\r\nContent-Length: 3\r\n").startswith(b"HTTP/1.1 100 ")
        line.send(b"abc")
        assert b"3 127.0.0.1" in line.answer()


def test_the_limit_of_the_app_counts_for_expect_100_continue() -> None:
    parser = RequestParser(_adjustments(Limits(), 1_000))
    parser.received(HEAD + b"Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n")
    assert parser.error.code == 413 and parser.completed and not parser.expect_continue


def test_a_body_that_is_too_large_is_refused_while_it_is_sent(port: int) -> None:
    """Check that a client that is still sending gets the response and no reset."""
    with Line(port) as line:
        line.send(HEAD + b"Content-Length: 200000000\r\n\r\n")
        for _ in range(100):
            line.send(b"x" * 65536)
        assert line.answer().startswith(b"HTTP/1.1 413 ")


def test_one_connection_serves_every_kind_of_answer(port: int) -> None:
    with Line(port) as line:
        for _ in range(2):
            assert line.ask("/nothing").startswith(b"HTTP/1.1 204")
            assert line.ask("/unchanged").startswith(b"HTTP/1.1 304")
            assert line.ask("/pieces").endswith(b"5\r\nthree\r\n0\r\n\r\n")
            assert line.ask("/", "HEAD").endswith(b"\r\n\r\n")
            assert line.ask("/pieces", "HEAD").endswith(b"\r\n\r\n")
            chunks = b"3\r\nabc\r\n5;x=y\r\nabcde\r\n0\r\n\r\n"
            assert b"8 127.0.0.1" in line.ask("/", "POST", more="Transfer-Encoding: chunked\r\n", body=chunks)
            assert len(line.ask("/large")) > 2_000_000


def test_requests_sent_together_are_answered_in_turn(port: int) -> None:
    with Line(port) as line:
        line.send(
            b"".join(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % n + b"x" * n for n in (1, 2, 3))
        )
        assert [line.answer().partition(b"\r\n\r\n")[2][:1] for _ in range(3)] == [b"1", b"2", b"3"]


def test_an_older_client_gets_an_end_of_the_connection(port: int) -> None:
    with Line(port) as line:
        line.send(b"GET /pieces HTTP/1.0\r\n\r\n")
        assert line.to_the_end().endswith(b"\r\n\r\none two three")


def test_an_error_of_the_app_is_reported_without_its_message() -> None:
    with serving() as (port, web):
        with Line(port) as line:
            reply = line.ask("/broken?secret=1")
        assert reply.startswith(b"HTTP/1.1 500 ") and b"Connection: close" in reply
        web.wait_for_log('"event": "request.broken"')
        assert "RuntimeError" in web.log and "secret" not in web.log and "/broken" not in web.log


def test_what_was_refused_is_not_quoted_in_the_log() -> None:
    with serving() as (port, web):
        refused(port, b"GET /private?word HTTP/1.1\r\nHost: private\r\nHost: private\r\nCookie: private\r\n\r\n")
        web.wait_for_log('"event": "request.refused"')
        assert "private" not in web.log


class Asker(threading.Thread):
    """Sends requests over one connection, and opens another only if the server announces its end."""

    def __init__(self, port: int, *, seconds_between_connections: float = 0) -> None:
        super().__init__()
        self._port, self.enough = port, threading.Event()
        self._pause = seconds_between_connections
        self.processes: list[str] = []
        self.lost = self.refused_connections = 0

    def run(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self.enough.is_set():
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_SECONDS)
                try:
                    connection.connect()
                except OSError:
                    self.refused_connections += 1
                    connection = None
                    self.enough.wait(0.05)
                    continue
            try:
                connection.request("GET", "/")
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                self.lost += 1
                connection.close()
                connection = None
                continue
            self.processes.append(answer.headers["X-Process"])
            if answer.headers["Connection"] == "close":
                connection.close()
                connection = None
                self.enough.wait(self._pause)
        if connection is not None:
            connection.close()


def test_no_request_is_lost_when_processes_are_replaced() -> None:
    with serving(MAX_REQUESTS="100") as (port, web):
        askers = [Asker(port) for _ in range(3)]
        for asker in askers:
            asker.start()
        factories.wait_until(
            lambda: len({pid for asker in askers for pid in asker.processes}) >= 4, within=50, what=lambda: web.log
        )
        for asker in askers:
            asker.enough.set()
        for asker in askers:
            asker.join()
        assert [asker.lost for asker in askers] == [0, 0, 0]
        assert [asker.refused_connections for asker in askers] == [0, 0, 0]


def recycled_beside(port: int, web: Process) -> Line:
    """Return an open connection to a process that a request over another connection has recycled."""
    kept = Line(port)
    assert kept.ask("/").startswith(b"HTTP/1.1 200")
    with Line(port) as other:
        while b"Connection: close" not in other.ask("/"):
            pass
    web.wait_for_log("web.recycled")
    return kept


@pytest.mark.parametrize(("linger_seconds", "is_answered"), [(5, True), (0, False)], ids=["lingering", "at once"])
def test_a_connection_that_was_kept_is_answered_once_more(linger_seconds: int, is_answered: bool) -> None:
    """Check that the request is answered. Closed at once, as in the second case, it would lose a request on its way."""
    limits = {**QUICK, "linger_seconds": linger_seconds}
    with serving(limits=limits, MAX_REQUESTS="20") as (port, web), recycled_beside(port, web) as kept:
        if not is_answered:
            assert kept.to_the_end() == b""
            return
        reply = kept.ask("/")
        assert reply.startswith(b"HTTP/1.1 200") and b"Connection: close" in reply


def test_a_stop_answers_what_is_under_way_and_ends() -> None:
    with serving() as (port, web), Line(port) as line, Line(port) as kept, Line(port) as half:
        assert kept.ask("/").startswith(b"HTTP/1.1 200")
        line.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        half.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n1")
        assert kept.ask("/").startswith(b"HTTP/1.1 200")  # earlier requests were read before
        web.signal(signal.SIGTERM)
        factories.wait_until(lambda: "Handling signal: term" in web.log, within=10, what=lambda: web.log)
        half.send(b"2")
        for one in (line, half):
            reply = one.answer()
            assert reply.startswith(b"HTTP/1.1 200") and b"Connection: close" in reply
        assert kept.to_the_end() == b""
        assert web.wait() == 0


def test_nobody_loses_a_request_over_a_stop() -> None:
    """Check all but the microseconds in which a socket is closed: the kernel resets who connects just then.

    A client that connects a thousand times a second would meet them in one of ten runs.
    """
    with serving() as (port, web):
        asker = Asker(port, seconds_between_connections=0.02)
        asker.start()
        factories.wait_until(lambda: len(asker.processes) > 50, within=20, what=lambda: web.log)
        web.signal(signal.SIGTERM)
        assert web.wait() == 0
        asker.enough.set()
        asker.join()
        assert asker.lost == 0


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "0.0.0.0:8000"),
        ({"HOST": "", "PORT": ""}, "0.0.0.0:8000"),
        ({"HOST": "::", "PORT": "81"}, "[::]:81"),
        ({"HOST": "[::]", "PORT": "81"}, "[::]:81"),
        ({"HOST": "::1"}, "[::1]:8000"),
    ],
)
def test_the_address_is_read_as_hosts_write_it(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOST", "PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert runpy.run_path(str(factories.ROOT / "gunicorn.conf.py"))["bind"] == expected


@pytest.mark.parametrize("host", ["::", "[::]"])
def test_one_address_of_both_kinds_is_enough(host: str) -> None:
    with serving(HOST=host) as (port, _), socket.create_connection(("::1", port), PATIENCE_SECONDS) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        reply = b"".join(iter(lambda: connection.recv(65536), b""))
    assert f"0 ::1 {port} http".encode() in reply


def test_a_socket_in_the_file_system_will_do(tmp_path: Path) -> None:
    path = str(tmp_path / "web")
    with serving(also=f"unix:{path}"), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        reply = b"".join(iter(lambda: connection.recv(65536), b""))
    assert reply.startswith(b"HTTP/1.1 200") and reply.endswith(b"0   http")


def test_gunicorns_first_process_loads_nothing_of_the_app() -> None:
    asked = "import runpy, sys; runpy.run_path('gunicorn.conf.py'); print('webapp' in sys.modules)"
    child = subprocess.run(
        [sys.executable, "-c", asked], cwd=factories.ROOT, capture_output=True, text=True, check=True
    )
    assert child.stdout == "False\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("soft", "hard", "expected"), [(256, 256, 42), (256, 1024, 298), (256, 4096, 1000), (4096, 4096, 1000)]
)
def test_there_are_no_more_connections_than_files_may_be_open(soft: int, hard: int, expected: int) -> None:
    asked = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}));"
        "from webapp.server.limits import connections_within_file_limit; print(connections_within_file_limit(1000))"
    )
    child = subprocess.run(
        [sys.executable, "-c", asked], cwd=factories.ROOT, capture_output=True, text=True, check=True
    )
    assert int(child.stdout) == expected
