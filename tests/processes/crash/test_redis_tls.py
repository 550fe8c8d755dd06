"""rediss:// with a self-signed certificate, as some hosts use: one setting covers every process."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.jobs import leases
from tasks.ledger.states import State
from tasks.preflight import report
from tests.support import factories
from tests.support.processes.processes import asking, worker
from tests.support.services import pgbouncer_and_tls
from tests.support.site import Site
from webapp import create_app
from webapp.extensions import db, limiter

PASSWORD = "hunter2"


@dataclass
class Tls:
    """Holds the URL of a Redis with TLS only, its certificate, and a certificate that it does not use."""

    address: str
    port: int
    certificate: Path
    another: Path


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    directory = tmp_path_factory.mktemp("tls")
    with pgbouncer_and_tls.redis_with_tls(directory, PASSWORD) as (port, certificate):
        another, _ = pgbouncer_and_tls.self_signed(directory, "another")
        yield Tls(f"rediss://:{PASSWORD}@localhost:{port}/0", port, certificate, another)


@pytest.mark.parametrize("changed", ["REDIS_CA_FILE", "REDIS_TLS_VERIFY"])
def test_either_setting_is_enough(addresses: dict[str, str], database: Database, tls: Tls, changed: str) -> None:
    changes = {"redis_ca_file": tls.certificate} if changed == "REDIS_CA_FILE" else {"redis_tls_verify": False}
    with database.transaction() as session:
        leases.record_heartbeat(session, "somebody", queue=factories.QUEUE, slots=4)
    lines, well = report(factories.settings({**addresses, "REDIS_URL": tls.address}, **changes))
    assert well, lines


def test_an_error_names_the_setting_that_causes_it(addresses: dict[str, str], database: Database, tls: Tls) -> None:
    plain = re.sub("rediss", "redis", tls.address)
    not_tls = re.sub(r"^redis://", f"rediss://:{PASSWORD}@", addresses["REDIS_URL"])
    guessed = tls.address.replace(PASSWORD, "hunter3")
    for address, more, named in (
        (tls.address, {}, "REDIS_CA_FILE: the certificate is not trusted"),
        (tls.address, {"redis_ca_file": tls.another}, "REDIS_CA_FILE: the certificate is not trusted"),
        (plain, {}, "the address starts with rediss://"),
        (not_tls, {}, "whether it speaks TLS (rediss://) or not"),
        (guessed, {"redis_ca_file": tls.certificate}, "REDIS_URL: its user name or password is refused"),
    ):
        lines, well = report(factories.settings({**addresses, "REDIS_URL": address}, **more))
        assert not well
        (line,) = [line for line in lines if line.startswith("FAIL  queue")]
        assert named in line
        assert "hunter" not in line and str(tls.port) not in line


@pytest.mark.crash
def test_web_dispatcher_limiter_and_worker_take_the_same_setting(
    addresses: dict[str, str], database: Database, account_id: uuid.UUID, tls: Tls
) -> None:
    ours = {**addresses, "REDIS_URL": tls.address, "REDIS_CA_FILE": str(tls.certificate)}
    app = create_app(factories.settings(ours, redis_ca_file=tls.certificate))
    try:
        assert app.test_client().get("/readyz").json["missing"] == ["worker"]
        with app.app_context():
            assert limiter.storage.check()
        with FakeProvider() as fake, worker(ours, **asking(fake)) as running:
            here = Site(fake, database, account_id, ours, running)
            here.wait_for(here.submit(), State.SUCCEEDED)
            factories.wait_until(lambda: app.test_client().get("/readyz").status_code == 200, every=0.2)
    finally:
        with app.app_context():
            db.engine.dispose()


def test_every_client_is_made_at_the_one_place_that_knows_the_settings() -> None:
    makers = [
        path.relative_to(factories.ROOT).as_posix()
        for part in ("tasks", "webapp")
        for path in (factories.ROOT / part).rglob("*.py")
        if re.search(r"from_url\(|\bRedis\(|StrictRedis", path.read_text())
    ]
    assert makers == ["tasks/queue/redis_client.py"]
