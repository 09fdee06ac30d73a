"""The states of an application and their transitions, for its origin, for notebooks and for views.

An application is *composing* until its origin has decided whether and where it runs. The origin distinguishes three
states of composing, and three more states of a *running* application whose graph changes. Notebooks and views see only
the :class:`Status`, to which :data:`STATUS` maps each state.

An application that runs may be *on hold*, in any of these states: a user has paused it, and its sources give no rows.
It is moved and taken over meanwhile as any other one. Notebooks and views see *on hold* in place of *running*.

=================  =================================================================================================
discovering        the directory is asked for the peers of its components, and for its streams that run already; at
                   first, and again when it is restarted after a death
deciding           probes find peers for its operators, which a placement may have proposed before
establishing       the peers of a graph commit resources and deploy its components
running            its sources emit
taking over        backups replace components whose peer has died; other components continue
moving             a follower copies a component, to replace it
rebuilding         a new peer gets a copy of a component, for a lost active replica or a lost backup
paused             it waits for a silent peer without which it cannot continue; it continues when that peer answers
finished           all its streams have ended; its results are retained at its sinks
failed             it cannot continue; the results that have arrived at its sinks are retained
rejected           no graph was admitted
stopped            a user has stopped it; the peers of its sinks retain results that others have not read
=================  =================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from synergy_nb.events import state_tables
from synergy_nb.events.state_tables import StateTable

__all__ = [
    "CHANGING",
    "ENDED",
    "FOLLOWS",
    "LASTING",
    "RUNS",
    "STATUS",
    "UNDECIDED",
    "State",
    "Status",
    "check",
]


class Status(StrEnum):
    """The state of an application in notebooks and views."""

    COMPOSING = "composing"
    RUNNING = "running"
    ON_HOLD = "on hold"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    REJECTED = "rejected"
    STOPPED = "stopped"


class State(StrEnum):
    """The state of an application at its origin."""

    DISCOVERING = "discovering"
    DECIDING = "deciding"
    ESTABLISHING = "establishing"
    RUNNING = "running"
    TAKING_OVER = "taking over"
    MOVING = "moving"
    REBUILDING = "rebuilding"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    REJECTED = "rejected"
    STOPPED = "stopped"


# an application that is restarted after a death is composed anew
_ENDS = {State.FINISHED, State.FAILED, State.STOPPED, State.DISCOVERING}

#: State to the states that may follow it.
FOLLOWS: Final[StateTable[State]] = MappingProxyType(
    {
        State.DISCOVERING: frozenset({State.DECIDING, State.REJECTED, State.STOPPED}),
        State.DECIDING: frozenset({State.DISCOVERING, State.ESTABLISHING, State.REJECTED, State.STOPPED}),
        State.ESTABLISHING: frozenset({State.DECIDING, State.RUNNING, State.STOPPED}),
        State.RUNNING: frozenset(_ENDS | {State.TAKING_OVER, State.MOVING, State.REBUILDING, State.PAUSED}),
        State.TAKING_OVER: frozenset(_ENDS | {State.RUNNING, State.TAKING_OVER, State.PAUSED}),  # another one may die
        State.MOVING: frozenset(_ENDS | {State.RUNNING}),  # before a take-over it is given up
        State.REBUILDING: frozenset(_ENDS | {State.RUNNING}),  # likewise
        State.PAUSED: frozenset(_ENDS | {State.RUNNING, State.TAKING_OVER, State.PAUSED}),
        State.FINISHED: frozenset({State.STOPPED}),  # stopping discards its results
        State.FAILED: frozenset(),
        State.REJECTED: frozenset(),
        State.STOPPED: frozenset(),
    }
)

#: State to status.
STATUS: Final[Mapping[State, Status]] = MappingProxyType(
    {
        State.DISCOVERING: Status.COMPOSING,
        State.DECIDING: Status.COMPOSING,
        State.ESTABLISHING: Status.COMPOSING,
        State.RUNNING: Status.RUNNING,
        State.TAKING_OVER: Status.RUNNING,
        State.MOVING: Status.RUNNING,
        State.REBUILDING: Status.RUNNING,
        State.PAUSED: Status.PAUSED,
        State.FINISHED: Status.FINISHED,
        State.FAILED: Status.FAILED,
        State.REJECTED: Status.REJECTED,
        State.STOPPED: Status.STOPPED,
    }
)

#: States before the decision whether it runs.
UNDECIDED: Final = frozenset(state for state, status in STATUS.items() if status is Status.COMPOSING)
#: States of an application that runs, or is paused.
RUNS: Final = frozenset(state for state, status in STATUS.items() if status in (Status.RUNNING, Status.PAUSED))
#: States of an application whose graph changes, or may change soon.
CHANGING: Final = frozenset({State.TAKING_OVER, State.MOVING, State.REBUILDING, State.PAUSED})
#: Status of applications that have not ended, and of those that have.
LASTING: Final = frozenset({Status.COMPOSING, Status.RUNNING, Status.ON_HOLD, Status.PAUSED})
ENDED: Final = frozenset(Status) - LASTING


def check(application: str, before: State, after: State) -> None:
    """Raise :class:`.state_tables.IllegalTransition` unless one state of an application may follow another.

    Examples
    --------
    >>> check("a", State.DECIDING, State.ESTABLISHING)
    >>> check("a", State.REJECTED, State.RUNNING)
    Traceback (most recent call last):
        ...
    synergy_nb.events.state_tables.IllegalTransition: application 'a': running after rejected; expected no change
    """
    state_tables.check(f"application {application!r}", FOLLOWS, before, after)
