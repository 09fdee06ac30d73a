"""Communication costs of a placement: between operators, and from primaries to their backups (section 4.3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan


class Costs(NamedTuple):
    """Communication costs of a placement, and the mean delays of its links."""

    # inter, intra: inter-operator cost Σ s_j l_j over the streams between primaries, and intra-operator cost Σ s_ix
    # l_ix over the streams from primaries to their backups: bytes/s times seconds
    inter: float
    intra: float
    # inter_delay, intra_delay: mean seconds of a link of either kind; within a peer there are none. 0 where there is no
    # such link
    inter_delay: float
    intra_delay: float


def costs(plan: Plan, placed: Roles, latency: Callable[[str, str], float]) -> Costs:
    """Costs of a placement, without the streams from sources and to sinks, whose peers are given.

    ``placed``: component graph λ and replicas ρ of the application; ``latency``: seconds between two different peers.
    """

    def seconds(one: str, other: str) -> float:
        return 0.0 if one == other else latency(one, other)

    def streams() -> Iterator[tuple[float, float]]:
        for name in placed.backups:
            for up in plan.upstream(name):
                if up in placed.backups:
                    yield plan.bandwidth(up), seconds(placed.peers[up], placed.peers[name])

    replication = [
        (plan.bandwidth(name), seconds(placed.peers[name], peer))
        for name, peers in placed.backups.items()
        for peer in peers
    ]
    between = list(streams())
    return Costs(_cost(between), _cost(replication), _mean(between), _mean(replication))


def _cost(links: Iterable[tuple[float, float]]) -> float:
    return sum(bandwidth * delay for bandwidth, delay in links)


def _mean(links: list[tuple[float, float]]) -> float:
    return sum(delay for _, delay in links) / len(links) if links else 0.0


def nondominated(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Names of the points (availability, delay) than which no other is better in both: Pareto's front.

    Examples
    --------
    >>> nondominated({"a": (0.98, 0.03), "b": (0.90, 0.01), "c": (0.90, 0.02)})
    ['b', 'a']
    """
    front = [
        name
        for name, (available, delay) in points.items()
        if not any(
            other >= available and shorter <= delay and (other, shorter) != (available, delay)
            for other, shorter in points.values()
        )
    ]
    return sorted(front, key=lambda name: points[name][1])
