"""Measures the time of a wake-up and of each kind of operator on a few tuples, with no stream running.

A thread sleeps until a time that it has set itself, as the thread of a paced source does, and hands over to the event
loop. There a filter takes a batch of two tuples, a frame with it is decoded, and then one of the other kinds, in turn,
takes what makes it give a result. The times are added to :class:`~synergy_nb.models.overheads.Overheads`: at short
intervals when the peer starts, while the machine is busy with starting, then at longer ones up to a second. So
projection knows the machine before the first tuple, and hears of it when other work slows it down.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import polars as pl

from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation, decode, empty, encode
from synergy_nb.models.overheads import HOP, REFERENCE, SOURCE
from synergy_nb.plan import Plan, source
from synergy_nb.plan.catalogue import KINDS
from synergy_nb.runtime.process.peer_reports import MeasuredOverheads

__all__ = ["Calibration", "CalibrationCase", "calibration_cases"]

SOON: Final = 0.05  # seconds until the first measurement
LONGER: Final = 1.15  # ratio of an interval to the one before
EVERY: Final = 1.0  # seconds between two measurements at most
APART: Final = 10_000_000  # microseconds of event time from one result of a specimen to the next


class CalibrationCase:
    """An operator that nobody waits for, which shows what one of its kind takes for a few tuples.

    Parameters
    ----------
    plan
        A plan with the operator.
    operator
        Id of the operator.
    """

    def __init__(self, plan: Plan, operator: str) -> None:
        self.kind = plan.operators[operator].kind
        self._logic = create(plan.operators[operator], plan, wait=lambda _: None)
        self._tables = [_two_tuples(plan.schema(upstream)) for upstream in plan.operators[operator].inputs]
        self._made = 0

    def items(self) -> list[tuple[int, Item]]:
        """The next tuples on each port, and the promises behind them, which let windows close."""
        self._made += 1
        at, position = self._made * APART, 2 * self._made
        later = pl.col(pl.Datetime("us")) + pl.duration(microseconds=at)
        tables = [table.with_columns(later) for table in self._tables]
        found: list[tuple[int, Item]] = [(port, Batch(table, position, 0.0)) for port, table in enumerate(tables)]
        found += [(port, Punctuation(at + APART, position + 2, 0.0)) for port in range(len(tables))]
        return found

    def execute(self, items: list[tuple[int, Item]]) -> int:
        """Take items until there is a result; gives its number of tuples."""
        for port, item in items:
            rows = sum(made.rows for made in self._logic.take(port, item) if isinstance(made, Batch))
            if rows:
                return rows
        return 0


def calibration_cases() -> Iterator[CalibrationCase]:
    """One of each kind of operator that has an example (which needs no key), the reference first."""
    packets, others = source("packets", rate=1.0), source("packets", rate=1.0)
    for declaration in sorted(KINDS.values(), key=lambda each: each.kind != REFERENCE):
        if declaration.example is not None:
            plan = declaration.example.make(packets, others).sink("none")
            yield CalibrationCase(
                plan, next(each.id for each in plan.operators.values() if each.kind == declaration.kind)
            )


def _two_tuples(schema: dict[str, str]) -> pl.DataFrame:
    alike: dict[str, list[Any]] = {"str": ["", ""], "time": [1, 1]}  # of one window, where they have one
    values = {column: alike.get(kind, [1, 2]) for column, kind in schema.items()}
    return pl.DataFrame(values, schema=empty(schema).schema)


class Calibration:
    """Keeps the overheads of one peer up to date while it executes nothing.

    Parameters
    ----------
    loop
        The peer's event loop.
    clock
        Returns the time in seconds; may be called from any thread.
    overheads
        The measured overheads, to which the measurements are added; the peer is sent them.
    busy
        Whether something on this peer takes long, so that a measurement would hold up the event loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        overheads: MeasuredOverheads,
        busy: Callable[[], bool] = bool,
    ) -> None:
        self._busy = busy
        self._loop = loop
        self._clock = clock
        self._overheads = overheads
        self._interval = SOON
        self._halt = threading.Event()
        self._reference, *others = calibration_cases()
        self._others = itertools.cycle(others)
        self._seen: set[str] = set()
        self._frame = next(encode(item) for _, item in self._reference.items())
        self._thread = threading.Thread(target=self._run, name="synergy calibration", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def renew(self) -> None:
        """Measure at short intervals again: the peer has started, and what was measured meanwhile tells little."""
        self._overheads.discount()
        self._interval = SOON

    def close(self) -> None:
        """Let the thread end; measure nothing more."""
        self._halt.set()

    def _run(self) -> None:
        while True:
            due = self._clock() + self._interval
            if self._halt.wait(self._interval):
                return
            self._interval = min(self._interval * LONGER, EVERY)
            try:
                self._loop.call_soon_threadsafe(self.measure, due)
            except RuntimeError:  # the loop was closed
                return

    def measure(self, due: float) -> None:
        """Measure what is due at ``due``, in seconds, on the loop's thread."""
        if self._halt.is_set() or self._busy():
            return
        woken = self._clock()
        if self._seen:  # the first time is cold
            self._overheads.observe(SOURCE, woken - due)
        self._overheads.observe(REFERENCE, self._execute(self._reference))
        began = self._clock()
        decode(self._frame)
        self._overheads.observe(HOP, self._clock() - began)
        self._execute(next(self._others))
        self._overheads.publish()

    def _execute(self, specimen: CalibrationCase) -> float:
        """Measure a call of an operator; the very first one is cold and does not count."""
        for _ in range(1 if specimen.kind in self._seen else 2):
            items = specimen.items()
            began = self._clock()
            specimen.execute(items)
            call = self._clock() - began
        self._seen.add(specimen.kind)
        self._overheads.calibrate(specimen.kind, call)
        return call
