"""When a component that reads active replicas reads them aligned: while it moves. No IO, no clock.

A follower repeats what the component emits. Where the output depends on the order in which streams were read, it needs
that order and the streams themselves; but an active replica may die at any time, and its stream with it. So from the
first snapshot for the follower on the component reads its inputs aligned
(:class:`.replicas.stream_merging.MergedLogic`), and its output depends on the tuples alone. The
follower does the same.

Alignment delays tuples, so it ends with the move: at the old peer if the move is given up, and at the new one once that
has emitted all that the old one had. The old peer states how far that is
(:class:`.log.frames.LastOrder`). If this does not arrive in time, as the old peer has died, the
new one asks all peers how much of the stream has reached them
(:mod:`~synergy_nb.dataflow.streams.hosting._order_recovery`): nobody depends on more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from synergy_nb.dataflow.deployments import Role
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.dataflow.streams.replicas.ordered_inputs import OrderedInputs
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.component.component import Component


class Alignment:
    """Whether a component reads its inputs aligned, and until when."""

    def __init__(self, component: Component, follower: str) -> None:
        self._component = component
        self._follower = follower  # address of the peer that is about to replace it, or empty
        self.since = 0  # number of the first snapshot from which the follower may start
        # point in its output up to which it repeats that of the component that it has replaced; None if it is not known
        self.repeats: Point | None = None if component.epoch > component.rebuilt else ORIGIN

    @property
    def holds(self) -> bool:
        """Whether the output depends on the tuples of the inputs alone."""
        logic = self._component.logic
        return isinstance(logic, OrderedInputs) or (isinstance(logic, MergedLogic) and logic.aligned)

    @property
    def endless(self) -> bool:
        """Whether it would go on for ever, as nobody has said up to which point the component repeats another one."""
        logic = self._component.logic
        return self.repeats is None and isinstance(logic, MergedLogic) and logic.temporarily_aligned

    @property
    def behind(self) -> bool:
        """Whether the component is aligned only until it has emitted all that the component before it had emitted."""
        logic = self._component.logic
        return isinstance(logic, MergedLogic) and logic.temporarily_aligned and not self._repeated

    @property
    def _repeated(self) -> bool:
        return self.repeats is not None and self._component.log.end.covers(self.repeats)

    def repeat(self, upto: Point) -> None:
        """Set the point up to which the component repeats the output of the component before it."""
        self.repeats = upto
        self.settle()

    def set_follower(self, peer: str) -> None:
        """Set the peer that is about to replace the component, or none."""
        if peer != self._follower:
            self._follower, self.since = peer, self._component.cuts.number + 1
        self.settle()

    def suits(self, peer: str, number: int) -> bool:
        """Whether a peer may start from the snapshot of that number."""
        return peer != self._follower or number >= self.since or not isinstance(self._component.logic, MergedLogic)

    def begin(self) -> None:
        """Align the component before a snapshot if somebody follows it; it is not executing."""
        if self._follower and isinstance(self._component.logic, MergedLogic):
            self._component.logic.align()

    def settle(self) -> None:
        """End the alignment if nobody depends on it any more."""
        component, logic = self._component, self._component.logic
        if not isinstance(logic, MergedLogic) or not logic.aligned:
            return
        if self._repeated and not component.copies and component.role is Role.ACTIVE:
            logic.relax()
