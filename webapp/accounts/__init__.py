"""Sign-in, registration, password reset, single sign-on, the account page, and `flask accounts`."""

from __future__ import annotations

from flask import Flask


def init_app(app: Flask) -> None:
    """Register the pages and the commands of accounts."""
    from webapp.accounts import (
        access_cli,
        blueprint,
        cli,
        limits_cli,
        password_reset,
        registration,
        settings,
        sign_in,
        single_sign_on,
    )

    app.register_blueprint(blueprint.with_views(sign_in, registration, password_reset, single_sign_on, settings))
    app.cli.add_command(cli.with_commands(access_cli, limits_cli))
