"""Handing in several files, by choice and by drop, and watching all of them in one list."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import text

from tests.browser.conftest import Complaints, LiveSite, both_htmx

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

DROP = """(names) => {
  const data = new DataTransfer();
  for (const name of names) data.items.add(new File([`The harbour report of ${name}.`], name));
  for (const kind of ["dragenter", "dragover", "drop"])
    document.querySelector("footer, main").dispatchEvent(
      new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
}"""


def file(name: str, content: bytes = b"") -> dict[str, object]:
    return {"name": name, "mimeType": "text/plain", "buffer": content or f"The report {name}.".encode()}


def rows_of(page: Page, state: str) -> object:
    return page.locator(f"#my-documents .badge[data-state={state}]")


@both_htmx
def test_several_files_are_sent_one_by_one_and_the_list_follows_them_with_one_request(
    page: Page, live_site: LiveSite
) -> None:
    page.goto("/")
    expect(page.get_by_text("No documents yet.")).to_be_visible()
    page.locator("input[type=file]").set_input_files([file("one.txt"), file("two.txt")])  # type: ignore[list-item]
    expect(page.locator("[data-files] li")).to_have_count(2)
    with page.expect_event("load"):  # of the page that shows the documents
        page.get_by_role("button", name="Summarize").click()
    expect(page.locator("#my-documents li")).to_have_count(2)
    assert page.url.endswith("/#mine")

    page.evaluate(DROP, ["three.txt", "four.txt"])
    expect(page.locator("[data-files] li")).to_have_count(2)
    with page.expect_event("load"):  # of the page that shows the documents
        page.get_by_role("button", name="Summarize").click()
    expect(page.locator("#my-documents li")).to_have_count(4)
    expect(rows_of(page, "running").first).to_be_visible()  # type: ignore[attr-defined]

    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    loads: list[str] = []
    page.on("load", lambda _: loads.append(page.url))
    live_site.fake.release()
    expect(rows_of(page, "succeeded")).to_have_count(4)  # type: ignore[arg-type]
    assert loads == []
    assert asked and all("/jobs/mine" in address for address in asked)
    with live_site.database.transaction() as session:
        assert session.execute(text("SELECT count(*) FROM jobs")).scalar_one() == 4

    page.get_by_label("Words in title").fill("two")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#my-documents li")).to_have_count(1)
    expect(page.get_by_role("link", name="two.txt")).to_be_visible()


def test_a_file_that_is_refused_is_named_beside_those_that_were_taken(
    page: Page, live_site: LiveSite, complaints: Complaints, tmp_path: Path
) -> None:
    complaints.expect("status of 422")
    page.goto("/")
    chosen = [file("good.txt"), file("picture.png", b"\x89PNG\r\n\x1a\n" + b"\0" * 40)]
    page.locator("input[type=file]").set_input_files(chosen)  # type: ignore[arg-type]
    page.get_by_role("button", name="Summarize").click()
    rows = page.locator("[data-files] li")
    expect(rows.nth(0).get_by_role("link", name="Submitted")).to_be_visible()
    expect(rows.nth(1)).to_contain_text("This is a picture")
    (tmp_path / "large.txt").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    page.locator("input[type=file]").set_input_files(tmp_path / "large.txt")
    expect(rows.first).to_contain_text("The limit is 10 MB")


def test_a_form_whose_session_has_ended_comes_back_as_a_page(
    context: BrowserContext, page: Page, live_site: LiveSite, complaints: Complaints
) -> None:
    complaints.expect("status of 40[01]")
    page.goto("/")
    page.locator("input[type=file]").set_input_files(file("one.txt"))  # type: ignore[arg-type]
    context.clear_cookies()
    page.get_by_role("button", name="Summarize").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    expect(page.get_by_text("choose yours again")).to_be_visible()
