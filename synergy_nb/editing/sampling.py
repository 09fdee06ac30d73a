"""Samples: the first rows of any stream of a plan, computed in this process while the plan is edited.

The operators execute by the logic that peers use (:mod:`synergy_nb.dataflow.operators`), but no stream is paced,
``delay`` does not wait, and all secrets are one fixed secret. Each source ends after :data:`LARGEST_SAMPLE` tuples, so
the last windows have results of fewer tuples than they would have in a run.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from synergy_nb.connectors import connected
from synergy_nb.dataflow.logic import ANYTHING, error_reason
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.operators.base import OperatorLogic
from synergy_nb.dataflow.sources import BrokenForNow
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, empty
from synergy_nb.errors import SynergyError
from synergy_nb.plan import Operator, Plan
from synergy_nb.plan.derived.named_secrets import secrets_of
from synergy_nb.plan.terms.units import counted
from synergy_nb.traces import nexmark, packets
from synergy_nb.traces.reading import open_trace
from synergy_nb.traces.rows import RowReader
from synergy_nb.traces.times import readable

__all__ = ["LARGEST_SAMPLE", "SampleError", "SampledRows", "compute_sample", "json_rows"]

#: Largest number of tuples that are taken from each source.
LARGEST_SAMPLE: Final = 10_000
_BATCH_ROWS: Final = 500  # rows of a batch: few, so that the first results come soon
_LARGEST_EXACT: Final = 2**53  # JavaScript has all integers up to this one
_SECRET: Final = b"a stand-in for a key, for samples only"  # stands for each key of the plan


class SampleError(SynergyError, ValueError):
    """A stream has no sample; the message says why."""


class SampledRows(NamedTuple):
    """The first rows of a stream."""

    columns: list[str]  # names of the columns
    rows: list[list[Any]]  # values of each row as JSON: times as text, bytes in hexadecimal
    taken: int  # number of tuples taken from all sources
    note: str  # sentence for people that says why there are fewer rows than wanted; otherwise empty


def compute_sample(
    plan: Plan,
    operator: str,
    *,
    clock: Callable[[], float],  # function that returns the time of a monotonic clock, seconds
    rows: int = 20,  # largest number of rows of the sample
    seconds: float = 1.0,  # time after which no more tuples are taken from the sources, seconds
    # id of a source with the connector `python` to a function that returns its rows, with the declared columns
    given: Mapping[str, Callable[[], pl.DataFrame]] | None = None,
) -> SampledRows:
    """Compute the first rows of the stream of an operator.

    Raises ``SampleError`` if the operator is unknown, a source has no rows before it runs, or an operator fails.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= LARGEST_SAMPLE:
        raise SampleError(f"rows: {rows!r}; expected an integer from 1 to {LARGEST_SAMPLE}")
    if operator not in plan.operators:
        raise SampleError(f"sample: {operator!r}; expected an operator without problems ({', '.join(plan.operators)})")
    until = clock() + seconds
    needed = _operator_and_its_inputs(plan, operator)
    try:
        return _SampleRun(plan, operator, needed, rows, given or {}).sample(lambda: clock() >= until, seconds)
    except SampleError:
        raise
    except ANYTHING as error:
        raise SampleError(f"sample of {operator!r}: {error_reason(error)}") from error


def _operator_and_its_inputs(plan: Plan, operator: str) -> list[Operator]:
    """The operator and all operators upstream of it, each before its readers."""
    wanted = {operator}
    for each in reversed(plan.operators.values()):
        if each.id in wanted:
            wanted.update(each.inputs)
    return [each for each in plan.operators.values() if each.id in wanted]


class _SampleRun:
    """One computation of a sample: operators that execute the first tuples of their sources."""

    def __init__(
        self,
        plan: Plan,
        target: str,
        needed: list[Operator],
        rows: int,
        given: Mapping[str, Callable[[], pl.DataFrame]],
    ) -> None:
        self.plan = plan
        self.target = target  # id of the operator whose stream is wanted
        self.wanted_rows = rows
        secrets = {name: _SECRET for each in needed for _, name in secrets_of(each.kind, each.params)}
        self.logic: dict[str, OperatorLogic] = {
            each.id: create(each, plan, secrets=secrets, wait=lambda _: None) for each in needed if each.inputs
        }
        #: Operator id to its readers, each with the number of its input.
        self.readers: dict[str, list[tuple[str, int]]] = {each.id: [] for each in needed}
        for each in needed:
            for port, up in enumerate(each.inputs):
                self.readers[up].append((each.id, port))
        self.sources = {each.id: _first_items(each, plan.schema(each.id), given) for each in needed if not each.inputs}
        self.found: list[pl.DataFrame] = []  # rows of the wanted stream
        self.found_rows = 0
        self.taken = 0  # tuples

    def sample(self, over: Callable[[], bool], seconds: float) -> SampledRows:
        """Take tuples until there are enough rows, the sources end, or ``over()`` says that the time is up."""
        running, late = dict(self.sources), False
        while running and self.found_rows < self.wanted_rows and not late:
            for name, items in list(running.items()):
                item = next(items, None)
                if item is None:
                    del running[name]
                    continue
                if isinstance(item, Batch):
                    self.taken += item.rows
                self.deliver(name, item)
                late = over()
                if late or self.found_rows >= self.wanted_rows:
                    break
        few = self.found_rows < self.wanted_rows
        if late and few:
            for name in running:  # the ends of the sources close the windows that are open
                self.deliver(name, Punctuation(END, 2**62, 0.0))
        columns = list(self.plan.schema(self.target))
        rows = [row for table in self.found for row in json_rows(table.select(columns))]
        note = ""
        if late and few:
            note = f"stopped after {seconds:g} s, at {counted(self.taken, 'tuple')}"
        elif few:
            where = "the source" if len(self.sources) == 1 else "the sources"
            note = f"all of the first {counted(self.taken, 'tuple')} of {where}"
        return SampledRows(columns, rows[: self.wanted_rows], self.taken, note)

    def deliver(self, name: str, item: Item) -> None:
        """Pass an item of an operator's stream on to its readers."""
        if name == self.target:
            if isinstance(item, Batch):
                self.found.append(item.table.head(self.wanted_rows - self.found_rows))
                self.found_rows += self.found[-1].height
            return
        for reader, port in self.readers[name]:
            for made in self.logic[reader].execute(port, item):
                self.deliver(reader, made)


