"""P3: cost of one prediction (section 3.5, figure 3.20).

At each component of the top-k monitor, the next rate is predicted from those that its tuples carry. The execution time
of its application is predicted from that rate, and so is the load of its node, which is regressed in the same way
(section 3.4.2). Then the measurements are added. The measured time is that of all three on this machine's clock; the
dissertation measured it on hosts of 2006. A component further downstream has more predecessors and therefore takes
longer.

Findings
--------
The times of the dissertation increase with what seems to be the number of predecessors, if ``sort`` is the first and
``compare`` the last of its components. So do ours, from 11 µs with one predecessor to 17 µs with six: a fortieth of its
times, a part of which is the progress of machines.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Estimate, Measured, Point, mean_of_known
from synergy_experiments.framework.parameters import Setup, whole
from synergy_experiments.framework.verdicts import at_all, at_least, own
from synergy_experiments.worlds.carried_rates import COMPONENTS
from synergy_experiments.worlds.total_rates import TotalRate
from synergy_nb.models.execution_times import ExecutionTimes
from synergy_nb.models.rate_combination import CombinedRate
from synergy_nb.models.rate_prediction import CorrelatedRate, RatePredictor

__all__ = ["CLAIMED", "predicting"]

PAPER: Final = {"sort": 0.133, "project": 0.327, "aggregate": 0.509, "count": 0.836, "compare": 1.187}  # ms
MEAN: Final = 0.5984
WHOLE: Final = "all three"
LITERAL: Final = "all three, equation 3.6 alone"
GOAL: Final = 0.020  # ms


def predicting(component: str, applications: int, predictions: int, seed: int) -> list[Point]:
    """Measure the median time of a prediction at a component in ms, with the rates of random packets.

    Parameters
    ----------
    component
        Component of the monitor; its predecessors are the components before it.
    applications
        Number of applications at its node.
    predictions
        Number of measured predictions.
    seed
        Seed of the rates.
    """
    rng = np.random.default_rng([seed, 41])
    ancestors = ("source", *COMPONENTS[: COMPONENTS.index(component)])[::-1]
    rates = [rng.poisson(250.0, predictions)]
    for _ in ancestors:
        rates.append(rng.binomial(rates[-1], 0.9))
    own = rates[-1].astype(np.float64).tolist()
    carried = [dict(zip(ancestors, map(float, each), strict=True)) for each in zip(*reversed(rates[:-1]), strict=True)]
    seconds = (0.01 + 1e-5 * rates[-1] + rng.exponential(1e-3, predictions)).tolist()
    points = []
    for name, predictor in ((WHOLE, CombinedRate(ancestors)), (LITERAL, CorrelatedRate(ancestors))):
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
    for component in COMPONENTS:
        yield Cell(predicting, (component, setup["applications"], setup["predictions"]), alone=True)


def _checks(measured: Measured, _: Setup) -> Iterator[Check]:
    ours = {component: measured.estimate(component, WHOLE, "time") for component in COMPONENTS}
    for component, paper in [*PAPER.items(), ("mean", MEAN)]:
        found = measured.over_repetitions(_mean_time) if component == "mean" else ours[component]
        less = None if found is None else Estimate.of([paper - each for each in found.values], found.missing)
        check = at_least(f"time of a prediction in ms: {component}", 0.0, less, 0.0)
        if found is not None:
            check = check._replace(paper=paper, ours=found.value, low=found.low, high=found.high)
        yield check._replace(rule="holds where the interval of ours is not above it")
    known = [(component, found) for component, found in ours.items() if found is not None]
    yield own(
        at_all(
            f"beyond the paper: a prediction takes at most {1000 * GOAL:g} µs",
            "suitable for online prediction",
            [(component, found.at_most(GOAL)) for component, found in known],
        )
    )
    if known:
        first, last = ((known[place][0], WHOLE, "time") for place in (0, -1))
        longer = measured.paired(last, first, lambda longest, shortest: longest - shortest)
        rising = [("the last against the first component", None if longer is None else longer.above())]
        yield at_all("components with more predecessors take longer", "sort least, compare most", rising)


def _mean_time(measured: Measured) -> float | None:
    return mean_of_known(measured.mean(component, WHOLE, "time") for component in PAPER)


_P3: Final = Claim(
    id="P3",
    title="time of a prediction",
    source="dissertation 3.5, figure 3.20",
    says="rate, execution time and load are predicted within 0.133 ms (sort), 0.327 (project), 0.509 (aggregate), "
    "0.836 (count), 1.187 (compare); 0.5984 ms on average",
    parameters={
        "applications": whole("applications at the node", 10),
        "predictions": whole("predictions at a component", 5000, 50_000, least=100),
    },
    cells=_cells,
    checks=_checks,
    panels=(Panel("time", "time of a prediction (ms)", "bars", logarithmic=True),),
    xlabel="component",
    paper=[Point(component, WHOLE, "time", value) for component, value in PAPER.items()],
    repeat=(3, 5),
)

CLAIMED: Final = (_P3,)
