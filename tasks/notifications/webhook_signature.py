"""Signs webhooks, as https://www.standardwebhooks.com specifies."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime

from standardwebhooks.webhooks import Webhook

PREFIX = "whsec_"
MIN_SECRET_BYTES = 24


def signed_headers(key: str, body: str, secret: str, at: datetime) -> dict[str, str]:
    """Return the three headers that identify a message: its key, its time, and the signature of both and the body."""
    return {
        "webhook-id": key,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(key, at, body),
    }


def is_usable_secret(secret: str) -> bool:
    """Return True if messages can be signed with this secret: `whsec_` and the base64 of 24 bytes or more."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return False
    return secret.startswith(PREFIX) and len(key) >= MIN_SECRET_BYTES