def _first_items(
    operator: Operator, columns: Mapping[str, str], given: Mapping[str, Callable[[], pl.DataFrame]]
) -> Iterator[Item]:
    """The first tuples of a source with these columns in batches, and a punctuation after each batch."""
    params = operator.params
    match params["connector"]:
        case "packets":
            wanted = packets.parameters(params)
            few = msgspec.structs.replace(wanted, count=min(wanted.count or LARGEST_SAMPLE, LARGEST_SAMPLE))
            return packets.generate(few, _BATCH_ROWS)
        case "nexmark":
            events = nexmark.tables(nexmark.parameters(params))
            return _batches(next(events, empty(nexmark.schema_of(params))).head(LARGEST_SAMPLE), ordered=True)
        case "trace":
            trace = open_trace(params)
            return _batches(_first_rows(trace.rows()), ordered=params.get("lateness") is None)
        case "python":
            if operator.id not in given:
                expected = "a table as source(rows); other rows come when the plan is submitted"
                raise SampleError(f"operator {operator.id!r}, rows: missing; expected {expected}")
            return _batches(given[operator.id]().head(LARGEST_SAMPLE), ordered=True)
        case "directory" | "tail" | "sql":
            return _batches(_polled_rows(operator, columns), ordered=params.get("lateness") is None)
        case _:
            raise SampleError(
                f"operator {operator.id!r}: measurements of peers; expected a source with rows before it runs"
            )


def _polled_rows(operator: Operator, columns: Mapping[str, str]) -> pl.DataFrame:
    """The first rows that are there of a source that waits for more, at most :data:`LARGEST_SAMPLE`."""
    source, reader, found, left = (
        connected(operator.params, columns, {}),
        RowReader(operator.id, columns),
        [],
        LARGEST_SAMPLE,
    )
    try:
        source.open(None)
        while left > 0 and (polled := source.poll(0.0)) is not None:
            found.append(reader.as_given(polled.rows).head(left))
            left -= found[-1].height
            if polled.ends:
                break
    except BrokenForNow as error:
        raise SampleError(f"operator {operator.id!r}: {error}") from None
    finally:
        source.close()
    if left == LARGEST_SAMPLE:
        raise SampleError(f"operator {operator.id!r}: no rows are there yet; expected at least one")
    return pl.concat(found)


def _first_rows(tables: Iterator[pl.DataFrame]) -> pl.DataFrame:
    """The first rows of a trace, at most :data:`LARGEST_SAMPLE`."""
    found: list[pl.DataFrame] = []
    left = LARGEST_SAMPLE
    while left > 0 and (table := next(tables, None)) is not None:
        found.append(table.head(left))
        left -= found[-1].height
    if not found:
        raise SampleError("sample: a file without tuples; expected at least one")
    return pl.concat(found)


def _batches(table: pl.DataFrame, *, ordered: bool) -> Iterator[Item]:
    """Divide a table into batches and punctuations; it is sorted by time first if the stream is ordered."""
    table = table.sort("time", maintain_order=True) if ordered else table
    times = table.get_column("time").cast(pl.Int64)
    for start in range(0, table.height, _BATCH_ROWS):
        yield Batch(table.slice(start, _BATCH_ROWS), start, 0.0)
        end = start + _BATCH_ROWS
        if end < table.height and ordered:
            yield Punctuation(int(times[end]), end, 0.0)
    yield Punctuation(END, table.height, 0.0)


def json_rows(table: pl.DataFrame) -> list[list[Any]]:
    """Values of each row of a table as JSON has them."""
    return [[_json_value(value) for value in row] for row in readable(table).iter_rows()]


def _json_value(value: Any) -> Any:
    """A value as JSON has it; numbers that JavaScript does not have exactly become text."""
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST_EXACT:
        return str(value)
    return value
