"""Upload links: forms, also embedded in other sites, for people without an account."""

from __future__ import annotations

from flask import Flask


def init_app(app: Flask) -> None:
    """Register the owner's page of links, and the public form."""
    from webapp.extensions import csrf
    from webapp.upload_links import owner_views, public_views

    app.register_blueprint(owner_views.my_upload_links)
    app.register_blueprint(public_views.embed)
    csrf.exempt(public_views.embed)  # these pages use no cookies; their form carries a signed token instead
