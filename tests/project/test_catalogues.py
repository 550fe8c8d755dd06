"""Tests that every user-facing text exists in every language: complete, and with the same placeholders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages import Catalog
from babel.messages.frontend import CommandLineInterface
from babel.messages.pofile import read_po
from jinja2 import Environment

from tasks.i18n import ENGLISH, LANGUAGES

HOUSE = Path(__file__).parents[2]
CATALOGUES = HOUSE / "tasks" / "i18n"
OTHERS = sorted(set(LANGUAGES) - {ENGLISH})
END_USER_PAGES = sorted(
    path
    for path in (HOUSE / "templates").rglob("*.html")
    if path.parent.name != "ops" and path.name != "_embed_code.html"  # operators and API clients get English texts
)
SPOKEN = ("aria-label", "title", "placeholder", "alt")
PROPER_NAMES = re.compile(r"\b(Waybill|Word|Markdown|CSV|https)\b")
PLACEHOLDER = re.compile(r"%\(\w+\)s|%%|%")


def read(path: Path) -> Catalog:
    with path.open("rb") as written:
        return read_po(written)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Return the texts that `make words` finds in the code and the templates."""
    found = tmp_path_factory.mktemp("words") / "texts.pot"
    arguments = [
        "pybabel",
        "--quiet",
        "extract",
        "-F",
        "pyproject.toml",
        "-k",
        "lazy",
        "-k",
        "plural:1,2",
        "-o",
        str(found),
        ".",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(HOUSE)
        CommandLineInterface().run(arguments)
    return read(found)


def unmarked(template: str) -> str:
    """Return the text of a template that is not marked for translation, and so is always shown in English."""
    written, in_block = "", False
    for _, kind, value in Environment(extensions=["jinja2.ext.i18n"]).lex(template):
        if kind == "name" and value in ("trans", "endtrans"):
            in_block = value == "trans"
        written += value if kind == "data" and not in_block else ""
    spoken = re.findall(rf'\s(?:{"|".join(SPOKEN)}|data-[a-z-]+)="([^"]*)"', written)
    words = re.sub(r'<(script|style|pre)\b.*?</\1>|<[^>]*>|[\w-]+="[^"]*"', " ", written, flags=re.DOTALL)
    return " ".join(" ".join([words, *(value for value in spoken if re.search("[A-Z ]", value))]).split())


@pytest.mark.parametrize("path", END_USER_PAGES, ids=lambda path: path.name)
def test_each_word_of_a_template_is_marked(path: Path) -> None:
    left = PROPER_NAMES.sub(" ", unmarked(path.read_text()))
    assert not re.search(r"[^\W\d_]{2}", left), left


def test_a_word_that_is_not_marked_is_found() -> None:
    template = "<p title=\"Look\">{{ _('Kept') }}{% trans %}too{% endtrans %} {% if a %}lost{% endif %}</p>"
    assert unmarked(template).split() == ["lost", "Look"]


def test_each_language_that_is_offered_has_a_catalogue_and_the_other_way_round() -> None:
    assert {path.stem for path in CATALOGUES.glob("*.po")} == set(OTHERS)


def test_no_text_stands_inside_an_f_string_where_it_would_not_be_found() -> None:
    code = [path for folder in ("tasks", "webapp") for path in (HOUSE / folder).rglob("*.py")]
    inside = re.compile(r"""\bf["'].*\{(_|gettext|ngettext|plural|lazy)\(""")
    assert [path.name for path in code if inside.search(path.read_text())] == []


@pytest.mark.parametrize("code", OTHERS)
def test_a_catalogue_holds_each_text_and_nothing_else(code: str, texts: Catalog) -> None:
    catalogue = read(CATALOGUES / f"{code}.po")
    expected, there = (
        {message.id for message in texts if message.id},
        {message.id for message in catalogue if message.id},
    )
    assert len(expected) > 1
    assert expected - there == set(), "not in the catalogue: run `make words`, then translate"
    assert there - expected == set(), "no longer used: run `make words`"


@pytest.mark.parametrize("code", OTHERS)
def test_each_text_is_translated_with_the_same_facts(code: str) -> None:
    for message in read(CATALOGUES / f"{code}.po"):
        if not message.id:
            continue
        said = message.string if isinstance(message.string, tuple) else (message.string,)
        assert all(said) and not message.fuzzy, f"not translated: {message.id}"
        originals = message.id if isinstance(message.id, tuple) else (message.id,)
        facts = set(PLACEHOLDER.findall(originals[-1]))  # the singular may say "one" instead of a number
        assert set(PLACEHOLDER.findall(said[-1])) == facts, f"other facts than in: {message.id}"
