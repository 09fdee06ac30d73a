"""C1 to C4: the prototype on PlanetLab (section 2.4.1, figures 2.10 to 2.13).

There are 88 peers on a wide-area network, 100 components with a replication degree of 5, requests for 2 to 4 of them, 9
a second, with popularity by Zipf's law with exponent 1.6, and a probing ratio of 10 %. The delays are those measured
between PlanetLab hosts if that matrix is available (``synergy data info planetlab-rtt``), otherwise those of a
transit-stub network. The paper does not state rates, processing times and the number of requests. Here a request needs
12 ms of processing in the mean, and 100 requests run at the same time: then Random does not overload peers, as in the
paper, where all delays were below a second.

Findings
--------
*C1.* Synergy's gain depends on the definition of the delay of an application that shares a stream. Measured from the
source to the sink, sharing saves only queueing. Measured from the shared stream on, as in the Middleware paper ("only
transmission and no processing time is required"), it saves more than the paper states, since most requests share.

*C2.* As long as peers have capacity for all requests, as in C1, Composition serves nearly as many as Synergy. With
twice the requests, it serves fewer by at least the difference in the paper.

*C3.* A request needs the same number of probes whatever the number of peers, so with as many requests a second at every
peer the overhead is linear. Synergy sends half as many probes as Composition. Our Random probes only the components
that it chooses; the paper's visited as many candidates as the others ("could also be tuned to allow less candidates to
be visited"), so Synergy has the lowest number only in comparison with Composition.

*C4.* The times are those of messages over the network. Java, PlanetLab's loaded hosts and the checks themselves, which
made them seconds in the paper, take no virtual time. The relative gain of set-up time by sharing can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import numpy as np

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import Parameter, Setup, choice, number, numbers, several, whole, wholes
from synergy_experiments.framework.verdicts import at_all, at_least, reduction, unlike
from synergy_experiments.worlds.live_requests import live
from synergy_experiments.worlds.sweeps import SIMULATED, algorithms, scenario, simulated
from synergy_nb.traces import datasets

__all__ = ["CLAIMED", "delays"]

MATRIX: Final = "planetlab-rtt"
PEERS: Final = 88
RATE: Final = 9.0  # requests a second at 88 peers
REFERENCE: Final = 100  # number of requests of the comparison

_PROTOTYPE: Final[dict[str, Parameter]] = {
    **SIMULATED,
    "peers": whole("peers", PEERS, least=2),
    "driver": choice("what runs the peers: the simulator, or Dask workers on this machine", ["simulator", "dask"]),
    "dask_peers": whole("number of peers on Dask workers, with a load in proportion", 32, least=2),
    "network": choice("delays between peers: measured, if the matrix is available, or of a transit-stub network",
                      ["measured", "transit-stub"]),
    "components": whole("unique components", 100),
    "operators": wholes("least and greatest number of operators of a query", (2, 4), count=2),
    "costs": numbers("least and greatest processing time in seconds", (0.002, 0.006), least=1e-9, count=2),
    "algorithms": several("policies compared", ("synergy", "composition+projection", "composition", "greedy", "random"),
                          ("synergy", "composition", "random")),
}  # fmt: skip


def delays(setup: Setup) -> str:
    """Path of the matrix of measured delays; empty where the network is generated."""
    path = datasets.find(MATRIX).path
    return path if path is not None and setup["network"] == "measured" else ""


def _at(setup: Setup, place: int, **changes: Any) -> Iterator[Cell]:
    """Yield a cell for each policy at one point of a figure; on Dask with fewer peers and the same load each."""
    real = setup["driver"] == "dask"
    chosen: dict[str, Any] = {**setup, **changes}
    if real:
        share = min(1.0, chosen["dask_peers"] / chosen["peers"])
        for name in ("peers", "requests", "components"):
            chosen[name] = max(1, round(chosen[name] * share))
        chosen["arrivals"] *= share
    for policy in algorithms(setup):
        given = scenario(chosen, delays=delays(setup), equal=True, policy=policy)
        yield Cell(live if real else simulated, (given,), place, policy, alone=real)


def _loads(setup: Setup) -> Iterator[Cell]:
    for requests in cast("tuple[int, ...]", setup["requests"]):
        yield from _at(setup, requests, requests=requests)


_LESS: Final = {"random": 0.45, "composition": 0.25}  # reduction of delay against each of them
_MORE: Final = {"composition": 0.27, "random": 0.37}  # additional served requests against each of them


def _against(points: Sequence[Point]) -> Iterator[Point]:
    """Compare Synergy with each of the others, within a repetition."""
    found = {(x, policy, metric): value for x, policy, metric, value in points}
    for (x, policy, metric), theirs in found.items():
        if policy == "synergy" or metric not in ("delay", "success") or not theirs:
            continue
        ours = found.get((x, "synergy", metric))
        if ours is not None:
            name, change = ("less", 1.0 - ours / theirs) if metric == "delay" else ("more", ours / theirs - 1.0)
            yield Point(x, f"against {policy}", name, change)


def _reference(measured: Measured, metric: str) -> Any:
    """Return the load of the comparison, or else the first one."""
    places = measured.xs(metric, "synergy")
    return REFERENCE if REFERENCE in places or not places else places[0]


def _delay(measured: Measured, _: Setup) -> Iterator[Check]:
    at = _reference(measured, "delay")
    for other, said in _LESS.items():
        for metric, how in (("delay", "from the source"), ("own_delay", "from the shared stream")):
            theirs = measured.values(at, other, "delay")
            ours = measured.values(at, "synergy", metric)
            gains = [1.0 - ours[number] / theirs[number] for number in ours if number in theirs]
            name = f"Synergy's delay, {how} on, against {other} with {at} requests"
            yield reduction(name, said, sum(gains) / len(gains) if gains else None)
    least = measured.mean(at, "synergy", "delay")
    below = [(at, least is not None and least < 1.0)]
    yield at_all("Synergy's delay is below a second", "less than a second", below)


def _served(measured: Measured, _: Setup) -> Iterator[Check]:
    def more(ours: float, theirs: float) -> float:
        return ours / theirs - 1.0 if theirs else math.inf

    at = _reference(measured, "success")
    for other, said in _MORE.items():
        found = measured.paired(at, "synergy", other, "success", more)
        yield at_least(f"more requests served than by {other}, of {at}", said, found, 0.05, 0.0)
        most = max(
            (gain for load in measured.xs("success", "synergy")
             if (gain := measured.paired(load, "synergy", other, "success", more)) is not None),
            default=None,
        )  # fmt: skip
        yield at_least(f"more requests served than by {other}, at the load where that is most", said, most, 0.05, 0.0)


# -- C3 ----------------------------------------------------------------------------------------------------------------


def _sizes(setup: Setup) -> Iterator[Cell]:
    """Yield cells with as many requests a second at every peer."""
    for peers in cast("tuple[int, ...]", setup["peers"]):
        share = peers / PEERS
        requests = max(1, round(cast("int", setup["requests"]) * share))
        arrivals = cast("float", setup["arrivals"]) * share
        yield from _at(setup, peers, peers=peers, requests=requests, arrivals=arrivals)


def _overhead(measured: Measured, setup: Setup) -> Iterator[Check]:
    sizes = [cast("int", size) for size in measured.xs("all_probes", "synergy")]
    for policy in algorithms(setup):
        found = [measured.mean(size, policy, "all_probes") or 0.0 for size in sizes]
        fit = _linear(sizes, found) if len(sizes) > 2 else None
        yield at_least(f"probes of {policy} against peers: r² of a line", 1.0, fit, 0.05, 0.85, unit="")
    for other in ("composition", "random"):
        lower = [
            (size, (measured.gain(size, "synergy", other, "all_probes") or 0.0) > 0.0)
            for size in sizes
            if other in algorithms(setup)
        ]
        yield at_all(f"Synergy sends fewer probes than {other}", "lowest", lower)


def _linear(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the share of the variance that a line explains."""
    return float(np.corrcoef(x, y)[0, 1] ** 2)


