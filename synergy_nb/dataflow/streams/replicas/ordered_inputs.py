"""The logic of a component in deterministic order: several inputs, read as one in the order of event times. No IO.

The inputs of a component arrive in an order that no two peers share. So each of them is sorted by its punctuations, and
the operator gets the tuples of all inputs in the order of their times, as far as all inputs have promised. What it
emits, and at which positions, depends on the tuples alone: every peer that executes it emits the same, and a reader may
go on at another one from its position. The price is the wait for the punctuation of the slowest input.

Examples
--------
>>> import polars as pl
>>> from synergy_nb.dataflow.operators import create
>>> from synergy_nb.plan import source
>>> columns = {"v": "int"}
>>> one, two = (source("python", name=name, columns=columns, rate=1.0, id=name) for name in "ab")
>>> plan = one.union(two, id="u").sink("out")
>>> logic = OrderedInputs(create(plan.operators["u"], plan), [(), ()], joined=True)
>>> rows = pl.DataFrame({"time": [2, 5], "v": [20, 50]}, schema={"time": pl.Datetime("us"), "v": pl.Int64})
>>> [*logic.execute(1, Batch(rows, 0, 0.0)), *logic.execute(1, Punctuation(6, 2, 0.0))]
[]
>>> [type(each).__name__ for each in logic.execute(0, Punctuation(3, 0, 0.0))]
['Batch', 'Punctuation']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.streams.replicas._combined_states import (
    LogicPart,
    PartHead,
    decoded_head,
    restore_parts,
    save_parts,
)
from synergy_nb.dataflow.streams.replicas._sorted_input import SortedInput, in_order
from synergy_nb.dataflow.tuples import START, Batch, Item, Punctuation

if TYPE_CHECKING:
    from synergy_nb.dataflow.logic import Logic

__all__ = ["OrderedInputs"]


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The saved state without its tables: promises of the inputs; for each part its head and its tables' numbers."""

    promises: list[int]
    parts: list[PartHead]


class OrderedInputs:
    """An operator whose inputs are read in the order of event times.

    ``orders``: columns that order tuples of equal time, for each input, each with whether it descends.
    """

    def __init__(self, operator: Logic, orders: Sequence[Sequence[tuple[str, bool]]], *, joined: bool = False) -> None:
        self._operator = operator
        self._sorted = [SortedInput(order) for order in orders]
        self._promises = [START] * len(orders)
        # whether all inputs mean the same to the operator, so that it may read their tuples by one of them
        self._joined = joined

    @property
    def late(self) -> int:
        """Tuples that were dropped as they came after a promise."""
        return self._operator.late + sum(each.late for each in self._sorted)

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of the operator, and of the tuples that wait for a promise."""
        return self._operator.state_bytes + sum(each.nbytes for each in self._sorted)

    def needs(self, port: int, item: Item, /) -> float:
        """Estimate the bytes that processing an item may need in addition to the state."""
        return self._operator.needs(port, item) + sum(each.needs(item) for each in self._sorted)

    def execute(self, port: int, item: Item, /) -> Iterator[Item]:
        """Process an item of an input, and yield what it completes piece by piece."""
        for at, each in self._given(port, item):
            yield from self._operator.execute(at, each)

    def _given(self, port: int, item: Item) -> Iterable[tuple[int, Item]]:
        """What the operator reads next, and by which port."""
        if isinstance(item, Batch):
            return [(port, each) for each in self._sorted[port].receive(item)]
        self._promises[port] = max(self._promises[port], item.time)
        promise = Punctuation(min(self._promises), item.position, item.born)
        return in_order([held.receive(promise) for held in self._sorted], joined=self._joined)

    @property
    def _parts(self) -> list[LogicPart]:
        return [self._operator, *self._sorted]

    def save(self) -> SavedState:
        """Return all that a new instance needs to resume from here."""
        heads, tables = save_parts(self._parts)
        return SavedState(msgspec.msgpack.encode(_Head(self._promises, heads)), tables)

    def restore(self, saved: SavedState, /) -> None:
        """Resume where the instance was that saved this state.

        Raises ``ValueError`` if it is not a state of this operator and its inputs.
        """
        head = decoded_head(saved.head, _Head, "ordered inputs")
        if len(head.promises) != len(self._sorted):
            raise ValueError(f"saved state: {len(head.promises)} inputs; expected {len(self._sorted)}")
        restore_parts(self._parts, head.parts, saved.tables)
        self._promises = list(head.promises)
