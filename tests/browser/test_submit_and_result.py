from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, Request, expect

from tests.browser.conftest import Complaints, LiveSite, both_htmx
from tests.support import factories

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


class Watch:
    """Record the requests of a page."""

    def __init__(self, page: Page) -> None:
        self.requests: list[str] = []
        self.loads = 0
        page.on("request", self._asked)
        page.on("load", lambda _: setattr(self, "loads", self.loads + 1))

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)


@both_htmx
def test_a_person_hands_in_a_text_and_watches_it_become_a_summary(
    context: BrowserContext, page: Page, live_site: LiveSite, htmx: str
) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.clock.install()
    page.add_init_script("window.unhurried = true")  # the page asks by its own clock
    page.goto("/")
    assert page.evaluate("htmx.version").startswith(f"{htmx}.")
    # From opening the site to a document handed in: two actions. The choices have their defaults.
    page.get_by_label("paste the text").fill("The harbour committee met. The north pier is closed until August.")
    page.get_by_role("button", name="Summarize").click()
    page.wait_for_url("**/jobs/*")
    watch = Watch(page)

    status = page.locator("#job-status")
    expect(status).to_have_attribute("data-state", "running")
    expect(page.locator(".badge").first).to_contain_text("Working")
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
    page.clock.run_for(60_000)  # ms; many polls, if there were any
    page.evaluate("fetch('/healthz')")  # whatever was asked for before this has been heard of
    assert watch.requests[asked_so_far:] == [f"{live_site.address}/healthz"]


def test_everything_works_without_scripts(context: BrowserContext, live_site: LiveSite) -> None:
    live_site.fake.release()
    state = context.storage_state()
    browser = context.browser
    assert browser is not None
    plain = browser.new_context(base_url=live_site.address, storage_state=state, java_script_enabled=False)
    page = plain.new_page()
    page.goto("/")
    page.locator("input[type=file]").set_input_files(
        {"name": "harbour.txt", "mimeType": "text/plain", "buffer": factories.TEXT}
    )
    page.get_by_role("button", name="Summarize").click()
    page.wait_for_url("**/jobs/*")

    def saved() -> bool:
        page.reload()
        return page.locator("#job-status").get_attribute("data-state") == "succeeded"

    factories.wait_until(saved, every=0.3)
    expect(page.locator("#result strong")).to_have_text("north pier")
    plain.close()


@both_htmx
def test_a_cancel_is_shown_at_once_and_stays(page: Page, live_site: LiveSite) -> None:
    page.goto("/")
    page.get_by_label("paste the text").fill("A text that nobody wants to have summarised after all.")
    page.get_by_role("button", name="Summarize").click()
    live_site.fake.wait_for_requests(1)
    page.get_by_role("button", name="Cancel").click()
    status = page.locator("#job-status")
    expect(status).to_have_attribute("data-state", "cancelled")
    live_site.fake.release()
    expect(page.locator(".badge").first).to_contain_text("Cancelled")
    expect(page.locator("#result")).to_have_count(0)


ADD = "document.body.append(Object.assign(document.createElement('{}'), {{{}}}))"


def test_nothing_that_a_browser_complains_about_goes_by_unheard(
    page: Page, live_site: LiveSite, complaints: Complaints
) -> None:
    """Check what every other test here relies on."""
    page.goto("/account")
    assert complaints.heard == []
    faults = {
        "error: a thing went wrong": "console.error('a thing went wrong')",
        "warning: a thing may go wrong": "console.warn('a thing may go wrong')",
        "page error: nobody catches this": "setTimeout(() => { throw new Error('nobody catches this') })",
        "Applying inline style": "document.body.setAttribute('style', 'color: red')",
        "Executing inline script": ADD.format("script", "textContent: '1'"),
        "Loading the image": ADD.format("img", "src: 'http://127.0.0.1:9/'"),
        "status of 404": "fetch('/nothing')",
    }
    for fault in faults.values():
        page.evaluate(f"() => {{ {fault} }}")

    def all_heard() -> bool:
        page.evaluate("1")  # lets the browser speak
        return all(any(said in one for one in complaints.unexpected) for said in faults)

    factories.wait_until(all_heard, what=lambda: str(complaints.heard))
    complaints.expect("")
