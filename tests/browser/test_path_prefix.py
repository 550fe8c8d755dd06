"""A site under a path in a real browser: its scripts, styles, forms and polls all have the path."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tasks.database import Database
from tasks.queue import DeliveryQueue
from tests.browser.conftest import PASSWORD
from tests.support import factories
from tests.support.processes.processes import answers, process, worker
from webapp.local.ports import free_port
from webapp.models import Account

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


def test_a_document_is_handed_in_and_followed_under_a_path(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, chromium: Browser, password_hash: str
) -> None:
    with database.transaction() as session:
        session.add(Account(email="ada@example.org", password_hash=password_hash))
    port = free_port()
    base = f"http://127.0.0.1:{port}/of/waybill"
    variables = factories.environment(addresses, HOST="127.0.0.1", PORT=str(port), APP_BASE_URL=base)
    with process(["-m", "gunicorn", "wsgi:app"], variables) as web, worker(addresses):
        factories.wait_until(lambda: answers(f"{base}/healthz"), within=40, what=lambda: web.log)
        window = chromium.new_context()
        outside: list[str] = []
        window.on("request", lambda asked: outside.append(asked.url) if not asked.url.startswith(f"{base}/") else None)
        page = window.new_page()
        page.goto(f"{base}/account")
        page.get_by_label("E-mail").fill("ada@example.org")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{base}/account")
        page.goto(f"{base}/")
        page.get_by_label("paste the text").fill("The harbour committee met in March. The north pier is closed.")
        page.get_by_role("button", name="Summarize").click()
        page.wait_for_url(f"{base}/jobs/*")
        expect(page.locator("#job-status")).to_have_attribute("data-state", "succeeded")
        assert outside == []
