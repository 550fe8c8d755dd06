"""A real Chromium against the real web process and a real worker. Skipped, with a clear line, where there is none."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tasks.database import Database
from tasks.queue import DeliveryQueue
from tests.support import chromium as installed
from tests.support import house
from tests.support.fake_provider import FakeProvider
from tests.support.processes import answers, asking, process, worker
from webapp.embedded import free_port

PASSWORD = "a good long password"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = installed.program()
    if program is None:
        if os.environ.get("WAYBILL_REQUIRE_BROWSER"):
            pytest.fail("There is no Chromium, and this run requires one.")
        pytest.skip("There is no Chromium on this machine; the browser tests were not run.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=installed.FLAGS)
        yield browser
        browser.close()


@dataclass
class LiveSite:
    """Where the site is, and the provider behind it."""

    address: str
    fake: FakeProvider
    database: Database


@pytest.fixture
def live_site(addresses: dict[str, str], database: Database, queue: DeliveryQueue) -> Iterator[LiveSite]:
    """Web and worker as on a host, with a provider that holds its answers until the test lets them go."""
    port = free_port()
    with FakeProvider() as fake:
        fake.script([{"mode": "gate", "text": "The **north pier** is closed until August."}])
        variables = house.environment(addresses, HOST="127.0.0.1", PORT=str(port), **asking(fake))
        with process(["-m", "gunicorn", "wsgi:app"], variables) as web, worker(addresses, **asking(fake)):
            address = f"http://127.0.0.1:{port}"
            house.wait_until(lambda: answers(f"{address}/healthz"), what=lambda: web.log)
            yield LiveSite(address, fake, database)


@pytest.fixture
def email() -> str:
    """The address of the person at the browser."""
    return f"{uuid.uuid4().hex[:8]}@example.org"


@pytest.fixture
def context(chromium: Browser, live_site: LiveSite, email: str) -> Iterator[BrowserContext]:
    """A browser window of its own, in which a new person has registered."""
    context = chromium.new_context(base_url=live_site.address)
    context.set_default_timeout(15_000)
    page = context.new_page()
    page.goto("/register")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").first.fill(PASSWORD)
    page.locator("main form button").click()
    page.wait_for_url("**/")
    page.close()
    yield context
    context.close()
