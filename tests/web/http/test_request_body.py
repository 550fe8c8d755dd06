"""Tests requests that are too large, which used to be a bare 413 or "connection reset", with the typed text lost.

The form comes back with the limit and with the text, whatever was too large about it and however it was sent; and no
response is sent while the sender is still busy. Over a real socket:
`tests/processes/web_server/test_concurrent_requests.py`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, Request
from sqlalchemy import select
from werkzeug.datastructures import FileStorage

from tasks.database import Database
from tasks.ledger.models import Document, Job
from tests.web.conftest import Person, Program, assert_problem, rows
from tests.web.upload_links.test_public import Sender
from webapp.http import request_body

LIMIT = 2048
TYPED = {"title": "A title <b>", "text": "", "summary-length": "long"}


@pytest.fixture
def small(make_app: Callable[..., Flask]) -> Flask:
    """Create a site with a small limit."""
    return make_app(max_upload_bytes=LIMIT)


def file(size: int, name: str = "a.txt") -> FileStorage:
    return FileStorage(io.BytesIO(b"x" * size), name)


def part(name: str, content: bytes, filename: str | None = None) -> bytes:
    said = "" if filename is None else f'; filename="{filename}"'
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{said}\r\n\r\n'.encode() + content + b"\r\n"


def streamed(person: Any, path: str, body: bytes, **more: Any) -> tuple[Any, int]:
    """Return the response, and how much of the body was read; passed on as gunicorn does, even without a length."""
    stream = io.BytesIO(body)
    answer = person.client.post(path, input_stream=stream, environ_overrides={"wsgi.input_terminated": True}, **more)
    return answer, stream.tell()


@pytest.mark.parametrize("size", [LIMIT + 1, 10 * LIMIT, 3_000_000], ids=["one byte", "ten times", "far over"])
def test_a_file_over_the_limit_brings_the_form_back_with_what_was_typed(
    small: Flask, ada: Person, database: Database, size: int
) -> None:
    answer = Person(small, ada.id).post("/jobs", {"file": file(size), **TYPED}, content_type="multipart/form-data")
    assert answer.status_code == 413
    assert "The limit is 2 kB" in answer.text and 'id="file-error"' in answer.text
    assert 'value="A title &lt;b&gt;"' in answer.text and 'value="long" checked' in answer.text
    assert not rows(database, select(Job.id))


def many(make_app: Callable[..., Flask], ada: Person) -> Any:
    """Return three files that are accepted separately, but not together."""
    person = Person(make_app(max_upload_bytes=1_000_000), ada.id)
    fields = {"file": [file(900_000, f"{name}.txt") for name in "abc"], "title": "typed"}
    return person.post("/jobs", fields, content_type="multipart/form-data")


def test_files_that_are_too_much_together_are_none_of_them_taken(
    make_app: Callable[..., Flask], ada: Person, database: Database
) -> None:
    answer = many(make_app, ada)
    assert answer.status_code == 413
    assert "or for several together" in answer.text and 'value="typed"' in answer.text
    assert not rows(database, select(Job.id))


def test_without_the_refusal_a_file_would_be_taken_that_was_cut(
    make_app: Callable[..., Flask], ada: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that the test can fail: without the refusal, half a document would be accepted."""
    monkeypatch.setattr(request_body.FormRequest, "_load_form_data", Request._load_form_data)
    monkeypatch.setattr(request_body.FormRequest, "capacity", 2_000_000, raising=False)
    monkeypatch.setattr(request_body.FormRequest, "_streams", [], raising=False)
    many(make_app, ada)
    assert {size for (size,) in rows(database, select(Document.size_bytes))} == {900_000, 200_000}


@pytest.mark.parametrize(
    "more",
    [
        part("file", b"x" * 3_000_000, "a.txt"),
        part("text", b"x" * 3_000_000),
        b"".join(part(f"x{number}", b"1") for number in range(1100)),
    ],
    ids=["a file", "a text", "a thousand fields"],
)
@pytest.mark.parametrize("measured", [True, False], ids=["with its length", "in chunks"])
def test_a_form_of_any_shape_is_refused_in_words_and_read_to_its_end(
    small: Flask, ada: Person, database: Database, more: bytes, measured: bool
) -> None:
    person = Person(small, ada.id)
    body = part("csrf_token", person.token("/account").encode()) + more + b"--b--\r\n"
    length = {"content_length": len(body)} if measured else {}
    answer, taken = streamed(person, "/jobs", body, content_type="multipart/form-data; boundary=b", **length)
    assert answer.status_code == 413 and "The limit is 2 kB" in answer.text and "<form" in answer.text
    assert taken == len(body)
    assert not rows(database, select(Job.id))


@pytest.mark.parametrize("path", ["/login", "/account/tokens", "/jobs/mine", "/nothing"])
def test_no_other_form_breaks_by_its_size(small: Flask, ada: Person, path: str) -> None:
    body = b"csrf_token=x&email=" + b"x" * 3_000_000
    answer, taken = streamed(Person(small, ada.id), path, body, content_type="application/x-www-form-urlencoded")
    assert answer.status_code in (400, 404, 405, 413) and taken == len(body)


def test_the_script_of_the_page_is_told_too(small: Flask, ada: Person) -> None:
    person = Person(small, ada.id)
    answer = person.post(
        "/jobs", {"file": file(3_000_000)}, content_type="multipart/form-data", headers={"Accept": "application/json"}
    )
    assert answer.status_code == 413 and "The limit is 2 kB" in answer.get_json()["error"]


def test_the_form_of_an_upload_link_keeps_its_text(small: Flask, program: Program, database: Database) -> None:
    sender = Sender(small, program)
    answer = sender.send("typed & kept", file=file(3_000_000))
    assert answer.status_code == 413
    assert "The limit is 2 kB" in answer.text and "typed &amp; kept" in answer.text
    assert not rows(database, select(Job.id))


def test_a_program_is_told_the_limit(small: Flask, program: Program) -> None:
    asking = Program(small, program.token)
    problem = assert_problem(
        asking.ask("POST", "/jobs", data={"file": file(LIMIT + 1)}, content_type="multipart/form-data"), 413
    )
    assert "The limit is 2 kB" in problem["detail"]
    body = part("file", b"x" * 3_000_000, "a.txt") + b"--b--\r\n"
    assert_problem(asking.ask("POST", "/jobs", data=body, content_type="multipart/form-data; boundary=b"), 413)
    assert_problem(asking.submit("x" * 3_000_000), 413)


def test_who_is_refused_before_the_body_was_looked_at_is_answered_after_it(small: Flask, ada: Person) -> None:
    """Check refusals that do not need the body: a wrong token, an invalid link, a form with another method."""
    nobody = Program(small, "no token of ours")
    for path in ("/api/v1/jobs", "/embed/x", "/nothing", "/ops/nothing"):
        answer, taken = streamed(nobody, path, b"x" * 1_000_000, content_type="application/octet-stream")
        assert answer.status_code in (302, 400, 401, 404), path
        assert taken == 1_000_000, path


def test_no_more_is_kept_of_a_file_than_a_form_may_hold(small: Flask, ada: Person, monkeypatch: Any) -> None:
    written: list[int] = []
    real = request_body.SpooledTemporaryFile.write
    monkeypatch.setattr(
        request_body.SpooledTemporaryFile,
        "write",
        lambda file, piece: (written.append(len(piece)), real(file, piece))[1],
    )
    Person(small, ada.id).post("/jobs", {"file": file(20_000_000)}, content_type="multipart/form-data")
    assert 0 < sum(written) <= small.config["MAX_CONTENT_LENGTH"] < 3_000_000
