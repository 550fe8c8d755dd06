"""What people write into forms, read and checked. Errors are sentences, by the name of the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from email_validator import EmailNotValidError, validate_email

from tasks.languages import _
from webapp import account_words
from webapp.titles import cut, one_line

SHORTEST_PASSWORD = 10
LONGEST_PASSWORD = 200
LONGEST_TOKEN_NAME = 60
LONGEST_EMAIL = 254


@dataclass
class Credentials:
    """An e-mail address and a password as they were typed, the address made normal, and what is wrong with them."""

    email: str
    password: str
    errors: dict[str, str] = field(default_factory=dict)


def normal_email(typed: str) -> str | None:
    """The address in the form it is stored in; None if it is none. Whether it receives mail is not asked."""
    if len(typed) > LONGEST_EMAIL + 10:
        return None
    try:
        return validate_email(typed.strip(), check_deliverability=False).normalized.lower()
    except EmailNotValidError:
        return None


def password_fault(password: str) -> str | None:
    """What is wrong with a new password; None if nothing is."""
    if len(password) < SHORTEST_PASSWORD:
        return _("Use at least %(least)s characters.", least=SHORTEST_PASSWORD)
    if len(password) > LONGEST_PASSWORD:
        return _("Use at most %(most)s characters.", most=LONGEST_PASSWORD)
    return None


def read_registration(form: Mapping[str, str]) -> Credentials:
    """The credentials of a new account."""
    typed = form.get("email", "")
    email = normal_email(typed)
    read = Credentials(email or typed.strip()[:LONGEST_EMAIL], form.get("password", ""))
    if email is None:
        read.errors["email"] = str(account_words.NO_ADDRESS)
    fault = password_fault(read.password)
    if fault:
        read.errors["password"] = fault
    return read


def read_address(form: Mapping[str, str]) -> Credentials:
    """An address without a password."""
    read = read_registration({"email": form.get("email", "")})
    read.errors.pop("password")
    return read


def read_sign_in(form: Mapping[str, str]) -> Credentials:
    """The credentials somebody signs in with. Nothing is checked here: every wrong pair gets the same answer."""
    typed = form.get("email", "")
    return Credentials(normal_email(typed) or typed.strip().lower()[:LONGEST_EMAIL], form.get("password", ""))


def read_token_name(form: Mapping[str, str]) -> str:
    """The name of a new API token; empty if nothing usable was typed."""
    return cut(one_line(form.get("name", "")), LONGEST_TOKEN_NAME)
