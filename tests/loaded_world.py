"""A simulated overlay whose peers publish their loads, and a count of the load updates on the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Message, Peer, key_of
from synergy_nb.models.overlapping_levels import OverlappingLevels
from synergy_nb.overlay.directory_entries import PeerLoad
from synergy_nb.overlay.directory_messages import LoadUpdate
from synergy_nb.overlay.load_levels import LEVELS, LoadLevels, reported_loads
from tests.overlay_world import World

JOINED = 12.0  # virtual seconds after which all peers are in the ring


class LoadedWorld(World):
    """Peers that publish their loads.

    Parameters
    ----------
    count, seed
        Number of peers, and seed of the world.
    levels
        Number of load levels.
    options
        Other parameters of :class:`~tests.overlay_world.World`.
    """

    def __init__(self, count: int, seed: int = 0, levels: int = LEVELS, **options: Any) -> None:
        self.levels = levels
        self.loads: dict[str, LoadLevels] = {}
        self.updates: Counter[tuple[str, str]] = Counter()  # (sender, receiver) to the number of load updates sent
        super().__init__(count, seed, **options)
        self._put = self.simulation.put
        self.simulation.put = self._count  # type: ignore[method-assign]
        self.simulation.duplication = 1e-12  # not zero, since then the simulator does not call this function

    def _count(self, when: float, address: str, sender: str, message: Message | None) -> None:
        if isinstance(message, LoadUpdate):
            self.updates[sender, address] += 1
        self._put(when, address, sender, message)

    def make(self, address: str) -> Peer:
        """A new peer at ``address``."""
        peer = super().make(address)
        levels = OverlappingLevels(self.levels)
        self.loads[address] = LoadLevels(peer, self.directory[address], Ledger(1.0, 1e6), levels)
        return peer

    def crash(self, *addresses: str) -> None:
        """End peers without warning."""
        super().crash(*addresses)
        for address in addresses:
            self.loads.pop(address, None)

    def offer(self, address: str, *names: str) -> None:
        """Have a peer offer components."""
        for name in names:
            self.call(address, self.loads[address].offer, name, {})

    def report(self, address: str, measured: float, predicted: float | None = None) -> None:
        """Have the driver of a peer report its load."""
        self.call(address, self.loads[address].report, measured, predicted)

    def responsible(self, *names: str) -> set[str]:
        """The distinct peers that are responsible for names, by their hashes."""
        return {self.root(key_of(name)) for name in names}

    def known(self, origin: str, names: Iterable[str]) -> dict[str, PeerLoad]:
        """The loads of hosts as a look-up from a peer returns them; fails the test unless all its entries agree."""
        found = self.lookup(origin, names)
        assert found is not None
        entries = [entry for each in found.values() for entry in each]
        loads = reported_loads(entries)
        assert all(entry.load == loads[entry.host] for entry in entries)
        return loads


def names_with(world: LoadedWorld, *, root: str, count: int) -> list[str]:
    """Names of components for which a peer is responsible."""
    found = (f"component-{number}" for number in range(10_000))
    return list(islice((each for each in found if world.root(key_of(each)) == root), count))
