"""Translates the texts that users read.

The texts are in the code in English, marked by `_`, `ngettext` or `lazy`. Each other language is a catalogue in this
folder, named by its code. Texts for programs and operators are in English only.
"""

from __future__ import annotations

import gettext as catalogues
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import cast

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import LazyProxy

ENGLISH = "en"
LANGUAGES: Mapping[str, str] = MappingProxyType({ENGLISH: "English", "de": "Deutsch"})
"""Lists the languages that users can choose, by code, each with its own name for itself."""

_active: ContextVar[str] = ContextVar("language", default=ENGLISH)


def language() -> str:
    """Return the code of the active language."""
    return _active.get()


def activate_language(code: str | None) -> None:
    """Activate this language in this thread. None, or a code without a catalogue, activates English."""
    _active.set(code if code is not None and code in LANGUAGES else ENGLISH)


@contextmanager
def use_language(code: str | None) -> Iterator[None]:
    """Activate this language inside the block."""
    earlier = language()
    activate_language(code)
    try:
        yield
    finally:
        activate_language(earlier)


def gettext(message: str) -> str:
    """Return the message in the active language, with its placeholders unfilled."""
    return _catalogue(language()).gettext(message)


def plural(one: str, many: str, number: int) -> str:
    """Return the form of the message that fits the number in the active language, with its placeholders unfilled."""
    return _catalogue(language()).ngettext(one, many, number)


def _(message: str, /, **facts: object) -> str:
    """Return the message in the active language, with the facts in place of its `%(name)s`."""
    text = gettext(message)
    return text % facts if facts else text


def ngettext(one: str, many: str, number: int, /, **facts: object) -> str:
    """Return the form that fits the number, with the facts filled in. `%(num)s` is the number by default."""
    return plural(one, many, number) % {"num": number, **facts}


def lazy(message: str) -> str:
    """Return a text for a constant: it is translated each time it is used, into the language that is active then."""
    return cast(str, LazyProxy(gettext, message, enable_cache=False))


@cache
def _catalogue(code: str) -> catalogues.NullTranslations:
    if code == ENGLISH:
        return catalogues.NullTranslations()
    compiled = io.BytesIO()
    with (Path(__file__).parent / f"{code}.po").open("rb") as written:
        write_mo(compiled, read_po(written, locale=code))
    compiled.seek(0)
    return catalogues.GNUTranslations(compiled)
