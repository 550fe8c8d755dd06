"""Everything by Tab, Enter and Space alone: each stop can be seen, and they come in the order of the page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PASSWORD, Complaints, LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

# Where the keyboard is: its name, whether a ring is drawn around it (around its label, for a hidden radio button),
# whether it is in sight, and whether it comes after the stop before, in the order of the page.
STOP = """() => {
  const at = document.activeElement, shown = [at, at.closest('label')].filter(Boolean);
  const ring = shown.some((one) => {
    const style = getComputedStyle(one);
    return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  });
  const box = shown.at(-1).getBoundingClientRect(), before = window.stopBefore;
  window.stopBefore = at;
  return {
    name: (at.getAttribute('aria-label') || at.labels?.[0]?.textContent || at.textContent || at.name).trim(),
    ring: ring,
    inSight: box.width > 0 && box.bottom > 0 && box.top < innerHeight,
    inOrder: !before || !before.isConnected || Boolean(
      before.compareDocumentPosition(at) & Node.DOCUMENT_POSITION_FOLLOWING),
  };
}"""


def tab_to(page: Page, name: str, *, most: int = 40) -> list[str]:
    """Press Tab until the keyboard is on what has this name. The stops on the way."""
    stops: list[str] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        stops.append(stop["name"])
        assert stop["ring"] and stop["inSight"] and stop["inOrder"], (stop, stops)
        if stop["name"].startswith(name):
            return stops
    raise AssertionError(f"no {name!r} among {stops}")


def test_a_person_without_a_mouse_signs_in_hands_in_cancels_and_copies(
    chromium: Browser, live_site: LiveSite, account: object, email: str, complaints: Complaints
) -> None:
    window = chromium.new_context(base_url=live_site.address)
    window.grant_permissions(["clipboard-read", "clipboard-write"])
    page = window.new_page()
    page.goto("/login")
    expect(page.get_by_label("E-mail")).to_be_focused()
    page.keyboard.type(email)
    tab_to(page, "Password")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{live_site.address}/")

    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    stops = tab_to(page, "or paste the text")
    assert not {"Waybill", "New document", "Account"} & set(stops), "the head of the page is skipped"
    page.keyboard.type("A text that nobody wants to have summarised after all.")
    on_the_form = tab_to(page, "Summarize")
    assert on_the_form[0].startswith("Title") and len(on_the_form) <= 8
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/*")
    live_site.fake.wait_for_requests(1)
    expect(page.locator("#job-status")).to_have_attribute("data-state", "running")

    tab_to(page, "Cancel the work on")
    page.keyboard.press("Space")
    expect(page.locator("#job-status")).to_have_attribute("data-state", "cancelled")
    expect(page.locator("#job-heading")).to_be_focused()
    live_site.fake.release()
    tab_to(page, "Summarize anyway")
    page.keyboard.press("Enter")
    expect(page.locator("#job-status")).to_have_attribute("data-state", "succeeded")
    stops = tab_to(page, "Copy as Markdown")
    assert stops[-2] == "Copy"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "The north pier is closed until August.\n"


def test_a_stop_without_a_ring_would_be_found(page: Page) -> None:
    page.goto("/account")
    tab_to(page, "Sign out")
    page.locator("html").evaluate(
        """() => { const sheet = new CSSStyleSheet(); sheet.replaceSync('* { outline: none !important }');
        document.adoptedStyleSheets = [sheet]; }"""
    )
    with pytest.raises(AssertionError, match="Sign out everywhere"):
        tab_to(page, "Sign out everywhere")
