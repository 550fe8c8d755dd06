"""Measures many jobs in flight: how fast they reach the AI service, what they need while they wait, and what is left
when all of them are answered at one moment.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.beside_peers.idle import connections
from benchmarks.beside_peers.order import measure_each
from benchmarks.beside_peers.peer import Peer
from benchmarks.beside_peers.processes import Running
from benchmarks.beside_peers.results import Part
from benchmarks.beside_peers.servers import Servers
from benchmarks.beside_peers.systems import System
from benchmarks.beside_peers.throughput import submit_all
from benchmarks.beside_peers.waybill import LONG_CALLS, Waybill, most_slots

FILLING_SECONDS, STEADY_SECONDS, SAVING_SECONDS = 90, 10, 60
NO_MORE_SECONDS = 10
"""The filling has ended when no request has come for so long."""


def measure(servers: Servers, peers: Sequence[str], jobs: int = 1000) -> dict[str, Part]:
    """Measure with a slot for each job, as far as the settings of each system allow."""
    part = Part(f"In flight: {jobs:,} jobs at the AI, then all answered at one moment")
    ours = Waybill(servers, min(jobs, most_slots()), **LONG_CALLS)
    others = [Peer(servers, name, jobs) for name in peers]
    measure_each(ours, others, lambda system: measure_one(system, part), between=max(1, len(others)))
    return {"inflight": part}


def measure_one(system: System, part: Part) -> None:
    system.servers.ai("/_set", delay=800, reset=True)
    system.prepare()
    with ExitStack() as stack:
        web = stack.enter_context(system.start_web())
        submit_all(system, system.slots)
        worker = stack.enter_context(system.start_worker())
        filled_after = fill(system, worker)
        cpu, began = worker.cpu, time.time()
        time.sleep(STEADY_SECONDS)
        waiting_cpu = 100 * (worker.cpu - cpu) / (time.time() - began)
        held, memory, web_memory = system.servers.ai("/_stats")["waiting"], worker.memory, web.memory
        postgresql, redis = connections(system)
        if isinstance(system, Waybill):
            second = system.start_second_worker()  # a claim can be lost only if somebody is there to take it
            stack.enter_context(second)
            time.sleep(5)
        seconds, saved = answer_all(system)
        asked = Counter(mark for mark, _ in system.servers.ai("/_log"))
    part.add(
        system.name,
        {
            "slots": system.slots,
            "at the AI": held,
            "filled after, s": filled_after,
            "worker PSS, MB": memory.pss,
            "web PSS, MB": web_memory.pss,
            "threads of the worker": memory.threads,
            "PostgreSQL connections": postgresql,
            "Redis connections": redis,
            "worker CPU while all wait, %": waiting_cpu,
            "all saved after, s": seconds,
            "saved": saved,
            "asked again": sum(times > 1 for mark, times in asked.items() if mark),
        },
    )


def fill(system: System, worker: Running) -> float:
    """Wait until all jobs are at the AI service or no more come; return the seconds since the worker's start."""
    most, at, end = 0, time.time(), time.time() + FILLING_SECONDS
    while time.time() < end and most < system.slots and time.time() - at < NO_MORE_SECONDS:
        waiting = system.servers.ai("/_stats")["waiting"]
        if waiting > most:
            most, at = waiting, time.time()
        time.sleep(0.05)
    return at - worker.began


def answer_all(system: System) -> tuple[float, int]:
    """Let the AI service answer everything at once; return after how many seconds all is saved, and how much is."""
    system.servers.ai("/_set", delay=0)
    began = time.time()
    system.servers.ai("/_answer")
    done = 0
    while time.time() < began + SAVING_SECONDS and done < system.slots:
        time.sleep(0.1)
        done = system.done()
    return time.time() - began, done
