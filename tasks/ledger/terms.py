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


@dataclass(frozen=True)
class RenewalTimes:
    """The times that follow from the interval between two heartbeats of a worker, in seconds.

    `grace_seconds` is how long the reconciler may take to notice a lost claim before its job counts as an orphan.
    """

    beat_seconds: float
    grace_seconds: float

    @property
    def silent_seconds(self) -> float:
        """Return how old the last heartbeat of a worker must be for the end of its session to count."""
        return self.beat_seconds * 1.25

    @property
    def gap_seconds(self) -> float:
        """Return the pause between two heartbeats after which they no longer count as continuous."""
        return self.beat_seconds * 3

    @property
    def chance_seconds(self) -> float:
        """Return how long heartbeats must have arrived without a gap before anything is taken back."""
        return self.beat_seconds * 4.5
