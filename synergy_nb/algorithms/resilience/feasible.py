"""The feasible set of a placement: its size as a share of the ideal one, and bounds of that (sections 3 and 4).

In normalised coordinates relative to the lower bound B' (the origin if there is none), the feasible set is
{y >= 0 : V y <= 1}, and the ideal one is the simplex y_1 + ... + y_d <= 1. Both are star-shaped about the origin. So
with u uniform on the simplex of directions u_1 + ... + u_d = 1,

    feasible / ideal  =  E[ (1 / max_i V_i u)^d ]

This expectation is sampled. It has one dimension less than the set, and its integrand is continuous, unlike the
indicator of the set, so quasi Monte Carlo converges fast. The error comes from independently scrambled copies of the
sample.

References
----------
.. [1] Y. Xing, J.-H. Hwang, U. Cetintemel, S. Zdonik, "Providing resiliency to load variations in distributed stream
   processing", VLDB 2006.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from synergy_nb.algorithms.resilience._volume import MOST_INPUTS, down_closed_volume
from synergy_nb.algorithms.resilience.array_inputs import (
    Arcs,
    Floats,
    Normalised,
    checked_arcs,
    checked_nodes,
    checked_rates,
    normalised,
)

__all__ = [
    "Ratio",
    "directions",
    "feasible_ratio",
    "mmad_bound",
    "node_load",
    "plane_distance",
    "plane_distances",
    "sphere_bound",
    "weights",
]

SAMPLES: Final = 1 << 14
COPIES: Final = 16  # number of independently scrambled copies of the sample
CONFIDENCE: Final = 0.999


class Ratio(float):
    """A share from 0 to 1, with the error of its estimate."""

    error: float  # half of the width of the 99.9 % interval of a sampled share; the rounding error of an exact one

    def __new__(cls, value: float, error: float) -> Ratio:
        """The share ``value``, known up to ``error``."""
        made = super().__new__(cls, value)
        made.error = error
        return made

    def __reduce__(self) -> tuple[type[Ratio], tuple[float, float]]:
        return Ratio, (float(self), self.error)


def node_load(load: npt.ArrayLike, assignment: npt.ArrayLike, nodes: int, arcs: Arcs | None = None) -> Floats:
    """Compute load coefficients of nodes: L^n = A L^o, plus, at both ends, the transfer of streams between nodes.

    Parameters
    ----------
    load
        Load coefficients L^o: operators x input streams.
    assignment
        Node of each operator.
    nodes
        Number of nodes.
    arcs
        Streams whose transfer costs processor time.

    Examples
    --------
    Plan (c) of example 2:

    >>> node_load([[14, 0], [6, 0], [0, 9], [0, 7]], [0, 1, 1, 0], 2)
    array([[14.,  7.],
           [ 6.,  9.]])
    """
    coefficients = np.asarray(load, dtype=np.float64)
    placed = checked_nodes("assignment", assignment, len(coefficients), nodes)
    sums = np.zeros((nodes, coefficients.shape[1]))
    np.add.at(sums, placed, coefficients)
    ends, transfer = checked_arcs(arcs, *coefficients.shape)
    places = placed[ends]
    crossing = places[:, 0] != places[:, 1]
    for end in range(2):
        np.add.at(sums, places[crossing, end], transfer[crossing])
    return sums


def weights(
    load: npt.ArrayLike, capacity: npt.ArrayLike, assignment: npt.ArrayLike, arcs: Arcs | None = None
) -> Floats:
    """The weight matrix W of section 3.3: shape (n, d), over the variables that carry load.

    Examples
    --------
    >>> weights([[14, 0], [6, 0], [0, 9], [0, 7]], [1, 1], [0, 1, 1, 0])
    array([[1.4  , 0.875],
           [0.6  , 1.125]])
    """
    return _placed(load, capacity, assignment, None, arcs)[1]


def plane_distances(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    assignment: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
    arcs: Arcs | None = None,
) -> Floats:
    """Distance of each node's hyperplane from the lower bound, (1 - W_i B') / ||W_i||: sections 4.2 and 6.1.

    The distance is infinite for a node without load, and negative for one that is overloaded at the lower bound.
    """
    setting, matrix = _placed(load, capacity, assignment, lower_bound, arcs)
    return distances(matrix, setting.bound)


def distances(matrix: Floats, bound: Floats) -> Floats:
    """Plane distances of weight vectors, in rows."""
    norm = np.sqrt(np.einsum("ik,ik->i", matrix, matrix))
    found: Floats = np.full(len(matrix), np.inf)
    np.divide(1.0 - matrix @ bound, norm, out=found, where=norm > 0.0)
    return found


def plane_distance(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    assignment: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
    arcs: Arcs | None = None,
) -> float:
    """r, the least plane distance of all nodes, which MMPD maximises; at most 1 / sqrt(d) without a lower bound."""
    return float(plane_distances(load, capacity, assignment, lower_bound, arcs).min())


def mmad_bound(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    assignment: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
    arcs: Arcs | None = None,
) -> float:
    """Lower bound of feasible / ideal from the axis distances: the product of min_i 1 / w_ik (section 4.1).

    The simplex between the least axis distances lies in the feasible set. With a lower bound of rates, the axes begin
    there.
    """
    planes = placed(load, capacity, assignment, lower_bound, arcs)
    return 0.0 if planes is None else float(np.prod(1.0 / planes.max(axis=0)))


def sphere_bound(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    assignment: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
    arcs: Arcs | None = None,
) -> float:
    """Lower bound of feasible / ideal from the plane distance r (section 4.2, figure 9).

    The part of the sphere of radius r about the lower bound in which all rates are above it lies in the feasible set.
    """
    setting, matrix = _placed(load, capacity, assignment, lower_bound, arcs)
    d = len(setting.total)
    if not d:
        return 1.0
    radius = max(float(distances(matrix, setting.bound).min()), 0.0) / setting.room
    ball = math.pi ** (d / 2.0) / math.gamma(d / 2.0 + 1.0) * radius**d
    return float(math.factorial(d) * ball / 2.0**d)


def feasible_ratio(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    assignment: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
    method: Literal["sample", "exact"] = "sample",
    *,
    arcs: Arcs | None = None,
    rates: npt.ArrayLike | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Ratio:
    """Size of the feasible set of a placement as a share of the ideal one, V(F(A)) / V(F*).

    Parameters
    ----------
    load
        Load coefficients L^o: operators x input streams, finite numbers from 0.
    capacity
        Capacity C of each node, above 0.
    assignment
        Node of each operator.
    lower_bound
        Lowest rates B of the input streams; both sets then contain only rates from B on.
    method
        Method of computation: ``sample`` (quasi Monte Carlo) or ``exact`` (volume of the polytope, up to six streams).
    arcs
        Streams between operators whose transfer costs processor time.
    rates
        Points of rate space, such as rates of a trace, points x input streams. With them, the size of a set is its
        share of the points instead of its volume, and ``method`` and ``samples`` have no effect.
    samples, seed
        Size and seed of the sample; the size is rounded up to 16 times a power of 2.

    Returns
    -------
    Ratio
        Size as a share, with its ``error``.

    Raises
    ------
    ValueError
        If an argument is wrong, or there are too many streams for the exact method.

    Examples
    --------
    The plans of example 2:

    >>> load = [[14, 0], [6, 0], [0, 9], [0, 7]]
    >>> plans = {"a": [0, 0, 1, 1], "b": [0, 1, 0, 1], "c": [0, 1, 1, 0]}
    >>> [round(feasible_ratio(load, [1, 1], plan, method="exact"), 4) for plan in plans.values()]
    [0.5, 0.6349, 0.7559]
    >>> sampled = feasible_ratio(load, [1, 1], plans["c"])
    >>> abs(sampled - 0.7559) < sampled.error + 5e-5 < 1e-3
    True
    """
    if method not in ("sample", "exact"):
        raise ValueError(f"method: {method!r}; expected 'sample' or 'exact'")
    setting, matrix = _placed(load, capacity, assignment, lower_bound, arcs)
    d = len(setting.total)
    if rates is not None:
        return _share_of(setting, matrix, checked_rates(rates, len(setting.carries)))
    if method == "exact" and d > MOST_INPUTS:
        raise ValueError(
            f"load: {d} input streams; expected at most {MOST_INPUTS} for method 'exact'; use 'sample' for more"
        )
    if not d:
        return Ratio(1.0, 0.0)
    planes = _planes(setting, matrix)
    if planes is None:
        return Ratio(0.0, 0.0)
    if method == "exact":
        volume, rounding = down_closed_volume(planes)
        ratio = volume * math.factorial(d)
        return Ratio(ratio, ratio * rounding)
    each = 1 << max(math.ceil(math.log2(max(samples, 1) / COPIES)), 1)
    means = [sampled_ratio(planes, own) for own in directions(d, each, COPIES, seed)]
    error = float(np.std(means, ddof=1)) / math.sqrt(COPIES)
    half = float(stdtrit(COPIES - 1, (1.0 + CONFIDENCE) / 2.0)) * error
    return Ratio(math.fsum(means) / COPIES, half)


def placed(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    assignment: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None = None,
    arcs: Arcs | None = None,
) -> Floats | None:
    """V: the hyperplanes of the nodes relative to the lower bound, scaled so that the ideal set is the simplex."""
    return _planes(*_placed(load, capacity, assignment, lower_bound, arcs))


def reach(planes: Floats, along: Floats) -> Floats:
    """Distance to the boundary of the feasible set in each direction, 1 / max_i V_i u.

    ``along``: directions u from the lower bound, of sum 1; shape (points, d).
    """
    found: Floats = 1.0 / (along @ planes.T).max(axis=1)
    return found


def sampled_ratio(planes: Floats | None, sample: Floats) -> float:
    """Feasible / ideal, estimated by one sample of directions of shape (points, d)."""
    return 0.0 if planes is None else float(np.mean(reach(planes, sample) ** planes.shape[1]))


@lru_cache(maxsize=16)
def directions(d: int, count: int, copies: int = 1, seed: int = 0) -> Floats:
    """Points spread evenly over the simplex u_1 + ... + u_d = 1, as a read-only array of shape (copies, count, d).

    Scrambled Sobol points of each copy are mapped to the simplex by stick breaking: the remainder after k parts is
    divided as Beta(1, d - 1 - k). This mapping preserves neighbourhoods; sorting uniform numbers would not.
    """
    found = np.ones((copies, count, d))
    if d > 1:
        from scipy.stats import qmc  # noqa: PLC0415 - slow to import, and not needed for one source

        for copy, own in enumerate(np.random.SeedSequence(seed).spawn(copies)):
            points = qmc.Sobol(d - 1, rng=np.random.default_rng(own)).random(count)
            left = np.ones(count)
            for k in range(d - 1):
                part = left * (1.0 - (1.0 - points[:, k]) ** (1.0 / (d - 1 - k)))
                found[copy, :, k] = part
                left = left - part
            found[copy, :, d - 1] = left
    found.setflags(write=False)
    return found


def _placed(
    load: npt.ArrayLike,
    capacity: npt.ArrayLike,
    assignment: npt.ArrayLike,
    lower_bound: npt.ArrayLike | None,
    arcs: Arcs | None,
) -> tuple[Normalised, Floats]:
    setting = normalised(load, capacity, lower_bound)
    return setting, setting.weights(node_load(load, assignment, len(setting.capacity), arcs))


def _planes(setting: Normalised, matrix: Floats) -> Floats | None:
    left = 1.0 - matrix @ setting.bound
    if not (left > 0.0).all():
        return None
    planes: Floats = matrix * (setting.room / left[:, None])
    return planes


def _share_of(setting: Normalised, matrix: Floats, points: Floats) -> Ratio:
    """Share of the points without an overloaded node, among the points that the ideal placement could carry."""
    place = points[:, setting.carries] * setting.total / setting.power
    possible = place[place.sum(axis=1) <= 1.0]
    if not len(possible):
        raise ValueError("rates: every point exceeds the capacity of all nodes together; expected feasible points")
    share = float(np.mean((possible @ matrix.T <= 1.0).all(axis=1)))
    deviation = math.sqrt(share * (1.0 - share) / len(possible))
    return Ratio(share, float(ndtri((1.0 + CONFIDENCE) / 2.0)) * deviation)
