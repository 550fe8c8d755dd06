"""Every page, as people meet it who do not see it, see it large, see it dark, or cannot bear that it moves."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator

import pytest
from playwright.sync_api import Browser, Page
from sqlalchemy import text

from tasks.ledger.calls import lanes
from tasks.ledger.delivery import gate
from tasks.ledger.errors import Category
from tasks.ledger.jobs import leases, transitions
from tasks.ledger.notifications import preferences
from tasks.ledger.states import State
from tasks.notifications.signed_links import Links
from tests.browser.conftest import PASSWORD, Complaints, empty
from tests.support import factories
from tests.support.browser import session_and_axe
from tests.support.site_without_worker import ANSWER, StillSite, in_every_state, still_site
from tests.web.conftest import WebHarness
from webapp.auth import api_tokens, invitations
from webapp.auth.accounts import password_stamp
from webapp.models import Role

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

WIDTHS = (640, 320)
"""CSS pixels of a window of 1280 at 200 %, and of one at 400 %."""
TOO_WIDE = "document.documentElement.scrollWidth > innerWidth"
# WCAG 2.2, 1.4.12: a reader's own spacing takes nothing away. What is cut, by its selector.
CUT = """() => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`* { line-height: 1.5 !important; letter-spacing: .12em !important;
    word-spacing: .16em !important } p { margin-bottom: 2em !important }`);
  document.adoptedStyleSheets = [sheet];
  const cut = [...document.querySelectorAll('body *')].filter((one) => {
    const style = getComputedStyle(one);
    return /hidden|clip/.test(style.overflowX + style.overflowY)
      && !one.closest('.visually-hidden, svg, thead, input, select')
      && (one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1);
  }).map((one) => one.tagName + '.' + one.className);
  if (document.documentElement.scrollWidth > innerWidth) cut.push('the page');
  document.adoptedStyleSheets = [];
  return cut;
}"""
MOVING = "document.getAnimations().filter((one) => one.playState === 'running').length"
LONG = "W" * 300
WIDE = "|" + " Who does what |" * 12 + "\n|" + "---|" * 12 + "\n|" + " somebody |" * 12


@pytest.fixture(scope="module")
def module_site(addresses: dict[str, str]) -> Iterator[StillSite]:
    more = {"SMTP_HOST": "127.0.0.1", "MAIL_FROM": "waybill@example.org", "JOBS_PER_DAY": "50", "JOBS_AT_ONCE": "40"}
    service = {"OIDC_ISSUER": "http://127.0.0.1:9", "OIDC_CLIENT_ID": "x", "OIDC_CLIENT_SECRET": "y"}
    with still_site(addresses, **more, **service, MAX_UPLOAD_BYTES="30000", RQ_DASHBOARD_ENABLED="0") as site:
        yield site


@pytest.fixture
def site(module_site: StillSite) -> StillSite:
    empty(module_site.database)
    return module_site


def opened(chromium: Browser, site: StillSite, account: uuid.UUID | None) -> Page:
    """Return a page of this person, with axe in it; None opens it signed out."""
    window = site.window(chromium, account)
    session_and_axe.bring_axe(window)
    return window.new_page()


def look(page: Page, name: str) -> list[str]:
    """Return what is wrong with the page, for any of these people."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    found = session_and_axe.faults(page)
    moving = page.evaluate(MOVING)
    if moving:
        found.append(f"{moving} things move")
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found += [f"dark: {fault}" for fault in session_and_axe.faults(page, "color-contrast")]
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        if page.evaluate(TOO_WIDE):
            found.append(f"wider than {width}")
    found += [f"cut with a reader's spacing: {one}" for one in page.evaluate(CUT)]
    return [f"{name}: {fault}" for fault in found]


def look_at(page: Page, addresses: Iterable[str | uuid.UUID]) -> list[str]:
    """The same for these pages; an id is that of a job."""
    found = []
    for at in addresses:
        address = f"/jobs/{at}" if isinstance(at, uuid.UUID) else at
        answer = page.goto(address)
        assert answer is not None and answer.status < 500, (address, answer and answer.status)
        name = re.sub(r"[0-9a-f-]{36}", page.locator("h1").first.inner_text()[:30], address)
        found += look(page, f"{name} ({page.title()[:40]})")
    return found


def mailed(path: str, purpose: str, *facts: str) -> str:
    """The path of a link that a mail brings."""
    settings = factories.settings({"DATABASE_URL": "postgresql://", "REDIS_URL": "redis://"})
    return Links(settings).signed(path, purpose, facts)


