"""Tests that an operator finds an account among many, sees numbers but no document, and changes its limits."""

from __future__ import annotations

import html
import re
import uuid

import pytest
from flask import Flask
from sqlalchemy import select, text

from benchmarks.plans import explained, heard
from tasks.database import Database
from tasks.ledger.accounts import limits
from tasks.ledger.accounts.limits import Limit
from tasks.ledger.models.control import Decided, Decision
from tasks.ledger.replays import operator_actions
from tasks.ledger.terms import Limits
from tests.support import factories
from tests.support.browser.html import words
from tests.web.conftest import Person, WebHarness, rows
from webapp.extensions import db
from webapp.ops import accounts

LIST = "/ops/accounts"


def addresses_in(page: str) -> list[str]:
    return re.findall(rf'<a href="{LIST}/[0-9a-f-]{{36}}">([^<]+)</a>', page)


def test_accounts_come_by_pages_in_the_order_of_their_addresses_and_are_found_by_the_beginning(
    olga: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "PAGE", 3)
    known = ["a@example.org", "a_b@example.org", "anna@example.org", "b%@example.org", "é@example.org", "z-1@x.org"]
    with database.transaction() as session:
        for email in reversed(known):
            factories.make_account(session, email=email)
    seen: list[str] = []
    at: str | None = LIST
    while at:
        page = olga.get(at).text
        seen += addresses_in(page)
        found = re.search(r'rel="next" href="([^"]+)"', page)
        at = html.unescape(found[1]) if found else None
    assert seen == sorted([*known, "olga@example.org"], key=str.encode)
    for begins, expected in (
        ("AN", ["anna@example.org"]),
        ("a_", ["a_b@example.org"]),
        ("b%25", ["b%@example.org"]),
        ("é", ["é@example.org"]),
        ("example.org", []),
        ("%00", ["a@example.org", "a_b@example.org", "anna@example.org"]),
    ):
        page = olga.get(f"{LIST}?q={begins}").text
        assert addresses_in(page) == expected, begins
    assert "No account’s address begins so." in olga.get(f"{LIST}?q=%3Cscript%3Ealert(1)").text
    assert "<script>alert" not in olga.get(f"{LIST}?q=%3Cscript%3Ealert(1)").text
    assert "There are no more." in olga.get(f"{LIST}?after=ê").text


def test_the_list_and_the_account_show_numbers_and_no_document(
    olga: Person, ada: Person, bench: WebHarness, database: Database
) -> None:
    for _ in range(2):
        bench.job(title="A secret title")
    bench.succeeded(title="A secret title")
    with database.transaction() as session:
        limits.count_tokens(session, ada.id, 12_345)
        operator_actions.set_limits(
            session, factories.QUEUE, ada.id, {Limit.TOKENS_PER_MONTH: 20_000}, by="x", note="why"
        )
        email = session.execute(text("SELECT email FROM accounts WHERE id = :id"), {"id": ada.id}).scalar_one()
    listed = olga.get(f"{LIST}?q={email}").text
    assert re.search(r"2 12,345 of 20,000 its own", words(listed))
    shown = olga.get(f"{LIST}/{ada.id}").text
    assert "Documents in progress 2 no limit the site" in words(shown)
    assert "Tokens used this month 12,345 20,000 an operator" in words(shown)
    assert f'href="/ops/jobs?account={ada.id}"' in shown
    assert "secret" not in listed + shown and "pier" not in listed + shown


