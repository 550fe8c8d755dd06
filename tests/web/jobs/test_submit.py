from __future__ import annotations

import io
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import func, select, text
from werkzeug.datastructures import FileStorage

from tasks.database import Database
from tasks.ledger.models import Delivery, Document, Job
from tasks.queue import DeliveryQueue
from tests.support.documents.office import case_file, docx, odt, paragraph
from tests.web.conftest import Browser, Person, WebHarness, job_id_in, proof_in, rows

FILES = Path(__file__).parents[2] / "support" / "files"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 30


def count(database: Database, table: type = Job) -> int:
    return rows(database, select(func.count()).select_from(table))[0][0]


def test_pasted_text_becomes_a_job_and_a_message(ada: Person, database: Database, queue: DeliveryQueue) -> None:
    job_id = job_id_in(
        ada.paste(
            "The north pier is closed.\r\nUntil August.", **{"summary-length": "short", "summary-form": "bullets"}
        )
    )
    [(title, options, deliveries)] = rows(database, select(Job.title, Job.options, Job.deliveries))
    assert title == "The north pier is closed."
    assert options == {"length": "short", "form": "bullets", "language": "document"}
    assert queue.rq.get_job_ids() == [f"{job_id.hex}-{deliveries}"]
    [(content, kind, filename)] = rows(database, select(Document.content, Document.kind, Document.filename))
    assert (content, kind, filename) == (b"The north pier is closed.\nUntil August.", "txt", None)
    assert ada.get(f"/jobs/{job_id}").status_code == 200