# -- C4 ----------------------------------------------------------------------------------------------------------------

_PAPER: Final = {"random": (240.0, 4509.0), "composition": (188.0, 4810.0), "synergy": (243.0, 3141.0)}
PARTS: Final = ("discovery", "probing", "total")


def _once(setup: Setup) -> Iterator[Cell]:
    return _at(setup, cast("int", setup["requests"]))


def _parts(points: Sequence[Point]) -> Iterator[Point]:
    for _, policy, metric, value in points:
        if metric in ("discovery", "probing", "setup"):
            yield Point("total" if metric == "setup" else metric, policy, "set-up", value)


def _times(measured: Measured, _: Setup) -> Iterator[Check]:
    yield reduction(
        "set-up of Synergy against Composition", 0.32, measured.gain("total", "synergy", "composition", "set-up")
    )
    least = [
        (other, (measured.gain("total", "synergy", other, "set-up") or 0.0) > 0.0)
        for other in ("random", "composition")
    ]
    yield at_all("Synergy sets up fastest", "fastest", least)
    probed = measured.gain("probing", "synergy", "composition", "set-up")
    yield reduction("probing of Synergy against Composition", 1.0 - 3141.0 / 4810.0, probed)
    for policy, (discovery, probing) in _PAPER.items():
        ours = measured.mean("total", policy, "set-up")
        yield unlike(f"set-up of {policy} in ms", discovery + probing, None if ours is None else 1e3 * ours,
                     "messages over the network alone; the paper's include Java on loaded hosts")  # fmt: skip


