"""Calibration: measures a wake-up, and each kind of operator on a few tuples, while no stream runs.

A thread sleeps until a due time, as the thread of a paced source does, and passes an item to the event loop. There a
filter processes a batch of two tuples, a frame with it is decoded, and then one of the other kinds of operators, in
turn, processes tuples until it has a result. The times are added to :class:`~synergy_nb.models.overheads.Overheads`: at
short intervals when the peer starts, while the machine is busy with starting, then at longer ones up to a second. So
projection knows the machine before the first tuple, and is updated when other work slows the machine down. Once
the calls have taken as long as before for a minute, only every fourth wake-up is followed by calls: these were half of
the time of a peer without applications.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import math
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import polars as pl

from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation, decode, empty, encode
from synergy_nb.models.overheads import HOP, REFERENCE, SOURCE
from synergy_nb.plan import Plan, source
from synergy_nb.plan.operators.catalogue import FAMILIES, KINDS
from synergy_nb.plan.operators.declaration import Declaration
from synergy_nb.runtime.process._peer_reports import LATEST, MeasuredOverheads
from synergy_nb.runtime.process.fork_server import without_threads

SOON: Final = 0.05  # seconds from the start to the first measurement
LONGER: Final = 1.15  # ratio of an interval to the previous one
EVERY: Final = 1.0  # longest time between two wake-ups, seconds
RARELY: Final = 4  # wake-ups from one measurement of calls to the next, where they take as long as before
STEADY: Final = 1.5  # ratio of two calls of the reference, one after another, up to which they take as long as before
APART: Final = 10_000_000  # event time between two results of a case, microseconds


class CalibrationCase:
    """An operator without readers, by which the time that its kind takes for a few tuples is measured.

    ``plan``: plan that contains the operator.
    """

    def __init__(self, plan: Plan, operator: str) -> None:
        self.kind = plan.operators[operator].kind
        self._logic = create(plan.operators[operator], plan, wait=lambda _: None)
        self._tables = [_two_tuples(plan.schema(upstream)) for upstream in plan.operators[operator].streams]
        self._made = 0

    def items(self) -> list[tuple[int, Item]]:
        """Return the next tuples on each port, followed by promises that let windows close."""
        self._made += 1
        at, position = self._made * APART, 2 * self._made
        later = pl.col(pl.Datetime("us")) + timedelta(microseconds=at)
        tables = [table.with_columns(later) for table in self._tables]
        found: list[tuple[int, Item]] = [(port, Batch(table, position, 0.0)) for port, table in enumerate(tables)]
        found += [(port, Punctuation(at + APART, position + 2, 0.0)) for port in range(len(tables))]
        return found

    def execute(self, items: list[tuple[int, Item]]) -> int:
        """Process items until there is a result; return its number of tuples."""
        for port, item in items:
            rows = sum(made.rows for made in self._logic.execute(port, item) if isinstance(made, Batch))
            if rows:
                return rows
        return 0


@functools.cache
def _example(declaration: Declaration) -> tuple[Plan, str]:
    """Make a plan with an operator of a kind; return it with the operator's id."""
    assert declaration.example is not None
    packets, others = source("packets", rate=1.0), source("packets", rate=1.0)
    plan = declaration.example.make(packets, others).sink("none")
    return plan, next(each.id for each in plan.operators.values() if each.kind == declaration.kind)


def make_plans() -> list[tuple[Plan, str]]:
    """Make a plan for each kind of operator that has an example (and needs no key), the reference first, once.

    They took nearly half of the processor time of a peer's start, so a fork server makes them before it forks.

    Raises ``ProcessStartError`` if one of them starts threads.
    """
    made = []
    for declaration in _with_examples():
        with without_threads(f"the example of operator {declaration.kind!r}"):
            made.append(_example(declaration))
    return made


def _with_examples() -> list[Declaration]:
    """Return the declarations that have an example, the reference first."""
    found = (each for each in KINDS.values() if each.example is not None)
    return sorted(found, key=lambda each: each.kind != REFERENCE)


