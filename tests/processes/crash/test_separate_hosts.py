"""Web and worker share only the database and Redis: no disk, no time zone, no clock."""

from __future__ import annotations

import json
import shutil
import urllib.request
import uuid
from datetime import UTC
from pathlib import Path

import pytest
from sqlalchemy import text

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.processes import answers, asking, process
from tests.support.site import Site
from webapp import create_app
from webapp.auth import api_tokens
from webapp.extensions import db
from webapp.local.ports import free_port


def hand_in(site: str, token: str, text: str) -> uuid.UUID:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{site}/api/v1/jobs", json.dumps({"text": text}).encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as answer:
        return uuid.UUID(json.load(answer)["id"])


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.timeout(120)
def test_processes_on_other_disks_and_in_other_time_zones_work_on_the_same_job(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, tmp_path: Path
) -> None:
    with database.transaction() as session:
        account_id = factories.make_account(session)
        token = api_tokens.make_token(session, account_id, "program")
    port = free_port()
    site = f"http://127.0.0.1:{port}"
    places = {name: tmp_path / name for name in ("web", "worker")}
    for place in places.values():
        place.mkdir()
    with factories.role_with_few_connections(addresses, 20) as ours, FakeProvider() as fake:
        fake.script([{"mode": "overloaded"}, {"mode": "gate"}])
        with database.transaction() as session:
            role = ours["DATABASE_URL"].split("://")[1].split("@")[0].split(":")[0]
            session.execute(text(f"ALTER ROLE {role} SET timezone = 'Europe/Berlin'"))
        web_says = {"HOST": "127.0.0.1", "PORT": str(port), "TZ": "America/St_Johns", "TMPDIR": str(places["web"])}
        with process(["-m", "gunicorn", "wsgi:app"], factories.environment(ours, **web_says), fresh=True) as web:
            factories.wait_until(lambda: answers(f"{site}/healthz"), within=40, what=lambda: web.log)
            job_id = hand_in(site, token, "The north pier is closed.")
        shutil.rmtree(places["web"])  # the host discards the disk of the old process
        places["web"].mkdir()
        there = asking(fake, TZ="Asia/Kathmandu", TMPDIR=str(places["worker"]))
        with process(["-m", "tasks", "worker"], factories.environment(ours, **there), fresh=True) as running:
            here = Site(fake, database, account_id, ours, running)
            fake.wait_for_requests(2, timeout=30)
            with database.transaction() as session:
                first = job_views.attempts_of(session, job_id)[0]
            waited = fake.requests[1].at - fake.requests[0].at
            assert 0.5 < waited < 15  # two seconds and some jitter, not hours
            assert first.ended_at is not None and 0 <= (first.ended_at - first.started_at).total_seconds() < 30
            fake.release()
            here.wait_for(job_id, State.SUCCEEDED, within=40)
        another = create_app(factories.settings(ours))
        client, signed = another.test_client(), {"Authorization": f"Bearer {token}"}
        shown = client.get(f"/api/v1/jobs/{job_id}", headers=signed).json
        assert client.get(f"/api/v1/jobs/{job_id}/result", headers=signed).json["text"]
        with another.app_context():
            db.engine.dispose()
    assert shown["state"] == "succeeded"
    with database.transaction() as session:
        created_at = session.execute(text("SELECT created_at FROM jobs")).scalar_one()
    assert shown["created_at"] == created_at.astimezone(UTC).isoformat()  # not the time in Berlin, labelled UTC
