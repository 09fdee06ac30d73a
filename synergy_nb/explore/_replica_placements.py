"""Explorer of the placement of replicas: availability against the delay of links (dissertation, chapter 4)."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from synergy_nb.algorithms.availability import (
    ExactlyFailed,
    InsufficientCapacity,
    ResidualLimits,
    availability,
    costs,
    degree_for,
    groups_of,
    latency_placement,
    nondominated,
    optimal_availability,
    optimal_placement,
    partition_availability,
    partition_placement,
    random_availability,
    random_placement,
)
from synergy_nb.control.roles import Roles
from synergy_nb.drawing.plane import Axis, Plane
from synergy_nb.explore._explorer import Choice, Drawn, Explorer, Range, Value
from synergy_nb.plan import Plan, source

ALGORITHMS: Final = ("together", "random", "partition", "latency")
"""Algorithms of section 4.5: all components at the same peers (*optimal* there), at random peers, in disjoint groups of
peers, at near peers."""

COLOURS: Final = dict(zip(ALGORITHMS, ("c2", "c1", "c0", "c3"), strict=True))
PEERS: Final = 20  # number of peers
DIAGONAL_DELAY: Final = 0.1  # delay between opposite corners of the area of the peers, seconds
PLACEMENTS_EACH: Final = 12  # number of placements by each algorithm
EQUATION: Final = (
    "An application lives while each of its n components has a replica that has not failed. If F of N peers fail, and "
    "each component has ϱ replicas: at the same ϱ peers "
    "<span class='formula'>A = 1 − C(N−ϱ, F−ϱ) / C(N, F)</span>, the best that there is; at random ones "
    "<span class='formula'>A = (1 − C(F, ϱ) / C(N, ϱ))<sup>n</sup></span> (section 4.2). Components that are spread "
    "are available less often. Peers that are near make results fast."
)


class PlacementResult(NamedTuple):
    """One placement with its availability and delays."""

    algorithm: str  # name of the algorithm, an element of `ALGORITHMS`
    availability: float  # probability that the application lives
    operator_delay: float  # mean delay of the links between operators, seconds
    backup_delay: float  # mean delay of the links from primaries to their backups, seconds


def placements(
    failed: int = 3, degree: int = 2, components: int = 9, room: int = 9, *, seed: int = 1
) -> tuple[PlacementResult, ...]:
    """Place one application by each algorithm, several times, on 20 peers at random points of an area.

    ``failed``: number F of peers that fail; all sets of F peers are equally probable; ``degree``: number ϱ of replicas
    of each component; ``components``: number n of components, which form a chain; ``room``: number of primaries for
    which each peer has processing capacity; ``seed``: seed of the points of the peers, of the peers of source and sink,
    and of random choices.

    Raises ``ValueError`` if a number is out of range.
    """
    for name, value, most in (("failed", failed, PEERS), ("degree", degree, PEERS),
                              ("components", components, 40), ("room", room, 40)):  # fmt: skip
        least = 0 if name == "failed" else 1
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"{name}: {value!r}; expected a whole number from {least} to {most}")
    return _placements(failed, degree, components, room, seed)


@lru_cache(maxsize=64)
def _placements(failed: int, degree: int, components: int, room: int, seed: int) -> tuple[PlacementResult, ...]:
    """Compute what :func:`placements` returns, for arguments that were checked."""
    names = [f"peer-{number}" for number in range(1, PEERS + 1)]
    points = np.random.default_rng(seed).random((PEERS, 2))
    apart = DIAGONAL_DELAY / math.sqrt(2.0) * np.linalg.norm(points[:, None] - points[None], axis=2)
    place = {name: number for number, name in enumerate(names)}
    failures = ExactlyFailed(names, failed)

    def latency(one: str, other: str) -> float:
        return float(apart[place[one], place[other]])

    found = []
    for draw in range(PLACEMENTS_EACH):
        rng = random.Random(f"{seed}/{draw}")
        ends = rng.sample(names, 2)
        plan = _application(components, *ends)
        pinned = {name: each.at for name, each in plan.operators.items() if each.at is not None}
        for algorithm, roles in _placements_found(plan, degree, names, latency, pinned, room, rng):
            cost = costs(plan, roles, latency)
            found.append(PlacementResult(algorithm, availability(roles, failures), cost.inter_delay, cost.intra_delay))
    return tuple(found)


@lru_cache(maxsize=512)
def _application(components: int, begin: str, end: str) -> Plan:
    """A chain of components between a source and a sink at given peers; each component uses one core."""
    stream = source("packets", rate="1000 tuples/s", at=begin)
    for number in range(1, components + 1):
        stream = stream.filter("bytes > 0", id=f"o{number}", cost="1 ms", selectivity=1.0)
    return stream.sink("out", at=end)


def _placements_found(
    plan: Plan, degree: int, names: list[str], latency: Any, pinned: Mapping[str, str], room: int, rng: random.Random
) -> Iterator[tuple[str, Roles]]:
    """Name and placement of each algorithm that finds one under the limits of the peers."""
    for algorithm in ALGORITHMS:
        limits = ResidualLimits(dict.fromkeys(names, float(room)), lambda _sender, _to: 1e12)
        for name in pinned.values():
            limits.cores[name] += 1.0  # the work of sources and sinks takes no room of components
        try:
            if algorithm == "together":
                yield algorithm, optimal_placement(plan, degree, names, rng, pinned=pinned, limits=limits)
            elif algorithm == "random":
                yield algorithm, random_placement(plan, degree, names, rng, pinned=pinned, limits=limits)
            elif algorithm == "partition":
                groups = groups_of(names, degree, rng)
                yield algorithm, partition_placement(plan, groups, rng, pinned=pinned, limits=limits)
            else:
                yield algorithm, latency_placement(plan, degree, names, latency, pinned=pinned, limits=limits)
        except InsufficientCapacity:
            continue  # this algorithm has no placement under the limits


def draw_placements(failed: int, degree: int, components: int, room: int, links: str, target: float) -> Drawn:
    """Draw availability against delay for the placements of all algorithms."""
    found = placements(failed, degree, components, room)
    delay = {each: 1e3 * (each.operator_delay if links == "between operators" else each.backup_delay) for each in found}
    lowest = min([each.availability for each in found] or [0.0])
    most = max(delay.values(), default=0.0)
    plane = Plane(
        Axis(
            f"mean delay of the links {links}, ms", -0.04 * max(most, 1.0), 1.08 * max(most, 1.0), text="{:.3g}".format
        ),
        Axis("availability", max(lowest - 0.06, -0.02), 1.02, text="{:.2f}".format),
        right=100.0,
    )
    plane.line([(-1e3, target), (1e6, target)], "bad", dashed=True, tip=f"target {target:.3f}")
    means = {}
    for algorithm in ALGORITHMS:
        own = [each for each in found if each.algorithm == algorithm]
        if not own:
            continue
        tips = [f"{algorithm}: availability {each.availability:.4f}, {delay[each]:.1f} ms" for each in own]
        plane.dots([(delay[each], each.availability) for each in own], COLOURS[algorithm], tips=tips, radius=3.4)
        x = sum(delay[each] for each in own) / len(own)
        y = sum(each.availability for each in own) / len(own)
        means[algorithm] = (y, x)
        plane.dots([(x, y)], COLOURS[algorithm], tips=[f"mean of {algorithm}"], radius=7.0)
    for algorithm, (y, _) in means.items():
        plane.beside(y, algorithm, COLOURS[algorithm])
    best = nondominated(means)
    try:
        needed = str(degree_for(target, ExactlyFailed([str(number) for number in range(PEERS)], failed)))
    except ValueError:
        needed = "none"
    numbers = (
        ("together, 4.2", f"{optimal_availability(PEERS, failed, degree):.4f}"),
        ("partition, expected", f"{partition_availability(PEERS, failed, degree, components):.4f}"),
        ("random, expected", f"{random_availability(PEERS, failed, degree, components):.4f}"),
        (f"degree for {target:g}", needed),
    )
    lost = [algorithm for algorithm in ALGORITHMS if algorithm not in means]
    sentence = (
        f"On average, no algorithm is better in availability and delay than {' and '.join(best)}." if best else ""
    )
    if lost:
        sentence += f" No peer has room for all components of {', '.join(lost)}."
    return Drawn(plane.to_svg("Availability against the delay of links"), numbers, sentence.strip())


def explorer() -> Explorer:
    """Explore how number and places of replicas change availability and delay (dissertation, chapter 4).

    Each small point is one placement of one application on 20 peers, a large one the mean of an algorithm.

    Examples
    --------
    >>> dict(explorer().numbers)["together, 4.2"]
    '0.9842'
    """
    controls = (
        Range("failed", "peers that fail", 0, 10),
        Range("degree", "replicas ϱ", 1, 5),
        Range("components", "components n", 1, 16),
        Range("room", "room of a peer", 1, 16, 1, " comp."),
        Choice("links", "delay of links", ("between operators", "to backups")),
        Range("target", "target", 0.8, 1.0, 0.005),
    )
    values: dict[str, Value] = {
        "failed": 3,
        "degree": 2,
        "components": 9,
        "room": 9,
        "links": "between operators",
        "target": 0.99,
    }

    return Explorer("Availability against delay", EQUATION, controls, values, draw_placements)
