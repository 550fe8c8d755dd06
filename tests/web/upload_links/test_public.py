from __future__ import annotations

import io
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import func, select, update
from werkzeug.datastructures import FileStorage, MultiDict
from werkzeug.test import TestResponse, encode_multipart

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.jobs import transitions
from tasks.ledger.models import Job
from tests.web.conftest import Person, Program, WebHarness, poll_address, rows
from webapp.models import UploadLink
from webapp.upload_links import signed_urls

SITE = "https://www.example.org"
TEXT = "The north pier is closed."


class Sender:
    """Represents a person without an account who has a link.

    No cookies are sent, because browsers withhold them in frames of other sites.
    """

    def __init__(self, app: Flask, program: Program, **terms: Any) -> None:
        made = program.ask("POST", "/upload-links", json=terms).json
        self.link_id = uuid.UUID(made["id"])
        self.path = made["upload_url"].removeprefix("http://localhost")
        self.client = app.test_client(use_cookies=False)

    def form(self) -> TestResponse:
        return self.client.get(self.path)

    def send(self, text: str = TEXT, *, proof: str | None = None, **fields: Any) -> TestResponse:
        proof = proof_in(self.form()) if proof is None else proof
        # Encoded here, because the test client leaves a temporary file open when a form is large.
        boundary, body = encode_multipart(MultiDict({"form_token": proof, "text": text, **fields}))
        return self.client.post(self.path, data=body, content_type=f"multipart/form-data; boundary={boundary}")

    def see(self, sent: TestResponse) -> TestResponse:
        assert sent.status_code == 303, sent.text
        return self.client.get(sent.location)


Opens = Callable[..., Sender]


@pytest.fixture
def opens(app: Flask, program: Program) -> Opens:
    return lambda **terms: Sender(app, program, **terms)


def proof_in(page: TestResponse) -> str:
    found = re.search(r'name="form_token" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


def ancestors(answer: TestResponse) -> str:
    return answer.headers["Content-Security-Policy"].rpartition("frame-ancestors ")[2]


def test_a_text_is_handed_in_for_the_owner(
    opens: Opens, program: Program, database: Database, account_id: uuid.UUID
) -> None:
    sender = opens(options={"length": "short"})
    page = sender.see(sender.send())
    assert page.status_code == 200 and "Accepted. Waiting for its turn." in page.text
    [(owner, options, title)] = rows(database, select(Job.account_id, Job.options, Job.title))
    assert (owner, options["length"], title) == (account_id, "short", TEXT)
    listed = program.ask("GET", f"/upload-links/{sender.link_id}/jobs").json["jobs"]
    assert [job["id"] for job in listed] == [job["id"] for job in program.ask("GET", "/jobs").json["jobs"]]
    assert program.ask("GET", f"/upload-links/{sender.link_id}").json["state"] == "used_up"


def test_a_file_is_handed_in(opens: Opens, database: Database) -> None:
    sender = opens()
    assert "minutes.md" in sender.see(sender.send("", file=FileStorage(io.BytesIO(b"# Minutes"), "minutes.md"))).text
    assert rows(database, select(Job.title)) == [("minutes.md",)]


@pytest.mark.parametrize(
    ("fields", "message", "status"),
    [
        ({"text": ""}, "Choose a file or paste some text", 422),
        ({"text": "x" * 200_001}, "The limit is 200,000", 422),
        ({"text": "", "file": (b"\x89PNG\r\n\x1a\n0000", "a.png")}, "This is a picture", 422),
        ({"text": "<b>kept</b>", "proof": ""}, "The form was open for too long", 400),
        ({"text": "<b>kept</b>", "proof": "x.y.z"}, "The form was open for too long", 400),
    ],
    ids=range(5),
)
def test_what_is_wrong_is_said_beside_the_field_and_costs_no_use(
    opens: Opens, database: Database, fields: dict[str, Any], message: str, status: int
) -> None:
    sender = opens(frame_origins=[SITE])
    if "file" in fields:
        content, name = fields["file"]
        fields = {**fields, "file": FileStorage(io.BytesIO(content), name)}
    answer = sender.send(**fields)
    assert answer.status_code == status and message in answer.text
    assert ancestors(answer) == SITE
    if "kept" in fields["text"]:
        assert "&lt;b&gt;kept" in answer.text
    assert rows(database, select(UploadLink.uses)) == [(0,)] and not rows(database, select(Job.id))


def test_too_large_is_said_in_the_frame(program: Program, make_app) -> None:
    sender = Sender(make_app(max_upload_bytes=2048), program, frame_origins=[SITE])
    for size in (2049, 2_000_000):
        answer = sender.send("", file=FileStorage(io.BytesIO(b"x" * size), "a.txt"))
        assert (answer.status_code, ancestors(answer)) == (413, SITE)
        assert "The limit is 2 kB" in answer.text


def test_the_same_form_twice_is_one_job_and_one_use(opens: Opens, database: Database) -> None:
    sender = opens(max_uses=5)
    proof = proof_in(sender.form())
    first, second = sender.send(proof=proof), sender.send(proof=proof)
    assert first.location == second.location
    assert rows(database, select(UploadLink.uses)) == [(1,)]


def test_nobody_learns_that_others_handed_in_the_same(opens: Opens, ada: Person, database: Database) -> None:
    """Check that the owner and two senders of the same document get three jobs, each with its own page and title."""
    ada.paste(TEXT, title="The owner's secret name for it")
    sender = opens(max_uses=5)
    pages = [
        sender.see(sender.send("", file=FileStorage(io.BytesIO(TEXT.encode()), name))) for name in ("a.txt", "b.txt")
    ]
    assert "a.txt" in pages[0].text and "b.txt" not in pages[0].text
    assert "b.txt" in pages[1].text and "a.txt" not in pages[1].text
    assert "secret" not in pages[0].text + pages[1].text
    assert len(rows(database, select(Job.id))) == 3


def test_a_form_of_another_link_is_no_proof(opens: Opens, database: Database) -> None:
    mine, other = opens(), opens()
    assert mine.send(proof=proof_in(other.form())).status_code == 400
    assert not rows(database, select(Job.id))


def test_a_form_of_yesterday_is_no_proof(opens: Opens, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = opens()
    proof = proof_in(sender.form())
    monkeypatch.setattr(signed_urls, "FORM_SECONDS", -1)
    assert sender.send(proof=proof).status_code == 400
    monkeypatch.undo()
    assert sender.send(proof=proof).status_code == 303


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"expires_at": func.now()}, "This form has expired"),
        ({"revoked_at": func.now()}, "This form was closed"),
        ({"uses": 1}, "No more documents can be submitted here"),
    ],
    ids=["expired", "revoked", "used up"],
)
def test_a_closed_link_takes_nothing_and_says_why(
    opens: Opens, database: Database, values: dict[str, Any], message: str
) -> None:
    sender = opens(frame_origins=[SITE])
    proof = proof_in(sender.form())
    with database.transaction() as session:
        session.execute(update(UploadLink).values(**values))
    for answer in (sender.form(), sender.send(proof=proof)):
        assert (answer.status_code, ancestors(answer)) == (410, SITE)
        assert message in answer.text
    assert not rows(database, select(Job.id))


