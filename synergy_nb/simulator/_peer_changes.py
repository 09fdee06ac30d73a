"""Peers that join and leave the ring of a simulation while applications run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from synergy_nb.errors import user_facing
from synergy_nb.events.application_states import LASTING
from synergy_nb.plan.terms.units import duration
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.reporting.formatting import seconds as span
from synergy_nb.simulator._network_choice import check_peer_name

if TYPE_CHECKING:
    from synergy_nb.simulator.composed_world import ComposedWorld
    from synergy_nb.simulator.simulated_application import SimulatedApplication

LEAVING_TIME: Final = 2.0  # virtual seconds from the announcement that a peer leaves until its end
MOST_TARGETS: Final = 4  # largest number of peers that are asked to execute a component of a peer that leaves


class Ring(Protocol):
    """The part of a simulation that joining and leaving need."""

    world: ComposedWorld

    @property
    def peers(self) -> Mapping[str, str]:
        """Living peers."""

    @property
    def applications(self) -> Mapping[str, SimulatedApplication]:
        """Id to application."""

    def run(self, seconds: float, /) -> Any:
        """Let virtual time pass."""

    def until(self, condition: Callable[[], bool], seconds: float, /) -> bool:
        """Let virtual time pass until a condition holds."""

    def move(self, application: SimulatedApplication, operator: str, to: str, /) -> None:
        """Move a component to another peer."""

    def _living(self, field: str, peer: str) -> str:
        """Return the name of a peer that lives."""


class PeerChanges:
    """Joining and leaving; :class:`~synergy_nb.simulator.simulation.Simulation` has them."""

    @user_facing
    def join(
        self: Ring, peer: str, *, near: str | None = None, cores: float | None = None, timeout: float | str = 60.0
    ) -> None:
        """Have a new peer join the ring; virtual time passes until the directory knows what it offers.

        Parameters
        ----------
        peer
            Name of the new peer.
        near
            Name of the peer at whose site it is, and through which it joins; None: one that is drawn.
        cores
            Processing capacity of the new peer, in cores; None: that of the peer at the same site.
        timeout
            Longest virtual time until it has joined, in seconds or as ``"1 min"``.

        Raises
        ------
        ClusterError
            If the name is or was that of a peer, ``near`` is no living peer, or the peer could not join in that time.
        """
        if not isinstance(peer, str):
            raise ClusterError(f"peer: {peer!r}; expected the name of a new peer")
        check_peer_name("peer", peer)
        if peer in self.world.topology.peers:
            raise ClusterError(f"peer: {peer!r} is or was a peer of this simulation; expected another name")
        if cores is not None and (isinstance(cores, bool) or not isinstance(cores, int | float) or not cores > 0):
            raise ClusterError(f"cores: {cores!r}; expected a positive number")
        patience = duration("timeout", timeout)
        reachable = [name for name in self.peers if not self.world.suspended(name)]
        if near is not None:
            contact = self._living("near", near)
        elif reachable:
            contact = self.world.rng.choice(reachable)
        else:
            raise ClusterError("near: no peer of this simulation answers; expected one through which to join")
        self.world.topology.add(peer, contact, None if cores is None else float(cores))
        self.world.join(peer, contact)
        if not self.until(lambda: self.world.joined(peer), patience):
            self.world.crash(peer)
            raise ClusterError(
                f"peer: {peer!r} did not join through {contact} in {span(patience)}; expected a peer that answers"
            )

    @user_facing
    def leave(self: Ring, peer: str) -> None:
        """Have a peer leave the ring in good order; virtual time passes until it has left.

        Its components move to other peers first, so applications go on without a loss; other peers take over its
        backups. To see how peers react to a death, kill a peer instead.

        Parameters
        ----------
        peer
            Name of the peer.

        Raises
        ------
        ClusterError
            If it is no living peer, if it is suspended, if it is the origin of an application that runs, or if a
            component of it cannot move; the message says why. The peer then stays.
        """
        self._living("peer", peer)
        if self.world.suspended(peer):
            raise ClusterError(f"peer: {peer!r} is suspended; expected one that answers: resume it first")
        if len(self.peers) == 1:
            raise ClusterError(f"peer: {peer!r} is the last one; expected that another one stays")
        led = [each.id for each in _lasting(self) if each.origin == peer]
        if led:
            raise ClusterError(f"peer: {peer!r} is the origin of {', '.join(led)}; expected a peer that leads nothing")
        for application in _lasting(self):
            for operator, at in application.graph.items():
                if at == peer and application.status in LASTING:
                    _move_away(self, application, operator, peer)
        self.world.leave(peer)
        self.run(LEAVING_TIME)
        self.world.crash(peer)


def _lasting(ring: Ring) -> list[SimulatedApplication]:
    return [each for each in ring.applications.values() if each.status in LASTING]


def _move_away(ring: Ring, application: SimulatedApplication, operator: str, peer: str) -> None:
    """Move a component to the peer with the most free capacity that accepts it."""
    ledgers = {name: ring.world.synergy[name].ledger for name in ring.peers if not ring.world.suspended(name)}
    free = sorted(ledgers, key=lambda name: ledgers[name].cores * (ledgers[name].load - 1.0))
    refusal = "no other peer answers"
    for to in [name for name in free if name != peer][:MOST_TARGETS]:
        try:
            ring.move(application, operator, to)
        except ClusterError as refused:
            refusal = str(refused)
        else:
            return
        if application.status not in LASTING:
            return
    raise ClusterError(f"peer: {peer!r} stays, as a component of it cannot move: {refusal}")
