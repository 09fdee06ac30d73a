"""The baselines of the dissertation (section 4.5), computed centrally, with or without resource limits.

*Optimal* places all primaries on one peer, and a backup of each on every further peer up to the degree. *Random* places
each replica on a random peer. *Partition* [1]_ divides the peers once into groups whose size is the degree, and places
each component on one group. *Latency* places each primary at the peer nearest to the peers that it reads from, and each
backup at the peer nearest to its primary. The nearest peer of a peer is the peer itself. So with the literal rule
components stay together while one peer has room for them, which those of the paper's Latency did not ("as it is
equivalent to Random" in availability). With ``apart`` each component gets a peer without other components of the
application, while there is one.

Each replica goes to the first peer in the order of preference that has the resources it needs.

References
----------
.. [1] H. Yu, P. B. Gibbons and S. Nath, "Availability of Multi-Object Operations", NSDI 2006.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext

from synergy_nb.algorithms.availability._limits import InsufficientCapacity, ResidualLimits, check_degree, components_of
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import counted

Latency = Callable[[str, str], float]
Choice = tuple[Iterable[str], Callable[[str], Iterable[str]]]
"""Peers for a primary in order of preference, and those for its backups, given the primary."""


def optimal_placement(
    plan: Plan,
    degree: int,  # replication degree ϱ
    peers: Sequence[str],  # peers that may execute components
    rng: random.Random,
    *,
    pinned: Mapping[str, str],  # peers of sources and sinks, and of other operators that have to be at a certain peer
    # residual resources of peers and links, or None for no limits. The resources of an application that fits are
    # subtracted
    limits: ResidualLimits | None = None,
) -> Roles:
    """All primaries on one random peer, all backups on ``degree - 1`` others.

    Raises ``ValueError`` if there are fewer peers than the degree says; ``InsufficientCapacity`` if it does not fit.
    """
    check_degree(degree, peers)
    first, *others = rng.sample(list(peers), degree)
    return _placed(plan, degree, pinned, limits, lambda _operator, _primaries: ([first], lambda _primary: others))


def random_placement(
    plan: Plan,
    degree: int,
    peers: Sequence[str],
    rng: random.Random,
    *,
    pinned: Mapping[str, str],
    limits: ResidualLimits | None = None,
) -> Roles:
    """Each replica on a random peer; parameters as of :func:`optimal_placement`."""
    check_degree(degree, peers)

    def anywhere(_operator: str, _primaries: Mapping[str, str]) -> Choice:
        return rng.sample(list(peers), len(peers)), lambda _primary: rng.sample(list(peers), len(peers))

    return _placed(plan, degree, pinned, limits, anywhere)


def groups_of(peers: Sequence[str], degree: int, rng: random.Random) -> list[list[str]]:
    """Disjoint random groups of ``degree`` peers; peers that do not fill a group are left out."""
    check_degree(degree, peers)
    order = rng.sample(list(peers), len(peers))
    return [order[start : start + degree] for start in range(0, len(order) - degree + 1, degree)]


def partition_placement(
    plan: Plan,
    groups: Sequence[Sequence[str]],
    rng: random.Random,
    *,
    pinned: Mapping[str, str],
    limits: ResidualLimits | None = None,
) -> Roles:
    """Each component on a random group of peers; :func:`groups_of` makes such groups."""

    def grouped(_operator: str, _primaries: Mapping[str, str]) -> Choice:
        order = [rng.sample(list(group), len(group)) for group in rng.sample(list(groups), len(groups))]
        with_it = {peer: group for group in order for peer in group}
        return with_it, lambda primary: with_it.get(primary, ())

    return _placed(plan, len(groups[0]), pinned, limits, grouped)


def latency_placement(
    plan: Plan,
    degree: int,
    peers: Sequence[str],
    latency: Latency,  # seconds between two peers
    *,
    pinned: Mapping[str, str],
    limits: ResidualLimits | None = None,
    apart: bool = False,  # whether primaries prefer peers that have nothing of the application, and backups too
) -> Roles:
    """Each replica on the nearest peer; parameters as of :func:`optimal_placement`."""
    check_degree(degree, peers)
    used: set[str] = set()

    def nearest(operator: str, primaries: Mapping[str, str]) -> Choice:
        reads = [(primaries[upstream], plan.bandwidth(upstream)) for upstream in plan.upstream(operator)]

        def cost(peer: str) -> tuple[bool, float]:
            return apart and peer in used, sum(latency(sender, peer) * bandwidth for sender, bandwidth in reads)

        def backups(primary: str) -> list[str]:
            used.add(primary)
            found = sorted(peers, key=lambda peer: (apart and peer in used, latency(primary, peer)))
            used.update([peer for peer in found if peer != primary][: degree - 1])
            return found

        return sorted(peers, key=cost), backups

    return _placed(plan, degree, pinned, limits, nearest)


def _placed(
    plan: Plan,
    degree: int,
    pinned: Mapping[str, str],
    limits: ResidualLimits | None,
    choose: Callable[[str, Mapping[str, str]], Choice],
) -> Roles:
    """Place operator by operator, each after its inputs."""
    primaries: dict[str, str] = {}
    backups: dict[str, tuple[str, ...]] = {}
    replicated = set(components_of(plan))
    with limits.all_or_nothing() if limits is not None else nullcontext():
        for operator in plan.operators:
            wanted, others = choose(operator, primaries) if operator in replicated else ((), _nobody)
            if operator in pinned:
                wanted = [pinned[operator]]
            count = degree - 1 if operator in replicated else 0
            found = next(_possible(plan, operator, wanted, others, count, primaries, limits), None)
            if found is None:
                needed = f"it and {counted(count, 'backup')}"
                raise InsufficientCapacity(f"operator {operator!r}: no peer has room for {needed}")
            primaries[operator] = found[0]
            if operator in replicated:
                backups[operator] = found[1:]
            if limits is not None:
                limits.allocate(plan, operator, found, primaries)
    return Roles(primaries, backups)


def _nobody(_primary: str) -> tuple[str, ...]:
    return ()


def _possible(
    plan: Plan,
    operator: str,
    wanted: Iterable[str],
    others: Callable[[str], Iterable[str]],
    count: int,
    primaries: Mapping[str, str],
    limits: ResidualLimits | None,
) -> Iterator[tuple[str, ...]]:
    """Yield the peers that can have the replicas of an operator together, the primary's first; preferred ones first."""
    for primary in wanted:
        if limits is not None and not limits.fits(plan, operator, primary, primaries):
            continue
        if limits is not None and not limits.sends(plan, operator, primary, count):
            continue
        rest = [
            peer
            for peer in others(primary)
            if peer != primary and (limits is None or limits.fits_backup(plan, operator, primary, peer))
        ]
        if len(rest) >= count:
            yield primary, *rest[:count]
