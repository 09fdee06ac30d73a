"""The optimal placement of small graphs, by enumeration; the heuristics are compared with it (section 7.3.1).

Placements are enumerated depth first, the operators of the largest loads first. Placements that differ
only in the names of equal nodes are evaluated once: n^m / n! of n^m remain if all nodes are equal. A branch ends when
the operators placed so far allow no larger feasible set than the best known placement, initially the refined greedy
one. The best placements on a fixed sample of directions are then compared by their exact volumes.

The enumeration is compiled at its first use, which takes much longer than the search itself. Where there are few
placements, all of them are evaluated by numpy instead.
"""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience._greedy import rod
from synergy_nb.algorithms.resilience._placement_units import units
from synergy_nb.algorithms.resilience._refinement import refine
from synergy_nb.algorithms.resilience._volume import MOST_INPUTS
from synergy_nb.algorithms.resilience.array_inputs import Floats, Ints, normalised
from synergy_nb.algorithms.resilience.enumeration_kernel import best_placements
from synergy_nb.algorithms.resilience.feasible import directions, feasible_ratio, placed, sampled_ratio

MOST_OPERATORS, MOST_PLACEMENTS = 28, 2.0**45  # a search of this size takes at most a minute
POINTS: Final = 512  # number of directions in the sample
FEW: Final = 4096  # largest number of placements that are evaluated by numpy
CLOSE: Final = 32  # number of placements whose volumes are compared
MARGIN: Final = 0.005  # error of the sample: it may rank the best placement by this much below a worse one


def optimum(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
    *,
    pinned: npt.ArrayLike | None = None,
) -> Ints:
    """Find the placement with the largest feasible set.

    Parameters
    ----------
    load, capacity, lower_bound, pinned
        Arguments of :func:`rod`.

    Returns
    -------
    ndarray of int64
        Node of each operator. With at most six input streams it is optimal, unless more than 32 placements are within
        half a per cent of the best; then it is optimal up to the error of the sample of directions.

    Raises
    ------
    ValueError
        If an argument is wrong, or there are too many operators or placements.

    Examples
    --------
    >>> optimum([[14, 0], [6, 0], [0, 9], [0, 7]], [1, 1])
    array([0, 1, 1, 0])
    """
    setting = normalised(load, capacity, lower_bound)
    share, fixed, _ = units(setting, None, pinned)
    nodes, d = len(setting.capacity), share.shape[1]
    free = int((fixed < 0).sum())
    alike, counts = np.unique(setting.capacity, return_inverse=True, return_counts=True)[1:]
    different = free * math.log(nodes) - sum(math.lgamma(count + 1) for count in counts)
    if free > MOST_OPERATORS or different > math.log(MOST_PLACEMENTS):
        expected = f"at most {MOST_OPERATORS} operators, and {MOST_PLACEMENTS:.3g} placements"
        raise ValueError(f"load: {free} operators on {nodes} nodes; expected {expected}")
    known = rod(load, capacity, lower_bound, pinned=pinned)
    few = nodes**free <= FEW
    if not few:
        known = refine(load, capacity, known, lower_bound, pinned=pinned)
    if not d:
        return known
    bounded = bool(setting.bound.any())
    sample = directions(d, POINTS)[0]
    order = np.lexsort([-np.linalg.norm(share, axis=1), fixed < 0])
    loads = share[order] @ (np.vstack([sample, setting.bound]) if bounded else sample).T
    beginning = sampled_ratio(placed(load, capacity, known, lower_bound), sample) * (1.0 - MARGIN)
    room = setting.room if bounded else 1.0
    if few:
        found, values = _best_of_all(loads, setting.capacity, alike, fixed[order], bounded, room, d)
    else:
        found, values = np.zeros((CLOSE, len(share)), dtype=np.int64), np.full(CLOSE, beginning)
        best_placements(loads, setting.capacity, alike, fixed[order], int(bounded), room, d, found, values)
    method: Literal["exact", "sample"] = "exact" if d <= MOST_INPUTS else "sample"
    best, size = known, feasible_ratio(load, capacity, known, lower_bound, method)
    for each in found[values > beginning][:, np.argsort(order)]:
        ratio = feasible_ratio(load, capacity, each, lower_bound, method)
        if ratio > size:
            best, size = each, ratio
    return best


def _best_of_all(
    loads: Floats, capacity: Floats, alike: Ints, fixed: Ints, bounded: bool, room: float, power: int
) -> tuple[Ints, Floats]:
    """Return the placements of the greatest values on a sample, and the values; parameters: ``best_placements``."""
    nodes = range(len(capacity))
    partial: list[tuple[int, ...]] = [()]
    for pinned in fixed.tolist():
        partial = [
            (*one, node)
            for one in partial
            for node in (nodes if pinned < 0 else [pinned])
            # of equal nodes that are still empty, only the first
            if pinned >= 0 or node in one or all(alike[each] != alike[node] or each in one for each in range(node))
        ]
    found = np.array(partial, dtype=np.int64)
    points = loads.shape[1] - bounded
    peaks, feasible = np.ones((len(found), points)), np.ones(len(found), dtype=bool)
    for node in nodes:
        table = (found == node) @ loads
        left = capacity[node] - (table[:, points] if bounded else np.zeros(len(found)))
        feasible &= left > 0.0
        np.maximum(peaks, table[:, :points] * (room / np.where(left > 0.0, left, np.inf))[:, None], out=peaks)
    values = np.where(feasible, (peaks**-power).mean(axis=1), 0.0)
    best = np.argsort(-values, kind="stable")[:CLOSE]
    return found[best], values[best]
