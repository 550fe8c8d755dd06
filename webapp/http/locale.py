"""Chooses the language of a response: the account's choice, else the browser's preference, else English."""

from __future__ import annotations

from flask import Flask, Response, g, request

from tasks.i18n import ENGLISH, LANGUAGES, activate_language, gettext, language, plural
from webapp.http.security import is_api


def init_app(app: Flask) -> None:
    """Choose the language at the start of each request, and translate templates."""
    app.before_request(_begin)
    app.after_request(_add_vary_header)
    app.teardown_request(_end)
    app.jinja_env.add_extension("jinja2.ext.i18n")
    app.jinja_env.install_gettext_callables(gettext, plural, newstyle=True)  # type: ignore[attr-defined]
    app.jinja_env.globals.update(language=language, languages=LANGUAGES)


def prefer(chosen: str | None) -> None:
    """Use the language that the account chose; None follows the browser.

    The API and the operators' pages stay English.
    """
    if not g.get("only_english"):
        activate_language(chosen or _browser_language())


def _begin() -> None:
    g.only_english = is_api() or (request.blueprint or "").startswith("ops")
    activate_language(ENGLISH if g.only_english else _browser_language())


def _browser_language() -> str | None:
    """Return the first supported language of the browser's list, ignoring regions; None if there is none."""
    # `best_match` would prefer German at a quality of 0.1 to a regional English.
    languages = (tag.partition("-")[0].lower() for tag, quality in request.accept_languages if quality > 0)
    return next((tag for tag in languages if tag in LANGUAGES), None)


def _add_vary_header(response: Response) -> Response:
    if request.endpoint != "static" and not is_api():
        response.vary.add("Accept-Language")
    return response


def _end(_: BaseException | None) -> None:
    activate_language(ENGLISH)  # the thread will serve another user's request
