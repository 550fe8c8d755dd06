"""The words that are written in Python, in another language: whole sentences, and numbers as that language has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tasks.i18n import language, use_language
from tasks.intake.file_types import Kind
from tasks.ledger.errors import Category
from tasks.ledger.models import JobEvent, Result
from tasks.ledger.states import Event, State
from tasks.notifications.mail_templates import MAILS, render_mail
from tasks.notifications.signed_links import Links
from tasks.pricing import Spent, Usage
from tasks.provider.local import LocalProvider
from tasks.provider.openai_api import OpenAIProvider
from tasks.provider.settings import ProviderSettings
from tasks.settings import Settings
from tasks.workflows import WORKFLOWS, NextSteps, Options
from tasks.workflows.action_items import ActionItems, table_of
from tasks.workflows.questions import NOT_ANSWERED, show
from tasks.workflows.sanitize import REMOVED
from webapp.accounts import messages
from webapp.http import errors
from webapp.jobs import job_list, timeline, workflow_messages
from webapp.jobs import messages as job_messages
from webapp.jobs.document_facts import encoding_in_words, main_measure, what_was_read
from webapp.jobs.results.localized import shown
from webapp.jobs.results.provenance import BY_MODEL, EXTRACT, kind_label, label_in_words
from webapp.jobs.usage import usage_in_words
from webapp.notifications import messages as notification_messages
from webapp.text.numbers import duration_in_words, number, size_in_words

PDF = {"pages": 12, "pages_with_text": 11, "words": 8410, "encoding": "cp1250", "replaced_bytes": 1}


@pytest.fixture
def in_german() -> Iterator[None]:
    with use_language("de"):
        yield


@pytest.mark.parametrize(
    ("size", "english", "german"),
    [
        (10 * 1024 * 1024, "10 MB", "10 MB"),
        (2_621_440, "2.5 MB", "2,5 MB"),
        (348_160, "340 kB", "340 kB"),
        (12, "12 bytes", "12 Byte"),
        (1, "1 byte", "1 Byte"),
    ],
)
def test_a_size_is_written_as_the_language_has_it(size: int, english: str, german: str) -> None:
    assert size_in_words(size) == english
    with use_language("de"):
        assert size_in_words(size) == german


def test_numbers_have_their_thousands_apart_and_units_that_are_the_same_everywhere(in_german: None) -> None:
    assert (number(1234567), number(Decimal("1234.5"), 2, all_places=True)) == ("1.234.567", "1.234,50")
    assert [duration_in_words(seconds) for seconds in (12, 72, 840, 10_800)] == ["12 s", "1 min 12 s", "14 min", "3 h"]


def test_what_was_read_is_said_in_german(in_german: None) -> None:
    said = what_was_read(PDF, 9)
    assert said == (
        "11 von 12 Seiten mit Text, 8.410 Wörter, Kodierung Windows-1250 (Mitteleuropäisch), "
        "1 unlesbares Zeichen wurde ersetzt, in 9 Teilen gelesen"
    )
    assert main_measure({"pages": 1}) == "1 Seite" and main_measure({"words": 0}) == "0 Wörter"
    assert encoding_in_words("cp1252") == "Windows-1252"


def test_what_was_used_is_said_in_german(in_german: None) -> None:
    spent = Spent(calls=3, unreported=2, input_tokens=1234, output_tokens=210, cost=Decimal("0.0012"))
    wasted = Spent(calls=1, unreported=0, input_tokens=9, output_tokens=0, cost=Decimal("0.00001"))
    assert usage_in_words(Usage(spent, wasted)) == (
        "1.234 Token gesendet, 210 erhalten, 0,0012; davon vergeblich weniger als 0,0001; für 2 Aufrufe nicht gemeldet"
    )


def test_what_happened_is_told_in_german(in_german: None) -> None:
    def line(event: Event, state: State = State.QUEUED, **facts: Any) -> str:
        told = timeline.timeline_line(JobEvent(event=event, state=state, facts=facts, at=datetime.now(UTC)), "Ergebnis")
        assert told is not None and type(told.text) is str
        return told.text

    assert line(Event.CLAIM, attempt=2, of=5) == "Versuch 2 von 5 hat begonnen."
    assert line(Event.SUCCEED, State.SUCCEEDED) == "Ergebnis gespeichert."
    assert line(Event.FAIL, State.FAILED, category="overloaded") == "Gescheitert. Der KI-Dienst war überlastet."
    assert line(Event.RELEASE, reason="continue").endswith("Der Rest folgt. Das zählt nicht als Versuch.")
    assert line(Event.REPLAY, cause=job_messages.OWNER_TRIES_AGAIN) == "Sie haben einen neuen Versuch angefordert."


def test_a_cause_is_said_in_whole_sentences(in_german: None) -> None:
    said = job_messages.ending_of("quota", None, "bericht.txt")
    assert said.what == "Der Dienst konnte das nicht erledigen. An Ihrer Datei liegt es nicht."
    assert said.so.startswith("Das Guthaben dieser Website beim KI-Dienst war aufgebraucht. Wenden Sie sich")
    assert (
        job_messages.jobs_before(1) == "1 Auftrag vor Ihrem." and job_messages.jobs_before(2) == "2 Aufträge vor Ihrem."
    )
    assert job_messages.text_too_long(400_000, 300_000) == (
        "Der Text ist zu lang: Er hat 400.000 Zeichen. Die Grenze liegt bei 300.000."
    )


def test_the_same_constant_speaks_to_the_next_reader_in_theirs() -> None:
    with use_language("de"):
        assert job_messages.BADGES[State.FAILED] == "Gescheitert"
        assert notification_messages.why_not_sent("http_500") == "die Antwort hatte den Status 500"
        assert messages.refused_by_service("unreachable", "100 %").startswith("100 % war nicht erreichbar.")
        assert errors.PAGES[404][0] == "Hier ist nichts"
        assert job_list.SHOWN["working"][0] == "In Arbeit"
    assert job_messages.BADGES[State.FAILED] == "Failed"
    assert notification_messages.why_not_sent("http_500") == "it answered with status 500"


def test_every_kind_of_document_has_a_name_and_every_label_a_result_may_carry_is_known() -> None:
    for kind in Kind:
        assert kind_label(kind) != kind
    assert str(EXTRACT) == LocalProvider.label
    label = OpenAIProvider(ProviderSettings("openai", "key", "http://127.0.0.1:9", model="gpt-x")).label
    assert label == f"{BY_MODEL}gpt-x"
    with use_language("de"):
        assert label_in_words(LocalProvider.label) == "Auszug, auf diesem Server ohne KI-Dienst erstellt"
        assert label_in_words(label) == "Vom KI-Modell gpt-x erstellt"
        assert label_in_words("Of another release") == "Of another release"


def test_what_leaves_the_word_modules_is_plain_text(in_german: None) -> None:
    """A text that is looked up late would be no JSON, and nothing the database knows."""
    for category in Category:
        failure = job_messages.failure_of(category, None)
        assert {type(failure.what), type(failure.so)} == {str}
    assert {type(word) for word in vars(workflow_messages.words_of("summary")).values()} == {str}
    assert type(workflow_messages.title_of("action_items")) is type(kind_label("pdf")) is str
    assert type(encoding_in_words("cp1250")) is type(notification_messages.why_not_sent("tls")) is str
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps(job_messages.BADGES[State.QUEUED])


CHOSEN: dict[str, Options] = {
    "summary": {"length": "short", "form": "bullets", "language": "de"},
    "action_items": {},
    "questions_answered": {"questions": ["Wann?"]},
}


@pytest.mark.parametrize("name", sorted(WORKFLOWS))
def test_what_a_model_is_asked_does_not_depend_on_who_reads_it(name: str) -> None:
    def asked(text: str) -> NextSteps:
        todo = WORKFLOWS[name].next(text, CHOSEN[name], {}, 1000)
        assert isinstance(todo, NextSteps)
        return todo

    for text in ("The pier is closed.", "The pier is closed. " * 200):
        english = asked(text)
        with use_language("de"):
            assert asked(text) == english
            assert WORKFLOWS[name].title != english


def test_what_is_ours_in_a_result_is_said_to_its_reader_and_saved_in_english(in_german: None) -> None:
    table = table_of([("Ada", "Close the pier", "Friday")])
    assert table.startswith("| Who | What | By when |\n")
    saved = Result(text=table, facts={"label": LocalProvider.label, "provider": "local"})
    seen = shown("action_items", saved)
    assert seen.text == table.replace("Who | What | By when", "Wer | Was | Bis wann")
    assert seen.facts == {"label": "Auszug, auf diesem Server ohne KI-Dienst erstellt", "provider": "local"}
    assert ActionItems().csv(table).splitlines() == ["Wer,Was,Bis wann", "Ada,Close the pier,Friday"]
    assert shown("action_items", Result(text=table_of([]), facts={})).text == (
        "Das Dokument gibt niemandem eine Aufgabe."
    )
    answers = show("When?", "", "") + "\n\n" + show("Who?", "Ada.", "")
    assert shown("questions_answered", Result(text=answers, facts={})).text == (
        "**When?**\n\nDas Dokument beantwortet diese Frage nicht.\n\n"
        "**Who?**\n\nAda.\n\n*Im Dokument wurde keine Stelle gefunden, die diese Antwort belegt.*"
    )
    quoted = f"It says: {NOT_ANSWERED}"
    assert shown("questions_answered", Result(text=quoted, facts={})).text == quoted, "what the document says stays"
    assert shown("summary", Result(text=f"See {REMOVED}.", facts={})).text == "See [Adresse entfernt]."


def test_every_mail_to_a_person_is_written_in_the_language_it_was_asked_for_in() -> None:
    links = Links(
        Settings(
            database_url="postgresql://d",
            redis_url="redis://r",
            app_base_url="https://waybill.example.org",
            secret_key="a long random text of our own",
        )
    )
    facts = {"id": "7", "title": "Hafenbericht", "account": "ada", "address": "ada@example.org", "stamp": "s"}
    facts |= {"invitation": ""}
    for what in [what for what in MAILS if not what.startswith("alert.")]:
        english, german = (render_mail(what, {**facts, "language": code}, links) for code in (None, "de"))
        assert english is not None and german is not None
        assert english == render_mail(what, facts, links), "owed by the release before"
        assert german.subject != english.subject and " Sie " in german.text, what
        assert "https://waybill.example.org/" in german.text
    assert language() == "en", "the next mail is written for somebody else"
