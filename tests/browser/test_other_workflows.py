from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import Complaints, LiveSite

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

MINUTES = (
    "The harbour committee met in March. Anna repairs the north pier by August. The ferry moves to the south pier."
)
ANSWER = (
    "1. Anna does.\n> Anna repairs the north pier by August.\n\n"
    "2. It goes to the moon.\n> The ferry moves to the moon.\n"
)


@pytest.mark.parametrize("scripts", [True, False], ids=["with_scripts", "without_scripts"])
def test_a_person_asks_two_questions_and_reads_answers_with_their_passage(
    context: BrowserContext, live_site: LiveSite, scripts: bool, complaints: Complaints
) -> None:
    complaints.expect("status of 422")
    live_site.fake.script([{"mode": "ok", "text": ANSWER}])
    browser = context.browser
    assert browser is not None
    window = browser.new_context(
        base_url=live_site.address, storage_state=context.storage_state(), java_script_enabled=scripts
    )
    page = window.new_page()
    page.goto("/")
    expect(page.get_by_text("Length", exact=True)).to_be_visible()
    expect(page.get_by_label("Questions", exact=True)).to_be_hidden()
    page.get_by_label("Answers to questions").check()
    expect(page.get_by_text("Length", exact=True)).to_be_hidden()

    page.get_by_label("paste the text").fill(MINUTES)
    page.get_by_role("button", name="Summarize").click()
    expect(page.get_by_text("Write one to 5 lines")).to_be_visible()
    expect(page.get_by_label("paste the text")).to_have_value(MINUTES)
    page.get_by_label("Questions", exact=True).fill("Who repairs the pier?\nWhere does the ferry go?")
    page.get_by_role("button", name="Summarize").click()
    page.wait_for_url("**/jobs/*")
    live_site.fake.wait_for_requests(1)
    live_site.fake.wait_for(lambda: live_site.fake.in_flight == 0)
    while not scripts and page.locator("#job-status").get_attribute("data-state") != "succeeded":
        page.get_by_role("link", name="Refresh status").click()
    expect(page.locator("#job-status")).to_have_attribute("data-state", "succeeded")

    result = page.locator("#result")
    expect(result.get_by_role("heading", name="Answers to questions")).to_be_visible()
    expect(result.locator(".prose strong")).to_have_text(["Who repairs the pier?", "Where does the ferry go?"])
    expect(result.locator(".prose blockquote")).to_have_text(["Anna repairs the north pier by August."])
    expect(
        result.locator(".prose").get_by_text("No passage of the document was found that supports this answer.")
    ).to_be_visible()
    page.get_by_text("How the text begins").click()
    expect(page.locator(".read details p")).to_have_text(MINUTES)
    window.close()


def test_a_table_with_a_long_address_does_not_widen_a_narrow_page(context: BrowserContext, live_site: LiveSite) -> None:
    address = "https://example.org/" + "long" * 100
    row = f"| {'Harbourmaster' * 20} | Tell {address} | {'W' * 300} |"
    live_site.fake.script([{"mode": "ok", "text": f"| Who | What | By when |\n|---|---|---|\n{row}"}])
    page = context.new_page()
    page.set_viewport_size({"width": 320, "height": 800})
    page.goto("/")
    page.get_by_label("paste the text").fill(f"{MINUTES} See {address}")
    page.get_by_label("Action items").check()
    page.get_by_role("button", name="Summarize").click()
    page.wait_for_url("**/jobs/*")
    expect(page.locator("#job-status")).to_have_attribute("data-state", "succeeded")
    expect(page.locator("#result td")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename.startswith("Action items of The harbour committee")
