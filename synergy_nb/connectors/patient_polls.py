"""A source that is polled until it has something, in real time: for those who read it whole, as fast as they can."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.traces.late_rows import EventOrder
from synergy_nb.traces.rows import RowReader

__all__ = ["items_to_end"]

SHORTEST_S: Final = 0.001  # seconds from a poll that has found nothing to the next one, at first
LONGEST_S: Final = 0.2  # and at last
PATIENCE_S: Final = 10.0  # time for which a source that is read whole may have nothing, seconds


def _polled_within(source: Source, seconds: float) -> Polled | None:
    """Poll a source until it has something; None if it has nothing for so long."""
    began, pause = time.monotonic(), SHORTEST_S
    while (asked := time.monotonic()) < began + seconds:
        polled = source.poll(pause)
        if polled is not None:
            return polled
        time.sleep(max(asked + pause - time.monotonic(), 0.0))  # it may have answered at once
        pause = min(2.0 * pause, LONGEST_S)
    return None


def items_to_end(
    source: Source,
    reader: RowReader,  # converter of its rows
    lateness: float | None,  # seconds, see `EventOrder`
    dropped: Callable[[int], object] = lambda _: None,  # callback with the number of late rows so far
) -> Iterator[Item]:
    """Yield the rows of a source that ends, from its beginning, each batch with a promise.

    Raises ``ValueError`` if it has nothing for ten seconds, or cannot be read at present: nobody waits until it mends.
    """
    order, position = EventOrder(reader.source, lateness), 0
    try:
        source.open(None)
        while True:
            polled = _polled_within(source, PATIENCE_S)
            if polled is None:
                raise ValueError(f"{reader.source}: it had no rows for {PATIENCE_S:g} s; expected a source that ends")
            table, known = reader.as_given(polled.rows), order.dropped
            if table.height:
                kept, _ = order.keep(table)
                if order.dropped > known:
                    dropped(order.dropped)
                yield Batch(kept, position, 0.0)
                position += kept.height
            if polled.until is not None:
                order.promise(polled.until)
            if order.promised is not None:
                yield Punctuation(order.promised, position, 0.0)
            if order.error is not None:
                raise order.error
            if polled.ends:
                yield Punctuation(END, position, 0.0)
                return
    except BrokenForNow as error:
        raise ValueError(str(error)) from None
    finally:
        source.close()
