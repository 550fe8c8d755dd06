"""A real site, with its Secure cookie, opened without https. On this machine a browser keeps it, elsewhere not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect

from tasks.database import Database
from tests.browser.conftest import PASSWORD, started
from tests.support import factories
from tests.support.browser import chromium as installed
from tests.support.processes.processes import Process, answers, process
from webapp.local.ports import free_port
from webapp.models import Account

ELSEWHERE = "waybill.test"


@pytest.fixture
def somebody(database: Database, password_hash: str) -> str:
    """The address of an account whose password is PASSWORD."""
    email = f"{uuid.uuid4().hex[:8]}@example.org"
    with database.transaction() as session:
        session.add(Account(email=email, password_hash=password_hash))
    return email


@pytest.fixture
def plain_site(addresses: dict[str, str], somebody: str) -> Iterator[tuple[int, Process]]:
    """The port of a site that is set up as a real one, but for TLS."""
    port, ours = free_port(), {"WAYBILL_DEMO": "0", "SECRET_KEY": "a long random text of our own"}
    variables = factories.environment(addresses, HOST="127.0.0.1", PORT=str(port), **ours)
    with process(["-m", "gunicorn", "wsgi:app"], variables) as web:
        factories.wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), within=40, what=lambda: web.log)
        yield port, web


@pytest.fixture
def named_chromium(playwright: Playwright) -> Iterator[Browser]:
    """A browser to which a name that is not localhost means this machine."""
    program = installed.program()
    if program is None:
        started(playwright, program)
    resolving = f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"
    browser = playwright.chromium.launch(executable_path=program, args=[*installed.FLAGS, resolving])
    yield browser
    browser.close()


def signed_in(page: Page, address: str, email: str) -> Page:
    page.goto(f"{address}/login")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    return page


def test_a_real_name_without_https_says_so_and_localhost_works(
    plain_site: tuple[int, Process], named_chromium: Browser, somebody: str
) -> None:
    port, web = plain_site
    page = signed_in(named_chromium.new_context().new_page(), f"http://{ELSEWHERE}:{port}", somebody)
    expect(page.get_by_role("heading", name="This site needs https")).to_be_visible()
    web.wait_for_log("request.not_https")
    here = signed_in(named_chromium.new_context().new_page(), f"http://localhost:{port}", somebody)
    expect(here.get_by_role("button", name="Summarize")).to_be_visible()
    assert {cookie["name"] for cookie in here.context.cookies()} == {"__Host-session", "__Host-device"}
