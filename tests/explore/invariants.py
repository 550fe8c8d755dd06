"""The invariants: what must hold of the rows after every committed transaction, whatever happened before.

Each function yields a sentence for each invariant that does not hold. `broken_invariants` asks them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tasks.ledger.states import HELD, TERMINAL, TRANSITIONS, WAITING, Event, State
from tests.explore.operations.registry import Effect
from tests.explore.snapshot import Row, Snapshot
from tests.explore.world import CALLS_AT_ONCE, JOBS_AT_ONCE, MAX_INTERRUPTIONS, RESPONSE, World

COUNTED = frozenset({"succeeded", "retry", "failed", "timed_out"})
TAKES_THE_JOB = frozenset({Event.CLAIM, Event.EXPIRE, Event.REPLAY})
"""List the events that raise the generation: the right to work on the job changes hands."""


@dataclass
class Life:
    """A job with all its rows."""

    job: Row
    state: State
    deliveries: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    calls: list[Row] = field(default_factory=list)
    results: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    notices: list[Row] = field(default_factory=list)


def lives(snapshot: Snapshot) -> list[Life]:
    """Return each job with its rows."""
    tables = ("deliveries", "attempts", "calls", "results", "events", "notices")
    found = {table: snapshot.by_job(table) for table in tables}
    return [
        Life(job, State(job["state"]), **{table: found[table][job["id"]] for table in tables})
        for job in snapshot["jobs"]
    ]


def broken_invariants(
    snapshot: Snapshot, world: World, effects: Collection[Effect] = (), *, at_rest: bool = False
) -> list[str]:
    """Return a sentence for each invariant that does not hold. `at_rest`: every job must have ended, too."""
    broken = [*_of_all(snapshot), *(() if Effect.EXCEEDS_LIMITS in effects else _limits(snapshot))]
    if world.has_response and Effect.CANCELS_RESPONSES not in effects and not at_rest:
        broken += _response(snapshot)
    for life in lives(snapshot):
        name = {str(world.job): "the job", str(world.other): "the other job"}.get(life.job["id"], "a new job")
        may_lack_delivery = world.owed_nothing and life.job["id"] == str(world.job) and not at_rest
        checks = [
            *_delivery(life, snapshot, may_lack_delivery),
            *_attempts(life),
            *_result(life),
            *_calls(life),
            *_history(life),
            *_notifications(life, snapshot, effects),
            *(_ended(life) if at_rest else ()),
        ]
        broken += [f"{name} ({life.state}, generation {life.job['generation']}): {check}" for check in checks]
    return broken


def _delivery(life: Life, snapshot: Snapshot, may_lack_delivery: bool) -> Iterator[str]:
    job, owed = life.job, life.deliveries
    if life.state in WAITING and not owed and not may_lack_delivery:
        yield "is an orphan: it waits, and no delivery is owed"
    if life.state not in WAITING and owed:
        yield "is owed a delivery, although it does not wait"
    for delivery in owed:
        if delivery["number"] > job["deliveries"]:
            yield "is owed a delivery with a number that was never given"
        if life.state is State.RETRY_WAIT and delivery["not_before"] != job["next_attempt"]:
            yield f"shows its next attempt {job['next_attempt']}, and may run {delivery['not_before']}"
        lane = next((lane for lane in snapshot["lanes"] if lane["name"] == delivery["lane"]), None)
        lane_is_open = lane is None or lane["state"] == "open"
        if delivery["lane"] and lane_is_open and delivery["not_before"] != "now":
            yield "waits for a lane that is open"


def _attempts(life: Life) -> Iterator[str]:
    job, attempts = life.job, life.attempts
    is_open = [attempt["generation"] for attempt in attempts if attempt["outcome"] is None]
    if is_open != ([job["generation"]] if life.state in HELD else []):
        yield f"has open attempts of the generations {is_open}"
    claims = [event["generation"] for event in life.events if event["event"] == Event.CLAIM]
    if [attempt["generation"] for attempt in attempts] != claims:
        yield "has other attempts than claims"
    counted = sum(attempt["outcome"] in COUNTED for attempt in attempts)
    ended_as_cancelled = sum(attempt["outcome"] == "cancelled" for attempt in attempts)
    if not counted <= job["attempts"] <= counted + ended_as_cancelled:
        yield f"counts {job['attempts']} attempts instead of {counted}"
    if job["attempts"] > job["max_attempts"]:
        yield "has had more attempts than it may have"
    handed_back = sum(event["event"] == Event.RELEASE for event in life.events)  # by a shutdown; it ends no job
    if job["interruptions"] > MAX_INTERRUPTIONS + 1 + handed_back:
        yield "was interrupted more often than it may be"


def _result(life: Life) -> Iterator[str]:
    expected = life.state is State.SUCCEEDED and not life.job["closed"]
    if len(life.results) != expected:
        yield f"has {len(life.results)} results"
    for result in life.results:
        by = [attempt["generation"] for attempt in life.attempts if attempt["outcome"] == "succeeded"]
        if result["generation"] not in by:
            yield f"has a result of generation {result['generation']}, which did not succeed"


def _calls(life: Life) -> Iterator[str]:
    for call in life.calls:
        can_be_polled = call["response_id"] is not None
        is_current = life.state in HELD and call["generation"] == life.job["generation"]
        if call["outcome"] == "open" and not can_be_polled and not is_current:
            yield f"has left a call of generation {call['generation']} open"


def _history(life: Life) -> Iterator[str]:
    state: State | None = None
    for row in life.events:
        event, after = Event(row["event"]), State(row["state"])
        allowed = after is State.QUEUED and state is None
        if event is not Event.RECORD:
            allowed = state is not None and TRANSITIONS[event].get(state) is after
        if not allowed:
            yield f"went from {state} to {after} by {event}, which is not in the table"
        state = after
    if state is not life.state:
        yield f"has a history that ends as {state}"
    for before, row in pairwise(life.events):
        grows = Event(row["event"]) in TAKES_THE_JOB
        if row["generation"] != before["generation"] + grows:
            yield f"came from generation {before['generation']} to {row['generation']} by {row['event']}"
    if life.events and life.events[-1]["generation"] != life.job["generation"]:
        yield "has a generation that is not in its history"


def _notifications(life: Life, snapshot: Snapshot, effects: Collection[Effect]) -> Iterator[str]:
    hooks = [notice for notice in life.notices if notice["channel"] == "webhook"]
    ends = sum(State(event["state"]) in TERMINAL for event in life.events)
    if len(hooks) > ends:
        yield f"has {len(hooks)} notifications of {ends} ends"
    wanted = any(preference["webhook_url"] for preference in snapshot["preferences"])
    if life.state in TERMINAL and not hooks and wanted and Effect.CHANGES_PREFERENCES not in effects:
        yield "has ended, and nobody is notified"
    if life.state not in TERMINAL and any(not hook["sent"] and not hook["gave_up"] for hook in hooks):
        yield "owes a notification of an end that is not true any more"


def _ended(life: Life) -> Iterator[str]:
    if life.state not in TERMINAL:
        yield "never ends"
    if any(call["outcome"] == "open" for call in life.calls):
        yield "has a call that is open for ever"


def _of_all(snapshot: Snapshot) -> Iterator[str]:
    keys = Counter(job["operation_key"] for job in snapshot["jobs"] if job["state"] != State.CANCELLED)
    if any(number > 1 for number in keys.values()):
        yield "two jobs have one operation key"
    yield from _content(snapshot)
    yield from _account(snapshot)


def _limits(snapshot: Snapshot) -> Iterator[str]:
    unfinished = sum(State(job["state"]) not in TERMINAL for job in snapshot["jobs"])
    if unfinished > JOBS_AT_ONCE:
        yield f"the account has {unfinished} unfinished jobs"
    in_flight = sum(call["outcome"] == "open" for call in snapshot["calls"])
    if in_flight > CALLS_AT_ONCE:
        yield f"the lane has {in_flight} calls in flight"
    for gate in snapshot["gates"]:
        held = sum(State(job["state"]) in HELD for job in snapshot["jobs"])
        if gate["at_once"] and held > gate["at_once"]:
            yield f"{held} jobs are held at once, and the gate allows {gate['at_once']}"


def _response(snapshot: Snapshot) -> Iterator[str]:
    if RESPONSE not in {row["response_id"] for row in snapshot["calls"] + snapshot["left_responses"]}:
        yield "the id of a response is lost"


def _content(snapshot: Snapshot) -> Iterator[str]:
    kept = {document["id"]: document["kept"] for document in snapshot["documents"]}
    for job in snapshot["jobs"]:
        if not kept.get(job["document_id"]) and not job["closed"]:
            yield "the document of a job is gone"
    replayed = {event["job_id"] for event in snapshot["events"] if event["event"] == Event.REPLAY}
    for item in snapshot["replay_items"]:
        if item["outcome"] == "replayed" and item["job_id"] not in replayed:
            yield "a replay says that it put a job back, and the job's history does not"


def _account(snapshot: Snapshot) -> Iterator[str]:
    if not snapshot["accounts"]:
        for table in ("jobs", "documents", "submissions", "notices", "tokens", "preferences", "account_limits"):
            if snapshot[table]:
                yield f"{table} are left of an account that was deleted"
        return
    spent = sum((call["input_tokens"] or 0) + (call["output_tokens"] or 0) for call in snapshot["calls"])
    if sum(row["tokens"] for row in snapshot["tokens"]) < spent:
        yield "tokens were not counted"
