"""Counts of tuples dropped because their deadline has passed, and of the results lost by that. No IO, no clock.

Theory of operation
-------------------
Chapter 3 counts each tuple that is later than the limit as missed, and lets the local schedulers drop such tuples: a
dropped tuple never reaches the receiver. So the losses have to be reported to the sink. Each chunk carries the
cumulative losses of the component that made it and of all components upstream. The counts only grow, and of two counts
of one component the larger is valid, so a chunk may arrive twice or be cut; the end of the stream carries the last
counts. Snapshots contain the component's own counts, so a component that takes over continues them.

A tuple dropped before an operator is not one lost result at the sink if operators make more or fewer tuples than they
consume. So a dropped tuple counts as the number of results that similar tuples have led to, by the selectivity that was
measured for each operator.

Examples
--------
>>> losses = Losses("filter")
>>> losses.count(consumed=10, dropped=4)
>>> losses.carried(made=3)
(Loss(operator='filter', dropped=4, consumed=10, made=3),)
"""

from __future__ import annotations

from collections.abc import Iterable

from synergy_nb.dataflow.streams.log.values import Chunk, Loss, SnapshotCut
from synergy_nb.plan import Plan

__all__ = ["Losses", "lost_results"]


class Losses:
    """Losses of a component and of those upstream of it since the application began.

    ``consumed``, ``dropped``: numbers of tuples that the component has consumed, and has dropped of these.
    """

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.consumed = self.dropped = 0
        self.thinned = False  # whether any tuple was dropped, here or upstream
        self._before: dict[str, Loss] = {}

    def begin(self, cut: SnapshotCut) -> None:
        """Start from a cut."""
        self.consumed, self.dropped = cut.consumed, cut.dropped
        self.thinned = self.dropped > 0

    def count(self, consumed: int, dropped: int) -> None:
        """Count tuples that the component has consumed, and those of them that it has dropped."""
        self.consumed += consumed
        self.dropped += dropped
        self.thinned = self.thinned or dropped > 0

    def read(self, chunks: Iterable[Chunk]) -> None:
        """Record the upstream losses that chunks carry when the component reads them."""
        for chunk in chunks:
            self.add(chunk.losses)

    def add(self, losses: Iterable[Loss]) -> None:
        """Record upstream losses."""
        for loss in losses:
            known = self._before.get(loss.operator)
            if known is None or (loss.consumed, loss.made) > (known.consumed, known.made):
                self._before[loss.operator] = loss
                self.thinned = True

    def carried(self, made: int) -> tuple[Loss, ...]:
        """Return the losses that a chunk carries once the component has made ``made`` tuples; empty if none."""
        if not self.thinned:
            return ()
        return (*self._before.values(), Loss(self.operator, self.dropped, self.consumed, made))


def lost_results(losses: Iterable[Loss], plan: Plan, sink: str) -> float:
    """Return the number of results that a sink lost because of dropped tuples.

    ``losses``: losses of all components, as the sink's last chunk carries them; ``sink``: operator id of the sink.
    """
    known = {loss.operator: loss for loss in losses}
    results: dict[str, float] = {}  # results of one tuple that an operator consumes

    def selectivity(operator: str) -> float:
        loss = known.get(operator)
        if loss is not None and loss.consumed > loss.dropped:
            return loss.made / (loss.consumed - loss.dropped)
        inputs = plan.input_rate(operator)
        return plan.rate(operator) / inputs if inputs else 1.0

    for name in reversed(list(plan.operators)):
        downstream = sum(results[down] for down in plan.downstream(name))
        results[name] = (1.0 if name == sink else 0.0) if name in plan.sinks else selectivity(name) * downstream
    return sum(loss.dropped * results.get(loss.operator, 0.0) for loss in known.values())
