"""How many peers an application uses where requests share resources (section 4.5), for A1.

"Due to resource sharing, Synergy results to placing the component replicas of an application to n or more nodes", for
n components. The dissertation does not state which resource is short. Each set-up of :data:`SHARED` makes one of them
short: virtual links that carry few streams, uplinks and downlinks of peers, the bandwidth that a stream takes, or
processing, by as many requests at once as the peers can execute.

Where a system is small, the exact optimum is computed before each request from what is left. In a large one, any
placement on as many peers is at most as available as :func:`most_available` says.

Findings
--------
The sentence is not true of our set-up of figure 4.6 (2.25 peers), nor where uplinks and downlinks are short: where they
carry 10 streams, as many as all applications need, an application uses 3.5 peers and a third of the requests find no
place; where they carry three, eight peers and nine in ten. It is true where a peer executes one component only (two
requests that need nine tenths of all processing: nine peers), and where a link carries one stream, as the backups of
what one peer executes then go to different peers (nine peers; eight of ten requests are placed). At degree 3 it is true
where a link carries two.

Availability there is .90, that of Partition, and no placement could have more than .922 on nine peers or more, while
Optimal has .984. So at degree 2 the sentence and "close to Optimal" cannot be true of one set-up. At degree 3 they can:
.995 beside .999. In small systems with short links the protocol loses .1 to .5 against the exact optimum, as requests
fail that a placement made at once would have fitted; with short processing it loses nothing. Looking ahead loses
nothing with links of four streams, .03 with links of two, .1 with links of one, and nothing at 1.2 MB/s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, cast

from synergy_experiments.chapters.availability import NEAR, requests
from synergy_experiments.framework.claim import Cell, Check, Panel
from synergy_experiments.framework.measurements import Coordinate, Decision, Estimate, Measured, Point, both
from synergy_experiments.framework.parameters import Setup
from synergy_experiments.framework.verdicts import at_all, near, own
from synergy_experiments.worlds.replica_placements import AHEAD, PlacementCost, Requests, mean, placements, world
from synergy_experiments.worlds.sweeps import algorithms
from synergy_nb.algorithms.availability import (
    ExactlyFailed,
    InsufficientCapacity,
    availability,
    costs,
    optimal_availability,
    optimum,
)

__all__ = ["PANELS", "SHARED", "contention", "contention_checks", "distance", "most_available", "shared"]

#: Name of a set-up to what is short in it: streams that every link, or uplink and downlink, carries; bytes/s of a
#: stream; or the share of all processing capacity that the requests need together. Otherwise there are 20 requests.
SHARED: Final[Mapping[str, Mapping[str, float]]] = {
    "figure 4.6": {},
    "links 4": {"link": 4},
    "links 2": {"link": 2},
    "links 1": {"link": 1},
    "links 1, 10 requests": {"link": 1, "asking": 10},
    "links 2, degree 3": {"link": 2, "degree": 3},
    "links 1, degree 3": {"link": 1, "degree": 3},
    "uplinks 20": {"access": 20},
    "uplinks 10": {"access": 10},
    "uplinks 6": {"access": 6},
    "uplinks 3": {"access": 3},
    "uplinks 3, 2 requests": {"access": 3, "asking": 2},
    "1200 kB/s": {"stream": 1200e3},
    "load .9": {"load": 0.9},
    "load .9, 10 requests": {"load": 0.9, "asking": 10},
    "load .9, 5 requests": {"load": 0.9, "asking": 5},
    "load .9, 2 requests": {"load": 0.9, "asking": 2},
}
ROUNDING: Final = 1e-9
PLACED: Final = 0.95  # share of the requests that has to be placed where the sentence is true
BOUND: Final = "degree 2: no placement on so many peers is more available"


@lru_cache
def most_available(peers: int, failed: int, components: int, used: int) -> float:
    """Return the highest availability of a placement of two replicas each that uses a number of peers, or more.

    The pairs of peers that have components are the edges of a graph over the peers that are used. An application fails
    where both ends of an edge have failed. An edge more makes more sets of failures fatal, so the best graph is a
    forest, and of the trees of one size a star has the most sets of failures in common. All sizes of stars are tried.

    Examples
    --------
    >>> round(most_available(20, 3, 9, 2), 4), round(most_available(20, 3, 9, 9), 4)
    (0.9842, 0.9219)
    """
    all_sets = math.comb(peers, failed)
    return max(
        _survived(sizes, peers - many, failed) / all_sets
        for many in range(max(used, 2), min(peers, 2 * components) + 1)
        for sizes in _stars(many, components)
    )


def _stars(peers: int, edges: int, least: int = 2) -> Iterator[tuple[int, ...]]:
    """Yield the sizes of stars, in peers, that cover a number of peers with at most so many edges."""
    if peers == 0:
        yield ()
    for size in range(least, min(peers, edges + 1) + 1):
        for rest in _stars(peers - size, edges - size + 1, size):
            yield (size, *rest)


def _survived(sizes: tuple[int, ...], others: int, failed: int) -> int:
    """Return the number of sets of failed peers in which no star loses its centre and a leaf.

    Parameters
    ----------
    sizes
        Numbers of peers of the stars.
    others
        Number of peers without components.
    failed
        Number of failed peers.
    """
    if failed < 0:
        return 0
    if not sizes:
        return math.comb(others, failed)
    leaves, rest = sizes[0] - 1, sizes[1:]
    without_centre = _survived(rest, others, failed - 1)
    return without_centre + sum(
        math.comb(leaves, lost) * _survived(rest, others, failed - lost) for lost in range(leaves + 1)
    )


def distance(given: Requests, algorithm: str, failed: int, seed: int) -> dict[str, float]:
    """Return a protocol's loss of availability against the exact optimum, for successive requests in a small system.

    Before each request the most available placement is computed from the residual resources of peers and links. A
    request that is not placed although a placement exists loses all of its availability.
    """
    met = world(given, seed)
    model = ExactlyFailed(met.topology.peers, failed)
    run = PlacementCost(met, seed, ahead=algorithm == AHEAD)
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


def small_distance(given: Requests, algorithm: str, failed: int, seed: int) -> dict[str, float]:
    """Return the same loss where requests contend for resources."""
    return {"small, shared": distance(given, algorithm, failed, seed)["small"]}


def shared(given: Requests, failed: int, name: str, seed: int) -> list[Point]:
    """Measure the protocol's placements in a set-up in which requests contend for resources.

    Returns
    -------
    list of Point
        Means over the placed applications: peers ``used``, availability ``reached``, seconds between operators
        (``apart``) and to backups (``to backups``); and the share of the requests that ``fitted``. Availability and
        delays once more over the number of peers used, for the figure.
    """
    found = placements(given, "synergy", seed)
    met = world(given, seed)
    model = ExactlyFailed(met.topology.peers, failed)
    delays = [costs(met.plans[origin], graph, met.topology.delay) for origin, graph in found.items()]
    used = mean([float(len(graph.hosts)) for graph in found.values()])
    values = {
        "used": used,
        "fitted": len(found) / len(met.plans),
        "reached": mean([availability(graph, model) for graph in found.values()]),
        "apart": mean([each.inter_delay for each in delays]),
        "to backups": mean([each.intra_delay for each in delays]),
    }
    points = [Point(name, "synergy", f"{metric}, shared", value) for metric, value in values.items()]
    place, short = round(used, 3), _short(name)
    together = values["apart"] + values["to backups"]
    return [
        *points,
        Point(place, short, "availability by peers used", values["reached"]),
        Point(place, short, "delay by peers used", together),
    ]


def _short(name: str) -> str:
    """Return what is short in a set-up, for the figure over peers used."""
    short = next((short for short in ("uplinks", "links", "load") if name.startswith(short)), name)
    return f"{short}, degree 3" if name.endswith("degree 3") else short


def bounds(peers: int, failed: int, components: int, _: int) -> list[Point]:
    """Return the highest availability of a placement on at least so many peers, for the figure over peers used."""
    return [
        Point(used, BOUND, "availability by peers used", most_available(peers, failed, components, used))
        for used in range(2, min(peers, 2 * components) + 1)
    ]


def contention(setup: Setup) -> Iterator[Cell]:
    """Yield the cells of all chosen set-ups, in the large system and in a small one."""
    failed, stream = cast("int", setup["failed"]), cast("float", setup["stream"])
    peers, small = cast("int", setup["peers"]), cast("int", setup["small"])
    wanted = cast("tuple[str, ...]", setup["shared"]) if "synergy" in algorithms(setup) else ()
    names = [name for name in SHARED if name in wanted]
    if names:
        yield Cell(bounds, (peers, failed, cast("int", setup["components"])))
    for name in names:
        changes: dict[str, Any] = {"degree": 2, **SHARED[name]}
        asking = changes.pop("asking", peers)
        for short in ("link", "access"):
            changes[short] = changes.get(short, 0) * changes.get("stream", stream)
        less = {**changes, "access": changes["access"] / 2, "asking": max(round(asking * small / peers), 2)}
        yield Cell(shared, (requests(setup, **changes, asking=asking), failed, name))
        tight = requests(setup, **{**less, "peers": small, "failed": 2, "components": 3})
        for algorithm in ("synergy", AHEAD):
            if algorithm in algorithms(setup):
                yield Cell(small_distance, (tight, algorithm, 2), name, algorithm)


def contention_checks(measured: Measured, setup: Setup) -> Iterator[Check]:
    """Yield what section 4.5 says of the peers that an application uses, and what follows from it."""
    n, peers, failed = (cast("int", setup[name]) for name in ("components", "peers", "failed"))
    says = "due to resource sharing, n or more nodes (section 4.5)"
    places = measured.xs("used, shared", "synergy")
    used = [(x, _at_least(measured, x, "used, shared", n)) for x in places]
    yield at_all("an application uses n or more peers", says, used)
    placed = [(x, _at_least(measured, x, "fitted, shared", PLACED)) for x in places]
    together = [(x, both(one, other)) for (x, one), (_, other) in zip(used, placed, strict=True)]
    yield at_all(f"an application uses n or more peers, and {PLACED:.0%} of the requests are placed", says, together)
    if places:
        lost = optimal_availability(peers, failed, 2) - most_available(peers, failed, n, n)
        name = "n or more peers, degree 2: loss of the most available of all such placements against Optimal"
        yield own(near(name, 0.0, Estimate.exact(lost), NEAR, 3 * NEAR))
    for place in places:
        enough = _at_least(measured, place, "used, shared", n)
        if enough is not None and enough.true:
            best = optimal_availability(peers, failed, int(SHARED[str(place)].get("degree", 2)))
            reached = measured.estimate(place, "synergy", "reached, shared")
            name = f"availability that is reached where an application uses n or more peers: {place}"
            yield own(near(name, best, reached, NEAR, 3 * NEAR))
    for name in measured.algorithms("small, shared"):
        for place in measured.xs("small, shared", name):
            statement = f"{name}: loss against the exact optimum of a small system, {place}"
            yield own(near(statement, 0.0, measured.estimate(place, name, "small, shared"), 3 * NEAR, 0.1))


def _at_least(measured: Measured, x: Coordinate, metric: str, bound: float) -> Decision | None:
    """Whether a mean of Synergy is at least a number, by its interval."""
    found = measured.estimate(x, "synergy", metric)
    return None if found is None else found.at_least(bound - ROUNDING)


_SETUP: Final = "what is short: streams a link or an uplink carries, or processing"
PANELS: Final = (
    Panel("used, shared", "peers used", "bars", bounds=((9.0, "n = 9"),), xlabel=_SETUP),
    Panel("fitted, shared", "requests placed (%)", "bars", factor=100.0, xlabel=_SETUP),
    Panel("reached, shared", "availability of what is placed (%)", "bars", factor=100.0, xlabel=_SETUP),
    Panel("apart, shared", "inter-operator delay (ms)", "bars", factor=1e3, xlabel=_SETUP),
    Panel("to backups, shared", "intra-operator delay (ms)", "bars", factor=1e3, xlabel=_SETUP),
    Panel("small, shared", "distance to the exact optimum, small system (%)", "bars", factor=100.0, xlabel=_SETUP),
    Panel("availability by peers used", "availability of what is placed (%)", "points", factor=100.0,
          xlabel="peers used", runs=True),
    Panel("delay by peers used", "inter- and intra-operator delay (ms)", "points", factor=1e3, xlabel="peers used",
          runs=True),
)  # fmt: skip
