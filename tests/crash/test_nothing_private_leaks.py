"""I10: documents, summaries, keys and provider messages never reach Redis, the log, or the rows that operators read."""

from __future__ import annotations

import pytest
from redis import Redis
from sqlalchemy import text

from tasks.ledger.states import State
from tasks.queue import DeliveryQueue
from tests.support import house
from tests.support.site import Opened

DOCUMENT, ANSWER, KEY, WORDS = "marked-document", "marked-answer", "sk-marked-key", "marked-provider-message"
STEPS = [
    {"mode": "ok", "text": f"A summary with {ANSWER} in it."},
    {"mode": "status", "code": 400, "err": "bad", "message": f"{WORDS} about {DOCUMENT}"},
    {"mode": "status", "code": 500, "message": f"{WORDS} about {DOCUMENT}"},
    {"mode": "badjson"},
    {"mode": "drop"},
    {"mode": "refusal"},
    {"mode": "auth", "message": f"{WORDS}: {KEY}"},
]


def everything_in(redis: Redis) -> bytes:
    """Every key and value, whatever its type."""
    found = []
    for key in redis.scan_iter():
        kind = redis.type(key)
        found.append(key)
        if kind == b"hash":
            found += [part for pair in redis.hgetall(key).items() for part in pair]
        elif kind == b"stream":
            found.append(repr(redis.xrange(key)).encode())
        elif kind == b"string":
            found.append(redis.get(key) or b"")
        elif kind == b"list":
            found += redis.lrange(key, 0, -1)
    return b"\n".join(found)


@pytest.mark.crash
def test_nothing_private_is_found_outside_the_rows_that_hold_it(site: Opened, queue: DeliveryQueue) -> None:
    settings = {"OPENAI_API_KEY": KEY, "JOB_DEADLINE_SECONDS": 300, "MAX_ATTEMPTS": 1}
    with site({"mode": "ok"}, slots=1, **settings) as here:
        for number, step in enumerate(STEPS):
            here.fake.script([step])
            job = here.submit(f"Text {number} holds {DOCUMENT}.".encode(), title=f"Title {DOCUMENT}")
            here.wait_for(job, State.SUCCEEDED, State.FAILED)
        unreadable = here.submit(f"%PDF-1.4 {DOCUMENT}".encode())
        here.ops("resume")
        here.wait_for(unreadable, State.FAILED)
        with here.database.transaction() as session:
            tables = {"events", "attempts", "provider_calls", "deliveries", "submissions", "workers", "lanes"}
            rows = "\n".join(
                str(row) for table in sorted(tables) for row in session.execute(text(f"SELECT * FROM {table}"))
            )
            assert house.count(session, "results") == 1
        seen = {"redis": everything_in(queue.connection).decode(errors="replace"), "log": here.worker.log, "rows": rows}
    for place, content in seen.items():
        assert content, place
        for secret in (DOCUMENT, ANSWER, KEY, WORDS):
            assert secret not in content, f"{secret} in {place}"
