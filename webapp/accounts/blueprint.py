"""The blueprint of accounts, and its responses to forms that are sent too late or too often."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import ModuleType
from typing import TypeVar

from flask import Blueprint, current_app, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_limiter import RateLimitExceeded
from flask_wtf.csrf import CSRFError  # type: ignore[import-untyped]

from webapp.accounts import messages
from webapp.accounts.forms import Credentials
from webapp.auth import email_addresses
from webapp.auth.sessions import asked_next
from webapp.http.errors import form_too_old, seconds_until_allowed
from webapp.http.security import safe_next
from webapp.services import services

accounts = Blueprint("accounts", __name__)
View = TypeVar("View", bound=Callable[..., ResponseReturnValue])
Render = Callable[[Credentials, int], ResponseReturnValue]


@dataclass(frozen=True)
class FormPage:
    """Describes the page that contains a form.

    `render` shows it again with the submitted values; None if the page cannot do that.
    """

    endpoint: str
    render: Render | None = None


SIGN_IN = FormPage("accounts.sign_in")


def form_on(endpoint: str, render: Render | None = None) -> Callable[[View], View]:
    """Declare which page contains the form that a view receives. The default is the sign-in page."""

    def mark(view: View) -> View:
        view.form_page = FormPage(endpoint, render)  # type: ignore[attr-defined]
        return view

    return mark


def with_views(*modules: ModuleType) -> Blueprint:
    """Return the blueprint. Importing the given modules has registered their routes."""
    assert modules
    return accounts


def _form_page() -> FormPage:
    found: FormPage = getattr(current_app.view_functions.get(request.endpoint or ""), "form_page", SIGN_IN)
    return found


@accounts.errorhandler(CSRFError)
def show_the_form_again(error: CSRFError) -> ResponseReturnValue:
    """Show an expired form again with a new CSRF token, keeping the submitted e-mail address."""
    render = _form_page().render
    submitted = Credentials(
        request.form.get("email", "")[: email_addresses.MAX_EMAIL_LENGTH], "", {"form": messages.FORM_TOO_OLD}
    )
    return form_too_old(error) if render is None else render(submitted, 400)


@accounts.errorhandler(RateLimitExceeded)
def too_many_attempts(error: RateLimitExceeded) -> ResponseReturnValue:
    """Tell the user when the form can be sent again."""
    wait = seconds_until_allowed()
    page = render_template(
        "http/rate_limited.html",
        again=datetime.fromtimestamp(time.time() + wait, UTC),
        wait=wait,
        form=url_for(_form_page().endpoint, next=safe_next(asked_next())),
        guessed_at=error.limit is not None and error.limit.error_message is not None,
        can_reset=services().settings.can_mail,
    )
    return page, 429, {"Retry-After": str(wait)}