_LOADS: Final = {**_PROTOTYPE, "requests": wholes("requests", (50, 100, 200), (25, 50, 75, 100, 150, 200))}

CLAIMED: Final = (
    Claim(
        id="C1",
        title="average end-to-end delay on 88 peers",
        source="dissertation 2.4.1, figure 2.10",
        says="45 % less than Random, 25 % less than Composition, below a second",
        parameters=_LOADS,
        cells=_loads,
        checks=_delay,
        panels=(
            Panel("delay", "mean delay from the source (ms)", factor=1e3, logarithmic=True),
            Panel("own_delay", "mean delay from the shared stream (ms)", factor=1e3, logarithmic=True),
            Panel("less", "less delay from the source (%)", factor=100.0),
        ),
        xlabel="requests",
        derive=_against,
        paper=tuple(Point(REFERENCE, f"against {other}", "less", said) for other, said in _LESS.items()),
        repeat=(5, 10),
    ),
    Claim(
        id="C2",
        title="requests served within their QoS on 88 peers",
        source="dissertation 2.4.1, figure 2.11",
        says="27 % more than Composition, 37 % more than Random",
        parameters=_LOADS,
        cells=_loads,
        checks=_served,
        panels=(
            Panel("success", "served within QoS (%)", factor=100.0),
            Panel("admitted", "admitted (%)", factor=100.0),
            Panel("more", "more requests served (%)", factor=100.0),
        ),
        xlabel="requests",
        derive=_against,
        paper=tuple(Point(REFERENCE, f"against {other}", "more", said) for other, said in _MORE.items()),
        repeat=(5, 10),
    ),
    Claim(
        id="C3",
        title="probe messages against peers",
        source="dissertation 2.4.1, figure 2.12",
        says="linear in the number of peers, Synergy lowest",
        parameters={
            **_PROTOTYPE,
            "peers": wholes("peers", (20, 60, 100), (20, 40, 60, 80, 100), least=5),
            "requests": whole("requests with 88 peers; with others in proportion", 100),
            "arrivals": number("requests a second with 88 peers; with others in proportion", RATE, least=0.01),
        },
        cells=_sizes,
        checks=_overhead,
        panels=(Panel("all_probes", "probes"), Panel("probes", "probes a request")),
        xlabel="peers",
        repeat=(5, 10),
    ),
    Claim(
        id="C4",
        title="set-up time, discovery and probing",
        source="dissertation 2.4.1, table 2.13",
        says="in ms: Random 240 + 4509, Composition 188 + 4810, Synergy 243 + 3141, 32 % faster than Composition",
        parameters=_PROTOTYPE,
        cells=_once,
        checks=_times,
        panels=(Panel("set-up", "ms", "bars", 1e3),),
        xlabel="",
        derive=_parts,
        paper=tuple(
            Point(part, policy, "set-up", value / 1e3)
            for policy, (discovery, probing) in _PAPER.items()
            for part, value in zip(PARTS, (discovery, probing, discovery + probing), strict=True)
        ),
        repeat=(5, 10),
    ),
)
