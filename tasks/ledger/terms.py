"""The terms under which jobs are accepted and put back: values that the settings fill in."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """What an account may ask for. None, or 0: no limit."""

    jobs_per_day: int | None = None
    jobs_at_once: int | None = None
    tokens_per_month: int | None = None


@dataclass(frozen=True)
class Terms:
    """On what terms a site accepts jobs: the queue they go through, how long each may take, how often it is tried, and
    how much an account may ask for."""

    queue: str
    deadline_seconds: float
    max_attempts: int
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class ReplayTerms:
    """What a job that is put back gets: so much time, so many attempts more; and the lane it will go through."""

    deadline_seconds: float
    more_attempts: int
    lane: str
