"""Pages that are open follow what happens, and say each change once; with either htmx, and whatever the net does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import text

from tasks.ledger.calls import lanes
from tasks.ledger.delivery import gate
from tasks.ledger.errors import Category
from tasks.ledger.jobs import leases, transitions
from tasks.ledger.replays import replays
from tests.browser.conftest import Complaints, both_htmx, empty
from tests.support import factories
from tests.support.site_without_worker import StillSite, still_site
from tests.web.conftest import WebHarness
from webapp.models import Role

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120), both_htmx]

# What a screen reader would hear: each time that the live region was written, what then stood in it.
LISTEN = """document.addEventListener('DOMContentLoaded', () => {
  window.heard = [];
  const live = document.getElementById('live');
  new MutationObserver(() => window.heard.push(live.textContent.trim())).observe(
    live, {childList: true, characterData: true, subtree: true});
});"""
REGIONS = "document.querySelectorAll('[aria-live], [role=status]:not([data-files]), [role=log]').length"


@pytest.fixture(scope="module")
def module_site(addresses: dict[str, str]) -> Iterator[StillSite]:
    with still_site(addresses) as site:
        yield site


@pytest.fixture
def site(module_site: StillSite) -> StillSite:
    empty(module_site.database)
    return module_site


def asked_again(page: Page, times: int = 3) -> None:
    """Wait until the page has asked so often, and has been told that nothing is new."""
    for _ in range(times):
        with page.expect_response(lambda answer: answer.status == 204):
            pass


def test_a_change_of_a_job_is_announced_once_and_nothing_else_is(chromium: Browser, site: StillSite) -> None:
    ada = site.account()
    bench = WebHarness(site.database, ada)
    job_id = bench.job(title="The harbour")
    page = site.window(chromium, ada).new_page()
    page.add_init_script(LISTEN)
    page.goto(f"/jobs/{job_id}")
    assert page.evaluate(REGIONS) == 1
    status = page.locator("#job-status")
    asked_again(page)
    assert page.evaluate("window.heard") == []

    claim = bench.claim(job_id)
    expect(status).to_have_attribute("data-state", "running")
    bench.read(claim, done=1, total=3)
    expect(page.get_by_text("1 of 3 parts done")).to_be_visible()
    page.locator("summary").focus() if page.locator("summary").count() else page.locator("#cancel").focus()
    asked_again(page)
    assert page.evaluate("window.heard") == ["Working, attempt 1 of 3"]
    with site.database.transaction() as session:
        transitions.retry_later(session, claim, category=Category.OVERLOADED, delay_seconds=1)
    expect(status).to_have_attribute("data-state", "retry_wait")
    with site.database.transaction() as session:
        factories.let_the_wait_be_over(session, job_id)
    claim = bench.claim(job_id)
    expect(status).to_have_attribute("data-state", "running")
    with site.database.transaction() as session:
        transitions.succeed(session, claim, text="The **pier** is closed.", facts={})
    expect(status).to_have_attribute("data-state", "succeeded")
    expect(page).to_have_title("Saved – The harbour")
    assert page.evaluate("window.heard") == [
        "Working, attempt 1 of 3",
        "Waiting to retry, attempt 2 of 3",
        "Working, attempt 2 of 3",
        "Saved",
    ]
    assert page.evaluate(REGIONS) == 1


def test_the_list_says_once_how_many_stand_where(chromium: Browser, site: StillSite) -> None:
    ada = site.account()
    bench = WebHarness(site.database, ada)
    first, second = bench.job(title="First"), bench.job(title="Second")
    page = site.window(chromium, ada).new_page()
    page.add_init_script(LISTEN)
    page.goto("/")
    page.get_by_role("link", name="First").focus()
    asked_again(page)
    claim = bench.claim(first)
    expect(page.locator(".badge[data-state=running]")).to_be_visible()
    asked_again(page)
    assert page.evaluate("window.heard") == [], "that one of several has begun is no news"
    with site.database.transaction() as session:
        transitions.succeed(session, claim, text="x", facts={})
    expect(page.locator(".badge[data-state=succeeded]")).to_be_visible()
    asked_again(page)
    assert page.evaluate("window.heard") == ["In progress: 1. Saved: 1."]
    expect(page.get_by_role("link", name="First")).to_be_focused()
    with site.database.transaction() as session:
        transitions.cancel(session, second, ada)
    expect(page.locator("[data-poll]")).to_have_count(0)
    assert page.evaluate("window.heard") == ["In progress: 1. Saved: 1.", "Saved: 1. Failed or cancelled: 1."]
    assert page.evaluate(REGIONS) == 1


def test_an_interrupted_connection_is_said_and_taken_back(
    chromium: Browser, site: StillSite, complaints: Complaints
) -> None:
    ada = site.account()
    bench = WebHarness(site.database, ada)
    job_id = bench.job()
    window = site.window(chromium, ada)
    page = window.new_page()
    page.goto(f"/jobs/{job_id}")
    interrupted = page.get_by_role("alert").get_by_text("The connection is interrupted. Still trying.")
    complaints.expect("ERR_INTERNET_DISCONNECTED", "Failed to fetch", "status of 50", "htmx:", "Status Error Code 503")
    window.set_offline(True)
    expect(interrupted).to_be_visible()
    window.set_offline(False)
    expect(interrupted).to_be_hidden()
    window.route("**/status*", lambda route: route.fulfill(status=503, body="<h1>Not now</h1>"))
    expect(interrupted).to_be_visible()
    expect(page.locator("h1")).to_have_text("Harbour report")
    window.unroute("**/status*")
    expect(interrupted).to_be_hidden()
    bench.claim(job_id)
    expect(page.locator("#job-status")).to_have_attribute("data-state", "running")


def test_the_operators_pages_follow_in_place(chromium: Browser, site: StillSite) -> None:
    ada = site.account()
    bench = WebHarness(site.database, ada)
    olga = site.account("olga@example.org", role=Role.OPERATOR)
    page = site.window(chromium, olga).new_page()
    page.add_init_script(LISTEN)
    page.goto("/ops")
    now = page.locator("#ops-now")
    expect(now).to_contain_text("No worker has ever been seen.")
    now.get_by_role("link", name="0").first.focus()
    with site.database.transaction() as session:
        leases.record_heartbeat(session, "a worker", queue=factories.QUEUE, slots=4)
    expect(now).to_contain_text("No alarm.")
    expect(now).to_have_count(1)
    assert page.evaluate("window.heard") == ["No alarm"]

    failed = [bench.failed(Category.AUTH, title=f"Report {number}") for number in range(2)]
    claim = bench.claim(bench.job())
    with site.database.transaction() as session:
        gate.drain(session, factories.QUEUE, by="olga@example.org")
    page.goto("/ops/work")
    work = page.locator("#work-now")
    expect(work).to_contain_text("1 job may still finish")
    with site.database.transaction() as session:
        transitions.succeed(session, claim, text="x", facts={})
    expect(work).to_contain_text("the site is drained")
    expect(work).to_have_count(1)
    assert page.evaluate("window.heard") == ["0 jobs active"]
    page.get_by_role("button", name="Resume").click()

    page.goto(f"/ops/replays/new?job={failed[0]}&job={failed[1]}")
    page.get_by_label("Why they may go through now").select_option("other")
    page.get_by_label("In your words").fill("why not")
    page.get_by_label("Jobs a minute").fill("600")
    page.get_by_role("button", name="Replay 2 jobs").click()
    replay = page.locator("#replay-now")
    expect(replay).to_contain_text("Running: 1 of 2 replayed.")
    settings = factories.settings({"DATABASE_URL": "postgresql://", "REDIS_URL": "redis://"})
    with site.database.transaction() as session:
        session.execute(text("UPDATE replays SET next_at = now()"))
        lanes.resume(session, settings.lane, by="olga", spread_seconds=0)
        assert replays.carry_on(session, factories.QUEUE, settings.replay_terms) is not None
    expect(replay).to_contain_text("Done: 2 jobs went back, 0 succeeded so far.")
    expect(replay).to_have_count(1)
    expect(page.locator("[data-poll]")).to_have_count(1)  # until what went back has ended
