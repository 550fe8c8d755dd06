"""Test clients for users, programs and workers. CSRF protection stays on: a test takes the token from a form."""

from __future__ import annotations

import io
import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from argon2 import PasswordHasher
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import event
from werkzeug.datastructures import FileStorage, MultiDict
from werkzeug.test import TestResponse, encode_multipart

from tasks.database import Database
from tasks.ledger.delivery import outbox
from tasks.ledger.jobs import checkpoints, transitions
from tasks.ledger.jobs.checkpoints import SavedStep
from tasks.ledger.jobs.guarded_update import Claim
from tasks.queue import DeliveryQueue
from tasks.settings import Settings
from tests.conftest import COMPILED
from tests.support import factories
from tests.support.openapi_check import CheckedClient
from webapp import create_app
from webapp.auth import api_tokens, passwords
from webapp.auth.sessions import SESSION
from webapp.extensions import db, limiter
from webapp.models import Role


class Browser:
    """Represents a browser: a test client that fills in the CSRF token."""

    def __init__(self, app: Flask) -> None:
        self.client: FlaskClient = app.test_client()
        self._token: str | None = None

    def get(self, path: str, **more: Any) -> TestResponse:
        return self.client.get(path, **more)

    def post(self, path: str, data: dict[str, Any] | None = None, *, page: str = "/login", **more: Any) -> TestResponse:
        fields = {"csrf_token": self.token(page), **(data or {})}
        if more.get("content_type") == "multipart/form-data":
            # Encoded here, because the test client leaves a temporary file open when a form is large.
            boundary, body = encode_multipart(MultiDict(fields))
            return self.client.post(
                path, data=body, **{**more, "content_type": f"multipart/form-data; boundary={boundary}"}
            )
        return self.client.post(path, data=fields, **more)

    def token(self, page: str) -> str:
        if self._token is None:
            self._token = proof_in(self.get(page).text)
        return self._token

    def forget_token(self) -> None:
        self._token = None


class Person(Browser):
    """Represents a signed-in user. `factories.make_account` started a session with the id of the account."""

    def __init__(self, app: Flask, account_id: uuid.UUID) -> None:
        super().__init__(app)
        self.id = account_id
        with self.client.session_transaction() as session:
            session["_user_id"] = account_id.hex
            session["_fresh"] = True
            session[SESSION] = account_id.hex

    def post(
        self, path: str, data: dict[str, Any] | None = None, *, page: str = "/account", **more: Any
    ) -> TestResponse:
        return super().post(path, data, page=page, **more)

    def paste(self, text: str = "The north pier is closed.", **fields: Any) -> TestResponse:
        return self.post("/jobs", {"text": text, **fields}, content_type="multipart/form-data")

    def upload(self, content: bytes, filename: str = "report.txt", **fields: Any) -> TestResponse:
        file = FileStorage(io.BytesIO(content), filename)
        return self.post("/jobs", {"file": file, **fields}, content_type="multipart/form-data")


class Program:
    """Represents a program: a client with an API token."""

    def __init__(self, app: Flask, token: str) -> None:
        self.client = app.test_client(use_cookies=False)
        self.token = token

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> TestResponse:
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        return self.client.open(f"/api/v1{path}", method=method, headers=sent, **more)

    def submit(self, text: str = "The pier is closed.", key: str | None = None, **fields: Any) -> TestResponse:
        headers = {"Idempotency-Key": key} if key else {}
        return self.ask("POST", "/jobs", headers, json={"text": text, **fields})


