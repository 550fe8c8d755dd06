"""Each part of a long document is paid for once, whatever happens in between."""

from __future__ import annotations

import re
import signal
import uuid
from collections import Counter

import pytest

from tasks.fake_provider import FakeProvider
from tasks.ledger.jobs import checkpoints
from tasks.ledger.reports import job_views
from tasks.ledger.states import State
from tests.support import factories
from tests.support.processes.processes import asking, worker
from tests.support.site import SHORT, Opened, Site

PARTS, KILLS, AT_ONCE = 40, 5, 4
LONG = "\n\n".join(f"Paragraph <{n}> {'says that the pier is closed. ' * 6}" for n in range(PARTS)).encode()
LIMITS = {**SHORT, "CALL_CHARS": 200, "PARTS_AT_ONCE": AT_ONCE, "LEASE_SECONDS": 1, "SWEEP_SECONDS": 0.1}

# The limits are long, so that a slow machine does not look like a provider that hangs or a worker that died.
PATIENT = {
    **LIMITS,
    "PROVIDER_CALL_SECONDS": 6,
    "ATTEMPT_SECONDS": 9,
    "RESERVATION_SECONDS": 13,
    "RUNTIME_ALLOWANCE_SECONDS": 16,
    "LEASE_SECONDS": 2,
    "JOB_DEADLINE_SECONDS": 140,
}


def asked(fake: FakeProvider) -> Counter[str]:
    """Return how often the provider saw a request for each part."""
    found: Counter[str] = Counter()
    for request in fake.requests:
        for mark in re.findall(rb"Paragraph <(\d+)>", request.body):
            found[f"part {int(mark) + 1} of {PARTS}"] += 1
    return found


def folds(here: Site, job: uuid.UUID) -> list[str]:
    """Return the steps that combine the answers, once for each request."""
    with here.database.transaction() as session:
        return [call.step for call in job_views.calls_of(session, job) if call.step.startswith("fold")]


def saved(here: Site, job: uuid.UUID) -> set[str]:
    with here.database.transaction() as session:
        return set(checkpoints.load(session, job)) - {"read"}


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.timeout(150)
def test_forty_parts_over_five_kills_are_one_result_and_no_saved_part_is_asked_for_again(site: Opened) -> None:
    with site({"mode": "ok", "delay": 0.25, "text": "This part says that the pier is closed."}, **PATIENT) as here:
        here.worker.signal(signal.SIGKILL)
        here.worker.wait()
        job = here.submit(LONG)
        shown = [0]
        for kill in range(1, KILLS + 1):
            with worker(here.addresses, **asking(here.fake, **PATIENT)) as victim:

                def far_enough(kill: int = kill) -> bool:
                    shown.append(here.view(job).progress_done)
                    return shown[-1] >= kill * 6

                factories.wait_until(far_enough, within=40, what=lambda: victim.log)
                victim.signal(signal.SIGKILL)
                victim.wait()
            kept, before = saved(here, job), asked(here.fake)
            again = {name: before[name] for name in kept if name in before}
            with here.database.transaction() as session:
                assert job_views.orphans(session, grace_seconds=5) == 0
        with worker(here.addresses, **asking(here.fake, **PATIENT)) as last:
            here.wait_for(job, State.SUCCEEDED, within=40)
            shown.append(here.view(job).progress_done)
            assert last.popen.poll() is None
        times = asked(here.fake)
        assert set(times) == {f"part {n} of {PARTS}" for n in range(1, PARTS + 1)}
        assert all(times[name] == count for name, count in again.items())
        assert sum(times.values()) - len(times) <= KILLS * AT_ONCE  # only the calls in flight at a kill
        assert len(folds(here, job)) == len(set(folds(here, job)))
        assert shown == sorted(shown), "progress went back"
        assert here.results() == 1
        assert here.view(job).attempt == 1  # a kill does not count as an attempt


@pytest.mark.thorough
@pytest.mark.crash
@pytest.mark.timeout(150)
def test_when_the_attempts_time_is_over_the_job_goes_on_in_the_next_one_uncounted(site: Opened) -> None:
    with site({"mode": "ok", "delay": 0.6}, **{**LIMITS, "PARTS_AT_ONCE": 2}) as here:
        job = here.submit(LONG)
        in_flight = []

        def is_saved() -> bool:
            in_flight.append(here.fake.in_flight)
            return here.view(job).state is State.SUCCEEDED

        factories.wait_until(is_saved, within=45, what=lambda: here.worker.log)
        assert max(in_flight) == 2
        outcomes = here.outcomes(job)
        assert outcomes[-1] == "succeeded"
        assert len(outcomes) > 1
        assert set(outcomes[:-1]) == {"released"}
        assert here.view(job).attempt == 1
        assert set(asked(here.fake).values()) == {1}
        assert len(folds(here, job)) == len(set(folds(here, job)))


@pytest.mark.crash
def test_a_part_that_fails_for_good_ends_the_job_and_the_parts_in_the_air_are_kept(site: Opened) -> None:
    with site({"mode": "ok"}, **LIMITS) as here:
        here.fake.script([{"mode": "refusal"}], marker="Paragraph <2>")
        job = here.submit(LONG)
        view = here.wait_for(job, State.FAILED)
        assert view.error_category == "content_policy"
        assert "part 1 of 40" in saved(here, job)
        assert len(here.fake.requests) < PARTS


@pytest.mark.crash
def test_an_answer_cut_off_is_asked_for_once_more_with_more_room(site: Opened) -> None:
    with site({"mode": "length", "text": "The committee decided that"}, {"mode": "ok", "text": "Whole."}) as here:
        job = here.submit()
        here.wait_for(job, State.SUCCEEDED)
        with here.database.transaction() as session:
            result = job_views.result_of(session, job, here.account_id)
            codes = [call.error_code for call in job_views.calls_of(session, job)]
        assert result is not None
        assert (result.text, "cut_off" in result.facts) == ("Whole.", False)
        assert codes == ["output_limit", None]
        assert b"Write at most half as much" in here.fake.requests[1].body