def test_limits_are_changed_for_a_reason_which_is_kept(olga: Person, ada: Person, database: Database) -> None:
    page = f"{LIST}/{ada.id}"
    form = {"jobs_per_day": "5", "jobs_at_once": "0", "tokens_per_month": "", "note": "a <b>trial</b> account"}
    answer = olga.post(f"{page}/limits", form)
    assert (answer.status_code, answer.location) == (303, page)
    shown = olga.get(page).text
    assert "The limits have been changed." in shown and "a &lt;b&gt;trial" in shown
    assert 'name="jobs_per_day" type="text" inputmode="numeric" autocomplete="off" value="5"' in shown
    [(what, by, note, facts)] = rows(database, select(Decision.what, Decision.by, Decision.note, Decision.facts))
    assert (what, by, note) == (Decided.SET_LIMITS, "olga@example.org", form["note"])
    assert facts == {"account": str(ada.id), "jobs_per_day": "site → 5", "jobs_at_once": "site → no limit"}
    with database.transaction() as session:
        assert limits.own_limits(session, ada.id) == Limits(5, 0, None)
    everything = olga.get("/ops/decisions").text
    assert f'href="{page}"' in everything and "changed the limits of an account" in everything
    olga.post(f"{page}/limits", form)
    assert "Nothing was changed." in olga.get(page).text
    assert len(rows(database, select(Decision.id))) == 1


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"note": "  "}, "note"),
        ({"jobs_per_day": "-1"}, "jobs_per_day"),
        ({"jobs_per_day": str(2**31)}, "jobs_per_day"),
        ({"jobs_at_once": "many"}, "jobs_at_once"),
        ({"tokens_per_month": "9" * 19}, "tokens_per_month"),
        ({"tokens_per_month": "1,000"}, "tokens_per_month"),
    ],
)
def test_what_will_not_do_is_said_beside_its_field_and_changes_nothing(
    olga: Person, ada: Person, database: Database, changed: dict[str, str], field: str
) -> None:
    form = {"jobs_per_day": "7", "jobs_at_once": "", "tokens_per_month": "", "note": "because", **changed}
    answer = olga.post(f"{LIST}/{ada.id}/limits", form)
    assert answer.status_code == 422 and f'id="{field}-error"' in answer.text
    assert field == "jobs_per_day" or 'value="7"' in answer.text
    with database.transaction() as session:
        assert limits.own_limits(session, ada.id) == Limits()
        assert factories.count(session, "decisions") == 0


def test_an_account_that_is_not_there_is_a_404(olga: Person, ada: Person) -> None:
    nowhere = f"{LIST}/{uuid.uuid4()}"
    assert olga.get(nowhere).status_code == 404
    assert olga.post(f"{nowhere}/limits", {"note": "x"}).status_code == 404
    assert ada.get(f"{LIST}/{ada.id}").status_code == 404, "also one's own, for who is no operator"


def test_two_who_change_the_same_limit_are_each_told_what_was_there_before(database: Database, ada: Person) -> None:
    def change(most: int) -> None:
        with database.transaction() as session:
            operator_actions.set_limits(session, factories.QUEUE, ada.id, {Limit.JOBS_PER_DAY: most}, by="x", note="y")

    works = [lambda most=most: change(most) for most in range(1, 6)]
    assert factories.all_at_once(works) == [None] * 5
    changes = [facts["jobs_per_day"].split(" → ") for (facts,) in rows(database, select(Decision.facts).order_by("id"))]
    assert [before for before, _ in changes] == ["site", *(after for _, after in changes[:-1])]


def test_a_page_of_very_many_accounts_looks_at_few_of_them(
    app: Flask, olga: Person, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "PAGE", 5)
    with app.app_context():
        engine = db.engine
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO accounts (id, email, password_hash, role) SELECT gen_random_uuid(), "
                "'person-' || lpad(n::text, 5, '0') || '@example.org', '-', 'user' FROM generate_series(1, 4000) n"
            )
        )
        connection.execute(text("ANALYZE accounts"))
    with heard(engine) as sent:
        for query in ("", "?q=person-02", "?q=person-&after=person-03990@example.org", "?q=nobody"):
            assert olga.get(LIST + query).status_code == 200
    listing = [statement for statement in sent if "~>~" in statement.text]
    assert len(listing) == 4
    with engine.connect() as connection:
        plans = [explained(connection, statement, ["accounts"]) for statement in listing]
        assert [plan.lines for plan in plans if plan.scanned or plan.rows > 20] == []
        connection.execute(text("DROP INDEX accounts_by_address"))  # the negative control
        assert all(explained(connection, statement, ["accounts"]).rows > 20 for statement in listing)
        connection.rollback()
