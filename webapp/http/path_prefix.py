"""Serves the site under a path, such as https://example.org/waybill, if APP_BASE_URL has one.

The path comes from the setting alone. `X-Forwarded-Prefix` is never trusted: many proxies pass it on as the client
wrote it, and every link of a page would begin with it. So it does not matter whether the proxy strips the path before
it passes a request on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import structlog
from flask import Flask

from tasks.settings import SettingsWrong

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = structlog.get_logger()

DIFFERS = (
    "X-Forwarded-Prefix is not the path of APP_BASE_URL, which counts. Make the two agree, or take the header away."
)


def prefix_of(address: str | None) -> str:
    """Return the path of APP_BASE_URL without a trailing slash; empty if it has none."""
    return urlsplit(address or "").path.rstrip("/")


def init_app(app: Flask, address: str | None) -> None:
    """Serve every page of this app under the path. Raises SettingsWrong if the app has a page of the same name."""
    prefix = prefix_of(address)
    first = prefix.split("/")[1] if prefix else None
    if first in {rule.rule.split("/")[1] for rule in app.url_map.iter_rules()}:
        raise SettingsWrong(
            [f"APP_BASE_URL: its path begins with /{first}, which is a page of the site. Choose another."]
        )
    app.wsgi_app = UnderPrefix(app.wsgi_app, prefix)  # type: ignore[method-assign]


class UnderPrefix:
    """Wraps the app and sets SCRIPT_NAME to the prefix, even to an empty one: a header could have set another."""

    def __init__(self, app: WSGIApplication, prefix: str) -> None:
        self._app = app
        self._prefix = prefix
        self._warned = False

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Handle a request for a path with the prefix or without it."""
        path = environ.get("PATH_INFO", "")
        if self._prefix and (path == self._prefix or path.startswith(f"{self._prefix}/")):
            environ["PATH_INFO"] = path[len(self._prefix) :] or "/"
        environ["SCRIPT_NAME"] = self._prefix
        self._compare(environ)
        return self._app(environ, start_response)

    def _compare(self, environ: dict[str, Any]) -> None:
        """Warn the operator once if a proxy uses another prefix."""
        header = environ.get("HTTP_X_FORWARDED_PREFIX")
        if header is not None and header.strip().rstrip("/") != self._prefix and not self._warned:
            self._warned = True
            log.warning("request.prefix_differs", look_at=DIFFERS)
