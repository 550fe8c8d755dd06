"""Tests that a site with a plain http URL does not start and says why. `python -m tasks preflight` says it, too."""

from __future__ import annotations

import pytest

from tests.support import factories
from tests.support.processes.fork_server import completed

REAL = {"WAYBILL_DEMO": "0", "SECRET_KEY": "a long random text of our own"}
START = {
    "web": ["-m", "gunicorn", "--check-config", "wsgi:app"],
    "all": ["-m", "webapp", "all"],
    "release": ["-m", "flask", "--app", "wsgi", "db", "current"],
}


@pytest.mark.parametrize("command", START)
def test_it_does_not_start_at_an_address_where_nobody_could_sign_in(addresses: dict[str, str], command: str) -> None:
    ended = completed(START[command], factories.environment(addresses, APP_BASE_URL="http://waybill.example", **REAL))
    assert ended.returncode == 1
    output = ended.stdout + ended.stderr
    assert (
        "APP_BASE_URL starts with http://" in output and "nobody could sign in" in output and "Traceback" not in output
    )


@pytest.mark.parametrize("address", ["https://waybill.example", "http://localhost:8000"])
def test_it_starts_where_browsers_keep_the_cookie(addresses: dict[str, str], address: str) -> None:
    """Check that the test can fail."""
    ended = completed(START["web"], factories.environment(addresses, APP_BASE_URL=address, **REAL))
    assert ended.returncode == 0, ended.stderr


def test_preflight_counts_it_as_a_failure(addresses: dict[str, str]) -> None:
    ended = completed(
        ["-m", "tasks", "preflight"], factories.environment(addresses, APP_BASE_URL="http://waybill.example", **REAL)
    )
    assert ended.returncode == 1
    assert "FAIL  address of the site: plain http. APP_BASE_URL starts with http://" in ended.stdout
