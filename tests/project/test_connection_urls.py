"""Tests that a connection URL written for another client ends each process with one sentence, not with a traceback."""

from __future__ import annotations

import pytest

from tests.support import factories
from tests.support.processes.fork_server import completed

COMMANDS = {
    "web": ["-m", "gunicorn", "--check-config", "wsgi:app"],
    "all": ["-m", "webapp", "all"],
    "release": ["-m", "flask", "--app", "wsgi", "db", "current"],
    "worker": ["-m", "tasks", "worker", "--burst"],
    "ops": ["-m", "tasks", "ops", "status"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_parameter_of_another_client_is_named(addresses: dict[str, str], command: str) -> None:
    url = addresses["DATABASE_URL"] + ("&" if "?" in addresses["DATABASE_URL"] else "?") + "pgbouncer=true"
    ended = completed(COMMANDS[command], factories.environment({**addresses, "DATABASE_URL": url}))
    output = ended.stdout + ended.stderr
    assert ended.returncode == 1
    assert "DATABASE_URL: PostgreSQL's client does not know the parameter pgbouncer. Remove it" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("command", ["web", "release", "worker"])
def test_so_is_one_that_redis_does_not_know(addresses: dict[str, str], command: str) -> None:
    ended = completed(
        COMMANDS[command], factories.environment({**addresses, "REDIS_URL": "redis://:hunter2@h/0?family=0"})
    )
    output = ended.stdout + ended.stderr
    assert ended.returncode == 1
    assert "REDIS_URL cannot be read" in output and "Traceback" not in output and "hunter2" not in output