def test_an_uploaded_file_keeps_its_bytes_and_its_name(ada: Person, database: Database) -> None:
    job_id_in(ada.upload(b"# Minutes\r\n\xff\xfe raw", "Minutes.md"))
    [(content, kind, filename)] = rows(database, select(Document.content, Document.kind, Document.filename))
    assert (content, kind, filename) == (b"# Minutes\r\n\xff\xfe raw", "markdown", "Minutes.md")
    assert rows(database, select(Job.title)) == [("Minutes.md",)]


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({}, "text-error", "Choose a file or paste some text"),
        ({"text": " \n\t \0"}, "text-error", "Choose a file or paste some text"),
        ({"text": "\u200b\ufeff"}, "text-error", "Choose a file or paste some text"),
    ],
)
def test_nothing_handed_in_is_said_beside_the_field(
    ada: Person, database: Database, given: dict[str, str], field: str, message: str
) -> None:
    answer = ada.post("/jobs", given, content_type="multipart/form-data")
    assert answer.status_code == 422
    assert f'id="{field}"' in answer.text and message in answer.text
    assert count(database) == count(database, Document) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The document is empty."),
        (b" \n\t ", "The document is empty."),
        (b"\0" * 100, "No text was found"),
        (PNG, "This is a picture"),
        (b"\x7fELF" + bytes(range(256)), "This file type is not supported"),
        (b"PK\x03\x04 not a zip", "The file is damaged"),
        (b"\xef\xbb\xbf", "The document is empty."),
        ("\u200b\u00a0\u2003\ufeff\n".encode(), "The document is empty."),
        ("\ufeff \n\u2028".encode("utf-16-le"), "No text was found"),
        (case_file("D16c"), "No text was found"),
        (odt("<text:p/><text:p> </text:p>"), "No text was found"),
        (docx(paragraph(""), ("word/header1.xml", f"<w:hdr {{w}}>{paragraph(' ')}</w:hdr>")), "No text was found"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_at_the_door(
    ada: Person, database: Database, content: bytes, message: str
) -> None:
    answer = ada.upload(content, "a.pdf", title="My title", **{"summary-length": "long"})
    assert answer.status_code == 422
    assert 'id="file-error"' in answer.text and message in answer.text
    assert 'value="My title"' in answer.text and 'value="long" checked' in answer.text
    assert count(database) == 0


def test_a_file_and_text_together_are_refused_and_the_text_is_kept(ada: Person, database: Database) -> None:
    answer = ada.upload(b"file", text="typed <b>text</b>")
    assert answer.status_code == 422
    assert "not both" in answer.text and "typed &lt;b&gt;text&lt;/b&gt;" in answer.text
    assert count(database) == 0


def test_one_byte_over_the_limit_is_refused_with_the_limit_in_words(
    make_app: Callable[..., Flask], ada: Person
) -> None:
    person = Person(make_app(max_upload_bytes=2048), ada.id)
    assert job_id_in(person.upload(b"x" * 2048))
    answer = person.upload(b"x" * 2049, title="kept")
    assert answer.status_code == 413
    assert "The limit is 2 kB" in answer.text and 'value="kept"' in answer.text


@pytest.mark.parametrize("content_type", ["multipart/form-data", "application/x-www-form-urlencoded"])
def test_a_paste_of_600_kilobytes_goes_through(ada: Person, database: Database, content_type: str) -> None:
    pasted = "港" * 199_990 + "\n\nEnd."
    assert len(pasted.encode()) > 590_000
    job_id_in(ada.post("/jobs", {"text": pasted}, content_type=content_type))
    assert rows(database, select(Document.size_bytes)) == [(len(pasted.encode()),)]


@pytest.mark.parametrize("content_type", ["multipart/form-data", "application/x-www-form-urlencoded"])
def test_a_paste_over_the_limit_is_refused_with_both_numbers_and_kept(
    ada: Person, database: Database, content_type: str
) -> None:
    answer = ada.post("/jobs", {"text": "word " * 120_000}, content_type=content_type)
    assert answer.status_code == 422
    assert "600,000 characters" in answer.text and "The limit is 200,000" in answer.text
    assert "word word word" in answer.text
    assert count(database) == 0


@pytest.mark.parametrize(
    "pasted",
    ["NUL \0 in it", "half \ud83d emoji", "bidi \u202e override", "tab\tand\x0bmore\x85", "\U0010ffff end"],
    ids=["nul", "half", "bidi", "controls", "noncharacter"],
)
def test_characters_that_a_database_refuses_are_cleaned(ada: Person, database: Database, pasted: str) -> None:
    body = f"csrf_token={ada.token('/account')}&text=" + "".join(
        f"%{byte:02x}" for byte in pasted.encode("utf-8", "surrogatepass")
    )
    answer = ada.client.post("/jobs", data=body, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 303
    [(content,)] = rows(database, select(Document.content))
    assert "\0" not in content.decode()


@pytest.mark.parametrize(
    ("filename", "shown"),
    [
        ("../../../../escape_marker.docx", "escape_marker.docx"),
        ("/etc/passwd", "passwd"),
        ("%2e%2e%2fx", "%2e%2e%2fx"),
        (".", "document.txt"),
        ("..", "document.txt"),
        ("CON", "CON"),
        ("a\0b\x1b[31m.txt", "ab[31m.txt"),
        ("фото.txt", "фото.txt"),
        ("会議.txt", "会議.txt"),
        ("😀.txt", "😀.txt"),
        ("e\u0301.txt", "e\u0301.txt"),
        ("....//....//x.txt", "x.txt"),
        ("file:///etc/shadow", "shadow"),
        ("تقرير نهائي.txt", "تقرير نهائي.txt"),
        ("\u05d3\u05d5\u05d7 3.txt", "\u05d3\u05d5\u05d7 3.txt"),
        ("รายงาน.txt", "รายงาน.txt"),
        ("🇩🇪 👩🏽‍🚀.txt", "🇩🇪 👩🏽‍🚀.txt"),
        ("\u202egnp.exe.txt", "gnp.exe.txt"),
        ("<img src=x onerror=alert(1)>.txt", "<img src=x onerror=alert(1)>.txt"),
        ("x" * 5000, "x" * 200),
    ],
    ids=lambda value: ascii(value)[1:30],
)
def test_a_hostile_or_foreign_file_name_is_shown_as_its_clean_last_part(
    ada: Person, database: Database, filename: str, shown: str
) -> None:
    job_id = job_id_in(ada.upload(b"some text", filename))
    assert rows(database, select(Job.title, Document.filename).join_from(Job, Document)) == [(shown, shown)]
    page = ada.get(f"/jobs/{job_id}")
    assert page.status_code == 200 and "<img" not in page.text


def test_a_file_without_a_name_is_still_a_file(ada: Person, database: Database) -> None:
    body = (
        f'--b\r\nContent-Disposition: form-data; name="csrf_token"\r\n\r\n{ada.token("/account")}\r\n'
        '--b\r\nContent-Disposition: form-data; name="file"; filename=""\r\n\r\nsome text\r\n--b--\r\n'
    )
    answer = ada.client.post("/jobs", data=body.encode(), content_type="multipart/form-data; boundary=b")
    job_id_in(answer)
    assert rows(database, select(Job.title)) == [("document.txt",)]


def test_the_empty_part_of_an_untouched_file_field_is_no_file(ada: Person, database: Database) -> None:
    untouched = FileStorage(io.BytesIO(b""), "")
    answer = ada.post("/jobs", {"file": untouched, "text": "typed"}, content_type="multipart/form-data")
    job_id_in(answer)
    assert rows(database, select(Document.content)) == [(b"typed",)]


def test_a_long_title_of_emoji_is_cut_between_characters(ada: Person, database: Database) -> None:
    family = "👨‍👩‍👧‍👦"
    job_id_in(ada.paste("some text", title=family * 120))
    [(title,)] = rows(database, select(Job.title))
    assert len(title) <= 200 and title == family * (len(title) // len(family))
    job_id_in(ada.upload((FILES / "D14_emoji_title.md").read_bytes(), "D14.md"))


@pytest.mark.parametrize("option", ["summary-length", "summary-form"])
def test_an_option_that_is_not_offered_is_refused(ada: Person, database: Database, option: str) -> None:
    answer = ada.paste(**{option: "enormous"})
    assert answer.status_code == 422 and f'id="{option}-error"' in answer.text
    assert count(database) == 0


def test_the_same_form_sent_twice_is_one_job(ada: Person, database: Database) -> None:
    first = ada.paste("once", idempotency_key="k1")
    second = ada.paste("once", idempotency_key="k1")
    third = ada.paste("once", idempotency_key="another form, same wish")
    assert job_id_in(first) == job_id_in(second) == job_id_in(third)
    assert count(database) == count(database, Delivery) == 1


def test_what_was_handed_in_before_is_shown_with_words(ada: Person, database: Database) -> None:
    ada.paste("once")
    known = ada.paste("once").location
    assert "before" not in ada.get(known).text, "the second answer of a double click"
    with database.transaction() as session:
        session.execute(text("UPDATE jobs SET created_at = created_at - interval '1 minute'"))
    assert "You already submitted this document" in ada.get(known).text
    assert "You already submitted this document" not in ada.get(known.removesuffix("?known=1")).text


@pytest.mark.parametrize("how", ["same key", "no key", "different keys"])
def test_a_double_click_is_one_job(app: Flask, ada: Person, database: Database, how: str) -> None:
    with app.app_context():  # creates the engine before the threads start
        pass
    people = [Person(app, ada.id) for _ in range(4)]
    for person in people:
        person.token("/account")
    keys = {"same key": ["k"] * 4, "no key": [""] * 4, "different keys": ["a", "b", "c", "d"]}[how]
    barrier, answers = threading.Barrier(4), []

    def click(person: Person, key: str) -> None:
        barrier.wait()
        answers.append(person.paste("clicked", idempotency_key=key))

    threads = [threading.Thread(target=click, args=pair) for pair in zip(people, keys, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({job_id_in(answer) for answer in answers}) == 1
    assert count(database) == count(database, Document) == 1


def test_without_the_index_nothing_is_accepted(ada: Person, database: Database) -> None:
    """Check the negative control: only the index prevents duplicates, because a submit does not look first."""
    with database.transaction() as session:
        definition = session.execute(
            text("SELECT indexdef FROM pg_indexes WHERE indexname = 'one_job_per_operation'")
        ).scalar_one()
        session.execute(text("DROP INDEX one_job_per_operation"))
        session.execute(text(definition.replace("UNIQUE INDEX", "INDEX")))
    try:
        with pytest.raises(Exception, match="no unique or exclusion constraint"):
            ada.paste("once")
    finally:
        with database.transaction() as session:
            session.execute(text("DROP INDEX one_job_per_operation"))
            session.execute(text(definition))


def test_the_same_form_with_other_content_is_refused_in_words_and_kept(ada: Person, database: Database) -> None:
    job_id_in(ada.paste("once", idempotency_key="k1"))
    answer = ada.paste("once more", idempotency_key="k1")
    assert answer.status_code == 409
    assert "already sent this form with different content" in answer.text and "once more" in answer.text
    assert 'name="idempotency_key" value="k1"' not in answer.text
    assert count(database) == 1


@pytest.mark.parametrize("key", ["x" * 500, "ключ", "a\0b"])
def test_a_broken_key_counts_as_none(ada: Person, database: Database, key: str) -> None:
    job_id_in(ada.paste("once", idempotency_key=key))
    assert count(database) == 1


def test_every_form_has_its_own_key(ada: Person) -> None:
    def key() -> str:
        return ada.get("/").text.partition('name="idempotency_key" value="')[2].partition('"')[0]

    assert uuid.UUID(key()) != uuid.UUID(key())


def test_a_form_that_is_too_old_comes_back_with_its_text(ada: Person, database: Database) -> None:
    answer = ada.client.post("/jobs", data={"text": "Long & typed", "csrf_token": "old", "title": "T"})
    assert answer.status_code == 400
    assert "Long &amp; typed" in answer.text and "Press Summarize again" in answer.text
    assert count(database) == 0
    again = ada.client.post("/jobs", data={"text": "Long & typed", "csrf_token": proof_in(answer.text)})
    job_id_in(again)


def test_a_form_that_is_too_old_says_that_its_file_must_be_chosen_again(ada: Person) -> None:
    answer = ada.client.post("/jobs", data={"file": (io.BytesIO(b"x"), "a.txt")}, content_type="multipart/form-data")
    assert answer.status_code == 400 and "choose yours again" in answer.text


def test_a_form_sent_after_the_session_ended_keeps_its_text(browser: Browser, database: Database) -> None:
    answer = browser.client.post("/jobs", data={"text": "Long and typed", "csrf_token": "old"})
    assert answer.status_code == 400
    assert "You are signed out" in answer.text and "Long and typed" in answer.text and "/login" in answer.text
    assert count(database) == 0


def test_a_stale_htmx_form_reloads_its_page(ada: Person, bench: WebHarness) -> None:
    answer = ada.client.post(f"/jobs/{bench.job()}/cancel", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Refresh"]) == (400, "true")


def test_submitting_needs_somebody_signed_in(browser: Browser, database: Database) -> None:
    answer = browser.post("/jobs", {"text": "x"})
    assert (answer.status_code, answer.location) == (302, "/login")
    assert count(database) == 0


def test_two_people_with_the_same_document_have_a_job_each(ada: Person, bob: Person, database: Database) -> None:
    assert job_id_in(ada.upload(b"same", "same.txt")) != job_id_in(bob.upload(b"same", "same.txt"))
    assert count(database) == count(database, Document) == 2


def test_a_get_never_makes_anything(ada: Person, bench: WebHarness, database: Database) -> None:
    job_id = bench.job()
    for path in ("/jobs", f"/jobs/{job_id}/cancel", f"/jobs/{job_id}/again"):
        assert ada.get(path).status_code == 405
    assert count(database) == 1
