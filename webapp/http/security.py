"""Security headers of every response, and the redirect to the sign-in page."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from flask import Flask, Response, has_request_context, redirect, request, session, url_for
from werkzeug.wrappers import Response as AnyResponse

from tasks.settings.connection_urls import is_loopback
from webapp.http.htmx import is_htmx


def content_security_policy(framed_by: Sequence[str] = ()) -> str:
    """Return the policy of a page. Only pages of the given origins may frame it; none by default."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        f"form-action 'self'; base-uri 'none'; frame-ancestors {' '.join(framed_by) or NOBODY}"
    )


NOBODY = "'none'"
HEADERS = {
    "Content-Security-Policy": content_security_policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
ONE_YEAR = 365 * 24 * 3600


def init_app(app: Flask) -> None:
    """Add the headers to every response of the app, including errors."""
    app.after_request(_add_headers)


def _add_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    # At localhost, HSTS would apply to every other program of this machine, on any port.
    if request.is_secure and not is_loopback(request.host):
        response.headers.setdefault("Strict-Transport-Security", f"max-age={ONE_YEAR}")
    if request.endpoint != "static" or response.status_code not in (200, 206, 304):
        response.headers.setdefault("Cache-Control", "private, no-store")
        response.vary.update(["Authorization"] if is_api() else ["HX-Request", "Cookie"])
    return response


def is_api() -> bool:
    """Return True if the response must be JSON, whatever goes wrong. The page that documents the API is for people."""
    return request.path.startswith("/api/") and request.path != "/api/docs"


def safe_next(address: str | None) -> str | None:
    """Return the URL if it is a path of this site; else None. A browser reads `//host` and `/\\host` as hosts."""
    if not address or len(address) > 2000 or not address.startswith("/"):
        return None
    if address[1:2] in ("/", "\\") or any(ord(character) < 33 or character == "\\" for character in address):
        return None
    parts = urlsplit(address)
    if has_request_context() and not parts.path.startswith(f"{request.script_root}/"):
        return None  # another application on the same host
    return None if parts.scheme or parts.netloc else address


def unauthorized() -> AnyResponse:
    """Redirect to the sign-in page, and back afterwards.

    A fragment cannot show a page, so htmx gets a header for it.
    """
    session.pop("_flashes", None)
    if is_htmx():
        return Response(status=401, headers={"HX-Redirect": sign_in_address(_page_asking())})
    asked = request.path if request.method == "GET" else "/"
    return redirect(sign_in_address(f"{request.script_root}{asked}"))


def _page_asking() -> str:
    """Return the path of the page in which htmx runs, as it claims; empty if it is not a URL."""
    try:
        return urlsplit(request.headers.get("HX-Current-URL", "")).path
    except ValueError:
        return ""


def sign_in_address(back_to: str) -> str:
    """Return the URL of the sign-in page, which continues at `back_to` if that is a page of this site."""
    following = safe_next(back_to)
    if following is None or following == url_for("jobs.home"):
        return url_for("accounts.sign_in")
    return url_for("accounts.sign_in", next=following)
