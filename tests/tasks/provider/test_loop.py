"""Tests the event loop of all calls of a process: slots, cancelling, closing, and two hundred calls in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager

import pytest

from tasks.fake_provider import FakeProvider
from tasks.ledger.errors import Category
from tasks.provider import CallProgress, Prompt, ProviderError, ProviderSettings
from tasks.provider.loop import ProviderLoop

Settings = Callable[..., ProviderSettings]
GATE = {"mode": "gate"}


@contextmanager
def running(settings: ProviderSettings) -> Iterator[ProviderLoop]:
    loop = ProviderLoop(settings)
    loop.start()
    try:
        yield loop
    finally:
        assert loop.close(timeout=10)


def test_two_hundred_calls_are_in_flight_at_once(fake: FakeProvider, settings: Settings, prompt: Prompt) -> None:
    fake.script([GATE])
    # The time limits are generous for busy machines: this test is about the number of calls, not their speed.
    with running(settings(call_seconds=50, connect_timeout_seconds=45)) as loop:
        calls = [loop.submit(prompt, client_request_id=f"call-{i}", budget_seconds=50) for i in range(200)]
        fake.wait_for(lambda: fake.in_flight == 200, timeout=45)
        assert sum(thread.name == "provider-loop" for thread in threading.enumerate()) == 1
        fake.release()
        assert {call.result(timeout=20).text for call in calls} == {calls[0].result().text}
    assert {seen.client_request_id for seen in fake.requests} == {f"call-{i}" for i in range(200)}


def test_concurrency_is_bounded(fake: FakeProvider, settings: Settings, prompt: Prompt) -> None:
    fake.script([{"mode": "ok", "delay": 0.02}])
    with running(settings(concurrency=3)) as loop:
        calls = [loop.submit(prompt, client_request_id=f"call-{i}", budget_seconds=10) for i in range(12)]
        for call in calls:
            call.result(timeout=10)
    assert len(fake.requests) == 12
    assert fake.most_in_flight == 3


def test_waiting_for_a_place_does_not_use_the_budget(fake: FakeProvider, settings: Settings, prompt: Prompt) -> None:
    fake.script([GATE])
    with running(settings(concurrency=1)) as loop:
        first = loop.submit(prompt, client_request_id="call-1", budget_seconds=10)
        fake.wait_for_requests(1)
        second = loop.submit(prompt, client_request_id="call-2", budget_seconds=0.8)
        with pytest.raises(TimeoutError):  # longer than its budget
            second.result(timeout=1.2)
        fake.release()
        assert first.result(timeout=5).text == second.result(timeout=5).text


def test_cancelling_closes_the_connection(fake: FakeProvider, settings: Settings, prompt: Prompt) -> None:
    fake.script([{"mode": "hang"}, {"mode": "ok"}])
    progress = CallProgress()
    with running(settings(concurrency=1)) as loop:
        call = loop.submit(prompt, client_request_id="call-1", budget_seconds=30, progress=progress)
        fake.wait_for_requests(1)
        assert call.cancel()
        fake.wait_for_client_gone()
        assert progress.sent
        # Its slot is free again.
        loop.submit(prompt, client_request_id="call-2", budget_seconds=5).result(timeout=5)


def test_cancelling_a_call_that_waits_for_a_place_sends_nothing(
    fake: FakeProvider, settings: Settings, prompt: Prompt
) -> None:
    fake.script([GATE])
    progress = CallProgress()
    with running(settings(concurrency=1)) as loop:
        first = loop.submit(prompt, client_request_id="call-1", budget_seconds=30)
        fake.wait_for_requests(1)
        second = loop.submit(prompt, client_request_id="call-2", budget_seconds=30, progress=progress)
        assert second.cancel()
        third = loop.submit(prompt, client_request_id="call-3", budget_seconds=30)
        fake.release()
        first.result(timeout=5)
        third.result(timeout=5)
    assert [seen.client_request_id for seen in fake.requests] == ["call-1", "call-3"]
    assert not progress.sent


def test_two_hundred_cancelled_calls_give_their_places_back(
    fake: FakeProvider, settings: Settings, prompt: Prompt
) -> None:
    fake.script([{"mode": "hang"}])
    with running(settings(concurrency=50, call_seconds=50, connect_timeout_seconds=45)) as loop:
        calls = [loop.submit(prompt, client_request_id=f"call-{i}", budget_seconds=50) for i in range(200)]
        fake.wait_for(lambda: fake.in_flight == 50)
        for call in reversed(calls):  # first the calls that wait for a slot
            assert call.cancel()
        fake.wait_for_client_gone(50)
        fake.script([{"mode": "ok"}])
        again = [loop.submit(prompt, client_request_id=f"again-{i}", budget_seconds=20) for i in range(60)]
        assert all(call.result(timeout=25).text for call in again)


def test_closing_cuts_off_what_is_in_flight(fake: FakeProvider, settings: Settings, prompt: Prompt) -> None:
    fake.script([{"mode": "hang"}])
    with running(settings()) as loop:
        calls = [loop.submit(prompt, client_request_id=f"call-{i}", budget_seconds=30) for i in range(5)]
        fake.wait_for_requests(5)
        assert loop.close(timeout=5)
        fake.wait_for_client_gone(5)
        for call in calls:
            with pytest.raises(CancelledError):
                call.result(timeout=5)
        with pytest.raises(ProviderError) as caught:
            loop.submit(prompt, client_request_id="late", budget_seconds=1)
    assert (caught.value.category, caught.value.code, caught.value.sent) == (
        Category.CONNECTION,
        "client_closed",
        False,
    )


def test_provider_that_cannot_be_made_is_told_by_start(settings: Settings, prompt: Prompt) -> None:
    loop = ProviderLoop(settings(api_key="two words"))
    with pytest.raises(ProviderError) as caught:
        loop.start()
    assert caught.value.code == "malformed_key"
    with pytest.raises(ProviderError):
        loop.submit(prompt, client_request_id="call-1", budget_seconds=1)
    assert loop.close(timeout=5)


def test_closing_what_was_never_started(settings: Settings) -> None:
    assert ProviderLoop(settings()).close(timeout=1)


def test_errors_reach_the_thread_that_asked(fake: FakeProvider, settings: Settings, prompt: Prompt) -> None:
    fake.script([{"mode": "quota"}])
    with running(settings()) as loop:
        error = loop.submit(prompt, client_request_id="call-1", budget_seconds=5).exception(timeout=5)
        assert loop.provider.name == "openai"
    assert isinstance(error, ProviderError)
    assert error.category is Category.QUOTA
