from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, expect

from tests.browser.conftest import LiveSite
from tests.support import house

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


class Watch:
    """What a page asked for and complained about."""

    def __init__(self, page: Page) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.loads = 0
        page.on("request", self._asked)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("load", lambda _: setattr(self, "loads", self.loads + 1))

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


def test_a_person_hands_in_a_text_and_watches_it_become_a_summary(context: BrowserContext, live_site: LiveSite) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto("/")
    # From opening the site to a document handed in: two actions. The choices have their defaults.
    page.get_by_label("paste the text").fill("The harbour committee met. The north pier is closed until August.")
    page.get_by_role("button", name="Hand in").click()
    page.wait_for_url("**/jobs/*")
    watch = Watch(page)

    status = page.locator("#job-status")
    expect(status).to_have_attribute("data-state", "running")
    expect(page.locator(".badge").first).to_contain_text("Being worked on")
    live_site.fake.wait_for_requests(1)
    live_site.fake.release()
    expect(status).to_have_attribute("data-state", "succeeded")
    expect(page.locator(".badge").first).to_contain_text("Saved")
    expect(page).to_have_title("Saved – The harbour committee met. The north pier is closed until…")
    expect(page.locator("#result strong")).to_have_text("north pier")

    # From the result to its text in another program: one action.
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "The north pier is closed until August.\n"
    page.get_by_role("button", name="Copy as Markdown").click()
    expect(page.get_by_role("button", name="Copied").nth(1)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "The **north pier** is closed until August."

    assert watch.loads == 0, "the page was reloaded"
    polls = [url for url in watch.requests if "/status" in url]
    assert polls
    asked_so_far = len(watch.requests)
    page.wait_for_timeout(5_000)  # two polls and a half, if there were any
    assert watch.requests[asked_so_far:] == []
    assert watch.complaints == []


def test_everything_works_without_scripts(context: BrowserContext, live_site: LiveSite) -> None:
    live_site.fake.release()
    state = context.storage_state()
    browser = context.browser
    assert browser is not None
    plain = browser.new_context(base_url=live_site.address, storage_state=state, java_script_enabled=False)
    page = plain.new_page()
    page.goto("/")
    page.locator("input[type=file]").set_input_files(
        {"name": "harbour.txt", "mimeType": "text/plain", "buffer": house.TEXT}
    )
    page.get_by_role("button", name="Hand in").click()
    page.wait_for_url("**/jobs/*")

    def saved() -> bool:
        page.reload()
        return page.locator("#job-status").get_attribute("data-state") == "succeeded"

    house.wait_until(saved, every=0.3)
    expect(page.locator("#result strong")).to_have_text("north pier")
    plain.close()


def test_a_cancel_is_shown_at_once_and_stays(context: BrowserContext, live_site: LiveSite) -> None:
    page = context.new_page()
    page.goto("/")
    page.get_by_label("paste the text").fill("A text that nobody wants to have summarised after all.")
    page.get_by_role("button", name="Hand in").click()
    live_site.fake.wait_for_requests(1)
    page.get_by_role("button", name="Cancel").click()
    status = page.locator("#job-status")
    expect(status).to_have_attribute("data-state", "cancelled")
    live_site.fake.release()
    expect(page.locator(".badge").first).to_contain_text("Cancelled")
    expect(page.locator("#result")).to_have_count(0)


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_the_window(
    context: BrowserContext, live_site: LiveSite, width: int, scheme: str
) -> None:
    live_site.fake.release()
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto("/")
    page.get_by_label("paste the text").fill("W" * 5_000)
    page.get_by_role("button", name="Hand in").click()
    page.wait_for_url("**/jobs/*")
    expect(page.locator("#job-status")).to_have_attribute("data-state", "succeeded")
    for address in (page.url, f"{page.url}/delete", "/", "/account", "/jobs/nothing"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
