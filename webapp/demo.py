"""`make demo`: the whole app on this machine, with its own PostgreSQL and Redis, and an account to sign in with.

Everything it keeps is in `.demo/`. It listens on loopback only.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import psycopg
from dotenv import dotenv_values

from webapp.embedded import ServiceDidNotStart, services

DIRECTORY = Path(".demo")
EMAIL, PASSWORD = "demo@example.org", "waybill-demo"
STOP_WITHIN_SECONDS = 30


class DemoFailed(Exception):
    """The demo cannot go on; the message says why and what to do."""


def main() -> int:
    """Run until Ctrl-C. 0 after a clean stop, 1 when something could not be started or ended by itself."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    os.environ.update({key: value for key, value in dotenv_values(".env").items() if value and key not in os.environ})
    port = int(os.environ.get("PORT") or 8000)
    try:
        refuse_a_port_in_use(port)
        DIRECTORY.mkdir(exist_ok=True)
        say("Starting PostgreSQL and Redis. The first time takes some seconds.")
        with services(DIRECTORY.resolve()) as addresses:
            return run(environment(addresses, port), port, stopping)
    except (DemoFailed, ServiceDidNotStart) as error:
        say(str(error))
        return 1


def run(variables: Mapping[str, str], port: int, stopping: threading.Event) -> int:
    """Migrate, make the account, and keep web and worker running."""
    say("Bringing the database up to date.")
    call("database migration", ["-m", "flask", "--app", "wsgi", "db", "upgrade"], variables)
    if not has_account(variables["DATABASE_URL"]):
        create = ["-m", "flask", "--app", "wsgi", "accounts", "create", EMAIL, "--operator"]
        call("demo account", create, {**variables, "ACCOUNT_PASSWORD": PASSWORD})
    say("Starting web and worker.")
    children = {
        "web": start(["-m", "gunicorn", "wsgi:app"], variables),
        "worker": start(["-m", "tasks", "worker"], variables),
    }
    try:
        wait_until_it_answers(port, children, stopping)
        if not stopping.is_set():
            maker = "an AI service" if variables["AI_PROVIDER"] == "openai" else "a local extract, no AI key needed"
            say(f"Summaries are made by {maker}. The log is in {DIRECTORY / 'log'}. Stop with Ctrl-C.")
            say(f"Ready: http://127.0.0.1:{port}  sign in as {EMAIL} with password {PASSWORD}")
        while not stopping.wait(0.5):
            gone = [name for name, child in children.items() if child.poll() is not None]
            if gone:
                raise DemoFailed(f"The {gone[0]} process ended by itself. Its log is {DIRECTORY / 'log'}.")
        return 0
    finally:
        say("Stopping. Work that is not finished is handed back and goes on at the next start.")
        stop(children)
        say("Stopped. What was handed in is kept in .demo/.")


def environment(addresses: Mapping[str, str], port: int) -> dict[str, str]:
    """What web and worker are told."""
    key = os.environ.get("OPENAI_API_KEY")
    return {
        **os.environ,
        **addresses,
        "WAYBILL_DEMO": "1",
        "SECRET_KEY": kept_secret(),
        "AI_PROVIDER": os.environ.get("AI_PROVIDER") or ("openai" if key else "local"),
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "PROXY_HOPS": "0",
    }


def has_account(database_url: str) -> bool:
    """Whether an earlier start made the demo's account."""
    with psycopg.connect(database_url) as connection:
        return connection.execute("SELECT 1 FROM accounts WHERE email = %s", [EMAIL]).fetchone() is not None


def kept_secret() -> str:
    """A secret of this demo's own, the same at the next start, so that people stay signed in."""
    file = DIRECTORY / "secret"
    if not file.exists():
        file.write_text(secrets.token_hex(32))
        file.chmod(0o600)
    return file.read_text()


def refuse_a_port_in_use(port: int) -> None:
    """Raises DemoFailed, with the remedy."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise DemoFailed(f"Port {port} is in use. Choose another one: PORT={port + 1} make demo") from None


def call(what: str, arguments: list[str], variables: Mapping[str, str]) -> None:
    """Run one step to its end. Raises DemoFailed with what it said."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    if ended.returncode != 0:
        raise DemoFailed(f"The {what} failed:\n{ended.stderr.strip()[-2000:]}")


def start(arguments: list[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process of the app. In a session of its own: Ctrl-C is for us, who stop it in order."""
    with (DIRECTORY / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *arguments], env=dict(variables), stdout=log, stderr=log, start_new_session=True
        )


def wait_until_it_answers(
    port: int, children: Mapping[str, subprocess.Popen[bytes]], stopping: threading.Event
) -> None:
    """Raises DemoFailed when the web process does not answer in time."""
    until = time.monotonic() + 60
    while time.monotonic() < until and not stopping.wait(0.2):
        if any(child.poll() is not None for child in children.values()):
            return  # the caller says which
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            continue
    if not stopping.is_set():
        raise DemoFailed(f"The web process does not answer. Its log is {DIRECTORY / 'log'}.")


def stop(children: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Ask each to end, and insist when one does not."""
    for child in children.values():
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
    until = time.monotonic() + STOP_WITHIN_SECONDS
    for child in children.values():
        try:
            child.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def say(sentence: str) -> None:
    """Tell the person at the terminal."""
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
