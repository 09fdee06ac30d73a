"""Sorting of one input by punctuations, so that replicas that need an order agree (section IV-C of [1]_).

Active replicas receive the same tuples in different orders. A replica whose result depends on the order reads its input
through a :class:`SortedInput`: it holds all tuples until a punctuation promises that no earlier one follows, and then
releases them ordered by time and, among equal times, by all columns. What it releases, with which positions, depends on
the tuples alone, whatever their order of arrival, their batches and the punctuations were.

A tuple waits for the next punctuation that is later than its time. So only operators that need an order are given one
(:mod:`synergy_nb.plan.derived.replica_agreement`).

.. [1] J.-H. Hwang, U. Çetintemel, S. Zdonik. Fast and highly-available stream processing over wide area networks.
   ICDE 2008. Section IV-C, algorithm 4 lines 1 to 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import polars as pl

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.operators.base import OUTPUT_ROWS, RUN_ROWS, retained_bytes, value_bytes
from synergy_nb.dataflow.streams.replicas._tuple_words import canonical
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation, concatenated
from synergy_nb.plan.terms.naming import internal

_BORN: Final = internal("born")  # column with the time at which the item of a tuple entered the system
_RELEASING: Final = 5.0  # memory that a release needs, bytes for each byte of tuples
_FORMAT: Final = 1  # version of the saved state
TRIMMED: Final = 1024  # least number of released tuples of a run for which the others are copied to free memory


@dataclass
class _Run:
    """Tuples ordered by time, of which the first ``released`` have been released; the table never changes."""

    number: int
    table: pl.DataFrame
    released: int = 0

    @property
    def rest(self) -> pl.DataFrame:
        return self.table.slice(self.released)

    @property
    def rows(self) -> int:
        return self.table.height - self.released

    def release(self, low: int) -> pl.DataFrame:
        """Return the tuples before ``low`` that have not been released."""
        before = self.released
        self.released = int(np.searchsorted(_times(self.table), low))
        return self.table.slice(before, self.released - before)


class _Head(msgspec.Struct, frozen=True):
    format: int
    promise: int
    position: int
    late: int
    next_number: int
    runs: list[tuple[int, int]]  # number of a table, tuples of it that have been released


class SortedInput:
    """The tuples of one input, released in an order that depends on the tuples only.

    Examples
    --------
    >>> table = pl.DataFrame({"time": [3, 1, 1], "value": [0, 5, 2]}, schema_overrides={"time": pl.Datetime("us")})
    >>> held = SortedInput()
    >>> held.receive(Batch(table, 0, 0.0))
    []
    >>> batch, promise = held.receive(Punctuation(3, 3, 0.0))
    >>> batch.table["value"].to_list(), promise.position
    ([2, 5], 2)
    """

    def __init__(self, order: Sequence[tuple[str, bool]] = ()) -> None:
        # columns that order tuples of equal time before all others do, each with whether it descends: the order in
        # which a sort before the operator put them. All other columns follow in their order, ascending; NULLs are last
        self._order = dict(order)
        self.late = 0  # tuples dropped so far because their time was below the last punctuation
        self._promise = START
        self._position = 0
        self._next_number = 0
        self._runs: list[_Run] = []
        self._fresh: list[tuple[pl.DataFrame, float]] = []  # tables in their order of arrival, with the time of birth
        self._fresh_bytes = self._runs_bytes = 0
        self._earliest = END

    @property
    def promise(self) -> int:
        """Time of the last punctuation, microseconds: all tuples before it have been released."""
        return self._promise

    @property
    def rows(self) -> int:
        """Number of tuples that are held."""
        return sum(run.rows for run in self._runs) + sum(table.height for table, _ in self._fresh)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables that are held, in constant time."""
        return self._fresh_bytes + self._runs_bytes

    def needs(self, item: Item) -> float:
        """Estimate, in constant time, the bytes that receiving ``item`` may need in addition to ``nbytes``."""
        if isinstance(item, Batch):
            return 2.0 * value_bytes(item.table)
        return _RELEASING * self.nbytes if item.time > self._earliest else 0.0

    def receive(self, item: Item) -> list[Item]:
        """Hold the tuples of a batch; for a punctuation, return all tuples before it in order, and the punctuation.

        ``born`` of a batch that is returned is that of the oldest of its tuples.
        """
        if isinstance(item, Batch):
            self._hold(item)
            return []
        if item.time <= self._promise:  # it promises nothing new
            return []
        self._promise = item.time
        released = self._before(item.time)
        return [*released, Punctuation(item.time, self._position, item.born)]

    def begin(self, promise: int, position: int) -> None:
        """Hold tuples from here on; before came a promise, and so many tuples that were not held."""
        self._promise, self._position = promise, position

    def release(self) -> list[Batch]:
        """Return all tuples that are held, in order, without waiting for earlier ones that may follow."""
        return self._before(END)

    def _before(self, low: int) -> list[Batch]:
        """Return the tuples before ``low`` in order, in batches."""
        released: list[Batch] = []
        if self._earliest < low:
            whole = self._released(low)
            births = whole.drop_in_place(_BORN).to_numpy()
            for at in range(0, whole.height, OUTPUT_ROWS):
                table = whole.slice(at, OUTPUT_ROWS)
                released.append(Batch(table, self._position, float(births[at : at + OUTPUT_ROWS].min())))
                self._position += table.height
        return released

    def save(self) -> SavedState:
        """Return all that another instance needs to resume from here, without copying it."""
        if self._fresh:
            self._keep([*self._runs, self._run([self._arrived()])])
        runs = [(run.number, run.released) for run in self._runs]
        head = _Head(_FORMAT, self._promise, self._position, self.late, self._next_number, runs)
        return SavedState(msgspec.msgpack.encode(head), {run.number: run.table for run in self._runs})

    def restore(self, saved: SavedState) -> None:
        """Resume where the instance was that saved this state.

        Raises ``ValueError`` if it is no state of a sorted input.
        """
        try:
            head = msgspec.msgpack.decode(saved.head, type=_Head)
            runs = [_Run(number, saved.tables[number], released) for number, released in head.runs]
        except msgspec.MsgspecError as error:
            raise ValueError(f"saved state: {saved.head[:16]!r}; expected that of a sorted input: {error}") from None
        except KeyError as error:
            raise ValueError(f"saved state: tables {sorted(saved.tables)}; expected table {error} among them") from None
        if head.format != _FORMAT:
            raise ValueError(f"saved state: format {head.format}; expected {_FORMAT}")
        for run in runs:
            if _BORN not in run.table.columns or not 0 <= run.released < run.table.height:
                found = f"{run.table.height} tuples with {', '.join(run.table.columns)}"
                raise ValueError(
                    f"saved state: table {run.number}: {found}; expected more than {run.released}, {_BORN}"
                )
        self.late, self._promise, self._position = head.late, head.promise, head.position
        self._next_number = head.next_number
        self._fresh, self._fresh_bytes = [], 0
        self._keep(runs)

    def _hold(self, batch: Batch) -> None:
        table = batch.table
        if not table.height:
            return
        times = _times(table)
        first = int(times.min())
        if first < self._promise:
            table = table[np.flatnonzero(times >= self._promise)]
            self.late += len(times) - table.height
            if not table.height:
                return
            first = int(_times(table).min())
        self._earliest = min(self._earliest, first)
        self._fresh.append((table, batch.born))
        self._fresh_bytes += retained_bytes(table)

    def _released(self, low: int) -> pl.DataFrame:
        """Remove the tuples before ``low``, of which there are some, and return them in order."""
        runs = [*self._runs, self._run([self._arrived()])] if self._fresh else self._runs
        tables = [table for run in runs if (table := run.release(low)).height]
        self._keep([self._trimmed(run) for run in runs if run.rows])
        return canonical(self._ordered(concatenated(tables)))

    def _ordered(self, table: pl.DataFrame) -> pl.DataFrame:
        """Order tuples by time, which is fast, and then those of equal time by all columns."""
        times = _times(table)
        order = np.argsort(times, kind="stable")
        same = np.diff(times[order]) == 0
        if same.any():
            tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
            rest = [name for name in table.columns if name not in ("time", _BORN, *self._order)]
            descending = [False, *self._order.values(), *(False for _ in rest)]
            places = pl.arg_sort_by("time", *self._order, *rest, descending=descending, nulls_last=True)
            order[tied] = order[tied][table[order[tied]].select(places).to_series().to_numpy()]
        return _arranged(table, order)

    def _arrived(self) -> pl.DataFrame:
        """Take the tuples that have arrived, with the times of their birth, out of their list."""
        tables = [table for table, _ in self._fresh]
        births = np.repeat([born for _, born in self._fresh], [table.height for table in tables])
        self._fresh, self._fresh_bytes = [], 0
        return concatenated(tables).hstack([pl.Series(_BORN, births, dtype=pl.Float64)])

    def _run(self, tables: Sequence[pl.DataFrame]) -> _Run:
        table = concatenated(tables)
        self._next_number += 1
        return _Run(self._next_number - 1, _arranged(table, np.argsort(_times(table), kind="stable")))

    def _trimmed(self, run: _Run) -> _Run:
        """Copy what is left of a run if that is less than half of it, to free the memory of the rest."""
        if run.released < max(run.rows, TRIMMED):
            return run
        return self._run([run.table[np.arange(run.released, run.table.height)]])

    def _keep(self, runs: list[_Run]) -> None:
        """Replace the runs by others, of which neighbours of similar length are merged."""
        self._runs = []
        for run in runs:
            self._runs.append(run)
            while len(self._runs) > 1 and self._runs[-2].rows <= 2 * (rows := self._runs[-1].rows):
                if self._runs[-2].rows + rows > RUN_ROWS:
                    break
                self._runs[-2:] = [self._run([self._runs[-2].rest, self._runs[-1].rest])]
        self._runs_bytes = sum(retained_bytes(run.table) for run in self._runs)
        self._earliest = min((int(_times(run.table)[run.released]) for run in self._runs), default=END)


