"""Waybill as it is: token, limits, history, fence, call record and checkpoints, with the settings of a site."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import SecretStr

from benchmarks import pages
from benchmarks.beside_peers.environments import ROOT
from benchmarks.beside_peers.http_client import Request, Response
from benchmarks.beside_peers.processes import Running
from benchmarks.beside_peers.servers import Servers
from benchmarks.beside_peers.systems import System
from tasks.database import Database
from tasks.settings import Settings
from webapp.auth import api_tokens, passwords
from webapp.models import Account

EMAIL, PASSWORD = "bench@example.org", "a long enough password 42"
LONG_CALLS = {
    "PROVIDER_CALL_SECONDS": "900",
    "ATTEMPT_SECONDS": "1000",
    "RESERVATION_SECONDS": "1200",
    "RUNTIME_ALLOWANCE_SECONDS": "1300",
}
"""Settings under which the AI service may keep a request for minutes."""
COMMITTED = """
SELECT jobs.title, extract(epoch FROM pg_xact_commit_timestamp(documents.xmin))::float8
FROM jobs JOIN documents ON documents.id = jobs.document_id
"""


def most_slots() -> int:
    """Return the most slots that the settings allow."""
    bounds = [getattr(bound, "le", None) for bound in Settings.model_fields["worker_slots"].metadata]
    return next(int(bound) for bound in bounds if bound is not None)


class Waybill(System):
    """This project. Only the limits of an account are set aside."""

    name = "Waybill"
    database = "waybill"
    redis_number = 0
    jobs = f"jobs WHERE account_id = (SELECT id FROM accounts WHERE email = '{EMAIL}')"
    folder = ROOT

    def __init__(self, servers: Servers, slots: int = 16, **settings: str) -> None:
        super().__init__(servers, slots)
        self._settings = settings
        self._token_file = servers.directory / "token"

    @property
    def variables(self) -> dict[str, str]:
        return {
            "DATABASE_URL": self.servers.database_url(self.database),
            "REDIS_URL": self.servers.redis_url(self.redis_number),
            "SECRET_KEY": "0123456789abcdef" * 3,
            "APP_BASE_URL": f"http://127.0.0.1:{self.port}",
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "PROXY_HOPS": "0",
            "OPENAI_API_KEY": "sk-test",
            "OPENAI_BASE_URL": self.servers.ai_url,
            "JOBS_PER_DAY": "0",
            "JOBS_AT_ONCE": "0",
            "API_REQUESTS_PER_MINUTE": "100000000",
            "JOB_DEADLINE_SECONDS": "36000",
            "WORKER_SLOTS": str(self.slots),
            "PROVIDER_CONCURRENCY": str(self.slots),
            **self._settings,
        }

    def make(self) -> None:
        """Migrate, and create one account with one token."""
        self.call([sys.executable, "-m", "flask", "--app", "wsgi", "db", "upgrade"])
        with Database(self.site_settings, "benchmark") as database, database.transaction() as session:
            account = Account(id=uuid.uuid4(), email=EMAIL, password_hash=passwords.hash_password(PASSWORD))
            session.add(account)
            session.flush()
            self._token_file.write_text(api_tokens.make_token(session, account.id, "benchmark"))

    @property
    def site_settings(self) -> Settings:
        """Return settings for what the benchmark itself does with the site's tables."""
        return Settings(
            database_url=SecretStr(self.servers.database_url(self.database)),
            redis_url=SecretStr(self.servers.redis_url(self.redis_number)),
            waybill_demo=True,
            proxy_hops=0,
            openai_api_key=SecretStr("not used"),
            metrics_token=SecretStr(pages.METRICS_TOKEN),
        )

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token_file.read_text()}"}

    def web_command(self) -> Sequence[str | Path]:
        return [sys.executable, "-m", "gunicorn", "wsgi:app"]

    def worker_command(self) -> Sequence[str | Path]:
        return [sys.executable, "-m", "tasks", "worker"]

    def start_worker(self) -> Running:
        worker = super().start_worker()
        worker.ready_after = worker.wait_until(lambda: worker.has_logged("worker.started"))
        return worker

    def start_second_worker(self) -> Running:
        """Start one more worker with two slots, and wait until it is there."""
        second = self._start("second-worker", [*self.worker_command(), "--slots", "2"])
        second.wait_until(lambda: second.has_logged("worker.started"))
        return second

    def submission(self, mark: str, text: str) -> Request:
        return Request("POST", "/api/v1/jobs", {"text": text, "title": mark}, self.headers)

    def committed_at(self, responses: Mapping[str, Response]) -> dict[str, float]:
        """Return the commit timestamps of the documents, which are never changed."""
        return dict(self.servers.rows(self.database, COMMITTED))
