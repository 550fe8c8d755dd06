"""Every setting, typed, from the environment, cross-checked, and refused when wrong.

That the limits on an attempt nest is checked in `tasks.startup.timeouts`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from tasks.ledger.terms import Limits, ReplayTerms, Terms
from tasks.settings import connection_urls
from tasks.settings.prices import Prices, parse_prices

SAMPLE_SECRETS = frozenset({"change-me", "changeme", "secret", "dev", "your-secret-key", "replace-me"})
MINIMUM_SECRET_LENGTH = 16


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SettingsWrong(Exception):
    """The process must not start. `faults` has one line a fault, each naming the settings it is about."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class Settings(BaseSettings):
    """What the environment says. Durations are seconds. An empty variable counts as not set."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    database_url: SecretStr = Field(description="PostgreSQL. postgres:// and postgresql:// both work.")
    direct_database_url: SecretStr | None = Field(
        None, description="The same database past a pooler. Migrations use it where it is set."
    )
    redis_url: SecretStr = Field(description="Redis 6.2 or newer, or Valkey. rediss:// speaks TLS.")
    redis_tls_verify: bool = Field(True, description="0: with rediss://, take any certificate, self-signed ones too.")
    redis_ca_file: Path | None = Field(None, description="Certificates that vouch for Redis, instead of the system's.")
    secret_key: SecretStr | None = Field(None, description="Signs sessions and forms. Required by the web process.")
    secret_key_fallbacks: SecretStr | None = Field(
        None, description="Earlier SECRET_KEYs, comma separated. What they signed still counts; they sign nothing new."
    )
    app_base_url: str | None = Field(
        None, description="The https address people open, for links made outside a request."
    )
    waybill_demo: bool = Field(False, description="Set by `make demo` only: plain http, a known secret.")

    ai_provider: Literal["openai", "local"] = Field("openai", description="`local` makes an extract without any AI.")
    openai_api_key: SecretStr | None = Field(None, description="Required unless AI_PROVIDER is local.")
    openai_base_url: str | None = Field(None, description="Another server that speaks the same language.")
    openai_api: Literal["responses", "chat"] = Field(
        "responses", description="`chat` for servers without the Responses API."
    )
    openai_background: bool = Field(
        False, description="Hand requests over and ask afterwards, so that a killed worker loses none."
    )
    openai_store_after: bool = Field(True, description="Whether the provider may keep a response that is saved here.")
    ai_model: str = Field("gpt-5-mini", description="The model that is asked.")

    model_prices: str = Field("", description="model=input/output,… in currency units for a million tokens.")
    show_cost_to_owner: bool = Field(False, description="Show tokens and cost of a job to whom it belongs.")

    connect_timeout_seconds: Seconds = Field(5, description="Connecting to the AI service.")
    provider_call_seconds: float = Field(
        60, gt=0, allow_inf_nan=False, description="One request to the AI service, by the wall clock."
    )
    attempt_seconds: float = Field(
        90, gt=0, allow_inf_nan=False, description="One attempt at a job, with all its requests."
    )
    reservation_seconds: float = Field(
        120,
        gt=0,
        allow_inf_nan=False,
        description="The hard end of a claim, renewed or not. Then another worker takes the job.",
    )
    runtime_allowance_seconds: float = Field(
        150, gt=0, allow_inf_nan=False, description="What the host must at least let a process run."
    )
    job_deadline_seconds: float = Field(
        600, gt=0, allow_inf_nan=False, description="A whole job, with waiting and all attempts."
    )
    lease_seconds: float = Field(
        15, gt=0, allow_inf_nan=False, description="How long a worker may be silent before its jobs are taken back."
    )
    max_attempts: int = Field(3, ge=1, description="Attempts that count; an interruption does not.")
    max_interruptions: int = Field(5, ge=0, description="A job that was interrupted more often ends.")
    shutdown_grace_seconds: float = Field(
        25, gt=0, allow_inf_nan=False, description="How long the host waits between SIGTERM and SIGKILL."
    )

    queue_name: str = Field(
        "waybill",
        pattern=r"^[A-Za-z0-9_-]{1,40}$",
        description="The queue in Redis. Sites that share a Redis need different ones.",
    )
    worker_slots: int = Field(16, ge=1, le=400, description="Jobs a worker works on at once; a slot costs little.")
    worker_max_jobs: int | None = Field(None, ge=1, description="Recycle the worker after so many deliveries.")
    provider_concurrency: int = Field(16, ge=1, le=400, description="Requests in the air at once, over all workers.")
    database_pool_size: int = Field(4, ge=1, description="Connections to PostgreSQL a process may hold.")
    sweep_seconds: Seconds = Field(2, description="How often the reconciler looks.")

    database_pooler: Literal["none", "transaction"] = Field(
        "none", description="`transaction` where a pooler such as PgBouncer in transaction mode is meant to be there."
    )
    web_concurrency: int = Field(1, ge=1, description="Web processes. Hosts set it; preflight counts with it.")

    max_upload_bytes: int = Field(10 * 1024 * 1024, ge=1024, description="The largest file that is accepted.")
    web_threads: int = Field(8, ge=1, description="Threads of a web process. Half of them may wait for a job.")
    api_requests_per_minute: int = Field(600, ge=1, description="Requests an account may send to the API.")
    jobs_per_day: int = Field(100, ge=0, description="Jobs an account may hand in within 24 hours. 0: no limit.")
    jobs_at_once: int = Field(20, ge=0, description="Unfinished jobs an account may have. 0: no limit.")
    tokens_per_month: int = Field(
        0, ge=0, description="Tokens an account may use in a month before nothing more is accepted. 0: no limit."
    )
    call_chars: int = Field(24_000, ge=200, description="Characters of a document that one request may hold.")
    parts_at_once: int = Field(
        4, ge=1, le=16, description="Parts of one document that are summarised at the same time."
    )
    max_document_chars: int = Field(200_000, ge=1000, description="The longest text that is accepted, in characters.")
    registration: Literal["open", "invite", "closed"] = Field(
        "open", description="Who may make an account: anybody, or nobody but through an operator."
    )
    retention_days: int = Field(
        30,
        ge=1,
        description="Days after the end of the work until documents and results are deleted.",
    )
    proxy_hops: int = Field(1, ge=0, description="Trusted proxies in front of the web process.")

    rq_dashboard_enabled: bool = Field(False, description="Show rq-dashboard at /ops/rq/, to operators, read only.")
    metrics_token: SecretStr | None = Field(None, description="Opens /metrics to who sends it as a bearer token.")
    sentry_dsn: SecretStr | None = Field(None, description="Send faults of ours to Sentry, without any words.")
    otel_exporter_otlp_endpoint: str | None = Field(None, description="Send traces there, by OTLP over HTTP.")

    smtp_host: str | None = Field(None, description="The server that takes the site's mail. Empty: no mail is offered.")
    smtp_port: int | None = Field(None, ge=1, le=65535, description="Default: 587, with `tls` 465, with `none` 25.")
    smtp_user: str | None = Field(None, description="Who signs in there, where it asks.")
    smtp_password: SecretStr | None = Field(None, description="The password that goes with SMTP_USER.")
    smtp_security: Literal["starttls", "tls", "none"] = Field("starttls", description="`tls`: from the first byte on.")
    mail_from: str | None = Field(None, description="Whom the mail is from, such as Waybill <waybill@example.org>.")
    alert_email: str | None = Field(None, description="Where alerts about the site go by mail.")
    alert_webhook: str | None = Field(None, description="The https address where alerts about the site go.")
    alert_webhook_secret: SecretStr | None = Field(None, description="whsec_ and base64: what those are signed with.")
    alert_queue_age_seconds: float = Field(600, gt=0, allow_inf_nan=False, description="How long work may wait.")
    alert_failures_per_hour: int = Field(20, ge=0, description="How many jobs may fail within an hour.")
    oidc_issuer: str | None = Field(None, description="A sign-in service: the address that its tokens name as issuer.")
    oidc_client_id: str | None = Field(None, description="What that service calls this site.")
    oidc_client_secret: SecretStr | None = Field(None, description="The secret that goes with OIDC_CLIENT_ID.")
    oidc_label: str = Field("single sign-on", description="What people call that service.")
    webhook_loopback: bool = Field(False, description="In the demo only: webhooks may go to this machine, by http too.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What a test gives, then the environment by our names, then by those of hosts. No files."""
        return init_settings, env_settings, connection_urls.HostNames(settings_cls)

    @property
    def prices(self) -> Prices:
        """MODEL_PRICES by model; empty where it is not set. Raises PricesWrong."""
        return parse_prices(self.model_prices)

    @property
    def job_timeout_seconds(self) -> int:
        """When RQ gives up on a delivery: a third of the way from the attempt's end to the reservation's."""
        return math.ceil(self.attempt_seconds + max(1.0, (self.reservation_seconds - self.attempt_seconds) / 3))

    @property
    def orphan_grace_seconds(self) -> float:
        """How long after its lease a job may lie before it counts as an orphan: two sweeps, since one may be busy."""
        return 2 * self.sweep_seconds + 1

    @property
    def lane(self) -> str:
        """The name of the way to the provider, for everybody who goes through this queue."""
        return f"{self.queue_name}:{self.ai_provider}"

    @property
    def terms(self) -> Terms:
        """On what terms jobs are accepted."""
        return Terms(self.queue_name, self.job_deadline_seconds, self.max_attempts, self.limits)

    @property
    def limits(self) -> Limits:
        """What an account may ask for, unless an operator has set other limits for it."""
        return Limits(self.jobs_per_day, self.jobs_at_once, self.tokens_per_month)

    @property
    def replay_terms(self) -> ReplayTerms:
        """What a failed job gets that an operator puts back."""
        return ReplayTerms(self.job_deadline_seconds, self.max_attempts, self.lane)

    @property
    def signing_key(self) -> str:
        """What sessions, forms and links in mails are signed with."""
        return self.secret_key.get_secret_value() if self.secret_key else "demo only, never on a real site"

    @property
    def can_mail(self) -> bool:
        """Whether this site can send mail, and so may offer it."""
        return self.smtp_host is not None

    @property
    def sign_in_service(self) -> str | None:
        """What people call the service they may sign in with; None: there is none."""
        return None if self.oidc_issuer is None else self.oidc_label

    @property
    def sqlalchemy_url(self) -> str:
        """DATABASE_URL as SQLAlchemy wants it."""
        return connection_urls.with_our_driver(self.database_url.get_secret_value())

    @property
    def migration_url(self) -> str:
        """The address that migrations use, as SQLAlchemy wants it."""
        return connection_urls.with_our_driver((self.direct_database_url or self.database_url).get_secret_value())

    @property
    def earlier_secret_keys(self) -> list[str]:
        """SECRET_KEY_FALLBACKS, one by one."""
        given = "" if self.secret_key_fallbacks is None else self.secret_key_fallbacks.get_secret_value()
        return [key.strip() for key in given.split(",") if key.strip()]
