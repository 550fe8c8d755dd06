"""The list of an account's documents: its pages, its filters, and when it is polled."""

from __future__ import annotations

import pytest
from sqlalchemy import func, update

from tasks.database import Database
from tasks.ledger.errors import Category
from tasks.ledger.models import Job
from tests.web.conftest import Person, WebHarness


def test_the_list_goes_on_by_cursor_and_shows_each_job_once(ada: Person, bench: WebHarness) -> None:
    made = {str(bench.job(title=f"Job {number}")) for number in range(45)}
    seen: list[str] = []
    address = "/"
    while address:
        page = ada.get(address).text
        links = page.split(' href="/jobs/')[1:]
        seen += [link[:36] for link in links]
        assert len(links) <= 20
        address = page.partition('class="button" href="/?before=')[2].partition("#")[0]
        address = f"/?before={address}" if address else ""
    assert len(seen) == 45 and set(seen) == made


def test_the_list_is_narrowed_by_state_and_by_words_of_the_title(ada: Person, bob: Person, bench: WebHarness) -> None:
    bench.job(title="Harbour report 100%")
    bench.succeeded(title="Minutes of the harbour_board")
    bench.failed(Category.INTERNAL, title="Scan")

    def titles(query: str) -> set[str]:
        page = ada.get(f"/?{query}").text
        return {
            title
            for title in ("Harbour report 100%", "Minutes of the harbour_board", "Scan")
            if f">{title}</a>" in page
        }

    assert len(titles("")) == 3
    assert titles("show=working") == {"Harbour report 100%"}
    assert titles("show=saved") == {"Minutes of the harbour_board"}
    assert titles("show=stopped") == {"Scan"}
    assert titles("q=HARBOUR") == {"Harbour report 100%", "Minutes of the harbour_board"}
    assert titles("q=100%25") == {"Harbour report 100%"}, "a per cent sign is itself"
    assert titles("q=_") == {"Minutes of the harbour_board"}
    assert titles("show=saved&q=scan") == set() and "No documents match." in ada.get("/?show=saved&q=scan").text
    assert titles("show=nonsense") == titles("q=%00") == titles("")
    assert "Harbour" not in bob.get("/?q=harbour").text.partition('id="mine"')[2].replace("value=", "")


def test_the_list_is_asked_for_again_only_while_something_may_change(ada: Person, bench: WebHarness) -> None:
    bench.succeeded()
    assert "hx-get" not in ada.get("/").text.partition('id="my-documents"')[2].partition(">")[0]
    bench.job(title="New")
    page = ada.get("/?show=working").text
    again = page.partition('hx-get="')[2].partition('"')[0].replace("&amp;", "&")
    assert again.startswith("/jobs/mine?") and "show=working" in again
    assert ada.get(again).status_code == 204
    bench.job(title="Newer")
    answer = ada.get(again)
    assert answer.status_code == 200 and "Newer" in answer.text and "<html" not in answer.text


def test_a_poll_of_the_newest_jobs_that_changes_nothing_is_one_statement(
    ada: Person, bob: Person, bench: WebHarness, database: Database, database_statements: list[str]
) -> None:
    bench.job()
    address = ada.get("/").text.partition('hx-get="')[2].partition('"')[0].replace("&amp;", "&")
    database_statements.clear()
    answer = ada.get(address)
    assert (answer.status_code, answer.headers.get("Set-Cookie")) == (204, None)
    assert [statement.partition(" ")[0] for statement in database_statements] == ["SELECT"]
    assert bob.get(address).status_code == 200, "another account's list is another one"
    with database.transaction() as session:
        session.execute(update(Job).values(deadline_at=func.now()))
    late = ada.get(address)
    assert late.status_code == 200 and "Failed" in late.text, "a job whose time is over is ended by whoever looks"


@pytest.mark.parametrize("before", ["x", "2026-01-01_x", "_", "2026-01-01T00:00:00_" + "0" * 32, "%00"])
def test_a_broken_cursor_is_the_first_page(ada: Person, before: str) -> None:
    assert ada.get(f"/?before={before}").status_code == 200
