"""B2: errors of predicted execution times (section 3.5, figures 3.11-3.17, which have no numbers).

Applications share a node, first come, first served. Each receives the packets of some hosts of a generated stream, with
a stated processing time. For each arriving tuple, the execution time is predicted from the total rate of the node at
that moment, by the line through the times of the tuples that have left (equation 3.4): in both readings of the rate of
a pair, with and without the confidence test, and by the last measurement.

Findings
--------
Up to a load of 0.6 the line is 10 to 20 % better than the last measurement, although times and rates are hardly
correlated there (0.1), because it averages. At 0.8 the correlation is 0.5, as the dissertation states for significant
rates, but bursts exceed the capacity for seconds, times grow while the rate is constant, and the last measurement is as
good. Therefore :meth:`.ExecutionTimes.predict` uses the load as well. The two readings of r_t differ at high load: at
0.8, the rates since the last tuple of the same application give a third more error than all rates.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Setup, number, numbers, whole
from synergy_experiments.framework.verdicts import at_all, monotone, own
from synergy_experiments.worlds.total_rates import TotalRate
from synergy_nb import traces
from synergy_nb.models.execution_times import ExecutionTimes, confidence_level

__all__ = ["CLAIMED", "departures", "executed"]

Array = npt.NDArray[np.float64]

ALL_RATES: Final = "line over all rates"
LITERAL: Final = "line over rates since the last tuple"
TRUSTED: Final = "the former, whatever its confidence"
LAST: Final = "last measurement"


def executed(load: float, applications: int, rate: float, seconds: float, limit: float, seed: int) -> list[Point]:
    """Measure the errors of predicted execution times at a node of a stated mean load.

    Parameters
    ----------
    load
        Mean load of the node.
    applications
        Number of applications that share it.
    rate
        Mean packets/s of all.
    seconds
        Duration of the stream.
    limit
        End-to-end limit of each application in seconds, by which the confidence level is set.
    seed
        Seed of the packets.
    """
    table = traces.table({"connector": "packets", "seed": seed, "rate": rate, "duration": seconds, "hosts": 200})
    times = table["time"].to_physical().to_numpy() / 1e6
    arrived = times - times[0]
    of = (table["source"].rank("dense").to_numpy().astype(np.int64) % applications).tolist()
    cost = load * arrived[-1] / len(arrived)
    left = departures(arrived, cost)
    actual = left - arrived
    predicted = {name: np.empty(len(arrived)) for name in (ALL_RATES, LITERAL, TRUSTED, LAST)}
    by_line = 0
    readings = {ALL_RATES: TotalRate(), LITERAL: TotalRate(literal=True)}
    series = {name: [ExecutionTimes(floor=cost) for _ in range(applications)] for name in readings}
    recent: list[deque[float]] = [deque() for _ in range(applications)]
    executing: deque[tuple[int, float, float]] = deque()
    totals = np.empty(len(arrived))
    for k, now in enumerate(arrived.tolist()):
        own = of[k]
        recent[own].append(now)
        for each in recent:
            while each and each[0] <= now - 1.0:
                each.popleft()
        for application, each in enumerate(recent):
            readings[ALL_RATES].rates[f"{application}"] = float(len(each))
        rates = {name: reading.processed(f"{own}", float(len(recent[own]))) for name, reading in readings.items()}
        totals[k] = rates[ALL_RATES]
        while executing and left[executing[0][0]] <= now:
            done, total, literal = executing.popleft()
            series[ALL_RATES][of[done]].observe(total, float(actual[done]))
            series[LITERAL][of[done]].observe(literal, float(actual[done]))
        executing.append((k, rates[ALL_RATES], rates[LITERAL]))
        level = confidence_level(limit, rates[ALL_RATES])
        found = series[ALL_RATES][own].predict(rates[ALL_RATES], level)
        by_line += found.basis == "line"
        predicted[ALL_RATES][k] = found.seconds
        predicted[LITERAL][k] = series[LITERAL][own].predict(rates[LITERAL], level).seconds
        predicted[TRUSTED][k] = series[ALL_RATES][own].predict(rates[ALL_RATES], math.inf).seconds
        last = series[ALL_RATES][own].last
        predicted[LAST][k] = cost if last is None else last
    warm = arrived >= min(10.0, arrived[-1] / 4.0)
    points = []
    for name, seconds_ in predicted.items():
        off = np.abs(seconds_[warm] - actual[warm])
        points.append(Point(load, name, "error", float((off / actual[warm]).mean())))
        points.append(Point(load, name, "weighted error", float(off.sum() / actual[warm].sum())))
    points.append(Point(load, ALL_RATES, "share of lines", by_line / len(arrived)))
    points.append(Point(load, "all tuples", "correlation", float(np.corrcoef(totals[warm], actual[warm])[0, 1])))
    return points


def departures(arrived: Array, cost: float) -> Array:
    """Return the times at which tuples leave, first come, first served.

    Parameters
    ----------
    arrived
        Times of arrival, seconds, ascending.
    cost
        Processing time of a tuple, seconds.
    """
    steps = cost * np.arange(1, len(arrived) + 1)
    return np.asarray(np.maximum.accumulate(arrived - steps + cost) + steps)


def _cells(setup: Setup) -> Iterator[Cell]:
    loads = setup["loads"]
    assert isinstance(loads, tuple)
    for load in loads:
        rest = (setup[each] for each in ("applications", "rate", "seconds", "limit"))
        yield Cell(executed, (load, *rest))


def _checks(measured: Measured, _: Setup) -> Iterator[Check]:
    loads = measured.xs("weighted error", ALL_RATES)
    for name, paper, other, factor in (
        ("the line is no worse than the last measurement", "last measured value is not an accurate predictor",
         LAST, 1.0),
        ("the confidence test does no harm", "inaccurate predictions are detected", TRUSTED, 1.02),
        ("all rates are no worse than those since the last tuple", "the reading taken", LITERAL, 1.02),
    ):  # fmt: skip
        error = "weighted error"
        points = [(x, measured.not_above((x, ALL_RATES, error), (x, other, error), factor)) for x in loads]
        check = at_all(f"{name}, by weighted error", paper, points)
        yield own(check) if other == LITERAL else check
    changes = measured.changes("all tuples", "correlation")
    yield monotone("times and total rates are more correlated the higher the load", "most evident", changes, 1.0)


_B2: Final = Claim(
    id="B2",
    title="error of predicted execution times",
    source="dissertation 3.5, figures 3.11-3.17",
    says="predicted times follow the measured ones; where they are inaccurate, that is detected and the last "
    "measurement reported; the relationship to the rate is linear, most evidently when the rate is significant",
    parameters={
        "loads": numbers("mean loads of the node", [0.2, 0.4, 0.6, 0.8], least=0.01, most=0.95),
        "applications": whole("applications at the node", 4),
        "rate": number("packets/s of all applications", 250.0, least=1.0),
        "seconds": number("duration of the stream", 60.0, 300.0, least=20.0),
        "limit": number("seconds of the applications' limit", 0.5, least=0.001),
    },
    cells=_cells,
    checks=_checks,
    panels=(
        Panel("weighted error", "sum of errors / sum of times", "lines"),
        Panel("error", "mean relative error", "lines"),
        Panel("correlation", "correlation of time and total rate", "lines"),
    ),
    xlabel="load",
    repeat=(3, 10),
)

CLAIMED: Final = (_B2,)
