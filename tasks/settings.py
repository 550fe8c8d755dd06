"""Every setting, typed, from the environment, cross-checked, and refused when wrong.

That the limits on an attempt nest is checked in `tasks.budgets`.
"""

from __future__ import annotations

import math
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from tasks import budgets
from tasks.costs import Prices, PricesWrong, parse_prices
from tasks.ledger.recording import Terms

POSTGRES_SCHEMES = ("postgres", "postgresql", "postgresql+psycopg")
REDIS_SCHEMES = ("redis", "rediss", "unix")
SAMPLE_SECRETS = frozenset({"change-me", "changeme", "secret", "dev", "your-secret-key", "replace-me"})
MINIMUM_SECRET_LENGTH = 16


class SettingsWrong(Exception):
    """The process must not start. `faults` has one line a fault, each naming the settings it is about."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class Settings(BaseSettings):
    """What the environment says. Durations are seconds. An empty variable counts as not set."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    database_url: SecretStr = Field(description="PostgreSQL. postgres:// and postgresql:// both work.")
    redis_url: SecretStr = Field(description="Redis 6.2 or newer, or Valkey.")
    secret_key: SecretStr | None = Field(None, description="Signs sessions and forms. Required by the web process.")
    app_base_url: str | None = Field(None, description="The address people open, for links made outside a request.")
    waybill_demo: bool = Field(False, description="Set by `make demo` only: plain http, a known secret.")

    ai_provider: Literal["openai", "local"] = Field("openai", description="`local` makes an extract without any AI.")
    openai_api_key: SecretStr | None = None
    openai_base_url: str | None = Field(None, description="Another server that speaks the same language.")
    openai_api: Literal["responses", "chat"] = "responses"
    openai_background: bool = Field(False, description="Hand requests over and ask afterwards.")
    openai_store_after: bool = Field(True, description="Whether the provider may keep a response that is saved here.")
    ai_model: str = "gpt-5-mini"

    model_prices: str = Field("", description="model=input/output,… in currency units for a million tokens.")
    show_cost_to_owner: bool = Field(False, description="Show tokens and cost of a job to whom it belongs.")

    connect_timeout_seconds: float = Field(5, gt=0, allow_inf_nan=False)
    provider_call_seconds: float = Field(60, gt=0, allow_inf_nan=False)
    attempt_seconds: float = Field(90, gt=0, allow_inf_nan=False)
    reservation_seconds: float = Field(120, gt=0, allow_inf_nan=False)
    runtime_allowance_seconds: float = Field(150, gt=0, allow_inf_nan=False)
    job_deadline_seconds: float = Field(600, gt=0, allow_inf_nan=False)
    lease_seconds: float = Field(15, gt=0, allow_inf_nan=False)
    max_attempts: int = Field(3, ge=1)
    max_interruptions: int = Field(5, ge=0)
    shutdown_grace_seconds: float = Field(25, gt=0, allow_inf_nan=False)

    queue_name: str = Field("waybill", pattern=r"^[A-Za-z0-9_-]{1,40}$")
    worker_slots: int = Field(16, ge=1, le=400)
    worker_max_jobs: int | None = Field(None, ge=1, description="Recycle the worker after so many deliveries.")
    provider_concurrency: int = Field(16, ge=1, le=400)
    database_pool_size: int = Field(4, ge=1, description="Connections to PostgreSQL a process may hold.")
    sweep_seconds: float = Field(2, gt=0, allow_inf_nan=False, description="How often the reconciler looks.")

    web_threads: int = Field(8, ge=1, description="Threads of a web process. Half of them may wait for a job.")
    api_requests_per_minute: int = Field(600, ge=1, description="Requests an account may send to the API.")
    max_upload_bytes: int = Field(10 * 1024 * 1024, ge=1024)
    call_chars: int = Field(24_000, ge=200, description="Characters of a document that one request may hold.")
    parts_at_once: int = Field(
        4, ge=1, le=16, description="Parts of one document that are summarised at the same time."
    )
    max_document_chars: int = Field(200_000, ge=1000)
    registration: Literal["open", "invite", "closed"] = "open"
    retention_days: int = Field(30, ge=1)
    proxy_hops: int = Field(1, ge=0, description="Trusted proxies in front of the web process.")

    @property
    def prices(self) -> Prices:
        """MODEL_PRICES by model; empty where it is not set. Raises PricesWrong."""
        return parse_prices(self.model_prices)

    @property
    def job_timeout_seconds(self) -> int:
        """When RQ gives up on a delivery: a third of the way from the attempt's end to the reservation's."""
        return math.ceil(self.attempt_seconds + max(1.0, (self.reservation_seconds - self.attempt_seconds) / 3))

    @property
    def lane(self) -> str:
        """The name of the way to the provider, for everybody who goes through this queue."""
        return f"{self.queue_name}:{self.ai_provider}"

    @property
    def terms(self) -> Terms:
        """On what terms jobs are accepted."""
        return Terms(self.queue_name, self.job_deadline_seconds, self.max_attempts)

    @property
    def sqlalchemy_url(self) -> str:
        """DATABASE_URL as SQLAlchemy wants it, with the psycopg 3 driver. Hosts hand out `postgres://`."""
        _, _, rest = self.database_url.get_secret_value().partition("://")
        return f"postgresql+psycopg://{rest}"


