"""Where a component execution goes: the order of candidates, and what a candidate projects (sections 3.4.2 and 3.4.4).

The node with a hot spot asks the nodes that offer the component, the least loaded first. A node that is asked adds the
predicted rate of the newcomer to its own, and accepts if then every execution there *and* the newcomer have slack
(phase 2). What it has accepted and does not execute yet is reserved, so that two hot spots that ask for the same room
do not both get it; a reservation ends by itself, as the node that asked may have died.

The dissertation leaves open:

========================  ==============================================================================================
communication times       those of the hops to and from the target replace those of the source (:func:`allowed_at`):
                          a target that is far away is accepted otherwise
the newcomer's times      the target's own line of that component if it has one, else the source's, scaled by the
                          ratio of their capacities (:meth:`.ExecutionTimes.scaled`)
load                      the predicted one where the node's regression is trusted, else the measured one; it only
                          orders the candidates, and the projection decides
how much slack is left    more than 0; ``margin`` asks for more, so that noise does not move a component straight on
========================  ==============================================================================================

Examples
--------
>>> newcomer = Execution("new", 180, 0.002, 3e-5, allowed=0.022)
>>> found = project([Execution("z", 400, 0.002, 2e-5, 0.016)], newcomer)
>>> found.accepted, {name: round(slack, 4) for name, slack in found.slacks.items()}
(True, {'z': 0.0024, 'new': 0.0026})
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from synergy_nb.algorithms.migration.selection import Execution, slacks
from synergy_nb.models.slack import PredictedPaths

__all__ = ["Candidate", "Projection", "Reservations", "allowed_at", "least_loaded", "project"]

Component = TypeVar("Component", bound=Hashable)


class Candidate(NamedTuple):
    """A node that offers a component, as the directory has it.

    Parameters
    ----------
    address
        Address of the peer.
    load
        Predicted load of the peer, or its measured one where it predicts none.
    """

    address: str
    load: float


def least_loaded(candidates: Iterable[Candidate], excluded: Collection[str] = ()) -> list[str]:
    """Addresses of candidates in the order in which they are asked: by load, of equal loads by address.

    Parameters
    ----------
    candidates
        Nodes that offer the component.
    excluded
        Addresses that are not asked: the node itself, those that have refused, those that the component has just left.

    Examples
    --------
    >>> least_loaded([Candidate("p", 3.0), Candidate("q", 0.5), Candidate("r", 0.5)], excluded={"q"})
    ['r', 'p']
    """
    ranked = sorted((each for each in candidates if each.address not in excluded), key=lambda each: each[::-1])
    return [each.address for each in ranked]


class Projection(NamedTuple):
    """What a node projects when it is asked to take an execution over.

    Parameters
    ----------
    accepted
        Whether all have more than the margin of slack.
    rate
        Total predicted rate with the newcomer, tuples/s.
    slacks
        Name of each execution, the newcomer last, to its projected slack, seconds.
    """

    accepted: bool
    rate: float
    slacks: Mapping[str, float]

    @property
    def tightest(self) -> str:
        """Name of the execution with the least slack."""
        return min(self.slacks, key=lambda name: (self.slacks[name], name))


def project(running: Sequence[Execution], newcomer: Execution, margin: float = 0.0) -> Projection:
    """Project that a node takes an execution over (phase 2 of section 3.4.4).

    Parameters
    ----------
    running
        Executions of the node, those that it has reserved room for among them. One with the name of the newcomer is
        replaced by it.
    newcomer
        The execution, with the rate, the line and the allowed time that it would have there.
    margin
        Seconds of slack that each has to have more than.
    """
    together = [*(each for each in running if each.name != newcomer.name), newcomer]
    found = slacks(together)
    return Projection(all(each > margin for each in found.values()), math.fsum(each.rate for each in together), found)


def allowed_at(
    component: Component,
    hops: Mapping[tuple[Component, Component], float],
    times: Mapping[Component, float],
    limits: Mapping[Component, float],
    departed: Mapping[Component, float],
) -> float:
    """Execution time that a limit allows a component at another node, seconds.

    Parameters
    ----------
    component
        The component that would move.
    hops
        (producer, consumer) to the mean communication time, seconds: to and from the component those of the other node.
    times
        Component to its predicted execution time, seconds.
    limits
        Sink to its limit, seconds.
    departed
        Each producer of the component to the seconds that tuples have been under way when they leave it; empty for a
        source.

    Examples
    --------
    A target whose hops take 10 ms longer leaves 10 ms less:

    >>> given = {"u": 0.01, "c": 0.02, "d": 0.01}, {"d": 0.1}, {"u": 0.01}
    >>> [round(allowed_at("c", {("u", "c"): hop, ("c", "d"): 0.02}, *given), 3) for hop in (0.01, 0.02)]
    [0.05, 0.04]
    """
    elapsed = max((seconds + hops[producer, component] for producer, seconds in departed.items()), default=0.0)
    return float(PredictedPaths(hops, times, limits).allowed(component, elapsed))


class Reservations:
    """Room that a node has promised to executions that are on their way to it.

    Examples
    --------
    >>> reserved = Reservations(seconds=10.0)
    >>> reserved.hold(Execution("new", 180, 0.002, 3e-5, 0.022), now=0.0)
    >>> [len(reserved.at(seconds)) for seconds in (0.0, 9.9, 10.0)]
    [1, 1, 0]
    """

    __slots__ = ("_held", "seconds")

    def __init__(self, seconds: float) -> None:
        if not 0.0 < seconds < math.inf:
            raise ValueError(f"seconds: {seconds}; expected a positive number of seconds")
        self.seconds = seconds
        self._held: dict[str, tuple[Execution, float]] = {}

    def hold(self, execution: Execution, now: float) -> None:
        """Reserve room for an execution from ``now`` on; once more replaces its reservation."""
        self._held[execution.name] = execution, now + self.seconds

    def release(self, name: str) -> None:
        """Give the room of an execution back: it has come, or will not come."""
        self._held.pop(name, None)

    def at(self, now: float) -> list[Execution]:
        """Executions with a reservation at a time; what has expired is forgotten."""
        self._held = {name: each for name, each in self._held.items() if each[1] > now}
        return [execution for execution, _ in self._held.values()]
