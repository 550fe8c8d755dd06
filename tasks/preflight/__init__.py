"""`python -m tasks preflight`: checks whether this host can keep the promise, with a line for each question."""

from __future__ import annotations

from pathlib import Path

from tasks.preflight import database, host, limits, provider, queue, site_address
from tasks.preflight.report_line import Finding, Level
from tasks.settings import Settings

__all__ = ["Finding", "Level", "report"]

CGROUPS = Path("/sys/fs/cgroup")


def report(settings: Settings, *, call_provider: bool = False, cgroups: Path = CGROUPS) -> tuple[list[str], bool]:
    """Return the lines to print, and True if no job can be lost or wait for ever."""
    findings = [
        *limits.findings(settings),
        site_address.finding(settings),
        *database.findings(settings),
        *queue.findings(settings),
        provider.finding(settings, call=call_provider),
        host.memory(settings, cgroups),
    ]
    lines = ["What fires first on one attempt, in seconds:", *limits.table(settings), ""]
    lines += [str(finding) for finding in findings]
    return lines, all(finding.level is not Level.FAIL for finding in findings)
