"""Checks Redis. It may lose its data, so few findings are severe: it only has to accept messages."""

from __future__ import annotations

from tasks.preflight.report_line import Finding, Level, clock, fits, judge
from tasks.queue import WORKER_CONNECTIONS, DeliveryQueue
from tasks.queue.redis_client import QueueUnreachable, connect, settings_hint
from tasks.queue.server_facts import ServerFacts
from tasks.settings import Settings

MIN_VERSION = (6, 2)
NEARLY_FULL = 0.8
WEB_CONNECTIONS = 2  # the rate limiter shares the connections of the queue


def findings(settings: Settings) -> list[Finding]:
    """Return a finding for each question; only the first if Redis does not answer."""
    connection = connect(settings, connections=1, answer_within_seconds=2)
    try:
        queue = DeliveryQueue(settings, connection)
        facts, refused = queue.server(), _refused(queue)
    except QueueUnreachable as error:
        return [Finding(Level.FAIL, "queue", f"no answer ({type(error).__name__})", settings_hint(error))]
    finally:
        connection.connection_pool.disconnect()
    return [
        _server(facts),
        Finding(judge(refused is None, Level.FAIL), "queue takes messages", refused or "one was written and removed"),
        Finding(
            judge(facts.policy in ("noeviction", "unknown"), Level.WARN),
            "queue eviction policy",
            facts.policy,
            "Set maxmemory-policy noeviction: messages that are dropped are sent again, but late",
        ),
        _persistence(facts),
        _memory(facts),
        _connections(facts, settings),
        clock("clock of the queue", facts.ahead_seconds, facts.unsure_seconds),
    ]


def _refused(queue: DeliveryQueue) -> str | None:
    try:
        queue.require_usable()
    except QueueUnreachable as error:
        return settings_hint(error)
    return None


def _server(facts: ServerFacts) -> Finding:
    number = tuple(int(part) for part in facts.version.split(".")[:2] if part.isdigit())
    measured = f"answers, version {facts.version}"
    if facts.is_cluster:
        remedy = "RQ cannot use it. Take a Redis without cluster mode"
        return Finding(Level.FAIL, "queue", f"{measured}, a cluster", remedy)
    if facts.is_replica:
        return Finding(Level.FAIL, "queue", f"{measured}, a replica", "It takes no messages. Name the primary")
    return Finding(judge(number >= MIN_VERSION, Level.FAIL), "queue", measured, "Redis 6.2 or newer is needed")


def _persistence(facts: ServerFacts) -> Finding:
    kept = "append only file" if facts.append_only else "snapshots" if facts.snapshots else "none"
    if facts.snapshots is None and not facts.append_only:
        kept = "not told"
    return Finding(
        judge(not facts.writing_failed, Level.WARN),
        "queue persistence",
        f"{kept}, the last one failed" if facts.writing_failed else f"{kept}; what is lost is sent again from the rows",
        "Redis may refuse messages until it can write again. Check the disk of its host",
    )


def _memory(facts: ServerFacts) -> Finding:
    used = facts.used_bytes / 2**20
    if facts.limit_bytes is None:
        return Finding(Level.OK, "queue memory", f"{used:.1f} MB used, no limit")
    return Finding(
        judge(facts.used_bytes < NEARLY_FULL * facts.limit_bytes, Level.WARN),
        "queue memory",
        f"{used:.1f} of {facts.limit_bytes / 2**20:.1f} MB used",
        "A full Redis takes no messages, and jobs wait. See what else is kept in it, or take a larger plan",
    )


def _connections(facts: ServerFacts, settings: Settings) -> Finding:
    needed = settings.web_concurrency * WEB_CONNECTIONS + WORKER_CONNECTIONS
    what = f"{settings.web_concurrency} web of {WEB_CONNECTIONS}, 1 worker of {WORKER_CONNECTIONS}"
    # Redis does not say to whom a connection belongs; ours that run now are among them.
    return fits("connections to the queue", used=max(0, facts.clients - needed), most=facts.most_clients,
                needed=needed, what=what)  # fmt: skip
