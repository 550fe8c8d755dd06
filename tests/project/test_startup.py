"""Tests that a misconfigured process does not start, and names the wrong setting in one line."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy.engine import make_url

from tasks.database import Database
from tasks.queue import DeliveryQueue
from tests.support import factories
from tests.support.processes.fork_server import completed
from tests.support.processes.processes import process
from webapp.local.ports import free_port

COMMANDS = {
    "web": ["-m", "gunicorn", "--check-config", "wsgi:app"],
    "release": ["-m", "flask", "--app", "wsgi", "db", "current"],
    "worker": ["-m", "tasks", "worker", "--burst"],
    "dispatcher": ["-m", "tasks", "dispatcher"],
    "reconcile": ["-m", "tasks", "reconcile"],
    "ops": ["-m", "tasks", "ops", "status"],
}


def run(command: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return completed(COMMANDS[command], variables)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unreachable_database_is_named_and_its_password_is_not(addresses: dict[str, str], command: str) -> None:
    nowhere = f"postgres://u:hunter2@127.0.0.1:{free_port()}/site"
    ended = run(command, factories.environment({**addresses, "DATABASE_URL": nowhere}))
    assert ended.returncode != 0
    assert "DATABASE_URL: the database does not answer" in ended.stdout + ended.stderr
    assert "hunter2" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("command", ["web", "worker"])
def test_budgets_that_do_not_nest_are_named(addresses: dict[str, str], command: str) -> None:
    ended = run(command, factories.environment(addresses, PROVIDER_CALL_SECONDS="100"))
    assert ended.returncode != 0
    output = ended.stdout + ended.stderr
    assert "PROVIDER_CALL_SECONDS (100) must be less than ATTEMPT_SECONDS (90)." in output
    assert "Traceback" not in output


def test_the_web_process_refuses_to_start_without_a_secret_of_its_own(addresses: dict[str, str]) -> None:
    ended = run("web", factories.environment(addresses, WAYBILL_DEMO="0"))
    assert ended.returncode != 0
    assert "SECRET_KEY is missing." in ended.stdout + ended.stderr
    fine = run("web", factories.environment(addresses, WAYBILL_DEMO="0", SECRET_KEY="a long random text of our own"))
    assert fine.returncode == 0, fine.stderr


@pytest.fixture
def as_hosts_write_it(addresses: dict[str, str], database: Database) -> Iterator[dict[str, str]]:
    """Return the same database with a host's URL scheme, a password that must be encoded, and a parameter.

    It is empty: a worker in burst mode does not end before a job that another test has left.
    """
    with factories.role_with_few_connections(addresses, 20, password="p@ss%word/#") as ours:
        url = make_url(ours["DATABASE_URL"]).set(drivername="postgres")
        address = url.update_query_dict({"sslmode": "prefer"}).render_as_string(hide_password=False)
        assert "p%40ss%25word" in address
        yield {**addresses, "DATABASE_URL": address}


@pytest.mark.parametrize("command", ["web", "release", "worker", "ops"])
def test_every_process_takes_the_address_as_hosts_write_it(as_hosts_write_it: dict[str, str], command: str) -> None:
    ended = run(command, factories.environment(as_hosts_write_it))
    assert ended.returncode == 0, ended.stderr


def test_the_dispatcher_takes_it_too(
    as_hosts_write_it: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID
) -> None:
    with database.transaction() as session:
        factories.submit(session, account_id)
    variables = factories.environment(as_hosts_write_it)
    with process(["-m", "tasks", "dispatcher"], variables) as dispatcher:
        dispatcher.wait_for_log("delivery.dispatched")


@pytest.mark.parametrize("arguments", [["nonsense"], [], ["worker", "--slots", "many"]])
def test_a_wrong_command_ends_with_two(addresses: dict[str, str], arguments: list[str]) -> None:
    ended = completed(["-m", "tasks", *arguments], factories.environment(addresses))
    assert ended.returncode == 2
    assert ended.stdout == ""
