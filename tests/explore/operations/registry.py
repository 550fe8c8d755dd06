"""The list of operations, and what each needs of a start state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tests.explore.actor import Actor
from tests.explore.world import World

Run = Callable[[World, Actor], object]


class Effect(Enum):
    """The effects of an operation that let an invariant rest."""

    CHANGES_PREFERENCES = "changes preferences"  # so that nobody has to be notified
    CANCELS_RESPONSES = "cancels responses"  # so that the provider keeps none
    EXCEEDS_LIMITS = "exceeds limits"  # which nothing but new work must keep to


@dataclass(frozen=True)
class Operation:
    """One operation. It can be run in the start states that are `possible`."""

    name: str
    run: Run
    possible: Callable[[World], bool]
    effects: frozenset[Effect]


OPERATIONS: dict[str, Operation] = {}


def always(world: World) -> bool:
    """Return True: the operation is possible in each start state."""
    return True


def has_other(world: World) -> bool:
    """Return True if there is a second job."""
    return world.other is not None


def register(name: str, run: Run, possible: Callable[[World], bool] = always, *effects: Effect) -> None:
    """Add an operation to the list."""
    OPERATIONS[name] = Operation(name, run, possible, frozenset(effects))


def operation(possible: Callable[[World], bool] = always, *effects: Effect) -> Callable[[Run], Run]:
    """Add the decorated function to the list, under its name."""

    def add(run: Run) -> Run:
        register(run.__name__, run, possible, *effects)
        return run

    return add
