"""Texts about passwords, for users."""

from __future__ import annotations

from tasks.i18n import lazy

MADE_OF_NAMES = lazy(
    "This password is made of your e-mail address or the name of this site, which attackers try first. Choose "
    "another one."
)

TRIED_FIRST = lazy("This is one of the passwords that attackers try first. Use a few unrelated words instead.")
