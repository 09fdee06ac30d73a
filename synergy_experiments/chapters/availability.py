"""A1 and A3: availability of placed replicas (section 4.5.1, figures 4.6 to 4.9).

There are 20 peers of one core, of which 3 fail, 9 components with 2 replicas each, and one request from each peer. The
delays are those between PlanetLab hosts if that matrix is available (``synergy data info planetlab-rtt``).
:mod:`~synergy_experiments.worlds.replica_placements` lists the parameters that the dissertation does not state.
Availability is exact: over all sets of failed peers for each placement. *Sampled* is the paper's measure, the share of
requests that outlive randomly drawn failures.

Findings
--------
*A1.* The availability of the protocol is .003 to .006 below the optimum at degree 2, and less than .001 below it at
degrees 3 and 4. The loss is due to links that cannot carry the backups of two applications: some of these backups then
go to a third peer, where the optimum uses another pair. Degree 1 is the hardest case, as an application whose peer is
full before all components are placed depends on two peers. So the requests use a quarter of the capacity here; at three
quarters, the protocol is .08 below the optimum. In small systems with little spare capacity, where the optimum can be
computed exactly, the protocol loses .02 to .04 at degree 2: each peer decides for the next component only, and
finds out that a link is full when it is. The closed forms with which Optimal, Partition and Random are compared are
those of independent placements: Partition .9033 with ten groups of two, and .9958 with six of three.

"Within .01 of the optimum" is true of streams of 100 kB/s (.004); at 300 and 600 kB/s, where links are full sooner, the
distance is .011 and .020.

*Contention.* "Due to resource sharing, Synergy results to placing the component replicas of an application to n or more
nodes" (section 4.5). Where the uplink and the downlink of a peer carry 10 streams, as many as all applications need,
and all requests come at once, an application uses 3.5 of the 20 peers, its availability is .961, and a third of the
requests find no place; with 20 streams these are 2.5 peers, .976, and one in twenty. Only where they carry three does
an application use 8 peers, in some runs 9; then one or two of 20 requests find a place, and their availability is .895,
that of Partition, while figure 4.6 has Synergy near the optimum of .984. So the sentence cannot be true of the set-up
of that figure, whatever limits the peers: 9 components on 9 or more peers are not as available (A2). In a small system
with uplinks of 3 to 10 streams the protocol loses .13 to nothing against the exact optimum, as requests fail that a
placement made at once would have fitted.

*A3.* Our results are those of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Final, cast

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import (
    IncompatibleParameters,
    Parameter,
    Setup,
    choice,
    number,
    numbers,
    several,
    whole,
    wholes,
)
from synergy_experiments.framework.verdicts import at_all, near
from synergy_experiments.worlds.measured_delays import matrix_path, network
from synergy_experiments.worlds.replica_placements import ALGORITHMS, PlacementCost, Requests, mean, placements, world
from synergy_experiments.worlds.sweeps import algorithms
from synergy_nb.algorithms.availability import (
    ExactlyFailed,
    InsufficientCapacity,
    availability,
    costs,
    optimal_availability,
    optimum,
    partition_availability,
    random_availability,
    sampled_availability,
)

__all__ = [
    "CLAIMED",
    "REPLICAS",
    "SHARE",
    "availability_by_failures",
    "check_numbers",
    "distance",
    "exact",
    "requests",
    "share_failed",
]

#: Parameters of the set-up that the experiments of chapter 4 share.
REPLICAS: Final[dict[str, Parameter]] = {
    "peers": whole("peers, each of which submits a request", 20, least=2),
    "failed": whole("peers that have failed", 3, least=0),
    "components": whole("components of an application", 9),
    "degree": whole("replicas of each component", 2),
    "load": number("share of all processing capacity that the primaries use", 0.25, least=1e-6, most=1.0),
    "stream": number("bytes/s of a stream", 100e3, least=1.0),
    "network": network(),
    "capacities": choice("whether peers have one core each, or half a core to two", ["equal", "classes"]),
    "limits": choice("whether optimal, random, partition and latency obey the limits too", ["off", "on"]),
    "samples": whole("randomly drawn failures", 2000),
    "algorithms": several("algorithms compared", ALGORITHMS, ("synergy", "optimal", "random", "partition")),
}  # fmt: skip

NEAR: Final = 0.01  # distance from the optimum, or from a closed form
QUARTER: Final = 0.25
EQUAL: Final = 0.002  # difference in availability up to which two algorithms count as equal
USUAL: Final = (20, 3, 9)  # peers, failed peers, components
#: Closed forms of availability, by degree and algorithm. The paper's figures have no numbers.
CLOSED: Final = {
    (degree, name): value
    for degree in (2, 3)
    for name, value in (
        ("optimal", optimal_availability(*USUAL[:2], degree)),
        ("partition", partition_availability(*USUAL[:2], degree, USUAL[2])),
        ("random", random_availability(*USUAL[:2], degree, USUAL[2])),
    )
}


def requests(setup: Setup, **changes: Any) -> Requests:
    """Return the requests of a set-up, with the varied parameters of an experiment.

    Raises
    ------
    IncompatibleParameters
        If there are fewer peers than replicas of a component, or than failing peers.
    """
    chosen: dict[str, Any] = {**setup, **changes}
    check_numbers(chosen)
    given = {each.name: chosen[each.name] for each in fields(Requests) if each.name in chosen}
    equal, limits = chosen.get("capacities") != "classes", chosen.get("limits") == "on"
    return Requests(**{**given, "delays": matrix_path(setup), "equal": equal, "limits": limits})


def check_numbers(chosen: Setup) -> None:
    """Raise IncompatibleParameters for a degree or failures beyond the number of peers."""
    peers = cast("int", chosen["peers"])
    for name in ("degree", "failed"):
        value = chosen.get(name, 0)
        most = max(cast("tuple[int, ...]", value), default=0) if isinstance(value, tuple) else cast("int", value)
        if most > peers:
            raise IncompatibleParameters(f"{name}: {most}; expected at most {peers}, the number of peers")


def exact(given: Requests, algorithm: str, failed: int, samples: int, seed: int) -> dict[str, float]:
    """Return the availability of the placements of an algorithm.

    Returns
    -------
    dict
        Means over applications: ``availability``, exact; ``sampled``, of the drawn failures, and its 95 %
        ``error``; ``hosts``, peers used; ``placed``, the share of the requests that could be placed.
    """
    found = placements(given, algorithm, seed)
    model = ExactlyFailed(world(given, seed).topology.peers, failed)
    drawn = [sampled_availability(graph, model, samples, seed) for graph in found.values()]
    return {
        "availability": mean([availability(graph, model) for graph in found.values()]),
        "sampled": mean([each.value for each in drawn]),
        "error": mean([each.error for each in drawn]),
        "hosts": mean([float(len(graph.hosts)) for graph in found.values()]),
        "placed": len(found) / given.peers,
    }


# -- A1 ----------------------------------------------------------------------------------------------------------------


def loaded(given: Requests, algorithm: str, failed: int, seed: int) -> dict[str, float]:
    """Return the unavailability where the primaries use a share of the capacity."""
    return {"loaded": 1.0 - exact(given, algorithm, failed, 1, seed)["availability"]}


def distance(given: Requests, failed: int, seed: int) -> dict[str, float]:
    """Return the loss of availability against the exact optimum, for successive requests in a small system.

    Before each request the most available placement is computed from the residual resources of peers and links. A
    request that is not placed although a placement exists loses all of its availability.
    """
    met = world(given, seed)
    model = ExactlyFailed(met.topology.peers, failed)
    run = PlacementCost(met, seed)
    lost: list[float] = []
    for name, plan in met.plans.items():
        try:
            best = optimum(plan, given.degree, model, run.limits(), pinned=met.pinned[name])
        except InsufficientCapacity:
            continue
        run.submit(name, given.degree)
        run.decide()
        graph = run.found[name]
        lost.append(best.availability - (0.0 if graph is None else availability(graph, model)))
    return {"small": mean(lost)}


def contended(given: Requests, failed: int, streams: float, seed: int) -> list[Point]:
    """Measure the protocol's placements where uplinks and downlinks are limited, at a number of streams that one
    carries.

    Returns
    -------
    list of Point
        Means over the placed applications: availability, peers used, and the seconds between operators; and the share
        of the requests that could be placed.
    """
    found = placements(given, "synergy", seed)
    met = world(given, seed)
    model = ExactlyFailed(met.topology.peers, failed)
    delays = [costs(met.plans[name], graph, met.topology.delay).inter_delay for name, graph in found.items()]
    values = {
        "reached": mean([availability(graph, model) for graph in found.values()]),
        "used": mean([float(len(graph.hosts)) for graph in found.values()]),
        "apart": mean(delays),
        "fitted": len(found) / given.peers,
    }
    return [Point(streams, "synergy", f"{metric} under contention", value) for metric, value in values.items()]


def contended_distance(given: Requests, failed: int, seed: int) -> dict[str, float]:
    """Return the loss of availability against the exact optimum where uplinks and downlinks are limited."""
    return {"small under contention": distance(given, failed, seed)["small"]}


def by_stream(given: Requests, failed: int, seed: int) -> dict[str, float]:
    """Return the distance of the protocol from the optimum under the same limits, at a rate of the streams."""
    best, ours = (exact(given, name, failed, 1, seed)["availability"] for name in ("optimum", "synergy"))
    return {"distance by stream": best - ours}


def _contention(setup: Setup) -> Iterator[Cell]:
    """Cells at degree 2 in which streams are faster, or uplinks and downlinks carry only so many."""
    failed = setup["failed"]
    for stream in cast("tuple[float, ...]", setup["streams"]):
        yield Cell(by_stream, (requests(setup, degree=2, stream=stream), failed), stream, "synergy")
    small = cast("int", setup["small"])
    for streams in cast("tuple[float, ...]", setup["carried"]):
        stream = cast("float", setup["stream"])
        given = requests(setup, degree=2, access=streams * stream)
        yield Cell(contended, (given, failed, streams), streams, "synergy")
        tight = requests(setup, peers=small, failed=2, components=3, degree=2, access=streams * stream / 2)
        yield Cell(contended_distance, (tight, 2), streams, "synergy")


def _degrees(setup: Setup) -> Iterator[Cell]:
    failed, samples = setup["failed"], setup["samples"]
    yield from _contention(setup)
    for degree in cast("tuple[int, ...]", setup["degree"]):
        given = requests(setup, degree=degree)
        for name in algorithms(setup):
            yield Cell(exact, (given, name, failed, samples), degree, name)
    for load in cast("tuple[float, ...]", setup["loads"]):
        for name in algorithms(setup):
            if name in ("synergy", "optimum", "optimal"):
                yield Cell(loaded, (requests(setup, degree=2, load=load), name, failed), load, name)
    small = cast("int", setup["small"])
    for degree in (1, 2):
        tight = requests(setup, peers=small, failed=2, components=3, degree=degree, load=0.5, stream=600e3)
        yield Cell(distance, (tight, 2), degree, "synergy")


def _lost(points: Sequence[Point]) -> Iterator[Point]:
    """Difference between Synergy and the optimum under limits."""
    found = {(x, name): value for x, name, metric, value in points if metric == "availability"}
    for (x, name), best in found.items():
        if name == "optimum" and (x, "synergy") in found:
            yield Point(x, "synergy", "distance", best - found[x, "synergy"])


def _by_degree(measured: Measured, setup: Setup) -> Iterator[Check]:
    degrees = [cast("int", degree) for degree in measured.xs("availability", "synergy")]
    for degree in degrees:
        lost = measured.estimate(degree, "synergy", "distance")
        if lost is not None:
            name = f"Synergy below the exact optimum under the same limits, degree {degree}"
            yield near(name, 0.0, lost, NEAR, 3 * NEAR, unit="")
    for other in ("partition", "random"):
        above = [
            (degree, measured.higher(degree, "synergy", other, "availability"))
            for degree in degrees
            if degree <= cast("int", setup["failed"])
        ]
        yield at_all(f"Synergy is above {other}", "at every degree at which failures matter", above)
    later = [(name, _comparable(measured, name)) for name in ("random", "partition") if name in algorithms(setup)]
    yield at_all("one replica more brings others to where Synergy is with two", "Random and Partition need 3", later)
    for (degree, name), exactly in CLOSED.items():
        ours = measured.estimate(degree, name, "availability")
        if ours is not None and _usual(setup):
            yield near(f"{name} at degree {degree}, closed form", exactly, ours, NEAR, 2 * NEAR, unit="")
    agree = [(f"{name} at {x}", _agree(measured, x, name)) for x in degrees for name in algorithms(setup)]
    yield at_all("sampled and exact availability agree within the stated error", "(ours)", agree)
    placed = [(degree, measured.mean(degree, "synergy", "placed") == 1.0) for degree in degrees]
    yield at_all("every request is placed", "(ours)", placed)
    for stream in (cast("float", x) for x in measured.xs("distance by stream", "synergy")):
        name = f"Synergy below the exact optimum under the same limits, degree 2, {stream / 1e3:g} kB/s a stream"
        yield near(name, 0.0, measured.estimate(stream, "synergy", "distance by stream"), NEAR, 3 * NEAR, unit="")
    used = [(streams, (found := measured.estimate(streams, "synergy", "used under contention")) is not None
             and found.value >= cast("int", setup["components"]))
            for streams in measured.xs("used under contention", "synergy")]  # fmt: skip
    yield at_all("an application uses n or more peers, by the number of streams that an uplink carries",
                 "due to resource sharing, n or more nodes (section 4.5)", used)  # fmt: skip
    for streams in (cast("float", x) for x in measured.xs("small under contention", "synergy")):
        lost = measured.estimate(streams, "synergy", "small under contention")
        name = f"loss against the exact optimum of a small system whose uplinks carry {streams / 2:g} streams"
        yield near(name, 0.0, lost, 3 * NEAR, 0.1, unit="")
    for place in measured.xs("small", "synergy"):
        lost = measured.estimate(place, "synergy", "small")
        name = f"Synergy's loss against the exact optimum of a small system with little spare capacity, degree {place}"
        yield near(name, 0.0, lost, 3 * NEAR, 0.1, unit="")


def _comparable(measured: Measured, name: str) -> bool:
    ours, two, three = (
        measured.mean(degree, who, "availability") or math.nan for degree, who in ((2, "synergy"), (2, name), (3, name))
    )
    return two < ours - NEAR and three >= ours - NEAR


def _agree(measured: Measured, degree: int, name: str) -> bool:
    known, drawn, error = (
        measured.mean(degree, name, metric) or math.nan for metric in ("availability", "sampled", "error")
    )
    return abs(known - drawn) <= error


def _usual(setup: Setup) -> bool:
    """Whether the reference numbers are valid for this set-up."""
    return (setup["peers"], setup["failed"], setup["components"]) == USUAL and setup["limits"] == "off"


# -- A3 ---------------------------------------------------------------------------------------------------------------


def share_failed(peers: int, share: float) -> int:
    """Return the number of peers that is a share of all."""
    return round(peers * share)


def availability_by_failures(
    given: Requests, algorithm: str, failed: tuple[int, ...], metric: str, places: tuple[float, ...], seed: int
) -> list[Point]:
    """Exact availability of one set of placements for several numbers of failed peers."""
    found = placements(given, algorithm, seed).values()
    peers = world(given, seed).topology.peers
    return [
        Point(x, algorithm, metric, mean([availability(graph, ExactlyFailed(peers, count)) for graph in found]))
        for x, count in zip(places, failed, strict=True)
    ]


def _sweeps(setup: Setup) -> Iterator[Cell]:
    share = cast("float", setup["share"])
    for name in algorithms(setup):
        for components in cast("tuple[int, ...]", setup["components"]):
            given = requests(setup, components=components)
            yield Cell(
                availability_by_failures,
                (given, name, (share_failed(given.peers, share),), "by components", (components,)),
            )
        usual = {"components": 9}
        for peers in cast("tuple[int, ...]", setup["sizes"]):
            given = requests(setup, peers=peers, failed=0, **usual)
            yield Cell(availability_by_failures, (given, name, (share_failed(peers, share),), "by peers", (peers,)))
        counts = cast("tuple[int, ...]", setup["failed"])
        yield Cell(availability_by_failures, (requests(setup, **usual), name, counts, "by failures", counts))


_BY: Final = {"by components": "components", "by peers": "peers", "by failures": "failed peers"}


def _throughout(measured: Measured, _: Setup) -> Iterator[Check]:
    for metric, what in _BY.items():
        places = measured.xs(metric, "synergy")
        for other in ("random", "partition"):
            above = [(x, measured.higher(x, "synergy", other, metric, EQUAL)) for x in places]
            yield at_all(f"Synergy is not below {other} by {EQUAL:g}, against {what}", "above", above)
        close = [(x, _close(measured, x, metric)) for x in places]
        yield at_all(
            f"Synergy loses at most a quarter of what Random loses to Optimal, against {what}", "near Optimal", close
        )
    sizes = measured.xs("by peers", "synergy")
    if len(sizes) > 1:
        values = [measured.mean(x, "synergy", "by peers") or 0.0 for x in sizes]
        yield at_all("Synergy does not depend on the size of the network", "regardless of the size",
                     [(x, abs(value - values[0]) < 0.02) for x, value in zip(sizes, values, strict=True)])  # fmt: skip


def _close(measured: Measured, x: Any, metric: str) -> bool:
    best, ours, worst = (measured.mean(x, name, metric) or 0.0 for name in ("optimal", "synergy", "random"))
    return best - ours <= QUARTER * (best - worst) + 1e-3


_ACCESS: Final = "streams that an uplink carries"
_ALL: Final = several("algorithms compared", ALGORITHMS, ("synergy", "optimum", "optimal", "random", "partition"))
#: Parameter of experiments that vary the number of peers.
SHARE: Final = number("share of failing peers, where the number of peers is varied", 0.15, most=1.0)

CLAIMED: Final = (
    Claim(
        id="A1",
        title="availability against replication degree",
        source="dissertation 4.5.1, figure 4.6",
        says="Synergy close to Optimal at degree 2; Random and Partition need one replica more",
        parameters={
            **REPLICAS,
            "degree": wholes("replicas of each component", (1, 2, 3, 4)),
            "loads": numbers("shares of the capacity, at degree 2", (0.25, 0.5, 0.75), least=1e-6, most=1.0),
            "streams": numbers("bytes/s of a stream, at degree 2", (100e3, 300e3, 600e3), least=1.0),
            "carried": numbers(
                "streams that uplink and downlink of a peer carry, at degree 2; half in the small system",
                (3.0, 10.0, 20.0),
                (3.0, 6.0, 10.0, 12.0, 15.0, 20.0),
                least=0.1,
            ),
            "small": whole("peers of the small systems whose exact optimum is computed", 6, least=3, most=8),
            "algorithms": _ALL,
        },
        cells=_degrees,
        checks=_by_degree,
        panels=(
            Panel("availability", "availability, exact (%)", factor=100.0),
            Panel("sampled", "availability, sampled (%)", factor=100.0),
            Panel("distance", "distance to the optimum under limits (%)", factor=100.0),
            Panel("hosts", "peers used"),
            Panel("loaded", "unavailability at degree 2 (%)", factor=100.0, xlabel="share of the capacity"),
            Panel("small", "distance to the optimum, small system (%)", factor=100.0),
            Panel(
                "distance by stream",
                "distance to the optimum under limits (%)",
                factor=100.0,
                xlabel="bytes/s of a stream",
            ),
            Panel("reached under contention", "availability, uplinks limited (%)", factor=100.0, xlabel=_ACCESS),
            Panel("used under contention", "peers used, uplinks limited", xlabel=_ACCESS),
            Panel("fitted under contention", "requests placed, uplinks limited (%)", factor=100.0, xlabel=_ACCESS),
            Panel("apart under contention", "inter-operator delay, uplinks limited (ms)", factor=1e3, xlabel=_ACCESS),
            Panel(
                "small under contention",
                "distance to the optimum, small system,\nuplinks limited (%)",
                factor=100.0,
                xlabel=_ACCESS,
            ),
        ),
        xlabel="replication degree",
        derive=_lost,
        paper=tuple(Point(degree, name, "availability", value) for (degree, name), value in CLOSED.items()),
        repeat=(3, 10),
    ),
    Claim(
        id="A3",
        title="availability against graph size, network size and failures",
        source="dissertation 4.5.1, figures 4.7 to 4.9",
        says="Synergy near Optimal throughout, above Random and Partition",
        parameters={
            **REPLICAS,
            "components": wholes("components of an application", (3, 9, 15), (3, 6, 9, 12, 15)),
            "sizes": wholes("peers, where their number is varied", (10, 20, 30), (10, 15, 20, 25, 30), least=2),
            "failed": wholes("failed peers of the 20", (1, 3, 5, 10), tuple(range(1, 11))),
            "share": SHARE,
        },
        cells=_sweeps,
        checks=_throughout,
        panels=tuple(
            Panel(metric, f"availability (%), {metric}", factor=100.0, xlabel=what) for metric, what in _BY.items()
        ),
        xlabel="",
        repeat=(3, 10),
    ),
)
