"""Accounts, sessions, passwords, API tokens, sign-in identities and invitations."""

from __future__ import annotations

from flask import Flask


def init_app(app: Flask) -> None:
    """Pass the signed-in account to each page, and extend the sessions of people who open pages."""
    from webapp.auth import sessions

    app.context_processor(lambda: {"viewer": sessions.current_account_or_none()})
    app.after_request(sessions.keep_fresh)
