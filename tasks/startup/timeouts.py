"""The limits on one attempt, from the innermost to the outermost: each fires before the next outer limit.

So when a limit fires, there is still time to record what happened before the next limit. The number of attempts and the
job's deadline complete the list.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.settings import Settings


@dataclass(frozen=True)
class Budget:
    """Represents one limit: the setting that sets it, its seconds, and what happens when it fires."""

    setting: str
    seconds: float
    then: str


def nested(settings: Settings) -> list[Budget]:
    """Return the limits on one attempt, innermost first."""
    return [
        Budget(
            "CONNECT_TIMEOUT_SECONDS",
            settings.connect_timeout_seconds,
            "no connection to the provider; nothing was sent, the attempt is tried again",
        ),
        Budget(
            "PROVIDER_CALL_SECONDS",
            settings.provider_call_seconds,
            "the call is given up and recorded as unknown; it is repeated once at most",
        ),
        Budget(
            "ATTEMPT_SECONDS",
            settings.attempt_seconds,
            "the attempt ends as timed out and is tried again, if any is left",
        ),
        Budget(
            "RQ's job timeout, made from ATTEMPT_SECONDS and RESERVATION_SECONDS,",
            settings.job_timeout_seconds,
            "an exception ends an attempt whose own code does not come back",
        ),
        Budget(
            "RESERVATION_SECONDS",
            settings.reservation_seconds,
            "the claim is over, renewed or not; another worker takes the job, this one restarts",
        ),
        Budget(
            "RUNTIME_ALLOWANCE_SECONDS",
            settings.runtime_allowance_seconds,
            "what the host must at least let a process run",
        ),
    ]


def problems(settings: Settings) -> list[str]:
    """Return a line for each pair of limits that does not nest, which names both settings."""
    found = [
        f"{inner.setting} ({inner.seconds:g}) must be less than {outer.setting.rstrip(',')} ({outer.seconds:g})."
        for inner, outer in itertools.pairwise(nested(settings))
        if inner.seconds >= outer.seconds
    ]
    if settings.lease_seconds > settings.reservation_seconds:
        found.append(
            f"LEASE_SECONDS ({settings.lease_seconds:g}) must not be more than "
            f"RESERVATION_SECONDS ({settings.reservation_seconds:g})."
        )
    if settings.max_attempts * settings.attempt_seconds > settings.job_deadline_seconds:
        found.append(
            f"MAX_ATTEMPTS x ATTEMPT_SECONDS ({settings.max_attempts} x {settings.attempt_seconds:g}) must not be "
            f"more than JOB_DEADLINE_SECONDS ({settings.job_deadline_seconds:g})."
        )
    return found