@pytest.mark.thorough
def test_pages_of_somebody_who_is_not_signed_in(chromium: Browser, site: StillSite, complaints: Complaints) -> None:
    complaints.expect("status of 4")
    account = site.account()
    page = opened(chromium, site, None)
    found = look_at(page, ["/login", "/register", "/reset", "/api/docs", "/nothing"])
    reset = mailed("/reset", "password reset", account.hex, password_stamp("-"))
    found += look_at(page, [reset, mailed("/register", "registration", "bea@example.org", "")])
    page.goto("/login?next=/account")
    page.get_by_label("E-mail").fill("ada@example.org")
    page.get_by_label("Password").fill("not the password")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_text("wrong").wait_for()
    found += look(page, "sign-in refused")
    page.goto("/reset")
    page.get_by_label("E-mail").fill("ada@example.org")
    page.locator("main form button").click()
    page.get_by_role("heading", name="Check your e-mail").wait_for()
    found += look(page, "look at your mail")
    proof = page.goto("/login") and page.locator("[name=csrf_token]").first.get_attribute("value")
    for _ in range(9):
        page.request.post("/login", form={"csrf_token": proof or "", "email": "ada@example.org", "password": "x"})
    page.get_by_label("E-mail").fill("ada@example.org")
    page.get_by_label("Password").fill("not the password")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("heading", name="Too many attempts").wait_for()
    found += look(page, "429")
    assert found == []


@pytest.mark.thorough
def test_home_and_account(chromium: Browser, site: StillSite, complaints: Complaints, password_hash: str) -> None:
    complaints.expect("status of 4")
    ada = site.account(password_hash=password_hash)
    page = opened(chromium, site, ada)
    confirm = mailed("/account/notices/confirm", "confirm mail address", ada.hex, "ada@example.org")
    found = look_at(page, ["/", "/account", "/account/notices", confirm])
    bench = WebHarness(site.database, ada)
    in_every_state(bench)
    bench.job(title=LONG)
    with site.database.transaction() as session:
        api_tokens.make_token(session, ada, LONG[:60])
        preferences.set_email(session, ada, "ada@example.org", on=True)
        preferences.set_webhook(session, ada, f"https://example.org/{LONG}")
        gate.pause(session, factories.QUEUE, by="olga")
    found += look_at(page, ["/", "/?show=stopped", "/?q=nothing+fits", "/account", "/account/notices"])

    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/")
    page.get_by_role("button", name="Summarize").click()
    page.locator(".error").first.wait_for()
    found += look(page, "home with errors")
    page.locator("[name=idempotency_key]").evaluate("(field) => { field.value = 'x'.repeat(4_000_000); }")
    page.get_by_label("paste the text").fill("A text.")
    page.get_by_role("button", name="Summarize").click()
    page.get_by_text("What you sent is too large.").wait_for()
    found += look(page, "413")
    page.goto("/account")
    page.locator("#service-password").fill(PASSWORD)
    page.get_by_role("button", name="Connect", exact=True).click()
    page.get_by_role("link", name=re.compile("Go to")).wait_for()
    found += look(page, "link a service")
    page.goto("/account")
    page.get_by_label("Name of a new token").fill("nightly")
    page.get_by_role("button", name="Create a token").click()
    page.get_by_text("It is not shown again").wait_for()
    found += look(page, "a new token")
    assert found == []


@pytest.mark.thorough
def test_the_page_of_a_job(chromium: Browser, site: StillSite) -> None:
    ada = site.account()
    bench = WebHarness(site.database, ada)
    jobs = in_every_state(bench)
    more = [
        bench.failed("auth", title=LONG),
        bench.failed("invalid_document", "encrypted"),
        bench.succeeded(f"{LONG}\n\n> {LONG}\n\n```\n{LONG}\n```\n\n{WIDE}", cut_off=True, title=LONG),
        bench.succeeded(ANSWER, workflow="action_items", options={}),
    ]
    page = opened(chromium, site, ada)
    found = look_at(page, [*jobs.values(), *more, f"/jobs/{jobs[State.SUCCEEDED]}/delete"])
    site.sql("UPDATE deliveries SET not_before = now() - interval '99 s', due_at = now()")
    found += look_at(page, [jobs[State.QUEUED], jobs[State.RETRY_WAIT]])  # no worker has been seen
    with site.database.transaction() as session:
        gate.pause(session, factories.QUEUE, by="olga")
    found += look_at(page, [jobs[State.QUEUED]])
    with site.database.transaction() as session:
        gate.resume(session, factories.QUEUE, by="olga")
        leases.record_heartbeat(session, "w", queue=factories.QUEUE, slots=4)
        lanes.stop(session, "local", category=Category.QUOTA, code=None)
    found += look_at(page, [jobs[State.QUEUED]])
    assert found == []


