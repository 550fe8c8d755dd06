"""The worker process: the loops that run in it, how it starts, and how it stops without losing anything.

One such process is enough for a site: it runs the slots, the dispatcher, RQ's scheduler, the reconciler and the
heartbeat. After SIGTERM or SIGINT, sent any number of times, it makes no new claims, lets running work go on until the
grace is nearly over, hands the rest back, and exits with 0. After SIGKILL the leases bring the jobs back.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tasks.database import Database
from tasks.intake import IntakePool
from tasks.ledger.delivery import outbox
from tasks.ledger.jobs import leases
from tasks.ledger.reports.due_work import OF_CHANNEL, Work
from tasks.maintenance.alert_monitor import AlertMonitor
from tasks.maintenance.reconciler import Reconciler
from tasks.maintenance.replayer import Replayer
from tasks.maintenance.response_cleanup import ResponseCleanup
from tasks.notifications.sender import OutboxCleanup, senders
from tasks.observability import sentry, tracing
from tasks.provider import ProviderSettings
from tasks.provider.loop import ProviderLoop
from tasks.queue import WORKER_CONNECTIONS, DeliveryQueue
from tasks.queue.dispatcher import WOKEN_POLL_SECONDS, Dispatcher
from tasks.queue.redis_client import QueueUnreachable, connect, settings_hint
from tasks.queue.scheduler import ScheduledDeliveries
from tasks.settings import Settings
from tasks.worker.attempt import Tools
from tasks.worker.delivery_handler import DeliveryHandler, set_handler
from tasks.worker.due_watch import DueWatch
from tasks.worker.endings import StopReason
from tasks.worker.heartbeat import Heartbeat
from tasks.worker.rq_worker import SlotWorker
from tasks.worker.slots import Slots

log = structlog.get_logger()

FORGET_SILENT_SECONDS = 3600.0
SCHEDULER_SECONDS = 15.0
Loop = Callable[[threading.Event], None]


def provider_settings(settings: Settings) -> ProviderSettings:
    """Build the provider's settings from those of the site."""
    key = settings.openai_api_key
    return ProviderSettings(
        provider=settings.ai_provider,
        api_key=None if key is None else key.get_secret_value(),
        base_url=settings.openai_base_url,
        api=settings.openai_api,
        model=settings.ai_model,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        call_seconds=settings.provider_call_seconds,
        concurrency=settings.provider_concurrency,
    )


def grace_margin(settings: Settings) -> float:
    """Return how many seconds of the grace are kept for handing work back."""
    return min(5.0, settings.shutdown_grace_seconds / 3)


def run_worker(settings: Settings, *, slots: int, burst: bool) -> int:
    """Work until a signal comes, or with `burst` until nothing is left to do now, and return the exit code.

    Raises SettingsWrong if the database does not answer, and ProviderError if the provider cannot be set up.
    """
    sentry.start(settings)
    tracing.start(settings, "waybill-worker")
    with ExitStack() as stack:
        stack.callback(sentry.flush)
        database = Database(settings, "waybill-worker")
        stack.callback(database.close)
        database.require()
        provider = ProviderLoop(provider_settings(settings))
        provider.start()
        stack.callback(provider.close, 2.0)
        intake = IntakePool()
        stack.callback(intake.close)
        connection = connect(settings, connections=WORKER_CONNECTIONS)
        stack.callback(connection.close)
        heartbeat_database = Database(settings, "waybill-heartbeat", pool_size=1)
        stack.callback(heartbeat_database.close)
        tools = Tools(settings, database, provider, intake)
        queue = DeliveryQueue(settings, connection)
        return WorkerProcess(tools, heartbeat_database, queue, slots=slots, burst=burst).run()


