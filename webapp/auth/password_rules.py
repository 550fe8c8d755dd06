"""Rules for new passwords: long enough, and not easy to guess. Existing passwords keep working."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from tasks.i18n import _
from webapp.auth import messages as auth_messages
from webapp.http.site_settings import site_settings

MIN_LENGTH, MAX_LENGTH = 10, 200
EVALUATED_CHARACTERS = 32
"""Characters that are evaluated. The time grows with the length, and these suffice."""
MIN_SCORE = 2
"""On zxcvbn's scale of 0 to 4: more than a million guesses, by https://github.com/dwolfhub/zxcvbn-python."""
MIN_NAME_LENGTH, MIN_OTHER_CHARACTERS = 3, 4
"""Minimum characters of a name to look for, and minimum characters that a password needs besides such names."""


def password_problem(password: str, email: str) -> str | None:
    """Return what is wrong with a new password for the account with this e-mail address; None if it is fine."""
    if len(password) < MIN_LENGTH:
        return _("Use at least %(least)s characters.", least=MIN_LENGTH)
    if len(password) > MAX_LENGTH:
        return _("Use at most %(most)s characters.", most=MAX_LENGTH)
    names = _names_of(email) | _names_of_site()
    if _is_made_of(password, names):
        return str(auth_messages.MADE_OF_NAMES)
    return str(auth_messages.TRIED_FIRST) if _is_guessed_soon(password, names) else None


def _names_of(email: str) -> set[str]:
    local_part = email.lower().partition("@")[0]
    return _long_enough({email.lower(), local_part, re.sub(r"[^a-z0-9]", "", local_part)})


def _names_of_site() -> set[str]:
    """Return what strangers know of the site. Empty for a demo, whose password is public."""
    settings = site_settings()
    if settings.waybill_demo:
        return set()
    host = (urlsplit(settings.app_base_url or "").hostname or "").removeprefix("www.")
    return _long_enough({"waybill", host, host.partition(".")[0]})


def _long_enough(names: Collection[str]) -> set[str]:
    return {name for name in names if len(name) >= MIN_NAME_LENGTH}


def _is_made_of(password: str, names: Collection[str]) -> bool:
    """Return True if almost nothing is left once the names are removed."""
    rest = password.casefold()
    for name in sorted(names, key=len, reverse=True):
        rest = rest.replace(name, "")
    others = sum(letter.isalnum() for letter in rest)
    return rest != password.casefold() and others < MIN_OTHER_CHARACTERS


def _is_guessed_soon(password: str, names: Collection[str]) -> bool:
    from zxcvbn import zxcvbn  # its word lists take 13 MB, and few processes need them

    evaluation = zxcvbn(
        password[:EVALUATED_CHARACTERS], user_inputs=[name[:EVALUATED_CHARACTERS] for name in sorted(names)]
    )
    return bool(evaluation["score"] < MIN_SCORE)
