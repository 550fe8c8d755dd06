"""A site that can send mail, and its outgoing mails, read as their recipients read them."""

from __future__ import annotations

import re
from typing import Any

from flask import Flask
from sqlalchemy import select

from tasks.database import Database
from tasks.ledger.models.notifications import Channel, Notice
from tasks.notifications.mail_templates import MAILS
from tasks.notifications.signed_links import Links

BASE = "http://waybill.example"
MAILING: dict[str, Any] = {"smtp_host": "127.0.0.1", "mail_from": "waybill@example.org", "app_base_url": BASE}


def owed_mails(database: Database) -> list[Notice]:
    """Return the outgoing mails, oldest first."""
    with database.transaction() as session:
        owed = select(Notice).where(Notice.channel == Channel.EMAIL, Notice.gave_up_at.is_(None))
        return list(session.execute(owed.order_by(Notice.created_at)).scalars())


def link_in(app: Flask, owed: Notice) -> str:
    """Return the path of the link in a mail that opens something."""
    mail = MAILS[owed.what](owed.facts, Links(app.config["WAYBILL"]))
    (found,) = [path for path in re.findall(rf"{BASE}(/\S+)", mail.text) if path.count("/") > 1]
    assert found.rpartition("/")[2] not in str(owed.facts), "the row holds no link"
    return str(found)
