"""Explain that https is required, where a form arrives without the session cookie because the site was opened without.

The cookie is `__Host-` and Secure, so a browser neither keeps nor sends it over plain http. Without it every form fails
its proof of origin, and "the form is too old" would send people in circles.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog
from flask import Flask, current_app, request
from flask.typing import ResponseReturnValue

from tasks.addresses import is_loopback
from tasks.languages import _
from webapp.errors import error_page
from webapp.hx import is_htmx
from webapp.parts import parts

log = structlog.get_logger()

WITH_PROOF = frozenset({"POST", "PUT", "PATCH", "DELETE"})
NO_TLS = "Put TLS in front, and have the proxy send X-Forwarded-Proto: https. See docs/own-server.md."
HOPS_TOO_FEW = "A proxy says https, and PROXY_HOPS is 0. Set PROXY_HOPS to the number of proxies in front."
HOPS_DIFFER = "X-Forwarded-Proto says https, and not from as many proxies as PROXY_HOPS says. Make the two agree."


def init_app(app: Flask, *, without_cookies: Collection[str]) -> None:
    """Stand before the check of the proof of origin, for every blueprint but those that use no cookie."""

    @app.before_request
    def say_that_https_is_required() -> ResponseReturnValue | None:
        has_proof = request.method in WITH_PROOF and request.endpoint and request.blueprint not in without_cookies
        if not has_proof or not _cookie_could_not_come():
            return None
        log.warning("request.not_https", look_at=what_is_wrong(parts().settings.proxy_hops))
        if is_htmx():
            return "", 400, {"HX-Refresh": "true"}
        return error_page(400, _("This site needs https"), _what_to_do())


def _cookie_could_not_come() -> bool:
    """Return True if this request is plain http, and has no session cookie for that reason."""
    secure_only = current_app.config["SESSION_COOKIE_SECURE"]
    return secure_only and not request.is_secure and current_app.config["SESSION_COOKIE_NAME"] not in request.cookies


def _what_to_do() -> str:
    """Tell the person. Names the site's address only as it was set, never as the request names it."""
    if is_loopback(request.host):
        return _(
            "Your browser sent no cookie. On this machine, Firefox and Chrome keep one without https; Safari does not. "
            "Allow cookies, or use one of those."
        )
    address = parts().settings.app_base_url or ""
    reason = _("You opened this site without https, and your browser keeps no cookie that way.")
    remedy = (
        _("Open %(address)s instead.", address=address)
        if address.startswith("https://")
        else _("Open this site with https:// at the start of its address.")
    )
    already = _("If your browser shows https already, tell the operator of this site: the log says what to set.")
    return f"{reason} {remedy} {already}"


def what_is_wrong(hops: int) -> str:
    """Return what the operator should look at, by what the proxies in front have said."""
    said = [one.strip().lower() for one in request.headers.get("X-Forwarded-Proto", "").split(",")]
    if "https" not in said:
        return NO_TLS
    return HOPS_TOO_FEW if hops == 0 else HOPS_DIFFER
