"""A certificate authority for the tests, and notifications to send."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import trustme

from tasks.ledger.models.notifications import Channel
from tasks.ledger.notifications.outbox import PendingNotification


@dataclass(frozen=True)
class Certificates:
    """Holds the certificates of servers, by host name, and the authority that clients trust."""

    client: ssl.SSLContext
    server: Callable[[str], ssl.SSLContext]


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    """Create an authority for this run, which no other client trusts."""
    authority = trustme.CA()
    client = ssl.create_default_context()
    authority.configure_trust(client)

    def server(name: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(name).configure_cert(context)
        return context

    return Certificates(client, server)


def notice(channel: Channel, target: str, **changed: Any) -> PendingNotification:
    """Return a notification to send."""
    values: dict[str, Any] = {
        "id": uuid.uuid4(),
        "key": "job_7_2",
        "account_id": None,
        "what": "job.succeeded",
        "facts": {"id": "7", "state": "succeeded", "title": "Häfen: a report"},
        "attempt": 1,
        "occurred_at": datetime(2026, 11, 29, 12, 0, tzinfo=UTC),
    }
    return PendingNotification(channel=channel, target=target, **{**values, **changed})
