"""Refinement of a placement by local search on the size of its feasible set; beyond the paper.

The greedy algorithm never revises a decision. The refinement moves and swaps operators between two nodes at a time
while the feasible set grows on a fixed sample of directions. Then it assigns some operators to random nodes (a kick),
and searches again from there. The result is fitted to the sample of the search. So it is compared with the initial
placement on a fresh sample, and returned only if it is better there too. Of two values that differ by rounding errors
only, the first counts, so that the result does not depend on the kind of processor.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience._local_search_kernel import improve
from synergy_nb.algorithms.resilience._placement_units import FREE, units
from synergy_nb.algorithms.resilience.array_inputs import Arcs, Floats, Ints, checked_arcs, checked_rates, normalised
from synergy_nb.algorithms.resilience.feasible import directions, feasible_ratio

POINTS: Final = 512  # number of directions in the fixed sample
MOST_POINTS: Final = 2048  # largest number of given rates in the sample of the search
LEAST_GAIN: Final = 1e-9
KICKS: Final = 24
BUDGET: Final = 200_000
THROWN: Final = 0.1  # share of the units that a kick moves, at least two units


def refine(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    assignment: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
    *,
    arcs: Arcs | None = None,
    pinned: npt.ArrayLike | None = None,
    rates: npt.ArrayLike | None = None,
    kicks: int = KICKS,
    budget: int = BUDGET,
    seed: int = 0,
) -> Ints:
    """Search for a placement with a larger feasible set; return the initial one if none is found.

    Parameters
    ----------
    load, capacity, lower_bound, groups, arcs, pinned
        Arguments of :func:`rod`; the transfer of ``arcs`` counts.
    assignment
        Initial placement, such as the result of :func:`rod`: node of each operator.
    rates
        Points of rate space, points x input streams. With them, the size of a feasible set is its share of the points
        instead of its volume. Half of them are the sample of the search, the others the fresh sample.
    kicks
        Number of times that the search restarts.
    budget
        Largest number of evaluated changes; a million takes about two seconds.
    seed
        Seed of the samples and kicks.

    Raises
    ------
    ValueError
        If an argument is wrong, or ``assignment`` contradicts ``groups`` or ``pinned``.

    Examples
    --------
    >>> load = [[14, 0], [6, 0], [0, 9], [0, 7]]
    >>> refine(load, [1, 1], [0, 0, 1, 1])
    array([1, 0, 0, 1])
    """
    setting = normalised(load, capacity, lower_bound)
    placed = units(setting, groups, pinned)
    share, pinned_to, unit = placed
    nodes = len(setting.capacity)
    places = placed.places(assignment, nodes)
    ends, transfer = checked_arcs(arcs, len(unit), len(setting.carries))
    pairs, between = _between(unit[ends], transfer[:, setting.carries] / setting.total)
    if not share.shape[1]:
        return places[unit]
    bounded = rates is None and bool(setting.bound.any())
    fresh = None
    if rates is None:
        sample, power = directions(share.shape[1], POINTS, seed=seed)[0], share.shape[1]
    else:
        given = checked_rates(rates, len(setting.carries))
        if len(given) < 2:
            raise ValueError(
                "rates: 1 point; expected at least 2, as every second point is in the sample of the search"
            )
        known, fresh = given[::2], given[1::2]
        known = known[:: -(-len(known) // MOST_POINTS)]
        sample, power = known[:, setting.carries] * setting.total / setting.power, 0
    points = np.vstack([sample, setting.bound]) if bounded else sample
    first, other, which = _incident(pairs, len(share))
    movable = pinned_to == FREE
    rng = np.random.default_rng(seed)
    best, best_value, looked = places, -np.inf, 0
    loads, streams = share @ points.T, between @ points.T
    for kick in range(kicks + 1):
        tried = best.copy()
        if kick:
            thrown = rng.permutation(np.flatnonzero(movable))[: max(2, round(THROWN * len(tried)))]
            tried[thrown] = rng.integers(0, nodes, len(thrown))
        value, changes = improve(
            tried, movable, loads, first, other, which, streams, setting.capacity,
            int(bounded), setting.room if bounded else 1.0, power, LEAST_GAIN, budget - looked,
        )  # fmt: skip
        looked += changes
        if value > best_value + LEAST_GAIN:
            best, best_value = tried, value
        if looked >= budget:
            break
    ratios = [
        feasible_ratio(load, capacity, each[unit], lower_bound, arcs=arcs, rates=fresh, seed=seed + 1)
        for each in (places, best)
    ]
    return best[unit] if ratios[1] > ratios[0] + LEAST_GAIN else places[unit]


def _between(ends: Ints, transfer: Floats) -> tuple[Ints, Floats]:
    """Add up the streams between units; returns the connected pairs and their transfer loads."""
    apart = ends[:, 0] != ends[:, 1]
    pairs, number = np.unique(np.sort(ends[apart], axis=1), axis=0, return_inverse=True)
    sums = np.zeros((len(pairs), transfer.shape[1]))
    np.add.at(sums, number.reshape(-1), transfer[apart])
    kept = sums.any(axis=1)
    return pairs[kept], sums[kept]


def _incident(pairs: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Index pairs by unit: the offset of the first pair of each unit, the unit at the other end, and the pair's row."""
    one, other = np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]])
    order = np.argsort(one, kind="stable")
    first = np.searchsorted(one[order], np.arange(count + 1))
    return first.astype(np.int64), other[order], np.tile(np.arange(len(pairs)), 2)[order]
