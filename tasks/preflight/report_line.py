"""A line of the report: a question, the measurement, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Ranks a finding.

    FAIL: a job could be lost or wait for ever. WARN: work is slower, repeated or costs more. SKIP: not checked.
    """

    OK = "ok"
    WARN = "WARN"
    FAIL = "FAIL"
    SKIP = "--"


@dataclass(frozen=True)
class Finding:
    """Represents the answer to one question. `remedy` is shown unless the level is OK."""

    level: Level
    question: str
    measured: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = "" if self.level is Level.OK or not self.remedy else f". {self.remedy}"
        return f"{self.level:<4}  {self.question}: {self.measured}{remedy}"


def judge(is_ok: bool, otherwise: Level) -> Level:
    """Return OK if the check passed, else the given level."""
    return Level.OK if is_ok else otherwise


def clock(question: str, ahead_seconds: float, unsure_seconds: float) -> Finding:
    """Check that a server's clock agrees with this host's, within the uncertainty of the measurement."""
    difference = max(0.0, abs(ahead_seconds) - unsure_seconds)
    side = "ahead of" if ahead_seconds > 0 else "behind"
    return Finding(
        judge(difference <= CLOCKS_MAY_DIFFER_SECONDS, Level.WARN),
        question,
        f"{abs(ahead_seconds):.1f} s {side} this host's, to within {unsure_seconds:.2f} s",
        "Retries and shown times are off by as much. Have the hosts' clocks set by NTP",
    )


CLOCKS_MAY_DIFFER_SECONDS = 2.0


def fits(question: str, *, used: int, most: int | None, needed: int, what: str) -> Finding:
    """Check that the site may open the connections that it needs, twice during a deploy, when old and new run at once.

    `used` counts the connections of other clients. `most` None means that there is no limit, or it is not known.
    """
    if most is None:
        return Finding(Level.OK, question, f"no limit is told; the site needs up to {needed}, twice that in a deploy")
    left = most - used
    level = Level.FAIL if needed > left else judge(2 * needed <= left, Level.WARN)
    return Finding(
        level,
        question,
        f"{most} allowed, {used} used by others; the site needs up to {needed}, twice that in a deploy ({what})",
        "Take a larger plan, fewer processes, or a smaller DATABASE_POOL_SIZE",
    )
