"""Availability of a placement of replicas, exactly or by sampling; the replication degree that a target asks for.

An application is available while all its components are, and a component while one of its replicas is (section 4.2). So
it fails if for some component all peers of its group of replicas have failed. By inclusion and exclusion over groups,

    A = Σ_S (-1)^|S| P(all peers of the groups in S have failed).

Terms with the same peers are put together, those that cannot happen are dropped (of more peers than can fail), and a
group that holds another one adds nothing. What is left is one to some hundreds of terms for placements as protocols
make them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np

from synergy_nb.algorithms.availability._failures import Failures
from synergy_nb.control.roles import Roles

MOST_TERMS: Final = 1 << 16
SURE: Final = 1.96  # standard deviations to each side of the mean within which 95 % of a normal distribution lie

Groups = Mapping[str, Collection[str]]
"""Component to the peers of its replicas."""


class Estimate(NamedTuple):
    """A sampled availability; with 95 % confidence it is within ``error`` of the exact one."""

    value: float
    error: float


def availability(placed: Roles | Groups, failures: Failures) -> float:
    """Probability that every component has a replica that has not failed.

    Parameters
    ----------
    placed
        Component graph λ and replicas ρ of the application.
    failures
        Model of how peers fail.

    Raises
    ------
    ValueError
        If there is no component, a component without replicas, a peer that the failures are not about, or more than
        65536 terms: groups in large numbers that hardly overlap, for which there is :func:`sampled_availability`.

    Examples
    --------
    >>> from synergy_nb.algorithms.availability._failures import ExactlyFailed
    >>> peers = [f"v{number}" for number in range(20)]
    >>> together = {f"o{number}": ("v0", "v1") for number in range(9)}
    >>> round(availability(together, ExactlyFailed(peers, 3)), 4)
    0.9842
    """
    masks, peers = _masks(_groups(placed))
    chance = {0: 1.0}
    terms = {0: 1}
    for mask in masks:
        joined: dict[int, int] = {}
        for union, sign in terms.items():
            both = union | mask
            if both not in chance:
                chance[both] = failures.all_fail([peer for number, peer in enumerate(peers) if both >> number & 1])
            if chance[both] > 0.0:
                joined[both] = joined.get(both, 0) - sign
        for both, sign in joined.items():
            terms[both] = terms.get(both, 0) + sign
        if len(terms) > MOST_TERMS:
            raise ValueError(
                f"components: {len(masks)} groups of peers that hardly overlap; expected fewer, or sampling"
            )
    return min(max(math.fsum(sign * chance[union] for union, sign in terms.items()), 0.0), 1.0)


def sampled_availability(placed: Roles | Groups, failures: Failures, count: int, seed: int) -> Estimate:
    """Share of ``count`` sampled failures that the application outlives, with Wilson's 95 % bound of its error."""
    groups = _groups(placed)
    if count < 1:
        raise ValueError(f"count: {count}; expected at least 1 sample")
    place = {peer: number for number, peer in enumerate(failures.peers)}
    failed = failures.draw(np.random.default_rng(seed), count)
    lost = np.zeros(count, dtype=np.bool_)
    for group in {frozenset(peers) for peers in groups.values()}:
        lost |= failed[:, [place[peer] for peer in group]].all(axis=1)
    value = 1.0 - float(lost.mean())
    middle = (value + SURE**2 / (2 * count)) / (1.0 + SURE**2 / count)
    half = SURE * math.sqrt(value * (1.0 - value) / count + (SURE / (2 * count)) ** 2) / (1.0 + SURE**2 / count)
    return Estimate(value, abs(middle - value) + half)


def degree_for(target: float, failures: Failures, most: int | None = None) -> int:
    """The least replication degree whose expected availability reaches a target such as 0.999.

    Expected is the availability of an application whose components are all at the same peers, as many as the degree
    says and drawn at random: 1 less the mean probability that such peers have all failed. A placement that resources
    spread over more peers may have less, and is to be held against the target itself.

    Parameters
    ----------
    target
        Availability, from 0 to less than 1, or 1 where peers cannot all fail.
    failures
        Model of how peers fail.
    most
        Degree allowed; by default the number of peers.

    Raises
    ------
    ValueError
        If no degree reaches it; says which availability the highest one has.

    Examples
    --------
    >>> from synergy_nb.algorithms.availability._failures import IndependentFailures
    >>> degree_for(0.999, IndependentFailures(dict.fromkeys("abcdef", 0.05)))
    3
    """
    if not 0.0 <= target <= 1.0:
        raise ValueError(f"target: {target!r}; expected a number from 0 to 1")
    limit = len(failures.peers) if most is None else min(most, len(failures.peers))
    reached = 0.0
    for degree in range(1, limit + 1):
        reached = 1.0 - failures.mean_all_fail(degree)
        if reached >= target - 1e-12:
            return degree
    raise ValueError(f"availability: {target:g}; expected at most {reached:.6g}, which degree {limit} reaches")


# -- closed forms ------------------------------------------------------------------------------------------------------


def optimal_availability(peers: int, failed: int, degree: int) -> float:
    """Availability with all components at the same ``degree`` peers: 1 - C(N-d, F-d) / C(N, F)."""
    _check(peers, failed, degree)
    return 1.0 - _together(peers, failed, degree)


def random_availability(peers: int, failed: int, degree: int, components: int) -> float:
    """Availability with each component at ``degree`` random peers of its own: (1 - C(F, d) / C(N, d))^n."""
    _check(peers, failed, degree)
    return (1.0 - math.comb(failed, degree) / math.comb(peers, degree)) ** components


def partition_availability(peers: int, failed: int, degree: int, components: int) -> float:
    """Availability with each component at a random one of G = ⌊N/d⌋ groups: Σ_j P(j groups have failed) (1 - j/G)^n."""
    _check(peers, failed, degree)
    groups = peers // degree
    available = 0.0
    for lost in range(groups + 1):
        chance = math.fsum(
            (-1) ** (more - lost) * math.comb(more, lost) * math.comb(groups, more)
            * _together(peers, failed, more * degree)
            for more in range(lost, groups + 1)
        )  # fmt: skip
        available += chance * (1.0 - lost / groups) ** components
    return available


def _together(peers: int, failed: int, count: int) -> float:
    """Probability that ``count`` given peers are among the failed ones."""
    return math.comb(peers - count, failed - count) / math.comb(peers, failed) if count <= failed else 0.0


def _check(peers: int, failed: int, degree: int) -> None:
    if not 1 <= degree <= peers:
        raise ValueError(f"degree: {degree}; expected 1 to {peers}, the number of peers")
    if not 0 <= failed <= peers:
        raise ValueError(f"failed: {failed}; expected 0 to {peers}, the number of peers")


# -- inside ------------------------------------------------------------------------------------------------------------


def _groups(placed: Roles | Groups) -> Groups:
    groups: Groups = placed.replicas if isinstance(placed, Roles) else placed
    if not groups:
        raise ValueError("components: none; expected at least one that is placed")
    for name, peers in groups.items():
        if not peers or len(set(peers)) < len(peers):
            raise ValueError(f"replicas of {name!r}: {tuple(peers)}; expected one peer at least, and none twice")
    return groups


def _masks(groups: Groups) -> tuple[list[int], list[str]]:
    """Least groups as bits, and the peers that the bits stand for."""
    peers = sorted({peer for group in groups.values() for peer in group})
    place = {peer: number for number, peer in enumerate(peers)}
    every = {sum(1 << place[peer] for peer in group) for group in groups.values()}
    least = [mask for mask in every if not any(other != mask and other & mask == other for other in every)]
    return sorted(least), peers
