"""Headers of every answer, and where a person goes who is not signed in."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from flask import Flask, Response, has_request_context, redirect, request, session, url_for
from werkzeug.wrappers import Response as AnyResponse

from tasks.settings.connection_urls import is_loopback
from webapp.http.htmx import is_htmx


def content_security_policy(framed_by: Sequence[str] = ()) -> str:
    """What a page may do, and whose pages may show it in a frame: nobody's, unless origins are named."""
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
    """Put the headers on every answer of the app, its errors included."""
    app.after_request(_add_headers)


def _add_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    # At localhost it would hold for every other program of this machine, on whatever port.
    if request.is_secure and not is_loopback(request.host):
        response.headers.setdefault("Strict-Transport-Security", f"max-age={ONE_YEAR}")
    if request.endpoint != "static" or response.status_code not in (200, 206, 304):
        response.headers.setdefault("Cache-Control", "private, no-store")
        response.vary.update(["Authorization"] if is_api() else ["HX-Request", "Cookie"])
    return response


def is_api() -> bool:
    """Whether a program asked, which gets JSON whatever goes wrong. The page about the API is for people."""
    return request.path.startswith("/api/") and request.path != "/api/docs"


def safe_next(address: str | None) -> str | None:
    """Return the address if it is a path of this site; else None. A browser reads `//host` and `/\\host` as hosts."""
    if not address or len(address) > 2000 or not address.startswith("/"):
        return None
    if address[1:2] in ("/", "\\") or any(ord(character) < 33 or character == "\\" for character in address):
        return None
    parts = urlsplit(address)
    if has_request_context() and not parts.path.startswith(f"{request.script_root}/"):
        return None  # another program of the same host
    return None if parts.scheme or parts.netloc else address


def unauthorized() -> AnyResponse:
    """To the sign-in page and back again. A fragment cannot show a page, so htmx is told to go there itself."""
    session.pop("_flashes", None)
    if is_htmx():
        return Response(status=401, headers={"HX-Redirect": sign_in_address(_page_asking())})
    asked = request.path if request.method == "GET" else "/"
    return redirect(sign_in_address(f"{request.script_root}{asked}"))


def _page_asking() -> str:
    """The path of the page in which htmx works, by its own account; empty where that is no address."""
    try:
        return urlsplit(request.headers.get("HX-Current-URL", "")).path
    except ValueError:
        return ""


def sign_in_address(back_to: str) -> str:
    """Where to sign in, and then go on at `back_to`, if that is a page of ours."""
    following = safe_next(back_to)
    if following is None or following == url_for("jobs.home"):
        return url_for("accounts.sign_in")
    return url_for("accounts.sign_in", next=following)
