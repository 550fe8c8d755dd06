"""The HTTP API for programs, and the page that describes it."""

from __future__ import annotations

from flask import Flask

from webapp.extensions import csrf


def init_app(app: Flask) -> None:
    """Register the API and its description."""
    from webapp.api import blueprint, docs, jobs, upload_links

    app.register_blueprint(blueprint.with_views(jobs, upload_links))
    app.register_blueprint(docs.api_docs)
    csrf.exempt(blueprint.api)  # clients send a token; cookies are ignored
