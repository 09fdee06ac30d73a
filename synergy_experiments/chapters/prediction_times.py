"""P3: cost of one prediction (section 3.5, figure 3.20).

At each component of the top-k monitor, the next rate is predicted from those that its tuples carry. The execution time
of its application is predicted from that rate, and so is the load of its node, which is regressed in the same way
(section 3.4.2). Then the measurements are added. The measured time is that of all three on this machine's clock, with
the rates predicted by equation 3.6 as in the dissertation; the predictor of this platform is measured beside it.

The dissertation measured on hosts of 2006, so its times are no more than an upper bound for any processor of today, and
are not compared. What can be compared is how the time grows with the predecessors of a component. Its times rise from
sort over project, aggregate and count to compare, which is not the order of the components in its figure 1.1. So there
are two readings: the predecessors of the figure, where sort has four and project two, and those of the table, as if
sort came first. The second reading puts the components in the order of the paper's times, so its checks are marked as
fitted.

Findings
--------
A prediction takes longer with each predecessor in either order, but much less so than in the dissertation: compare
takes 1.2 times as long as sort in the order of the figure, and 1.6 times in that of the table, where the dissertation
has 8.9 times. Most of our time is that of the two regressions, which is the same everywhere; what grew so much on its
hosts, it does not say. The combination takes three to four times as long as equation 3.6, mostly for the regression of
rates: the price of errors that are hardly ever above those of the last value (claim P1). Peers predict each rate about
once a second.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel, metric_of
from synergy_experiments.framework.measurements import Coordinate, Decision, Measured, Point, both, mean_of_known
from synergy_experiments.framework.parameters import Setup, whole
from synergy_experiments.framework.verdicts import at_all, fitted, near, not_comparable, own
from synergy_experiments.worlds.carried_rates import COMPONENTS
from synergy_experiments.worlds.total_rates import TotalRate
from synergy_nb.models.execution_times import ExecutionTimes
from synergy_nb.models.rate_combination import CombinedRate
from synergy_nb.models.rate_prediction import CorrelatedRate, RatePredictor

__all__ = ["CLAIMED", "predicting"]

PAPER: Final = {"sort": 0.133, "project": 0.327, "aggregate": 0.509, "count": 0.836, "compare": 1.187}  # ms
MEAN: Final = 0.5984
GROWTH: Final = PAPER["compare"] / PAPER["sort"]
LITERAL: Final = "equation 3.6"
COMBINED: Final = "combination"
GOAL: Final = 0.020  # ms
FIGURE: Final = "order of the figure"
TABLE: Final = "order of the table"
#: Reading to the components, each after its predecessors.
ORDERS: Final = {FIGURE: COMPONENTS, TABLE: ("filter", *PAPER)}
PROCESSOR: Final = "another processor: any of today is far faster than a host of 2006"


def predicting(component: str, order: str, applications: int, predictions: int, seed: int) -> list[Point]:
    """Measure the median time of a prediction at a component in ms, with the rates of random packets.

    Parameters
    ----------
    component
        Component of the monitor; its predecessors are the components before it.
    order
        Order of the components, from :data:`ORDERS`.
    applications
        Number of applications at its node.
    predictions
        Number of measured predictions.
    seed
        Seed of the rates.
    """
    rng = np.random.default_rng([seed, 41])
    components = ORDERS[order]
    ancestors = ("source", *components[: components.index(component)])[::-1]
    rates = [rng.poisson(250.0, predictions)]
    for _ in ancestors:
        rates.append(rng.binomial(rates[-1], 0.9))
    own = rates[-1].astype(np.float64).tolist()
    carried = [dict(zip(ancestors, map(float, each), strict=True)) for each in zip(*reversed(rates[:-1]), strict=True)]
    seconds = (0.01 + 1e-5 * rates[-1] + rng.exponential(1e-3, predictions)).tolist()
    points = []
    for name, predictor in ((LITERAL, CorrelatedRate(ancestors)), (COMBINED, CombinedRate(ancestors))):
        found = _timed(predictor, carried, own, seconds, applications)
        points.append(Point(component, name, "time", statistics.median(found) * 1e3))
        points.append(Point(component, name, "time, 99 %", sorted(found)[len(found) * 99 // 100] * 1e3))
    return points


def _timed(
    rates: RatePredictor, carried: list[dict[str, float]], own: list[float], seconds: list[float], applications: int
) -> list[float]:
    total, times, loads = TotalRate(), ExecutionTimes(), ExecutionTimes()
    for number in range(applications - 1):
        total.processed(f"other {number}", 100.0)
    found = []
    for now, rate, took in zip(carried, own, seconds, strict=True):
        began = time.perf_counter()
        expected = rates.predict(now)
        rates.observe(rate, now)
        measured = total.processed("own", rate)
        times.observe(measured, took)
        loads.observe(measured, measured * took)
        predicted = measured - rate + expected.rate
        times.predict(predicted, 1e-4)
        loads.predict(predicted, math.inf)
        found.append(time.perf_counter() - began)
    return found


def _cells(setup: Setup) -> Iterator[Cell]:
    for order, components in ORDERS.items():
        for component in components:
            arguments = (component, order, setup["applications"], setup["predictions"])
            yield Cell(predicting, arguments, alone=True, reading=order)


def _checks(measured: Measured, _: Setup) -> Iterator[Check]:
    for component, paper in [("mean", MEAN), *PAPER.items()]:
        components = tuple(PAPER) if component == "mean" else (component,)
        found = measured.over_repetitions(_mean_time, components)
        yield not_comparable(f"time of a prediction in ms: {component}", paper, found, PROCESSOR, "ms")
    for order in ORDERS:
        metric = metric_of("time", order)
        rising = [
            (f"{after} over {before}", _longer(measured, metric, after, before)) for before, after in pairwise(PAPER)
        ]
        statement = f"times rise from each of sort, project, aggregate, count and compare to the next, {order}"
        least = both(*(_longer(measured, metric, other, "sort") for other in PAPER if other != "sort"))
        most = both(*(_longer(measured, metric, "compare", other) for other in PAPER if other != "compare"))
        ends_of_order = [("sort least", least), ("compare most", most)]
        ends = (("compare", LITERAL, metric), ("sort", LITERAL, metric))
        growth = measured.paired(*ends, lambda longest, shortest: longest / shortest)
        for check in (
            at_all(f"a prediction takes the least time at sort and the most at compare, {order}",
                   "sort least, compare most", ends_of_order),
            at_all(statement, "0.133, 0.327, 0.509, 0.836, 1.187 ms", rising),
            near(f"time at compare over that at sort, {order}", GROWTH, growth, 2.0, 4.0, unit="times"),
        ):  # fmt: skip
            yield check if order == FIGURE else fitted(check)  # the table's order is that of the paper's times
    metric = metric_of("time", FIGURE)
    short = [
        (component, found.at_most(GOAL))
        for component in COMPONENTS
        for found in [measured.estimate(component, COMBINED, metric)]
        if found is not None
    ]
    statement = f"beyond the paper: a prediction takes at most {1000 * GOAL:g} µs with the combination"
    yield own(at_all(statement, "suitable for online prediction", short))


def _longer(measured: Measured, metric: str, one: Coordinate, other: Coordinate) -> Decision | None:
    """Whether a prediction takes longer at one component than at another, by equation 3.6."""
    found = measured.paired((one, LITERAL, metric), (other, LITERAL, metric), lambda ours, theirs: ours - theirs)
    return None if found is None else found.above()


def _mean_time(measured: Measured, components: Sequence[str]) -> float | None:
    """Return the mean time at some components by equation 3.6, in the order of the figure."""
    return mean_of_known(measured.mean(component, LITERAL, metric_of("time", FIGURE)) for component in components)


_P3: Final = Claim(
    id="P3",
    title="time of a prediction",
    source="dissertation 3.5, figure 3.20",
    says="rate, execution time and load are predicted within 0.133 ms (sort), 0.327 (project), 0.509 (aggregate), "
    "0.836 (count), 1.187 (compare); 0.5984 ms on average",
    parameters={
        "applications": whole("applications at the node", 10),
        "predictions": whole("predictions at a component", 2000, 5000, least=100),
    },
    cells=_cells,
    checks=_checks,
    panels=tuple(
        Panel(metric_of("time", order), f"time of a prediction (ms), {order}", "bars", logarithmic=True)
        for order in ORDERS
    ),
    xlabel="component",
    paper=[
        Point(component, LITERAL, metric_of("time", order), value)
        for order in ORDERS
        for component, value in PAPER.items()
    ],
    repeat=(3, 10),
)

CLAIMED: Final = (_P3,)
