"""Any input to the forms and the API is accepted, or refused with a message, and never causes an error of the server.

The app under test raises the exceptions that would become a 500.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from tasks.database import Database
from tests.support.documents.office import FILES
from tests.web.conftest import Person
from webapp.auth import api_tokens

GOOD = [path.read_bytes()[:20_000] for path in sorted(FILES.glob("*")) if path.stat().st_size < 100_000]
ACCEPTED_OR_REFUSED = (200, 202, 303, 400, 409, 413, 415, 422)
BOUNDED = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.generate],
    derandomize=True,
)

mixtures = st.tuples(
    st.sampled_from(GOOD), st.sampled_from(GOOD), st.floats(0, 1), st.floats(0, 1), st.binary(max_size=30)
).map(lambda drawn: drawn[0][: int(len(drawn[0]) * drawn[2])] + drawn[4] + drawn[1][int(len(drawn[1]) * drawn[3]) :])
contents = st.one_of(st.binary(max_size=400), st.sampled_from(GOOD), mixtures)
in_header = st.binary(max_size=60).map(lambda raw: raw.translate(None, b'\r\n"'))
names = st.one_of(
    in_header, st.sampled_from(["../x.pdf", "фото.docx", "a\0b.html", "💥" * 99, "con", "."]).map(str.encode)
)
texts = st.text(st.characters(exclude_categories=()), max_size=120)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def part(name: bytes, content: bytes, filename: bytes | None = None) -> bytes:
    parameter = b"" if filename is None else b'; filename="' + filename + b'"'
    return b'--b\r\nContent-Disposition: form-data; name="' + name + b'"' + parameter + b"\r\n\r\n" + content + b"\r\n"


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def check(answer: TestResponse) -> None:
    assert answer.status_code in ACCEPTED_OR_REFUSED, answer.status_code
    answer.data.decode("utf-8")


def send(person: Person, *parts: bytes) -> TestResponse:
    body = b"".join((part(b"csrf_token", person.token("/account").encode()), *parts, b"--b--\r\n"))
    return person.client.post("/jobs", data=body, content_type="multipart/form-data; boundary=b")


@pytest.mark.thorough
@BOUNDED
@given(content=contents, filename=names, title=texts)
def test_files_of_any_content_and_name(ada: Person, content: bytes, filename: bytes, title: str) -> None:
    answer = send(ada, part(b"file", content, filename), part(b"title", as_bytes(title)))
    check(answer)
    if answer.status_code == 303:
        assert ada.get(answer.location).status_code == 200
        assert ada.get(answer.location.partition("?")[0] + "/original").data == content
    check(ada.get("/"))


@pytest.mark.thorough
@BOUNDED
@given(text=texts, title=texts, options=st.dictionaries(st.sampled_from(["workflow", "summary-length", "summary-form",
       "idempotency_key", "x"]), texts, max_size=3), boundary=st.binary(max_size=40))  # fmt: skip
def test_forms_of_any_text_and_shape(
    ada: Person, text: str, title: str, options: dict[str, str], boundary: bytes
) -> None:
    fields = {"text": text, "title": title, **options}
    check(send(ada, *(part(name.encode(), as_bytes(value)) for name, value in fields.items())))
    torn = part(b"text", as_bytes(text))[: len(boundary) * 3] + boundary
    check(ada.client.post("/jobs", data=torn, content_type="multipart/form-data; boundary=b"))


@pytest.fixture
def headers(database: Database, account_id: uuid.UUID) -> dict[str, str]:
    with database.transaction() as session:
        return {"Authorization": f"Bearer {api_tokens.make_token(session, account_id, 'test')}"}


bodies = st.fixed_dictionaries({"text": values}, optional={"title": values, "workflow": values, "options": values})
keys = st.binary(max_size=20).map(lambda raw: raw.translate(None, b"\r\n\0").decode("latin-1"))


@BOUNDED
@given(body=st.one_of(st.binary(max_size=200), bodies.map(json.dumps).map(as_bytes)), key=st.none() | keys)
def test_json_of_any_shape(app: Flask, headers: dict[str, str], body: bytes, key: str | None) -> None:
    sent: dict[str, Any] = headers if key is None else {**headers, "Idempotency-Key": key}
    check(app.test_client().post("/api/v1/jobs", data=body, content_type="application/json", headers=sent))


@BOUNDED
@given(content=contents, filename=names, options=st.one_of(texts, values.map(json.dumps)))
def test_files_by_program(app: Flask, headers: dict[str, str], content: bytes, filename: bytes, options: str) -> None:
    body = part(b"file", content, filename) + part(b"options", as_bytes(options)) + b"--b--\r\n"
    sent = app.test_client().post(
        "/api/v1/jobs", data=body, content_type="multipart/form-data; boundary=b", headers=headers
    )
    check(sent)
