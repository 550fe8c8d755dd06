"""The terms on which jobs are accepted and replayed. The caller fills them in from the settings."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """The limits of an account. None or 0: no limit."""

    jobs_per_day: int | None = None
    jobs_at_once: int | None = None
    tokens_per_month: int | None = None


@dataclass(frozen=True)
class Terms:
    """The terms on which a site accepts jobs: queue, time and attempts of each job, and the limits of an account."""

    queue: str
    deadline_seconds: float
    max_attempts: int
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class ReplayTerms:
    """The terms of a replay: the new deadline and the extra attempts of each job, and the lane that they will use."""

    deadline_seconds: float
    more_attempts: int
    lane: str
