"""python -m benchmarks.slow_clients [--sockets N] [--seconds N] [--worker-class NAME] [--attack NAME]

Starts the site with its own PostgreSQL and Redis, keeps slow connections open to it, one kind after the other, and
meanwhile requests two pages ten times a second, as other users would. Prints their response times, without and with the
attack. Exits 1 if one request in twenty took more than twice as long as without it, if one got no response, or if the
web process took 50 MB more.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlencode

from benchmarks.slow_sockets import HOST, Attack
from tasks.database import Database
from tasks.settings import Settings
from webapp.auth import passwords
from webapp.local.ports import free_port
from webapp.local.services import services, temporary_directory
from webapp.models import Account

PAGES = ("/healthz", "/login")
ASKED_EVERY_SECONDS = 0.1
PATIENCE_SECONDS = 20.0
QUIET_SECONDS = 10.0
"""Measured before each attack, and again after it, because the load of the machine varies."""
SECONDS_TO_CALM_DOWN = 3.0
EMAIL, PASSWORD = "reader@example.org", "a harbour at night"
LARGE = b"The harbour committee met in March. " * (2 * 1024 * 1024 // 36)
ALLOWED_RATIO, ALLOWED_BYTES = 2.0, 50 * 1024 * 1024


@dataclass(frozen=True)
class Visits:
    """The response time of each request in seconds; None for those without a response."""

    took: list[float | None]

    @property
    def answered(self) -> list[float]:
        return [seconds for seconds in self.took if seconds is not None]

    def milliseconds(self, percent: int) -> float:
        """Return the percentile; requests without a response count as having taken the whole timeout."""
        all_of_them = [PATIENCE_SECONDS if seconds is None else seconds for seconds in self.took]
        return 1000 * quantiles(all_of_them, n=100)[percent - 1]


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    attack: Attack
    quiet: Visits
    attacked: Visits
    grown_bytes: int
    endings: dict[str, int]

    @property
    def ratio(self) -> float:
        return self.attacked.milliseconds(95) / self.quiet.milliseconds(95)

    @property
    def is_good(self) -> bool:
        all_came = len(self.attacked.answered) == len(self.attacked.took)
        return all_came and self.ratio <= ALLOWED_RATIO and self.grown_bytes <= ALLOWED_BYTES


@dataclass(frozen=True)
class Site:
    """A running site, with the cookie of a user who has handed in a large document, and its URL."""

    port: int
    process: subprocess.Popen[bytes]
    cookie: str = ""
    download: str = ""

    def web_processes(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def visit(port: int, path: str, *, patience: float = PATIENCE_SECONDS) -> float | None:
    """Return how long a page took for a client without a session; None if there was no response."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(HOST, port, timeout=patience)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        return time.monotonic() - began if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def visit_for(port: int, seconds: float) -> Visits:
    """Request the pages in turn at even intervals, without waiting for the previous response."""
    took: list[float | None] = []
    threads = []
    began = time.monotonic()
    for number in range(int(seconds / ASKED_EVERY_SECONDS)):
        time.sleep(max(0.0, began + number * ASKED_EVERY_SECONDS - time.monotonic()))
        path = PAGES[number % len(PAGES)]
        threads.append(threading.Thread(target=lambda path=path: took.append(visit(port, path))))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return Visits(took)


def memory(pids: list[int]) -> int:
    """Return the memory of these processes, in bytes."""
    found = [re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()) for pid in pids]
    return sum(int(kilobytes) for [kilobytes] in found) * 1024


class Peak(threading.Thread):
    """Watches the memory of the web processes until it is stopped."""

    def __init__(self, site: Site) -> None:
        super().__init__(daemon=True)
        self._site, self._stop_asked = site, threading.Event()
        self.bytes = 0

    def run(self) -> None:
        while not self._stop_asked.wait(0.5):
            self.bytes = max(self.bytes, memory(self._site.web_processes()))

    def stop(self) -> int:
        self._stop_asked.set()
        self.join()
        return self.bytes


def measure(site: Site, attack: Attack, sockets: int, seconds: float) -> Row:
    """Measure without the attack, with it, and without it again."""
    quiet = visit_for(site.port, QUIET_SECONDS)
    before, peak = memory(site.web_processes()), Peak(site)
    peak.start()
    path = site.download if attack is Attack.SLOW_READING else "/login"
    command = [sys.executable, "-m", "benchmarks.slow_sockets", attack.name, str(site.port)]
    command += ["--sockets", str(sockets), "--seconds", str(seconds), "--path", path, "--cookie", site.cookie]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as attackers:
        attacked = visit_for(site.port, seconds)
        output = attackers.communicate()[0]
    grown = peak.stop() - before
    time.sleep(SECONDS_TO_CALM_DOWN)
    quiet.took.extend(visit_for(site.port, QUIET_SECONDS).took)
    return Row(attack, quiet, attacked, grown, json.loads(output))