def in_order(released: Sequence[Sequence[Item]], *, joined: bool = False) -> list[tuple[int, Item]]:
    """Merge what several ports release: the tuples in the order of their times, and then the promises.

    ``released``: batches and punctuations of each port; ``joined``: whether all tuples may have the port 0, see
    :func:`in_order_of_time`.

    Returns: items with their ports.
    """
    batches = [[each for each in items if isinstance(each, Batch)] for items in released]
    promises = [(port, each) for port, items in enumerate(released) for each in items if isinstance(each, Punctuation)]
    return [*in_order_of_time(batches, joined=joined), *promises]


def in_order_of_time(ports: Sequence[Sequence[Batch]], *, joined: bool = False) -> list[tuple[int, Batch]]:
    """Merge the sorted tuples of several ports: by time, and of equal time by port.

    ``joined``: whether all tuples may have the port 0, as ports with equal columns mean the same; then they are one
    batch.

    Returns: batches with their ports, each as long as no other port comes between.
    """
    filled = [(port, batches) for port, batches in enumerate(ports) if batches]
    if len(filled) < 2:
        return [(0 if joined else port, each) for port, batches in filled for each in batches]
    tables = [concatenated([each.table for each in batches]) for _, batches in filled]
    times = np.concatenate([_times(table) for table in tables])
    owners = np.repeat(np.arange(len(tables)), [table.height for table in tables])
    order = np.argsort(times, kind="stable")
    born = min(each.born for _, batches in filled for each in batches)
    if joined:
        whole = concatenated([table.select(tables[0].columns) for table in tables])
        return [(0, Batch(_arranged(whole, order), 0, born))]
    owners = owners[order]
    ends = [*(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
    taken = [0] * len(tables)
    found: list[tuple[int, Batch]] = []
    begin = 0
    for end in ends:
        at, count = int(owners[begin]), end - begin
        port, batches = filled[at]
        table = tables[at].slice(taken[at], count)
        found.append((port, Batch(table, batches[0].position + taken[at], born)))
        taken[at] += count
        begin = end
    return found


def _arranged(table: pl.DataFrame, order: Any) -> pl.DataFrame:
    """Return the rows of a table in the order of the given row numbers."""
    return table if np.all(order[1:] > order[:-1]) else table[order]


def _times(table: pl.DataFrame) -> Any:
    """Return the times of tuples, in microseconds, as a Numpy array."""
    return table.get_column("time").cast(pl.Int64).to_numpy()
