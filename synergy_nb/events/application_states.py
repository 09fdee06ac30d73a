"""The states of an application, and which may follow which: for the peer that leads it, for notebooks and for views.

An application is *composing* until it is decided whether and where it runs. Its origin tells three states of that
apart, and two more of an application that *runs* while its graph changes; notebooks and views are told the
:class:`Status` alone, which :data:`STATUS` gives for each state.

=================  =================================================================================================
discovering        the directory is asked who offers its components, and which of its streams run already
deciding           probes find out who executes what; before them, a placement may have proposed that
establishing       the peers of a graph commit what it takes, and deploy its components
running            its sources emit
taking over        backups take the place of components whose peer has died, and tuples go on where they can
moving             a component follows another one, to take its place
finished           all its streams have ended; its results are kept until they have been collected
failed             it cannot go on; what has arrived at its sinks is kept
rejected           no graph was admitted
stopped            somebody has ended it
=================  =================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from synergy_nb.errors import SynergyError

__all__ = [
    "ENDED",
    "FOLLOWS",
    "LASTING",
    "RUNS",
    "STATUS",
    "UNDECIDED",
    "IllegalTransition",
    "State",
    "Status",
    "check",
]


class Status(StrEnum):
    """The state of an application as people are told."""

    COMPOSING = "composing"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    REJECTED = "rejected"
    STOPPED = "stopped"


class State(StrEnum):
    """The state of an application as its origin knows it."""

    DISCOVERING = "discovering"
    DECIDING = "deciding"
    ESTABLISHING = "establishing"
    RUNNING = "running"
    TAKING_OVER = "taking over"
    MOVING = "moving"
    FINISHED = "finished"
    FAILED = "failed"
    REJECTED = "rejected"
    STOPPED = "stopped"


_RUNS_ON = {State.RUNNING, State.TAKING_OVER, State.MOVING, State.FINISHED, State.FAILED, State.STOPPED}

#: State to the states that may follow it.
FOLLOWS: Final[Mapping[State, frozenset[State]]] = MappingProxyType(
    {
        State.DISCOVERING: frozenset({State.DECIDING, State.REJECTED, State.STOPPED}),
        State.DECIDING: frozenset({State.DISCOVERING, State.ESTABLISHING, State.REJECTED, State.STOPPED}),
        State.ESTABLISHING: frozenset({State.DECIDING, State.RUNNING, State.STOPPED}),
        State.RUNNING: frozenset(_RUNS_ON - {State.RUNNING}),
        State.TAKING_OVER: frozenset(_RUNS_ON - {State.MOVING}),  # another peer may die meanwhile
        State.MOVING: frozenset(_RUNS_ON - {State.MOVING, State.TAKING_OVER}),  # a move is given up first
        State.FINISHED: frozenset({State.STOPPED}),  # its results are not wanted
        State.FAILED: frozenset(),
        State.REJECTED: frozenset(),
        State.STOPPED: frozenset(),
    }
)

#: State to what people are told of it.
STATUS: Final[Mapping[State, Status]] = MappingProxyType(
    {
        State.DISCOVERING: Status.COMPOSING,
        State.DECIDING: Status.COMPOSING,
        State.ESTABLISHING: Status.COMPOSING,
        State.RUNNING: Status.RUNNING,
        State.TAKING_OVER: Status.RUNNING,
        State.MOVING: Status.RUNNING,
        State.FINISHED: Status.FINISHED,
        State.FAILED: Status.FAILED,
        State.REJECTED: Status.REJECTED,
        State.STOPPED: Status.STOPPED,
    }
)

#: States in which it is not decided whether it runs.
UNDECIDED: Final = frozenset(state for state, status in STATUS.items() if status is Status.COMPOSING)
#: States of an application that runs.
RUNS: Final = frozenset(state for state, status in STATUS.items() if status is Status.RUNNING)
#: What people are told of applications that have not ended, and of those that have.
LASTING: Final = frozenset({Status.COMPOSING, Status.RUNNING})
ENDED: Final = frozenset(Status) - LASTING


class IllegalTransition(SynergyError, RuntimeError):
    """An application cannot change from its state to the new one: a bug in the peer, not in the request."""


def check(application: str, before: State, after: State) -> None:
    """Raise :class:`IllegalTransition` unless one state of an application may follow another.

    Examples
    --------
    >>> check("a", State.DECIDING, State.ESTABLISHING)
    >>> check("a", State.REJECTED, State.RUNNING)
    Traceback (most recent call last):
        ...
    synergy_nb.events.application_states.IllegalTransition: application 'a': running after rejected; expected no change
    """
    if after not in FOLLOWS[before]:
        expected = " or ".join(sorted(FOLLOWS[before])) or "no change"
        raise IllegalTransition(f"application {application!r}: {after} after {before}; expected {expected}")