@pytest.mark.parametrize("change", [lambda path: path[:-1], lambda path: path + "x", lambda path: "/embed/" + "é" * 9])
def test_an_address_that_was_not_made_here_is_404(opens: Opens, change: Callable[[str], str]) -> None:
    sender = opens(frame_origins=[SITE])
    answer = sender.client.get(change(sender.path))
    assert (answer.status_code, ancestors(answer)) == (404, "'none'")
    assert sender.client.post(change(sender.path), data={"text": "x"}).status_code == 404
    assert sender.form().status_code == 200


def test_a_link_signed_with_another_secret_is_404(opens: Opens, app: Flask) -> None:
    sender = opens()
    app.secret_key = "another secret of the same site"
    assert sender.form().status_code == 404


def test_only_these_pages_may_be_framed_and_only_by_the_sites_of_the_link(opens: Opens, ada: Person) -> None:
    sender = opens(frame_origins=[SITE, "http://localhost:8080"])
    sent = sender.send()
    for answer in (sender.form(), sent, sender.see(sent)):
        assert ancestors(answer) == f"{SITE} http://localhost:8080"
        assert "default-src 'none'; script-src 'self'" in answer.headers["Content-Security-Policy"]
    for path in ("/", "/login", "/account", "/api/docs", "/embed/x", "/handed-in/x"):
        assert ancestors(ada.get(path)) == "'none'"
    unframed = opens()
    assert ancestors(unframed.form()) == "'none'"


def test_no_cookie_is_set_and_who_is_signed_in_is_nobody_here(opens: Opens, ada: Person) -> None:
    sender = opens(max_uses=5)
    alone, signed_in = sender.form(), ada.get(sender.path)
    sent = ada.client.post(sender.path, data={"form_token": proof_in(signed_in), "text": TEXT})
    seen = ada.get(sent.location)
    for answer in (alone, signed_in, sent, seen):
        assert "Set-Cookie" not in answer.headers
        assert "My documents" not in answer.text and "Sign out" not in answer.text
    blank = [re.sub(r'name="form_token" value="[^"]+"', "", page.text) for page in (alone, signed_in)]
    assert blank[0] == blank[1]


