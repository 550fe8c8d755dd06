"""What people write into forms, read and checked. Errors are sentences, by the name of the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from email_validator import EmailNotValidError, validate_email
from flask import request

from webapp import account_words
from webapp.password_rules import password_fault
from webapp.titles import cut, one_line

LONGEST_TOKEN_NAME = 60
LONGEST_EMAIL = 254
LARGEST = 2**63 - 1
"""The largest number that a column of the database holds."""
MOST_DIGITS = len(str(LARGEST))
"""Longer ones are not even tried: `int` raises an error for some thousands of digits."""


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


def read_registration(form: Mapping[str, str]) -> Credentials:
    """The credentials of a new account."""
    typed = form.get("email", "")
    email = normal_email(typed)
    read = Credentials(email or typed.strip()[:LONGEST_EMAIL], form.get("password", ""))
    if email is None:
        read.errors["email"] = str(account_words.NO_ADDRESS)
    fault = password_fault(read.password, read.email)
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
    typed = form.get("email", "").replace("\0", "\ufffd")  # which no address has, and the database cannot hold
    return Credentials(normal_email(typed) or typed.strip().lower()[:LONGEST_EMAIL], form.get("password", ""))


def read_token_name(form: Mapping[str, str]) -> str:
    """The name of a new API token; empty if nothing usable was typed."""
    return cut(one_line(form.get("name", "")), LONGEST_TOKEN_NAME)


def number_in(typed: str, most: int) -> int | None:
    """Read the number that was typed; None if it is none from 1 to `most`."""
    number = whole_number(typed)
    return number if number is not None and 1 <= number <= most else None


def whole_number(typed: str) -> int | None:
    """Read a number without a sign, in the digits 0 to 9; None for everything else, and for one with too many."""
    return int(typed) if typed.isascii() and typed.isdecimal() and len(typed) <= MOST_DIGITS else None


def number_asked(name: str) -> int | None:
    """Read a number of the query that an address of ours carries; None where it is missing, or none of ours."""
    number = whole_number(request.args.get(name, ""))
    return None if number is None or number > LARGEST else number
