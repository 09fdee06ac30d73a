"""Baselines that ROD is compared with: section 7.2, and MaxRate of 7.3.5.

All but the random one balance the loads of a given series of rates (points x input streams), as a monitor would collect
it. All place operators in proportion to the capacities of the nodes, as ROD does.

References
----------
.. [1] Y. Xing, S. Zdonik, J.-H. Hwang, "Dynamic load distribution in the Borealis stream processor", ICDE 2005.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience.array_inputs import Arcs, Floats, Ints, checked_arcs, checked_rates, normalised

SLACK: Final = 0.1  # share by which a node's average load may exceed its balanced one where correlations decide


def random_placement(operators: int, nodes: int, seed: int | np.random.Generator) -> Ints:
    """Random: as many operators on each node, or one more.

    >>> np.bincount(random_placement(10, 4, seed=1)).tolist()
    [3, 3, 2, 2]
    """
    rng = np.random.default_rng(seed)
    return rng.permutation(np.arange(operators, dtype=np.int64) % nodes)


def largest_load_first(load: npt.ArrayLike, capacity: npt.ArrayLike, rates: npt.ArrayLike) -> Ints:
    """LLF: each operator, the largest average load first, goes to the least loaded node.

    Parameters
    ----------
    load
        L^o: operators x input streams.
    capacity
        C: one a node.
    rates
        Series of rates: points x input streams.

    Examples
    --------
    >>> largest_load_first([[14, 0], [6, 0], [0, 9], [0, 7]], [1, 1], [[1, 1]])
    array([0, 0, 1, 1])
    """
    loads, shares = _loads(load, capacity, rates)
    return _least_loaded(loads.mean(axis=0), shares)


def max_rate(load: npt.ArrayLike, capacity: npt.ArrayLike, rates: npt.ArrayLike) -> Ints:
    """MaxRate: as :func:`largest_load_first`, with loads at the greatest rate of each stream."""
    greatest = checked_rates(rates, np.asarray(load).shape[1]).max(axis=0, keepdims=True)
    return largest_load_first(load, capacity, greatest)


def connected(load: npt.ArrayLike, capacity: npt.ArrayLike, rates: npt.ArrayLike, arcs: Arcs) -> Ints:
    """Connected: connected operators go to one node, up to its share of the average load.

    The operator of the largest load goes to the least loaded node. Then the operators connected to those on the node
    follow, the largest first, while the node has less than its share of all load; and so on.

    ``arcs``: streams between operators.
    """
    series, shares = _loads(load, capacity, rates)
    loads = series.mean(axis=0)
    ends = checked_arcs(arcs, *np.asarray(load).shape).ends
    neighbours: list[list[int]] = [[] for _ in loads]
    for one, other in ends:
        neighbours[one].append(int(other))
        neighbours[other].append(int(one))
    even = float(loads.sum())  # times a node's share of the capacity: its share of all load
    place = np.full(len(loads), -1)
    taken = np.zeros(len(shares))
    for first in np.argsort(-loads, kind="stable"):
        if place[first] >= 0:
            continue
        node = int((taken / shares).argmin())
        place[first], taken[node] = node, taken[node] + loads[first]
        beside = set(np.flatnonzero(place == node))
        waiting = {each for one in beside for each in neighbours[one] if place[each] < 0}
        while waiting:
            one = max(waiting, key=lambda each: (loads[each], -each))
            waiting.remove(one)
            if taken[node] + loads[one] < even * shares[node]:
                place[one], taken[node] = node, taken[node] + loads[one]
                waiting.update(each for each in neighbours[one] if place[each] < 0)
    return place


def correlation_based(
    load: npt.ArrayLike, capacity: npt.ArrayLike, rates: npt.ArrayLike, *, slack: float = SLACK
) -> Ints:
    """Correlation-based: operators whose loads rise together on different nodes, average loads balanced (after [1]_).

    Each operator, the largest average load first, goes to the node whose load in the series correlates least with its
    own, among the nodes that are less than ``slack`` above their share of the average load. (Without slack, few nodes
    would be left for the last and lightest operators, and the gain would shrink with the number of operators.)

    ``slack``: share by which the average load of a node may exceed its balanced one.
    """
    series, shares = _loads(load, capacity, rates)
    loads = series.mean(axis=0)
    moving = series - loads
    even = float(loads.sum())
    place = np.zeros(len(loads), dtype=np.int64)
    taken, on_node = np.zeros(len(shares)), np.zeros((len(series), len(shares)))
    for one in np.argsort(-loads, kind="stable"):
        norm = np.sqrt((on_node**2).sum(axis=0) * (moving[:, one] ** 2).sum())
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.where(norm > 0.0, moving[:, one] @ on_node / norm, -1.0)
        over = taken >= (1.0 + slack) * even * shares
        correlation = found.round(9)  # the last digits depend on how many threads the library for matrices has
        node = int(np.lexsort([taken / shares, correlation, over])[0])
        place[one] = node
        taken[node] += loads[one]
        on_node[:, node] += moving[:, one]
    return place


def _loads(load: npt.ArrayLike, capacity: npt.ArrayLike, rates: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Loads of operators as shares of all capacity, shape (points, operators); and the shares of the nodes."""
    setting = normalised(load, capacity)
    points = checked_rates(rates, len(setting.carries))[:, setting.carries] * setting.total / setting.power
    series: Floats = points @ setting.share.T
    return series, setting.capacity


def _least_loaded(loads: Floats, shares: Floats) -> Ints:
    place = np.zeros(len(loads), dtype=np.int64)
    taken = np.zeros(len(shares))
    for one in np.argsort(-loads, kind="stable"):
        node = int((taken / shares).argmin())
        place[one], taken[node] = node, taken[node] + loads[one]
    return place
