"""A Redis user with only the permissions in docs/deploy.md is enough for the whole site."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
import uuid
from collections.abc import Iterator

import pytest
from redis import Redis

from tasks.database import Database
from tests.support import factories
from tests.support.processes.fork_server import completed
from tests.support.processes.processes import answers, process, worker
from webapp.auth import api_tokens
from webapp.local.ports import free_port
from webapp.local.redis import Server

PASSWORD = "only-for-this-test"


def allowed(master: Redis) -> list[str]:
    """Return the permissions on that page, as arguments of ACL SETUSER."""
    number = tuple(int(part) for part in str(master.info("server")["redis_version"]).split(".")[:2])
    newer = ["+client|setinfo"] if number >= (7, 2) else []
    [rules] = re.findall(
        r"^ACL SETUSER waybill (on .*?)^```", (factories.ROOT / "docs/deploy.md").read_text(), re.S | re.M
    )
    return str(rules).replace(">PASSWORD", f">{PASSWORD}").split() + newer


@pytest.fixture
def restricted(own_redis: Server) -> Iterator[tuple[str, Redis]]:
    """Yield the URL of a Redis for that user, and a client without restrictions."""
    with Redis.from_url(own_redis.address) as master:
        yield f"redis://waybill:{PASSWORD}@127.0.0.1:{own_redis.port}/0", master


def refused(master: Redis) -> list[str]:
    """Return every command and key that was refused so far."""
    return [f"{one['context']} {one['reason']} {one['object']}" for one in master.acl_log()]


def ask(address: str, token: str, body: object = None) -> dict[str, str]:
    request = urllib.request.Request(address, None if body is None else json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {token}")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return dict(json.load(answer))


def one_job(
    addresses: dict[str, str], database: Database, account_id: uuid.UUID, *, within: float, whole: bool
) -> bool:
    """Hand in a document at a real web process and let a real worker process it. Return True if it succeeded in time.

    `whole` runs preflight and stops the worker too.
    """
    with database.transaction() as session:
        token = api_tokens.make_token(session, account_id, "a program")
    port = free_port()
    variables = factories.environment(addresses, HOST="127.0.0.1", PORT=str(port))
    with process(["-m", "gunicorn", "wsgi:app"], variables) as web, worker(addresses, ready=False) as working:
        site = f"http://127.0.0.1:{port}"
        factories.wait_until(lambda: answers(f"{site}/healthz"), within=40, what=lambda: web.log)
        job = ask(f"{site}/api/v1/jobs", token, {"text": "The harbour committee met. The pier is closed."})["id"]
        try:
            factories.wait_until(lambda: ask(f"{site}/api/v1/jobs/{job}", token)["state"] == "succeeded", within=within)
        except AssertionError:
            return False
        if not whole:
            return True
        preflight = completed(["-m", "tasks", "preflight"], variables)
        assert preflight.returncode == 0, preflight.stdout + preflight.stderr
        working.signal(signal.SIGTERM)
        assert working.wait() == 0, working.log
    return True


@pytest.mark.crash
@pytest.mark.timeout(120)
def test_a_job_is_done_by_a_user_that_may_do_only_what_the_page_says(
    addresses: dict[str, str], database: Database, account_id: uuid.UUID, restricted: tuple[str, Redis]
) -> None:
    address, master = restricted
    master.execute_command("ACL", "SETUSER", "waybill", *allowed(master))
    assert one_job({**addresses, "REDIS_URL": address}, database, account_id, within=40, whole=True)
    assert refused(master) == []


@pytest.mark.crash
@pytest.mark.parametrize("command", ["+blmove", "+evalsha", "~rq:*"])
def test_without_a_part_of_it_that_is_seen(
    addresses: dict[str, str],
    database: Database,
    account_id: uuid.UUID,
    restricted: tuple[str, Redis],
    command: str,
) -> None:
    """Check, as a control, that refused commands appear in the ACL log of Redis."""
    address, master = restricted
    master.execute_command("ACL", "SETUSER", "waybill", *(one for one in allowed(master) if one != command))
    one_job({**addresses, "REDIS_URL": address}, database, account_id, within=3, whole=False)
    assert any(command[1:].split(":")[0] in one for one in refused(master)), refused(master)
