"""A person looks elsewhere: the tab's icon says how it stands, and the browser tells them when it is done."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect

from tests.browser.conftest import LiveSite, both_htmx, started
from tests.browser.test_submit_and_result import Watch
from tests.support.browser import chromium as installed

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

# Chromium without a screen shows every page and no notification: the page is told that it is hidden, and what it would
# show is kept.
ELSEWHERE = """
window.elsewhere = false; window.told = [];
Object.defineProperty(document, 'hidden', { get: () => window.elsewhere });
const real = Notification;
window.Notification = function (title, more) { window.told.push([title, more.body, more.icon]); };
Object.defineProperty(window.Notification, 'permission', { get: () => real.permission });
window.Notification.requestPermission = () => Promise.resolve(real.permission);
"""


@pytest.fixture(scope="module")
def one_chromium(playwright: Playwright) -> Iterator[Browser]:
    """The light one has no notifications."""
    browser = started(playwright, installed.program(whole=True))
    yield browser
    browser.close()


@both_htmx
def test_who_asked_for_it_is_told_in_another_tab_and_nobody_else_polls_there(
    context: BrowserContext, page: Page, live_site: LiveSite
) -> None:
    context.grant_permissions(["notifications"], origin=live_site.address)
    page.add_init_script(ELSEWHERE)
    page.clock.install()
    page.goto("/")
    page.get_by_label("paste the text").fill("The harbour committee met. The north pier is closed until August.")
    page.get_by_role("button", name="Summarize").click()
    page.wait_for_url("**/jobs/*")
    live_site.fake.wait_for_requests(1)
    status, icon = page.locator("#job-status"), page.locator("link[rel=icon]")
    expect(status).to_have_attribute("data-state", "running")
    expect(icon).to_have_attribute("href", re.compile(r"icons/running\.svg"))
    watch = Watch(page)

    button = page.get_by_role("button", name="Notify me in this browser")
    expect(button).to_have_attribute("aria-pressed", "false")
    page.evaluate("window.elsewhere = true")
    page.wait_for_timeout(300)  # what was asked for before is answered
    asked = len(watch.requests)
    page.clock.fast_forward(60_000)
    page.wait_for_timeout(300)
    assert watch.requests[asked:] == [], "nobody asked to be told"

    page.evaluate("window.elsewhere = false")
    button.click()
    expect(page.get_by_role("button", name="This browser notifies you")).to_have_attribute("aria-pressed", "true")
    page.evaluate("window.elsewhere = true")
    live_site.fake.release()
    for _ in range(20):
        page.clock.fast_forward(20_000)
        if status.get_attribute("data-state") == "succeeded":
            break
        page.wait_for_timeout(200)
    expect(status).to_have_attribute("data-state", "succeeded")
    expect(icon).to_have_attribute("href", re.compile(r"icons/succeeded\.svg"))
    ((title, body, picture),) = page.evaluate("window.told")
    assert (title, body) == ("Saved", page.locator("#job-heading").inner_text())
    assert "icons/succeeded.svg" in picture
