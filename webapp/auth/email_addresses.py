"""Normalizes e-mail addresses into the form in which they are stored."""

from __future__ import annotations

from collections.abc import Mapping

from email_validator import EmailNotValidError, validate_email

MAX_EMAIL_LENGTH = 254


def normal_email(submitted: str) -> str | None:
    """Return the address in its stored form; None if it is not valid. Does not check that it receives mail."""
    if len(submitted) > MAX_EMAIL_LENGTH + 10:
        return None
    try:
        return validate_email(submitted.strip(), check_deliverability=False).normalized.lower()
    except EmailNotValidError:
        return None


def email_of_sign_in(form: Mapping[str, str]) -> str:
    """Return the submitted address of a sign-in. Nothing is checked: every wrong pair gets the same response."""
    submitted = form.get("email", "").replace(
        "\0", "\ufffd"
    )  # no address contains NUL, and the database cannot store it
    return normal_email(submitted) or submitted.strip().lower()[:MAX_EMAIL_LENGTH]
