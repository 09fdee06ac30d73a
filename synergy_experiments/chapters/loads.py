"""C5, C6, C7: delay and success as the number of requests grows (section 2.4.2, figures 2.14 to 2.16).

Findings
--------
*C5.* Synergy's delay is constant, and the least of all policies at every load. *Random* and *Greedy* check nothing, so
they overload peers. The delay of the tuples of an overloaded peer grows with the observed time, so their means show
only that there is no steady state (queues are limited to a minute of work here). *Composition* admits up to the last
hundredth of a peer's capacity, where queueing dominates.

*C6.* The gain of projection alone grows with the load, as in the paper: small where peers are lightly loaded, about
half where Composition fills them.

*C7.* Synergy serves nearly all requests, since most of them run already, entirely or in part, and running streams are
not computed again. Without sharing, no policy can serve 500 requests: by Zipf's law with exponent 1.6, nearly half of
them ask for the same query, whose components have five replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, cast

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Parameter, Setup, several, wholes
from synergy_experiments.framework.verdicts import at_all, at_least, near, reduction
from synergy_experiments.worlds.sweeps import SIMULATED, cells, others
from synergy_nb.algorithms.composition import POLICIES

__all__ = ["CLAIMED"]

PROJECTION: Final = "composition+projection"

_LOADS: Final[dict[str, Parameter]] = {
    **SIMULATED,
    "requests": wholes("requests", (100, 300), (100, 200, 300, 400, 500)),
    "algorithms": several("policies compared", tuple(POLICIES)),
}


def _cells(setup: Setup) -> Iterator[Cell]:
    return cells(setup, "requests", cast("tuple[int, ...]", setup["requests"]))


def _delays(measured: Measured, setup: Setup) -> Iterator[Check]:
    loads = measured.xs("delay", "synergy")
    lowest = [
        (load, all((measured.gain(load, "synergy", other, "delay") or 0.0) > 0.0 for other in others(setup)))
        for load in loads
    ]
    yield at_all("Synergy's delay is the lowest", "lowest at every load", lowest)
    first, last = (measured.mean(load, "synergy", "delay") for load in (loads[0], loads[-1]))
    grown = last / first - 1.0 if first and last else None
    yield near(f"growth of Synergy's delay from {loads[0]} to {loads[-1]} requests", 0.0, grown, 0.1, 0.25)


def _gains(points: Sequence[Point]) -> Iterator[Point]:
    """Yield the reduction of delay by projection alone, within a repetition."""
    found = {(x, policy): value for x, policy, metric, value in points if metric == "delay"}
    for (x, policy), delay in found.items():
        without = found.get((x, "composition"))
        if policy == PROJECTION and without:
            yield Point(x, "projection", "gain", 1.0 - delay / without)


_PAPER_GAINS: Final = {100: 0.08, 500: 0.42}


def _gain(measured: Measured, _: Setup) -> Iterator[Check]:
    loads = measured.xs("gain", "projection")
    for load, gain in _PAPER_GAINS.items():
        yield reduction(f"delay saved by projection alone at {load} requests", gain,
                        measured.mean(load, "projection", "gain"))  # fmt: skip
    gains = [measured.mean(load, "projection", "gain") or 0.0 for load in loads]
    rising = [(load, now >= before - 0.02) for load, before, now in zip(loads[1:], gains, gains[1:], strict=False)]
    yield at_all("the gain grows with the load", "from 8 % to 42 %", rising)


def _success(measured: Measured, setup: Setup) -> Iterator[Check]:
    loads = measured.xs("success", "synergy")
    best = [
        (load, all((measured.ahead(load, "synergy", other, "success") or 0.0) >= 0.0 for other in others(setup)))
        for load in loads
    ]
    yield at_all("Synergy serves most requests", "best at every load", best)
    least = min((measured.mean(load, "synergy", "success") or 0.0 for load in loads), default=None)
    yield at_least("success of Synergy at the worst load", 1.0, least, 0.05, direction=0.9)
    for policy in ("random", "greedy"):
        shares = [measured.mean(load, policy, "success") for load in loads]
        poor = [(load, share < 0.5) for load, share in zip(loads, shares, strict=True) if share is not None]
        yield at_all(f"{policy} serves few: less than half", "poor", poor)


_DELAY: Final = Panel("delay", "mean end-to-end delay (ms)", factor=1e3, logarithmic=True)
_SUCCESS: Final = Panel("success", "served within QoS (%)", factor=100.0)
_ADMITTED: Final = Panel("admitted", "admitted (%)", factor=100.0)

CLAIMED: Final = (
    Claim(
        id="C5",
        title="average delay as load grows",
        source="dissertation 2.4.2, figure 2.14",
        says="Synergy lowest at every load and flat, even slightly falling",
        parameters=_LOADS,
        cells=_cells,
        checks=_delays,
        panels=(_DELAY, _ADMITTED),
        xlabel="requests",
        repeat=(2, 5),
    ),
    Claim(
        id="C6",
        title="what QoS projection alone saves",
        source="dissertation 2.4.2, figure 2.15",
        says="Composition + projection against Composition: 8 % less delay at 100 requests, 42 % less at 500",
        parameters={**_LOADS, "requests": wholes("requests", (100, 500), (100, 200, 300, 400, 500))},
        cells=_cells,
        checks=_gain,
        panels=(Panel("gain", "delay saved (%)", factor=100.0), _DELAY),
        xlabel="requests",
        derive=_gains,
        paper=tuple(Point(load, "projection", "gain", gain) for load, gain in _PAPER_GAINS.items()),
        repeat=(2, 5),
    ),
    Claim(
        id="C7",
        title="requests served within their QoS as load grows",
        source="dissertation 2.4.2, figure 2.16",
        says="Synergy best everywhere, near 100 %; Random and Greedy poor",
        parameters=_LOADS,
        cells=_cells,
        checks=_success,
        panels=(_SUCCESS, Panel("on_time", "tuples on time (%)", factor=100.0)),
        xlabel="requests",
        repeat=(2, 5),
    ),
)