def load() -> Settings:
    """The settings of this process, from its environment. Raises SettingsWrong, naming every fault."""
    try:
        settings = Settings()
    except ValidationError as error:
        raise SettingsWrong([_say(fault) for fault in error.errors(include_input=False)]) from None
    faults = [
        *_wrong_addresses(settings),
        *_wrong_provider(settings),
        *_wrong_prices(settings),
        *budgets.faults(settings),
    ]
    if faults:
        raise SettingsWrong(faults)
    return settings


def check_web(settings: Settings) -> None:
    """What only the web process needs: a secret of its own. Raises SettingsWrong."""
    if settings.waybill_demo:
        return
    secret = "" if settings.secret_key is None else settings.secret_key.get_secret_value().strip()
    if not secret:
        raise SettingsWrong(["SECRET_KEY is missing. Set it to a long random text, the same for every web process."])
    if len(secret) < MINIMUM_SECRET_LENGTH or secret.lower() in SAMPLE_SECRETS:
        raise SettingsWrong(
            [f"SECRET_KEY is too short or a sample. Use at least {MINIMUM_SECRET_LENGTH} random characters."]
        )


def _say(fault: Any) -> str:
    name = str(fault["loc"][0]).upper() if fault["loc"] else "settings"
    return f"{name} is missing." if fault["type"] == "missing" else f"{name}: {fault['msg'].lower()}."


def _wrong_addresses(settings: Settings) -> list[str]:
    faults = []
    for name, value, schemes in (
        ("DATABASE_URL", settings.database_url, POSTGRES_SCHEMES),
        ("REDIS_URL", settings.redis_url, REDIS_SCHEMES),
    ):
        try:
            scheme = urlsplit(value.get_secret_value()).scheme
        except ValueError:
            scheme = ""
        if scheme not in schemes:
            faults.append(f"{name} must start with {' or '.join(scheme + '://' for scheme in schemes)}.")
    return faults


def _wrong_provider(settings: Settings) -> list[str]:
    if settings.ai_provider == "openai" and settings.openai_api_key is None:
        return ["OPENAI_API_KEY is missing. Set it, or set AI_PROVIDER=local to run without an AI service."]
    if settings.openai_background and (settings.ai_provider, settings.openai_api) != ("openai", "responses"):
        return ["OPENAI_BACKGROUND=1 needs AI_PROVIDER=openai and OPENAI_API=responses. Change one of the three."]
    return []


def _wrong_prices(settings: Settings) -> list[str]:
    try:
        parse_prices(settings.model_prices)
    except PricesWrong as wrong:
        return [f"MODEL_PRICES: {wrong}. Write it like gpt-5-mini=0.25/2.00,other=1/4, or leave it empty."]
    return []
