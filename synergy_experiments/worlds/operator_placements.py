"""Common parts of the experiments on resilient placement: statistics, and algorithms on equal inputs.

All algorithms receive the same load model and the same capacities, and those that balance loads the same series of
rates. As statistics have to be random (section 7.3.1), the means of the series are a random point of the ideal feasible
set, and the rates of each stream are uniform between zero and twice its mean. ROD and its refinement use no rates.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from synergy_nb.algorithms.resilience import (
    LoadModel,
    connected,
    correlation_based,
    largest_load_first,
    max_rate,
    random_placement,
    refine,
    rod,
)

__all__ = ["ALGORITHMS", "BALANCED", "LITERAL", "OTHERS", "REFINED", "place_by", "random_rates"]

REFINED: Final = "rod+refinement"
LITERAL: Final = "rod, figure 10"  # operators sorted by the norms of their loads, not of normalised ones
OTHERS: Final = ("correlation", "llf", "random", "connected")  # algorithms of section 7.2
BALANCED: Final = "correlation, no slack"  # averages balanced before correlations decide
ALGORITHMS: Final = (REFINED, "rod", LITERAL, *OTHERS, BALANCED)
POINTS: Final = 100  # points of a series of rates

Array = npt.NDArray[np.float64]


def random_rates(model: LoadModel, capacity: Array, rng: np.random.Generator) -> Array:
    """Return a series of rates as from statistics: an array of points x input streams."""
    streams = model.load.shape[1]
    share = rng.dirichlet(np.ones(streams + 1))[:streams]  # x_k, uniform over the ideal set
    mean = share * capacity.sum() / model.load.sum(axis=0)
    series: Array = mean * rng.uniform(0.0, 2.0, (POINTS, streams))
    return series


def place_by(
    algorithm: str, model: LoadModel, capacity: Array, rates: Array, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return the node of each operator by the algorithm of that name.

    Parameters
    ----------
    algorithm
        Name of the algorithm, an element of :data:`ALGORITHMS`, or ``max_rate``.
    model
        Loads and streams.
    capacity
        Capacity of each node.
    rates
        Series of rates at which loads are balanced.
    rng
        Random generator of the random placement.
    """
    match algorithm:
        case "rod":
            return rod(model.load, capacity)
        case "rod, figure 10":
            return rod(model.load, capacity, order="figure")
        case "rod+refinement":
            return refine(model.load, capacity, rod(model.load, capacity))
        case "correlation":
            return correlation_based(model.load, capacity, rates)
        case "correlation, no slack":
            return correlation_based(model.load, capacity, rates, slack=0.0)
        case "llf":
            return largest_load_first(model.load, capacity, rates)
        case "max_rate":
            return max_rate(model.load, capacity, rates)
        case "connected":
            return connected(model.load, capacity, rates, model.arcs)
        case "random":
            return random_placement(len(model.operators), len(capacity), rng)
        case _:
            raise ValueError(f"algorithm: {algorithm!r}; expected one of {', '.join(ALGORITHMS)} or max_rate")
