"""Exposes the site's figures to Prometheus at /metrics, protected by METRICS_TOKEN. Without it there is no such page.

No label contains user input: only states, outcomes, categories, and the lane, whose name is made of settings.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from typing import Any

from flask import Blueprint, Response, abort, request
from flask.typing import ResponseReturnValue
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from sqlalchemy import text

from tasks.ledger.delivery.fair_order import SEEN_WITHIN_SECONDS
from tasks.ledger.reports import current, last_hour
from tasks.ledger.reports.current import Now
from tasks.ledger.reports.last_hour import QUANTILES, Durations, LastHour
from tasks.ledger.states import LaneState, State
from webapp.database import transaction
from webapp.extensions import limiter
from webapp.services import services

metrics = Blueprint("metrics", __name__)
limiter.exempt(metrics)

READ_WITHIN_MILLISECONDS = 5000
Labelled = Mapping[tuple[str, ...], float | None]


@metrics.get("/metrics")
def show() -> ResponseReturnValue:
    """Return the figures in Prometheus' text format."""
    token = services().settings.metrics_token
    if token is None:
        abort(404)
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    right = hmac.compare_digest(given.strip().encode(), token.get_secret_value().encode())
    if scheme.lower() != "bearer" or not right:
        return Response(status=401, headers={"WWW-Authenticate": 'Bearer realm="Waybill metrics"'})
    registry = CollectorRegistry()
    registry.register(_read())
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _read() -> SiteCollector:
    settings = services().settings
    with transaction() as session:
        session.execute(text(f"SET LOCAL statement_timeout = {READ_WITHIN_MILLISECONDS}"))
        now = current.now(
            session,
            queue=settings.queue_name,
            lane=settings.lane,
            alive_seconds=SEEN_WITHIN_SECONDS,
            renewal=settings.renewal,
        )
        return SiteCollector(now, last_hour.last_hour(session), last_hour.jobs_estimate(session))


class SiteCollector(Collector):
    """Provides figures as Prometheus metric families. Zeros are included, so that alarms can use them."""

    def __init__(self, now: Now, hour: LastHour, jobs_estimate: int) -> None:
        self._now = now
        self._hour = hour
        self._jobs_estimate = jobs_estimate

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families."""
        yield from self._of_now()
        yield from self._of_the_hour()

    def _of_now(self) -> Iterator[Metric]:
        now = self._now
        workers: Labelled = {("alive",): now.alive, ("stale",): len(now.workers) - now.alive}
        lanes: Labelled = {(lane.name, state): lane.state is state for lane in now.lanes for state in LaneState}
        yield _gauge("jobs", "Unfinished jobs.", ("state",), {(state,): count for state, count in now.jobs.items()})
        yield _gauge("jobs_estimate", "Jobs that are kept, finished ones too; estimated.", value=self._jobs_estimate)
        yield _gauge("oldest_queued_seconds", "The longest wait for a free worker.", value=now.longest_wait_seconds)
        yield _gauge("active_claims", "Jobs under a claim.", value=now.held)
        yield _gauge("orphans", "Jobs that nobody owes anything. Always 0.", value=now.orphans)
        yield _gauge(
            "uncertain_calls", "Calls of unfinished jobs that may be billed, unanswered.", value=now.unknown_calls
        )
        yield _gauge("deliveries_owed", "Deliveries owed.", value=now.owed)
        yield _gauge("deliveries_overdue", "Deliveries that should have been handed over.", value=now.overdue)
        yield _gauge("workers", "Workers that did not say goodbye.", ("state",), workers)
        yield _gauge("lane", "1 for the state that the way to the provider is in.", ("lane", "state"), lanes)

    def _of_the_hour(self) -> Iterator[Metric]:
        hour = self._hour
        attempts: Labelled = {(outcome,): count for outcome, count in hour.attempts.items()}
        tokens: Labelled = {("in",): hour.input_tokens, ("out",): hour.output_tokens}
        results = hour.ended[State.SUCCEEDED, ""]
        yield _gauge("jobs_accepted_last_hour", "Jobs accepted.", value=hour.accepted)
        yield _gauge("jobs_ended_last_hour", "Jobs that ended.", ("state", "category"), dict(hour.ended))
        yield _gauge("results_last_hour", "Results saved.", value=results)
        yield _gauge("attempts_last_hour", "Attempts that ended.", ("outcome",), attempts)
        yield _gauge("retries_last_hour", "Failed attempts that are made again.", value=hour.retries)
        yield _gauge("interruptions_last_hour", "Attempts cut off by a stop or a crash.", value=hour.interruptions)
        yield _gauge("provider_calls_last_hour", "Calls that began.", ("outcome", "category"), dict(hour.calls))
        yield _gauge("tokens_last_hour", "Tokens the provider reported.", ("direction",), tokens)
        yield from _durations("waiting", "From acceptance to the first claim, of jobs that ended.", hour.waiting)
        yield from _durations("working", "Length of an attempt.", hour.working)


def _gauge(
    name: str,
    description: str,
    labels: tuple[str, ...] = (),
    values: Mapping[Any, float | None] | None = None,
    *,
    value: float | None = 0,
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"waybill_{name}", description, labels=labels)
    for label_values, number in ({(): value} if values is None else values).items():
        family.add_metric([str(word) for word in label_values], float(number or 0))
    return family


def _durations(name: str, description: str, took: Durations) -> Iterator[Metric]:
    quantiles: Labelled = {(str(at),): seconds for at, seconds in zip(QUANTILES, took.quantiles, strict=False)}
    yield _gauge(f"{name}_seconds_last_hour", description, ("quantile",), quantiles)
    yield _gauge(f"{name}_seconds_sum_last_hour", f"{description} All together.", value=took.total_seconds)
    yield _gauge(f"{name}_count_last_hour", f"{description} How many.", value=took.count)
