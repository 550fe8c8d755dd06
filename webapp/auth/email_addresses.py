"""E-mail addresses in the form in which they are stored."""

from __future__ import annotations

from collections.abc import Mapping

from email_validator import EmailNotValidError, validate_email

LONGEST_EMAIL = 254


def normal_email(typed: str) -> str | None:
    """The address in the form it is stored in; None if it is none. Whether it receives mail is not asked."""
    if len(typed) > LONGEST_EMAIL + 10:
        return None
    try:
        return validate_email(typed.strip(), check_deliverability=False).normalized.lower()
    except EmailNotValidError:
        return None


def email_of_sign_in(form: Mapping[str, str]) -> str:
    """Return the address that somebody signs in with. Nothing is checked: every wrong pair gets the same answer."""
    typed = form.get("email", "").replace("\0", "\ufffd")  # which no address has, and the database cannot hold
    return normal_email(typed) or typed.strip().lower()[:LONGEST_EMAIL]
