"""Tests that documents take turns at the readers, by account, and that the readers' memory together is bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tasks.intake import IntakePool, Limits, NoReaderFree, Refusal
from tasks.intake.sandbox import pool as pool_module
from tests.support import factories

LIMITS = Limits()


class Permits:
    """Lets readers go on: the reader of one text, or any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._texts: list[str] = []
        self._any = 0

    def release(self, count: int = 1) -> None:
        with self._changed:
            self._any += count
            self._changed.notify_all()

    def release_reader_of(self, text: str) -> None:
        with self._changed:
            self._texts.append(text)
            self._changed.notify_all()

    def acquire(self, text: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: text in self._texts or self._any)
            if text in self._texts:
                self._texts.remove(text)
            else:
                self._any -= 1


class GatedChild:
    """A reader that answers when it is allowed to: the real one takes as long as it takes."""

    allowed = Permits()
    order: list[str] = []  # noqa: RUF012
    memory: list[int] = []  # noqa: RUF012
    too_big: set[str] = set()  # noqa: RUF012
    running = 0
    most = 0

    def __init__(self) -> None:
        self.busy_until: float | None = None

    def wait_until_ready(self, seconds: float, cancelled: threading.Event) -> None: ...

    def ask(self, header: dict[str, Any], body: bytes, *_: object) -> tuple[dict[str, Any], bytes]:
        cls = type(self)
        cls.order.append(body.decode())
        cls.memory.append(header["limits"]["memory_bytes"])
        cls.running += 1
        cls.most = max(cls.most, cls.running)
        cls.allowed.acquire(body.decode())
        cls.running -= 1
        if body.decode() in cls.too_big and header["limits"]["memory_bytes"] < LIMITS.memory_bytes:
            return {"refused": Refusal.TOO_MUCH_MEMORY.value}, b""
        return {"kind": "txt", "facts": {}}, body

    def kill(self) -> None: ...

    def has_died(self) -> bool:
        return False


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[IntakePool]:
    child = type("Child", (GatedChild,), {"allowed": Permits(), "order": [], "memory": [], "too_big": set()})
    monkeypatch.setattr(pool_module, "Child", child)
    found = IntakePool(2)
    found.gate = child  # type: ignore[attr-defined]
    yield found
    child.allowed.release(100)  # type: ignore[attr-defined]
    found.close()


@pytest.fixture
def read(pool: IntakePool) -> Iterator[Callable[..., Future[object]]]:
    with ThreadPoolExecutor(20) as threads:

        def begin(text: str, account: str, wait_seconds: float = 60) -> Future[object]:
            return threads.submit(pool.read, text.encode(), None, LIMITS, account=account, wait_seconds=wait_seconds)

        yield begin
        pool.gate.allowed.release(100)  # type: ignore[attr-defined]


def until(pool: IntakePool, texts: int) -> list[str]:
    factories.wait_until(lambda: len(pool.gate.order) >= texts, within=10)  # type: ignore[attr-defined]
    return list(pool.gate.order)  # type: ignore[attr-defined]


def test_another_accounts_document_comes_before_the_rest_of_the_first(
    pool: IntakePool, read: Callable[..., Future[object]]
) -> None:
    many = [read(f"a{number}", "ada") for number in range(10)]
    until(pool, 2)
    factories.wait_until(lambda: len(pool._waiting) == 8, within=10)
    theirs = read("b", "bob")
    factories.wait_until(lambda: len(pool._waiting) == 9, within=10)
    pool.gate.allowed.release()  # type: ignore[attr-defined]
    assert until(pool, 3)[2] == "b", "in the order of arrival it would be the eleventh"
    pool.gate.allowed.release(100)  # type: ignore[attr-defined]
    for one in (*many, theirs):
        assert one.result(10)


def test_no_more_are_read_at_once_than_there_are_readers(pool: IntakePool, read: Callable[..., Future[object]]) -> None:
    all_of_them = [read(str(number), str(number)) for number in range(6)]
    until(pool, 2)
    pool.gate.allowed.release(100)  # type: ignore[attr-defined]
    for one in all_of_them:
        assert one.result(10)
    assert pool.gate.most == 2  # type: ignore[attr-defined]


def test_who_finds_no_reader_in_time_is_told_so(pool: IntakePool, read: Callable[..., Future[object]]) -> None:
    busy = [read("a", "ada"), read("b", "bob")]
    until(pool, 2)
    with pytest.raises(NoReaderFree):
        read("c", "cleo", wait_seconds=0.1).result(10)
    pool.gate.allowed.release(100)  # type: ignore[attr-defined]
    for one in busy:
        assert one.result(10)


def test_each_reader_has_a_share_and_what_needs_more_is_read_alone(
    pool: IntakePool, read: Callable[..., Future[object]]
) -> None:
    gate: Any = pool.gate  # type: ignore[attr-defined]
    gate.too_big.add("big")
    small, big = read("small", "ada"), read("big", "bob")
    until(pool, 2)
    later = read("later", "cleo")
    assert gate.memory == [LIMITS.memory_bytes // 2] * 2
    gate.allowed.release_reader_of("small")
    assert small.result(10)
    assert until(pool, 3)[2] == "later", "it has not been served yet"
    gate.allowed.release_reader_of("big")
    gate.allowed.release_reader_of("later")
    assert until(pool, 4)[3] == "big" and gate.running == 1
    gate.allowed.release(100)
    assert big.result(10) and later.result(10)
    assert gate.memory[gate.order.index("big", gate.order.index("big") + 1)] == LIMITS.memory_bytes


def test_a_read_that_fails_before_it_begins_gives_its_reader_back(
    pool: IntakePool, read: Callable[..., Future[object]]
) -> None:
    def fail() -> None:
        raise OSError

    pool.gate.allowed.release(100)  # type: ignore[attr-defined]
    for _ in range(4):
        with pytest.raises(OSError):
            pool.read(b"x", None, LIMITS, account="ada", begins=fail)
    assert read("after", "ada", wait_seconds=5).result(10)
    assert not pool._reading


def test_the_account_that_was_served_longest_ago_comes_first(
    pool: IntakePool, read: Callable[..., Future[object]]
) -> None:
    gate: Any = pool.gate  # type: ignore[attr-defined]
    futures = []
    for text in ("a0", "b0", "c0", "c1", "a1", "b1"):
        futures.append(read(text, text[0]))
        factories.wait_until(lambda: len(gate.order) + len(pool._waiting) == len(futures), within=10)
    for begun, (read_now, next_one) in enumerate([("a0", "c0"), ("b0", "a1"), ("c0", "b1"), ("a1", "c1")], start=3):
        gate.allowed.release_reader_of(read_now)
        assert until(pool, begun)[-1] == next_one
    gate.allowed.release(100)
    for one in futures:
        assert one.result(10)
