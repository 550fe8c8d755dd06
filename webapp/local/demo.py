"""`make demo`: runs the whole app on this machine, with its own PostgreSQL and Redis, and an account to sign in with.

Everything it keeps is in `.demo/` (for root, the database is under /var/lib/waybill). It listens on loopback only.
"""

from __future__ import annotations

import os
import secrets
import signal
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

from webapp.local.errors import CannotStart
from webapp.local.ports import LOOPBACK, requested_port
from webapp.local.services import services
from webapp.local.single_start import SingleStart

DIRECTORY = Path(".demo")
EMAIL, PASSWORD = "demo@example.org", "waybill-demo"
STOP_WITHIN_SECONDS = 30


def main() -> int:
    """Run until Ctrl-C. Returns 0 after a clean stop, 1 if something could not be started or ended by itself."""
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    try:
        return start_and_wait(stopping)
    except CannotStart as error:
        say(str(error))
    except OSError as error:
        say(f"The demo cannot start: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
    return 1


def start_and_wait(stopping: threading.Event) -> int:
    """Start everything in order, and stop it in reverse order. Raises CannotStart."""
    os.environ.update({key: value for key, value in dotenv_values(".env").items() if value and key not in os.environ})
    make_directory()
    single = SingleStart(DIRECTORY, f"http://{LOOPBACK}:{(os.environ.get('PORT') or '').strip() or 8000}")
    single.end_leftovers()
    port = requested_port(os.environ.get("PORT"))
    say("Starting PostgreSQL and Redis. The first time takes some seconds.")
    with services(DIRECTORY.resolve()) as addresses:
        single.note_children()
        code = run(environment(addresses, port), port, stopping, single)
    single.end()
    return code


def make_directory() -> None:
    """Create the directory for everything that is kept. Raises CannotStart."""
    try:
        DIRECTORY.mkdir(exist_ok=True, mode=0o700)
        (DIRECTORY / "log").touch(mode=0o600)
    except OSError as error:
        raise CannotStart(
            f"Nothing can be written to {DIRECTORY.resolve()} ({error.strerror}). "
            "Run the demo in a copy of the project that belongs to you."
        ) from None


def run(variables: Mapping[str, str], port: int, stopping: threading.Event, single: SingleStart) -> int:
    """Migrate, create the account, and keep web and worker running until a stop is requested. Raises CannotStart."""
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
    single.note_children()
    try:
        wait_until_it_answers(port, children, stopping)
        if not stopping.is_set():
            maker = "an AI service" if variables["AI_PROVIDER"] == "openai" else "a local extract, no AI key needed"
            say(f"Summaries are made by {maker}. The log is in {DIRECTORY / 'log'}. Stop with Ctrl-C.")
            say(f"Ready: http://{LOOPBACK}:{port}  sign in as {EMAIL} with password {PASSWORD}")
        while not stopping.wait(0.5):
            gone = [name for name, child in children.items() if child.poll() is not None]
            if gone:
                raise CannotStart(f"The {gone[0]} process ended by itself. Its log is {DIRECTORY / 'log'}.")
        return 0
    finally:
        say("Stopping. Work that is not finished is handed back and goes on at the next start.")
        stop(children)
        say("Stopped. Your documents are kept in .demo/.")


def environment(addresses: Mapping[str, str], port: int) -> dict[str, str]:
    """Return the environment of web and worker."""
    key = os.environ.get("OPENAI_API_KEY")
    return {
        **os.environ,
        **addresses,
        "WAYBILL_DEMO": "1",
        "SECRET_KEY": kept_secret(),
        "AI_PROVIDER": os.environ.get("AI_PROVIDER") or ("openai" if key else "local"),
        "HOST": LOOPBACK,
        "PORT": str(port),
        "PROXY_HOPS": "0",
    }


def has_account(database_url: str) -> bool:
    """Return True if an earlier start created the demo's account."""
    with psycopg.connect(database_url) as connection:
        return connection.execute("SELECT 1 FROM accounts WHERE email = %s", [EMAIL]).fetchone() is not None


def kept_secret() -> str:
    """Return this demo's own secret, the same at each start, so that people stay signed in."""
    file = DIRECTORY / "secret"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(32))
    return file.read_text()


def call(what: str, arguments: list[str], variables: Mapping[str, str]) -> None:
    """Run one step to its end. Raises CannotStart with the last line of its output; all of it goes to the log."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    if ended.returncode != 0:
        with (DIRECTORY / "log").open("a") as log:
            log.write(ended.stdout + ended.stderr)
        last_line = (ended.stderr.strip() or ended.stdout.strip() or "it said nothing").splitlines()[-1]
        raise CannotStart(f"The {what} failed: {last_line[:500]} (more in {DIRECTORY / 'log'})")


def start(arguments: list[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process of the app in its own session.

    Ctrl-C must reach only this process, which stops the others in order.
    """
    with (DIRECTORY / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *arguments], env=dict(variables), stdout=log, stderr=log, start_new_session=True
        )


def wait_until_it_answers(
    port: int, children: Mapping[str, subprocess.Popen[bytes]], stopping: threading.Event
) -> None:
    """Wait for the web process. Raises CannotStart if it does not respond in time."""
    until = time.monotonic() + 60
    while time.monotonic() < until and not stopping.wait(0.2):
        if any(child.poll() is not None for child in children.values()):
            return  # the caller reports which one
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/healthz", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            continue
    if not stopping.is_set():
        raise CannotStart(f"The web process does not answer. Its log is {DIRECTORY / 'log'}.")


def stop(children: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Ask each child to end, and kill those that do not."""
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
    """Print a line at the terminal."""
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
