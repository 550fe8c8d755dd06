"""The owner's page of upload links: a link made there works, and only its owner sees and revokes it."""

from __future__ import annotations

import html
import re
import uuid
from typing import Any

import pytest
from sqlalchemy import func, select, text

from tasks.database import Database
from tests.support.browser.html import words
from tests.web.conftest import Browser, Person, Program, rows
from webapp.models import UploadLink
from webapp.upload_links import links

PAGE = "/account/upload-links"
SITE = "https://www.example.org"
FIELDS: dict[str, Any] = {
    "name": "Contact <b>page</b>",
    "workflow": "summary",
    "summary-length": "short",
    "life": "week",
    "max_uses": "3",
    "frame_origins": f"{SITE}/contact?a=b\nWWW.Example.org https://blog.example.org:8443",
    "return_url": f"{SITE}/thanks",
    "show_result": "yes",
}


def test_a_link_is_made_shown_once_and_listed_and_its_form_takes_documents(
    ada: Person, browser: Browser, program: Program, database: Database
) -> None:
    assert f'href="{PAGE}"' in ada.get("/account").text
    assert "No links yet." in ada.get(PAGE).text
    made = ada.post(PAGE, FIELDS)
    assert made.status_code == 201
    [snippet] = re.findall(r'<pre class="code" data-copy-text>(.*?)</pre>', made.text, re.DOTALL)
    [link] = program.ask("GET", "/upload-links").json["upload_links"]
    assert html.unescape(snippet) == link["html"].strip() and len(snippet.splitlines()) == 2
    assert (link["name"], link["max_uses"], link["show_result"]) == (FIELDS["name"], 3, True)
    assert link["frame_origins"] == [SITE, "https://blog.example.org:8443"] and link["return_url"] == f"{SITE}/thanks"
    assert link["options"]["length"] == "short"
    [(seconds,)] = rows(database, select(func.extract("epoch", UploadLink.expires_at - UploadLink.created_at)))
    assert seconds == 7 * 24 * 3600

    path = link["upload_url"].removeprefix("http://localhost")
    form = browser.get(path)
    assert f"frame-ancestors {SITE} https://blog.example.org:8443" in form.headers["Content-Security-Policy"]
    assert "Contact" not in form.text, "the name is its owner's alone"
    form_token = re.findall(r'name="form_token" value="([^"]+)"', form.text)[0]
    assert browser.client.post(path, data={"form_token": form_token, "text": "The pier."}).status_code == 303

    page = ada.get(PAGE).text
    assert "/embed/" not in page, "it was shown once"
    assert "Contact &lt;b&gt;page" in page and "<b>page" not in page
    assert "Open. 1 of 3 documents submitted. Summary." in words(page)
    assert f"Shown on {SITE}, https://blog.example.org:8443." in words(page)


def test_a_link_for_no_site_has_one_line_and_works_on_its_own_page(ada: Person) -> None:
    made = ada.post(PAGE, {**FIELDS, "frame_origins": " \n", "return_url": ""})
    [snippet] = re.findall(r'<pre class="code" data-copy-text>(.*?)</pre>', made.text, re.DOTALL)
    assert "iframe" not in snippet and "/embed/" in snippet
    assert "On its own page only." in words(ada.get(PAGE).text)


@pytest.mark.parametrize(
    ("field", "typed", "message"),
    [
        ("name", "  ", "Give the link a name"),
        ("life", "century", "Choose how long"),
        ("max_uses", "0", "a number from 1 to 10,000"),
        ("max_uses", "10001", "a number from 1 to 10,000"),
        ("max_uses", "²", "a number from 1 to 10,000"),
        ("frame_origins", "http://www.example.org", "is not an address like"),
        ("frame_origins", "https://*.example.org", "is not an address like"),
        ("frame_origins", "https://user:pass@example.org", "is not an address like"),
        ("frame_origins", "https://[", "is not an address like"),
        ("frame_origins", '"><script>alert(1)</script>', "is not an address like"),
        ("frame_origins", " ".join(f"s{n}.example.org" for n in range(11)), "up to 10 sites"),
        ("return_url", "javascript:alert(1)", "starts with https://"),
        ("workflow", "nothing", "This workflow does not exist."),
        ("summary-length", "huge", ""),
    ],
)
def test_what_will_not_do_is_said_beside_its_field_and_nothing_typed_is_lost(
    ada: Person, database: Database, field: str, typed: str, message: str
) -> None:
    answer = ada.post(PAGE, {**FIELDS, field: typed})
    assert answer.status_code == 422
    [error] = re.findall(rf'<p class="error" id="{field}-error">(.*?)</p>', answer.text)
    assert message in html.unescape(error)
    assert "<script>alert" not in answer.text
    if field != "name":
        assert 'value="Contact &lt;b&gt;page&lt;/b&gt;"' in answer.text
    assert not rows(database, select(UploadLink.id))


def test_only_the_owner_revokes_and_sees(ada: Person, bob: Person, browser: Browser, database: Database) -> None:
    ada.post(PAGE, FIELDS)
    [(link_id,)] = rows(database, select(UploadLink.id))
    address = f"{PAGE}/{link_id}/revoke"
    assert "Contact" not in bob.get(PAGE).text
    assert bob.post(address).status_code == 404
    assert ada.post(f"{PAGE}/{uuid.uuid4()}/revoke").status_code == 404
    assert ada.client.post(address).status_code == 400, "the CSRF token is missing"
    assert ada.get(address).status_code == 405
    assert browser.get(PAGE).status_code == 302
    assert rows(database, select(UploadLink.revoked_at)) == [(None,)]
    assert ada.post(address).location == PAGE
    page = words(ada.get(PAGE).text)
    assert "has been revoked" in page and "Revoked. 0 of 3" in page
    assert address not in ada.get(PAGE).text


def test_many_links_come_by_pages_and_too_many_are_refused(
    ada: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MAX_LINKS", 21)
    for n in range(21):
        assert ada.post(PAGE, {**FIELDS, "name": f"Link {n:02}"}).status_code == 201
    full = ada.post(PAGE, FIELDS)
    assert full.status_code == 409 and "already have" in full.text
    first = ada.get(PAGE).text
    assert "Link 20" in first and "Link 00" not in first
    [older] = re.findall(r'rel="next" href="([^"]+)"', first)
    assert "Link 00" in ada.get(older).text
    with database.transaction() as session:
        session.execute(text("UPDATE upload_links SET expires_at = now()"))
    assert "Expired. 0 of 3" in words(ada.get(PAGE).text)
