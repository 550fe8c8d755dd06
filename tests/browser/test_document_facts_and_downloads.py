"""A result on paper and as files, with nothing loaded from elsewhere; and what programs can do, told on a page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Complaints
from tests.support.site_without_worker import ANSWER, StillSite, still_site
from tests.web.conftest import WebHarness

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def site(addresses: dict[str, str]) -> Iterator[StillSite]:
    with still_site(addresses) as site:
        yield site


def asked_of(page: Page) -> list[str]:
    """The addresses this page asks for from now on."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    return asked


def test_a_result_is_printed_without_the_page_around_it_and_downloaded(chromium: Browser, site: StillSite) -> None:
    ada = site.account()
    job_id = WebHarness(site.database, ada).succeeded(f"{ANSWER}\n\n![a picture](https://example.org/picture.png)")
    page = site.window(chromium, ada).new_page()
    asked = asked_of(page)
    page.goto(f"/jobs/{job_id}")
    result = page.locator("#result")
    expect(result).to_contain_text("https://example.org/pier?of=harbour")
    assert result.locator("a, img").count() == 0
    for name, suffix in (("Word", ".docx"), ("Markdown", ".md"), ("Text", ".txt"), ("Original", ".txt")):
        with page.expect_download() as download:
            page.locator(".acts").get_by_role("link", name=name).click()
        assert download.value.suggested_filename.endswith(suffix)
    assert all(address.startswith(site.address) for address in asked)

    page.emulate_media(media="print", color_scheme="dark")
    expect(result.locator("strong")).to_be_visible()
    expect(page.locator("h1")).to_be_visible()
    for around in (".acts", ".top nav", ".log", ".route"):
        expect(page.locator(around).first).to_be_hidden()
    ink, paper = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).colorScheme]")
    assert (ink, paper) == ("rgb(29, 35, 43)", "light")


def test_what_programs_can_do_is_told_on_a_page(chromium: Browser, site: StillSite, complaints: Complaints) -> None:
    complaints.expect("favicon.ico")  # of the browser's own page around JSON
    page = site.window(chromium, None).new_page()
    asked = asked_of(page)
    page.goto("/api/docs")
    page.locator("summary", has_text="POST").first.click()
    shown = page.locator("details[open]").first
    expect(shown.get_by_text("Responses")).to_be_visible()
    shown.locator("a[href^='#schema-']").first.click()
    expect(page.locator(":target")).to_be_visible()
    page.get_by_role("link", name="OpenAPI document").click()
    assert '"openapi":"3.1' in page.locator("body").inner_text().replace(" ", "")
    assert all(address.startswith(site.address) for address in asked)
