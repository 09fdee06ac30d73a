"""How many tuples an application drops as their deadline has passed, and how many results that costs. No IO, no clock.

Theory of operation
-------------------
Chapter 3 counts as missed each tuple that is later than the limit, and has the local schedulers drop these: what has
been dropped never reaches the receiver. So a sink has to be told. Each chunk carries what the component that made it
and those before it have dropped so far. The numbers only grow, and of two of one component the larger counts, so a
chunk may come twice or be cut; the end of the stream carries the last. Snapshots hold the component's own, so whoever
takes over counts on from there.

Tuples that are dropped before an operator and results at the sink are not the same thing, where operators make more or
fewer tuples than they take. A tuple that was dropped counts as the results that others like it have become: for each
operator as many as were measured there.

Examples
--------
>>> losses = Losses("filter")
>>> losses.count(taken=10, dropped=4)
>>> losses.carried(made=3)
(Loss(operator='filter', dropped=4, taken=10, made=3),)
"""

from __future__ import annotations

from collections.abc import Iterable

from synergy_nb.dataflow.streams.values import Chunk, Cut, Loss
from synergy_nb.plan import Plan

__all__ = ["Losses", "lost_results"]


class Losses:
    """What a component and those before it have dropped since the application began.

    Parameters
    ----------
    operator
        Operator of the component.

    Attributes
    ----------
    taken, dropped : int
        Tuples that the component has taken, and those of them that it has dropped.
    thinned : bool
        Whether anything was dropped, here or before.
    """

    def __init__(self, operator: str) -> None:
        self.operator = operator
        self.taken = self.dropped = 0
        self.thinned = False
        self._before: dict[str, Loss] = {}

    def begin(self, cut: Cut) -> None:
        """Go on from a cut."""
        self.taken, self.dropped = cut.taken, cut.dropped
        self.thinned = self.dropped > 0

    def count(self, taken: int, dropped: int) -> None:
        """The component has taken tuples, and dropped some of them."""
        self.taken += taken
        self.dropped += dropped
        self.thinned = self.thinned or dropped > 0

    def read(self, chunks: Iterable[Chunk]) -> None:
        """The component has read chunks: take what components before it had dropped by then."""
        for chunk in chunks:
            for loss in chunk.losses:
                known = self._before.get(loss.operator)
                if known is None or (loss.taken, loss.made) > (known.taken, known.made):
                    self._before[loss.operator] = loss
                    self.thinned = True

    def carried(self, made: int) -> tuple[Loss, ...]:
        """What a chunk has to carry when the component has made so many tuples; nothing if nothing was dropped."""
        if not self.thinned:
            return ()
        return (*self._before.values(), Loss(self.operator, self.dropped, self.taken, made))


def lost_results(losses: Iterable[Loss], plan: Plan, sink: str) -> float:
    """How many results at a sink the tuples would have become that were dropped.

    Parameters
    ----------
    losses
        Losses of all components, as of the sink's last chunk.
    plan
        Plan of the application.
    sink
        Operator id of the sink.
    """
    known = {loss.operator: loss for loss in losses}
    given: dict[str, float] = {}  # results of one tuple that an operator takes

    def selectivity(operator: str) -> float:
        loss = known.get(operator)
        if loss is not None and loss.taken > loss.dropped:
            return loss.made / (loss.taken - loss.dropped)
        taken = plan.input_rate(operator)
        return plan.rate(operator) / taken if taken else 1.0

    for name in reversed(list(plan.operators)):
        downstream = sum(given[down] for down in plan.downstream(name))
        given[name] = (1.0 if name == sink else 0.0) if name in plan.sinks else selectivity(name) * downstream
    return sum(loss.dropped * given.get(loss.operator, 0.0) for loss in known.values())
