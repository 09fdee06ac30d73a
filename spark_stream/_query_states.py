"""The life of a query on Spark at one peer, as one state with a table. Any thread may ask for a change.

============  =========================================================================================================
new           it has not been started
starting      its thread connects to Spark, starts the query, or starts it again with another server
ready         Spark has started to work for the first time; with another server it is started again in this state, too
done          all its results have been handed over, or another peer has continued it
failed        it cannot go on; the peer knows the reason
stopped       the peer has stopped it, and its checkpoint is removed
left          the peer has stopped it, and its checkpoint stays for a peer that may continue it
============  =========================================================================================================

The last four are ends, and the first of them counts: whoever comes later learns that from what the methods return, so
a query never fails because it is being stopped, and is never ready after that. One end may follow another: what is done
or has failed may still be left to a peer that continues it.
"""

from __future__ import annotations

import threading
from enum import StrEnum
from typing import Final

from synergy_nb.events import state_tables
from synergy_nb.events.state_tables import StateTable


class QueryState(StrEnum):
    """How far a query is in its life."""

    NEW = "new"
    STARTING = "starting"
    READY = "ready"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    LEFT = "left"


_STOPS = {QueryState.STOPPED, QueryState.LEFT}
_ENDS = _STOPS | {QueryState.DONE, QueryState.FAILED}

#: State to the states that may follow it.
QUERY_FOLLOWS: Final[StateTable[QueryState]] = {
    QueryState.NEW: frozenset(_STOPS | {QueryState.STARTING}),
    QueryState.STARTING: frozenset(_ENDS | {QueryState.READY}),
    QueryState.READY: frozenset(_ENDS),
    QueryState.DONE: frozenset({QueryState.LEFT}),
    QueryState.FAILED: frozenset({QueryState.LEFT}),
    QueryState.STOPPED: frozenset(),
    QueryState.LEFT: frozenset(),
}


class QueryLife:
    """The state of one query."""

    __slots__ = ("_changed", "_name", "state")

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self.state = QueryState.NEW

    def ended(self) -> bool:
        """Whether the query does not go on."""
        return self.state in _ENDS

    @property
    def left(self) -> bool:
        """Whether another peer may continue the query."""
        return self.state is QueryState.LEFT

    def _become(self, state: QueryState, unless: set[QueryState]) -> bool:
        with self._changed:
            if self.state in unless:
                return False
            state_tables.check(f"query {self._name}", QUERY_FOLLOWS, self.state, state)
            self.state = state
            self._changed.notify_all()
            return True

    def start(self, thread: threading.Thread) -> None:
        """Start the thread of a new query; no other query."""
        with self._changed:  # whoever stops the query afterwards has to find its thread started
            if self.state is QueryState.NEW:
                self._become(QueryState.STARTING, set())
                thread.start()

    def become_ready(self) -> bool:
        """Spark works; return whether that is news."""
        return self._become(QueryState.READY, _ENDS | {QueryState.READY})

    def finish(self) -> None:
        """Nothing is left to do here."""
        self._become(QueryState.DONE, _ENDS)

    def fail(self) -> bool:
        """The query cannot go on; return whether it has ended by this."""
        return self._become(QueryState.FAILED, _ENDS)

    def stop(self) -> None:
        """The peer stops it, if it has not ended."""
        self._become(QueryState.STOPPED, _ENDS)

    def leave(self) -> None:
        """The peer stops it, and another one may continue it."""
        self._become(QueryState.LEFT, _STOPS)

    def pause(self, seconds: float) -> None:
        """Wait for some time, or until the query ends."""
        with self._changed:
            self._changed.wait_for(self.ended, seconds)
