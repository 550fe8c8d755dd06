"""The notification settings page, and the messages that pages enqueue."""

from __future__ import annotations

from flask import Flask


def init_app(app: Flask) -> None:
    """Register the page of notification settings."""
    from webapp.notifications import messages, views

    app.register_blueprint(views.notices)
    app.jinja_env.filters["why_not_sent"] = messages.why_not_sent
