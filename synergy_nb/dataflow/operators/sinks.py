"""The sink: it passes all tuples on as results, also while another plan takes the place of its own.

Theory of operation
-------------------
While two plans run (:mod:`synergy_nb.plan.derived.plan_transitions`), a sink reads the rows of the old plan, and those
of the new one.

1. At first it gives the rows of the old plan, and none of the new one.
2. Once it is told from which event time on the new operators have all of their streams (:meth:`Sink.complete_from`), it
   chooses the event time of the change: later than that, and than all that it, or an instance before it, has given, by
   the time after which the new operators have whole windows. It goes on to give the rows of the old plan, and withholds
   those of the new one that are later.
3. Once the first row of the old plan is later, or none can be earlier any more, it gives nothing, not even a promise.
   Until then it has given what the old plan alone would give, in the same order: so it may still go on with that plan
   from any of its states, whoever depends on what it has given.
4. Once both plans promise more than the event time, it is *ready*. Its state is saved, and two plans can go on from
   there: the old one, with all rows that it has withheld of it; or the new one, with those up to the event time, and
   the later ones of the new plan. Which of them it is follows from the plan with which that state is restored
   (:attr:`Sink.decides`); it gives nothing before the folder has a state that says so, from which the other one cannot
   go on.

If the old stream ends before that, there is no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
import polars as pl

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.operators.base import Context, OperatorLogic, StateHead, implements, retained_bytes
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation
from synergy_nb.plan.checks.validation import Switch

__all__ = ["Sink", "goes_on"]

OLD: Final = 0  # place of the input that is given
NEW: Final = 1  # place of the input that is given next


class _Switching(msgspec.Struct, frozen=True):
    """The state of a sink of which another plan takes the place, or has taken it."""

    change: int  # number of the change
    own: int  # number of the input whose rows it gives
    ready: bool  # whether the new plan may go on
    at: int | None  # event time of the change, microseconds; None: not chosen yet
    latest: int  # event time of the latest row that it has read, microseconds
    low: dict[int, int]  # number of each input to the event time that it has promised, microseconds
    position: int
    forwarded: int
    late: int
    held: dict[int, list[int]]  # number of an input to the tables with its withheld rows; that of the old plan first

    def goes_on(self, number: int) -> bool:
        """Whether a plan may go on from here in which the sink gives the rows of the input with this number."""
        return number in self.low and (self.ready or number == self.own)


def goes_on(head: bytes, number: int) -> bool:
    """Whether a sink that gives the rows of the input with this number may go on from a state with this head.

    Raises ``MsgspecError`` if it is not the head of the state of a sink.
    """
    found: Mapping[str, object] = msgspec.msgpack.decode(head, type=dict[str, object])
    if "change" not in found:  # of a sink whose plan was never changed
        return number == 0
    return msgspec.convert(found, _Switching, strict=False).goes_on(number)


@implements("sink")
class Sink(OperatorLogic):
    """Pass all tuples on as results; those of the old plan up to an event time, while another one takes its place."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._switch = Switch(0, (0,), "") if context.switch is None else context.switch
        self._numbers = self._switch.inputs
        self._alone = len(self._numbers) == 1  # whether one plan runs
        self.ready = False  # whether the new plan may go on, and nothing is given any more
        self.decides = False  # whether its first state says which of two plans goes on
        self._at: int | None = None
        self._latest = START
        self._complete: int | None = None  # event time from which the new rows are complete; None: not known yet
        self._held: dict[int, list[pl.DataFrame]] = {}  # place of an input to its withheld rows
        self._held_bytes = 0
        self._given = (0, START)  # up to where earlier instances have given it: tuples, and promise in microseconds

    @property
    def state_rows(self) -> int:
        """Number of withheld rows."""
        return sum(table.height for tables in self._held.values() for table in tables)

    @property
    def state_bytes(self) -> int:
        """Bytes of the withheld rows."""
        return self._held_bytes

    def needs(self, port: int, item: Item) -> float:
        """Bytes that an item may need: none of a promise."""
        return self.batch_needs(0, item) if isinstance(item, Batch) else 0.0

    def execute(self, port: int, item: Item) -> Iterator[Item]:
        """Process an item of an input, which has a number that is none of an earlier one."""
        if port not in self._numbers:
            raise self._no_port(port)
        if not self._alone:
            return self._switching(self._numbers.index(port), item)
        return self._released(item) if self._held else super().execute(OLD, item)

    def complete_from(self, at: int) -> None:
        """Know from which event time on the rows of the new plan are complete, in microseconds; from any thread."""
        self._complete = at if at < END else None

    def repeat(self, position: int, until: int) -> None:
        """Know what earlier instances have given: the number of rows, and the last promise, microseconds."""
        self._given = position, until

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the rows."""
        return (table,)

    def _released(self, item: Item) -> Iterator[Item]:
        """Give what was withheld, and then what comes."""
        yield from self._give(self._release(OLD), item.born)
        yield from super().execute(OLD, item)

    # -- while two plans run -----------------------------------------------------------------------------------------

    def _switching(self, place: int, item: Item) -> Iterator[Item]:
        if isinstance(item, Batch):
            low = self._low[place]
            table = item.table if low == START or not item.rows else self._in_time(low, item.table)[0]
            if table.height:
                yield from self._give(self._rows(place, table), item.born)
        elif item.time > self._low[place]:
            self._low[place] = item.time
            yield from self._advance(item.born)

    def _rows(self, place: int, table: pl.DataFrame) -> list[pl.DataFrame]:
        """Return the rows that are given now, and withhold those that may be given later."""
        at, times = self._at, table.get_column("time").cast(pl.Int64)
        if at is None or (place == OLD and OLD not in self._held and int(times.max()) <= at):  # type: ignore[arg-type]
            self._latest = max(self._latest, int(times.max()))  # type: ignore[arg-type]
            return [*self._release(OLD), table] if place == OLD else []
        self._hold(place, table if place == OLD else table.filter(times > at))
        return []

    def _advance(self, born: float) -> Iterator[Item]:
        """Choose the event time of the change, or reach it, as soon as promises allow that."""
        old, new, complete = self._low[OLD], self._low[NEW], self._complete
        if old == END:  # there is nothing to change any more
            self._at = None
            self._release(NEW)
        elif self._at is None and complete is not None and self._position >= self._given[0] and old >= self._given[1]:
            self._at = self._switch.point((complete, self._latest, self._forwarded))
        at = self._at
        if at is not None and (old > at or OLD in self._held):
            self.ready = at < old < END and at < new < END
            return
        self.ready = False
        yield from self._give(self._release(OLD), born)
        if old > self._forwarded:
            self._forwarded = old
            yield Punctuation(old, self._position, born)

    def _give(self, tables: Iterable[pl.DataFrame], born: float) -> Iterator[Item]:
        for table in tables:
            if table.height:
                batch = Batch(table, self._position, born)
                self._position += batch.rows
                yield batch

    def _release(self, place: int) -> list[pl.DataFrame]:
        """Withhold the rows of an input no longer, and return them."""
        found = self._held.pop(place, [])
        self._held_bytes -= sum(map(retained_bytes, found))
        return found

    # -- its state ---------------------------------------------------------------------------------------------------

    def save(self) -> SavedState:
        """Return all that a new instance needs to go on, also with another plan."""
        if self.context.switch is None and not self._held:
            return super().save()
        tables, held = self._numbered({str(self._numbers[place]): found for place, found in sorted(self._held.items())})
        head = _Switching(
            self._switch.number, self._numbers[OLD], self.ready, self._at, self._latest,
            dict(zip(self._numbers, self._low, strict=True)),
            self._position, self._forwarded, self.late, {int(number): each for number, each in held.items()},
        )  # fmt: skip
        return SavedState(msgspec.msgpack.encode(head), tables)

    def restore(self, saved: SavedState) -> None:
        """Go on from a state, of this plan or of the one before.

        Raises
        ------
        ValueError
            If it is not a state from which this plan can go on.
        """
        found, number = self._decoded(saved), self._numbers[OLD]
        if not found.goes_on(number):
            expected = f"one that was ready for change {self._switch.number} of its plan"
            raise self.context.error("saved state", f"of change {found.change}", expected)
        self._position, self._forwarded, self.late = found.position, found.forwarded, found.late
        if found.change == self._switch.number and not self._alone:
            self.ready, self._at, self._latest = found.ready, found.at, found.latest
            self._low = [found.low[each] for each in self._numbers]
        else:
            self._low = [found.low[number], *(START for _ in self._numbers[1:])]
        self.decides = self._alone and found.ready
        self._held, self._held_bytes = {}, 0
        try:
            for of, tables in found.held.items():
                for table in (saved.tables[each] for each in tables):
                    self._take_held(found, of, table)
        except KeyError as error:
            raise self.context.error("saved state", sorted(saved.tables), f"table {error} among them") from None

    def _take_held(self, found: _Switching, of: int, table: pl.DataFrame) -> None:
        """Withhold a table of a state, which is of the input with this number, as far as it may be given here."""
        own, times = self._numbers[OLD], table.get_column("time").cast(pl.Int64)
        if found.change == self._switch.number and not self._alone:
            self._hold(self._numbers.index(of), table)
            return
        if of == found.own != own and found.at is not None:  # the change of that state is done
            table = table.filter(times <= found.at)
        elif of != own:  # it is given up
            return
        self._latest = max(self._latest, int(times.max()))  # type: ignore[arg-type]
        self._hold(OLD, table)

    def _hold(self, place: int, table: pl.DataFrame) -> None:
        """Withhold rows."""
        if table.height:
            self._held.setdefault(place, []).append(table)
            self._held_bytes += retained_bytes(table)

    def _decoded(self, saved: SavedState) -> _Switching:
        """Return a state of a sink; raises ``ValueError`` if it is none."""
        try:
            with_change: Mapping[str, object] = msgspec.msgpack.decode(saved.head, type=dict[str, object])
            if "change" in with_change:
                return msgspec.convert(with_change, _Switching, strict=False)
            head = msgspec.convert(with_change, StateHead)
        except msgspec.MsgspecError as error:
            raise self.context.error("saved state", saved.head[:16], f"one of this operator: {error}") from None
        if (head.format, head.kind, len(head.low)) != (2, self.context.kind, 1):
            found = f"format {head.format}, {head.kind}, {len(head.low)} ports"
            raise self.context.error("saved state", found, f"format 2, {self.context.kind}, 1 port")
        return _Switching(0, 0, False, None, START, {0: head.low[0]}, head.position, head.forwarded, head.late, {})
