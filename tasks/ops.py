"""What an operator decides about the whole site, from the command line."""

from __future__ import annotations

import getpass

from tasks.database import Database
from tasks.ledger import alerts, lanes, queries
from tasks.ledger.transitions import LANE_SPREAD_SECONDS
from tasks.settings import Settings


def resume(settings: Settings) -> list[str]:
    """Open the lane to the provider again. What was done, in lines for a person."""
    database = Database(settings, "waybill-ops")
    database.require()
    with database.transaction() as session:
        let_go = lanes.resume(
            session, settings.lane, by=f"{getpass.getuser()} (command line)", spread_seconds=LANE_SPREAD_SECONDS
        )
    database.close()
    if let_go is None:
        return [f"lane {settings.lane}: was open, nothing to resume"]
    return [f"lane {settings.lane}: open again", f"waiting jobs let go: {let_go}"]


def status(settings: Settings) -> list[str]:
    """How the site stands, in lines for a person."""
    database = Database(settings, "waybill-ops")
    database.require()
    with database.transaction() as session:
        closed = lanes.door(session, settings.lane)
        counts = queries.jobs_by_state(session)
        orphans = queries.orphans(session, grace_seconds=settings.sweep_seconds + settings.lease_seconds)
        workers = queries.live_workers(
            session, queue=settings.queue_name, seen_within_seconds=settings.lease_seconds * 2
        )
        begun = alerts.open_alerts(session, settings.queue_name)
    database.close()
    lane = "open" if closed is None else str(closed.state)
    if closed is not None and closed.seconds is not None:
        lane += f", ask again in {closed.seconds:.0f} s"
    if closed is not None and closed.category is not None:
        lane += f", because: {closed.category}"
    return [
        f"lane {settings.lane}: {lane}",
        *(f"{state}: {count}" for state, count in counts.items()),
        f"orphans: {orphans}",
        f"live workers: {workers}",
        *(f"alert: {alert.kind}, since {alert.began_at:%Y-%m-%d %H:%M} UTC" for alert in begun),
    ]
