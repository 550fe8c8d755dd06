"""Redis may be down, full, emptied by hand or filled with forged messages: accepted jobs continue."""

from __future__ import annotations

import pickle
import signal
import uuid
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tasks.database import Database
from tasks.ledger.states import State
from tasks.queue import DELIVER, DeliveryQueue, message_id
from tests.support import factories
from tests.support.site import Opened, opener
from webapp.local.redis import Server


@pytest.fixture
def fragile_site(addresses: dict[str, str], own_redis: Server, database: Database, account_id: uuid.UUID) -> Opened:
    return opener({**addresses, "REDIS_URL": own_redis.address}, database, account_id)


@pytest.mark.crash
def test_a_redis_that_dies_and_comes_back_empty_costs_nothing(fragile_site: Opened, own_redis: Server) -> None:
    with fragile_site({"mode": "gate"}, {"mode": "ok"}) as here:
        running = here.submit(b"a text that is being worked on")
        here.fake.wait_for_requests(1)
        own_redis.kill()
        waiting = here.submit(b"a text handed in while the queue is away")
        here.fake.release()
        here.wait_for(running, State.SUCCEEDED)
        assert here.view(waiting).state is State.QUEUED
        own_redis.start()
        here.wait_for(waiting, State.SUCCEEDED)
        assert len(here.fake.requests) == 2
        assert here.orphans() == 0


@pytest.mark.crash
def test_a_worker_that_starts_before_redis_waits_for_it(fragile_site: Opened, own_redis: Server) -> None:
    own_redis.kill()
    with fragile_site({"mode": "ok"}) as here:
        job = here.submit()
        here.worker.wait_for_log("queue.unreachable")
        own_redis.start()
        here.wait_for(job, State.SUCCEEDED)


@pytest.mark.crash
def test_a_full_redis_delays_the_start_and_loses_nothing(fragile_site: Opened, own_redis: Server) -> None:
    with fragile_site({"mode": "ok"}) as here, Redis.from_url(own_redis.address) as redis:
        redis.config_set("maxmemory", "1")
        job = here.submit()
        here.worker.wait_for_log("dispatcher.waits")
        assert here.view(job).state is State.QUEUED
        redis.config_set("maxmemory", "0")
        here.wait_for(job, State.SUCCEEDED)


@pytest.mark.crash
def test_a_queue_emptied_by_hand_is_filled_again_from_the_rows(site: Opened, queue: DeliveryQueue) -> None:
    with site({"mode": "gate"}, {"mode": "ok"}, slots=1) as here:
        first = here.submit(b"the first text")
        here.fake.wait_for_requests(1)
        second = here.submit(b"the second text")
        factories.wait_until(lambda: queue.depth() == 1)
        queue.rq.empty()
        here.fake.release()
        for job in (first, second):
            here.wait_for(job, State.SUCCEEDED)


@pytest.mark.crash
def test_a_finished_message_requeued_by_hand_changes_nothing(site: Opened, queue: DeliveryQueue) -> None:
    with site({"mode": "ok"}) as here:
        job = here.submit()
        here.wait_for(job, State.SUCCEEDED)
        revision = here.view(job).revision
        message = factories.wait_until(lambda: queue.rq.fetch_job(message_id(job, 1)))
        factories.wait_until(lambda: message.get_status(refresh=True) == "finished")
        queue.rq.enqueue_job(message)
        here.worker.wait_for_log("delivery.refused")
        assert here.view(job).revision == revision
        assert len(here.fake.requests) == 1
        assert here.results() == 1


def forge(queue: DeliveryQueue, function: str = DELIVER, **kwargs: Any) -> None:
    queue.rq.enqueue(function, kwargs=kwargs)


@pytest.mark.crash
def test_forged_messages_run_nothing_and_harm_nobody(site: Opened, queue: DeliveryQueue, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    with site({"mode": "ok"}) as here:
        forge(queue, v=1, job=uuid.uuid4().hex, delivery=1)
        forge(queue, v=1, job="not an id'; DROP TABLE jobs", delivery=1)
        forge(queue, v=1)
        forge(queue, v=99, job=uuid.uuid4().hex, delivery=1)
        forge(queue, v=1, job=uuid.uuid4().hex, delivery=1, more="of a newer version")
        queue.rq.enqueue("pathlib.Path.touch", kwargs={"self": str(proof)})
        queue.rq.enqueue("os.system", kwargs={"command": f"touch {proof}"})
        pickled = queue.rq.enqueue(DELIVER, at_front=True)
        queue.connection.hset(pickled.key, "data", pickle.dumps(("os.system", None, (f"touch {proof}",), {})))
        job = here.submit(b"a good text behind all of them")
        here.wait_for(job, State.SUCCEEDED)
        factories.wait_until(lambda: queue.depth() == 0)
        assert not proof.exists()
        assert here.worker.popen.poll() is None
        assert len(here.fake.requests) == 1


@pytest.mark.crash
def test_a_message_of_another_version_is_left_and_its_job_stays_owed(
    addresses: dict[str, str], database: Database, queue: DeliveryQueue, account_id: uuid.UUID, site: Opened
) -> None:
    with site({"mode": "ok"}) as here:
        queue.mark_as_known()
        job = here.submit()
        forge(queue, v=2, job=job.hex, delivery=1, priority="high")
        here.worker.wait_for_log("delivery.of_another_version")
        here.wait_for(job, State.SUCCEEDED)
        assert here.orphans() == 0


@pytest.mark.crash
def test_keys_of_finished_and_failed_work_go_away_by_themselves(site: Opened, queue: DeliveryQueue) -> None:
    with site({"mode": "ok"}, {"mode": "context"}) as here:
        here.wait_for(here.submit(b"a good text"), State.SUCCEEDED)
        here.wait_for(here.submit(b"a text too long for the model"), State.FAILED)

        def all_expire() -> bool:
            messages = list(queue.connection.scan_iter("rq:job:*"))
            return len(messages) == 2 and all(0 < queue.connection.ttl(key) <= 7 * 24 * 3600 for key in messages)

        factories.wait_until(all_expire)
        with connect_raw(queue) as redis:
            everything = b" ".join(_values(redis, key) for key in redis.scan_iter())
        for secret in (b"good text", b"short summary", b"Traceback"):
            assert secret not in everything


def connect_raw(queue: DeliveryQueue) -> Redis:
    return Redis(connection_pool=queue.connection.connection_pool)


def _values(redis: Redis, key: bytes) -> bytes:
    kind = redis.type(key)
    if kind == b"hash":
        return b" ".join(part for pair in redis.hgetall(key).items() for part in pair)
    if kind == b"stream":
        return repr(redis.xrange(key)).encode()
    return key


@pytest.mark.crash
def test_a_worker_that_is_stopped_while_redis_is_away_hands_back_what_it_holds(
    fragile_site: Opened, own_redis: Server
) -> None:
    with fragile_site({"mode": "gate"}, slots=2, SHUTDOWN_GRACE_SECONDS=3) as here:
        job = here.submit()
        here.fake.wait_for_requests(1)
        own_redis.kill()
        here.worker.wait_for_log("dispatcher.waits")
        here.worker.signal(signal.SIGTERM)
        assert here.worker.wait(within=20) == 0, here.worker.log
        assert here.view(job).state is State.QUEUED
        assert here.orphans() == 0
        assert "REDIS_URL: no answer" in here.worker.log
