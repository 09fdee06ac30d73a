"""C1 to C4: the prototype on PlanetLab (section 2.4.1, figures 2.10 to 2.13).

There are 88 peers on a wide-area network, 100 components with a replication degree of 5, requests for 2 to 4 of them, 9
a second, with popularity by Zipf's law with exponent 1.6, and a probing ratio of 10 %. The delays are those measured
between PlanetLab hosts if that matrix is available (``synergy data info planetlab-rtt``), otherwise those of a
transit-stub network. The paper does not state rates, processing times and the number of requests. Here a request needs
12 ms of processing in the mean, and 100 requests run at the same time: then Random does not overload peers, as in the
paper, where all delays were below a second.

"100 components ... with a replication degree of 5" are 20 unique components, five of each, or 100 unique ones with 500
replicas; the simulations of section 2.4.2 count the first way ("1000 components ... 200 unique"). Both are run. So are
three readings of the limit of a request (C2, :mod:`~synergy_experiments.worlds.sweeps`), two of the delay of an
application that shares a stream (C1): from the source, and from the shared stream on ("for some of the requests (fully
or partially) only transmission and no processing time is required", Middleware 2006); and two of the objective of
Synergy, φ as in the text of its protocol, and the delay, as the Composition that it is compared with.

Findings
--------
*C1.* With 100 requests and ten repetitions, Synergy by φ has .42 and .38 less delay than Random (20 and 100 unique
components), and .17 and .15 less than Composition, measured from the source to the sink; the intervals of the latter
contain zero, since Composition chooses the fastest of the probed graphs, which Synergy by φ does not. Synergy by delay
has .57 and .54 less than Random, and .39 and .38 less than Composition. Measured from the shared stream on, all gains
are larger than the paper's, since most requests share.

Gains grow with the load, from 25 to 200 requests. Synergy's delay is the same at all of them, .25 s by φ and .18 s by
delay (20 unique components), while Composition's grows from .20 to .52 s, and Random's from .30 to 8.7 s. By φ Synergy
has .28 *more* delay than Composition with 25 requests, and .48 less with 200; by delay .03 and .62 less. The paper's
.45 and .25 are found together at one load: by φ between 100 and 150 requests, by delay between 75 and 100. The paper
does not state its own.

*C2.* With limits over the mean placement, Synergy serves .46 and .27 more than Composition, and .44 and .66 more than
Random. With limits over the least placement it serves twice as many as Composition and ten times as many as Random, far
more than the paper claims. So the mean is the reading that gives the paper's numbers.

What Synergy serves depends little on the load (1.00 over the mean placement, .75 to .81 over the least), what the
others serve falls from 25 to 200 requests. Over the mean placement the gain against Composition grows from none to 1.42
and 1.24, that against Random from .19 and .27 to 3.46 and 2.58. With 20 unique components both of the paper's numbers
are found between 75 requests (.07 and .26) and 100; with 100 unique components that against Composition is found at
100, that against Random between 50 (.30) and 75 (.50).

*C3.* With as many requests a second at every peer, probes are proportional to peers because requests are, so that is
not judged. With the same requests on 20 to 100 peers they do not grow at all (exponent -.02 to .02): "linearly" is not
what we find; what the paper concludes from it, that the protocol scales to more nodes, is. Random visits as many
candidates as Composition and more than Synergy, which probes for what is not shared.

*C4.* Synergy by φ sets up .20 faster than Composition, and Synergy by delay .25 faster. The times are those of messages
over the network. Java, PlanetLab's loaded hosts and the checks themselves, which made them seconds in the paper, take
no virtual time. So neither the size of the gain (.32 in the paper) can be compared, nor that discovery is only a small
part (.07 in the paper, .36 here); orders can: Synergy is the fastest, as in the paper, and Random slower than
Composition (1167 and 1071 ms), which in the paper's table it is not (4749 and 4998 ms).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel, metric_of
from synergy_experiments.framework.measurements import Decision, Measured, Point, less
from synergy_experiments.framework.parameters import Parameter, Setup, choice, number, numbers, several, whole, wholes
from synergy_experiments.framework.verdicts import at_all, near, not_comparable, own, reduction
from synergy_experiments.worlds.live_requests import live
from synergy_experiments.worlds.measured_delays import matrix_path, network
from synergy_experiments.worlds.sweeps import READINGS, SIMULATED, WORDS, algorithms, readings, scenario, simulated

__all__ = ["CLAIMED"]

PEERS: Final = 88
RATE: Final = 9.0  # requests a second at 88 peers
REFERENCE: Final = 100  # number of requests of the comparison
BY_DELAY: Final = "synergy by delay"
FIXED: Final = "fixed arrivals"
LINEAR: Final = 1.1  # largest exponent of a growth that counts as linear
PROPORTIONAL: Final = "arrivals in proportion"

_PROTOTYPE: Final[dict[str, Parameter]] = {
    **SIMULATED,
    "peers": whole("peers", PEERS, least=2),
    "driver": choice("what runs the peers: the simulator, or Dask workers on this machine", ["simulator", "dask"]),
    "dask_peers": whole("number of peers on Dask workers, with a load in proportion", 32, least=2),
    "network": network(),
    "components": wholes("unique components, each on five peers; both readings of 100 components", (20, 100)),
    "operators": wholes("least and greatest number of operators of a query", (2, 4), count=2),
    "costs": numbers("least and greatest processing time in seconds", (0.002, 0.006), least=1e-9, count=2),
    "algorithms": several("policies compared", ("synergy", BY_DELAY, "composition+projection", "composition",
                                                "composition by φ", "greedy", "random"),
                          ("synergy", BY_DELAY, "composition", "composition by φ", "random")),
}  # fmt: skip


def _uniques(setup: Setup) -> tuple[int, ...]:
    return cast("tuple[int, ...]", setup["components"])


def _at(setup: Setup, place: int, limits: Sequence[str] = (), **changes: Any) -> Iterator[Cell]:
    """Yield a cell for each policy and reading at one point of a figure; on Dask with fewer peers and the same load.

    Without ``limits`` they are relative to the mean, and no metric names that.
    """
    real = setup["driver"] == "dask"
    for unique in _uniques(setup):
        chosen: dict[str, Any] = {**setup, **changes, "components": unique}
        if real:
            share = min(1.0, chosen["dask_peers"] / chosen["peers"])
            for name in ("peers", "requests", "components"):
                chosen[name] = max(1, round(chosen[name] * share))
            chosen["arrivals"] *= share
            chosen["replication"] = min(chosen["replication"], chosen["peers"])
        for limit in limits or READINGS[:1]:
            reading = _reading(unique, limit if limits else "")
            for policy in algorithms(setup):
                given = scenario(chosen, delays=matrix_path(setup), equal=True, policy=policy, isolated=limit)
                yield Cell(live if real else simulated, (given,), place, policy, alone=real, reading=reading)


def _reading(unique: int, limit: str = "") -> str:
    return f"{unique} unique" + (f", {limit}" if limit else "")


def _loads(setup: Setup) -> Iterator[Cell]:
    for requests in cast("tuple[int, ...]", setup["requests"]):
        yield from _at(setup, requests, requests=requests)


def _loads_by_limit(setup: Setup) -> Iterator[Cell]:
    for requests in cast("tuple[int, ...]", setup["requests"]):
        yield from _at(setup, requests, readings(setup), requests=requests)


_LESS: Final = {"random": 0.45, "composition": 0.25}  # reduction of delay against each of them
_MORE: Final = {"composition": 0.27, "random": 0.37}  # additional served requests against each of them


def _more(ours: float, theirs: float) -> float:
    return ours / theirs - 1.0 if theirs else math.inf


def _against(points: Sequence[Point]) -> Iterator[Point]:
    """Compare Synergy with each of the others, within a repetition."""
    found = {(x, policy, metric): value for x, policy, metric, value in points}
    for (x, policy, metric), theirs in found.items():
        what, _, reading = metric.partition(" (")
        ours = found.get((x, "synergy", metric))
        if policy not in _LESS or what not in ("delay", "success") or not theirs or ours is None:
            continue
        name, change = ("less", less(ours, theirs)) if what == "delay" else ("more", _more(ours, theirs))
        yield Point(x, f"against {policy}", metric_of(name, reading.rstrip(")")), change)


def _reference(measured: Measured, metric: str) -> Any:
    """Return the load of the comparison, or else the first one."""
    places = measured.xs(metric, "synergy")
    return REFERENCE if REFERENCE in places or not places else places[0]


def _delay(measured: Measured, setup: Setup) -> Iterator[Check]:
    for unique in _uniques(setup):
        reading = _reading(unique)
        whole_delay = metric_of("delay", reading)
        at = _reference(measured, whole_delay)
        for ours in ("synergy", BY_DELAY):
            for other, said in _LESS.items():
                for metric, beside, how in (
                    ("delay", "delay", "from the source"),
                    ("tuple_delay", "tuple_delay", "of each tuple, from the source"),
                    ("own_delay", "delay", "from the shared stream"),
                ):
                    theirs = (at, other, metric_of(beside, reading))
                    found = measured.paired((at, ours, metric_of(metric, reading)), theirs, less)
                    name = f"delay of {ours}, {how} on, against {other}, {at} requests, {reading}"
                    yield reduction(name, said, found)
            for other in _LESS:
                lower = [(load, measured.lower(load, ours, other, whole_delay))
                         for load in measured.xs(whole_delay, ours)]  # fmt: skip
                yield at_all(f"delay of {ours} below {other}'s at every number of requests, {reading}",
                             "an improvement, at a load that is not stated", lower)  # fmt: skip
        delays = ((policy, measured.estimate(at, policy, whole_delay)) for policy in ("synergy", *_LESS))
        below = [(policy, delay.below(1.0)) for policy, delay in delays if delay is not None]
        yield at_all(f"delays are below a second, {at} requests, {reading}", "less than a second", below)


def _served(measured: Measured, setup: Setup) -> Iterator[Check]:
    for unique in _uniques(setup):
        for limit in readings(setup):
            metric = metric_of("success", _reading(unique, limit))
            at = _reference(measured, metric)
            for other, said in _MORE.items():
                found = measured.paired((at, "synergy", metric), (at, other, metric), _more)
                where = f"{unique} unique, {WORDS[limit]}"
                yield reduction(f"more of {at} requests served than by {other}, {where}", said, found)
                more = [(load, measured.higher(load, "synergy", other, metric))
                        for load in measured.xs(metric, "synergy")]  # fmt: skip
                yield at_all(f"more served than by {other} at every number of requests, {where}",
                             "more, at a load that is not stated", more)  # fmt: skip


# -- C3 ----------------------------------------------------------------------------------------------------------------


def _sizes(setup: Setup) -> Iterator[Cell]:
    """Yield cells with as many requests a second at every peer, and with the same requests for any number of peers."""
    for peers in cast("tuple[int, ...]", setup["peers"]):
        share = peers / PEERS
        requests, arrivals = cast("int", setup["requests"]), cast("float", setup["arrivals"])
        proportional = _at(setup, peers, peers=peers, requests=max(1, round(requests * share)),
                           arrivals=arrivals * share)  # fmt: skip
        for cell in proportional:
            yield cell._replace(reading=f"{cell.reading}, {PROPORTIONAL}")
        for cell in _at(setup, peers, peers=peers):
            yield cell._replace(reading=f"{cell.reading}, {FIXED}")


def _overhead(measured: Measured, setup: Setup) -> Iterator[Check]:
    for unique in _uniques(setup):
        for arrivals in (PROPORTIONAL, FIXED):
            metric = metric_of("all_probes", f"{_reading(unique)}, {arrivals}")
            where = f"{unique} unique, {arrivals}"
            at_most: list[tuple[str, Decision | None]] = []
            for policy in algorithms(setup):
                growth = measured.over_repetitions(_growth, policy, metric)
                name = f"exponent of the growth of {policy}'s probes with peers, {where}"
                if arrivals == PROPORTIONAL:
                    yield not_comparable(name, 1.0, growth, "linear by the set-up: as many requests at every peer")
                else:
                    yield near(name, 1.0, growth, 0.1, 0.25, unit="")
                    at_most.append((policy, None if growth is None else growth.below(LINEAR)))
            if at_most:
                # each request visits as many candidates on any number of peers, so this cannot fail
                yield own(at_all(f"probes grow at most linearly, {where}", "scales to more nodes", at_most))
            for other in ("composition", "random"):
                fewer = [(size, measured.lower(size, "synergy", other, metric))
                         for size in measured.xs(metric, "synergy") if other in algorithms(setup)]  # fmt: skip
                yield at_all(f"Synergy sends fewer probes than {other}, {where}", "lowest", fewer)


def _growth(measured: Measured, policy: str, metric: str) -> float | None:
    """Return the exponent of a power of the number of peers, by least squares: 1 is linear, 0 constant."""
    course = [(math.log(x), math.log(value)) for x, value in measured.course(policy, metric) if value > 0.0]
    return statistics.linear_regression(*zip(*course, strict=True)).slope if len(course) > 1 else None


# -- C4 ----------------------------------------------------------------------------------------------------------------

_PAPER: Final = {"random": (240.0, 4509.0), "composition": (188.0, 4810.0), "synergy": (243.0, 3141.0)}
PARTS: Final = ("discovery", "probing", "total")
NO_CHECKS: Final = "checks of probes take seconds in the paper, and only messages take time here"


def _once(setup: Setup) -> Iterator[Cell]:
    return _at(setup, cast("int", setup["requests"]))


def _parts(points: Sequence[Point]) -> Iterator[Point]:
    for _, policy, metric, value in points:
        what, _, reading = metric.partition(" (")
        if what in ("discovery", "probing", "setup"):
            yield Point("total" if what == "setup" else what, policy, metric_of("set-up", reading.rstrip(")")), value)


def _times(measured: Measured, setup: Setup) -> Iterator[Check]:
    for unique in _uniques(setup):
        metric = metric_of("set-up", _reading(unique))
        for ours in ("synergy", BY_DELAY):
            gain = measured.gain("total", ours, "composition", metric)
            yield not_comparable(f"set-up of {ours} against Composition, {unique} unique", 0.32, gain, NO_CHECKS, "%")
        least = [(other, measured.lower("total", "synergy", other, metric)) for other in ("random", "composition")]
        yield at_all(f"Synergy sets up fastest, {unique} unique", "fastest", least)
        table = [("random below composition", measured.lower("total", "random", "composition", metric))]
        yield at_all(f"Random sets up faster than Composition, {unique} unique", "4749 ms against 4998 ms", table)
        probed = measured.gain("probing", "synergy", "composition", metric)
        name = f"probing of Synergy against Composition (computed from the table), {unique} unique"
        yield not_comparable(name, 1.0 - 3141.0 / 4810.0, probed, NO_CHECKS, "%")
        ends = (("discovery", "synergy", metric), ("total", "synergy", metric))
        share = measured.paired(*ends, lambda discovery, total: discovery / total)
        name = f"share of discovery in Synergy's set-up, {unique} unique"
        yield not_comparable(name, 243.0 / 3384.0, share, NO_CHECKS, "%")
        for policy, (discovery, probing) in _PAPER.items():
            ours_ms = measured.mean("total", policy, metric)
            yield not_comparable(f"set-up of {policy} in ms, {unique} unique", discovery + probing,
                         None if ours_ms is None else 1e3 * ours_ms,
                         "messages over the network alone; the paper's include Java on loaded hosts", "ms")  # fmt: skip


_LOADS: Final = {**_PROTOTYPE, "requests": wholes("requests", (50, 100, 200), (25, 50, 75, 100, 150, 200))}
_UNIQUE: Final = tuple(_reading(unique) for unique in (20, 100))
_BY_LIMIT: Final = tuple(_reading(unique, limit) for unique in (20, 100) for limit in READINGS)


def _panels(metric: str, label: str, names: Sequence[str], **options: Any) -> tuple[Panel, ...]:
    return tuple(Panel(metric_of(metric, name), f"{label}\n{name}", **options) for name in names)


CLAIMED: Final = (
    Claim(
        id="C1",
        title="average end-to-end delay on 88 peers",
        source="dissertation 2.4.1, figure 2.10",
        says="Synergy's delay is 45 % less than Random's and 25 % less than Composition's; delays are below a second",
        parameters=_LOADS,
        cells=_loads,
        checks=_delay,
        panels=(
            *_panels("delay", "mean delay from the source (ms)", _UNIQUE, factor=1e3, logarithmic=True),
            *_panels("own_delay", "mean delay from the shared stream (ms)", _UNIQUE, factor=1e3, logarithmic=True),
            *_panels("less", "less delay from the source (%)", _UNIQUE, factor=100.0),
        ),
        xlabel="requests",
        derive=_against,
        paper=tuple(Point(REFERENCE, f"against {other}", metric_of("less", name), said)
                    for other, said in _LESS.items() for name in _UNIQUE),
        repeat=(5, 10),
        shares=("success*", "admitted*", "on_time*", "strict success"),
    ),
    Claim(
        id="C2",
        title="requests served within their QoS on 88 peers",
        source="dissertation 2.4.1, figure 2.11",
        says="Synergy serves 27 % more applications than Composition, and 37 % more than Random",
        parameters=_LOADS,
        cells=_loads_by_limit,
        checks=_served,
        panels=(
            *_panels("success", "served within QoS (%)", _BY_LIMIT, factor=100.0),
            *_panels("more", "more requests served (%)", _BY_LIMIT, factor=100.0),
        ),
        xlabel="requests",
        derive=_against,
        paper=tuple(Point(REFERENCE, f"against {other}", metric_of("more", name), said)
                    for other, said in _MORE.items() for name in _BY_LIMIT),
        repeat=(5, 10),
        shares=("success*", "admitted*", "on_time*", "strict success"),
    ),
    Claim(
        id="C3",
        title="probe messages against peers",
        source="dissertation 2.4.1, figure 2.12",
        says="the number of probes grows linearly with the peers, and Synergy sends the fewest",
        parameters={
            **_PROTOTYPE,
            "peers": wholes("peers", (20, 60, 100), (20, 40, 60, 80, 100), least=5),
            "requests": whole("requests with 88 peers; with others in proportion, and the same", 100),
            "arrivals": number("requests a second with 88 peers; with others in proportion, and the same", RATE,
                               least=0.01),
        },
        cells=_sizes,
        checks=_overhead,
        panels=_panels("all_probes", "probes of all requests", [f"{each}, {arrivals}" for each in _UNIQUE
                                                for arrivals in (PROPORTIONAL, FIXED)]),
        xlabel="peers",
        repeat=(5, 10),
    ),
    Claim(
        id="C4",
        title="set-up time, discovery and probing",
        source="dissertation 2.4.1, table 2.13",
        says="finding components and probing take Random 240 and 4509 ms, Composition 188 and 4810 ms, Synergy 243 and "
        "3141 ms, so Synergy sets up 32 % faster than Composition",
        parameters=_PROTOTYPE,
        cells=_once,
        checks=_times,
        panels=_panels("set-up", "ms", _UNIQUE, kind="bars", factor=1e3),
        xlabel="",
        derive=_parts,
        paper=tuple(
            Point(part, policy, metric_of("set-up", name), value / 1e3)
            for policy, (discovery, probing) in _PAPER.items()
            for part, value in zip(PARTS, (discovery, probing, discovery + probing), strict=True)
            for name in _UNIQUE
        ),
        repeat=(5, 10),
    ),
)  # fmt: skip
