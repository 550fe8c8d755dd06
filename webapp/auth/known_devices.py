"""Remembers browsers in which somebody has signed in, so that strangers who guess passwords do not lock them out.

A long-lived, signed cookie names the accounts and the stamp that each had. It grants no access: attempts from such a
browser are only counted separately from those of everybody else. It expires with the stamp, and so with the password.
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
"""The longest lifetime that browsers allow a cookie."""
MAX_ACCOUNTS = 5
SALT = "known device"

Entry = tuple[str, str, int]
"""The account's id, a random name of the browser for it, and the account's session stamp."""


def remember(account_id: uuid.UUID, stamp: int) -> None:
    """Set the cookie that remembers this account, with the response to this request."""
    entries = _entries()
    name = next((name for known, name, _ in entries if known == account_id.hex), secrets.token_hex(16))
    others = [entry for entry in entries if entry[0] != account_id.hex]
    value = _serializer().dumps([(account_id.hex, name, stamp), *others[: MAX_ACCOUNTS - 1]])

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
    """Return the name of the browser that sends a form, if the submitted account is known in it; else None.

    Queries the database only for a cookie that this site signed, so that response times tell nothing to other browsers.
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
    """Return the cookie's name. Its prefix keeps other hosts and plain http from setting it."""
    return "device" if site_settings().waybill_demo else "__Host-device"


def _entries() -> list[Entry]:
    """Return the entries of the cookie; none if this site did not sign it."""
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
