"""All drills, in the order of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tasks.drills import job_endings, lost_messages, provider_errors, worker_crashes
from tasks.drills.environment import Stage


@dataclass(frozen=True)
class Drill:
    """Describes one staged failure. `twice_allowed` is how many calls may be repeated, since it cannot be prevented."""

    name: str
    done: str
    play: Callable[[Stage], None]
    twice_allowed: int = 0


DRILLS = (
    Drill("same-message-twice", "the same message delivered four times", lost_messages.same_message_twice),
    Drill("killed-after-commit", "worker killed after the result's commit", worker_crashes.killed_after_commit),
    Drill("killed-before-commit", "worker killed before the result's commit", worker_crashes.killed_before_commit),
    Drill("killed-with-answer", "worker killed with the answer not saved", worker_crashes.killed_with_the_answer, 1),
    Drill(
        "killed-while-made", "background mode: worker killed while it is made", worker_crashes.killed_while_it_is_made
    ),
    Drill("rate-limit", "provider asks to wait 2 s", provider_errors.rate_limit),
    Drill("invalid-credentials", "key refused, then resumed by an operator", provider_errors.invalid_credentials),
    Drill("quota-used-up", "quota used up, then resumed by an operator", provider_errors.quota_used_up),
    Drill("cancel-while-running", "cancelled by its owner during the call", job_endings.cancelled_while_running),
    Drill("stale-worker", "worker frozen past its lease, then woken", worker_crashes.stale_worker, 1),
    Drill("dispatcher-killed", "dispatcher killed between commit and send", worker_crashes.dispatcher_killed),
    Drill("provider-stalls", "provider never answers", provider_errors.provider_stalls, 1),
    Drill("provider-trickles", "provider sends a byte at a time", provider_errors.provider_trickles, 1),
    Drill("redis-forgot", "all keys of the queue deleted, 6 jobs open", lost_messages.redis_forgot),
    Drill("full-redis", "a Redis of the drill's own, full, 4 jobs handed in", lost_messages.redis_full),
    Drill("poison", "a document that kills its worker, beside 3 good ones", worker_crashes.poison_beside_good_ones, 3),
    Drill("read-only", "a worker whose database takes no writes", worker_crashes.database_read_only),
    Drill("odd-retry-after", "provider asks to wait for thirty years", provider_errors.odd_retry_after),
    Drill("sigterm-to-all", "SIGTERM to all workers during calls", job_endings.sigterm_to_all, 2),
)
