"""ROD, the greedy algorithm of section 5 (figure 10), with lower bounds (6.1), clusters (6.3) and pinned operators.

Phase 1 sorts the operators by the norm of their load coefficient vectors, the largest first. Phase 2 assigns each to a
node. *Class I* are the nodes whose hyperplane stays above the ideal one, so that the feasible set loses nothing. If
there are any, the goodness function chooses among them; otherwise the node with the largest candidate plane distance is
chosen.

Two details of figure 10 are implemented as in the text of the paper. The figure says "the node with min_i 1 /
||W'_i||", section 5.2 "the maximum candidate plane distance". The figure sorts by l^o_jk, which depends on the unit of
each stream. Section 3.3 normalises all loads; sorted by l^o_jk / l_k, the feasible set is larger by 0.02 to 0.03 of the
ideal one on the paper's own graphs of 100 to 200 operators, and the weight of a variable that stands for pairs of a
join does not depend on its unit. The order of the figure is an option.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience._placement_units import FREE, units
from synergy_nb.algorithms.resilience.array_inputs import Arcs, Ints, checked_arcs, normalised
from synergy_nb.algorithms.resilience.feasible import distances

Order = Literal["normalised", "figure"]
"""Norm by which operators are sorted: of l^o_jk / l_k (section 3.3), or of l^o_jk, as figure 10 writes it."""

Tie = Literal["distance", "cut"]
"""How one of several nodes of class I is chosen: the largest plane distance, or the fewest streams between nodes."""

IDEAL: Final = 1.0 + 1e-9  # greatest weight that counts as ideal: 1, with a margin for rounding


def rod(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    tie: Tie = "distance",
    *,
    arcs: Arcs | None = None,
    pinned: npt.ArrayLike | None = None,
    order: Order = "normalised",
) -> Ints:
    """Place operators so that the system withstands as many rates as possible: Resilient Operator Distribution.

    Parameters
    ----------
    load
        L^o: operators x input streams, finite numbers from 0.
    capacity
        C: one a node, above 0.
    lower_bound
        B: rates that are not gone below; the centre of the sphere of section 6.1.
    groups
        A label for each operator; those of equal label are placed together (section 6.3).
    tie
        Choice among nodes of class I: ``distance``, or ``cut``, the least number of streams cut, which needs ``arcs``.
    arcs
        Streams between operators.
    pinned
        Node of each operator that has its place already, -1 for the others. What is pinned counts from the beginning.
    order
        Order in which operators are placed: by the norms of ``normalised`` loads, or of loads, as in ``figure`` 10.

    Returns
    -------
    ndarray of int64
        Node of each operator: shape (m,).

    Raises
    ------
    ValueError
        If an argument is wrong.

    Examples
    --------
    Example 2 of the paper, where plan (c) is the best:

    >>> rod([[14, 0], [6, 0], [0, 9], [0, 7]], capacity=[1, 1])
    array([0, 1, 1, 0])
    """
    if tie not in get_args(Tie):
        raise ValueError(f"tie: {tie!r}; expected one of {', '.join(get_args(Tie))}")
    if tie == "cut" and arcs is None:
        raise ValueError("arcs: None; expected the streams between operators, for tie 'cut'")
    if order not in get_args(Order):
        raise ValueError(f"order: {order!r}; expected one of {', '.join(get_args(Order))}")
    setting = normalised(load, capacity, lower_bound)
    share, pinned_to, unit = units(setting, groups, pinned)
    place, nodes = pinned_to.copy(), len(setting.capacity)
    neighbours = _neighbours(checked_arcs(arcs, len(unit), len(setting.carries)).ends, unit, len(share))
    matrix = np.zeros((nodes, share.shape[1]))
    for one in np.flatnonzero(place != FREE):
        matrix[place[one]] += share[one] / setting.capacity[place[one]]
    added = share[:, None, :] / setting.capacity[:, None]  # to the weights of each node
    sorted_by = share if order == "normalised" else share * setting.total
    norm = np.sqrt(np.einsum("jk,jk->j", sorted_by, sorted_by))
    for one in np.argsort(-norm, kind="stable"):
        if place[one] != FREE:
            continue
        candidate = matrix + added[one]
        goodness = distances(candidate, setting.bound)
        first = candidate.max(axis=1, initial=0.0) <= IDEAL
        if tie == "cut" and first.any():
            beside = np.bincount(place[neighbours[one]] + 1, minlength=nodes + 1)[1:]
            goodness[~(first & (beside == beside[first].max()))] = -np.inf
        # a distance is above 0 in class I, where no weight is above 1, and below 1 in class II, where one is
        chosen = int((goodness + first).argmax())
        place[one] = chosen
        matrix[chosen] = candidate[chosen]
    return place[unit]


def _neighbours(ends: Ints, unit: Ints, count: int) -> list[Ints]:
    """Placement unit to the units that it has streams to or from, with one entry for each stream."""
    found: list[list[int]] = [[] for _ in range(count)]
    for one, other in unit[ends]:
        if one != other:
            found[one].append(int(other))
            found[other].append(int(one))
    return [np.array(each, dtype=np.int64) for each in found]
