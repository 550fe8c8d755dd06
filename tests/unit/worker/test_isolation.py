"""Tests that a suspect is alone in its process until it has been read."""

from __future__ import annotations

import threading

from tasks.worker.isolation import Isolation
from tests.support.factories import wait_until


def in_thread(work: object) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_a_suspect_waits_for_the_others_and_they_wait_until_it_was_read() -> None:
    isolation, leave, was_read, end = Isolation(), threading.Event(), threading.Event(), threading.Event()
    said: list[str] = []

    def other(name: str) -> None:
        with isolation.beside_others(timeout=10) as entered:
            assert entered
            said.append(f"{name} in")
            leave.wait(10)
        said.append(f"{name} out")

    def suspect() -> None:
        with isolation.alone(timeout=10) as let_others_in:
            assert let_others_in is not None
            said.append("suspect in")
            was_read.wait(10)
            let_others_in()
            end.wait(10)

    first = in_thread(lambda: other("first"))
    wait_until(lambda: said == ["first in"], within=5)
    alone = in_thread(suspect)
    wait_until(lambda: isolation._alone == 1, within=5)
    second = in_thread(lambda: other("second"))
    assert said == ["first in"]
    leave.set()
    wait_until(lambda: said == ["first in", "first out", "suspect in"], within=5)
    was_read.set()
    wait_until(lambda: said[3:] == ["second in", "second out"], within=5)
    end.set()
    for thread in (first, second, alone):
        thread.join(5)


def test_nobody_waits_for_ever() -> None:
    isolation = Isolation()
    with isolation.beside_others(timeout=1) as entered:
        assert entered
        with isolation.alone(timeout=0.01) as let_others_in:
            assert let_others_in is None
        with isolation.beside_others(timeout=1) as again:
            assert again, "a suspect that gave up holds nobody up"
    with isolation.alone(timeout=1) as let_others_in:
        assert let_others_in is not None
        with isolation.beside_others(timeout=0.01) as beside:
            assert not beside
    with isolation.beside_others(timeout=1) as entered:
        assert entered
