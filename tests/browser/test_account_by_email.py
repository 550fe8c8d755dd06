"""An account by invitation and mail, a notice that comes, a limit that is told, a password forgotten and changed."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tasks.database import Database
from tasks.queue import DeliveryQueue
from tests.browser.conftest import Complaints
from tests.support import factories
from tests.support.browser import session_and_axe
from tests.support.fakes.mail_and_webhook_servers import MailReceiver, mail_receiver
from tests.support.processes.processes import answers, process, worker
from webapp.local.ports import free_port
from webapp.models import Role

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]
EMAIL, PASSWORD, OTHER = "bea@example.org", "a harbour at night", "another harbour at dawn"


def link_of_mail(mails: MailReceiver, number: int, address: str) -> str:
    """The link that this mail brings."""
    mail = mails.wait_for(number)[number - 1]
    body = mail.get_body(("plain",))
    assert body is not None
    (link,) = [found for found in re.findall(rf"{address}/\S+", body.get_content()) if found.count("/") > 3]
    return str(link)


def sign_in(page: Page, password: str) -> None:
    page.goto("/login")
    page.get_by_label("E-mail").fill(EMAIL)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def register_by_invitation(operator: Page, page: Page, mails: MailReceiver, address: str) -> None:
    operator.goto("/ops/invitations")
    operator.locator("main form [name=email]").fill(EMAIL)
    operator.get_by_role("button", name="Make a link").click()
    page.goto(operator.locator(".token code").inner_text())
    expect(page.get_by_label("E-mail")).to_have_value(EMAIL)
    page.get_by_role("button", name="Register").click()
    page.get_by_role("heading", name="Check your e-mail").wait_for()
    page.goto(link_of_mail(mails, 1, address))
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_text("1 of 1 left today")).to_be_visible()


def be_told_by_mail(page: Page, mails: MailReceiver, address: str) -> None:
    page.goto("/account")
    page.get_by_role("link", name="Notification settings").click()
    page.get_by_role("button", name="E-mail me when a document is done").click()
    page.goto(link_of_mail(mails, 2, address))
    page.get_by_role("button", name="Yes, e-mail me").click()
    expect(page.get_by_role("button", name="Turn off e-mails")).to_be_visible()
    page.goto("/")
    page.get_by_label("paste the text").fill("The north pier is closed. The ferry goes from the south pier.")
    page.get_by_role("button", name="Summarize").click()
    page.wait_for_url("**/jobs/*")
    expect(page.locator("#job-status")).to_have_attribute("data-state", "succeeded")
    mail = mails.wait_for(3)[2]
    assert mail["to"] == EMAIL and page.url in mail.get_content()


def meet_the_limit(page: Page) -> None:
    page.goto("/")
    limit = page.locator("#limit")
    expect(limit).to_contain_text("1 of 1. You can submit the next one at")
    page.get_by_label("paste the text").fill("One more, which is too many for today.")
    page.get_by_role("button", name="Summarize").click()
    expect(page.locator("#limit[role=alert]")).to_contain_text("You can submit the next one at")
    expect(page.get_by_label("paste the text")).to_have_value("One more, which is too many for today.")
    page.goto("/account")
    expect(page.get_by_role("region", name="Limits")).to_contain_text("1 of 1")


def forget_and_change_the_password(page: Page, mails: MailReceiver, address: str) -> None:
    page.goto("/account")
    page.get_by_role("button", name="Sign out", exact=True).click()
    page.goto("/login")
    page.get_by_role("link", name=re.compile("[Ff]org")).click()
    page.get_by_label("E-mail").fill(EMAIL)
    page.get_by_role("button", name="Send the link").click()
    page.goto(link_of_mail(mails, 4, address))
    page.get_by_label("password").fill(OTHER)
    page.get_by_role("button", name="Change password").click()
    page.wait_for_url("**/login")
    sign_in(page, PASSWORD)
    expect(page.get_by_text("Wrong e-mail address or password.")).to_be_visible()
    sign_in(page, OTHER)
    page.wait_for_url(f"{address}/")
    page.goto("/account")
    page.locator("#current-password").fill(OTHER)
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("status").first).to_contain_text("Your password has been changed")


@pytest.mark.thorough
def test_a_person_is_invited_and_told_by_mail(
    chromium: Browser, addresses: dict[str, str], database: Database, queue: DeliveryQueue, complaints: Complaints
) -> None:
    complaints.expect("status of 4(01|29)")  # the limit, and the password that was
    port = str(free_port())
    address = f"http://127.0.0.1:{port}"
    with database.transaction() as session:
        operator = factories.make_account(session, "olga@example.org", Role.OPERATOR)
    with mail_receiver() as mails:
        settings = {"REGISTRATION": "invite", "JOBS_PER_DAY": "1", "APP_BASE_URL": address}
        settings |= {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(mails.port), "SMTP_SECURITY": "none"}
        settings |= {"MAIL_FROM": "waybill@example.org"}
        variables = factories.environment(addresses, HOST="127.0.0.1", PORT=port, **settings)
        with process(["-m", "gunicorn", "wsgi:app"], variables) as web, worker(addresses, **settings):
            factories.wait_until(lambda: answers(f"{address}/healthz"), what=lambda: web.log)
            hers = chromium.new_context(base_url=address)
            session_and_axe.sign_in(hers, address, operator)
            page = chromium.new_context(base_url=address).new_page()
            register_by_invitation(hers.new_page(), page, mails, address)
            be_told_by_mail(page, mails, address)
            meet_the_limit(page)
            forget_and_change_the_password(page, mails, address)
