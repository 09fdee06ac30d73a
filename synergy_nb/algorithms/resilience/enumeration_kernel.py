"""Compiled enumeration of placements for the optimum; it skips equivalent ones and those that cannot be the best."""

from __future__ import annotations

from typing import Any

import numpy as np

from synergy_nb.models.compiling import compiled

__all__ = ["best_placements"]


@compiled
def best_placements(
    loads: Any, shares: Any, alike: Any, fixed: Any, bounded: int, room: float, power: int, found: Any, values: Any
) -> int:
    """Fill ``found`` with the placements of the greatest values on a sample, by depth-first search.

    Operators get nodes in their order. Of equal nodes that are still empty, only the first is tried, so placements that
    differ only in the names of nodes are visited once. A branch ends if its value, which further operators can only
    lower, does not exceed the least value in ``found``.

    ``loads``: operators x sample points of directions; if ``bounded`` is 1, the last column is the load at the lower
    bound; ``shares``: capacity of each node; ``alike``: label of each node; nodes with equal labels are
    interchangeable; ``fixed``: node of each pinned operator; -1 for the others; ``bounded``, ``room``, ``power``:
    arguments of :func:`~synergy_nb.algorithms.resilience._local_search_kernel.improve`; ``found``, ``values``: best
    placements so far, with their values; initially, the values to be exceeded.

    Returns: number of evaluated placements and partial placements.
    """
    operators, width = loads.shape
    points = width - bounded
    nodes = len(shares)
    table = np.zeros((nodes, width))
    saved = np.zeros((operators, width))  # loads of the node before it received the operator of the row
    peaks = np.ones((operators + 1, points))  # z of the operators placed so far, at least that of the ideal placement
    members = np.zeros(nodes, dtype=np.int64)
    choice = np.full(operators, -1)
    depth = 0
    looked = 0
    while depth >= 0:
        node = choice[depth]
        if node >= 0:  # remove the operator from the node tried last
            table[node] = saved[depth]
            members[node] -= 1
        node += 1
        while node < nodes:
            possible = fixed[depth] in (-1, node)
            if possible and members[node] == 0 and fixed[depth] == -1:
                for before in range(node):
                    if members[before] == 0 and alike[before] == alike[node]:
                        possible = False
            if possible:
                break
            node += 1
        if node == nodes:
            choice[depth] = -1
            depth -= 1
            continue
        choice[depth] = node
        looked += 1
        saved[depth] = table[node]
        members[node] += 1
        for s in range(width):
            table[node, s] += loads[depth, s]
        left = shares[node] - (table[node, points] if bounded else 0.0)
        if left <= 0.0:
            continue
        scale = room / left
        total = 0.0
        for s in range(points):
            z = max(peaks[depth, s], table[node, s] * scale)
            peaks[depth + 1, s] = z
            one = 1.0 / z
            value = one
            for _ in range(power - 1):
                value *= one
            total += value
        total /= points
        worst = np.argmin(values)
        if total <= values[worst]:
            continue
        if depth + 1 < operators:
            depth += 1
            continue
        values[worst] = total
        found[worst] = choice
    return looked
