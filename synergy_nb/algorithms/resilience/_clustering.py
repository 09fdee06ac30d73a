"""Operator clustering (section 6.3): operators with costly streams between them are merged before ROD places them.

The *clustering ratio* of a stream is the load of its transfer divided by the smaller load of its two ends, both at
rates where each input stream loads the nodes evenly. Two greedy methods merge the ends of a stream while some ratio
reaches a threshold: the ends of the stream with the largest ratio, or the lightest pair of ends among all streams that
reach the threshold. The weight of a cluster is limited. No method and no threshold is best for all graphs, so all
are tried, and the placement with the greatest plane distance, communication included, is chosen.

A cluster's load is that of its operators, so its ratios become smaller as it grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience._greedy import Tie, rod
from synergy_nb.algorithms.resilience._placement_units import units
from synergy_nb.algorithms.resilience.array_inputs import Arcs, Floats, Ints, checked_arcs, normalised
from synergy_nb.algorithms.resilience.feasible import plane_distance

Method = Literal["ratio", "weight"]
"""What is merged next: the ends of the largest clustering ratio, or the two lightest of those that are to be merged."""

LIMITS: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0)
QUANTILES: Final = (0.0, 0.25, 0.5, 0.75, 0.95)  # quantiles of the initial ratios that are tried as thresholds


class Clustered(NamedTuple):
    """A placement of clusters."""

    assignment: Ints  # node of each operator
    groups: Ints  # label of each operator's cluster
    distance: float  # least plane distance, communication included


def cluster(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    arcs: Arcs,
    threshold: float,
    limit: float,
    method: Method = "ratio",
    *,
    pinned: npt.ArrayLike | None = None,
) -> Ints:
    """Clusters of operators.

    Parameters
    ----------
    load, capacity, pinned
        Arguments of :func:`rod`. Operators that are pinned to different nodes stay apart.
    arcs
        Streams between operators, with the load of their transfer.
    threshold
        Clustering ratio from which on two ends are merged.
    limit
        Greatest weight w_k that a cluster may have on a node of average capacity, for any stream.
    method
        ``ratio`` or ``weight``.

    Returns
    -------
    ndarray of int64
        A label for each operator, equal in a cluster.

    Examples
    --------
    >>> chain = Arcs(np.array([[0, 1], [1, 2]]), np.array([[5.0], [1.0]]))
    >>> cluster([[2.0], [2.0], [2.0]], [1, 1], chain, threshold=1.0, limit=2.0)
    array([0, 0, 2])
    """
    if method not in get_args(Method):
        raise ValueError(f"method: {method!r}; expected one of {', '.join(get_args(Method))}")
    setting = normalised(load, capacity)
    share, place, of = units(setting, None, pinned)
    ends, transfer = checked_arcs(arcs, len(of), len(setting.carries))
    cost = (transfer[:, setting.carries] / setting.total).sum(axis=1)
    labels, share, place = of.copy(), share.copy(), place.copy()
    most = limit / len(setting.capacity)
    while True:
        one, other = labels[ends].T
        weight = share.sum(axis=1)
        merged = (share[one] + share[other]).max(axis=1, initial=0.0)
        open_ = (one != other) & (merged <= most)
        open_ &= (place[one] == place[other]) | (place[one] < 0) | (place[other] < 0)
        ratio = _ratios(cost, one, other, weight)
        open_ &= ratio >= threshold
        if not open_.any():
            return labels
        goodness = ratio if method == "ratio" else -(weight[one] + weight[other])
        best = int(np.where(open_, goodness, -np.inf).argmax())
        kept, gone = sorted((one[best], other[best]))
        labels[labels == gone] = kept
        share[kept] += share[gone]
        place[kept] = max(place[kept], place[gone])


def clustered_rod(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    arcs: Arcs,  # streams between operators, with the load of their transfer
    lower_bound: npt.ArrayLike | None = None,
    tie: Tie = "distance",
    *,
    pinned: npt.ArrayLike | None = None,
    limits: Sequence[float] = LIMITS,  # greatest weights of a cluster that are tried
) -> Clustered:
    """ROD over clusters, with the method, threshold and limit that give the greatest plane distance."""
    best: Clustered | None = None
    seen: set[bytes] = set()
    for groups in _clusterings(load, capacity, arcs, limits, pinned):
        if groups.tobytes() in seen:
            continue
        seen.add(groups.tobytes())
        assignment = rod(load, capacity, lower_bound, groups, tie, arcs=arcs, pinned=pinned)
        distance = plane_distance(load, capacity, assignment, lower_bound, arcs)
        if best is None or distance > best.distance:
            best = Clustered(assignment, groups, distance)
    assert best is not None  # the first clustering is that of every operator alone
    return best


def _clusterings(
    load: npt.ArrayLike, capacity: npt.ArrayLike, arcs: Arcs, limits: Sequence[float], pinned: npt.ArrayLike | None
) -> Iterator[Ints]:
    setting = normalised(load, capacity)
    operators = len(setting.share)
    yield np.arange(operators)
    ends, transfer = checked_arcs(arcs, operators, len(setting.carries))
    cost = (transfer[:, setting.carries] / setting.total).sum(axis=1)
    ratios = _ratios(cost, ends[:, 0], ends[:, 1], setting.share.sum(axis=1))
    costly = ratios[ratios > 0.0]
    if not len(costly):
        return
    for method in get_args(Method):
        for threshold in np.quantile(costly, QUANTILES, method="lower"):
            for limit in limits:
                yield cluster(load, capacity, arcs, float(threshold), limit, method, pinned=pinned)


def _ratios(cost: Floats, one: Ints, other: Ints, weight: Floats) -> Floats:
    """Clustering ratio of each stream: load of its transfer divided by the smaller load of its ends."""
    lesser = np.minimum(weight[one], weight[other])
    ratio: Floats = np.where(cost > 0.0, cost / np.maximum(lesser, 1e-300), 0.0)
    return ratio
