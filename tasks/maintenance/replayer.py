"""Carries on the replays of operators, one job after the other. Runs in every worker; any number may run at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tasks.database import Transaction, error_name
from tasks.ledger.replays import replays
from tasks.settings import Settings

log = structlog.get_logger()

POLL_SECONDS = 1.0
BATCH = 200


class Replayer:
    """Gives each replay its turn. The row of the replay keeps its rate."""

    def __init__(self, transaction: Transaction, settings: Settings, wake_dispatcher: Callable[[], None]) -> None:
        self._transaction = transaction
        self._settings = settings
        self._wake_dispatcher = wake_dispatcher

    def step(self) -> int:
        """Take every turn that is due now, each in its own transaction, and return how many there were."""
        taken = 0
        while taken < BATCH:
            with self._transaction() as session:
                replay_id = replays.carry_on(session, self._settings.queue_name, self._settings.replay_terms)
            if replay_id is None:
                break
            taken += 1
            log.info("replay.carried_on", replay=replay_id.hex)
        if taken:
            self._wake_dispatcher()
        return taken

    def run(self, stopping: threading.Event, is_due: Callable[[], bool] = lambda: True) -> None:
        """Step until `stopping` is set, and wake when the next turn is due; not while `is_due` says that none is."""
        pause = POLL_SECONDS
        while not stopping.wait(pause):
            pause = POLL_SECONDS
            if not is_due():
                continue
            try:
                self.step()
                with self._transaction() as session:
                    until_next = replays.seconds_until_next(session, self._settings.queue_name)
                if until_next:  # a due turn that was not taken is held up, or another worker takes it
                    pause = min(POLL_SECONDS, until_next)
            except SQLAlchemyError as error:
                log.warning("replaying.waits", error=error_name(error))
