"""What an app is made of besides Flask's own parts, made once an app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from flask import Flask, current_app

from tasks.dispatcher import Dispatcher
from tasks.queue import DeliveryQueue, connect
from tasks.settings import Settings
from webapp.transactions import transaction
from webapp.waiting import Waits

REDIS_CONNECTIONS = 2
REDIS_ANSWERS_WITHIN_SECONDS = 0.25
"""A request goes on without Redis after that: the dispatcher's loop delivers what was left."""


@dataclass(frozen=True)
class Parts:
    """Settings, the way to the queue, the dispatcher that is asked once after each commit, and the places to wait."""

    settings: Settings
    queue: DeliveryQueue
    dispatcher: Dispatcher
    waits: Waits


def join(app: Flask, settings: Settings) -> Parts:
    """Make the parts of this app."""
    connection = connect(settings, connections=REDIS_CONNECTIONS, answer_within_seconds=REDIS_ANSWERS_WITHIN_SECONDS)
    queue = DeliveryQueue(settings, connection)
    made = Parts(settings, queue, Dispatcher(transaction, queue), Waits(settings.web_threads // 2))
    app.extensions["waybill"] = made
    return made


def parts() -> Parts:
    """The parts of the app that answers this request."""
    return cast(Parts, current_app.extensions["waybill"])
