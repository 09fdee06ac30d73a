"""Results of a sink for one reader: read by points in the sink's stream, so that none is lost or duplicated.

A reader acknowledges the point up to which it has everything. After a lost answer, it asks again from the same point,
and the sink sends the same results; an answer that arrives moves the point on. A reader that comes late, or that was
passed over, misses the results that are not retained any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import polars as pl

from synergy_nb.dataflow.streams.log.log import LIMITS
from synergy_nb.dataflow.tuples import START, Batch, decode
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.cluster_errors import PeerUnreachable, rows_left
from synergy_nb.runtime.process.requests import ClusterError, Fetch, FetchedResults


class Results:
    """The results of a sink that one reader has received."""

    def __init__(self, application: str, sink: str, reader: str) -> None:
        self.application = application
        self.sink = sink
        self.reader = reader  # name that distinguishes this reader from others of the same sink
        self.arrived: deque[pl.DataFrame] = deque()  # tables that were not returned to any caller yet
        self.stored: list[pl.DataFrame] = []  # tables that are returned again whenever all results are requested
        self.fetching = asyncio.Lock()  # lock of the task that sends a request to the sink
        self.ended = False  # whether all results have arrived
        self.missed = 0  # number of rows that the sink did not retain any more
        # whether the application was stopped, and its results were discarded before all of them had arrived
        self.gone = False
        self.latest = START  # event time of the latest row that has arrived, microseconds
        # event time after which rows are withheld, until it is known whether they come from this sink or from that of
        # a plan that takes the place of its own; None: none are
        self._cut: int | None = None
        self._withheld: list[pl.DataFrame] = []
        self._received_to: tuple[int, int] | None = None  # point up to which everything sent has arrived

    def request(self, wait: float) -> Fetch:
        """Return the next request to the sink, which may wait ``wait`` seconds while it has nothing."""
        return Fetch(self.application, self.sink, self._received_to, wait=wait, reader=self.reader)

    def look(self, rows: int, between: tuple[float, float] | None = None) -> Fetch:
        """Return a request for the last ``rows`` rows, or the first that came in a time; it moves no reader on."""
        return Fetch(self.application, self.sink, None, wait=0.0, last=max(rows, 1), between=between)

    def add(self, answer: FetchedResults) -> int:
        """Add the answer to the last request; return the bytes of its results.

        Raises ``ClusterError`` if it begins before the requested point: it contains results that have arrived already.
        """
        if self._received_to is not None and answer.start < self._received_to:
            raise ClusterError(
                f"{self.application}: results of {self.sink} from tuple {answer.start[0]} on; "
                f"expected those from {self._received_to[0]} on: the others have come already"
            )
        for item in map(decode, answer.items):
            if isinstance(item, Batch):
                self._arrive(item.table)
        self._received_to = answer.end
        self.missed += answer.missed
        self.ended = self.ended or answer.finished
        return sum(map(len, answer.items))

    def _arrive(self, table: pl.DataFrame) -> None:
        if not table.height:
            return
        time = table["time"].cast(pl.Int64)
        self.latest = max(self.latest, *time.tail(1)) if time.is_sorted() else max(self.latest, *time)
        if self._cut is None or self.latest <= self._cut:
            self.arrived.append(table)
        else:
            for found, part in ((self.arrived, time <= self._cut), (self._withheld, time > self._cut)):
                if part.any():
                    found.append(table.filter(part))

    @property
    def until(self) -> int:
        """Event time up to which everything has arrived, microseconds."""
        return START if self._received_to is None else self._received_to[1]

    @property
    def complete(self) -> bool:
        """Whether everything up to the event time at which it is cut has arrived."""
        return self._cut is not None and self.until > self._cut

    def cut(self, at: int) -> None:
        """Withhold rows after an event time, microseconds; may be called again, with a later one."""
        self._cut, tables = at, [*self.arrived, *self._withheld]
        self.arrived.clear()
        self._withheld.clear()
        for table in tables:
            self._arrive(table)

    def release(self) -> None:
        """Withhold nothing any more."""
        self._cut = None
        self.arrived.extend(self._withheld)
        self._withheld.clear()

    def go_on_with(self, other: Results) -> None:
        """Go on with what another sink gives after the event time at which both were cut."""
        self.arrived.extend(other._withheld)
        self._withheld, self._cut, self.latest = [], None, max(self.latest, other.latest)
        self.application, self.reader, self._received_to = other.application, other.reader, other._received_to

    @property
    def begins(self) -> int:
        """Position of the first row that is here."""
        return self.arrived_from - self.rows

    @property
    def arrived_from(self) -> int:
        """Position of the first row that has arrived and is not stored."""
        arrived = sum(table.height for table in self.arrived)
        return 0 if self._received_to is None else self._received_to[0] - arrived

    def store(self) -> None:
        """Store the arrived tables."""
        self.stored.extend(self.arrived)
        self.arrived.clear()

    @property
    def rows(self) -> int:
        """Number of stored rows."""
        return sum(table.height for table in self.stored)

    @property
    def nbytes(self) -> int:
        """Bytes of all received results that are stored or not returned yet."""
        return sum(int(table.estimated_size()) for table in (*self.stored, *self.arrived))

    @property
    def notices(self) -> list[str]:
        """What this reader lacks, for the user."""
        missed = [missed_notice(self.sink, self.missed)] if self.missed else []
        return [*missed, *([gone_notice(self.sink)] if self.gone else [])]

    def table(self) -> pl.DataFrame | None:
        """Return all received results that a loop has not consumed, as one table; None if there are none."""
        self.store()
        if len(self.stored) > 1:
            self.stored[:] = [pl.concat(self.stored)]
        return self.stored[0] if self.stored else None


class NewestRows:
    """The last rows of a sink, looked at again and again without a place in its results."""

    def __init__(self, rows: int) -> None:
        self._most = max(rows, 1)  # number of rows
        self._application = ""
        self._upto: tuple[int, int] | None = None  # point up to which everything that is still wanted was seen
        self._tables: deque[pl.DataFrame] = deque()  # the last rows, no more of them than needed
        self._height = 0

    def request(self, results: Results, wait: float) -> Fetch:
        """Return the next request to the sink of a handle; it waits ``wait`` seconds for something new."""
        if results.application != self._application:  # another plan has taken the place of its own
            self._application, self._upto = results.application, None
        return Fetch(results.application, results.sink, self._upto, wait=wait, last=self._most)

    def add(self, answer: FetchedResults) -> int:
        """Add the answer to the last request; return the number of its rows."""
        if self._upto is None or answer.missed:
            self._tables.clear()
            self._height = 0
        self._upto = answer.end
        tables = [item.table for item in map(decode, answer.items) if isinstance(item, Batch)]
        came = sum(table.height for table in tables)
        self._tables.extend(tables)
        self._height += came
        while self._tables and self._height - self._tables[0].height >= self._most:
            self._height -= self._tables.popleft().height
        return came

    def table(self, empty: pl.DataFrame) -> pl.DataFrame:
        """Return the last rows as one table, which is ``empty`` if there are none."""
        if len(self._tables) > 1:
            joined = pl.concat(self._tables).tail(self._most)
            self._tables.clear()
            self._tables.append(joined)
            self._height = joined.height
        return self._tables[0].tail(self._most) if self._tables else empty


def rows_of(answer: FetchedResults, empty: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of an answer as one table, which is ``empty`` if there are none."""
    found = [item.table for item in map(decode, answer.items) if isinstance(item, Batch)]
    return pl.concat(found) if found else empty


