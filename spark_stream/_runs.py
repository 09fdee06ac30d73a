"""What Spark does with an exchange: how far its query has come in all its runs, and which of these may call."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from spark_stream.results import ExchangeRefused
from synergy_nb.dataflow.tuples import END
from synergy_nb.events import state_tables
from synergy_nb.events.state_tables import StateTable


class ExchangeState(StrEnum):
    """How far a query has come at one peer, over all its runs."""

    WAITING = "waiting"  #: Spark has asked for nothing yet.
    WORKING = "working"  #: Spark has asked for input, so its Python processes have started.
    ENDED = "ended"  #: The end of the result has been handed over and acknowledged; no run is needed any more.


#: State to the states that may follow it. A run that only takes effect of what was read before asks for no input.
EXCHANGE_FOLLOWS: Final[StateTable[ExchangeState]] = {
    ExchangeState.WAITING: frozenset({ExchangeState.WORKING, ExchangeState.ENDED}),
    ExchangeState.WORKING: frozenset({ExchangeState.ENDED}),
    ExchangeState.ENDED: frozenset(),
}


class Runs:
    """The runs of a query, of which only the last may call.

    An exchange may be closed in any state; what it has come to is asked for after that, too.
    """

    __slots__ = ("closed", "end_time", "name", "number", "state")

    def __init__(self, name: str, *, ended: bool) -> None:
        self.name = name  # name of the query
        self.state = ExchangeState.ENDED if ended else ExchangeState.WAITING
        self.closed = False  # whether all calls are refused
        self.number = 0  # number of the last run; 0 before the first
        self.end_time = END  # event time that stands for the end of a stream in Spark, microseconds

    def _become(self, state: ExchangeState) -> None:
        if state is not self.state:
            state_tables.check(f"exchange of {self.name}", EXCHANGE_FOLLOWS, self.state, state)
            self.state = state

    def begin(self, end_time: int) -> int:
        """Begin the next run; return its number."""
        self.number += 1
        self.end_time = end_time
        return self.number

    def wake(self) -> bool:
        """Spark asks for input; return whether it is the first time."""
        first = self.state is ExchangeState.WAITING
        if first:
            self._become(ExchangeState.WORKING)
        return first

    def end(self) -> None:
        """The end of the result has been acknowledged."""
        self._become(ExchangeState.ENDED)

    def close(self) -> None:
        """Refuse all calls from now on."""
        self.closed = True

    def accepts(self, run: int) -> bool:
        """Whether a run may call."""
        return not self.closed and run == self.number

    def check(self, run: int) -> None:
        """Raise ``ExchangeRefused`` if a run may not call."""
        if self.closed:
            raise ExchangeRefused(f"query {self.name} has been stopped")
        if run != self.number:
            raise ExchangeRefused(f"query {self.name}: run {run}; expected {self.number}, the query has been restarted")
