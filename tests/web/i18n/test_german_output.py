"""Texts from Python code reach a German user in German; programs, rows and models get English or codes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from urllib.parse import unquote
from zipfile import ZipFile

import pytest
from docx import Document
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from tasks.database import Database
from tasks.i18n import language, use_language
from tasks.ledger.models.notifications import Channel, Notice
from tasks.ledger.notifications import preferences
from tests.support.mail_site import MAILING, owed_mails
from tests.web.conftest import Browser, Person, Program, WebHarness, assert_problem, job_id_in
from webapp.jobs.titles import title_of_text
from webapp.models import Account

GERMAN = {"Accept-Language": "de"}


def in_german(person: Browser, path: str) -> str:
    return person.get(path, headers=GERMAN).text


def test_the_same_request_in_another_language_is_the_same_job(ada: Person, program: Program) -> None:
    fields = {"text": "The pier is closed.", "workflow": "summary", "summary-length": "short"}
    form = {"content_type": "multipart/form-data"}
    first = job_id_in(ada.post("/jobs", fields, headers=GERMAN, **form))
    assert job_id_in(ada.post("/jobs", fields, **form)) == first
    again = program.submit(options={"length": "short"})
    assert (again.status_code, again.get_json()["id"]) == (200, str(first))


def test_a_job_page_says_its_part_in_german(ada: Person, bench: WebHarness) -> None:
    page = in_german(ada, f"/jobs/{bench.succeeded()}")
    for text in (
        "Zusammenfassung, Mittel, Fließtext",
        ">Angenommen",
        ">Zusammengefasst",
        "12 Seiten, 8.410 Wörter",
        " hat begonnen.",
        "Zusammenfassung gespeichert.",
        "Auszug, auf diesem Server ohne KI-Dienst erstellt. Adressen darin stammen aus dem Dokument.",
        "Reiner Text",
    ):
        assert text in page, text
    assert "summary, medium, prose" in ada.get(f"/jobs/{bench.succeeded()}").text
    stopped = in_german(ada, f"/jobs/{bench.failed('quota')}")
    assert re.search("An Ihre[rm] (Datei|Text) liegt es nicht", stopped)


def test_a_limit_is_told_in_a_sentence_with_the_moment_in_it(
    make_app: Callable[..., Flask], ada: Person, database: Database
) -> None:
    app = make_app(jobs_per_day=1)
    person = Person(app, ada.id)
    assert "Heute noch 1 von 1 möglich." in in_german(person, "/")
    person.paste("one")
    page = in_german(person, "/")
    assert re.search(
        r"Eingereichte Dokumente in den letzten 24 Stunden: 1 von 1\. Das nächste können Sie einreichen ab "
        r'<time datetime="[^"]+" data-local="clock">\d\d:\d\d UTC</time>, '
        r'<time datetime="[^"]+" data-local="day">',
        page,
    )
    by_script = person.post(
        "/jobs",
        {"text": "two"},
        content_type="multipart/form-data",
        headers={**GERMAN, "Accept": "application/json"},
    )
    body = by_script.get_json()
    assert body["error"].endswith(f"Das nächste können Sie einreichen ab {body['at']}.")
    assert re.fullmatch(r"\d\d:\d\d UTC, \d{1,2}\. \w+\.? \d{4}", body["at"])


def test_programs_are_told_in_english_whatever_they_ask_for(ada: Person, bench: WebHarness, program: Program) -> None:
    refused = program.ask("POST", "/jobs", GERMAN, json={"text": " "})
    assert assert_problem(refused, 422)["detail"].startswith("Choose a file or paste some text first.")
    assert assert_problem(program.ask("GET", "/nothing", GERMAN), 404)["title"] == "There is nothing here"
    failed = program.ask("GET", f"/jobs/{bench.failed('overloaded')}", GERMAN).get_json()
    assert failed["error"]["message"].startswith("The AI service was busy.")
    in_english, described = (ada.get("/api/openapi.json", headers=headers).get_json() for headers in ({}, GERMAN))
    assert described == in_english
    assert "Length: <code>short</code> (Short)" in in_german(ada, "/api/docs")


def test_scripts_get_text_that_is_text(ada: Person) -> None:
    """Check the JSON responses: a lazy text that was not resolved to a string would show up there."""
    script = {**GERMAN, "Accept": "application/json"}
    form = {"content_type": "multipart/form-data", "headers": script}
    empty = ada.post("/jobs", {"text": " "}, **form)
    assert empty.get_json()["error"].startswith("Wählen Sie zuerst eine Datei")
    key = {"idempotency_key": "the-same"}
    assert ada.post("/jobs", {"text": "one", **key}, **form).status_code == 201
    reused = ada.post("/jobs", {"text": "two", **key}, **form)
    assert reused.status_code == 409 and reused.get_json()["error"].startswith(
        "Sie haben dieses Formular schon mit anderem Inhalt gesendet"
    )
    ada.forget_token()
    stale = ada.client.post("/jobs", data={"text": "x", "csrf_token": "old"}, headers=script)
    assert stale.get_json()["error"].startswith("Das Formular war zu lange offen")


def test_files_say_what_is_ours_in_german(ada: Person, bench: WebHarness) -> None:
    job_id = bench.succeeded()
    answer = ada.get(f"/jobs/{job_id}/result.docx", headers=GERMAN)
    assert unquote(answer.headers["Content-Disposition"]).endswith("Zusammenfassung zu Harbour report.docx")
    words = [paragraph.text for paragraph in Document(io.BytesIO(answer.data)).paragraphs]
    assert words[0] == "Zusammenfassung zu Harbour report" and "ohne KI-Dienst erstellt" in words[-2]
    table = "| Who | What | By when |\n| --- | --- | --- |\n| Ada | paint | – |"
    tasks = bench.succeeded(table, workflow="action_items", options={})
    assert ada.get(f"/jobs/{tasks}/result.csv", headers=GERMAN).text.startswith("\ufeffWer,Was,Bis wann")
    assert "| Wer | Was | Bis wann |" in ada.get(f"/jobs/{tasks}/result.md", headers=GERMAN).text
    assert ada.get(f"/jobs/{tasks}/result.txt").text.startswith("Who | What | By when")


def test_an_export_speaks_one_language_to_its_last_byte(ada: Person, bench: WebHarness) -> None:
    bench.succeeded()
    answer = ada.post("/account/export", headers=GERMAN)
    archive = ZipFile(io.BytesIO(answer.data))
    assert "Ihr Konto, seine API-Token" in archive.read("README.txt").decode()
    [name] = [name for name in archive.namelist() if name.endswith("job.json")]
    job = json.loads(archive.read(name))
    assert job["state"] == "succeeded" and job["events"][-1]["what"] == "Ergebnis gespeichert."
    assert language() == "en"


def address_of(session: Session, person: Person) -> str:
    return session.get_one(Account, person.id).email


@pytest.fixture
def mailing(make_app: Callable[..., Flask]) -> Flask:
    return make_app(**MAILING)


def test_mails_are_owed_in_the_language_they_were_asked_for_in(
    mailing: Flask, ada: Person, bench: WebHarness, database: Database
) -> None:
    anna = Person(mailing, ada.id)
    with database.transaction() as session:
        address = address_of(session, ada)
    anna.post("/account/notices/email", {"on": "yes"}, headers=GERMAN)
    nobody = Browser(mailing)
    nobody.post("/reset", {"email": address}, headers=GERMAN)
    nobody.post("/register", {"email": "new@example.org"})
    assert [(owed.what, owed.facts["language"]) for owed in owed_mails(database)] == [
        ("email.confirm", "de"),
        ("password.reset", "de"),
        ("registration.confirm", "en"),
    ]


def test_the_mail_at_the_end_of_a_job_is_in_the_language_in_which_it_was_requested(
    mailing: Flask, ada: Person, bench: WebHarness, database: Database
) -> None:
    anna = Person(mailing, ada.id)
    with database.transaction() as session:
        address = address_of(session, ada)
        preferences.set_email(session, ada.id, address, on=False)
        preferences.set_webhook(session, ada.id, "https://a.example/hook")
    anna.post("/account/notices/email", {"on": "yes"}, headers=GERMAN)
    anna.post("/account/notices/test", {"channel": "webhook"}, headers=GERMAN)
    bench.succeeded()
    with database.transaction() as session:
        owed = {(notice.channel, notice.what): notice.facts for notice in session.execute(select(Notice)).scalars()}
    assert owed[Channel.EMAIL, "job.succeeded"]["language"] == "de"
    assert "language" not in owed[Channel.WEBHOOK, "job.succeeded"], "a program gets codes"
    assert owed[Channel.WEBHOOK, "test"] == {}


def test_a_title_of_our_own_is_plain_text_when_it_is_stored() -> None:
    nameless = "\n" * 5000 + "later"
    with use_language("de"):
        assert title_of_text(nameless) == "Dokument ohne Titel" and type(title_of_text(nameless)) is str
