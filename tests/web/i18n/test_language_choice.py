"""A page is in the language that the user chose, else in the browser's, else in English. Programs get English."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select, update

from tasks.database import Database
from tasks.i18n import use_language
from tasks.ledger.models.notifications import NoticeWish
from tasks.ledger.notifications import preferences
from tests.web.conftest import Browser, Person, Program, WebHarness, rows
from webapp.models import Account
from webapp.text import dates

GERMAN: dict[str, Any] = {"headers": {"Accept-Language": "de-AT, de;q=0.9, en;q=0.5"}}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("de", "de"),
        ("de-CH, fr;q=0.5", "de"),
        ("fr, de;q=0.4, en;q=0.2", "de"),
        ("fr", "en"),
        ("en-GB, de;q=0.1", "en"),
        ("", "en"),
        ("*", "en"),
        ("../../x", "en"),
    ],
)
def test_a_page_speaks_what_the_browser_asks_for_if_it_can(browser: Browser, header: str, expected: str) -> None:
    answer = browser.get("/login", headers={"Accept-Language": header})
    assert f'<html lang="{expected}">' in answer.text
    assert "Accept-Language" in answer.vary
    assert '<html lang="en">' in browser.get("/login").text, "the next request speaks for itself"


def test_the_choice_of_an_account_comes_before_the_browsers_preference(database: Database, ada: Person) -> None:
    assert "Neues Dokument" in ada.get("/", **GERMAN).text
    with database.transaction() as session:
        session.execute(update(Account).values(language="en"))
    assert "New document" in ada.get("/", **GERMAN).text


def test_an_account_chooses_the_language_of_its_pages_and_mails(
    ada: Person, bob: Person, database: Database, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        for owner in (account_id, bob.id):
            preferences.set_email(session, owner, "x@example.org", on=True)

    def stored() -> set[tuple[str | None, str | None]]:
        both = select(Account.id, Account.language, NoticeWish.language).join(
            NoticeWish, NoticeWish.account_id == Account.id
        )
        found = {row[0]: (row[1], row[2]) for row in rows(database, both)}
        assert found[bob.id] == (None, None), "nobody else's"
        return found[account_id]

    answer = ada.post("/account/language", {"language": "de"})
    assert (answer.status_code, answer.location) == (303, "/account")
    page = ada.get("/account").text
    assert "Die Sprache wurde geändert." in page and '<option value="de" lang="de" selected>Deutsch' in page
    assert "Neues Dokument" in ada.get("/").text and "New document" in bob.get("/").text
    assert stored() == ("de", "de")
    ada.post("/account/language", {"language": "en"}, **GERMAN)
    assert "The language has been changed." in ada.get("/account", **GERMAN).text
    assert stored() == ("en", "en")
    ada.post("/account/language", {"language": ""}, **GERMAN)
    assert stored() == (None, "de"), "mails are written as the browser asked when that was chosen"
    assert "New document" in ada.get("/").text and "Neues Dokument" in ada.get("/", **GERMAN).text
    for unknown in ("fr", "../../x", "EN"):
        assert ada.post("/account/language", {"language": unknown}).status_code == 422
    assert stored() == (None, "de")
    assert ada.client.post("/account/language", data={"language": "de"}).status_code == 400, "no CSRF token"


def test_what_people_wrote_is_in_no_known_language(ada: Person, bench: WebHarness) -> None:
    page = ada.get(f"/jobs/{bench.succeeded(title='Bericht')}", **GERMAN).text
    assert re.search(r'<h1 id="job-heading"[^>]* lang="">Bericht</h1>', page)
    assert re.search(r'<div class="prose" lang="" ', page)
    assert re.search(r'<a [^>]* lang="">Bericht</a>', ada.get("/", **GERMAN).text)


@pytest.mark.parametrize(("code", "expected"), [("en", "4 Sep 2026"), ("de", "4. Sept. 2026")])
def test_a_day_is_written_as_the_language_writes_it(code: str, expected: str) -> None:
    with use_language(code):
        assert dates.day_in_words(datetime(2026, 9, 4, tzinfo=UTC)) == expected


def test_programs_and_operators_are_spoken_to_in_english(program: Program, olga: Person, database: Database) -> None:
    with database.transaction() as session:
        session.execute(update(Account).values(language="de"))
    assert program.ask("GET", "/jobs/none", **GERMAN).status_code == 404
    assert "New document" in olga.get("/ops", **GERMAN).text
    assert "Neues Dokument" in olga.get("/", **GERMAN).text