class WorkerProcess:
    """Starts and stops the loops around the slots."""

    def __init__(
        self, tools: Tools, heartbeat_database: Database, queue: DeliveryQueue, *, slots: int, burst: bool
    ) -> None:
        self.settings = tools.settings
        self.database = tools.database
        self.queue = queue
        self.burst = burst
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.slots = Slots(slots)
        self.heartbeat = Heartbeat(heartbeat_database, self.settings, self.name, slots)
        transaction, settings = self.database.transaction, self.settings
        self.dispatcher = Dispatcher(transaction, queue, WOKEN_POLL_SECONDS)
        self.watch = DueWatch(self.database, settings, self.dispatcher.wake)
        self.handler = DeliveryHandler(tools, self.heartbeat, self.name, self.dispatcher.wake)
        self.reconciler = Reconciler(transaction, settings, self.dispatcher.wake)
        self.replayer = Replayer(transaction, settings, self.dispatcher.wake)
        self.response_cleanup = ResponseCleanup(transaction, settings, tools.provider)
        self.senders = senders(transaction, settings)
        self.cleanup = OutboxCleanup(transaction, settings.queue_name)
        self.alert_monitor = AlertMonitor(transaction, settings)
        self.stopping = threading.Event()  # no new claims
        self.ended = threading.Event()  # no claim is held any more
        self.failed = False
        self._rq_worker: SlotWorker | None = None

    def run(self) -> int:
        """Work until a signal comes, then hand back unfinished work, and return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        set_handler(self.handler)
        is_due = self.watch.is_due
        loops: list[Loop] = [
            self.heartbeat.run,
            self.watch.run,
            self.dispatcher.run,
            partial(self.reconciler.run, is_due=is_due(Work.SWEEPS)),
            partial(self.replayer.run, is_due=is_due(Work.REPLAYS)),
            partial(self.response_cleanup.run, is_due=is_due(Work.RESPONSES)),
            *(partial(sender.run, is_due=is_due(OF_CHANNEL[sender.channel])) for sender in self.senders),
            self.cleanup.run,
            self.alert_monitor.run,
            self._schedule,
            self._watch,
        ]
        threads = [threading.Thread(target=loop, args=(self.ended,), daemon=True) for loop in loops]
        for thread in threads:
            thread.start()
        log.info("worker.started", worker=self.name, slots=self.slots.count)
        try:
            self._pump()
        finally:
            all_back = self._finish()
            self.ended.set()
            self.dispatcher.wake()
            for thread in threads:
                thread.join(2)
        log.info("worker.ended", worker=self.name, all_back=all_back)
        return 1 if self.failed else 0

    def _stop(self, *_: object) -> None:
        """Handle a signal: make no new claims, and break off a wait for the next message.

        A message that arrives at this very moment is lost to RQ, and sent again, since it is still owed.
        """
        self.stopping.set()
        if self._rq_worker is not None:
            self._rq_worker.break_off_waiting()

    def _pump(self) -> None:
        """Let RQ take deliveries out of the queue, and start again after every restart of Redis."""
        max_jobs = self.settings.worker_max_jobs
        while not self.stopping.is_set():
            try:
                self._rq_worker = SlotWorker(
                    self.queue.rq, self.queue.connection, self.slots, self.stopping, self._is_done, burst=self.burst
                )
                self._rq_worker.work(logging_level="WARNING", max_jobs=max_jobs)
            except QueueUnreachable as error:
                log.warning("queue.unreachable", error=type(error).__name__, look_at=settings_hint(error))
            if self._is_done() or max_jobs is not None:
                return
            self.stopping.wait(1)

    def _is_done(self) -> bool:
        if not self.burst or self.slots.busy:
            return False
        with self.database.transaction() as session:
            return outbox.oldest_overdue_seconds(session, self.queue.name) == 0

    def _finish(self) -> bool:
        """Let running work use the grace, minus the margin, then hand it back. Return True if every slot came back."""
        self.stopping.set()
        self.handler.closed.set()
        margin = grace_margin(self.settings)
        if not self.slots.wait_until_idle(self.settings.shutdown_grace_seconds - margin):
            self.heartbeat.stop_all(StopReason.SHUTDOWN)
        all_back = self.slots.wait_until_idle(margin)
        try:
            with self.database.transaction() as session:
                leases.sign_off(session, self.name, forget_silent_seconds=FORGET_SILENT_SECONDS)
        except SQLAlchemyError as error:
            log.warning("worker.left_without_goodbye", error=type(error).__name__)
        return all_back

    def _schedule(self, ended: threading.Event) -> None:
        """Run RQ's scheduler now and then: the dispatcher sends a delivery that was scheduled when its time comes."""
        scheduler: ScheduledDeliveries | None = None
        while not ended.wait(SCHEDULER_SECONDS):
            try:
                scheduler = scheduler or self.queue.scheduler()
                scheduler.step()
            except QueueUnreachable as error:
                log.warning("scheduler.waits", error=type(error).__name__)
                scheduler = None
        if scheduler is not None:
            try:
                scheduler.stop()
            except QueueUnreachable as error:
                log.warning("scheduler.not_released", error=type(error).__name__)

    def _watch(self, ended: threading.Event) -> None:
        """End the process when a thread outlives its reservation: a thread cannot be killed, a process can restart."""
        while not ended.wait(1):
            overdue = self.heartbeat.overdue()
            if overdue and not self.failed:
                log.error("slot.does_not_come_back", jobs=[held.claim.job_id.hex for held in overdue])
                self.failed = True
                self.stopping.set()


def run_dispatcher(settings: Settings) -> int:
    """Only dispatch, until a signal comes. For sites with a separate dispatcher; every worker dispatches too."""
    database = Database(settings, "waybill-dispatcher")
    database.require()
    connection = connect(settings, connections=2)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    try:
        Dispatcher(database.transaction, DeliveryQueue(settings, connection)).run(stopping)
    finally:
        connection.close()
        database.close()
    return 0


def reconcile_once(settings: Settings) -> int:
    """Make one sweep, carry on the replays that are due, and return how many jobs were moved."""
    database = Database(settings, "waybill-reconciler")
    database.require()
    try:
        moved = Reconciler(database.transaction, settings, lambda: None).step()
        return moved + Replayer(database.transaction, settings, lambda: None).step()
    finally:
        database.close()
