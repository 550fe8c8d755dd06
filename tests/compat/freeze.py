"""Creates the fixtures of this folder: rows and queue messages as one version of the code wrote them.

python -m tests.compat.freeze TREE    TREE is a checkout of that version; `.` before the next migration is added

Writes rows/<schema>.jsonl and messages/<schema>.json. They are created once, and never changed afterwards.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import redis

HERE = Path(__file__).parent
QUEUE = "waybill-test"
LEASE_SECONDS, RESERVATION_SECONDS = 15, 120


def main(tree: str) -> None:
    from webapp.local.services import services, temporary_directory

    with temporary_directory() as directory, services(Path(directory), throwaway=True) as found:
        variables = {**os.environ, **found, "WAYBILL_DEMO": "1", "AI_PROVIDER": "local", "QUEUE_NAME": QUEUE}
        python = [sys.executable]
        subprocess.run([*python, "-m", "flask", "--app", "wsgi", "db", "upgrade"], cwd=tree, env=variables, check=True)
        subprocess.run([*python, __file__, "populate"], cwd=tree, env={**variables, "PYTHONPATH": tree}, check=True)
        lines = subprocess.run(
            [*python, "-m", "tasks", "jobs", "export"], env=variables, check=True, capture_output=True, text=True
        ).stdout
        schema = json.loads(lines.partition("\n")[0])["schema"]
        (HERE / "rows" / f"{schema}.jsonl").write_text(lines)
        with redis.Redis.from_url(found["REDIS_URL"]) as connection:
            (HERE / "messages" / f"{schema}.json").write_text(json.dumps(frozen(connection), indent=1) + "\n")


def frozen(connection: redis.Redis) -> list[dict[str, Any]]:
    """Return the messages in the queue, as RQ wrote them."""
    return [
        {"id": key.decode(), "fields": {name.decode(): text(value) for name, value in message.items()}}
        for key in connection.lrange(f"rq:queue:{QUEUE}", 0, -1)
        for message in [connection.hgetall(f"rq:job:{key.decode()}")]
    ]


def text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def populate() -> None:
    """Create a job in each state. Runs in the tree that is frozen, and uses what every version of it has."""
    from tasks.database import Database
    from tasks.ledger.errors import Category
    from tasks.ledger.jobs import checkpoints, transitions
    from tasks.ledger.jobs.accept import Intent, NewDocument, accept_job
    from tasks.ledger.jobs.checkpoints import SavedStep
    from tasks.ledger.models import ProviderCall
    from tasks.queue import DeliveryQueue
    from tasks.queue.dispatcher import Dispatcher
    from tasks.queue.redis_client import connect
    from tasks.startup.loading import load
    from webapp.models import Account

    answered = {"outcome": "succeeded", "ended_at": datetime.now(UTC), "response_id": "resp_1", "input_tokens": 9}
    if hasattr(ProviderCall, "background"):
        answered["background"] = True
    settings = load()
    database = Database(settings, "waybill-freeze")
    with database.transaction() as session:
        account = Account(email="ada@example.org", password_hash="-", role="user")
        session.add(account)
        session.flush()
        owner = account.id

    def submitted(title: str) -> uuid.UUID:
        content = f"{title}. The north pier will be closed until August. Costs rose to 57,500.".encode()
        intent = Intent(owner, title, "summary", 1, {"length": "medium", "form": "prose"}, idempotency_key=title)
        with database.transaction() as session:
            return accept_job(session, intent, NewDocument(content, "txt", f"{title}.txt"), settings.terms).job_id

    def claimed(title: str) -> Any:
        job_id = submitted(title)
        with database.transaction() as session:
            claim = transitions.claim(
                session,
                job_id,
                worker="frozen",
                lane=settings.lane,
                lease_seconds=LEASE_SECONDS,
                reservation_seconds=RESERVATION_SECONDS,
            )
            saved = SavedStep(f"{title}, as it was read. The pier is closed.", {"characters": 40, "words": 8})
            checkpoints.save(session, claim, "read", saved, next_step="summarise", done=0, total=1)
        return claim

    def called(claim: Any, **more: Any) -> None:
        names = {"step": "summarise", "lane": settings.lane, "provider": "local", "model": "local"}
        with database.transaction() as session:
            session.add(ProviderCall(job_id=claim.job_id, generation=claim.generation, **names, **more))

    called(claimed("running"))
    with database.transaction() as session:
        transitions.retry_later(session, claimed("retry_wait"), category=Category.OVERLOADED, delay_seconds=30)
    with database.transaction() as session:
        transitions.cancel(session, claimed("cancel_requested").job_id, owner)
    with database.transaction() as session:
        claim = claimed("succeeded")
        called(claim, **answered)
        transitions.succeed(session, claim, text="It was saved.", facts={"model": "m"})
    with database.transaction() as session:
        transitions.fail(session, claimed("failed"), category=Category.INVALID_REQUEST, code="too_long")
    with database.transaction() as session:
        transitions.cancel(session, submitted("cancelled"), owner)
    queued = submitted("queued")
    Dispatcher(database.transaction, DeliveryQueue(settings, connect(settings, connections=2))).step(queued)
    database.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["populate"]:
        populate()
    else:
        main(*sys.argv[1:])