def test_a_receipt_shows_one_document_and_opens_nothing_else(opens: Opens, program: Program) -> None:
    sender = opens(max_uses=5)
    first, second = sender.send("One thing."), sender.send("Another thing.")
    assert "Another" not in sender.see(first).text and "One thing" not in sender.see(second).text
    bare = first.location.partition("?")[0]
    assert sender.path not in sender.client.get(bare).text, "who is shown a receipt may not hand in"
    for wrong in (bare[:-1], bare + "x", f"/handed-in/{uuid.uuid4().hex}", sender.path.replace("embed", "handed-in")):
        assert sender.client.get(wrong).status_code == 404
        assert sender.client.get(f"{wrong}/status").status_code == 404


def finish(database: Database, bench: WebHarness, summary: str = "The **pier**.") -> None:
    [(job_id,)] = rows(database, select(Job.id))
    with database.transaction() as session:
        transitions.succeed(session, bench.claim(job_id), text=summary, facts={"provider": "local"})


def test_the_result_is_shown_only_where_the_owner_says_so(
    opens: Opens, database: Database, bench: WebHarness, program: Program
) -> None:
    sender = opens(show_result=False)
    sent = sender.send()
    download = f"{sent.location.partition('?')[0]}/result.md"
    finish(database, bench)
    page = sender.see(sent)
    assert "The person who gave you this form has the result." in page.text and "pier</strong>" not in page.text
    assert sender.client.get(download).status_code == 404
    with database.transaction() as session:
        session.execute(update(UploadLink).values(show_result=True))
    assert "<strong>pier</strong>" in sender.see(sent).text
    assert sender.client.get(download).data == b"The **pier**."


def test_the_page_polls_until_there_is_nothing_new(opens: Opens, database: Database, bench: WebHarness) -> None:
    sender = opens(show_result=True, max_uses=2)
    sent = sender.send()
    address = poll_address(sender.see(sent).text)
    assert sender.client.get(address).status_code == 204
    finish(database, bench)
    fragment = sender.client.get(address).text
    assert 'data-state="succeeded"' in fragment and "hx-get" not in fragment
    assert "Submit another document" in fragment and sender.path in fragment


def test_words_of_a_failure_are_for_the_sender(opens: Opens, database: Database, bench: WebHarness) -> None:
    sender = opens(max_uses=2)
    sent = sender.send()
    [(job_id,)] = rows(database, select(Job.id))
    with database.transaction() as session:
        transitions.fail(session, bench.claim(job_id), category=Category.QUOTA, code=None)
    page = sender.see(sent).text
    assert "Contact the person who gave you this form and quote the reference above." in page
    assert "operator" not in page and "budget" not in page


def test_what_was_deleted_or_revoked_is_gone(opens: Opens, database: Database, program: Program) -> None:
    deleted, revoked = opens(frame_origins=[SITE]), opens(frame_origins=[SITE])
    first, second = deleted.send("One thing."), revoked.send("Another thing.")
    address = poll_address(deleted.see(first).text)
    [job] = program.ask("GET", f"/upload-links/{deleted.link_id}/jobs").json["jobs"]
    program.ask("DELETE", f"/jobs/{job['id']}")
    program.ask("POST", f"/upload-links/{revoked.link_id}/revoke")
    for sender, sent in ((deleted, first), (revoked, second)):
        page = sender.see(sent)
        assert (page.status_code, ancestors(page)) == (410, SITE)
        assert "There is nothing here any more" in page.text
    assert deleted.client.get(address).headers["HX-Redirect"] == first.location.partition("?")[0]


def test_the_way_back_is_a_link_that_names_the_site(opens: Opens) -> None:
    page = opens(return_url=f"{SITE}/thanks?a=1&b=2").form().text
    assert f'href="{SITE}/thanks?a=1&amp;b=2" target="_top" rel="noopener noreferrer">Back to www.example.org' in page


def test_one_address_cannot_send_without_end(opens: Opens, database: Database) -> None:
    sender = opens(max_uses=100, frame_origins=[SITE])
    for _ in range(30):
        assert sender.send("", proof="").status_code == 400
    answer = sender.send()
    assert (answer.status_code, ancestors(answer)) == (429, SITE)
    assert int(answer.headers["Retry-After"]) <= 601
    assert "Too many requests." in answer.text and not rows(database, select(Job.id))


def test_titles_and_results_act_on_nothing(opens: Opens, database: Database, bench: WebHarness) -> None:
    sender = opens(show_result=True)
    sent = sender.send("", file=FileStorage(io.BytesIO(b"text"), '"><img src=x onerror=alert(1)>.txt'))
    finish(database, bench, "<script>alert(1)</script> ![x](https://evil.example/p.png) [y](javascript:alert(1))")
    page = sender.see(sent).text
    assert "<script>alert" not in page and "<img" not in page and 'href="javascript' not in page
