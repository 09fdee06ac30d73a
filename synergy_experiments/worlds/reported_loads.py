"""Simulated peers that publish their loads, for claim P8 (section 3.5, figure 3.25).

The peers form a ring, and each offers some of the components. Their loads are given, one sample a virtual second, as
their drivers would report them. Load updates are counted where they arrive, by the kernel of the receiver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Effect, Message, Peer, key_of
from synergy_nb.models.overlapping_levels import OverlappingLevels
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.directory_messages import LoadUpdate
from synergy_nb.overlay.load_levels import LoadLevels
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.prebuilt_ring import assemble
from synergy_nb.overlay.ring import distance, number_of, ring_position
from synergy_nb.simulator.kernel import SimulatedPeers, Uniform

__all__ = ["COMPONENTS", "Sent", "publish", "responsible"]

COMPONENTS: Final = 25  # number of components of all peers together
STABLE: Final = 12.0  # virtual seconds until all components are registered
SAMPLE: Final = 1.0  # virtual seconds between two samples of a load


class Sent(NamedTuple):
    """Load updates that arrived after the first report of each peer.

    Parameters
    ----------
    messages
        Peer to the number of its load updates that arrived at others.
    receivers
        Peer to the distinct peers at which they arrived.
    responsible
        Peer to the distinct other peers whose key is the nearest to that of one of its components.
    """

    messages: Mapping[str, int]
    receivers: Mapping[str, frozenset[str]]
    responsible: Mapping[str, frozenset[str]]


class _Counting(Peer):
    """A peer that records the senders of the load updates that it receives."""

    __slots__ = ("updated_by",)

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(address, seed)
        self.updated_by: list[str] = []

    def receive(self, sender: str, message: Message, now: float) -> list[Effect]:
        """Count, then receive."""
        if isinstance(message, LoadUpdate):
            self.updated_by.append(sender)
        return super().receive(sender, message, now)


def responsible(host: str, components: Sequence[str], addresses: Sequence[str]) -> frozenset[str]:
    """Return the peers other than the host that are responsible for a component, by the hash of its name."""

    def nearest(name: str) -> str:
        key = number_of(key_of(name))
        return min(addresses, key=lambda address: (distance(ring_position(address), key), ring_position(address)))

    return frozenset(map(nearest, components)) - {host}


def publish(levels: int, overlap: float, loads: Sequence[Sequence[float]], offered: int, seed: int) -> Sent:
    """Have peers report their loads, and count load updates.

    Parameters
    ----------
    levels, overlap
        Number of levels, and share of a level's width that neighbours have in common.
    loads
        Samples of the load of each peer.
    offered
        Number of components that each peer offers.
    seed
        Seed of the peers, of the network, and of the components that each peer offers.
    """
    simulation = SimulatedPeers(seed, Uniform(0.01, 0.1, seed))
    rng = Random(f"reported loads/{seed}")
    names = [f"component-{number}" for number in range(COMPONENTS)]
    peers: dict[str, _Counting] = {}
    rings: list[Pastry] = []
    reporting: dict[str, LoadLevels] = {}
    components = {f"peer-{number}": rng.sample(names, offered) for number in range(len(loads))}
    for address in components:
        peers[address] = peer = _Counting(address, rng.getrandbits(32))
        pastry = Pastry(peer)
        directory = Directory(peer, pastry)
        peer.add(pastry)
        peer.add(directory)
        rings.append(pastry)
        ledger = Ledger(cores=1.0, bandwidth=1e6)
        reporting[address] = LoadLevels(peer, directory, ledger, OverlappingLevels(levels, overlap=overlap))
        simulation.add(peer)
    assemble(rings, seed=seed)
    for address, own in components.items():
        simulation.start(address)
        for name in own:
            simulation.call(address, reporting[address].offer, name, {})
    simulation.run(until=STABLE)
    for number, sample in enumerate(zip(*loads, strict=True)):
        for address, load in zip(components, sample, strict=True):
            simulation.call(address, reporting[address].report, load, None)
        simulation.run(until=simulation.now + SAMPLE)
        if number == 0:
            for peer in peers.values():
                peer.updated_by.clear()
    arrived = {
        address: [to for to, peer in peers.items() for one in peer.updated_by if one == address] for address in peers
    }
    addresses = tuple(components)
    return Sent(
        {address: len(to) for address, to in arrived.items()},
        {address: frozenset(to) for address, to in arrived.items()},
        {address: responsible(address, own, addresses) for address, own in components.items()},
    )
