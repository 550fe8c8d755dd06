"""Browsers in which somebody has signed in before, so that strangers who guess do not stand in their way.

A long-lived, signed cookie names the accounts and the stamp that each had. It opens nothing: attempts from such a
browser are only counted apart from those of everybody else. It ends with the stamp, so with the password.
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Sequence

from flask import Response, after_this_request, current_app, g, request
from itsdangerous import BadData, URLSafeSerializer
from sqlalchemy import select

from webapp.auth.email_addresses import email_of_sign_in
from webapp.database import transaction
from webapp.http.site_settings import site_settings
from webapp.models import Account

LIVES_SECONDS = 400 * 24 * 3600
"""Browsers keep no cookie for longer."""
MOST_ACCOUNTS = 5
SALT = "known device"

Entry = tuple[str, str, int]
"""The account's id, the name of the browser for it, and the stamp that the account had."""


def remember(account_id: uuid.UUID, stamp: int) -> None:
    """Let the answer to this request tell the browser that this account is known in it."""
    entries = _entries()
    name = next((name for known, name, _ in entries if known == account_id.hex), secrets.token_hex(16))
    others = [entry for entry in entries if entry[0] != account_id.hex]
    value = _serializer().dumps([(account_id.hex, name, stamp), *others[: MOST_ACCOUNTS - 1]])

    @after_this_request
    def tell(response: Response) -> Response:
        response.set_cookie(
            cookie_name(),
            str(value),
            max_age=LIVES_SECONDS,
            secure=current_app.config["SESSION_COOKIE_SECURE"],
            httponly=True,
            samesite="Lax",
        )
        return response


def known_device() -> str | None:
    """Name the browser that sends a form, if the account whose address is typed there is known in it; else None.

    The database is asked only about a cookie that is ours, so that the others learn nothing from how long it takes.
    """
    if "known_device" not in g:
        g.known_device = _known_device(_entries())
    found: str | None = g.known_device
    return found


def _known_device(entries: Sequence[Entry]) -> str | None:
    if not entries:
        return None
    names = {(uuid.UUID(account), stamp): name for account, name, stamp in entries}
    email = email_of_sign_in(request.form)
    with transaction() as database:
        found = database.execute(
            select(Account.id, Account.session_stamp).where(
                Account.email == email, Account.id.in_([account for account, _ in names])
            )
        ).one_or_none()
    return None if found is None else names.get((found.id, found.session_stamp))


def cookie_name() -> str:
    """Name the cookie; with the prefix no other host and no plain http can set it."""
    return "device" if site_settings().waybill_demo else "__Host-device"


def _entries() -> list[Entry]:
    """Read the cookie; nothing of one that is not ours."""
    try:
        read = _serializer().loads(request.cookies.get(cookie_name(), ""))
    except BadData:
        return []
    return [(account, name, stamp) for account, name, stamp in read]


def _serializer() -> URLSafeSerializer:
    secret = current_app.secret_key
    assert isinstance(secret, str), "the settings refuse to start without one"
    keys = [*current_app.config["SECRET_KEY_FALLBACKS"], secret]
    return URLSafeSerializer(keys, salt=SALT, signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256})
