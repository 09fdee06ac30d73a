"""Candidates for a component that leaves a peer: their order, and the projection of one (sections 3.4.2 and 3.4.4).

The peer with a hot spot asks the peers that offer the component, the least loaded first. A candidate adds the predicted
rate of the newcomer to its own total rate, and accepts if then each of its executions *and* the newcomer have slack
(phase 2). It reserves capacity for accepted executions until they arrive, so that two hot spots do not get the same
capacity. A reservation expires, as the peer that asked may have died.

The dissertation leaves open:

========================  ==============================================================================================
communication times       those of the hops to and from the target replace those of the peer that asks
                          (:func:`allowed_at`); otherwise a target with long delays would be accepted
the newcomer's times      the target's own line for that component if it has one, else the line of the peer that asks,
                          scaled to the speed of the target (:func:`at_speed`)
load                      the predicted one if the peer's regression is trusted, else the measured one; it only
                          orders the candidates, and the projection decides
slack that is required    more than 0; with ``margin`` more than that, so that noise does not move a component again
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

from synergy_nb.algorithms.migration._selection import Execution, slacks
from synergy_nb.models.slack import PredictedPaths
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.overlay.load_levels import SPEED, reported_loads

Component = TypeVar("Component", bound=Hashable)


class Candidate(NamedTuple):
    """A peer that offers a component according to the directory."""

    address: str
    # predicted load of the peer, its measured load if it predicts none, or its promised load if it has measured none;
    # infinite if it has published no load
    load: float
    speed: float = 1.0  # speed of the peer: the work that it does in a second, in seconds at a peer of speed 1


def candidates(entries: Iterable[Entry]) -> list[Candidate]:
    """List the peers that offer a component, the least loaded first.

    Parameters
    ----------
    entries
        Entries of the component, as :meth:`.Directory.lookup` returns them for its directory name.

    Examples
    --------
    >>> from synergy_nb.overlay.directory_entries import PeerLoad
    >>> loads = {"p": PeerLoad(0.2, measured=3.0), "q": PeerLoad(0.5, 0.9, predicted=0.4), "r": None}
    >>> [each[:2] for each in candidates(Entry("f", at, "component", {}, 30.0, load) for at, load in loads.items())]
    [('q', 0.4), ('p', 3.0), ('r', inf)]
    """
    entries = tuple(entries)
    loads = reported_loads(entries)
    speeds = {entry.host: float(entry.attributes.get(SPEED, 1.0)) for entry in entries}
    found = [Candidate(host, loads[host].load if host in loads else math.inf, speed) for host, speed in speeds.items()]
    return sorted(found, key=lambda each: (each.load, each.address))


def least_loaded(candidates: Iterable[Candidate], excluded: Collection[str] = ()) -> list[str]:
    """Sort candidates into the order in which they are asked: by load, and by address if loads are equal.

    Parameters
    ----------
    candidates
        Nodes that offer the component.
    excluded
        Addresses that are not asked: the peer itself, peers that have refused, peers that the component has just left.

    Examples
    --------
    >>> least_loaded([Candidate("p", 3.0), Candidate("q", 0.5), Candidate("r", 0.5)], excluded={"q"})
    ['r', 'p']
    """
    asked = (each for each in candidates if each.address not in excluded)
    ranked = sorted(asked, key=lambda each: (each.load, each.address))
    return [each.address for each in ranked]


class Projection(NamedTuple):
    """The projected state of a peer if an execution moves to it."""

    accepted: bool  # whether the slack of all executions exceeds the margin
    rate: float  # total predicted rate with the newcomer, tuples/s
    slacks: Mapping[str, float]  # name of each execution, the newcomer last, to its projected slack, seconds

    @property
    def tightest(self) -> str:
        """Name of the execution with the least slack."""
        return min(self.slacks, key=lambda name: (self.slacks[name], name))


def project(running: Sequence[Execution], newcomer: Execution, margin: float = 0.0) -> Projection:
    """Project the state of a peer if an execution moves to it (phase 2 of section 3.4.4).

    ``running``: executions of the peer, including those with a reservation. The newcomer replaces one of the same name;
    ``newcomer``: the moved execution, with its rate, line and allowed time at the peer; ``margin``: slack that each
    execution must exceed, seconds.
    """
    together = [*(each for each in running if each.name != newcomer.name), newcomer]
    found = slacks(together)
    return Projection(all(each > margin for each in found.values()), math.fsum(each.rate for each in together), found)


def at_speed(intercept: float, slope: float, factor: float) -> tuple[float, float]:
    """Return the line of the execution time at a peer that is ``factor`` times as fast.

    Each tuple takes the factor less, and the same rate is that much less load: t'(r) = t(r / factor) / factor.

    Parameters
    ----------
    intercept, slope
        Line t(r) of the execution time over the total rate: seconds, and seconds per tuple/s.
    factor
        Speed of the other peer, relative to that of the line.

    Examples
    --------
    >>> at_speed(0.02, 0.001, 2.0)
    (0.01, 0.00025)
    """
    return intercept / factor, slope / factor**2


def allowed_at(
    component: Component,
    hops: Mapping[tuple[Component, Component], float],
    times: Mapping[Component, float],
    limits: Mapping[Component, float],
    departed: Mapping[Component, float],
) -> float:
    """Compute the execution time that a limit allows a component at another peer, seconds.

    Parameters
    ----------
    component
        The component that would move.
    hops
        (producer, consumer) to the mean communication time, seconds; for the component, the times of the other peer.
    times
        Component to its predicted execution time, seconds.
    limits
        Sink to its limit, seconds.
    departed
        Each producer of the component to the mean age of tuples when they leave it, seconds; empty for a source.

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
    """The capacity that a peer has reserved for executions which will move to it.

    Parameters
    ----------
    seconds
        Time after which a reservation expires, seconds.

    Examples
    --------
    >>> reserved = Reservations(seconds=10.0)
    >>> reserved.reserve(Execution("new", 180, 0.002, 3e-5, 0.022), now=0.0)
    >>> [len(reserved.at(seconds)) for seconds in (0.0, 9.9, 10.0)]
    [1, 1, 0]
    """

    __slots__ = ("_held", "seconds")

    def __init__(self, seconds: float) -> None:
        if not 0.0 < seconds < math.inf:
            raise ValueError(f"seconds: {seconds}; expected a positive number of seconds")
        self.seconds = seconds
        self._held: dict[str, tuple[Execution, float]] = {}

    def reserve(self, execution: Execution, now: float) -> None:
        """Reserve capacity for an execution from ``now`` on; replaces an earlier reservation of the execution."""
        self._held[execution.name] = execution, now + self.seconds

    def release(self, name: str) -> None:
        """End the reservation of an execution that has arrived, or will not arrive."""
        self._held.pop(name, None)

    def at(self, now: float) -> list[Execution]:
        """Executions with a reservation at a time; expired reservations are deleted."""
        self._held = {name: each for name, each in self._held.items() if each[1] > now}
        return [execution for execution, _ in self._held.values()]
