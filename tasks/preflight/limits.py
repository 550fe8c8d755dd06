"""Checks the limits that the settings set: their order, whether they nest, the grace, and background mode."""

from __future__ import annotations

from urllib.parse import urlsplit

from tasks.preflight.report_line import Finding, Level, judge
from tasks.settings import Settings
from tasks.startup import timeouts
from tasks.worker.process import grace_margin

MIN_GRACE_SECONDS = 10.0
HOST_OF_OPENAI = "api.openai.com"


def findings(settings: Settings) -> list[Finding]:
    """Return the findings that need no connection to another service."""
    return [_nest(settings), _stop(settings), _background(settings)]


def table(settings: Settings) -> list[str]:
    """Return lines with the limits on one attempt, from the innermost to the outermost, and the limits around it."""
    rows = [
        (f"{number}.", budget.setting.split(",")[0], f"{budget.seconds:g}", budget.then)
        for number, budget in enumerate(timeouts.nested(settings), 1)
    ]
    rows += [
        (
            "",
            "LEASE_SECONDS",
            f"{settings.lease_seconds:g}",
            "a frozen worker's job is taken back, and runs elsewhere; a killed one's within seconds",
        ),
        (
            "",
            "JOB_DEADLINE_SECONDS",
            f"{settings.job_deadline_seconds:g}",
            f"the whole job stops; it holds {settings.max_attempts} attempts",
        ),
        ("", "SHUTDOWN_GRACE_SECONDS", f"{settings.shutdown_grace_seconds:g}", "a stopped worker hands back its work"),
    ]
    return [f"  {mark:<3}{name:<27}{seconds:>6}  {then}" for mark, name, seconds, then in rows]


def _nest(settings: Settings) -> Finding:
    faults = timeouts.problems(settings)
    order = " < ".join(f"{budget.seconds:g}" for budget in timeouts.nested(settings))
    measured = " ".join(faults).rstrip(".") if faults else order
    return Finding(judge(not faults, Level.FAIL), "budgets nest", measured, "Change one of each pair")


def _stop(settings: Settings) -> Finding:
    grace, margin = settings.shutdown_grace_seconds, grace_margin(settings)
    call = settings.provider_call_seconds
    measured = f"work goes on for {grace - margin:g} s, then what is left is handed back within {margin:g} s"
    if call > grace - margin and not settings.openai_background:
        measured += f"; a call may take {call:g} s, so a longer one is made again after a deploy"
    return Finding(
        judge(grace >= MIN_GRACE_SECONDS, Level.WARN),
        "a stop",
        measured,
        f"Have the host wait {MIN_GRACE_SECONDS:g} s or longer and raise SHUTDOWN_GRACE_SECONDS, "
        "or each deploy interrupts what is being worked on",
    )


def _background(settings: Settings) -> Finding:
    if not settings.openai_background:
        return Finding(Level.OK, "background mode", "off")
    kept = "may keep" if settings.openai_store_after else "is told to delete"
    host = HOST_OF_OPENAI if settings.openai_base_url is None else urlsplit(settings.openai_base_url).hostname
    return Finding(
        judge(host == HOST_OF_OPENAI, Level.WARN),
        "background mode",
        f"on; the AI service {kept} a response that is saved here",
        "OPENAI_BASE_URL is not OpenAI's: where its server has no background mode, set OPENAI_BACKGROUND=0",
    )
