"""C5, C6, C7: delay and success as the number of requests grows (section 2.4.2, figures 2.14 to 2.16).

All three readings of a request's limit are run (:mod:`~synergy_experiments.worlds.sweeps`), and each check names its
reading; ``light`` marks 100 requests with the processing times with which Greedy and Random overload no peer.

C7 also has the share of the requests that some placement on idle peers would serve (*no placement serves more*), which
nobody can exceed.

Findings
--------
Numbers are those of the stored results: ten networks, with 100 to 500 requests.

*C5.* With limits over the mean placement, Synergy's delay is nearly constant (603, 601, 606, 610 and 614 ms), and the
least of all policies at every load; Composition's grows from 883 to 1174 ms. By all three readings Synergy's rises from
100 to 500 requests, by 2 to 10 %: the paper's slight decline is not found. With the lower processing times (4 %), no
policy overloads a peer in any network, and there is no queueing to avoid: Synergy, which balances loads, takes 529 ms,
Composition, which chooses by delay, 445, and Synergy by delay 434.

Composition with projection, of figure 2.15, is faster than Synergy at every load with limits over the least placement
or the least projected time (349 against 416 ms with 500 requests and the former), as it admits fewer and shorter
requests: .18 to .33 of them where Synergy admits .55 to .67. Relative to the time of each request in isolation it is
slower.

*Random* and *Greedy* check nothing, so they overload peers. The delay of the tuples of an overloaded peer grows with
the observed time, so their means show only that there is no steady state (queues are limited to a minute of work here).
*Composition* admits up to the last hundredth of a peer's capacity, where queueing dominates.

*C6.* The gain of projection alone grows with the load, as in the paper: from 23 to 25 % with 100 requests ("only 8 %"
in the paper, where peers are loaded less) to 44 to 48 % with 500, where Composition fills its peers (42 %). The growth
is .19 to .26, where the paper's is .34; half of it is there at 200 requests (34 to 37 %).

*C7.* With limits over the mean placement, Synergy serves nearly all requests, 99 % at each load, since most of them
run already, entirely or in part, and running streams are not computed again. Without sharing, no policy can serve 500
requests: by Zipf's law with exponent 1.6, nearly half of them ask for the same query, whose components have five
replicas. With 30 % slack over the least placement, Synergy serves 49 and 58 %, the others at most 27 and 13 %: few of
the random paths that are probed are fast enough, as in C9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

from synergy_experiments.framework.claim import Cell, Check, Claim, metric_of
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Parameter, Setup, several, wholes
from synergy_experiments.framework.verdicts import at_all, at_least, near, reduction, threshold
from synergy_experiments.worlds.sweeps import (
    LIGHT,
    LIGHTER,
    READINGS,
    SIMULATED,
    WORDS,
    algorithms,
    cells,
    not_overloaded,
    others,
    panels,
    readings,
)
from synergy_nb.algorithms.composition import POLICIES

__all__ = ["CLAIMED"]

PROJECTION: Final = "composition+projection"

_LOADS: Final[dict[str, Parameter]] = {
    **SIMULATED,
    "requests": wholes("requests", (100, 300), (100, 200, 300, 400, 500)),
    **LIGHTER,
    "algorithms": several("policies compared", tuple(POLICIES)),
}


def _cells(setup: Setup) -> Iterator[Cell]:
    plain = {name: value for name, value in setup.items() if name != "light"}
    requests = cast("tuple[int, ...]", setup["requests"])
    yield from cells(plain, "requests", requests, oracle=True)
    lighter = cells(setup, "requests", requests[:1], oracle=True)
    yield from (cell for cell in lighter if LIGHT in cell.reading or LIGHT in cell.arguments)


def _light_too(setup: Setup) -> Iterator[tuple[str, str]]:
    """Yield each reading of the limits, without and with the lower processing times, and its words."""
    for reading in readings(setup):
        for name in ("", LIGHT):
            yield f"{reading}{name}", f"{WORDS[reading]}{name}"


def _delays(measured: Measured, setup: Setup) -> Iterator[Check]:
    for reading, words in _light_too(setup):
        metric = metric_of("delay", reading)
        loads = measured.xs(metric, "synergy")
        for other in [*others(setup), *(each for each in algorithms(setup) if each == PROJECTION)]:
            lowest = [(load, measured.lower(load, "synergy", other, metric)) for load in loads]
            yield at_all(f"Synergy's delay is below {other}'s, {words}", "lowest at every load", lowest)
            if POLICIES[other].enforce:  # the others refuse nobody, so they run the same requests at each load
                relative = [(load, measured.lower(load, "synergy", other, metric_of("relative_delay", reading)))
                            for load in loads]  # fmt: skip
                name = f"Synergy's delay is below {other}'s, each relative to its request's time in isolation, {words}"
                yield at_all(name, "lowest at every load", relative)
        if len(loads) < 2:
            continue
        ends = ((loads[-1], "synergy", metric), (loads[0], "synergy", metric))
        grown = measured.paired(*ends, lambda last, first: last / first - 1.0)
        name = f"growth of Synergy's delay from {loads[0]} to {loads[-1]} requests, {words}"
        yield near(name, 0.0, grown, 0.1, 0.25)
        if LIGHT not in reading:
            falls = [(f"{loads[-1]} requests", None if grown is None else grown.below())]
            yield at_all(f"Synergy's delay is below that at {loads[0]} requests, {words}", "slight decline", falls)
    yield not_overloaded(measured, setup)


def _gains(points: Sequence[Point]) -> Iterator[Point]:
    """Yield the reduction of delay by projection alone, within a repetition."""
    found = {(x, policy, metric): value for x, policy, metric, value in points if metric.startswith("delay (")}
    for (x, policy, metric), delay in found.items():
        without = found.get((x, "composition", metric))
        if policy == PROJECTION and without:
            yield Point(x, "projection", metric.replace("delay", "gain"), 1.0 - delay / without)


_PAPER_GAINS: Final = {100: 0.08, 500: 0.42}


def _gain(measured: Measured, setup: Setup) -> Iterator[Check]:
    for reading in readings(setup):
        metric = metric_of("gain", reading)
        for load, gain in _PAPER_GAINS.items():
            name = f"delay saved by projection alone at {load} requests, {WORDS[reading]}"
            yield reduction(name, gain, measured.estimate(load, "projection", metric))
            alike = measured.gain(load, PROJECTION, "composition", metric_of("relative_delay", reading))
            yield reduction(f"{name}, delays relative to the time in isolation", gain, alike)
        least, most = min(_PAPER_GAINS), max(_PAPER_GAINS)
        ends = ((most, "projection", metric), (least, "projection", metric))
        more = measured.paired(*ends, lambda many, few: many - few)
        name = f"the gain at {most} requests is above that at {least}, {WORDS[reading]}"
        yield threshold(reduction(name, _PAPER_GAINS[most] - _PAPER_GAINS[least], more), "8 %, and 42 %")


def _success(measured: Measured, setup: Setup) -> Iterator[Check]:
    for reading, words in _light_too(setup):
        metric = metric_of("success", reading)
        loads = measured.xs(metric, "synergy")
        for other in others(setup):
            best = [(load, measured.not_above((load, other, metric), (load, "synergy", metric))) for load in loads]
            name = f"Synergy serves no fewer requests than {other}, {words}"
            yield at_all(name, "best at every load", best)
        least = measured.over_repetitions(_worst, metric)
        name = f"success of Synergy at the worst load, {words}"
        yield threshold(at_least(name, 0.95, least, 0.0, direction=0.9), "very high")
        for policy in ("random", "greedy"):
            found = ((load, measured.estimate(load, policy, metric)) for load in loads)
            poor = [(load, share.below(0.5)) for load, share in found if share is not None]
            yield at_all(f"{policy} serves less than half, {words}", "poor", poor)


def _worst(measured: Measured, metric: str) -> float | None:
    """Return the least success of Synergy over all loads."""
    return min((value for _, value in measured.course("synergy", metric)), default=None)


_DELAY: Final = panels("delay", "mean end-to-end delay (ms)", factor=1e3, logarithmic=True)
_SUCCESS: Final = panels("success", "served within QoS (%)", factor=100.0)
_LIGHT_DELAY: Final = tuple(each for each in panels("delay", "mean end-to-end delay (ms)", lighter=True, factor=1e3)
                            if LIGHT in each.metric)  # fmt: skip
_LIGHT_SUCCESS: Final = tuple(each for each in panels("success", "served within QoS (%)", lighter=True, factor=100.0)
                              if LIGHT in each.metric)  # fmt: skip
_ADMITTED: Final = panels("admitted", "admitted (%)", factor=100.0)

CLAIMED: Final = (
    Claim(
        id="C5",
        title="average delay as load grows",
        source="dissertation 2.4.2, figure 2.14",
        says="Synergy lowest at every load and flat, even slightly falling",
        parameters=_LOADS,
        cells=_cells,
        checks=_delays,
        panels=(*_DELAY, *_ADMITTED, *_LIGHT_DELAY),
        xlabel="requests",
        repeat=(3, 10),
        shares=("success*", "admitted*", "on_time*", "strict success"),
    ),
    Claim(
        id="C6",
        title="what QoS projection alone saves",
        source="dissertation 2.4.2, figure 2.15",
        says="Composition + projection against Composition: 8 % less delay at 100 requests, 42 % less at 500",
        parameters={**_LOADS, "requests": wholes("requests", (100, 500), (100, 200, 300, 400, 500))},
        cells=_cells,
        checks=_gain,
        panels=(*panels("gain", "delay saved (%)", factor=100.0), *_DELAY),
        xlabel="requests",
        derive=_gains,
        paper=tuple(Point(load, "projection", metric_of("gain", reading), gain)
                    for load, gain in _PAPER_GAINS.items() for reading in READINGS),
        repeat=(3, 10),
    ),
    Claim(
        id="C7",
        title="requests served within their QoS as load grows",
        source="dissertation 2.4.2, figure 2.16",
        says="Synergy best, with very high success rates; Random and Greedy poor",
        parameters=_LOADS,
        cells=_cells,
        checks=_success,
        panels=(*_SUCCESS, *_LIGHT_SUCCESS, *panels("on_time", "tuples on time (%)", factor=100.0)),
        xlabel="requests",
        repeat=(3, 10),
        shares=("success*", "admitted*", "on_time*", "strict success"),
    ),
)  # fmt: skip
