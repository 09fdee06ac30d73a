"""A simulated overlay for tests: ring, failure detector and directory, and the oracle of what is right."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from synergy_nb.control.peer import Message, Peer, Protocol
from synergy_nb.overlay.directory import Directory, Entry
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.prebuilt_ring import assemble
from synergy_nb.overlay.ring import distance, number_of, ring_position
from synergy_nb.simulator.kernel import Network, SimulatedPeers


class RoutedLabel(Message, frozen=True):
    """Something to route."""

    routed = True

    label: int


class Doorstep(Protocol):
    """Where messages arrive."""

    def __init__(self, peer: Peer, arrived: list[tuple[int, str, str]]) -> None:
        super().__init__(peer)
        self.handlers = {RoutedLabel: lambda sender, message: arrived.append((message.label, peer.address, sender))}


class World:
    """A ring of simulated peers.

    Parameters
    ----------
    count
        Peers named p0, p1, ...
    seed
        Of faults and peers.
    assembled
        True: state is filled in by :func:`assemble`; False: all join through p0 at once.
    lease, period
        Of the directory and of the failure detector, in seconds.
    network, codec
        Of the simulation.
    """

    def __init__(
        self,
        count: int,
        seed: int = 0,
        assembled: bool = False,
        lease: float = 30.0,
        period: float = 0.5,
        network: Network | None = None,
        codec: bool = False,
    ) -> None:
        self.simulation = SimulatedPeers(seed, network, codec=codec)
        self.simulation.on_link_failed.append(lambda address, other: self.membership[address].suspect(other))
        self.simulation.on_refused.append(self._refused)
        self.tells = True  # whether the machine of a crashed peer says that its process has ended
        self.rng = random.Random(f"world/{seed}")
        self.lease = lease
        self.period = period
        self.pastry: dict[str, Pastry] = {}
        self.membership: dict[str, Membership] = {}
        self.directory: dict[str, Directory] = {}
        self.arrived: list[tuple[int, str, str]] = []  # (label, root, origin)
        self.lives = 0
        addresses = [f"p{number}" for number in range(count)]
        for address in addresses:
            self.simulation.add(self.make(address))
        if assembled:
            assemble(list(self.pastry.values()), seed=seed)
        for address in addresses:
            self.simulation.start(address)
        if not assembled:
            self.call("p0", self.pastry["p0"].join, None)
            for address in addresses[1:]:
                self.call(address, self.pastry[address].join, "p0")

    def make(self, address: str) -> Peer:
        """A new peer at ``address``, which takes the place of an earlier one in the tables of this world."""
        self.lives += 1
        peer = Peer(address, seed=self.rng.getrandbits(32))
        self.pastry[address] = pastry = Pastry(peer)
        self.membership[address] = membership = Membership(peer, pastry, period=self.period)
        self.directory[address] = directory = Directory(peer, pastry, membership, lease=self.lease)
        for protocol in (pastry, membership, directory, Doorstep(peer, self.arrived)):
            peer.add(protocol)
        return peer

    def _refused(self, sender: str, to: str) -> None:
        if self.tells:
            self.call(sender, self.membership[sender].note_refused, to)

    def call(self, address: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Call into a protocol of a live peer."""
        self.simulation.call(address, function, *arguments)

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.simulation.run(until=self.simulation.now + seconds)

    def crash(self, *addresses: str) -> None:
        """End peers without warning, all at once."""
        for address in addresses:
            self.simulation.crash(address)
            for table in (self.pastry, self.membership, self.directory):
                table.pop(address, None)

    def restart(self, address: str, contact: str) -> None:
        """A crashed peer comes back with nothing of its state, and joins."""
        self.simulation.restart(self.make(address))
        self.call(address, self.pastry[address].join, contact)

    @property
    def live(self) -> list[str]:
        """The peers that run, in the order of the ring."""
        return sorted(self.pastry, key=ring_position)

    def root(self, key: str) -> str:
        """The oracle: the nearest live peer."""
        number = number_of(key)
        return min(self.pastry, key=lambda address: (distance(ring_position(address), number), ring_position(address)))

    def leaf_set(self, address: str) -> set[str]:
        """The oracle: the 8 nearest live peers on each side."""
        ring = self.live
        index = ring.index(address)
        wing = min(8, len(ring) - 1)
        return {ring[(index + step) % len(ring)] for step in range(-wing, wing + 1)} - {address}

    def arrivals_of(
        self, keys: Sequence[str], origins: Sequence[str] | None = None, wait: float = 4.0
    ) -> list[str | None]:
        """Route a message to each key, and where each arrived: None for nowhere, or for more than one peer."""
        self.arrived.clear()
        for label, key in enumerate(keys):
            origin = self.rng.choice(self.live) if origins is None else origins[label]
            self.call(origin, self.pastry[origin].route, key, RoutedLabel(label))
        self.run(wait)
        places: dict[int, set[str]] = {}
        for label, root, _ in self.arrived:
            places.setdefault(label, set()).add(root)
        found = [places.get(label, set()) for label in range(len(keys))]
        return [next(iter(place)) if len(place) == 1 else None for place in found]

    def lookup(
        self, origin: str, names: Iterable[str], deadline: float = 5.0, wait: float | None = None
    ) -> dict[str, tuple[Entry, ...]] | None:
        """The answer to a look-up; fails the test if there is none, not even that time is over."""
        answers: list[dict[str, tuple[Entry, ...]] | None] = []
        self.call(origin, self.directory[origin].lookup, list(names), answers.append, deadline)
        self.run(deadline + 0.1 if wait is None else wait)
        assert len(answers) == 1, f"{len(answers)} answers to a look-up"
        return answers[0]

    def hosts(self, origin: str, name: str, deadline: float = 5.0) -> list[str] | None:
        """Hosts found under ``name``, from ``origin``."""
        answer = self.lookup(origin, [name], deadline)
        return None if answer is None else [entry.host for entry in answer[name]]

    def wrong_leaf_sets(self) -> dict[str, tuple[set[str], set[str]]]:
        """Peers whose leaf set is not the oracle's: what is missing, what is too much."""
        wrong = {}
        for address, pastry in self.pastry.items():
            have, want = set(pastry.leaf_set), self.leaf_set(address)
            if have != want:
                wrong[address] = (want - have, have - want)
        return wrong

    def false_deaths(self) -> list[tuple[str, str]]:
        """(who, whom): live peers that are held for dead."""
        return [
            (address, other)
            for address, membership in self.membership.items()
            for other in self.pastry
            if membership.is_dead(other)
        ]
