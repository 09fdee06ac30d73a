"""Cutting of items into chunks: slices that fit the window of a reader, and their encoding.

The opposite, :func:`coalesce`, merges waiting items. The overhead of an item (calls, wake-ups, entries in queues) would
otherwise prevent a component that is behind from catching up. How much may be merged is limited by
:data:`TOGETHER_ROWS`, :data:`TOGETHER_WORK` and :func:`mergeable`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
import polars as pl

from synergy_nb.dataflow.streams.log.values import OVERHEAD, Chunk, Point, chunks_of
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation, concatenated

__all__ = ["TOGETHER_BORN", "TOGETHER_ROWS", "TOGETHER_WORK", "coalesce", "cut", "mergeable", "slices"]

TOGETHER_ROWS: Final = 16_384  # most tuples in one batch: beyond them, the overhead of an item is negligible
TOGETHER_BORN: Final = 0.2  # seconds; items are merged if they were born in the same interval of this length
TOGETHER_WORK: Final = 0.2  # longest predicted time of an execution of several items, seconds


def mergeable(one: float, other: float) -> bool:
    """Whether two items with these times of entry into the system may be merged; the result has the earlier time.

    They may if both times lie between the same two multiples of 0.2 s. However often a stream is merged on its way, no
    delay is measured as longer by more than that.

    Examples
    --------
    >>> mergeable(10.01, 10.19), mergeable(10.19, 10.21)
    (True, False)
    """
    return math.floor(one / TOGETHER_BORN) == math.floor(other / TOGETHER_BORN)


def coalesce(items: Sequence[Item], *, kept: bool = False) -> list[Item]:
    """Merge a stream into as few items as possible: consecutive batches become one, followed by one punctuation.

    ``kept``: whether no tuple is known to be earlier than a promise before it, as in the stream of a source.

    Returns: the same tuples in the same order. Of several punctuations the last one remains, whose promise includes the
    others. A punctuation followed by batches moves behind them, but never behind tuples that would become late. A
    merged batch has the earliest time of entry of its parts.
    """
    if len(items) < 2:
        return list(items)
    merged: list[Item] = []
    batches: list[Batch] = []
    promise: Punctuation | None = None

    def close() -> None:
        if batches:
            merged.append(_joined(batches))
        if promise is not None:
            position = batches[-1].end_position if batches else promise.position
            merged.append(msgspec.structs.replace(promise, position=max(position, promise.position)))
        batches.clear()

    for item in items:
        if isinstance(item, Punctuation):
            if promise is None:
                promise = item
            else:
                latest, born = item if item.time > promise.time else promise, min(promise.born, item.born)
                promise = latest if latest.born == born else msgspec.structs.replace(latest, born=born)
        elif item.rows:
            if promise is not None and not kept and _earliest(item) < promise.time:
                close()
                promise = None
            batches.append(item)
    close()
    return merged


def _earliest(batch: Batch) -> int:
    least: Any = batch.table.get_column("time").cast(pl.Int64).min()
    return int(least)


def _joined(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    table = concatenated([batch.table for batch in batches])
    born = min(batch.born for batch in batches)
    return msgspec.structs.replace(batches[0], table=table, born=born)


def cut(item: Item, start: Point, *, encode: Callable[[Chunk], None] | None, most: int) -> list[Chunk]:
    """Cut an item that follows a point into chunks that fit a window; none if the item has nothing new.

    ``item``: batch or punctuation; ``start``: point in the stream at which the item begins; ``encode``: encoder of a
    chunk; None: all readers are on this peer; ``most``: size limit of a chunk, bytes: a larger batch is cut into equal
    parts, down to single tuples.

    Raises ``ValueError`` if a batch begins at another position.
    """
    chunks = chunks_of(slices(item, most) if isinstance(item, Batch) else (item,), start)
    if encode is not None:
        for chunk in chunks:
            encode(chunk)
    return chunks


def slices(batch: Batch, most: int) -> Iterable[Batch]:
    """Cut a batch into equal parts of at most ``most`` bytes, if its tuples are of about the same size."""
    size = batch.nbytes
    if size + OVERHEAD <= most or batch.rows < 2:
        return (batch,)
    fit = max(batch.rows * max(most - OVERHEAD, 0) // size, 1)  # tuples
    rows = math.ceil(batch.rows / math.ceil(batch.rows / fit))
    return (
        msgspec.structs.replace(batch, table=batch.table.slice(start, rows), position=batch.position + start)
        for start in range(0, batch.rows, rows)
    )