@contextmanager
def running(worker_class: str | None) -> Iterator[Site]:
    """Run a site: services, one account, one web process with its usual settings."""
    with temporary_directory() as directory, services(Path(directory), throwaway=True) as addresses:
        ours = {"WAYBILL_DEMO": "1", "AI_PROVIDER": "local", "PROXY_HOPS": "0", **addresses}
        settings = Settings(waybill_demo=True, ai_provider="local", **{k.lower(): v for k, v in addresses.items()})
        variables = {**os.environ, **ours, "HOST": HOST, "PORT": str(free_port())}
        subprocess.run([sys.executable, "-m", "flask", "--app", "wsgi", "db", "upgrade"], env=variables, check=True)
        with Database(settings, "waybill-benchmark") as database, database.transaction() as session:
            session.add(Account(email=EMAIL, password_hash=passwords.hash_password(PASSWORD)))
        command = [sys.executable, "-m", "gunicorn", "wsgi:app"]
        command += ["--worker-class", worker_class] if worker_class else []
        log = open(Path(directory) / "web.log", "wb")  # noqa: SIM115 (closed with the process below)
        with log, subprocess.Popen(command, env=variables, stdout=log, stderr=log) as process:
            try:
                yield ready(Site(int(variables["PORT"]), process))
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()


def ready(site: Site) -> Site:
    """Wait for the site, sign in, and hand in a document of 2 MB."""
    until = time.monotonic() + 60
    while visit(site.port, "/healthz") is None and time.monotonic() < until:
        time.sleep(0.1)
    cookie, csrf_token = page(site.port, "/login")
    form = {"email": EMAIL, "password": PASSWORD, "csrf_token": csrf_token}
    cookie = send(site.port, "/login", urlencode(form).encode(), cookie)[0]
    cookie, csrf_token = page(site.port, "/account", cookie)
    body = f'--b\r\nContent-Disposition: form-data; name="csrf_token"\r\n\r\n{csrf_token}\r\n'.encode()
    body += b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' + LARGE + b"\r\n--b--\r\n"
    job = send(site.port, "/jobs", body, cookie, "multipart/form-data; boundary=b")[1]
    return Site(site.port, site.process, cookie, f"{job.partition('?')[0]}/original")


def page(port: int, path: str, cookie: str = "") -> tuple[str, str]:
    """Return the cookie after loading a page, and the CSRF token in its form."""
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_SECONDS)
    connection.request("GET", path, headers={"Cookie": cookie})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return session_cookie(answer) or cookie, re.findall(r'name="csrf_token" value="([^"]+)"', text)[0]


def send(
    port: int, path: str, body: bytes, cookie: str, kind: str = "application/x-www-form-urlencoded"
) -> tuple[str, str]:
    """Return the cookie after sending a form, and the URL of the redirect."""
    connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_SECONDS)
    connection.request("POST", path, body, {"Cookie": cookie, "Content-Type": kind})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 303, answer.status
    return session_cookie(answer) or cookie, answer.headers["Location"]


def session_cookie(answer: http.client.HTTPResponse) -> str:
    """Return the session cookie of a response; empty if it sets none. A sign-in sets another cookie, too."""
    given = [one.partition(";")[0] for one in answer.headers.get_all("Set-Cookie") or []]
    return next((one for one in given if "session=" in one), "")


def print_all(rows: list[Row], sockets: int, seconds: float) -> int:
    """Print the table and the verdict. Returns 0 if all is well."""
    machine = (
        f"{platform.machine()}, {os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}"
    )
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine}, load average {os.getloadavg()[0]:.1f}")
    print(f"{sockets} slow connections of each kind for {seconds:.0f} s; everything ran on this machine\n")
    print(
        "| attack | answered | quiet p50 / p95 | attacked p50 / p95 | ratio of p95 | memory | how the attackers ended |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        quiet, attacked = row.quiet, row.attacked
        endings = ", ".join(f"{times} {how}" for how, times in sorted(row.endings.items()))
        print(
            f"| {row.attack} | {len(attacked.answered)} of {len(attacked.took)}"
            f" | {quiet.milliseconds(50):.0f} / {quiet.milliseconds(95):.0f} ms"
            f" | {attacked.milliseconds(50):.0f} / {attacked.milliseconds(95):.0f} ms"
            f" | {row.ratio:.1f} | {row.grown_bytes / 1024 / 1024:+.0f} MB | {endings} |"
        )
    return 0 if all(row.is_good for row in rows) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sockets", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--attack", choices=[one.name for one in Attack], help="one kind only")
    parser.add_argument("--worker-class", help="another class than the site's, such as gthread")
    given = parser.parse_args()
    kinds = [Attack[given.attack]] if given.attack else list(Attack)
    with running(given.worker_class) as site:
        rows = [measure(site, attack, given.sockets, given.seconds) for attack in kinds]
    return print_all(rows, given.sockets, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
