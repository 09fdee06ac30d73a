"""The first rows of any stream of a plan: its operators execute the first tuples of each source, here and at once.

The logic is that of peers (:mod:`synergy_nb.dataflow.operators`), without peers: no stream is paced, ``delay`` does not
wait, and keys are stand-ins. Each source ends after :data:`TAKEN` tuples, so windows that are open then have results of
fewer tuples than they will have.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from synergy_nb.dataflow.logic import ANYTHING, error_reason
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.operators.base import OperatorLogic
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.errors import SynergyError
from synergy_nb.plan import Operator, Plan
from synergy_nb.traces import packets
from synergy_nb.traces.reading import open_trace

__all__ = ["TAKEN", "Sample", "SampleError", "sampled"]

#: Largest number of tuples that are taken from each source.
TAKEN: Final = 10_000
_AT_ONCE: Final = 500  # tuples of a batch, so that the first rows come soon
_EXACT: Final = 2**53  # integers up to which a page has each one
_STAND_IN: Final = b"a stand-in for a key, for samples only"


class SampleError(SynergyError, ValueError):
    """A stream has no sample; the text says why."""


class Sample(NamedTuple):
    """The first rows of a stream.

    Parameters
    ----------
    columns
        Names of the columns.
    rows
        Values of each row, as JSON has them: times as text, bytes in hexadecimal.
    taken
        Tuples taken from the sources.
    note
        Remark for people: why there are few rows, or none.
    """

    columns: list[str]
    rows: list[list[Any]]
    taken: int
    note: str


def sampled(
    plan: Plan,
    operator: str,
    *,
    clock: Callable[[], float],
    rows: int = 20,
    seconds: float = 1.0,
    given: Mapping[str, Callable[[], pl.DataFrame]] | None = None,
) -> Sample:
    """Compute the first rows of the stream of an operator.

    Parameters
    ----------
    plan
        Plan, or the part of it that is valid.
    operator
        Id of the operator.
    clock
        Function that returns seconds that never step back.
    rows
        Number of rows.
    seconds
        Time after which no more tuples are taken, seconds.
    given
        Source of connector ``python`` to a function that returns its rows, as its columns declare them.

    Raises
    ------
    SampleError
        If the operator is unknown, a source has no rows before it runs, or an operator fails.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= TAKEN:
        raise SampleError(f"rows: {rows!r}; expected an integer from 1 to {TAKEN}")
    if operator not in plan.operators:
        raise SampleError(f"sample: {operator!r}; expected an operator without problems ({', '.join(plan.operators)})")
    until = clock() + seconds
    needed = _needed(plan, operator)
    try:
        return _Run(plan, operator, needed, rows, given or {}).sample(lambda: clock() >= until, seconds)
    except SampleError:
        raise
    except ANYTHING as error:
        raise SampleError(f"sample of {operator!r}: {error_reason(error)}") from error


def _needed(plan: Plan, operator: str) -> list[Operator]:
    """The operator and all that it needs, inputs before their readers."""
    wanted = {operator}
    for each in reversed(plan.operators.values()):
        if each.id in wanted:
            wanted.update(each.inputs)
    return [each for each in plan.operators.values() if each.id in wanted]


class _Run:
    """Operators that execute the first tuples of their sources."""

    def __init__(
        self,
        plan: Plan,
        target: str,
        needed: list[Operator],
        rows: int,
        given: Mapping[str, Callable[[], pl.DataFrame]],
    ) -> None:
        self.plan, self.target, self.wanted = plan, target, rows
        keys = {str(each.params["key"]): _STAND_IN for each in needed if "key" in each.params}
        self.logic: dict[str, OperatorLogic] = {
            each.id: create(each, plan, keys=keys, wait=lambda _: None) for each in needed if each.inputs
        }
        self.readers: dict[str, list[tuple[str, int]]] = {each.id: [] for each in needed}
        for each in needed:
            for port, up in enumerate(each.inputs):
                self.readers[up].append((each.id, port))
        self.sources = {each.id: _items(each, given) for each in needed if not each.inputs}
        self.found: list[pl.DataFrame] = []
        self.number = 0
        self.taken = 0

    def sample(self, over: Callable[[], bool], seconds: float) -> Sample:
        """Take tuples until there are enough rows, the sources end, or the time is over."""
        running, late = dict(self.sources), False
        while running and self.number < self.wanted and not late:
            for name, items in list(running.items()):
                item = next(items, None)
                if item is None:
                    del running[name]
                    continue
                if isinstance(item, Batch):
                    self.taken += item.rows
                self.deliver(name, item)
                late = over()
                if late or self.number >= self.wanted:
                    break
        few = self.number < self.wanted
        if late and few:
            for name in running:  # windows that are open have results
                self.deliver(name, Punctuation(END, 2**62, 0.0))
        columns = list(self.plan.schema(self.target))
        rows = [[_json(value) for value in row] for table in self.found for row in table.select(columns).iter_rows()]
        note = ""
        if late and few:
            note = f"stopped after {seconds:g} s, at {self.taken} tuples"
        elif few:
            note = f"all of the first {self.taken} tuples of the source{'s' * (len(self.sources) > 1)}"
        return Sample(columns, rows[: self.wanted], self.taken, note)

    def deliver(self, name: str, item: Item) -> None:
        """Pass an item of an operator's stream on to its readers."""
        if name == self.target:
            if isinstance(item, Batch):
                self.found.append(item.table.head(self.wanted - self.number))
                self.number += self.found[-1].height
            return
        for reader, port in self.readers[name]:
            for made in self.logic[reader].execute(port, item):
                self.deliver(reader, made)


def _items(operator: Operator, given: Mapping[str, Callable[[], pl.DataFrame]]) -> Iterator[Item]:
    """The first tuples of a source, each batch followed by the time that no later one precedes."""
    params = operator.params
    match params["connector"]:
        case "packets":
            wanted = packets.parameters(params)
            few = msgspec.structs.replace(wanted, count=min(wanted.count or TAKEN, TAKEN))
            return packets.generate(few, _AT_ONCE)
        case "trace":
            trace = open_trace(params)
            return _batches(_first(trace.rows()), ordered=params.get("lateness") is None)
        case "python":
            if operator.id not in given:
                expected = "a table as source(rows); other rows come when the plan is submitted"
                raise SampleError(f"operator {operator.id!r}, rows: missing; expected {expected}")
            return _batches(given[operator.id]().head(TAKEN), ordered=True)
        case _:
            raise SampleError(
                f"operator {operator.id!r}: measurements of peers; expected a source with rows before it runs"
            )


def _first(tables: Iterator[pl.DataFrame]) -> pl.DataFrame:
    found: list[pl.DataFrame] = []
    left = TAKEN
    while left > 0 and (table := next(tables, None)) is not None:
        found.append(table.head(left))
        left -= found[-1].height
    if not found:
        raise SampleError("sample: a file without tuples; expected at least one")
    return pl.concat(found)


def _batches(table: pl.DataFrame, *, ordered: bool) -> Iterator[Item]:
    """Cut a table into items; it is sorted by time first if the stream is in that order."""
    table = table.sort("time", maintain_order=True) if ordered else table
    times = table.get_column("time").cast(pl.Int64)
    for start in range(0, table.height, _AT_ONCE):
        yield Batch(table.slice(start, _AT_ONCE), start, 0.0)
        end = start + _AT_ONCE
        if end < table.height and ordered:
            yield Punctuation(int(times[end]), end, 0.0)
    yield Punctuation(END, table.height, 0.0)


def _json(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return str(value)
    return value
