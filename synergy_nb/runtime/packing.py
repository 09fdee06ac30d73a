"""Items of a stream to parcels: sizes, slices that fit the window of a channel, and their form on the wire."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from synergy_nb.dataflow.channels import Parcel
from synergy_nb.dataflow.tuples import Batch, Item, Punctuation, encode

__all__ = ["pack", "parcel_of"]

OVERHEAD: int = 64  # bytes that an item takes beside its table; keeps the size of an item positive


def parcel_of(item: Item, payload: bytes | None = None) -> Parcel:
    """A parcel of one item; its size is that of its encoded form where it has one, as both ends of a link see it."""
    if isinstance(item, Punctuation):
        size = OVERHEAD if payload is None else len(payload)
        return Parcel(item, item.position, 0, size, item.born, item.time, payload)
    size = item.nbytes + OVERHEAD if payload is None else len(payload)
    return Parcel(item, item.position, item.rows, size, item.born, None, payload)


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
