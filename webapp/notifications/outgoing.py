"""Enqueues the mails and webhooks that a page asks for. The worker sends them."""

from __future__ import annotations

import uuid

from sqlalchemy.orm import Session

from tasks.i18n import language
from tasks.ledger.models.notifications import Channel
from tasks.ledger.notifications import outbox as ledger
from webapp.services import services


def enqueue(
    database: Session,
    channel: Channel,
    target: str,
    what: str,
    facts: dict[str, str],
    *,
    account_id: uuid.UUID | None,
    useful_for_seconds: float,
) -> None:
    """Enqueue a message. Each call enqueues a new one; a mail is written in the active language.

    `account_id` is None if the message belongs to no account.
    """
    ledger.enqueue(
        database,
        queue=services().settings.queue_name,
        key=f"{what.replace('.', '_')}_{uuid.uuid4().hex}",
        channel=channel,
        target=target,
        what=what,
        facts={**facts, "language": language()} if channel is Channel.EMAIL else facts,
        account_id=account_id,
        useful_for_seconds=useful_for_seconds,
    )


def enqueue_mail(
    database: Session,
    address: str,
    what: str,
    facts: dict[str, str],
    *,
    account_id: uuid.UUID | None,
    useful_for_seconds: float,
) -> None:
    """Enqueue a mail."""
    enqueue(database, Channel.EMAIL, address, what, facts, account_id=account_id, useful_for_seconds=useful_for_seconds)
