"""An account from its first day to its last session, by a service to sign in with, under the policy of the pages."""

from __future__ import annotations

import re
import zipfile

import pytest
from playwright.sync_api import Browser, expect

from tasks.database import Database
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.fakes.openid_provider import CLIENT, SECRET, sign_in_service
from tests.support.processes.processes import answers, process
from webapp.local.ports import free_port

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]
PASSWORD = "a harbour at night"


def test_a_person_comes_by_a_service_and_makes_the_account_their_own(
    chromium: Browser, addresses: dict[str, str], database: Database, queue: DeliveryQueue
) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with sign_in_service() as service:
        service.claims = {"sub": "77", "email": "ada@example.org", "email_verified": True}
        variables = factories.environment(
            addresses,
            HOST="127.0.0.1",
            PORT=address.rpartition(":")[2],
            APP_BASE_URL=address,
            OIDC_ISSUER=service.issuer,
            OIDC_CLIENT_ID=CLIENT,
            OIDC_CLIENT_SECRET=SECRET,
            OIDC_LABEL="Harbour ID",
        )
        with process(["-m", "gunicorn", "wsgi:app"], variables) as web:
            factories.wait_until(lambda: answers(f"{address}/healthz"), what=lambda: web.log)
            context = chromium.new_context(base_url=address, permissions=["clipboard-read", "clipboard-write"])
            page = context.new_page()
            page.goto("/account")
            page.get_by_role("link", name="Sign in with Harbour ID").click()
            page.wait_for_url("**/account")
            expect(page.get_by_text("ada@example.org", exact=True)).to_be_visible()

            page.get_by_label("New password").fill(PASSWORD)
            page.get_by_role("button", name="Set a password").click()
            expect(page.get_by_role("status").first).to_contain_text("Your password has been changed")

            page.get_by_role("button", name="Disconnect").click()
            page.locator("#service-password").fill(PASSWORD)
            page.get_by_role("button", name="Connect", exact=True).click()
            page.get_by_role("link", name="Go to Harbour ID").click()
            page.wait_for_url("**/account")
            expect(page.get_by_role("button", name="Disconnect")).to_be_visible()

            with page.expect_download() as download:
                page.get_by_role("button", name="Download").click()
            with zipfile.ZipFile(download.value.path()) as file:
                assert file.testzip() is None and "account.json" in file.namelist()

            page.get_by_role("button", name="Sign out everywhere").click()
            expect(page.get_by_role("status").first).to_contain_text("signed out everywhere")
            page.get_by_label("E-mail address").fill("ada@example.org")
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in", exact=True).click()
            page.wait_for_url(f"{address}/")

            page.goto("/account")
            page.get_by_label("Language of pages").select_option("Deutsch")
            page.get_by_role("button", name="Change", exact=True).click()
            expect(page.get_by_role("status").first).to_contain_text("Die Sprache wurde geändert")
            expect(page.locator("dd time")).to_have_text(re.compile(r"\d+\. \w+\.? \d{4}"))  # as the script writes it
            page.get_by_label("Name eines neuen Tokens").fill("Nachtbericht")
            page.get_by_role("button", name="Token erstellen").click()
            page.get_by_role("button", name="Kopieren").click()
            expect(page.get_by_role("button", name="Kopiert")).to_be_visible()
            context.close()
