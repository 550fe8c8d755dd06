from __future__ import annotations

import pytest

from tasks.settings import SettingsWrong
from tasks.startup.loading import check_web, load

GOOD = {
    "DATABASE_URL": "postgres://u:p%40ss%25@db.example:5432/site?sslmode=require",
    "REDIS_URL": "redis://localhost:6379/0",
    "OPENAI_API_KEY": "sk-secret-key-of-the-site",
    "SECRET_KEY": "a long random text of our own",
}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    from tasks.settings import Settings

    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in GOOD.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def faults() -> str:
    with pytest.raises(SettingsWrong) as wrong:
        load()
    return "\n".join(wrong.value.problems)


def test_good_defaults_need_no_settings_but_the_addresses_and_the_key(environment: pytest.MonkeyPatch) -> None:
    settings = load()
    check_web(settings)
    assert settings.attempt_seconds < settings.job_timeout_seconds < settings.reservation_seconds


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_way_a_host_writes_the_database_address_works(environment: pytest.MonkeyPatch, scheme: str) -> None:
    environment.setenv("DATABASE_URL", f"{scheme}://u:p%40ss%25@db.example:5432/site?sslmode=require")
    assert load().sqlalchemy_url == "postgresql+psycopg://u:p%40ss%25@db.example:5432/site?sslmode=require"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"PROVIDER_CALL_SECONDS": "120"}, ["PROVIDER_CALL_SECONDS", "ATTEMPT_SECONDS"]),
        ({"ATTEMPT_SECONDS": "130", "JOB_DEADLINE_SECONDS": "1000"}, ["ATTEMPT_SECONDS", "RESERVATION_SECONDS"]),
        ({"RESERVATION_SECONDS": "150"}, ["RESERVATION_SECONDS", "RUNTIME_ALLOWANCE_SECONDS"]),
        ({"JOB_DEADLINE_SECONDS": "200"}, ["MAX_ATTEMPTS x ATTEMPT_SECONDS", "JOB_DEADLINE_SECONDS"]),
        ({"LEASE_SECONDS": "121"}, ["LEASE_SECONDS", "RESERVATION_SECONDS"]),
        ({"CONNECT_TIMEOUT_SECONDS": "60"}, ["CONNECT_TIMEOUT_SECONDS", "PROVIDER_CALL_SECONDS"]),
        ({"PROVIDER_CALL_SECONDS": "0"}, ["PROVIDER_CALL_SECONDS"]),
        ({"ATTEMPT_SECONDS": "-1"}, ["ATTEMPT_SECONDS"]),
        ({"LEASE_SECONDS": "abc"}, ["LEASE_SECONDS"]),
        ({"PROVIDER_CALL_SECONDS": "none"}, ["PROVIDER_CALL_SECONDS"]),
        ({"PROVIDER_CALL_SECONDS": "inf"}, ["PROVIDER_CALL_SECONDS"]),
        ({"AI_PROVIDER": "magic"}, ["AI_PROVIDER"]),
        ({"REGISTRATION": "sometimes"}, ["REGISTRATION"]),
        ({"OPENAI_BACKGROUND": "1", "AI_PROVIDER": "local"}, ["OPENAI_BACKGROUND", "AI_PROVIDER"]),
        ({"OPENAI_BACKGROUND": "1", "OPENAI_API": "chat"}, ["OPENAI_BACKGROUND", "OPENAI_API"]),
        ({"METRICS_TOKEN": "hunter2"}, ["METRICS_TOKEN"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "hunter2:4318"}, ["OTEL_EXPORTER_OTLP_ENDPOINT"]),
        ({"DATABASE_URL": "mysql://u:hunter2@db/site"}, ["DATABASE_URL"]),
        ({"REDIS_URL": "http://:hunter2@redis"}, ["REDIS_URL"]),
    ],
)
def test_what_does_not_nest_or_makes_no_sense_is_refused_by_name(
    environment: pytest.MonkeyPatch, changed: dict[str, str], named: list[str]
) -> None:
    for name, value in changed.items():
        environment.setenv(name, value)
    said = faults()
    assert all(name in said for name in named)
    assert "hunter2" not in said


@pytest.mark.parametrize("missing", ["DATABASE_URL", "REDIS_URL", "OPENAI_API_KEY"])
def test_a_missing_setting_is_named(environment: pytest.MonkeyPatch, missing: str) -> None:
    environment.delenv(missing)
    assert missing in faults()


def test_an_empty_setting_is_not_set_and_never_means_no_limit(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("PROVIDER_CALL_SECONDS", "")
    assert load().provider_call_seconds == 60


@pytest.mark.parametrize("secret", [None, "", "   ", "short", "your-secret-key"])
def test_the_web_process_refuses_a_missing_short_or_sample_secret(
    environment: pytest.MonkeyPatch, secret: str | None
) -> None:
    environment.delenv("SECRET_KEY")
    if secret is not None:
        environment.setenv("SECRET_KEY", secret)
    with pytest.raises(SettingsWrong, match="SECRET_KEY"):
        check_web(load())


def test_no_secret_shows_in_a_repr(environment: pytest.MonkeyPatch) -> None:
    shown = repr(load())
    assert "sk-secret" not in shown
    assert "p%40ss" not in shown
    assert GOOD["SECRET_KEY"] not in shown


def test_prices_are_read(environment: pytest.MonkeyPatch) -> None:
    assert load().prices == {}
    environment.setenv("MODEL_PRICES", "gpt-5-mini=0.25/2.00,other=1/4")
    assert set(load().prices) == {"gpt-5-mini", "other"} and load().show_cost_to_owner is False


@pytest.mark.parametrize("text", ["cheap", "gpt-5-mini=free", "a=1/2,a=1/2"])
def test_prices_that_are_none_are_named(environment: pytest.MonkeyPatch, text: str) -> None:
    environment.setenv("MODEL_PRICES", text)
    assert faults().startswith("MODEL_PRICES: ") and "gpt-5-mini=0.25/2.00" in faults()
