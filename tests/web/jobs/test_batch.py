"""Several files in one form, and the page's own script, which sends them singly."""

from __future__ import annotations

import io

from sqlalchemy import select
from werkzeug.datastructures import FileStorage
from werkzeug.test import TestResponse

from tasks.database import Database
from tasks.ledger.models import Job
from tests.web.conftest import Person, rows
from tests.web.jobs.test_submit import PNG, count


def several(*contents: tuple[bytes, str]) -> dict[str, list[FileStorage]]:
    return {"file": [FileStorage(io.BytesIO(content), name) for content, name in contents]}


def test_several_files_are_a_job_each_however_often_the_form_is_sent(ada: Person, database: Database) -> None:
    for _ in range(2):
        fields = {**several((b"one", "1.txt"), (b"two", "2.txt"), (b"three", "3.txt")), "idempotency_key": "k"}
        answer = ada.post("/jobs", fields, content_type="multipart/form-data")
        assert (answer.status_code, answer.location) == (303, "/")
        assert "3 documents submitted." in ada.get("/").text
    assert sorted(rows(database, select(Job.title))) == [("1.txt",), ("2.txt",), ("3.txt",)]


def test_one_bad_file_among_several_is_named_and_the_others_are_taken(ada: Person, database: Database) -> None:
    fields = several((b"one", "1.txt"), (b"", "<b>empty.txt"), (PNG, "scan.png"))
    answer = ada.post("/jobs", fields, content_type="multipart/form-data")
    assert answer.status_code == 422
    assert "1 document submitted." in answer.text
    assert "&lt;b&gt;empty.txt</bdi>: The document is empty." in answer.text
    assert "scan.png</bdi>: This is a picture" in answer.text
    assert rows(database, select(Job.title)) == [("1.txt",)]


def test_more_files_than_may_be_sent_at_once_are_refused_whole(ada: Person, database: Database) -> None:
    answer = ada.post(
        "/jobs", several(*((b"%d" % n, f"{n}.txt") for n in range(21))), content_type="multipart/form-data"
    )
    assert answer.status_code == 422 and "up to 20 files at a time" in answer.text
    assert count(database) == 0


def test_the_pages_script_is_told_where_the_file_went_or_why_not(ada: Person, database: Database) -> None:
    script = {"Accept": "application/json"}

    def send(content: bytes) -> TestResponse:
        fields = {"file": FileStorage(io.BytesIO(content), "a.txt")}
        return ada.post("/jobs", fields, content_type="multipart/form-data", headers=script)

    taken = send(b"some text")
    assert taken.status_code == 201
    assert ada.get(taken.get_json()["location"]).status_code == 200
    refused = send(b"")
    assert refused.status_code == 422 and refused.get_json()["error"].startswith("The document is empty.")
    old = ada.client.post("/jobs", data={"text": "x", "csrf_token": "old"}, headers=script)
    assert old.status_code == 400 and old.get_json()["form_too_old"] is True
    assert count(database) == 1
