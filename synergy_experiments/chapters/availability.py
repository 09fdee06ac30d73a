"""A3: availability of placed replicas against three sizes (section 4.5.1, figures 4.7 to 4.9); the set-up of A1 to A5.

There are 20 peers of one core, of which 3 fail, 9 components with 2 replicas each, and one request from each peer. The
delays are those between PlanetLab hosts if that matrix is available (``synergy data info planetlab-rtt``).
:mod:`~synergy_experiments.worlds.replica_placements` lists the parameters that the dissertation does not state.
Availability is exact: over all sets of failed peers for each placement. *Sampled* is the paper's measure, the share of
requests that outlive randomly drawn failures.

Findings
--------
Synergy is above Random and Partition wherever more than one peer fails, and its distance to Optimal is small. The paper
also says that the number of peers that an application uses does not grow linearly with its components; A2 has those.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final, cast

from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Coordinate, Decision, Measured, Point
from synergy_experiments.framework.parameters import (
    IncompatibleParameters,
    Parameter,
    Setup,
    choice,
    number,
    several,
    whole,
    wholes,
)
from synergy_experiments.framework.verdicts import at_all
from synergy_experiments.worlds.measured_delays import matrix_path, network
from synergy_experiments.worlds.replica_placements import ALGORITHMS, Requests, mean, placements, world
from synergy_experiments.worlds.sweeps import algorithms
from synergy_nb.algorithms.availability import (
    ExactlyFailed,
    availability,
    optimal_availability,
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
        "placed": len(found) / (given.asking or given.peers),
    }


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
            above = [(x, measured.higher(x, "synergy", other, metric)) for x in places
                     if (measured.mean(x, other, metric) or 0.0) < 1.0]  # fmt: skip
            yield at_all(f"Synergy is above {other} where any placement fails, against {what}", "above", above)
        close = [(x, _close(measured, x, metric)) for x in places]
        yield at_all(
            f"Synergy loses at most a quarter of what Random loses to Optimal, against {what}", "near Optimal", close
        )
    sizes = measured.xs("by peers", "synergy")
    if len(sizes) > 1:
        first = (sizes[0], "synergy", "by peers")
        grown = [
            (x, measured.paired((x, "synergy", "by peers"), first, lambda value, was: value - was)) for x in sizes[1:]
        ]
        alike = [(x, None if change is None else change.within(0.02)) for x, change in grown]
        name = f"Synergy does not depend on the size of the network: within .02 of the availability at {sizes[0]} peers"
        yield at_all(name, "regardless of the size", alike)


def _close(measured: Measured, x: Coordinate, metric: str) -> Decision | None:
    """Whether Synergy loses at most a quarter of what Random loses, and a thousandth, by an interval."""
    beyond = measured.over_repetitions(_beyond, x, metric)
    return None if beyond is None else beyond.below(1e-3)


def _beyond(measured: Measured, x: Coordinate, metric: str) -> float | None:
    """Return what Synergy loses to Optimal, less a quarter of what Random loses to it."""
    values = [measured.mean(x, name, metric) for name in ("optimal", "synergy", "random")]
    best, ours, worst = (value if value is not None else math.nan for value in values)
    return None if None in values else best - ours - QUARTER * (best - worst)


#: Parameter of experiments that vary the number of peers.
SHARE: Final = number("share of failing peers, where the number of peers is varied", 0.15, most=1.0)

CLAIMED: Final = (
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
        shares=("by *",),
    ),
)
