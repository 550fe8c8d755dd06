"""Links and embedded forms for people without an account."""

from __future__ import annotations

from flask import Flask


def init_app(app: Flask) -> None:
    """Add the owner's page of links, and the public form."""
    from webapp.extensions import csrf
    from webapp.upload_links import owner_views, public_views

    app.register_blueprint(owner_views.my_upload_links)
    app.register_blueprint(public_views.embed)
    csrf.exempt(public_views.embed)  # no cookie counts there; its form has a signed value of its own
