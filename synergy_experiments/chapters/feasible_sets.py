"""R2, R3 and R7: size of the feasible set by algorithm (sections 7.3.1, 7.3.2 and 7.3.6).

Graphs are the random trees of section 7.1 on ten nodes; every repetition has its own graph. As in the paper, ROD runs
once on it, and the algorithms that depend on rates or chance run ten times. Sizes are shares of the ideal feasible set,
by quasi Monte Carlo, accurate to about .0002.

Findings
--------
*R2.* The order of the algorithms is the paper's at every number of operators, and the results of ROD, .09 .29 .62 .79
.85 of the ideal set, are those of an independent reference. Connected does not gain from more operators, since it fills
a node with one stream. The paper does not define its correlation-based algorithm, which was made to move operators;
ours allows an imbalance of a tenth of the average load where correlations decide. Without that, the streams of lowest
rate, whose operators are placed last, share the few nodes with remaining capacity, and the algorithm is worse than LLF
with 200 operators. Refinement adds to that: .11 .36 .76 .93 .97.

How far that is from the best placement is bounded (:mod:`~synergy_experiments.worlds.placement_bounds`). Refinement
reaches .83 of the bound with 25 operators (in ten graphs, .73 to .91), .48 with 50, .77 with 100, .94 with 150 and .97
with 200. Our aim of .98 is not reached, and not refuted: with 25 operators the search for the bound covers the heaviest
18 to 20, and each further operator takes it some 2.5 times as long. With 50 and 100 operators what is lost is lost by
the lighter half: without these, nearly all of the ideal set is in reach, and the bound by the operators at each point
lets each point have a placement of its own. Even with the least makespan at each point it would be .32 and .23 for two
graphs of 25 operators, where refinement has .13 and .10.

*R3.* Each additional input reduces the other algorithms. The paper concludes from lines through the logarithms that the
gain by an input is constant. They have an R² of at least .99 here, too, which does not say so: ROD's gain over LLF and
Random falls from 35 % with the third input to 17 and 15 % with the eighth. Over Connected it is constant at about 90 %.
Over Correlation it is 9 to 12 %, and changes by at most half of its mean in 150 repetitions.

*R7.* At an error of 10 % ROD retains nine tenths of its feasible set, and at 50 % it is the best of the paper's
algorithms. Refinement depends on the statistics: of its gain over ROD with exact ones, a fifth, half remains at 10 %
and a third at 20 %; at 50 % it is a tenth worse than ROD. Where statistics may be wrong by more than a quarter, ROD
without refinement is better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, cast

import numpy as np

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Coordinate, Decision, Estimate, Measured, Point
from synergy_experiments.framework.parameters import Parameter, Setup, numbers, several, whole, wholes
from synergy_experiments.framework.verdicts import at_all, at_least, monotone, near, own, threshold
from synergy_experiments.worlds.operator_placements import (
    ALGORITHMS,
    BALANCED,
    LITERAL,
    OTHERS,
    REFINED,
    place_by,
    random_rates,
)
from synergy_experiments.worlds.placement_bounds import most_feasible
from synergy_nb.algorithms.resilience import QueryOperator, feasible_ratio, linearised, random_trees, refine, rod

__all__ = ["BOUND", "CLAIMED", "bounded", "compared", "perturbed"]

ORDER: Final = (
    ("correlation", "llf"),
    ("correlation", "random"),
    (BALANCED, "llf"),
    (BALANCED, "random"),
    ("llf", "connected"),
    ("random", "connected"),
)
BOUND: Final = "bound of any placement"
LONG: Final = "rod+longer refinement"
#: Restarts of this search, and changes that it evaluates: some 16 times the usual.
LONGER: Final = (400, 3_000_000)
CONSTANT: Final = 0.25  # share by which a gain may change over the tail and count as constant
REACHED: Final = 0.98  # our aim: share of the bound of any placement
TAIL: Final = 3  # least number of inputs for which the paper states a line


def compared(
    x: Coordinate,
    operators: int,
    inputs: int,
    nodes: int,
    error: float,
    draws: int,
    algorithms: tuple[str, ...],
    seed: int,
) -> list[Point]:
    """Measure ``ratio``, feasible over ideal set, by algorithm, at coordinate ``x`` of the figure.

    Parameters
    ----------
    x
        Coordinate on the horizontal axis of the figure.
    operators, inputs, nodes
        Numbers of operators and inputs of the graph, and of nodes of equal capacity.
    error
        Level e of the error of the costs and selectivities that algorithms receive.
    draws
        Number of series of rates; the algorithms that depend on rates or chance make a placement for each.
    algorithms
        Some of :data:`~synergy_experiments.worlds.operator_placements.ALGORITHMS`.
    seed
        Seed of all random draws.
    """
    rng = np.random.default_rng([seed, operators, inputs])
    graph = random_trees(operators, inputs, rng)
    true = linearised(graph)
    capacity = np.ones(nodes)
    measured = linearised(perturbed(graph, error, rng))
    series = [random_rates(true, capacity, rng) for _ in range(draws)]
    points = []
    for each in algorithms:
        given = series[: 1 if each in (REFINED, "rod", LITERAL) else draws]
        placed = [place_by(each, measured, capacity, rates, rng) for rates in given]
        ratios = [feasible_ratio(true.load, capacity, placement) for placement in placed]
        points.append(Point(x, each, "ratio", float(np.mean(ratios))))
    return points


def bounded(x: Coordinate, operators: int, inputs: int, nodes: int, budget: int, seed: int) -> list[Point]:
    """Measure an upper bound of ``ratio`` for every placement of a graph, and that of a longer local search.

    The graph is that of :func:`compared` for the same seed.

    Parameters
    ----------
    x
        Coordinate on the horizontal axis of the figure.
    operators, inputs, nodes
        Numbers of operators and inputs of the graph, and of nodes of equal capacity.
    budget
        Number of placements of the heaviest operators that the search for the bound may evaluate, about; 0: neither
        this search nor the longer local search.
    seed
        Seed of the graph.
    """
    graph = random_trees(operators, inputs, np.random.default_rng([seed, operators, inputs]))
    load, capacity = linearised(graph).load, np.ones(nodes)
    points = [Point(x, BOUND, "ratio", most_feasible(load, nodes, budget))]
    if budget:
        placed = refine(load, capacity, rod(load, capacity), kicks=LONGER[0], budget=LONGER[1])
        points.append(Point(x, LONG, "ratio", float(feasible_ratio(load, capacity, placed))))
    return points


def perturbed(graph: Sequence[QueryOperator], error: float, rng: np.random.Generator) -> list[QueryOperator]:
    """Return the graph with errors: each cost and selectivity times a uniform number from 1 - e to 1 + e."""
    factors = rng.uniform(1.0 - error, 1.0 + error, (len(graph), 2))
    return [
        replace(
            operator,
            cost=cast("float", operator.cost) * float(cost),
            selectivity=cast("float", operator.selectivity) * float(selectivity),
        )
        for operator, (cost, selectivity) in zip(graph, factors, strict=True)
    ]


def _relative(points: Sequence[Point]) -> Iterator[Point]:
    own = {point.x: point.value for point in points if point.algorithm == "rod"}
    for x, algorithm, _, value in points:
        if algorithm not in ("rod", BOUND) and own.get(x):
            yield Point(x, algorithm, "relative", value / own[x])


def _over_bound(points: Sequence[Point]) -> Iterator[Point]:
    yield from _relative(points)
    bound = {point.x: point.value for point in points if point.algorithm == BOUND}
    for x, algorithm, _, value in points:
        if algorithm in ("rod", REFINED, LONG) and x in bound:
            yield Point(x, algorithm, "over bound", value / bound[x])


def _cell(setup: Setup, x: Coordinate, operators: int, inputs: int, error: float = 0.0) -> Cell:
    return Cell(compared, (x, operators, inputs, setup["nodes"], error, setup["draws"], setup["algorithms"]))


def _r2_cells(setup: Setup) -> Iterator[Cell]:
    for operators in cast("tuple[int, ...]", setup["operators"]):
        yield _cell(setup, operators, operators, cast("int", setup["inputs"]))
        searched = operators <= cast("int", setup["searched"])
        given = (operators, operators, setup["inputs"], setup["nodes"], setup["budget"] if searched else 0)
        yield Cell(bounded, given)


def _r3_cells(setup: Setup) -> Iterator[Cell]:
    for inputs in cast("tuple[int, ...]", setup["inputs"]):
        yield _cell(setup, inputs, inputs * cast("int", setup["each"]), inputs)


def _r7_cells(setup: Setup) -> Iterator[Cell]:
    for error in cast("tuple[float, ...]", setup["errors"]):
        yield _cell(setup, error, cast("int", setup["operators"]), cast("int", setup["inputs"]), error)


def _above(measured: Measured, one: str, others: Iterable[str]) -> list[tuple[str, Decision]]:
    """Return for each coordinate whether one algorithm is above others, by the interval of the difference."""
    return [
        (f"{x:g} {other}", measured.higher(x, one, other, "ratio"))
        for x in measured.xs("ratio", one)
        for other in others
        if measured.mean(x, other, "ratio") is not None
    ]


def _best(measured: Measured) -> Iterator[Check]:
    for placed, name in (("rod", "ROD"), (LITERAL, "ROD in the order of figure 10")):
        yield at_all(f"{name} above every other", "ROD best", _above(measured, placed, (*OTHERS, BALANCED)))


def _refined(measured: Measured) -> Check:
    return own(at_all("beyond the paper: refinement above ROD", "our aim", _above(measured, REFINED, ["rod"])))


def _r2_checks(measured: Measured, _: Setup) -> Iterator[Check]:
    yield from _best(measured)
    changes = measured.changes("rod", "ratio")
    yield monotone("ROD nearer to the ideal with more operators", "approaches the ideal case", changes, 1.0)
    for upper, lower in ORDER:
        says = "Correlation above LLF and Random, these above Connected"
        yield at_all(f"{upper} above {lower}", says, _above(measured, upper, [lower]))
    fewest, most = measured.xs("ratio", "rod")[:1], measured.xs("ratio", "rod")[-1:]
    for other in OTHERS if fewest != most else ():
        kept = measured.over_repetitions(_improvement_kept, other, fewest[0], most[0])
        name = f"ROD's improvement over {other} with {fewest[0]:g} operators, over that with {most[0]:g}"
        yield near(name, 1.0, kept, 0.25, 0.5, unit="")
    yield _refined(measured)
    for placed in (REFINED, LONG):
        for operators in measured.xs("over bound", placed):
            reached = measured.estimate(operators, placed, "over bound")
            name = f"beyond the paper: {placed} over the bound of any placement, {operators} operators"
            yield own(at_least(name, REACHED, reached, 0.0, 0.9))


def _improvement_kept(measured: Measured, other: str, fewest: Coordinate, most: Coordinate) -> float | None:
    """Return ROD's feasible set over another's with the fewest operators, over the same with the most."""
    few, many = (measured.mean(x, other, "relative") for x in (fewest, most))  # the other's over ROD's
    return many / few if few and many is not None else None


def _r3_checks(measured: Measured, _: Setup) -> Iterator[Check]:
    for algorithm in OTHERS:
        changes = measured.changes(algorithm, "relative")
        yield monotone(f"{algorithm} over ROD falls with every input", "ROD increasingly better", changes, -1.0)
        name = f"change of ROD's gain over {algorithm} by an input, from {TAIL} inputs to the most, over its mean"
        yield near(name, 0.0, _change_of_gain(measured, algorithm), CONSTANT, 2.0 * CONSTANT)
    yield _refined(measured)


def _change_of_gain(measured: Measured, algorithm: str) -> Estimate | None:
    """Return by which share of its mean ROD's relative gain by an input changes over the tail; 0 if it is constant.

    The gain by an input is the fall of the logarithm of the other's feasible set over ROD's. A parabola through the
    logarithms of a repetition has a gain that changes evenly.
    """
    gain = measured.over_repetitions(_fit, algorithm, 1)
    change = measured.over_repetitions(_fit, algorithm, 2)
    if gain is None or change is None or not gain.value:
        return None
    return measured.over_repetitions(lambda one: _scaled(_fit(one, algorithm, 2), gain.value))


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale


def _fit(measured: Measured, algorithm: str, degree: int) -> float | None:
    """Return the gain by an input (degree 1), or its change from the first to the last input of the tail (2)."""
    tail = [(x, np.log(value)) for x, value in measured.course(algorithm, "relative") if x >= TAIL and value > 0.0]
    if len(tail) <= degree:
        return None
    inputs, logarithms = np.array(tail).T
    highest = float(np.polyfit(inputs, logarithms, degree)[0])
    return highest if degree == 1 else 2.0 * highest * float(inputs[-1] - inputs[0])


def _r7_checks(measured: Measured, _: Setup) -> Iterator[Check]:
    little = measured.paired((0.1, "rod", "ratio"), (0.0, "rod", "ratio"), lambda wrong, right: wrong / right)
    name = "ROD's feasible set at 10 % error over that without"
    yield threshold(near(name, 1.0, little, 0.1, 0.2), "hardly loses")
    yield from _best(measured)
    for algorithm in ("rod", *OTHERS):
        errors = [x for x, _ in measured.course(algorithm, "ratio")]
        if len(errors) < 2:
            continue
        error = errors[-1]
        ends = ((error, algorithm, "ratio"), (errors[0], algorithm, "ratio"))
        kept = measured.paired(*ends, lambda wrong, right: wrong / right)
        if algorithm == "random":
            name = f"Random's feasible set at {error:.0%} error over that without (it uses no statistics)"
            yield own(near(name, 1.0, kept, 0.1, 0.2))
        else:
            yield at_all(
                f"{algorithm} loses by errors",
                "all but Random do",
                [(error, None if kept is None else kept.below(1.0))],
            )
    yield _refined(measured)


_SHARED: Final[dict[str, Parameter]] = {
    "nodes": whole("nodes, of equal capacity", 10),
    "draws": whole("series of rates for the other algorithms, for each graph", 10),
    "algorithms": several("placements compared", ALGORITHMS),
}
_INPUTS: Final = whole("input streams", 5)
_RATIO: Final = Panel("ratio", "feasible set over the ideal one", bounds=((1.0, "ideal"),))
_OVER_ROD: Final = Panel("relative", "feasible set over ROD's", logarithmic=True)

CLAIMED: Final = (
    Claim(
        id="R2",
        title="feasible set over the ideal one by number of operators",
        source="ROD, VLDB 2006, 7.3.1, figure 14",
        says="ROD is best and approaches the ideal case as operators grow; Correlation is above LLF and Random, these "
        "are above Connected",
        parameters={
            **_SHARED,
            "inputs": _INPUTS,
            "operators": wholes("operators, over all trees", (25, 50, 100, 150, 200)),
            "searched": whole("most operators of graphs whose heaviest ones the bound enumerates", 50),
            "budget": whole("placements of the heaviest operators that are evaluated, about", 100_000, 2_000_000),
        },
        cells=_r2_cells,
        checks=_r2_checks,
        panels=(_RATIO, _OVER_ROD, Panel("over bound", "feasible set over the bound of any placement")),
        xlabel="operators",
        derive=_over_bound,
        repeat=(5, 10),
        shares=("ratio", "over bound"),
    ),
    Claim(
        id="R3",
        title="feasible set over ROD's by number of input streams",
        source="ROD, VLDB 2006, 7.3.2, figure 15",
        says="each additional input brings a constant relative gain of ROD over the others; with two inputs the few "
        "operators leave little choice",
        parameters={
            **_SHARED,
            "inputs": wholes("numbers of input streams", (2, 3, 4, 5, 6), (2, 3, 4, 5, 6, 7, 8)),
            "each": whole("operators of each tree", 20),
        },
        cells=_r3_cells,
        checks=_r3_checks,
        panels=(_OVER_ROD, _RATIO),
        xlabel="input streams",
        derive=_relative,
        repeat=(10, 40),
        shares=("ratio",),
    ),
    Claim(
        id="R7",
        title="feasible set by error of the statistics",
        source="ROD, VLDB 2006, 7.3.6, figure 19",
        says="with 100 operators ROD hardly loses at an error of 10 % and is still best at 50 %; all but Random lose "
        "as errors grow",
        parameters={
            **_SHARED,
            "inputs": _INPUTS,
            "operators": whole("operators, over all trees", 100),
            "errors": numbers(
                "levels of error of costs and selectivities",
                (0.0, 0.1, 0.25, 0.5),
                (0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
                most=1.0,
            ),
        },
        cells=_r7_cells,
        checks=_r7_checks,
        panels=(_RATIO, _OVER_ROD),
        xlabel="level of error",
        derive=_relative,
        repeat=(10, 40),
        shares=("ratio",),
    ),
)
