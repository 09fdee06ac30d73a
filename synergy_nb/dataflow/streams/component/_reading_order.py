"""The order in which one component reads its inputs and drops tuples: recorded or prescribed. No IO, no clock.

Theory of operation
-------------------
The output of a component may depend on more than its inputs: on the order in which it reads several of them, and on
the tuples that it drops because their deadline has passed. No other peer can derive these decisions. So the component
records them as :class:`.log.values.OrderRun` values, and each chunk that it makes carries the runs
since the previous chunk. A component that replaces it is prescribed the runs that anybody depends on: it reads and
drops as they say, and decides freely from there on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from synergy_nb.dataflow.streams.log.merge import InOrder
from synergy_nb.dataflow.streams.log.values import (
    ORIGIN,
    Chunk,
    ComponentStream,
    Determinant,
    OrderRun,
    Point,
    SnapshotCut,
)
from synergy_nb.dataflow.tuples import Batch

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.component.execution import Work


class ReadingOrder:
    """The runs that a component has read since its last chunk, and those that it still has to read."""

    def __init__(self) -> None:
        self.runs: list[OrderRun] = []  # parts of its inputs that it has read since its last chunk, in order
        # decisions of other components on which the input since its last chunk depends
        self.causes: list[Determinant] = []
        self.prescribed: deque[OrderRun] = deque()  # parts of its inputs that it has to read next
        self.known = ORIGIN  # point in its output up to which its decisions are known
        self.free = True  # whether it may decide for itself once nothing is prescribed
        self.complete = False  # whether the component that it replaces has ended and has told its whole order
        self.made: deque[Determinant] = deque()  # decisions of this component that no snapshot on all backups covers

    def begin(self, cut: SnapshotCut) -> None:
        """Start from a cut."""
        self.known = cut.end
        self.runs, self.causes = list(cut.order), list(cut.causes)

    # -- recorded ---------------------------------------------------------------------------------------------------

    def record(self, work: Work, point: Point) -> None:
        """Record that work was executed, which has read one input from a point on."""
        if work.dropped:
            position = max(chunk.end.position for chunk in work.chunks)
            point = Point(max(position, point.position), point.until)
            self._add(OrderRun(work.port, point, True))
        for item in work.items:
            here = Point(item.end_position, point.until) if isinstance(item, Batch) else Point(item.position, item.time)
            point = point.joined(here)
            self._add(OrderRun(work.port, point))

    def _add(self, run: OrderRun) -> None:
        last = self.runs[-1] if self.runs else None
        same = last is not None and (last.port, last.dropped) == (run.port, run.dropped)
        if last is not None and same and last.upto.until == run.upto.until:
            self.runs[-1] = run
        else:
            self.runs.append(run)

    def carry(self, chunks: Sequence[Chunk], stream: ComponentStream | None, stable: Point) -> None:
        """Attach the recorded runs to new chunks.

        ``chunks``: chunks that the component has made; the first one carries all runs; ``stream``: stream of the
        component if the chunks are to carry its decisions; None if nobody needs these; ``stable``: point in that stream
        that a snapshot on all backups covers.
        """
        for chunk in chunks if stream is not None or self.causes else ():
            own: tuple[Determinant, ...] = ()
            if stream is not None:
                own = (Determinant(stream, chunk.start, chunk.end, tuple(self.runs), stable),)
                self.made += own
            chunk.determinants = (*self.causes, *own)
            self.runs, self.causes = [], []
        if chunks and self.runs:
            self.runs = []
        while self.made and self.made[0].end <= stable:
            self.made.popleft()

    # -- prescribed ----------------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Decide nothing until the order is known."""
        self.free = False

    def decide(self) -> None:
        """Decide freely once nothing is prescribed."""
        self.free = True

    def complete_order(self) -> None:
        """Decide freely after the prescribed order, which is all that the replaced component has decided."""
        self.free = self.complete = True

    def next_run(self, ports: Mapping[int, InOrder]) -> OrderRun | None:
        """Return the next part of the prescribed order that has not been read yet."""
        while self.prescribed:
            run = self.prescribed[0]
            if run.port not in ports or not ports[run.port].consumed.covers(run.upto):
                return run  # the deployment that adds an input may not have arrived here yet
            self.prescribed.popleft()
        return None

    def prescribe(self, found: Iterable[Determinant]) -> str:
        """Read inputs in the order of determinants, then freely; return what is unknown of that order, or ''."""
        rest = sorted(found, key=lambda one: (one.end, one.start))
        while rest:
            known, later = self.known, list[Determinant]()
            for each in rest:
                if each.end < self.known or (each.end == self.known and each.start < each.end):
                    continue
                if each.start.position > self.known.position:
                    later.append(each)  # another epoch has cut the same tuples into other chunks: one may lead here
                    continue
                self.prescribed.extend(each.runs)
                self.known = each.end
            if later and self.known == known:
                start = later[0].start.position
                return f"the order of inputs from position {self.known.position} to {start} is not known"
            rest = later
        return ""