def assert_problem(answer: TestResponse, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.content_type == "application/problem+json"
    assert "Set-Cookie" not in answer.headers
    body: dict[str, Any] = json.loads(answer.data)
    assert body["status"] == status and body["title"] and body["type"]
    return body


def proof_in(page: str) -> str:
    """Return the CSRF token in the first form of a page."""
    found = re.search(r'name="csrf_token" value="([^"]+)"', page)
    assert found, page
    return found[1]


def poll_address(page: str) -> str:
    """Return the URL that the page polls."""
    found = re.search(r'hx-get="([^"]+)"', page)
    assert found, page
    return found[1].replace("&amp;", "&")


def job_id_in(response: TestResponse) -> uuid.UUID:
    """Return the id of the job that a redirect leads to."""
    assert response.status_code == 303, response.text
    return uuid.UUID(response.location.removeprefix("/jobs/").removesuffix("?known=1"))


@pytest.fixture(autouse=True)
def limits_in_redis() -> Iterator[None]:
    """Reset the process-wide limiter after a test that made Redis unreachable."""
    yield
    limiter._storage_dead = False


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords with little work: some tests verify hundreds of them. The real parameters have their own test."""
    monkeypatch.setattr(passwords, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    passwords._nobody.cache_clear()


@pytest.fixture
def browser(app: Flask) -> Browser:
    """Return a browser in which nobody is signed in."""
    return Browser(app)


@pytest.fixture
def ada(app: Flask, account_id: uuid.UUID) -> Person:
    """Return the owner of the jobs."""
    return Person(app, account_id)


@pytest.fixture
def bob(app: Flask, database: Database) -> Person:
    """Return another user."""
    with database.transaction() as session:
        return Person(app, factories.make_account(session))


@pytest.fixture
def program(app: Flask, database: Database, account_id: uuid.UUID) -> Program:
    with database.transaction() as session:
        return Program(app, api_tokens.make_token(session, account_id, "test"))


@pytest.fixture
def stranger(app: Flask, database: Database, bob: Person) -> Program:
    with database.transaction() as session:
        return Program(app, api_tokens.make_token(session, bob.id, "test"))


@pytest.fixture
def make_app(database: Database, queue: DeliveryQueue, settings: Settings) -> Iterator[Callable[..., Flask]]:
    """Return a function that makes another app over the same services, with other settings."""
    made: list[Flask] = []

    def make(**changed: Any) -> Flask:
        app = create_app(settings.model_copy(update=changed))
        app.jinja_env.bytecode_cache = COMPILED
        app.config["TESTING"] = True
        app.test_client_class = CheckedClient
        made.append(app)
        return app

    yield make
    for app in made:
        with app.app_context():
            db.engine.dispose()


@pytest.fixture
def olga(app: Flask, database: Database) -> Person:
    """Return an operator."""
    with database.transaction() as session:
        return Person(app, factories.make_account(session, email="olga@example.org", role=Role.OPERATOR))


class WebHarness:
    """Represents a worker: brings jobs into a state by the real functions of the ledger."""

    def __init__(self, database: Database, owner: uuid.UUID) -> None:
        self.database = database
        self.owner = owner
        self.count = 0

    def job(self, **intent: Any) -> uuid.UUID:
        """Submit a job and note that its message was sent to the queue, as the web app does."""
        self.count += 1
        with self.database.transaction() as session:
            job_id = factories.submit(session, self.owner, factories.TEXT + b" %d" % self.count, **intent).job_id
            outbox.note_dispatched(session, job_id, 1)
            return job_id

    def claim(self, job_id: uuid.UUID) -> Claim:
        with self.database.transaction() as session:
            claim = transitions.claim(
                session, job_id, worker="w", lane="local", lease_seconds=60, reservation_seconds=90
            )
        assert isinstance(claim, Claim)
        return claim

    def read(self, claim: Claim, *, done: int = 0, total: int = 1) -> None:
        with self.database.transaction() as session:
            facts = {"pages": 12, "words": 8410, "characters": 50_000}
            checkpoints.save(
                session, claim, "read", SavedStep("x", facts), next_step="summarise", done=done, total=total
            )

    def succeeded(self, text: str = "The pier is closed.", *, cut_off: bool = False, **intent: Any) -> uuid.UUID:
        job_id = self.job(**intent)
        claim = self.claim(job_id)
        self.read(claim)
        with self.database.transaction() as session:
            facts = {"label": "Extract made on this server, without an AI service", "provider": "local", "model": "m"}
            transitions.succeed(session, claim, text=text, facts={**facts, **({"cut_off": True} if cut_off else {})})
        return job_id

    def failed(self, category: Any, code: str | None = None, **intent: Any) -> uuid.UUID:
        job_id = self.job(**intent)
        claim = self.claim(job_id)
        with self.database.transaction() as session:
            transitions.fail(session, claim, category=category, code=code)
        return job_id

    def waiting(self, category: Any, delay_seconds: float = 72) -> uuid.UUID:
        job_id = self.job()
        claim = self.claim(job_id)
        with self.database.transaction() as session:
            transitions.retry_later(session, claim, category=category, delay_seconds=delay_seconds)
        return job_id


@pytest.fixture
def bench(database: Database, account_id: uuid.UUID) -> WebHarness:
    """Return a harness that brings Ada's jobs into any state."""
    return WebHarness(database, account_id)


def rows(database: Database, statement: Any) -> list[Any]:
    """Return the rows of a statement."""
    with database.transaction() as session:
        return list(session.execute(statement).all())


@contextmanager
def recorded_statements(app: Flask) -> Iterator[list[str]]:
    """Record the statements that the app sends to the database while the block runs, BEGIN included."""
    sent: list[str] = []

    def record(*arguments: Any) -> None:
        sent.append(arguments[2])

    with app.app_context():
        engine = db.engine
    event.listen(engine, "before_cursor_execute", record)
    yield sent
    event.remove(engine, "before_cursor_execute", record)


@pytest.fixture
def database_statements(app: Flask) -> Iterator[list[str]]:
    """Record the statements of the app during the test."""
    with recorded_statements(app) as sent:
        yield sent
