"""An operator, a refused key, and how the work comes back; and what people see of a pause meanwhile."""

from __future__ import annotations

import re
import uuid

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import func, select, update

from tasks.ledger.models import Job
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tests.browser.conftest import Complaints, LiveSite
from tests.support import factories
from tests.support.browser import session_and_axe
from webapp.models import Account, Role

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def has_failed(live_site: LiveSite, job_id: uuid.UUID) -> bool:
    with live_site.database.transaction() as session:
        return factories.state_of(session, job_id) is State.FAILED


def submit_failing(live_site: LiveSite, email: str) -> list[uuid.UUID]:
    """Submit three jobs that wait behind the lane that the refused key has stopped, and fail at their deadline."""
    live_site.fake.script([{"mode": "auth"}])
    with live_site.database.transaction() as session:
        session.execute(update(Account).where(Account.email == email).values(role=Role.OPERATOR))
        owner = session.execute(select(Account.id).where(Account.email == email)).scalar_one()
        jobs = [factories.submit(session, owner, f"Report {n}.".encode(), title=f"Report {n}").job_id for n in range(3)]
    factories.wait_until(lambda: all(waits_for_lane(live_site, job) for job in jobs), within=60)
    with live_site.database.transaction() as session:
        session.execute(update(Job).where(Job.id.in_(jobs)).values(deadline_at=func.now()))
    factories.wait_until(lambda: all(has_failed(live_site, job) for job in jobs), within=60)
    live_site.fake.script([{"mode": "ok", "text": "The pier is closed."}])
    return jobs


def waits_for_lane(live_site: LiveSite, job_id: uuid.UUID) -> bool:
    with live_site.database.transaction() as session:
        return job_views.lane_wait_of(session, job_id) is not None


def open_the_lane(page: Page) -> None:
    page.goto("/ops")
    expect(page.get_by_text("The way to the AI service is stopped.")).to_be_visible()
    page.locator("#ops-now").get_by_role("link", name="Work").click()
    lane = page.get_by_role("region", name="The way to the AI service")
    expect(lane).to_contain_text("The AI service refused the credentials of this site.")
    lane.get_by_label("Why it may be opened").fill("a new key is set")
    lane.get_by_role("button", name="Open the lane").click()
    expect(lane).to_contain_text("open")
    expect(lane.get_by_role("button")).to_have_count(0)


def replay_after_a_dry_run(page: Page) -> None:
    page.get_by_role("link", name="Replays", exact=True).click()
    page.get_by_role("link", name=re.compile("What would happen: replay of auth")).click()
    expect(page.locator("#would")).to_contain_text("3 jobs would go back to the queue")
    page.set_viewport_size({"width": 320, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_label("Why they may go through now").select_option("credentials_renewed")
    page.get_by_label("In your words").fill("the key had expired")
    page.get_by_label("Jobs a minute").fill("600")
    page.get_by_role("button", name="Replay 3 jobs").click()
    now = page.locator("#replay-now")
    expect(now).to_contain_text("Done: 3 jobs went back, 3 succeeded so far.", timeout=30_000)
    expect(now.locator(".badge", has_text="Saved")).to_have_count(3)


def pause_and_resume(page: Page) -> None:
    page.goto("/ops/work")
    page.get_by_label("Why kept with the decision", exact=True).first.fill("the database moves")
    page.get_by_role("button", name="Drain").click()
    expect(page.locator("#work-now")).to_contain_text("nothing is active: the site is drained")
    page.goto("/")
    expect(page.locator("#paused")).to_contain_text("The operator has paused the work.")
    page.get_by_label("paste the text").fill("A text that is handed in while the work is paused.")
    page.get_by_role("button", name="Summarize").click()
    page.wait_for_url("**/jobs/*")
    status = page.locator("#job-status")
    expect(status).to_contain_text("Your document is safe and continues when the work resumes.")
    other = page.context.new_page()
    other.goto("/ops/work")
    other.get_by_role("button", name="Resume").click()
    expect(other.locator("#work-now")).to_contain_text("Work goes on.")
    other.close()
    expect(status).to_have_attribute("data-state", "succeeded", timeout=30_000)


@pytest.mark.thorough
def test_a_refused_key_is_put_right_and_everything_comes_back(
    context: BrowserContext, page: Page, live_site: LiveSite, email: str, complaints: Complaints
) -> None:
    jobs = submit_failing(live_site, email)
    open_the_lane(page)
    replay_after_a_dry_run(page)
    replay = page.url

    page.goto(f"/ops/jobs/{jobs[0]}")
    events = page.locator("tr", has_text="replay").last
    expect(events).to_contain_text(email)
    expect(events).to_contain_text("credentials_renewed")
    page.goto("/ops/decisions")
    for words in ("opened the lane", "a new key is set", "replayed failed work", "the key had expired"):
        expect(page.locator("main")).to_contain_text(words)
    pause_and_resume(page)
    complaints.expect("status of 404")
    with live_site.database.transaction() as session:
        nobody = factories.make_account(session)
    context.clear_cookies()
    session_and_axe.sign_in(context, live_site.address, nobody)
    for address in ("/ops", "/ops/work", "/ops/replays", replay, f"/ops/jobs/{jobs[0]}"):
        answer = page.goto(address)
        assert answer is not None and answer.status == 404, address
