"""The services every view can use: settings, queue, dispatcher and slots. Created once per app."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from flask import Flask, current_app, request

from tasks.queue import DeliveryQueue
from tasks.queue.dispatcher import Dispatcher
from tasks.queue.redis_client import connect
from tasks.settings import Settings
from webapp.auth.oidc import SignInService
from webapp.database import transaction
from webapp.http.long_polling import LongPollSlots

REDIS_CONNECTIONS = 2
REDIS_ANSWERS_WITHIN_SECONDS = 0.25
"""Requests continue without Redis after this time: the dispatcher's loop delivers what was left."""


@dataclass(frozen=True)
class Services:
    """Holds the services of one app: settings, queue, dispatcher, slots for long polls and exports, and sign-in
    service.

    The dispatcher is triggered once after each commit. `sign_in_service` is None if there is none.
    """

    settings: Settings
    queue: DeliveryQueue
    dispatcher: Dispatcher
    long_poll_slots: LongPollSlots
    export_slots: threading.BoundedSemaphore
    sign_in_service: SignInService | None


def init_app(app: Flask, settings: Settings) -> Services:
    """Create the services of this app."""
    connection = connect(settings, connections=REDIS_CONNECTIONS, answer_within_seconds=REDIS_ANSWERS_WITHIN_SECONDS)
    queue = DeliveryQueue(settings, connection)
    made = Services(
        settings,
        queue,
        Dispatcher(transaction, queue),
        LongPollSlots(settings.web_threads // 2),
        export_slots(settings),
        SignInService(app, settings) if settings.sign_in_service else None,
    )
    app.extensions["waybill"] = made
    return made


def export_slots(settings: Settings) -> threading.BoundedSemaphore:
    """Return the slots for exports.

    An export occupies a thread for as long as its reader takes, so they are limited.
    """
    return threading.BoundedSemaphore(max(1, settings.web_threads // 4))


def site_origin() -> str:
    """Return scheme and host of this site, to prepend to a path of `url_for`: as configured, else as requested."""
    found = urlsplit(services().settings.app_base_url or request.url_root)
    return f"{found.scheme}://{found.netloc}"


def services() -> Services:
    """Return the services of the current app."""
    return cast(Services, current_app.extensions["waybill"])
