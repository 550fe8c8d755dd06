"""Deleting, being signed out in the middle, and clicking twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import text

from tasks.database import Database
from tests.browser.conftest import PASSWORD, Complaints, LiveSite, both_htmx
from tests.support import factories

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


def hand_in(page: Page, words: str = "The harbour committee met. The north pier is closed.") -> str:
    """Paste a text and give the address of its job."""
    page.goto("/")
    page.get_by_label("paste the text").fill(words)
    page.get_by_role("button", name="Summarize").click()
    page.wait_for_url("**/jobs/*")
    return page.url


def sign_in(page: Page, email: str) -> None:
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def polls_of(page: Page) -> list[str]:
    """The polls this page makes from now on."""
    polls: list[str] = []
    page.on("request", lambda request: polls.append(request.url) if "/status" in request.url else None)
    return polls


def assert_no_more_polls(page: Page, polls: list[str]) -> None:
    """Nothing is asked for in the next minute of a page whose clock the test has in its hands."""
    polled = len(polls)
    page.clock.run_for(60_000)
    page.evaluate("fetch('/healthz')")  # whatever was asked for before this has been heard of
    assert len(polls) == polled


def count(database: Database, table: str) -> int:
    with database.transaction() as session:
        return factories.count(session, table)


@both_htmx
def test_a_document_is_deleted_and_a_tab_that_watched_it_stops(
    context: BrowserContext, live_site: LiveSite, complaints: Complaints
) -> None:
    complaints.expect("status of 404")
    watching = context.new_page()
    watching.clock.install()
    address = hand_in(watching)
    live_site.fake.wait_for_requests(1)
    expect(watching.locator("#job-status")).to_have_attribute("data-state", "running")
    polls = polls_of(watching)

    page = context.new_page()
    page.goto(address)
    page.get_by_role("link", name="Delete").click()
    expect(page.get_by_text("may still be billed")).to_be_visible()
    page.get_by_role("link", name="Keep it").click()
    page.wait_for_url(address)
    page.get_by_role("link", name="Delete").click()
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/")
    expect(page.get_by_text("The document and its results have been deleted")).to_be_visible()
    expect(page.get_by_text("No documents yet.")).to_be_visible()

    expect(watching.get_by_role("heading", name="There is nothing here")).to_be_visible()
    assert watching.url == address
    live_site.fake.release()
    live_site.fake.wait_for(lambda: live_site.fake.in_flight == 0)
    assert_no_more_polls(watching, polls)
    assert [count(live_site.database, table) for table in ("jobs", "documents", "results")] == [0, 0, 0]


def test_an_account_is_deleted_from_its_page(
    page: Page, live_site: LiveSite, email: str, complaints: Complaints
) -> None:
    complaints.expect("status of 40[13]")  # the wrong password
    live_site.fake.release()
    hand_in(page)
    page.goto("/account")
    form = page.locator("form").filter(has=page.get_by_role("button", name="Delete account"))
    password = form.get_by_label("Your password")
    password.fill("not the password")
    page.get_by_label("Yes, delete everything").check()
    page.get_by_role("button", name="Delete account").click()
    expect(page.get_by_text("Wrong password.")).to_be_visible()
    password.fill(PASSWORD)
    page.get_by_label("Yes, delete everything").check()
    page.get_by_role("button", name="Delete account").click()
    page.wait_for_url("**/login")
    expect(page.get_by_text("have been deleted")).to_be_visible()
    assert [count(live_site.database, table) for table in ("accounts", "jobs", "documents")] == [0, 0, 0]
    sign_in(page, email)
    expect(page.get_by_text("Wrong e-mail address or password.")).to_be_visible()


@both_htmx
def test_a_session_that_ends_while_the_page_polls_leads_over_the_sign_in_page_back_to_the_job(
    context: BrowserContext, page: Page, live_site: LiveSite, email: str, complaints: Complaints
) -> None:
    complaints.expect("status of 401")
    page.clock.install()
    address = hand_in(page)
    live_site.fake.wait_for_requests(1)
    context.clear_cookies()
    page.wait_for_url("**/login?next=/jobs/*")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_text("Sign in to continue where you left off.")).to_be_visible()
    expect(page.locator("#job-status")).to_have_count(0)
    polls = polls_of(page)
    live_site.fake.release()
    assert_no_more_polls(page, polls)
    sign_in(page, email)
    page.wait_for_url(address)
    expect(page.locator("#job-status")).to_have_attribute("data-state", "succeeded")


def test_somebody_else_who_signs_in_there_does_not_find_the_job(
    context: BrowserContext, page: Page, live_site: LiveSite, complaints: Complaints
) -> None:
    complaints.expect("status of 401", "status of 404")
    address = hand_in(page)
    context.clear_cookies()
    page.wait_for_url("**/login?next=/jobs/*")
    page.get_by_role("link", name="Register").click()
    page.get_by_label("E-mail").fill("somebody.else@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Register").click()
    page.wait_for_url(address)
    expect(page.get_by_role("heading", name="There is nothing here")).to_be_visible()
    live_site.fake.release()


@contextmanager
def slow_server(database: Database) -> Iterator[None]:
    """While the block runs, the server gets no answer when it wants to keep a document."""
    with database.engine.connect() as connection:
        connection.execute(text("LOCK TABLE documents IN SHARE ROW EXCLUSIVE MODE"))
        yield
        connection.rollback()


def held_up(database: Database) -> int:
    """Return how many requests wait for it."""
    with database.transaction() as session:
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(session.execute(text(waiting)).scalar_one())


@pytest.mark.parametrize("scripts", [True, False], ids=["with_scripts", "without_scripts"])
@pytest.mark.parametrize("sort", ["text", "file"])
def test_clicking_again_and_again_on_a_slow_server_makes_one_job_and_one_request(
    context: BrowserContext, live_site: LiveSite, scripts: bool, sort: str
) -> None:
    live_site.fake.release()
    browser, posts = context.browser, []
    assert browser is not None
    window = browser.new_context(
        base_url=live_site.address, storage_state=context.storage_state(), java_script_enabled=scripts
    )
    page = window.new_page()
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    page.goto("/")
    if sort == "text":
        page.get_by_label("paste the text").fill("The harbour committee met. The north pier is closed.")
    else:
        file = {"name": "harbour.txt", "mimeType": "text/plain", "buffer": factories.TEXT}
        page.locator("input[type=file]").set_input_files(file)  # type: ignore[arg-type]
    button = page.get_by_role("button", name="Summarize")
    button.scroll_into_view_if_needed()
    place = button.bounding_box()
    assert place is not None
    at = (place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    with slow_server(live_site.database):
        page.mouse.click(*at)  # unlike a click on a locator, this does not wait for the next page
        factories.wait_until(lambda: held_up(live_site.database) == 1)
        page.mouse.dblclick(*at)
        page.keyboard.press("Enter")
        factories.wait_until(lambda: held_up(live_site.database) >= (1 if scripts else 2))
        assert page.url == f"{live_site.address}/"
    page.wait_for_url("**/jobs/*")
    assert len(posts) == 1 if scripts else len(posts) >= 2
    factories.wait_until(lambda: count(live_site.database, "results") == 1)
    page.reload()
    expect(page.locator("#job-status")).to_have_attribute("data-state", "succeeded")
    assert count(live_site.database, "jobs") == 1 and len(live_site.fake.requests) == 1
    window.close()
