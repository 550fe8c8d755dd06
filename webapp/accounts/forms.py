"""Reads and checks the forms of accounts. Errors are sentences, keyed by field name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webapp.accounts import messages
from webapp.auth.email_addresses import MAX_EMAIL_LENGTH, email_of_sign_in, normal_email
from webapp.auth.password_rules import password_problem
from webapp.text.strings import cut, one_line

MAX_TOKEN_NAME_LENGTH = 60


@dataclass
class Credentials:
    """Holds a submitted e-mail address, normalized, with the password and the errors found in them."""

    email: str
    password: str
    errors: dict[str, str] = field(default_factory=dict)


def read_registration(form: Mapping[str, str]) -> Credentials:
    """Read the credentials of a new account."""
    submitted = form.get("email", "")
    email = normal_email(submitted)
    read = Credentials(email or submitted.strip()[:MAX_EMAIL_LENGTH], form.get("password", ""))
    if email is None:
        read.errors["email"] = str(messages.NO_ADDRESS)
    problem = password_problem(read.password, read.email)
    if problem:
        read.errors["password"] = problem
    return read


def read_address(form: Mapping[str, str]) -> Credentials:
    """Read an e-mail address without a password."""
    read = read_registration({"email": form.get("email", "")})
    read.errors.pop("password")
    return read


def read_sign_in(form: Mapping[str, str]) -> Credentials:
    """Read the credentials of a sign-in."""
    return Credentials(email_of_sign_in(form), form.get("password", ""))


def read_token_name(form: Mapping[str, str]) -> str:
    """Return the name of a new API token; empty if nothing usable was submitted."""
    return cut(one_line(form.get("name", "")), MAX_TOKEN_NAME_LENGTH)
