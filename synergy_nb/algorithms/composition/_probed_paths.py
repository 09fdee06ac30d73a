"""Paths of probes through a plan: which are possible, and which of those that meet at a peer are worth extending.

Where probes of one request meet at the same component, only the paths to it differ. A path that is neither faster nor
adds less to φ than one that has been extended already is *merged*: it ends there. Where a request asks for the least
delay, φ does not count. Then the number of probes for an operator is at most the number of its candidates times the
number that each peer chooses, however long the plan is; without merging it would be the number of all paths, which a
budget has to limit.

A peer extends paths as they arrive, without waiting for others. A probe takes as long as the links of its path, so the
first one to arrive is nearly always the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from synergy_nb.algorithms.composition.messages import Probe
from synergy_nb.control.graph import Hop
from synergy_nb.models.projection import Impact, ProjectionConfig, further
from synergy_nb.plan import Plan

EQUAL: Final = 1e-9  # share by which a value has to be below another one to count as smaller


class Extended:
    """The paths that a peer has extended for one request, by the component at which they met.

    Parameters
    ----------
    objective
        Objective of the request: ``delay``, or another, for which φ counts, too.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> plan = source("packets", rate="10 tuples/s", at="a").count(window="1 s").sink("s", at="c", delay="1 s")
    >>> first, slower = ((Hop("source", at, 1.0, 1e6, 0.0, 0.0), Hop("count", "b", 1.0, 1e6, 0.0, seconds))
    ...                  for at, seconds in (("a", 0.01), ("d", 0.02)))
    >>> extended = Extended("delay")
    >>> extended.worthwhile(plan, first), extended.worthwhile(plan, slower)
    (True, False)
    """

    __slots__ = ("_by_delay", "_known")

    def __init__(self, objective: str) -> None:
        self._by_delay = objective == "delay"
        self._known: dict[tuple[object, ...], list[tuple[float, float]]] = {}

    def worthwhile(self, plan: Plan, path: Sequence[Hop]) -> bool:
        """Whether no path that was extended before is at least as fast and adds at most as much to φ; note this one.

        Only paths over the same route are compared, and where routes part, only those with the same component there, as
        a graph needs the same component on both.
        """
        parts = (each.peer for each in path if len(plan.downstream(each.operator)) > 1)
        key = (*(each.operator for each in path), *parts)
        delay = sum(each.processing + each.transmission for each in path)
        phi = 0.0 if self._by_delay else _added(plan, path)
        known = self._known.setdefault(key, [])
        if any(one <= delay * (1.0 + EQUAL) and other <= phi * (1.0 + EQUAL) for one, other in known):
            return False
        known.append((delay, phi))
        return True


def _added(plan: Plan, path: Sequence[Hop]) -> float:
    """Amount that a path adds to φ (equation 2.5)."""
    phi = 0.0
    used: dict[str, float] = {}
    for hop in path:
        load = plan.load(hop.operator)
        used[hop.peer] = used.get(hop.peer, 0.0) + load
        phi += load / max(hop.capacity - used[hop.peer] + load, load) if load else 0.0
    for one, two in pairwise(path):
        if one.peer != two.peer and math.isfinite(two.bandwidth) and two.bandwidth > 0.0:
            phi += plan.bandwidth(one.operator) / two.bandwidth
    return phi


def summed(
    path: Sequence[Hop], impacts: Sequence[Impact], config: ProjectionConfig | None
) -> tuple[tuple[tuple[str, float], ...], list[Impact]]:
    """Return what a peer adds to the delay of each application, and its impacts with those of earlier peers of a path.

    ``path``: hops before this peer.
    """
    before: dict[str, float] = {}
    for name, seconds in (each for hop in path for each in hop.impacts):
        before[name] = before.get(name, 0.0) + seconds
    added = tuple((each.application, each.after - each.before) for each in impacts if each.after > each.before)
    worsening = 0.0 if config is None else config.worsening
    return added, [further(each, before.get(each.application, 0.0), worsening) for each in impacts]


def check_route(plan: Plan, probe: Probe) -> None:
    """Raise ValueError if the path of a probe is no part of a route of the plan."""
    route = (*(hop.operator for hop in probe.path), probe.operator)
    known = all(operator in plan.operators for operator in route)
    if not known or plan.upstream(route[0]) or not all(one in plan.upstream(two) for one, two in pairwise(route)):
        raise ValueError(f"path: {' > '.join(route)}; expected the beginning of a route of the plan, from a source")


def routes_meet(plan: Plan, operator: str) -> bool:
    """Whether more than one route of the plan leads from a source to an operator."""
    while len(upstream := plan.upstream(operator)) == 1:
        operator = upstream[0]
    return len(upstream) > 1
