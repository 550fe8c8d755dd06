"""Every setting, typed, from the environment. Wrong values are refused.

`tasks.startup` checks the settings against each other; `tasks.startup.timeouts` checks that the limits nest.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from tasks.ledger.terms import Limits, RenewalTimes, ReplayTerms, Terms
from tasks.settings import connection_urls
from tasks.settings.prices import Prices, parse_prices

SAMPLE_SECRETS = frozenset({"change-me", "changeme", "secret", "dev", "your-secret-key", "replace-me"})
MINIMUM_SECRET_LENGTH = 16


Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class SettingsWrong(Exception):
    """Raised when the process must not start. `problems` has a line for each problem, which names its settings."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Settings(BaseSettings):
    """Holds the settings, from the environment. Durations are in seconds. An empty variable counts as not set."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    database_url: SecretStr = Field(description="PostgreSQL. postgres:// and postgresql:// both work.")
    direct_database_url: SecretStr | None = Field(
        None, description="The same database past a pooler. Migrations use it where it is set."
    )
    redis_url: SecretStr = Field(description="Redis 6.2 or newer, or Valkey. rediss:// speaks TLS.")
    redis_tls_verify: bool = Field(True, description="0 accepts any certificate with rediss://, self-signed ones too.")
    redis_ca_file: Path | None = Field(None, description="CA certificates to trust for Redis, instead of the system's.")
    secret_key: SecretStr | None = Field(None, description="Signs sessions and forms. Required by the web process.")
    secret_key_fallbacks: SecretStr | None = Field(
        None, description="Earlier SECRET_KEYs, comma separated. What they signed stays valid; they sign nothing new."
    )
    app_base_url: str | None = Field(
        None, description="The https address of the site, for links made outside a request."
    )
    waybill_demo: bool = Field(False, description="Set by `make demo` only: plain http, a known secret.")

    ai_provider: Literal["openai", "local"] = Field("openai", description="`local` makes an extract without any AI.")
    openai_api_key: SecretStr | None = Field(None, description="Required unless AI_PROVIDER is local.")
    openai_base_url: str | None = Field(None, description="Another server with the same API.")
    openai_api: Literal["responses", "chat"] = Field(
        "responses", description="`chat` for servers without the Responses API."
    )
    openai_background: bool = Field(
        False,
        description="Let the provider work in the background and poll it, so that a killed worker loses no answer.",
    )
    openai_store_after: bool = Field(True, description="Let the provider keep a response that is saved here.")
    ai_model: str = Field("gpt-5-mini", description="The model to use.")

    model_prices: str = Field("", description="model=input/output,… in currency units for a million tokens.")
    show_cost_to_owner: bool = Field(False, description="Show the tokens and cost of a job to its owner.")

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
        150, gt=0, allow_inf_nan=False, description="How long the host must at least let a process run."
    )
    job_deadline_seconds: float = Field(
        600, gt=0, allow_inf_nan=False, description="A whole job, with waiting and all attempts."
    )
    lease_seconds: float = Field(
        15,
        gt=0,
        allow_inf_nan=False,
        description="How long a worker that freezes or vanishes may be silent before its jobs are taken back.",
    )
    max_attempts: int = Field(
        3, ge=1, description="Attempts that may be billed; interruptions and refused requests do not count."
    )
    max_interruptions: int = Field(5, ge=0, description="A job that is interrupted more often fails.")
    shutdown_grace_seconds: float = Field(
        25, gt=0, allow_inf_nan=False, description="How long the host waits between SIGTERM and SIGKILL."
    )

    queue_name: str = Field(
        "waybill",
        pattern=r"^[A-Za-z0-9_-]{1,40}$",
        description="The queue in Redis. Sites that share a Redis need different ones.",
    )
    worker_slots: int = Field(16, ge=1, le=400, description="Jobs a worker works on at once; a slot costs little.")
    worker_max_jobs: int | None = Field(None, ge=1, description="Recycle the worker after this many deliveries.")
    provider_concurrency: int = Field(
        16, ge=1, le=400, description="Concurrent requests to the AI service, over all workers."
    )
    database_pool_size: int = Field(4, ge=1, description="Connections to PostgreSQL a process may hold.")
    sweep_seconds: Seconds = Field(2, description="How often the reconciler looks.")

    database_pooler: Literal["none", "transaction"] = Field(
        "none", description="`transaction` if a pooler such as PgBouncer in transaction mode is there on purpose."
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
        "open", description="Who can create an account: anybody, people with an invitation, or operators only."
    )
    retention_days: int = Field(
        30,
        ge=1,
        description="Days after the end of the work until documents and results are deleted.",
    )
    proxy_hops: int = Field(1, ge=0, description="Trusted proxies in front of the web process.")

    rq_dashboard_enabled: bool = Field(False, description="Show rq-dashboard at /ops/rq/, to operators, read only.")
    metrics_token: SecretStr | None = Field(None, description="The bearer token that opens /metrics.")
    sentry_dsn: SecretStr | None = Field(None, description="Send internal errors to Sentry, without any texts.")
    otel_exporter_otlp_endpoint: str | None = Field(None, description="Send traces there, by OTLP over HTTP.")

    smtp_host: str | None = Field(None, description="The server that sends the site's mail. Empty: no mail is offered.")
    smtp_port: int | None = Field(None, ge=1, le=65535, description="Default: 587, with `tls` 465, with `none` 25.")
    smtp_user: str | None = Field(None, description="The user name at SMTP_HOST, if it needs one.")
    smtp_password: SecretStr | None = Field(None, description="The password that goes with SMTP_USER.")
    smtp_security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="`tls`: encrypted from the first byte on."
    )
    mail_from: str | None = Field(None, description="The sender of the mail, such as Waybill <waybill@example.org>.")
    alert_email: str | None = Field(None, description="The address for alerts about the site by mail.")
    alert_webhook: str | None = Field(None, description="The https address for alerts about the site.")
    alert_webhook_secret: SecretStr | None = Field(None, description="Signs those alerts: whsec_ and base64.")
    alert_queue_age_seconds: float = Field(
        600, gt=0, allow_inf_nan=False, description="How long work may wait before an alert."
    )
    alert_failures_per_hour: int = Field(20, ge=0, description="How many jobs may fail within an hour before an alert.")
    oidc_issuer: str | None = Field(None, description="A sign-in service: the issuer address in its tokens.")
    oidc_client_id: str | None = Field(None, description="The client id of this site at that service.")
    oidc_client_secret: SecretStr | None = Field(None, description="The secret that goes with OIDC_CLIENT_ID.")
    oidc_label: str = Field("single sign-on", description="The name of that service on the sign-in page.")
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
        """Read arguments (in tests), then the environment under our names, then under those of hosts. Read no files."""
        return init_settings, env_settings, connection_urls.HostNames(settings_cls)

    @property
    def prices(self) -> Prices:
        """Return MODEL_PRICES by model; empty if it is not set. Raises PricesWrong."""
        return parse_prices(self.model_prices)

    @property
    def has_database_session(self) -> bool:
        """Return True if a connection is a session of PostgreSQL, so that what it sets lasts. A pooler shares it."""
        return self.database_pooler == "none"

    @property
    def job_timeout_seconds(self) -> int:
        """Return when RQ gives up on a delivery: a third of the way from the attempt's end to the reservation's."""
        return math.ceil(self.attempt_seconds + max(1.0, (self.reservation_seconds - self.attempt_seconds) / 3))

    @property
    def reader_wait_seconds(self) -> float:
        """Return how long an attempt waits for a reader. It gets that time back, within RQ's limit on its delivery."""
        return 0.8 * (self.job_timeout_seconds - self.attempt_seconds)

    @property
    def heartbeat_seconds(self) -> float:
        """Return the interval of a worker's heartbeats, so that it learns of a cancel request within two seconds."""
        return min(self.lease_seconds / 3, 2.0)

    @property
    def watch_seconds(self) -> float:
        """Return the interval in which a worker asks what is due. Where sweeps are more frequent, it is theirs."""
        return min(2.0, self.sweep_seconds)

    @property
    def renewal(self) -> RenewalTimes:
        """Return when a claim counts as lost. The reconciler may need two sweeps, since one may be busy, and 1 s."""
        return RenewalTimes(self.heartbeat_seconds, grace_seconds=2 * self.sweep_seconds + 1)

    @property
    def lane(self) -> str:
        """Return the name of the lane to the provider, which all workers of this queue share."""
        return f"{self.queue_name}:{self.ai_provider}"

    @property
    def terms(self) -> Terms:
        """Return the terms on which jobs are accepted."""
        return Terms(self.queue_name, self.job_deadline_seconds, self.max_attempts, self.limits)

    @property
    def limits(self) -> Limits:
        """Return the limits of an account, unless an operator has set other limits for it."""
        return Limits(self.jobs_per_day, self.jobs_at_once, self.tokens_per_month)

    @property
    def replay_terms(self) -> ReplayTerms:
        """Return the terms of a failed job that an operator replays."""
        return ReplayTerms(self.job_deadline_seconds, self.max_attempts, self.lane)

    @property
    def signing_key(self) -> str:
        """Return the key that signs sessions, forms and links in mails."""
        return self.secret_key.get_secret_value() if self.secret_key else "demo only, never on a real site"

    @property
    def can_mail(self) -> bool:
        """Return True if this site can send mail, and so may offer it."""
        return self.smtp_host is not None

    @property
    def sign_in_service(self) -> str | None:
        """Return the name of the sign-in service for users; None if there is none."""
        return None if self.oidc_issuer is None else self.oidc_label

    @property
    def sqlalchemy_url(self) -> str:
        """Return DATABASE_URL in the form for SQLAlchemy."""
        return connection_urls.with_our_driver(self.database_url.get_secret_value())

    @property
    def migration_url(self) -> str:
        """Return the URL for migrations, in the form for SQLAlchemy."""
        return connection_urls.with_our_driver((self.direct_database_url or self.database_url).get_secret_value())

    @property
    def earlier_secret_keys(self) -> list[str]:
        """Return the keys in SECRET_KEY_FALLBACKS."""
        given = "" if self.secret_key_fallbacks is None else self.secret_key_fallbacks.get_secret_value()
        return [key.strip() for key in given.split(",") if key.strip()]
