"""Hosts call the same thing by many names; a site finds its database, its Redis and itself by any of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import SSLConnection

from tasks.queue.redis_client import connect
from tasks.settings import Settings, SettingsWrong
from tasks.settings.connection_urls import HOST_NAMES
from tasks.startup.loading import check_web, load
from tests.support import factories

PLACES = {"DATABASE_URL": "postgres://u:hunter2@db/site", "REDIS_URL": "redis://:hunter2@redis:6379/0"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    ours = [name.upper() for name in Settings.model_fields]
    for name in [*ours, *(name for names in HOST_NAMES.values() for name, _ in names)]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AI_PROVIDER", "local")
    for name, value in PLACES.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.mark.parametrize("name", ["DATABASE_URL", "SCALINGO_POSTGRESQL_URL", "POSTGRESQL_ADDON_URI"])
def test_the_database_is_found_under_the_names_of_hosts(environment: pytest.MonkeyPatch, name: str) -> None:
    environment.setenv("DATABASE_URL", "")  # an empty variable counts as not set
    environment.setenv(name, "postgres://u:p%40ss%25@db.example/site")
    assert load().sqlalchemy_url == "postgresql+psycopg://u:p%40ss%25@db.example/site"


@pytest.mark.parametrize("name", ["REDIS_URL", "REDIS_TLS_URL", "SCALINGO_REDIS_URL"])
def test_redis_is_found_under_the_names_of_hosts(environment: pytest.MonkeyPatch, name: str) -> None:
    environment.delenv("REDIS_URL")
    environment.setenv(name, "rediss://:p@redis.example:6380")
    assert load().redis_url.get_secret_value() == "rediss://:p@redis.example:6380"


@pytest.mark.parametrize(
    ("name", "value", "address"),
    [
        ("APP_BASE_URL", "https://ours.example", "https://ours.example"),
        ("RENDER_EXTERNAL_URL", "https://w.onrender.com", "https://w.onrender.com"),
        ("RAILWAY_PUBLIC_DOMAIN", "w.up.railway.app", "https://w.up.railway.app"),
        ("APP_URL", "https://w.ondigitalocean.app", "https://w.ondigitalocean.app"),
        ("COOLIFY_URL", "https://w.example,https://www.w.example", "https://w.example"),
        ("FLY_APP_NAME", "w", "https://w.fly.dev"),
    ],
)
def test_the_sites_own_address_is_found_under_the_names_of_hosts(
    environment: pytest.MonkeyPatch, name: str, value: str, address: str
) -> None:
    assert load().app_base_url is None
    environment.setenv(name, value)
    assert load().app_base_url == address


def test_our_own_name_wins_over_a_hosts(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("POSTGRESQL_ADDON_URI", "postgres://u@other/site")
    environment.setenv("FLY_APP_NAME", "w")
    environment.setenv("APP_BASE_URL", "https://ours.example")
    settings = load()
    assert "@db/site" in settings.sqlalchemy_url
    assert settings.app_base_url == "https://ours.example"


def test_migrations_go_past_the_pooler_where_that_address_is_set(environment: pytest.MonkeyPatch) -> None:
    assert load().migration_url == load().sqlalchemy_url
    environment.setenv("DIRECT_DATABASE_URL", "postgres://u@db:5432/site")
    assert load().migration_url == "postgresql+psycopg://u@db:5432/site"
    environment.setenv("DIRECT_DATABASE_URL", "mysql://u:hunter2@db/site")
    with pytest.raises(SettingsWrong, match="DIRECT_DATABASE_URL must start with") as wrong:
        load()
    assert "hunter2" not in str(wrong.value)


def test_a_certificate_is_checked_unless_the_site_says_otherwise(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("REDIS_URL", "rediss://redis.example:6380")
    for said, checked in ((None, "CERT_REQUIRED"), ("1", "CERT_REQUIRED"), ("0", "CERT_NONE"), ("false", "CERT_NONE")):
        if said is not None:
            environment.setenv("REDIS_TLS_VERIFY", said)
        made = connect(load(), connections=1).connection_pool.make_connection()
        assert isinstance(made, SSLConnection)
        assert (made.cert_reqs.name, made.check_hostname) == (checked, checked == "CERT_REQUIRED")


def test_an_address_without_tls_is_not_given_what_only_tls_understands(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("REDIS_TLS_VERIFY", "0")
    assert not isinstance(connect(load(), connections=1).connection_pool.make_connection(), SSLConnection)


def test_a_file_that_holds_no_certificate_is_named(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for file in (tmp_path / "ca.pem", tmp_path / "nothing"):
        environment.setenv("REDIS_CA_FILE", str(file))
        with pytest.raises(SettingsWrong, match="REDIS_CA_FILE"):
            load()


def test_an_earlier_secret_that_anybody_could_guess_is_refused() -> None:
    def checked(earlier: str) -> list[str]:
        changed = {"waybill_demo": False, "secret_key": "k" * 40, "secret_key_fallbacks": earlier}
        settings = factories.settings(PLACES, **changed)
        check_web(settings)
        return settings.earlier_secret_keys

    assert checked(f"{'a' * 20}, {'b' * 20},") == ["a" * 20, "b" * 20]
    with pytest.raises(SettingsWrong, match="SECRET_KEY_FALLBACKS"):
        checked(f"{'a' * 20},changeme")


@pytest.mark.parametrize("name", ["DATABASE_URL", "DIRECT_DATABASE_URL"])
@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("pgbouncer=true", "the parameter pgbouncer. Remove it: the app works behind a pooler as it is."),
        ("sslmode=require&connection_limit=1", "the parameter connection_limit. Remove it, and set DATABASE_POOL_SIZE"),
        ("schema=public", "the parameter schema. Remove it, or write options="),
        ("sslaccept=strict", "the parameter sslaccept. Write sslmode="),
        ("uselibpqcompat=", "the parameter uselibpqcompat. Remove it from the address."),
        ("supa=base-pooler.x", "the parameter supa. Remove it from the address."),
        ("hunter2%40x=1", "one of its parameters. Remove it"),
    ],
)
def test_a_parameter_that_libpq_does_not_know_is_named(
    environment: pytest.MonkeyPatch, name: str, parameters: str, told: str
) -> None:
    environment.setenv(name, f"postgres://u:hunter2@db/site?{parameters}")
    with pytest.raises(SettingsWrong) as wrong:
        load()
    assert [fault for fault in wrong.value.problems if fault.startswith(f"{name}: ") and told in fault], (
        wrong.value.problems
    )
    assert len(wrong.value.problems) == 1 and "hunter2" not in str(wrong.value)


@pytest.mark.parametrize(
    "parameters",
    ["", "sslmode=require", "options=-csearch_path%3Da&channel_binding=require", "application_name=x&host=/tmp"],
)
def test_what_libpq_knows_is_taken(environment: pytest.MonkeyPatch, parameters: str) -> None:
    environment.setenv("DATABASE_URL", f"postgres://u@db/site?{parameters}")
    load()


def test_a_password_that_ends_at_its_question_mark_is_named_and_not_shown(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("DATABASE_URL", "postgres://u:hun?ter2=x@db/site")
    with pytest.raises(SettingsWrong, match=r"^DATABASE_URL: a \? in the user name or password") as wrong:
        load()
    assert "ter2" not in str(wrong.value)


@pytest.mark.parametrize(
    "address", ["redis://:hunter2@r/0?family=0", "redis://:hunter2@r:x/0", "redis://:hunter2@r?ssl_cert_reqs=none"]
)
def test_an_address_that_the_client_of_redis_cannot_read_is_named(
    environment: pytest.MonkeyPatch, address: str
) -> None:
    environment.setenv("REDIS_URL", address)
    with pytest.raises(SettingsWrong, match=r"^REDIS_URL cannot be read") as wrong:
        connect(load(), connections=1)
    assert "hunter2" not in str(wrong.value)