def missed_notice(sink: str, rows: int) -> str:
    """Say that a handle lacks the first results of a sink, or some in between, and why."""
    most = LIMITS.results >> 20
    return (
        f"{counted(rows, 'row')} of {sink!r} had been discarded before this handle read them. Of what all handles have "
        f"read, a peer retains {most // 4} MiB; it passes over a handle that reads nothing for ten seconds while "
        f"{most // 2} MiB wait for it alone"
    )


def gone_notice(sink: str) -> str:
    """Say that a handle may lack the last results of a sink whose application was stopped."""
    return (
        f"results of {sink!r} that this handle had not read are not retained any more: the application was stopped, "
        "and others have ended since"
    )


def why_discarded(application: str) -> str:
    """Say why a handle of a finished application gets no more results."""
    return (
        f"{application}: its results have been discarded: another handle of it has collected them, and others have "
        "ended since"
    )


def why_none(application: str, sink: str, peer: str, error: PeerUnreachable, had: int) -> str:
    """Say why a sink gives no more results: its peer, which retains them, does not answer.

    ``application``, ``sink``, ``peer``: id of the application, operator id of its sink, and name of the peer of the
    sink; ``error``: error of the last request to the peer; ``had``: number of rows that have arrived.
    """
    return (
        f"{application}: its sink {sink!r} gives no more results: {error}{rows_left(had)}. Results are retained at the "
        f"peer of the sink only, and no backup stands in for it: if {peer} is dead, submit the plan again"
    )


def why_endless(application: str, plan: Plan, sources: Sequence[str]) -> str:
    """Say why waiting for the end of a stream would never end, and what to call instead."""
    names = ", ".join(f"{name!r} ({plan.operators[name].params['connector']})" for name in sources)
    return (
        f"{application}: its stream is endless, as its source {names} never ends; expected head(100) or "
        "results(seconds=5), which take some, results(wait=False) for what is there, or a loop over the "
        "application; stop() ends it"
    )
