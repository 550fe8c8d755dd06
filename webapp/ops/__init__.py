"""The operators' pages."""

from __future__ import annotations

from flask import Flask


def init_app(app: Flask) -> None:
    """Register the operators' pages; rq-dashboard only if it is enabled."""
    from webapp.ops import accounts, invitations, jobs, queue_dashboard, replays, work

    for blueprint in (
        jobs.ops,
        accounts.ops_accounts,
        work.ops_decisions,
        replays.ops_replays,
        invitations.ops_invitations,
    ):
        app.register_blueprint(blueprint)
    shared = app.extensions["waybill"]
    if shared.settings.rq_dashboard_enabled:
        queue_dashboard.init_app(app, shared)
