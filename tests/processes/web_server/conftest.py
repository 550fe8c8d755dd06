"""One site for all programs of these tests: a real web process and a real worker that makes extracts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tasks.database import Database
from tests.support import factories
from tests.support.processes.processes import Process, answers, process, worker
from webapp.auth import api_tokens
from webapp.local.ports import free_port

SHORT_TEXTS = 1000
"""Limits the characters of a document. It is low, since schemathesis creates texts of exactly the maximum length."""


@dataclass
class ProgrammedSite:
    """Holds the address of the site, a token of an account, and its web process."""

    address: str
    token: str
    web: Process
    database: Database
    account_id: uuid.UUID


@pytest.fixture(scope="module")
def programmed_site(addresses: dict[str, str]) -> Iterator[ProgrammedSite]:
    settings, port = factories.settings(addresses), free_port()
    factories.empty_redis(addresses["REDIS_URL"])
    with Database(settings, "waybill-test") as database:
        with database.transaction() as session:
            factories.empty(session)
            account_id = factories.make_account(session)
            token = api_tokens.make_token(session, account_id, "a program")
        more = {"MAX_DOCUMENT_CHARS": str(SHORT_TEXTS), "API_REQUESTS_PER_MINUTE": "100000", "WEB_THREADS": "4"}
        variables = factories.environment(addresses, HOST="127.0.0.1", PORT=str(port), **more)
        with process(["-m", "gunicorn", "wsgi:app"], variables) as web, worker(addresses, **more):
            address = f"http://127.0.0.1:{port}"
            factories.wait_until(lambda: answers(f"{address}/healthz"), within=40, what=lambda: web.log)
            yield ProgrammedSite(address, token, web, database, account_id)