def test_a_form_on_another_site(chromium: Browser, site: StillSite, complaints: Complaints) -> None:
    complaints.expect("status of 410")
    ada = site.account()
    page = opened(chromium, site, None)
    with site.database.transaction() as session:
        token = api_tokens.make_token(session, ada, "our site")
    made = page.request.post(
        "/api/v1/upload-links",
        headers={"Authorization": f"Bearer {token}"},
        data={"show_result": True, "max_uses": 1, "return_url": "https://example.org/back"},
    ).json()
    found = look_at(page, [made["upload_url"]])
    page.get_by_label("paste the text").fill("The north pier is closed until August, said the committee.")
    page.get_by_role("button", name="Summarize").click()
    page.wait_for_url("**/handed-in/*")
    found += look(page, "handed in")
    with site.database.transaction() as session:
        job_id = next(iter(session.execute(text("SELECT id FROM jobs")).scalars()))
        claim = factories.claim(session, job_id)
        transitions.succeed(session, claim, text=ANSWER, facts={})
    page.locator("#result").wait_for()
    found += look(page, "handed in, saved")
    found += look_at(page, [made["upload_url"]])  # used up
    assert found == []


@pytest.mark.thorough
def test_operators_pages(chromium: Browser, site: StillSite) -> None:
    olga = site.account("olga@example.org", role=Role.OPERATOR)
    bench = WebHarness(site.database, olga)
    jobs = in_every_state(bench)
    failed = bench.failed("auth", "invalid_api_key", title="A report")
    with site.database.transaction() as session:
        lanes.stop(session, "local", category=Category.AUTH, code=None)
        gate.drain(session, factories.QUEUE, by="olga@example.org", note="a deploy")
    page = opened(chromium, site, olga)
    found = look_at(
        page,
        [
            *("/ops", "/ops/day", "/ops/jobs", "/ops/jobs?state=failed", "/ops/work", "/ops/decisions", "/ops/replays"),
            *(f"/ops/jobs/{jobs[State.SUCCEEDED]}", f"/ops/jobs/{failed}", f"/ops/replays/new?job={failed}"),
        ],
    )
    page.get_by_label("Why they may go through now").select_option("other")
    page.get_by_label("In your words").fill("why not")
    page.get_by_role("button", name="Replay 1 job").click()
    page.locator("#replay-now").wait_for()
    found += look(page, "a replay")
    assert found == []


def test_by_invitation(chromium: Browser, site: StillSite, addresses: dict[str, str], complaints: Complaints) -> None:
    complaints.expect("status of 4")
    with still_site(addresses, REGISTRATION="invite") as invited:
        olga = invited.account("olga@example.org", role=Role.OPERATOR)
        with invited.database.transaction() as session:
            token = invitations.invite(session, email="bea@example.org", made_by="olga@example.org")
        page = opened(chromium, invited, None)
        found = look_at(page, ["/register", f"/invitation/{token}", "/invitation/nothing"])
        found += look_at(opened(chromium, invited, olga), ["/ops/invitations"])
    assert found == []


def test_what_moves_does_so_only_for_those_who_do_not_mind(chromium: Browser, site: StillSite) -> None:
    """The other tests could not fail of something that moves if nothing ever did."""
    ada = site.account()
    bench = WebHarness(site.database, ada)
    job_id = bench.job()
    bench.claim(job_id)
    page = site.window(chromium, ada, reduced_motion="no-preference").new_page()
    page.goto(f"/jobs/{job_id}")
    assert page.evaluate(MOVING) == 1
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(MOVING) == 0


def test_what_is_wrong_would_be_found(chromium: Browser, site: StillSite) -> None:
    page = opened(chromium, site, None)
    page.goto("/login")
    page.evaluate(
        """() => {
      const [main, wide, cut] = [document.querySelector('main'), ...'pp'].map((one) =>
        one.tagName ? one : document.createElement(one));
      main.append(document.createElement('button'), wide, cut);
      Object.assign(wide.style, {width: '400px', color: '#888', background: '#999'});
      wide.textContent = cut.textContent = 'words upon words';
      Object.assign(cut.style, {overflow: 'hidden', height: '1.2em', width: '8em'});
    }"""
    )
    found = " ".join(look(page, "broken"))
    for fault in ("button-name (critical)", "broken: color-contrast", "dark: color-contrast", "wider than 320", "cut"):
        assert fault in found, found
