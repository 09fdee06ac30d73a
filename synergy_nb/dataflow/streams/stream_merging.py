"""The logic of a component with active replicas: duplicate filters in front of the operator. No IO, no clock.

Each stream replica is an input of its own: the component reads and acknowledges it as any other, and records the order
in which it reads its inputs. A port of the operator reads the merged stream of several inputs. The filters are a part
of the component's logic, and so of its snapshots: a copy resumes with the counters that belong to the points from which
it reads again.

An input that is added later begins with a promise that states from when the stream is complete (:attr:`.InOrder.late`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.streams.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.streams.execution import Logic
from synergy_nb.dataflow.streams.sorted_input import SortedInput
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation
from synergy_nb.plan.active_replicas import original
from synergy_nb.plan.replica_agreement import agreement

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.component import Component
    from synergy_nb.plan import Plan

__all__ = ["MergedLogic", "merged"]


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The saved state without its tables: for each part, its own head and the numbers of its tables."""

    latest: int
    ports: list[int]
    parts: list[tuple[bytes, list[int]]]


class _Part(Protocol):
    """A part of the logic that has a state: the operator, a filter, or a sorted input."""

    def save(self) -> SavedState: ...

    def restore(self, saved: SavedState, /) -> None: ...


def merged(operator: Logic, component: Component, plan: Plan) -> Logic:
    """Put duplicate filters in front of an operator, if its component is an active replica or reads active replicas.

    Parameters
    ----------
    operator
        Logic of the operator.
    component
        Component that executes it.
    plan
        Plan of the component, expanded by replicas.
    """
    if not component.feed_ports and not component.replica_of:
        return operator
    name = component.operator if component.operator in plan.operators else original(component.operator)
    found = agreement(plan, name)
    order = found.order if found.sorts else None
    return MergedLogic(operator, component.feed_ports or range(len(component.feeds)), order)


class MergedLogic:
    """An operator with a duplicate filter in front of each port, and a sort where its replicas would not agree.

    Parameters
    ----------
    operator
        Logic of the operator.
    ports
        Port of the operator that each input belongs to.
    order
        Columns that order tuples of equal time, each with whether it descends, if the operator reads its ports sorted;
        None if it reads tuples as they arrive.

    Attributes
    ----------
    latest : int
        Greatest event time of all tuples that it has emitted, in µs; ``START`` before the first.
    restoring : bool
        Whether its state is still to be restored, so that ``latest`` is not known.
    """

    def __init__(self, operator: Logic, ports: Sequence[int], order: Sequence[tuple[str, bool]] | None = None) -> None:
        self._operator = operator
        self._ports = list(ports)
        numbers = sorted(set(ports))
        self._filters = [DuplicateFilter(str(at) for at, each in enumerate(ports) if each == port) for port in numbers]
        self._sorted = [SortedInput(order) for _ in numbers] if order is not None else []
        self.latest = START
        self.restoring = False

    @property
    def late(self) -> int:
        """Tuples that the operator dropped as they came after a promise; what the filters drop does not count."""
        return self._operator.late

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of the operator, of the counters, and of the tuples that wait to be sorted."""
        held = sum(each.nbytes for each in self._filters) + sum(each.nbytes for each in self._sorted)
        return self._operator.state_bytes + held

    @property
    def weights(self) -> dict[int, float]:
        """Number of each input to its weight (V-B) since this instance began; thread-safe."""
        return {int(name): weight for each in self._filters for name, weight in each.weights.items()}

    @property
    def firsts(self) -> dict[int, int]:
        """Number of each input to the number of tuples that it delivered first, since this instance began."""
        return {int(name): count for each in self._filters for name, count in each.firsts.items()}

    @property
    def complete(self) -> frozenset[int]:
        """Numbers of the inputs that have every tuple that has not passed yet; any thread may ask."""
        return frozenset(int(name) for each in self._filters for name in each.streams if each.is_complete(name))

    def set_ports(self, ports: Sequence[int]) -> None:
        """Add inputs; ``ports`` has the port of every input, those that are read already first."""
        self._ports += ports[len(self._ports) :]

    def incomplete(self, inputs: Collection[int]) -> int | None:
        """Return a port that would lose tuples if it read only the given inputs; None if there is none.

        It would, if none of these inputs contains every tuple that has not passed its filter yet.
        """
        for port, merged in enumerate(self._filters):
            names = [str(number) for number in inputs if self._ports[number] == port]
            if merged.promise < END and not any(merged.is_complete(name) for name in names):
                return port
        return None

    def needs(self, port: int, item: Item, /) -> float:
        """Estimate the bytes that processing an item may need in addition to the state."""
        number = self._ports[port]
        return self._operator.needs(number, item) + (self._sorted[number].needs(item) if self._sorted else 0.0)

    def execute(self, port: int, item: Item, /) -> Iterator[Item]:
        """Process the part of an item of an input that the filter passes, and yield its output piece by piece."""
        number = self._ports[port]
        merged, name = self._filters[number], str(port)
        if name not in merged.streams:
            merged.join(name, item.time if isinstance(item, Punctuation) else START)
        passed = merged.receive(name, item)
        if passed is None:
            return
        for each in self._sorted[number].receive(passed) if self._sorted else (passed,):
            for made in self._operator.execute(number, each):
                if isinstance(made, Batch):
                    greatest = made.table.get_column("time").to_physical().max()
                    self.latest = max(self.latest, int(greatest))  # type: ignore[arg-type]
                yield made

    @property
    def _parts(self) -> list[_Part]:
        return [self._operator, *self._filters, *self._sorted]

    def save(self) -> SavedState:
        """Return all that a new instance needs to resume from here."""
        saved = [part.save() for part in self._parts]
        tables = {
            number * len(saved) + at: table for at, each in enumerate(saved) for number, table in each.tables.items()
        }
        head = _Head(self.latest, self._ports, [(each.head, list(each.tables)) for each in saved])
        return SavedState(msgspec.msgpack.encode(head), tables)

    def restore(self, saved: SavedState, /) -> None:
        """Resume where the instance was that saved this state.

        Raises
        ------
        ValueError
            If it is not a state of this operator and its filters.
        """
        parts = self._parts
        try:
            head = msgspec.msgpack.decode(saved.head, type=_Head)
        except msgspec.MsgspecError as error:
            raise ValueError(f"saved state: {saved.head[:16]!r}; expected that of merged streams: {error}") from None
        if len(head.parts) != len(parts):
            raise ValueError(f"saved state: {len(head.parts)} parts; expected {len(parts)}")
        self.latest = head.latest
        self._ports = head.ports + self._ports[len(head.ports) :]
        for at, (part, (state, numbers)) in enumerate(zip(parts, head.parts, strict=True)):
            part.restore(SavedState(state, {number: saved.tables[number * len(parts) + at] for number in numbers}))
        self.restoring = False
