"""R5: operator clustering with communication costs (section 7.3.4, figure 17).

Sending a tuple costs the same for every stream between operators, and processing it costs the same at every operator;
the ratio of the two is varied. A stream between two nodes costs both of them. Feasible sets are compared with the ideal
one, in which no stream is between nodes.

Findings
--------
Clustered ROD is better than Connected everywhere: by a factor of 1.4 with 50 operators to 5 with 200, at half the cost
of processing. It is better than ROD without clusters from the cost at which merging is worthwhile: with ten operators a
stream on ten nodes, between half and once the cost of processing, as every cluster of two makes one stream less
balanced. It needs clusters up to ten times as heavy as an even share of a stream; with a limit of one such share, it is
worse than Connected at equal costs with 50 and with 100 operators. Refinement, which counts the communication of each
move, gains as much again: with 200 operators at equal costs it doubles the feasible set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, cast

import numpy as np

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Decision, Measured, Point
from synergy_experiments.framework.parameters import Setup, numbers, whole, wholes
from synergy_experiments.framework.verdicts import at_all, own
from synergy_experiments.worlds.operator_placements import random_rates
from synergy_nb.algorithms.resilience import (
    clustered_rod,
    connected,
    feasible_ratio,
    linearised,
    random_trees,
    refine,
    rod,
)

__all__ = ["CLAIMED", "with_communication"]

COST: Final = 1e-3  # seconds a tuple, of every operator
CLUSTERED, PLAIN, CONNECTED, REFINED = "clustered rod", "rod", "connected", "clustered rod+refinement"


def with_communication(operators: int, inputs: int, nodes: int, ratio: float, seed: int) -> list[Point]:
    """Measure ``ratio``, feasible over ideal set, of the compared placements.

    Parameters
    ----------
    operators, inputs, nodes
        Numbers of operators and inputs of the graph, and of nodes of equal capacity.
    ratio
        Ratio of the cost of sending a tuple to that of processing it.
    seed
        Seed of all random draws.
    """
    rng = np.random.default_rng([seed, operators])
    graph = [replace(operator, cost=COST) for operator in random_trees(operators, inputs, rng)]
    model = linearised(graph, ratio * COST)
    load, capacity = model.load, np.ones(nodes)
    clustered = clustered_rod(load, capacity, model.arcs).assignment
    placed = {
        CLUSTERED: clustered,
        PLAIN: rod(load, capacity),
        CONNECTED: connected(load, capacity, random_rates(model, capacity, rng), model.arcs),
        REFINED: refine(load, capacity, clustered, arcs=model.arcs),
    }
    return [
        Point(ratio, _label(name, operators), "ratio", float(feasible_ratio(load, capacity, each, arcs=model.arcs)))
        for name, each in placed.items()
    ]


def _label(name: str, operators: int) -> str:
    return f"{name}, {operators} operators"


def _over(points: Sequence[Point]) -> Iterator[Point]:
    found = {(point.x, point.algorithm): point.value for point in points}
    for (x, algorithm), value in found.items():
        name, _, operators = algorithm.partition(", ")
        if name == CLUSTERED:
            for other in (PLAIN, CONNECTED):
                theirs = found[x, f"{other}, {operators}"]
                if theirs > 0.0:
                    yield Point(x, operators, f"over {other}", value / theirs)


def _cells(setup: Setup) -> Iterator[Cell]:
    for operators in cast("tuple[int, ...]", setup["operators"]):
        for ratio in cast("tuple[float, ...]", setup["ratios"]):
            yield Cell(with_communication, (operators, setup["inputs"], setup["nodes"], ratio))


def _checks(measured: Measured, setup: Setup) -> Iterator[Check]:
    sizes = cast("tuple[int, ...]", setup["operators"])
    ratios = cast("tuple[float, ...]", setup["ratios"])

    def larger(one: tuple[float, str, int], other: tuple[float, str, int]) -> Decision | None:
        """Whether the gain over an algorithm is larger with one cost and size than with another."""
        first, second = ((ratio, f"{size} operators", f"over {than}") for ratio, than, size in (one, other))
        more = measured.paired(first, second, lambda ours, theirs: ours - theirs)
        return None if more is None else more.above()

    for one, other, name, says in (
        (CLUSTERED, CONNECTED, "clustered ROD above Connected", "consistently, whatever communication costs"),
        (REFINED, CLUSTERED, "beyond the paper: refinement above clustered ROD", "our aim"),
    ):
        above = [(f"{x:g} {size}", measured.higher(x, _label(one, size), _label(other, size), "ratio"))
                 for size in sizes for x in ratios]  # fmt: skip
        check = at_all(name, says, above)
        yield own(check) if one == REFINED else check
    says = "clustering more important as communication costs more"
    for size in sizes:
        rises = [(more, larger((more, PLAIN, size), (less, PLAIN, size))) for less, more in pairwise(ratios)]
        yield at_all(f"gain over ROD without clusters rises with every cost, {size} operators", says, rises)
    fewest, many = sizes[0], sizes[-1]
    more = [(x, larger((x, CONNECTED, many), (x, CONNECTED, fewest))) for x in ratios if fewest < many]
    says = "increasingly better with more operators an input"
    yield at_all(f"gain over Connected: larger with {many} operators than with {fewest}", says, more)


_R5: Final = Claim(
    id="R5",
    title="clusters of operators where communication costs something",
    source="ROD, VLDB 2006, 7.3.4, figure 17",
    says="clustering becomes more important as communication costs more; clustered ROD is consistently better than "
    "Connected, increasingly so with more operators an input",
    parameters={
        "operators": wholes("operators, over all trees", (50, 100, 200)),
        "inputs": whole("input streams", 5),
        "nodes": whole("nodes, of equal capacity", 10),
        "ratios": numbers(
            "cost of communication over that of processing, a tuple",
            (0.0, 0.2, 0.5, 1.0),
            (0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        ),
    },
    cells=_cells,
    checks=_checks,
    panels=(
        Panel("ratio", "feasible set over the ideal one", logarithmic=True),
        Panel(f"over {PLAIN}", "clustered ROD over ROD without clusters"),
        Panel(f"over {CONNECTED}", "clustered ROD over Connected"),
    ),
    xlabel="communication cost over processing cost",
    derive=_over,
    repeat=(4, 10),
    shares=("ratio",),
)

CLAIMED: Final = (_R5,)