_ready: Final[dict[str, CalibrationCase]] = {}  # by kind: not used yet, and made before this process was forked


def make_cases() -> None:
    """Make the cases of the platform's own kinds, for the first peer of each process that a fork server forks.

    Users' own operators wait until then: their logic may start threads.
    """
    _ready.update((each.kind, CalibrationCase(*_example(each))) for each in _with_examples() if each.kind in FAMILIES)


def calibration_cases() -> Iterator[CalibrationCase]:
    """Yield one case for each kind of operator that has an example (and needs no key), the reference first."""
    for each in _with_examples():
        yield _ready.pop(each.kind) if each.kind in _ready else CalibrationCase(*_example(each))


def _two_tuples(schema: dict[str, str]) -> pl.DataFrame:
    alike: dict[str, list[Any]] = {"str": ["", ""], "time": [1, 1]}  # in one window, if they have windows
    values = {column: alike.get(kind, [1, 2]) for column, kind in schema.items()}
    return pl.DataFrame(values, schema=empty(schema).schema)


class Calibration:
    """Updates the overheads of one peer while it executes nothing."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],  # function that returns the time in seconds, thread-safe
        # overheads of the peer, to which the measurements are added; the peer receives them
        overheads: MeasuredOverheads,
        # function that returns whether an operator runs for long in a thread of the peer; then nothing is measured,
        # since the loop would have to wait for it
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
        self._last_call = math.inf  # seconds of the last call of the reference
        self._steady = 0  # calls of the reference in a row that took as long as the one before
        self._left = 1  # wake-ups until calls are measured again
        self._frame = next(encode(item) for _, item in self._reference.items())
        self._thread = threading.Thread(target=self._run, name="synergy calibration", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def renew(self) -> None:
        """Measure at short intervals again: the peer has started, and measurements during the start say little."""
        self._overheads.discount()
        self._interval, self._steady, self._left = SOON, 0, 1

    def close(self) -> None:
        """Stop the thread and all measurements."""
        self._halt.set()

    def _run(self) -> None:
        while True:
            due = self._clock() + self._interval
            if self._halt.wait(self._interval):
                return
            self._interval = min(self._interval * LONGER, EVERY)
            try:
                self._loop.call_soon_threadsafe(self.look, due)
            except RuntimeError:  # the loop was closed
                return

    def look(self, due: float) -> None:
        """Measure the wake-up that was due at ``due``, in seconds, and calls, if it is time for these."""
        self._left -= 1
        self.measure(due, calls=self._left <= 0)

    def measure(self, due: float, *, calls: bool = True) -> None:
        """Measure the wake-up that was due at ``due``, in seconds, and the next case; on the loop's thread.

        ``calls``: whether the calls of operators are measured, too.
        """
        if self._halt.is_set():
            return
        woken = self._clock()
        self._overheads.share.at(woken)
        if self._busy():
            self._overheads.publish()
            return
        if self._seen:  # the first execution is cold
            self._overheads.observe(SOURCE, woken - due)
        if not calls:
            self._overheads.publish()
            return
        call = self._execute(self._reference)
        last, self._last_call = self._last_call, call
        self._steady = self._steady + 1 if call < STEADY * last and last < STEADY * call else 0
        self._left = RARELY if self._steady >= LATEST else 1
        self._overheads.observe(REFERENCE, call)
        self._overheads.called(call)
        began = self._clock()
        decode(self._frame)
        self._overheads.observe(HOP, self._clock() - began)
        self._execute(next(self._others))
        self._overheads.publish()

    def _execute(self, case: CalibrationCase) -> float:
        """Measure one execution of a case, in seconds; the very first one is cold and does not count."""
        for _ in range(1 if case.kind in self._seen else 2):
            items = case.items()
            began = self._clock()
            case.execute(items)
            call = self._clock() - began
        self._seen.add(case.kind)
        self._overheads.calibrate(case.kind, call)
        return call
