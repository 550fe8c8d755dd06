"""Operations of the background loops of a worker. A loop whose transaction fails tries again at its next turn."""

from __future__ import annotations

from typing import cast

from tasks.ledger.calls import calls, responses
from tasks.ledger.calls.calls import CallReport
from tasks.ledger.delivery import outbox
from tasks.ledger.jobs import deadlines, leases, retention, transitions
from tasks.ledger.models.notifications import Channel
from tasks.ledger.notifications import outbox as notifications
from tasks.ledger.notifications import preferences
from tasks.ledger.states import CallOutcome
from tasks.maintenance.alert_monitor import AlertMonitor
from tasks.maintenance.reconciler import Reconciler
from tasks.maintenance.replayer import Replayer
from tasks.queue import DeliveryQueue
from tasks.queue.dispatcher import Dispatcher
from tests.explore.actor import Actor
from tests.explore.operations.registry import Effect, always, operation
from tests.explore.world import HOLDER, World, sql


def _has_claim(world: World) -> bool:
    return world.claim is not None or world.late_claim is not None


@operation(_has_claim)
def renew(world: World, actor: Actor) -> object:
    """Renew the claims, and record a heartbeat, in one transaction, as `Heartbeat` does."""
    claims = [claim for claim in (world.claim, world.late_claim) if claim is not None]
    settings = world.settings
    with actor.transaction() as session:
        renewal = leases.renew(session, claims, lease_seconds=500)
        leases.record_heartbeat(
            session,
            HOLDER,
            queue=settings.queue_name,
            slots=4,
            gap_seconds=settings.renewal.gap_seconds,
            unrenewed=renewal.unrenewed,
        )
    return renewal


@operation()
def sweep(world: World, actor: Actor) -> object:
    """Make one sweep of the reconciler."""
    return Reconciler(actor.transaction, world.settings, lambda: None).step()


@operation()
def expire(world: World, actor: Actor) -> object:
    """Take the job back if its claim is lost."""
    settings = world.settings
    with actor.transaction() as session:
        return transitions.expire(
            session, world.job, max_interruptions=settings.max_interruptions, renewal=settings.renewal
        )


@operation()
def end_at_deadline(world: World, actor: Actor) -> object:
    """Fail the job if its deadline has passed."""
    with actor.transaction() as session:
        return deadlines.end_at_deadline(session, world.job)


@operation()
def owe_waiting(world: World, actor: Actor) -> object:
    """Owe the job the delivery that it lacks."""
    with actor.transaction() as session:
        return outbox.owe_waiting(session, world.job) is not None


@operation()
def delete_content(world: World, actor: Actor) -> object:
    """Delete the job's content if it is older than the retention."""
    with actor.transaction() as session:
        return retention.delete_content(session, world.job, days=world.settings.retention_days)


@operation()
def dispatch(world: World, actor: Actor) -> object:
    """Make one step of the dispatcher."""
    return Dispatcher(actor.transaction, cast(DeliveryQueue, world.queue)).step()


@operation()
def dispatch_after_flush(world: World, actor: Actor) -> object:
    """Make one step of the dispatcher after the queue has lost everything."""
    world.queue.flush()
    return dispatch(world, actor)


@operation()
def renumber(world: World, actor: Actor) -> object:
    """Give the delivery a new number, as the dispatcher does after it has taken it."""
    with actor.transaction() as session:
        owed = sql(session, "SELECT number FROM deliveries WHERE job_id = :job", job=world.job).scalar_one_or_none()
    with actor.transaction() as session:
        return outbox.renumber(session, world.job, owed or 1)


@operation()
def bring_all_forward(world: World, actor: Actor) -> object:
    """Make all deliveries that were sent due again."""
    with actor.transaction() as session:
        return outbox.bring_all_forward(session, world.settings.queue_name)


@operation()
def reschedule(world: World, actor: Actor) -> object:
    """Reschedule the delivery, as a worker that shuts down does."""
    with actor.transaction() as session:
        return outbox.reschedule(session, world.job)


@operation(always, Effect.EXCEEDS_LIMITS)
def carry_on_replays(world: World, actor: Actor) -> object:
    """Give each replay its turn."""
    return Replayer(actor.transaction, world.settings, lambda: None).step()


@operation()
def send_notifications(world: World, actor: Actor) -> object:
    """Send what is owed to webhooks, as the sender does around its requests."""
    queue = world.settings.queue_name
    with actor.transaction() as session:
        due = notifications.take_due(session, queue=queue, channel=Channel.WEBHOOK, limit=5)
    for notification in due:
        with actor.transaction() as session:
            notifications.mark_sent(session, notification.id)
    return len(due)


@operation(always, Effect.CHANGES_PREFERENCES)
def meet_gone_webhook(world: World, actor: Actor) -> object:
    """Learn from the receiver that it is gone for good."""
    queue = world.settings.queue_name
    with actor.transaction() as session:
        due = notifications.take_due(session, queue=queue, channel=Channel.WEBHOOK, limit=5)
    for notification in due:
        with actor.transaction() as session:
            if notification.account_id is not None:
                preferences.webhook_is_gone(session, notification.account_id, notification.target, code="gone")
            notifications.failed(session, notification.id, code="gone", for_good=True)
    return len(due)


@operation(always, Effect.CANCELS_RESPONSES)
def cancel_responses(world: World, actor: Actor) -> object:
    """Cancel the responses that no job waits for, as the cleanup does around its requests."""
    with actor.transaction() as session:
        responses.give_up_cancelling(session, lane=world.lane, after_seconds=900)
        found = responses.to_cancel(session, lane=world.lane, limit=50)
    for kept in found:
        assert kept.call_id is not None
        with actor.transaction() as session:
            calls.close_call(session, kept.call_id, CallReport(CallOutcome.CANCELLED))
    with actor.transaction() as session:
        left = responses.left_behind(session, lane=world.lane, limit=50)
    for kept in left:
        with actor.transaction() as session:
            responses.note_left_deleted(session, kept.response_id)
    return len(found) + len(left)


@operation()
def raise_alerts(world: World, actor: Actor) -> object:
    """Check the alert thresholds."""
    return len(AlertMonitor(actor.transaction, world.settings).step())
