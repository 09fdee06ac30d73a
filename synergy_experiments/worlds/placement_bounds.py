"""An upper bound of the feasible set of every placement, tighter than the ideal one; beyond the paper.

Few operators cannot be balanced, so the ideal feasible set cannot be reached, and a placement's share of it does not
say how far from the best placement it is. Two bounds hold for every placement on nodes of equal capacity. Both sample
the directions u of rates (:mod:`synergy_nb.algorithms.resilience.feasible`): the share of the ideal set is the mean of
N(u)^-d, where N(u) is the load of the busiest node at u over the average load. So what bounds N(u) from below for every
placement, bounds its feasible set from above.

*Operators at one point.* Take the loads of the operators at u, the largest first, on n nodes. Of the k n + 1 largest,
k + 1 are on the same node, since n nodes with at most k each have k n at most. So the busiest node has at least the sum
of the k + 1 smallest of them: the operators of rank k n - k + 1 to k n + 1. For k = 0 that is the largest operator. The
busiest node also has at least the average load. N(u) is at least the greatest of all these, whatever the placement. The
bound lets each point have a placement of its own, which no placement can do.

*The heaviest operators.* A placement of all operators places the m heaviest, too, and the others only add load. So its
feasible set is no larger than that of the m heaviest alone, and no larger than the largest over all placements of
these, which depth-first search finds: a branch ends if the operators placed so far allow no more than what is known.
With all operators, this is the optimum.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience import refine, rod
from synergy_nb.algorithms.resilience.enumeration_kernel import best_placements
from synergy_nb.algorithms.resilience.feasible import directions

__all__ = ["at_each_point", "most_feasible", "of_heaviest"]

Array = npt.NDArray[np.float64]

POINTS: Final = 512  # directions of the sample


def most_feasible(load: npt.ArrayLike, nodes: int, budget: int = 0) -> float:
    """Return an upper bound of feasible over ideal set for all placements, up to the error of the sample.

    Parameters
    ----------
    load
        L^o: operators x input streams, each of which carries load.
    nodes
        Number of nodes, of equal capacity.
    budget
        Number of placements of the heaviest operators that the search may evaluate, about; 0: no search.

    Examples
    --------
    Two streams of one operator each on two nodes: half of each node's capacity is out of reach of the other stream.

    >>> round(most_feasible([[1.0, 0.0], [0.0, 1.0]], 2), 3)
    0.5
    """
    share = _shares(load)
    bound, looked = at_each_point(share, nodes), 0
    for count in range(nodes + 1, len(share) + 1):
        if GROWTH * looked >= budget:
            break
        found, evaluated = of_heaviest(share, nodes, count)
        bound, looked, budget = min(bound, found), evaluated, budget - evaluated
    return bound


GROWTH: Final = 4  # by which evaluations grow with one more operator, about


def at_each_point(share: Array, nodes: int) -> float:
    """Return the bound by the operators at each point; parameters as of :func:`of_heaviest`."""
    loads = -np.sort(-nodes * directions(share.shape[1], POINTS)[0] @ share.T, axis=1)
    least = np.maximum(1.0, loads[:, 0])
    for k in range(1, -(-loads.shape[1] // nodes)):
        least = np.maximum(least, loads[:, k * nodes - k : k * nodes + 1].sum(axis=1))
    return float(np.mean(least ** -share.shape[1]))


def of_heaviest(share: Array, nodes: int, count: int) -> tuple[float, int]:
    """Return the bound by all placements of the heaviest operators, and how many were evaluated.

    Parameters
    ----------
    share
        Share of each operator in the load of each stream: operators x streams.
    nodes
        Number of nodes, of equal capacity.
    count
        Number of operators that are placed.
    """
    points, d = directions(share.shape[1], POINTS)[0], share.shape[1]
    order = np.argsort(-np.linalg.norm(share, axis=1), kind="stable")[:count]
    loads = nodes * share[order] @ points.T
    capacity = np.ones(nodes)
    known = refine(share[order], capacity, rod(share[order], capacity))
    table = np.zeros((nodes, len(points)))
    np.add.at(table, known, loads)
    values = np.array([np.mean(np.maximum(table.max(axis=0), 1.0) ** -d)])
    placed, free = np.zeros((1, count), dtype=np.int64), np.full(count, -1)
    alike = np.zeros(nodes, dtype=np.int64)
    looked = best_placements(loads, capacity, alike, free, 0, 1.0, d, placed, values)
    return float(values[0]), int(looked)


def _shares(load: npt.ArrayLike) -> Array:
    coefficients = np.asarray(load, dtype=np.float64)
    share: Array = coefficients / coefficients.sum(axis=0)
    return share
