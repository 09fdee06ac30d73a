"""Random query graphs of section 7.1: trees of "delay" operators, one for each input stream.

The operators of a tree are drawn level by level: each gets one to three downstream operators, with equal
probabilities, until the tree is complete. Costs are uniform between 0.1 and 1 ms. Half of all operators have a
selectivity of one; the selectivities of the others are uniform between 0.5 and 1.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from synergy_nb.algorithms.resilience._linear_load import QueryOperator

COSTS: Final = (1e-4, 1e-3)  # costs of an operator, seconds a tuple
SELECTIVITIES: Final = (0.5, 1.0)
MOST_CHILDREN: Final = 3


def random_trees(operators: int, inputs: int, seed: int | np.random.Generator) -> tuple[QueryOperator, ...]:
    """Draw operator trees at random, each with the same number of operators.

    Parameters
    ----------
    operators
        Total number of operators; each of the trees gets ``operators // inputs`` of them.
    inputs
        Number of input streams, ``I1``, ``I2``, ..., and of trees.
    seed
        Seed, or a random generator.

    Examples
    --------
    >>> from synergy_nb.algorithms.resilience import linearised
    >>> graph = random_trees(6, 2, seed=1)
    >>> [each.name for each in graph], linearised(graph).load.shape
    (['o1', 'o2', 'o3', 'o4', 'o5', 'o6'], (6, 2))
    """
    if not 1 <= inputs <= operators:
        raise ValueError(f"inputs: {inputs} of {operators} operators; expected at least 1, and no more than operators")
    rng = np.random.default_rng(seed)
    size = operators // inputs
    count = size * inputs
    costs = rng.uniform(*COSTS, count)
    selectivities = np.ones(count)
    varied = rng.permutation(count)[: count - count // 2]
    selectivities[varied] = rng.uniform(*SELECTIVITIES, len(varied))
    found: list[QueryOperator] = []
    for stream in range(inputs):
        upstream = [f"I{stream + 1}"]
        waiting = deque([len(found)])
        while len(upstream) < size:
            parent = f"o{waiting.popleft() + 1}"
            for _ in range(min(int(rng.integers(1, MOST_CHILDREN + 1)), size - len(upstream))):
                waiting.append(len(found) + len(upstream))
                upstream.append(parent)
        for up in upstream:
            number = len(found)
            found.append(QueryOperator(f"o{number + 1}", (up,), float(costs[number]), float(selectivities[number])))
    return tuple(found)
