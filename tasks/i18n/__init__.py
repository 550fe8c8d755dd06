"""In which language people are spoken to.

The texts stand in the code in English, marked by `_`, `ngettext` or `lazy`. Each other language is one catalogue in
this folder, named by its code. Programs and operators are spoken to in English.
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
"""What people can choose, by code, each in its own name."""

_spoken: ContextVar[str] = ContextVar("language", default=ENGLISH)


def language() -> str:
    """The code of the language that is spoken now."""
    return _spoken.get()


def speak(code: str | None) -> None:
    """Speak this language from now on, in this thread. None, or one that has no catalogue: English."""
    _spoken.set(code if code is not None and code in LANGUAGES else ENGLISH)


@contextmanager
def speaking(code: str | None) -> Iterator[None]:
    """Speak this language inside the block."""
    earlier = language()
    speak(code)
    try:
        yield
    finally:
        speak(earlier)


def gettext(message: str) -> str:
    """The message in the language that is spoken. Its placeholders stay as they are."""
    return _catalogue(language()).gettext(message)


def plural(one: str, many: str, number: int) -> str:
    """One of the two, as the number and the language want it. Its placeholders stay as they are."""
    return _catalogue(language()).ngettext(one, many, number)


def _(message: str, /, **facts: object) -> str:
    """The message in the language that is spoken, with the facts at its `%(name)s`."""
    said = gettext(message)
    return said % facts if facts else said


def ngettext(one: str, many: str, number: int, /, **facts: object) -> str:
    """One of the two, with the facts at its `%(name)s`; `%(num)s` is the number, unless the facts say otherwise."""
    return plural(one, many, number) % {"num": number, **facts}


def lazy(message: str) -> str:
    """For constants: a text that is looked up each time it is used, in the language that is spoken then."""
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
