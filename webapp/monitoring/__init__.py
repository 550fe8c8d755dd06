"""Health checks and metrics."""

from __future__ import annotations

from flask import Flask


def init_app(app: Flask) -> None:
    """Register the endpoints for hosts and monitors."""
    from webapp.monitoring import health, metrics

    app.register_blueprint(health.health)
    app.register_blueprint(metrics.metrics)
