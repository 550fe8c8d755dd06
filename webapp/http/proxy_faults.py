"""Detects forms that fail because the proxy in front of the web process is misconfigured.

The session cookie is `__Host-` and Secure, so a browser neither keeps nor sends it over plain http. Over https, the
CSRF check compares the page with the host that the proxy names. Either way every form fails, and "the form is too old"
would send people in circles. So they get a clear message, and the log names what to set.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog
from flask import Flask, current_app, request
from flask.typing import ResponseReturnValue

from tasks.i18n import _
from tasks.settings.connection_urls import is_loopback
from webapp.http.errors import error_page
from webapp.http.htmx import is_htmx
from webapp.http.site_settings import site_settings

log = structlog.get_logger()

NEEDS_CSRF_TOKEN = frozenset({"POST", "PUT", "PATCH", "DELETE"})
NO_TLS = "Put TLS in front, and have the proxy send X-Forwarded-Proto: https. See docs/own-server.md."
HOPS_TOO_FEW = "A proxy says https, and PROXY_HOPS is 0. Set PROXY_HOPS to the number of proxies in front."
HOST_IS_LOST = "The proxy does not pass the site's name on. Have it send Host or X-Forwarded-Host as the browser does."
HOPS_DIFFER = "X-Forwarded-Proto says https, and not from as many proxies as PROXY_HOPS says. Make the two agree."


def init_app(app: Flask, *, without_cookies: Collection[str]) -> None:
    """Check requests before the CSRF check does, except for blueprints that use no cookie."""

    @app.before_request
    def explain_proxy_fault() -> ResponseReturnValue | None:
        if request.method not in NEEDS_CSRF_TOKEN or not request.endpoint or request.blueprint in without_cookies:
            return None
        if _cookie_cannot_be_sent():
            log.warning("request.not_https", look_at=what_is_wrong(site_settings().proxy_hops))
            return _page(_("This site needs https"), _what_to_do())
        if _host_is_lost():
            log.warning("request.host_is_lost", look_at=HOST_IS_LOST)
            return _page(_("This site is not set up correctly"), _("Tell its operator: the log says what to set."))
        return None


def _page(title: str, text: str) -> ResponseReturnValue:
    return ("", 400, {"HX-Refresh": "true"}) if is_htmx() else error_page(400, title, text)


def _host_is_lost() -> bool:
    """Return True if the browser says that its page is of the same origin, but the proxy names another host."""
    if not request.is_secure or request.headers.get("Sec-Fetch-Site") != "same-origin":
        return False
    return not (request.referrer or "").startswith(f"{request.scheme}://{request.host}/") and bool(request.referrer)


def _cookie_cannot_be_sent() -> bool:
    """Return True if this request is plain http, and therefore has no session cookie."""
    secure_only = current_app.config["SESSION_COOKIE_SECURE"]
    return secure_only and not request.is_secure and current_app.config["SESSION_COOKIE_NAME"] not in request.cookies


def _what_to_do() -> str:
    """Return the text for the user. Names the site's URL only as configured, never as the request names it."""
    if is_loopback(request.host):
        return _(
            "Your browser sent no cookie. On this machine, Firefox and Chrome keep one without https; Safari does not. "
            "Allow cookies, or use one of those."
        )
    address = site_settings().app_base_url or ""
    reason = _("You opened this site without https, and your browser keeps no cookie that way.")
    remedy = (
        _("Open %(address)s instead.", address=address)
        if address.startswith("https://")
        else _("Open this site with https:// at the start of its address.")
    )
    already = _("If your browser already shows https, tell the operator of this site: the log says what to set.")
    return f"{reason} {remedy} {already}"


def what_is_wrong(hops: int) -> str:
    """Return what the operator should check, depending on the headers of the proxies."""
    protocols = [value.strip().lower() for value in request.headers.get("X-Forwarded-Proto", "").split(",")]
    if "https" not in protocols:
        return NO_TLS
    return HOPS_TOO_FEW if hops == 0 else HOPS_DIFFER
