"""Measures the time of a wake-up, of an operator on a few tuples and of coding for the wire, with no stream running.

A thread sleeps until a time that it has set itself, as the thread of a paced source does, and hands over to the event
loop. There a filter takes a batch of two tuples, and the batch is encoded and decoded once. The three times go to the
peer's :class:`~synergy_nb.overheads.Overheads`: at short intervals when the peer starts, while the machine is busy with
starting, then at longer ones up to a second. So projection knows the machine before the first tuple, and hears of it
when other work slows it down.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final

import polars as pl

from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.tuples import Batch, decode, empty, encode
from synergy_nb.overheads import HOP, REFERENCE, SOURCE, Overheads
from synergy_nb.plan import source

__all__ = ["Calibration"]

SOON: Final = 0.05  # seconds until the first measurement, which is cold and does not count
LONGER: Final = 1.15  # ratio of an interval to the one before
EVERY: Final = 1.0  # seconds between two measurements at most


class Calibration:
    """Keeps the overheads of one peer up to date while it executes nothing.

    Parameters
    ----------
    loop
        The peer's event loop.
    clock
        Returns the time in seconds; may be called from any thread.
    overheads
        The peer's measured overheads, to which the measurements are added.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        overheads: Overheads,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._overheads = overheads
        self._taken = 0
        self._halt = threading.Event()
        plan = source("packets", rate=1.0).filter("bytes > 0").sink("none")
        name = next(each.id for each in plan.operators.values() if each.kind == REFERENCE)
        self._logic = create(plan.operators[name], plan)
        schema = plan.schema(plan.sources[0])
        values = {column: ["", ""] if kind == "str" else [1, 2] for column, kind in schema.items()}
        self._table = pl.DataFrame(values, schema=empty(schema).schema)
        self._thread = threading.Thread(target=self._run, name="synergy calibration", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Let the thread end; measure nothing more."""
        self._halt.set()

    def _run(self) -> None:
        interval = SOON
        while True:
            due = self._clock() + interval
            if self._halt.wait(interval):
                return
            interval = min(interval * LONGER, EVERY)
            try:
                self._loop.call_soon_threadsafe(self._measure, due)
            except RuntimeError:  # the loop was closed
                return

    def _measure(self, due: float) -> None:
        if self._halt.is_set():
            return
        woken = self._clock()
        self._taken += 1
        batch = Batch(self._table, 2 * self._taken, woken)
        self._logic.on_batch(0, batch)
        executed = self._clock()
        decode(encode(batch))
        coded = self._clock()
        if self._taken > 1:
            self._overheads.observe(SOURCE, woken - due)
            self._overheads.observe(REFERENCE, executed - woken)
            self._overheads.observe(HOP, coded - executed)
