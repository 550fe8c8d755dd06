"""The scripted provider's background mode: responses that are made without a connection, and can be polled.

A request with `"background": true` takes the next step of the script as any other request does. If the step's mode is
in LATER, the response is `queued`, and the step may have more keys:

  polls: how many polls find it in progress      gate: completed when that gate is released
  never: it never completes      gone: it cannot be found any more
  sync true: the server ignores background mode and answers at once
  looks: a list of steps for the first polls, such as {"mode": "overloaded"} or {"mode": "hang"}
  on_cancel: "faster" (it completes, and the cancel is refused), "ignored" (it goes on), or a step, such as a status
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tasks.fake_provider.replies import Reply, error, reply_for, response

if TYPE_CHECKING:
    from tasks.fake_provider import FakeProvider
    from tasks.fake_provider.http_server import Seen, Step

LATER = frozenset(
    {"ok", "raw", "echo", "gate", "failed", "length", "length_empty", "refusal", "filter", "blank", "never", "gone"}
)
PATH = "/v1/responses/"
NOT_FOUND = {"type": "invalid_request_error", "message": "Response not found (fake)."}


@dataclass
class Generation:
    """Represents a response in the background, and the requests about it. `status` None: it cannot be found."""

    id: str
    request: Seen
    step: Step
    status: str | None = "queued"
    looks: int = 0
    cancels: int = 0
    deletes: int = 0
    faults: list[Step] = field(default_factory=list)

    @property
    def metadata(self) -> dict[str, str]:
        return dict(self.request.json["metadata"])


def begin(fake: FakeProvider, seen: Seen, step: Step) -> Reply | None:
    """Return the HTTP response to a request in background mode; None if it is answered as any other request."""
    if step["mode"] not in LATER or step.get("sync") or not seen.path.endswith("/responses"):
        return None
    if not seen.json.get("background"):
        return None
    with fake.changed:
        made = Generation(f"resp_fake{len(fake.generations) + 1}", seen, step, faults=list(step.get("looks", [])))
        if step["mode"] == "gone":
            made.status = None
        fake.generations.append(made)
        fake.changed.notify_all()
    return _say(response(None, "queued", id=made.id, background=True))


def handle(fake: FakeProvider, method: str, path: str) -> tuple[Reply | None, Step | None]:
    """Return the HTTP response to a poll, a cancel or a deletion; or the step of the script to run instead."""
    response_id, _, verb = path.removeprefix(PATH).partition("/")
    with fake.changed:
        found = next((made for made in fake.generations if made.id == response_id), None)
        try:
            if found is None:
                return error(404, {}, **NOT_FOUND), None
            if method == "GET":
                return _poll(fake, found)
            if method == "DELETE":
                return _delete(found), None
            return _cancel(fake, found) if verb == "cancel" else (error(404, {}, **NOT_FOUND), None)
        finally:
            fake.changed.notify_all()


def _poll(fake: FakeProvider, made: Generation) -> tuple[Reply | None, Step | None]:
    made.looks += 1
    if made.faults:
        return None, made.faults.pop(0)
    if made.status == "queued" and _is_due(fake, made):
        made.status = "completed"
    return _shown(made), None


def _cancel(fake: FakeProvider, made: Generation) -> tuple[Reply | None, Step | None]:
    made.cancels += 1
    on_cancel = made.step.get("on_cancel")
    if isinstance(on_cancel, dict):
        return None, on_cancel
    if made.status == "queued" and on_cancel != "ignored":
        made.status = "completed" if on_cancel == "faster" or _is_due(fake, made, is_poll=False) else "cancelled"
    if made.status == "completed":
        return error(400, {}, type="invalid_request_error", message="Cannot cancel a completed response (fake)."), None
    return _shown(made), None


def _delete(made: Generation) -> Reply:
    made.deletes += 1
    if made.status is None:
        return error(404, {}, **NOT_FOUND)
    made.status = None
    return _say({"id": made.id, "object": "response", "deleted": True})


def _is_due(fake: FakeProvider, made: Generation, *, is_poll: bool = True) -> bool:
    mode = made.step["mode"]
    if mode == "never":
        return False
    if mode == "gate":
        return fake.gate(made.step.get("name", "default")).is_open
    return is_poll and made.looks > int(made.step.get("polls", 0))


def _shown(made: Generation) -> Reply:
    if made.status is None:
        return error(404, {}, **NOT_FOUND)
    if made.status != "completed":
        status = "in_progress" if made.status == "queued" and made.looks > 1 else made.status
        return _say(response(None, status, id=made.id, background=True))
    reply = reply_for(made.step, made.request.path, made.request.body, "")
    assert reply is not None
    return _say({**json.loads(reply.body), "id": made.id, "background": True})


def _say(answer: dict[str, Any]) -> Reply:
    return Reply(200, json.dumps(answer).encode())
