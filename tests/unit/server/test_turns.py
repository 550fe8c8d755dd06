"""Which request a thread takes next: no page waits behind downloads, and no download behind all of somebody else's."""

from __future__ import annotations

import threading

import pytest

from tests.support.factories import wait_until
from webapp.server.clients import client_of
from webapp.server.downloads import MAX_KNOWN, Downloads
from webapp.server.pace import Pace
from webapp.server.turns import Turns


class Asked:
    """A request as the threads see it. `length` is what its answer is known to be."""

    def __init__(self, name: str, done: list[str], *, length: int = 0, client: str = "", hold: bool = False) -> None:
        self._name, self._done, self._length, self._client = name, done, length, client
        self.released = threading.Event()
        self.began = threading.Event()
        if not hold:
            self.released.set()

    def known_length(self) -> int:
        return self._length

    def client(self) -> str:
        return self._client

    def service(self) -> None:
        self.began.set()
        self.released.wait(10)
        self._done.append(self._name)

    def refuse_download(self) -> None:
        self._done.append(f"{self._name} refused")


def add(turns: Turns, *asked: Asked) -> None:
    for one in asked:
        turns.add(one)  # type: ignore[arg-type]


def test_downloads_take_turns_by_client_and_leave_a_thread_to_pages() -> None:
    done: list[str] = []
    turns = Turns(2, 10)
    turns.set_room(1_000)
    first = Asked("a1", done, length=10, client="a", hold=True)
    add(turns, first)
    assert first.began.wait(10)
    add(turns, *(Asked(f"a{number}", done, length=10, client="a") for number in (2, 3)))
    add(turns, Asked("b1", done, length=10, client="b"), Asked("page", done))
    wait_until(lambda: done == ["page"], what=lambda: str(done))
    first.released.set()
    wait_until(lambda: len(done) == 5, what=lambda: str(done))
    assert done == ["page", "a1", "a2", "b1", "a3"]
    turns.stop(1)


def test_downloads_wait_while_there_is_no_room_and_pages_do_not() -> None:
    done: list[str] = []
    turns = Turns(1, 10)
    add(turns, Asked("download", done, length=10), Asked("page", done))
    wait_until(lambda: done == ["page"], what=lambda: str(done))
    assert turns.set_room(0) is True
    assert turns.set_room(1) is False
    wait_until(lambda: done == ["page", "download"], what=lambda: str(done))
    turns.stop(1)


def test_no_more_downloads_wait_than_may() -> None:
    done: list[str] = []
    turns = Turns(1, 2)
    add(turns, *(Asked(str(number), done, length=10) for number in range(3)))
    wait_until(lambda: done == ["2 refused"], what=lambda: str(done))
    turns.stop(1)


@pytest.mark.parametrize(
    ("seen", "hops", "client"),
    [
        ("", 0, "192.0.2.1"),
        ("203.0.113.5", 0, "192.0.2.1"),
        ("203.0.113.5", 1, "203.0.113.5"),
        ("1.2.3.4, 203.0.113.5", 1, "203.0.113.5"),
        ("203.0.113.5, 10.0.0.1", 2, "203.0.113.5"),
        ("2001:db8::1", 1, "2001:db8::/64"),
        ("203.0.113.5", 2, "192.0.2.1"),
    ],
)
def test_a_client_is_the_one_that_the_last_trusted_proxy_saw(seen: str, hops: int, client: str) -> None:
    assert client_of({"X_FORWARDED_FOR": seen}, "192.0.2.1", hops) == client


def test_an_address_is_a_download_while_its_answers_are_large_and_few_are_remembered() -> None:
    known = Downloads(100)
    known.learn("/large", 100)
    known.learn("/small", 99)
    assert (known.length("/large"), known.length("/small")) == (100, 0)
    known.learn("/large", 99)
    assert known.length("/large") == 0
    for number in range(MAX_KNOWN + 1):
        known.learn(f"/{number}", 100)
    assert (known.length("/0"), known.length("/1")) == (0, 100)


def test_a_burst_earns_no_credit_for_a_long_rest() -> None:
    pace = Pace()
    pace.begin(0)
    pace.add(1_000_000)
    assert not pace.is_below(2_000, 9, 10)
    assert not pace.is_below(2_000, 10, 10)
    pace.add(19_000)
    assert not pace.is_below(2_000, 19, 10), "the window has not ended"
    assert pace.is_below(2_000, 20, 10)


def test_what_stands_still_is_slower_than_what_goes_on() -> None:
    burst, steady = Pace(), Pace()
    for pace in (burst, steady):
        pace.begin(0)
    burst.add(300_000)
    for _ in range(5):
        steady.add(50_000)
        for pace in (burst, steady):
            pace.fade()
    assert burst.recent < steady.recent < burst.count
