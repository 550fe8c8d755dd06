from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from tasks.database import Database
from tasks.ledger.models import Job
from tests.support import factories
from tests.web.conftest import Person, Program, assert_problem, rows
from webapp.models import UploadLink, UploadLinkUse
from webapp.upload_links import links

SITE = "https://www.example.org"


def make(program: Program, **fields: Any) -> dict[str, Any]:
    answer = program.ask("POST", "/upload-links", json=fields)
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == answer.json["url"]
    return answer.json


def test_a_link_is_made_with_careful_defaults(program: Program, database: Database) -> None:
    link = make(program)
    assert (link["state"], link["uses"], link["max_uses"], link["workflow"]) == ("open", 0, 1, "summary")
    assert (link["frame_origins"], link["return_url"], link["show_result"]) == ([], None, False)
    assert re.fullmatch(r"http://localhost/embed/[\w.-]{70,}", link["upload_url"])
    assert "iframe" not in link["html"], "no site was named, so no site may show it"
    [(seconds,)] = rows(database, select(func.extract("epoch", UploadLink.expires_at - UploadLink.created_at)))
    assert seconds == 3600
    assert program.ask("GET", link["url"].removeprefix("/api/v1")).json == link


def test_the_html_shows_the_form_and_a_link(program: Program) -> None:
    link = make(program, frame_origins=[SITE])
    first, second = link["html"].strip().splitlines()
    assert first.startswith(f'<iframe src="{link["upload_url"]}" title="Upload a document"')
    assert "allow-top-navigation " not in first, "the form may not send the page elsewhere by itself"
    assert link["upload_url"] in second


def test_the_address_is_the_one_that_people_open(make_app, program: Program) -> None:
    elsewhere = Program(make_app(app_base_url="https://waybill.example/"), program.token)
    assert make(elsewhere)["upload_url"].startswith("https://waybill.example/embed/")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"max_uses": 0}, "max_uses"),
        ({"max_uses": True}, "max_uses"),
        ({"max_uses": 1.5}, "max_uses"),
        ({"max_uses": None}, "max_uses"),
        ({"max_uses": 10**40}, "max_uses"),
        ({"expires_in": 59}, "expires_in"),
        ({"expires_in": "3600"}, "expires_in"),
        ({"frame_origins": SITE}, "frame_origins"),
        ({"frame_origins": [f"{SITE}/"]}, "frame_origins"),
        ({"frame_origins": [f"{SITE}; script-src *"]}, "frame_origins"),
        ({"frame_origins": [f"{SITE}\n"]}, "frame_origins"),
        ({"frame_origins": ["https://*.example.org"]}, "frame_origins"),
        ({"frame_origins": ["*"]}, "frame_origins"),
        ({"frame_origins": ["http://example.org"]}, "frame_origins"),
        ({"frame_origins": [SITE] * 11}, "frame_origins"),
        ({"return_url": "javascript:alert(1)"}, "return_url"),
        ({"return_url": "//example.org"}, "return_url"),
        ({"return_url": f'{SITE}/"><script>'}, "return_url"),
        ({"return_url": "https://user:secret@example.org/"}, "return_url"),
        ({"return_url": f"{SITE}/" + "x" * 2000}, "return_url"),
        ({"show_result": "yes"}, "show_result"),
        ({"options": {"length": "huge"}}, "length"),
        ({"workflow": "nothing"}, "workflow"),
        ({"workflow": None}, "workflow"),
        ({"max_use": 5}, "max_use"),
    ],
    ids=range(25),
)
def test_a_wrong_wish_is_refused_and_named(
    program: Program, database: Database, fields: dict[str, Any], field: str
) -> None:
    assert assert_problem(program.ask("POST", "/upload-links", json=fields), 422)["field"] == field
    assert not rows(database, select(UploadLink.id))


def test_links_are_listed_newest_first_by_pages(program: Program, stranger: Program) -> None:
    made = [make(program)["id"] for _ in range(5)]
    seen: list[str] = []
    address: str | None = "/upload-links?limit=2"
    while address:
        answer = program.ask("GET", address.removeprefix("/api/v1"))
        seen += [link["id"] for link in answer.json["upload_links"]]
        address = answer.json["next"]
        assert (f'<{address}>; rel="next"' if address else None) == answer.headers.get("Link")
    assert seen == made[::-1]
    assert stranger.ask("GET", "/upload-links").json == {"upload_links": [], "next": None}


def test_a_strangers_link_is_like_a_missing_one(program: Program, stranger: Program) -> None:
    link = make(program)
    for method, tail in (("GET", ""), ("POST", "/revoke"), ("GET", "/jobs")):
        bodies = {stranger.ask(method, f"/upload-links/{one}{tail}").data for one in (link["id"], uuid.uuid4(), "x")}
        assert len(bodies) == 1
        assert_problem(stranger.ask(method, f"/upload-links/{link['id']}{tail}"), 404)
    assert program.ask("GET", f"/upload-links/{link['id']}").json["state"] == "open"


def test_a_link_can_be_revoked(program: Program) -> None:
    path = f"/upload-links/{make(program)['id']}"
    for _ in range(2):
        assert program.ask("POST", f"{path}/revoke").json["state"] == "revoked"
        assert program.ask("GET", path).json["state"] == "revoked"


def test_open_links_are_bounded_and_old_ones_are_forgotten(
    program: Program, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MAX_LINKS", 2)
    old, _ = make(program), make(program)
    assert_problem(program.ask("POST", "/upload-links", json={}), 409)
    ago = func.make_interval(0, 0, 0, 31)
    with database.transaction() as session:
        session.execute(
            update(UploadLink).where(UploadLink.id == uuid.UUID(old["id"])).values(expires_at=func.now() - ago)
        )
    make(program)
    assert_problem(program.ask("GET", f"/upload-links/{old['id']}"), 404)


def test_an_account_takes_its_links_with_it(program: Program, database: Database, account_id: uuid.UUID) -> None:
    make(program)
    with database.transaction() as session:
        session.execute(text("DELETE FROM accounts WHERE id = :id"), {"id": account_id})
    assert not rows(database, select(UploadLink.id))


def test_a_use_is_taken_with_the_job_or_not_at_all(program: Program, database: Database, account_id: uuid.UUID) -> None:
    """Send ten at once for three uses: three jobs and three uses are recorded, and nothing of the seven others."""
    link_id = uuid.UUID(make(program, max_uses=3)["id"])

    def use(number: int) -> None:
        with database.transaction() as session:
            job_id = factories.submit(session, account_id, b"text %d" % number).job_id
            links.take_use(session, link_id, job_id)

    ended = factories.all_at_once([lambda number=number: use(number) for number in range(10)])
    assert sum(one is None for one in ended) == 3
    assert sum(isinstance(one, links.LinkClosed) for one in ended) == 7
    assert rows(database, select(UploadLink.uses)) == [(3,)]
    assert len(rows(database, select(Job.id))) == len(rows(database, select(UploadLinkUse.job_id))) == 3


def test_the_database_refuses_more_uses_than_allowed(program: Program, database: Database) -> None:
    make(program)
    with pytest.raises(Exception, match="no_more_uses_than_allowed"), database.transaction() as session:
        session.execute(update(UploadLink).values(uses=2))


def test_a_page_of_the_site_offers_no_way_to_them(ada: Person, program: Program) -> None:
    """Check that a session alone creates no link: the API accepts tokens only."""
    assert_problem(ada.client.post("/api/v1/upload-links", json={}), 401)
