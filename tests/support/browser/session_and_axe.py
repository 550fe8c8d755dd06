"""Prepares browser windows: a session, another htmx, and accessibility checks."""

from __future__ import annotations

import functools
import time
import uuid
from pathlib import Path
from typing import Any

from flask import Flask
from flask.sessions import SecureCookieSessionInterface
from playwright.sync_api import BrowserContext, Page, Route

from tests.support import factories
from webapp.auth.sessions import PROVED, SESSION

VENDORED = Path(__file__).parents[1] / "vendor"
AXE = VENDORED / "axe-core-4.14.1.min.js"
HTMX_2 = VENDORED / "htmx-2.0.11.min.js"
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def load_htmx_2(window: BrowserContext) -> None:
    """Let every page of this window load the newest htmx 2.x instead of the one that the site serves."""

    def answer(route: Route) -> None:
        route.fulfill(path=HTMX_2, content_type="text/javascript")

    window.route("**/static/vendor/htmx-*", answer)


@functools.cache
def _signer() -> Any:
    app = Flask(__name__)
    app.secret_key = factories.settings({"DATABASE_URL": "postgresql://", "REDIS_URL": "redis://"}).signing_key
    return SecureCookieSessionInterface().get_signing_serializer(app)


def sign_in(window: BrowserContext, address: str, account_id: uuid.UUID) -> None:
    """Give this window the session that `factories.make_account` has created."""
    session = {
        "_user_id": account_id.hex,
        "_fresh": True,
        "_permanent": True,
        SESSION: account_id.hex,
        PROVED: int(time.time()),
    }
    window.add_cookies([{"name": "session", "value": _signer().dumps(session), "url": address, "httpOnly": True}])


def bring_axe(window: BrowserContext) -> None:
    """Inject axe into every page of this window, for `faults`."""
    window.add_init_script(path=AXE)  # a script of the page itself would violate its policy


def faults(page: Page, *rules: str) -> list[str]:
    """Return what axe finds on the current page except minor issues; only these rules, if any are given."""
    only = {"type": "rule", "values": list(rules)} if rules else {"type": "tag", "values": STANDARDS}
    found = page.evaluate(
        """(only) => axe.run(document, {runOnly: only, resultTypes: ['violations'], preload: false, iframes: false})
          .then((all) => all.violations.filter((one) => one.impact !== 'minor').map((one) =>
            `${one.id} (${one.impact}): ` + one.nodes.map((node) => node.target.join(' ')).join(' | ')))""",
        only,
    )
    return list(found)
