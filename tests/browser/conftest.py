"""Fixtures for a real Chromium against the real web process and a real worker. Skips, with a reason, if there is none.

Every window of every test is watched: the test fails on anything that its browser complained about and that it did not
expect. A test that is marked `both_htmx` runs with the htmx that the site serves, and with the newest 2.x.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    expect,
    sync_playwright,
)
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tests.support import factories
from tests.support.browser import chromium as installed
from tests.support.browser import session_and_axe
from tests.support.processes.processes import answers, process, worker
from webapp.auth.passwords import hash_password
from webapp.local.ports import free_port

PASSWORD = "a good long password"
PATIENCE_MS = 20_000
# A page polls every few seconds. In a test it also polls five times a second, through the trigger of a tab that is
# shown again; unless the test sets `unhurried`.
HURRY = """setInterval(() => {
  if (window.unhurried || document.hidden || !window.htmx) return;
  document.querySelectorAll('[data-poll]').forEach((one) => htmx.trigger(one, 'poll:now'));
}, 200);"""
expect.set_options(timeout=PATIENCE_MS)


class Complaints:
    """Collects the messages of the browser in any window of a test, except for the expected ones."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._expected: list[str] = []

    def expect(self, *patterns: str) -> None:
        """Ignore messages that match one of these patterns."""
        self._expected += patterns

    @property
    def unexpected(self) -> list[str]:
        return [said for said in self.heard if not any(re.search(pattern, said) for pattern in self._expected)]

    def watch(self, window: BrowserContext) -> None:
        window.on("console", self._said)
        window.on("weberror", lambda error: self.heard.append(f"page error: {error.error}"))
        window.on("requestfailed", self._failed)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.heard.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # a page that was left, or a download
            self.heard.append(f"failed: {request.url} {request.failure}")


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def htmx() -> str:
    """Return which htmx the pages of this test load: `4` is the one that the site serves."""
    return "4"


_OLDER = pytest.param("2", marks=pytest.mark.thorough)
both_htmx = pytest.mark.parametrize("htmx", ["4", _OLDER], ids=["htmx4", "htmx2"])


def started(playwright: Playwright, program: str | None) -> Browser:
    """Start this Chromium. Skips if there is none, unless one is required."""
    if program is None:
        if os.environ.get("WAYBILL_REQUIRE_BROWSER"):
            pytest.fail("There is no Chromium, and this run requires one.")
        pytest.skip("There is no Chromium on this machine; the browser tests were not run.")
    return playwright.chromium.launch(executable_path=program, args=installed.FLAGS)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="session")
def one_chromium(playwright: Playwright) -> Iterator[Browser]:
    browser = started(playwright, installed.program())
    yield browser
    browser.close()


@pytest.fixture
def chromium(
    one_chromium: Browser, complaints: Complaints, htmx: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Browser]:
    """Return the browser. All its windows are watched and have the htmx of the test."""
    opened: list[BrowserContext] = []
    new_context = one_chromium.new_context

    def watched(**options: object) -> BrowserContext:
        window = new_context(**options)  # type: ignore[arg-type]
        window.set_default_timeout(PATIENCE_MS)
        complaints.watch(window)
        window.add_init_script(HURRY)
        if htmx == "2":
            session_and_axe.load_htmx_2(window)
            complaints.expect("error: htmx:(afterRequest|sendError)")  # from a poll in flight when its page was left
        opened.append(window)
        return window

    monkeypatch.setattr(one_chromium, "new_context", watched)
    yield one_chromium
    for window in opened:
        window.close()
    assert complaints.unexpected == []


@dataclass
class LiveSite:
    """The running site and its provider."""

    address: str
    fake: FakeProvider
    database: Database


@dataclass
class Running:
    """A web process and a worker, and the address where they look for their provider."""

    address: str
    database: Database
    provider_port: int


@pytest.fixture(scope="module")
def running(addresses: dict[str, str]) -> Iterator[Running]:
    """Start web and worker as on a host, over emptied services; one pair for all tests of a module."""
    settings = factories.settings(addresses)
    database = Database(settings, "waybill-test")
    empty(database)
    factories.empty_redis(addresses["REDIS_URL"])
    port, provider_port = free_port(), free_port()
    asking = {"AI_PROVIDER": "openai", "OPENAI_API_KEY": "test"}
    asking["OPENAI_BASE_URL"] = f"http://127.0.0.1:{provider_port}/v1"
    variables = factories.environment(addresses, HOST="127.0.0.1", PORT=str(port), **asking)
    with process(["-m", "gunicorn", "wsgi:app"], variables) as web, worker(addresses, **asking):
        address = f"http://127.0.0.1:{port}"
        factories.wait_until(lambda: answers(f"{address}/healthz"), what=lambda: web.log)
        yield Running(address, database, provider_port)
    database.close()


@pytest.fixture
def live_site(running: Running) -> Iterator[LiveSite]:
    """Return the site without accounts and jobs. Its provider holds responses until the test releases them."""
    empty(running.database)
    with FakeProvider(running.provider_port) as fake:
        fake.script([{"mode": "gate", "text": "The **north pier** is closed until August."}])
        yield LiveSite(running.address, fake, running.database)
        fake.release()
        with contextlib.suppress(AssertionError):  # leftovers of a failed test must not fail the next one
            factories.wait_until(lambda: not unfinished(running.database), within=10)


def empty(database: Database) -> None:
    """Empty all tables. Retries once, since a running worker may be in the way."""
    for last in (False, True):
        try:
            with database.transaction() as session:
                return factories.empty(session)
        except OperationalError:
            if last:
                raise


def unfinished(database: Database) -> int:
    """Return how many jobs are unfinished."""
    with database.transaction() as session:
        return int(session.execute(text("SELECT count(*) FROM jobs WHERE finished_at IS NULL")).scalar_one())


@pytest.fixture
def email() -> str:
    """Return the e-mail address of the user."""
    return f"{uuid.uuid4().hex[:8]}@example.org"


@pytest.fixture(scope="session")
def password_hash() -> str:
    return hash_password(PASSWORD)


@pytest.fixture
def account(live_site: LiveSite, email: str, password_hash: str) -> uuid.UUID:
    """Create the account of the user, whose password is PASSWORD."""
    with live_site.database.transaction() as session:
        return factories.make_account(session, email, password_hash=password_hash)


@pytest.fixture
def context(chromium: Browser, live_site: LiveSite, account: uuid.UUID) -> BrowserContext:
    """Open a new browser window, signed in as the user."""
    window = chromium.new_context(base_url=live_site.address)
    session_and_axe.sign_in(window, live_site.address, account)
    return window


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """Open a first page in it."""
    return context.new_page()
