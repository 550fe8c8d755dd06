"""All drills, in the order of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tasks.drills import endings, killed, messages, refusals
from tasks.drills.stage import Stage


@dataclass(frozen=True)
class Drill:
    """One staged failure. `twice_allowed` is how many provider calls may be made twice, since nobody can prevent it."""

    name: str
    done: str
    play: Callable[[Stage], None]
    twice_allowed: int = 0


DRILLS = (
    Drill("same-message-twice", "the same message delivered four times", messages.same_message_twice),
    Drill("killed-after-commit", "worker killed after the result's commit", killed.killed_after_commit),
    Drill("killed-before-commit", "worker killed before the result's commit", killed.killed_before_commit),
    Drill("killed-with-answer", "worker killed with the answer not saved", killed.killed_with_the_answer, 1),
    Drill("killed-while-made", "background mode: worker killed while it is made", killed.killed_while_it_is_made),
    Drill("rate-limit", "provider asks to wait 2 s", refusals.rate_limit),
    Drill("invalid-credentials", "key refused, then resumed by an operator", refusals.invalid_credentials),
    Drill("quota-used-up", "quota used up, then resumed by an operator", refusals.quota_used_up),
    Drill("cancel-while-running", "cancelled by its owner during the call", endings.cancelled_while_running),
    Drill("stale-worker", "worker frozen past its lease, then woken", killed.stale_worker, 1),
    Drill("dispatcher-killed", "dispatcher killed between commit and send", killed.dispatcher_killed),
    Drill("provider-stalls", "provider never answers", refusals.provider_stalls, 1),
    Drill("provider-trickles", "provider sends a byte at a time", refusals.provider_trickles, 1),
    Drill("redis-forgot", "all keys of the queue deleted, 6 jobs open", messages.redis_forgot),
    Drill("sigterm-to-all", "SIGTERM to all workers during calls", endings.sigterm_to_all, 2),
)
