"""The signature of webhooks, as https://www.standardwebhooks.com has it."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime

from standardwebhooks.webhooks import Webhook

PREFIX = "whsec_"
SHORTEST_BYTES = 24


def signed_headers(key: str, body: str, secret: str, at: datetime) -> dict[str, str]:
    """The three headers by which a receiver knows a message: its key, when it was sent, and the signature of both."""
    return {
        "webhook-id": key,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(key, at, body),
    }


def is_usable_secret(secret: str) -> bool:
    """Whether messages can be signed with it: `whsec_` and the base64 of 24 bytes or more."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return False
    return secret.startswith(PREFIX) and len(key) >= SHORTEST_BYTES
