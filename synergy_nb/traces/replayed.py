"""Traces and generated tuples as a :class:`~synergy_nb.dataflow.sources.Source`: positions are numbers of rows.

Both drivers read them so, and compute from the promises when each row is due (:func:`.reading.paced`): the protocol of
sources knows no due times, as what it usually reads comes when it comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import polars as pl

from synergy_nb.dataflow.sources import Polled, Source
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.events import SkippedLines
from synergy_nb.traces.reading import Skipped, read

__all__ = ["ReplayedSource", "items"]


class ReplayedSource(Source):
    """The rows of a trace, or generated ones. What is before a position is read, or generated, and passed over."""

    repeats: ClassVar[bool] = True

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self._items: Iterator[Item] = iter(())
        self._passed = 0  # number of rows that are not given any more
        self._skipped: SkippedLines | None = None

    def open(self, position: Any) -> None:
        """Read on after so many rows; a trace is parsed now.

        Raises ``ValueError`` if the parameters are invalid or the trace cannot be read.
        """
        self._passed = position or 0
        self._items = read(self._params, self._note)

    def _note(self, lines: SkippedLines) -> None:
        self._skipped = lines

    def poll(self, seconds: float) -> Polled:
        """Return the next batch, and the time that no later row precedes."""
        rows: pl.DataFrame | tuple[()] = ()
        for item in self._items:
            if isinstance(item, Punctuation):
                self._passed = max(self._passed, item.position)
                ends = item.time == END
                until = None if ends else item.time
                return Polled(rows, self._passed, ends, skipped=self._skipped, until=until)
            if isinstance(item, Batch) and item.end_position > self._passed:
                rows = item.table.slice(max(self._passed - item.position, 0))
                self._passed = item.end_position
        return Polled(rows, self._passed, ends=True, skipped=self._skipped)

    def close(self) -> None:
        """Let go of the file."""
        self._items = iter(())


def items(source: Source, skipped: Skipped | None) -> Iterator[Item]:
    """Open a source that never waits, and yield its rows as items of a stream, from its beginning to its end.

    ``skipped``: callback for malformed lines, which is called before the first item, if there are any.
    """
    source.open(None)
    first = source.poll(0.0)
    if first is not None and first.skipped is not None and skipped is not None:
        skipped(first.skipped)
    return _items(source, first)


def _items(source: Source, polled: Polled | None) -> Iterator[Item]:
    position = 0
    try:
        while polled is not None:
            if len(polled.rows):
                assert isinstance(polled.rows, pl.DataFrame)
                yield Batch(polled.rows, position, 0.0)
                position += polled.rows.height
            if polled.until is not None or polled.ends:
                yield Punctuation(END if polled.ends or polled.until is None else polled.until, position, 0.0)
            if polled.ends:
                return
            polled = source.poll(0.0)
    finally:
        source.close()
