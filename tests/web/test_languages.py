"""A page speaks the language its reader chose, else the browser's, else English. Programs are spoken to in English."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from tasks.database import Database
from tests.web.conftest import Browser, Person, Program
from webapp.models import Account

GERMAN: dict[str, Any] = {"headers": {"Accept-Language": "de-AT, de;q=0.9, en;q=0.5"}}


@pytest.mark.parametrize(
    ("wish", "spoken"),
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
def test_a_page_speaks_what_the_browser_asks_for_if_it_can(browser: Browser, wish: str, spoken: str) -> None:
    answer = browser.get("/login", headers={"Accept-Language": wish})
    assert f'<html lang="{spoken}">' in answer.text
    assert "Accept-Language" in answer.vary
    assert '<html lang="en">' in browser.get("/login").text, "the next request speaks for itself"


def test_the_choice_of_an_account_comes_before_the_browsers_wish(database: Database, ada: Person) -> None:
    assert "Neues Dokument" in ada.get("/", **GERMAN).text
    with database.transaction() as session:
        session.execute(update(Account).values(language="en"))
    assert "New document" in ada.get("/", **GERMAN).text


def test_programs_and_operators_are_spoken_to_in_english(program: Program, olga: Person, database: Database) -> None:
    with database.transaction() as session:
        session.execute(update(Account).values(language="de"))
    assert program.ask("GET", "/jobs/none", **GERMAN).status_code == 404
    assert "New document" in olga.get("/ops", **GERMAN).text
    assert "Neues Dokument" in olga.get("/", **GERMAN).text
