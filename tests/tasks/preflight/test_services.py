"""The findings of preflight about real servers in the states that it must notice; each check is seen failing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from redis import Redis
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from tasks.database import Database
from tasks.fake_provider import FakeProvider
from tasks.ledger.jobs import leases
from tasks.preflight import Level, provider, report
from tasks.settings import Settings
from tests.support import factories
from tests.support.services.preflight import line_of, relay, said
from webapp.local.ports import free_port
from webapp.local.redis import Server
from webapp.local.services import temporary_directory

pytestmark = pytest.mark.usefixtures("queue")


@pytest.fixture(autouse=True)
def with_worker(database: Database) -> None:
    with database.transaction() as session:
        leases.record_heartbeat(session, "somebody", queue=factories.QUEUE, slots=4)


@pytest.fixture
def own(own_redis: Server, settings: Settings) -> Iterator[tuple[Settings, Redis]]:
    """Yield settings with a Redis that a test may break, and a client of it."""
    with Redis.from_url(own_redis.address) as client:
        yield at_redis(settings, own_redis.address), client


def at_redis(settings: Settings, address: str) -> Settings:
    return settings.model_copy(update={"redis_url": SecretStr(address)})


def test_what_is_wrong_with_a_redis(own: tuple[Settings, Redis], own_redis: Server) -> None:
    settings, redis = own
    assert said(settings, "FAIL") == said(settings, "WARN") == []
    redis.config_set("maxmemory-policy", "allkeys-lru")
    redis.config_set("maxmemory", redis.info("memory")["used_memory"])
    assert said(settings, "WARN") == ["queue eviction policy", "queue memory"]
    redis.config_set("maxmemory", 0)
    redis.config_set("maxmemory-policy", "noeviction")
    redis.config_set("maxclients", 12)
    assert said(settings, "WARN") == ["connections to the queue"]
    redis.config_set("maxclients", 6)
    assert said(settings, "FAIL") == ["connections to the queue"]
    redis.config_set("maxclients", 1000)
    shutil.rmtree(own_redis.directory)  # where it writes its snapshots
    redis.bgsave()
    factories.wait_until(lambda: redis.info("persistence")["rdb_last_bgsave_status"] == "err")
    assert said(settings, "WARN") == ["queue persistence"]
    redis.replicaof("127.0.0.1", str(free_port()))
    assert said(settings, "FAIL") == ["queue", "queue takes messages"]
    assert "replica" in line_of(settings, "queue")


def test_an_old_redis_one_whose_clock_is_off_and_one_that_is_away(settings: Settings) -> None:
    here = settings.redis_url.get_secret_value()
    with relay(here, rb"redis_version:\d", b"redis_version:5") as old:
        assert said(at_redis(settings, old), "FAIL") == ["queue"]
        assert "6.2 or newer" in line_of(at_redis(settings, old), "queue")
    with relay(here, rb"\*2\r\n\$10\r\n\d\d(\d{8})\r\n", rb"*2\r\n$10\r\n10\g<1>\r\n") as long_ago:
        assert said(at_redis(settings, long_ago), "WARN") == ["clock of the queue"]
    nowhere = at_redis(settings, f"redis://:hunter2@127.0.0.1:{free_port()}")
    assert said(nowhere, "FAIL") == ["queue"]
    assert "hunter2" not in "\n".join(report(nowhere)[0])


def administer(address: str, *statements: str) -> None:
    engine = create_engine(make_url(address).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def test_a_database_with_few_connections_and_one_whose_clock_is_off(
    addresses: dict[str, str], settings: Settings
) -> None:
    name = make_url(addresses["DATABASE_URL"]).database
    try:
        administer(addresses["DATABASE_URL"], f"ALTER DATABASE {name} CONNECTION LIMIT 12")
        assert said(settings, "WARN") == ["connections to the database"]
        administer(addresses["DATABASE_URL"], f"ALTER DATABASE {name} CONNECTION LIMIT 6")
        assert said(settings, "FAIL") == ["connections to the database"]
        assert "6 allowed" in line_of(settings, "connections to the database")
        administer(
            addresses["DATABASE_URL"],
            f"ALTER DATABASE {name} CONNECTION LIMIT -1",
            "CREATE SCHEMA shifted",
            "CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql "
            "AS 'SELECT pg_catalog.clock_timestamp() - interval ''1 minute'''",
            f"ALTER DATABASE {name} SET search_path = shifted, pg_catalog, public",
        )
        assert said(settings, "WARN") == ["clock of the database"]
        assert "behind" in line_of(settings, "clock of the database")
    finally:
        administer(
            addresses["DATABASE_URL"],
            f"ALTER DATABASE {name} CONNECTION LIMIT -1",
            f"ALTER DATABASE {name} RESET search_path",
            "DROP SCHEMA IF EXISTS shifted CASCADE",
        )


@pytest.fixture
def pgbouncer(addresses: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield the URLs of a real PgBouncer in each mode, in front of the database of this run."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("pgbouncer is not installed: apt-get install pgbouncer")
    url, port = make_url(addresses["DATABASE_URL"]), free_port()
    host = str(url.query.get("host") or url.host or "127.0.0.1")
    to = f"host={host} user={url.username} dbname={url.database}"
    to += (f" port={url.port}" if url.port else "") + (f" password={url.password}" if url.password else "")
    # It refuses to run as root; the owner of the server's socket can reach the socket.
    as_owner = ["-u", Path(host).owner()] if os.getuid() == 0 and host.startswith("/") else []
    with temporary_directory() as directory:
        Path(directory).chmod(0o755)
        config = Path(directory, "pgbouncer.ini")
        config.write_text(
            f"[databases]\ntransaction = {to} pool_mode=transaction\nsession = {to} pool_mode=session\n"
            f"one = {to} pool_mode=transaction pool_size=1\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\n"
        )
        server = subprocess.Popen([program, *as_owner, str(config)], stderr=subprocess.DEVNULL)
        try:
            base = f"postgresql://{url.username}@127.0.0.1:{port}/"
            yield {mode: base + mode for mode in ("transaction", "session", "one")}
        finally:
            server.terminate()
            server.wait()


def test_a_transaction_pooler_is_noticed_by_what_it_does(pgbouncer: dict[str, str], settings: Settings) -> None:
    def at(mode: str, **more: object) -> Settings:
        return settings.model_copy(update={"database_url": SecretStr(pgbouncer[mode]), **more})

    factories.wait_until(lambda: said(at("session"), "FAIL") == [])
    assert said(at("session"), "WARN") == []
    assert said(at("transaction"), "WARN") == ["transaction pooler"]
    assert said(at("transaction", database_pooler="transaction"), "WARN") == []
    assert said(at("one"), "WARN") == ["transaction pooler"]


def test_the_ai_service_is_called_only_on_request(settings: Settings) -> None:
    def level(*steps: dict[str, Any], call: bool = True) -> Level:
        fake.script(steps)
        return provider.finding(site, call=call).level

    with FakeProvider() as fake:
        site = settings.model_copy(
            update={"ai_provider": "openai", "openai_api_key": SecretStr("k"), "openai_base_url": fake.base_url}
        )
        assert level({"mode": "ok"}, call=False) is Level.SKIP and fake.requests == []
        assert level({"mode": "ok"}) is Level.OK
        assert level({"mode": "auth"}) is Level.FAIL
        assert level({"mode": "overloaded"}) is Level.WARN
        assert len(fake.requests) == 3
    assert "AI service" in said(settings, "ok", call_provider=True)


def test_memory_is_held_against_what_the_plan_gives(settings: Settings, tmp_path: Path) -> None:
    for megabytes, level in ((4000, "ok"), (200, "WARN"), (20, "FAIL")):
        (tmp_path / "memory.max").write_text(f"{megabytes * 2**20}\n")
        assert "memory" in said(settings, level, cgroups=tmp_path), megabytes
    assert "20 MB given" in line_of(settings, "memory", cgroups=tmp_path)
