"""Residual resources of peers and virtual links, for placements that are computed centrally (section 4.3.2).

A primary needs the processing capacity of its operator and, on each virtual link from another peer, the bandwidth of
the stream that it reads. A backup needs the bandwidth of the primary's output on the link from the primary, and no
processing capacity. All that a peer sends to others passes its uplink, and all that it receives its downlink, where
these are limited.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from synergy_nb.control.ledger import ROUNDING
from synergy_nb.control.roles import Roles
from synergy_nb.errors import SynergyError
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.replica_degrees import is_taken_over


class InsufficientCapacity(SynergyError, ValueError):
    """An application needs more processing capacity or bandwidth than the peers and links have left."""


class ResidualLimits:
    """Residual processing capacity of peers and residual bandwidth of the virtual links between them.

    Parameters
    ----------
    cores
        Peer to cores.
    bandwidth
        (sender, receiver) to bytes/s; asked for two different peers only.
    uplinks, downlinks
        Peer to the bandwidth of its uplink and downlink, bytes/s; infinite for peers that are not named.

    Examples
    --------
    >>> limits = ResidualLimits({"a": 1.0, "b": 0.5}, lambda sender, to: 1e6)
    >>> limits.left("a", "b")
    1000000.0
    """

    def __init__(
        self,
        cores: Mapping[str, float],
        bandwidth: Callable[[str, str], float],
        uplinks: Mapping[str, float] | None = None,
        downlinks: Mapping[str, float] | None = None,
    ) -> None:
        self.cores = dict(cores)
        self.capacity = dict(cores)
        self.bandwidth = bandwidth
        self.uplinks = dict(uplinks or {})
        self.downlinks = dict(downlinks or {})
        self._allocated: dict[tuple[str, str], float] = {}

    def left(self, sender: str, to: str) -> float:
        """Residual bandwidth between two different peers, bytes/s: the least of link, uplink and downlink."""
        return min(self.left_on_link(sender, to), self.uplinks.get(sender, math.inf), self.downlinks.get(to, math.inf))

    def left_on_link(self, sender: str, to: str) -> float:
        """Residual bandwidth of the virtual link between two different peers alone, bytes/s."""
        return self.bandwidth(sender, to) - self._allocated.get((sender, to), 0.0)

    def fits(self, plan: Plan, operator: str, peer: str, primaries: Mapping[str, str]) -> bool:
        """Whether a peer has room for the primary of an operator that reads the outputs of ``primaries``."""
        if self.cores[peer] < plan.load(operator) - ROUNDING * self.capacity[peer]:
            return False
        read = _read(plan, operator, peer, primaries)
        if sum(read.values()) * (1.0 - ROUNDING) > self.downlinks.get(peer, math.inf):
            return False
        return all(self._carries(link, amount) for link, amount in read.items())

    def sends(self, plan: Plan, operator: str, primary: str, backups: int) -> bool:
        """Whether the uplink of a peer carries the output of a primary to a number of backups."""
        return plan.bandwidth(operator) * backups * (1.0 - ROUNDING) <= self.uplinks.get(primary, math.inf)

    def fits_backup(self, plan: Plan, operator: str, primary: str, peer: str) -> bool:
        """Whether a peer has room for a backup of an operator whose primary is at another peer."""
        return self._carries((primary, peer), plan.bandwidth(operator))

    def _carries(self, link: tuple[str, str], amount: float) -> bool:
        return self.left(*link) >= amount - ROUNDING * self.bandwidth(*link)

    def allocate(self, plan: Plan, operator: str, replicas: Collection[str], primaries: Mapping[str, str]) -> None:
        """Subtract the resources of the replicas of an operator, the primary first, without a check."""
        primary, *backups = replicas
        self.cores[primary] -= plan.load(operator)
        links = _read(plan, operator, primary, primaries)
        links.update({(primary, backup): plan.bandwidth(operator) for backup in backups})
        for (sender, to), amount in links.items():
            self._allocated[sender, to] = self._allocated.get((sender, to), 0.0) + amount
            if sender in self.uplinks:
                self.uplinks[sender] -= amount
            if to in self.downlinks:
                self.downlinks[to] -= amount

    def admit(self, plan: Plan, placed: Roles) -> None:
        """Subtract the resources of all replicas of an application.

        Raises ``InsufficientCapacity`` if the application does not fit; then nothing is subtracted.
        """
        with self.all_or_nothing():
            for operator in plan.operators:
                primary, *backups = placed.replicas.get(operator, (placed.peers[operator],))
                possible = self.fits(plan, operator, primary, placed.peers)
                possible = possible and self.sends(plan, operator, primary, len(backups))
                if not possible or not all(self.fits_backup(plan, operator, primary, peer) for peer in backups):
                    raise InsufficientCapacity(
                        f"operator {operator!r}: does not fit at {primary}, with backups at {backups}"
                    )
                self.allocate(plan, operator, (primary, *backups), placed.peers)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Context in which an :class:`InsufficientCapacity` restores all resources that were subtracted inside."""
        cores, allocated = dict(self.cores), dict(self._allocated)
        uplinks, downlinks = dict(self.uplinks), dict(self.downlinks)
        try:
            yield
        except InsufficientCapacity:
            self.cores, self._allocated = cores, allocated
            self.uplinks, self.downlinks = uplinks, downlinks
            raise


def _read(plan: Plan, operator: str, peer: str, primaries: Mapping[str, str]) -> dict[tuple[str, str], float]:
    """Bandwidth that a primary at a peer takes on the links to it."""
    links: dict[tuple[str, str], float] = {}
    for upstream in plan.upstream(operator):
        sender = primaries[upstream]
        if sender != peer:
            links[sender, peer] = links.get((sender, peer), 0.0) + plan.bandwidth(upstream)
    return links


def components_of(plan: Plan) -> list[str]:
    """The operators that are replicated: all but sources, and sinks that nobody could take over."""
    return [name for name, each in plan.operators.items() if each.kind != "source" and is_taken_over(each)]


def check_degree(degree: int, peers: Sequence[str]) -> None:
    """Raise a ValueError if there are fewer peers than replicas of a component, or no replicas."""
    if not 1 <= degree <= len(peers):
        raise ValueError(f"degree: {degree}; expected 1 to {len(peers)}, the number of peers")
