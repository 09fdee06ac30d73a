"""Items of a stream to chunks: slices that fit the window of a reader, and their form on the wire.

Also the opposite of slicing: whoever is behind puts the items that wait into fewer, see :func:`coalesce`. What an item
costs beside its tuples (calls, wake-ups, a place in a queue) would otherwise keep those behind who once fell behind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import polars as pl

from synergy_nb.dataflow.channels import Parcel
from synergy_nb.dataflow.streams.values import OVERHEAD, Chunk, Point, chunks_of
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation, encode

__all__ = ["coalesce", "cut", "on_wire", "pack", "parcel_of"]


def coalesce(items: Sequence[Item]) -> list[Item]:
    """The same stream in as few items as can be: consecutive batches become one, with one punctuation behind it.

    Parameters
    ----------
    items
        Consecutive items of one stream.

    Returns
    -------
    list of Batch and Punctuation
        The same tuples in the same order. Of several punctuations the last stays, which promises what the others did. A
        punctuation that batches follow moves behind them, but never behind tuples that it makes late. What is merged
        is as old as its oldest part.
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
                latest = max(promise, item, key=lambda one: one.time)
                promise = msgspec.structs.replace(latest, born=min(promise.born, item.born))
        elif item.rows:
            if promise is not None and _earliest(item) < promise.time:
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
    table = pl.concat([batch.table for batch in batches], rechunk=True)
    born = min(batch.born for batch in batches)
    return msgspec.structs.replace(batches[0], table=table, born=born, rate=batches[-1].rate)


def cut(items: Iterable[Item], start: Point, *, wire: bool, most: int, rate: float = 0.0) -> list[Chunk]:
    """The chunks of consecutive items that follow a place, as :func:`chunks_of`, but of a size that fits a window.

    Parameters
    ----------
    items
        Batches and punctuations; batches without tuples, and promises that say nothing new, are left out.
    start
        Place in the stream at which they begin.
    wire
        Whether they go to another peer and have to be encoded.
    most
        Bytes of a chunk, at most: larger batches are sliced, down to single tuples.
    rate
        Tuples a second that their producer measured, written into each batch; 0 where it is unknown.

    Raises
    ------
    ValueError
        If a batch does not begin where the one before it ended.
    """
    pieces: list[Item] = []
    for item in items:
        if isinstance(item, Punctuation):
            pieces.append(item)
        else:
            stamped = msgspec.structs.replace(item, rate=rate) if rate else item
            pieces.extend(_slices(stamped, most))
    chunks = chunks_of(pieces, start)
    if wire:
        for chunk in chunks:
            chunk.payload = encode(chunk.item)
    return chunks


def parcel_of(item: Item, payload: bytes | None = None) -> Parcel:
    """A parcel of one item; its size is that of its encoded form where it has one, as both ends of a link see it."""
    if isinstance(item, Punctuation):
        size = OVERHEAD if payload is None else len(payload)
        return Parcel(item, item.position, 0, size, item.born, item.time, payload)
    size = item.nbytes + OVERHEAD if payload is None else len(payload)
    return Parcel(item, item.position, item.rows, size, item.born, None, payload)


def on_wire(parcel: Parcel) -> Parcel:
    """A parcel in its encoded form, as it goes to another peer."""
    return parcel if parcel.payload is not None else parcel_of(parcel.item, encode(parcel.item))


def pack(items: Iterable[Item], *, wire: bool, most: int, rate: float = 0.0) -> list[Parcel]:
    """Parcels of ``items``, in order.

    Parameters
    ----------
    items
        Batches and punctuations; batches without tuples are left out.
    wire
        Whether they go to another peer and have to be encoded.
    most
        Bytes of a parcel, at most: larger batches are sliced, down to single tuples.
    rate
        Tuples a second that their producer measured, written into each batch.
    """
    parcels: list[Parcel] = []
    for item in items:
        if isinstance(item, Punctuation):
            parcels.append(parcel_of(item, encode(item) if wire else None))
            continue
        for batch in _slices(item, most):
            if batch.rows:
                stamped: Batch = msgspec.structs.replace(batch, rate=rate) if rate else batch
                parcels.append(parcel_of(stamped, encode(stamped) if wire else None))
    return parcels


def _slices(batch: Batch, most: int) -> Iterable[Batch]:
    pieces = min(math.ceil((batch.nbytes + OVERHEAD) / most), batch.rows)
    if pieces <= 1:
        return (batch,)
    rows = math.ceil(batch.rows / pieces)
    return (
        msgspec.structs.replace(batch, table=batch.table.slice(start, rows), position=batch.position + start)
        for start in range(0, batch.rows, rows)
    )
