"""The logic of a component with active replicas: duplicate filters in front of the operator. No IO, no clock.

Each stream replica is an input of its own: the component reads and acknowledges it as any other, and its place in the
order of reading is recorded. What a port of the operator reads is the merged stream of several inputs. So the filters
are a part of what the component executes, and of its snapshots: a copy of it resumes with the counters that belong to
the points from which it reads again.

An input that is added later begins with a promise that states from when the stream is complete (:attr:`.InOrder.late`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.streams.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.streams.execution import Logic
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.component import Component

__all__ = ["MergedLogic", "merged"]


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """Saved state beside tables: head of the operator and its tables; of each filter its head and its tables."""

    latest: int
    ports: list[int]
    operator: bytes
    tables: list[int]
    filters: list[tuple[bytes, list[int]]]


def merged(operator: Logic, component: Component) -> Logic:
    """Put duplicate filters in front of an operator, if its component is an active replica or reads active replicas."""
    if not component.feed_ports and not component.replica_of:
        return operator
    return MergedLogic(operator, component.feed_ports or range(len(component.feeds)))


class MergedLogic:
    """An operator with a duplicate filter in front of each port that several stream replicas feed.

    Parameters
    ----------
    operator
        Logic of the operator.
    ports
        Port of the operator that each input belongs to.

    Attributes
    ----------
    latest : int
        Greatest event time of all tuples that it has emitted, in µs; ``START`` before the first.
    """

    def __init__(self, operator: Logic, ports: Sequence[int]) -> None:
        self._operator = operator
        self._ports = list(ports)
        self._filters = [
            DuplicateFilter(str(number) for number, each in enumerate(ports) if each == port)
            for port in sorted(set(ports))
        ]
        self.latest = START
        self._next_table = 0

    @property
    def late(self) -> int:
        """Tuples that the operator dropped as they came after a promise; what the filters drop does not count."""
        return self._operator.late

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of the operator and of the counters."""
        return self._operator.state_bytes + sum(each.nbytes for each in self._filters)

    @property
    def weights(self) -> dict[int, float]:
        """Number of each input to its weight (V-B), since the last call of :meth:`restart_weights`."""
        return {int(name): weight for each in self._filters for name, weight in each.weights.items()}

    def restart_weights(self) -> None:
        """Begin a new period of weights."""
        for each in self._filters:
            each.restart_weights()

    def set_ports(self, ports: Sequence[int]) -> None:
        """Add inputs, whose streams join those that are read already."""
        self._ports += ports[len(self._ports) :]

    def incomplete(self, inputs: Collection[int]) -> int | None:
        """Return a port of which none of some inputs has all tuples that it has not passed yet; None if there is none."""
        for port, merged in enumerate(self._filters):
            names = [str(number) for number in inputs if self._ports[number] == port]
            if merged.promise < END and not any(merged.is_complete(name) for name in names):
                return port
        return None

    def needs(self, port: int, item: Item, /) -> float:
        """Estimate the bytes that processing an item may need in addition to the state."""
        return self._operator.needs(self._ports[port], item)

    def execute(self, port: int, item: Item, /) -> Iterator[Item]:
        """Process what is new of an item of an input, and produce its output piece by piece."""
        number = self._ports[port]
        merged, name = self._filters[number], str(port)
        if name not in merged.streams:
            merged.join(name, item.time if isinstance(item, Punctuation) else START)
        passed = merged.receive(name, item)
        if passed is None:
            return
        for made in self._operator.execute(number, passed):
            if isinstance(made, Batch):
                greatest = made.table.get_column("time").to_physical().max()
                self.latest = max(self.latest, int(greatest))  # type: ignore[arg-type]
            yield made

    def save(self) -> SavedState:
        """Return all that a new instance needs to resume from here."""
        inner = self._operator.save()
        tables = {2 * number: table for number, table in inner.tables.items()}
        filters: list[tuple[bytes, list[int]]] = []
        for each in self._filters:
            head, parts = each.save()
            numbers = [2 * (self._next_table + at) + 1 for at in range(len(parts))]
            self._next_table += len(parts)
            tables.update(zip(numbers, parts, strict=True))
            filters.append((head, numbers))
        head = msgspec.msgpack.encode(_Head(self.latest, self._ports, inner.head, list(inner.tables), filters))
        return SavedState(head, tables)

    def restore(self, saved: SavedState, /) -> None:
        """Resume where the instance was that saved this state."""
        head = msgspec.msgpack.decode(saved.head, type=_Head)
        self.latest = head.latest
        self._ports = head.ports + self._ports[len(head.ports) :]
        self._operator.restore(SavedState(head.operator, {number: saved.tables[2 * number] for number in head.tables}))
        for each, (state, numbers) in zip(self._filters, head.filters, strict=True):
            each.restore(state, [saved.tables[number] for number in numbers])
            self._next_table = max((self._next_table, *((number + 1) // 2 for number in numbers)))
