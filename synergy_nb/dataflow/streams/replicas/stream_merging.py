"""The logic of a component with active replicas: duplicate filters in front of the operator. No IO, no clock.

Each stream replica is an input of its own: the component reads and acknowledges it as any other, and records the order
in which it reads its inputs. A port of the operator reads the merged stream of several inputs. The filters are a part
of the component's logic, and so of its snapshots: a copy resumes with the counters that belong to the points from which
it reads again.

An operator with backups reads its ports *aligned*: it gets the tuples of all of them in the order of their times, and
those before the least of the ports' promises only. So what it emits, and at which positions, depends on the tuples
alone, and its backup needs no record of the order in which it had read the streams, some of which may be lost. Any
other operator does so while it moves (:mod:`~synergy_nb.dataflow.streams.component._alignment`).

An input that is added later begins with a promise that states from when the stream is complete (:attr:`.InOrder.late`).
An input that is gone leaves its filter at the next execution, and the next stream that joins gets its place there.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import polars as pl

from synergy_nb.dataflow.logic import Logic, SavedState
from synergy_nb.dataflow.streams.replicas._combined_states import (
    LogicPart,
    PartHead,
    decoded_head,
    restore_parts,
    save_parts,
)
from synergy_nb.dataflow.streams.replicas._sorted_input import SortedInput, in_order
from synergy_nb.dataflow.streams.replicas._stream_comparison import StreamComparison
from synergy_nb.dataflow.streams.replicas.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation

__all__ = ["MergedLogic", "Reading"]


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """The saved state without its tables: for each part, its own head and the numbers of its tables."""

    latest: int
    aligned: bool
    parts: list[PartHead]


class Reading(enum.Enum):
    """How an operator reads its ports while it does not move."""

    ARRIVING = "arriving"  #: Tuples are read as they arrive.
    SORTED = "sorted"  #: Each port is sorted by itself.
    ALIGNED = "aligned"  #: The tuples of all ports are read in one order, that of their times.


class MergedLogic:
    """An operator with a duplicate filter in front of each port, and a sort where its replicas would not agree."""

    def __init__(
        self,
        operator: Logic,
        ports: Mapping[int, int],  # number of each input to the port of the operator that it belongs to
        # columns that order tuples of equal time, for each port, each with whether it descends; None if the operator
        # always reads tuples as they arrive
        orders: Sequence[Sequence[tuple[str, bool]]] | None = None,
        reading: Reading = Reading.ARRIVING,  # order in which it reads its ports while it does not move
        *,
        # whether it reads its ports aligned at first, as it repeats what another component emits
        aligned: bool = False,
        # whether all ports mean the same to the operator, so that it may read their tuples by one of them
        joined: bool = False,
        compares: bool = False,  # whether streams of replicas are compared, so that one that differs is known
    ) -> None:
        self._operator = operator
        self._ports = dict(ports)
        numbers = sorted(set(ports.values()))
        self._filters = [
            DuplicateFilter(str(number) for number, each in ports.items() if each == port) for port in numbers
        ]
        self._compared = [StreamComparison(each.streams) for each in self._filters] if compares else []
        self._changed = False  # whether inputs may be gone since the last execution
        self._sorted = [SortedInput(orders[number]) for number in numbers] if orders is not None else []
        self._reading = reading
        # whether it reads its ports aligned at present: its output depends on the tuples of its inputs alone, and not
        # on the order in which they arrive
        self.aligned = aligned or reading is Reading.ALIGNED
        self._relaxing = False  # whether it is not aligned any more from the next execution on
        self._joined = joined
        self.latest = START  # greatest event time of all tuples that it has emitted, in µs; `START` before the first
        self.restoring = False  # whether its state is still to be restored, so that `latest` is not known

    @property
    def late(self) -> int:
        """Tuples that the operator dropped as they came after a promise; what the filters drop does not count."""
        return self._operator.late

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of the operator, of the counters, and of the tuples that wait to be sorted."""
        held = sum(each.nbytes for each in self._filters) + sum(each.nbytes for each in self._sorted)
        held += sum(each.nbytes for each in self._compared)
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
    def differing(self) -> dict[int, tuple[int, int]]:
        """Inputs whose streams differ from others: intervals in which it was in the minority, and without a majority.

        Empty unless streams are compared; any thread may ask.
        """
        found: dict[int, tuple[int, int]] = {}
        for each in self._compared:
            minority, doubtful = each.minority, each.doubtful
            found |= {int(name): (minority.get(name, 0), doubtful.get(name, 0)) for name in minority | doubtful}
        return found

    @property
    def complete(self) -> frozenset[int]:
        """Numbers of the inputs that have every tuple that has not passed yet; any thread may ask."""
        return frozenset(int(name) for each in self._filters for name in each.streams if each.is_complete(name))

    @property
    def columns(self) -> int:
        """Number of streams for which the filters have room, over all ports."""
        return sum(each.columns for each in self._filters)

    @property
    def temporarily_aligned(self) -> bool:
        """Whether it reads its ports aligned only at present, and will read them otherwise once it does not move."""
        return self.aligned and self._reading is not Reading.ALIGNED

    @property
    def _sorts(self) -> bool:
        return self._reading is not Reading.ARRIVING

    def await_state(self) -> None:
        """Note that a state is going to be restored."""
        self.restoring = True

    def align(self) -> None:
        """Read the ports aligned from here on; only while nothing is executed."""
        self._relaxing = False
        if self.aligned or not self._sorted:
            return
        self.aligned = True
        for merged, held in zip(self._filters, () if self._sorts else self._sorted, strict=not self._sorts):
            held.begin(merged.promise, merged.passed)

    def relax(self) -> None:
        """Read the ports as while it does not move, from the next execution on; any thread may execute."""
        self._relaxing = self._reading is not Reading.ALIGNED

    def set_ports(self, ports: Mapping[int, int]) -> None:
        """Change the inputs: number of each one that is there from now on to its port; any thread may execute."""
        self._ports, self._changed = dict(ports), True

    def _leave(self) -> None:
        """Remove the streams of inputs that are gone from their filters, in the thread that executes."""
        self._changed = False
        present = set(map(str, self._ports))
        for number, each in enumerate(self._filters):
            for name in set(each.streams) - present:
                each.leave(name)
                if self._compared:
                    self._compared[number].leave(name)

    def incomplete(self, inputs: Collection[int]) -> int | None:
        """Return a port that would lose tuples if it read only the given inputs; None if there is none.

        It would, if none of these inputs contains every tuple that has not passed its filter yet.
        """
        for port, merged in enumerate(self._filters):
            names = [str(number) for number in inputs if self._ports.get(number) == port]
            if merged.promise < END and not any(merged.is_complete(name) for name in names):
                return port
        return None

    def needs(self, port: int, item: Item, /) -> float:
        """Estimate the bytes that processing an item may need in addition to the state."""
        number = self._ports[port]
        held = self._sorted if self.aligned else self._sorted[number : number + 1] if self._sorts else []
        return self._operator.needs(number, item) + sum(each.needs(item) for each in held)

    def execute(self, port: int, item: Item, /) -> Iterator[Item]:
        """Process the part of an item of an input that the filter passes, and yield its output piece by piece."""
        if self._changed:
            self._leave()
        if self._relaxing:
            self._relaxing = self.aligned = False
            yield from self._executed(self._rest(item.born))
        number = self._ports[port]
        merged, name = self._filters[number], str(port)
        if name not in merged.streams:
            begins = item.time if isinstance(item, Punctuation) else START
            merged.join(name, begins)
            if self._compared:
                self._compared[number].join(name, begins)
        if self._compared:
            self._compared[number].receive(name, item)
        passed = merged.receive(name, item)
        if passed is None:
            return
        yield from self._executed(self._given(number, passed))

    def _executed(self, given: Iterable[tuple[int, Item]]) -> Iterator[Item]:
        """Pass items to the operator, by its ports, and yield its output."""
        for at, each in given:
            for made in self._operator.execute(at, each):
                if isinstance(made, Batch):
                    greatest = made.table.get_column("time").cast(pl.Int64).max()
                    self.latest = max(self.latest, int(greatest))  # type: ignore[arg-type]
                yield made

    def _given(self, number: int, passed: Item) -> Iterable[tuple[int, Item]]:
        """What the operator reads next, and by which port."""
        if not (self._sorts or self.aligned):
            return [(number, passed)]
        if isinstance(passed, Batch) or not self.aligned:
            return [(number, each) for each in self._sorted[number].receive(passed)]
        promise = Punctuation(min(each.promise for each in self._filters), passed.position, passed.born)
        return in_order([held.receive(promise) for held in self._sorted], joined=self._joined)

    def _rest(self, born: float) -> list[tuple[int, Item]]:
        """What the operator has not read yet because it read its ports aligned."""
        released: list[list[Item]] = []
        for merged, held in zip(self._filters, self._sorted, strict=True):
            found = held.receive(Punctuation(merged.promise, 0, born))
            released.append(found if self._sorts else [*found, *held.release()])
        return in_order(released, joined=self._joined)

    @property
    def _parts(self) -> list[LogicPart]:
        return [self._operator, *self._filters, *self._sorted]

    def save(self) -> SavedState:
        """Return all that a new instance needs to resume from here."""
        heads, tables = save_parts(self._parts)
        return SavedState(msgspec.msgpack.encode(_Head(self.latest, self.aligned, heads)), tables)

    def restore(self, saved: SavedState, /) -> None:
        """Resume where the instance was that saved this state.

        Raises ``ValueError`` if it is not a state of this operator and its filters.
        """
        head = decoded_head(saved.head, _Head, "merged streams")
        if self.aligned and not head.aligned:
            raise ValueError("saved state: of streams read as they arrived; expected one that was made for a follower")
        restore_parts(self._parts, head.parts, saved.tables)
        if self._compared:
            self._compared = [StreamComparison(each.streams, each.after) for each in self._filters]
        self.latest, self.aligned, self._changed = head.latest, head.aligned, True
        self.restoring = False
