"""Load levels: the load of a peer, and when the peer publishes it with its components in the directory.

Theory of operation
-------------------
This is the one source of the load of a peer. It distinguishes three loads, all as shares of the processing capacity:
the *promised* load, by the ledger; the *measured* load, which the driver reports; and the *predicted* load, where the
driver predicts one. All three travel in one load update, one message to each peer that is root of a component
(:meth:`.Directory.publish_load`). There are two reasons to send one:

- The load, which is the predicted one if there is one and else the measured one, has left its level (dissertation,
  section 3.4.3; :mod:`synergy_nb.models.overlapping_levels`).
- The promised load has left its level. Promises do not exceed the capacity, so their levels divide the loads from 0 to
  1, where composition compares peers (equation 2.5). Such a change is published at most once per interval, however many
  sessions have begun and ended; probes measure the exact value.

An update contains the loads themselves, not the numbers of levels. Renewals of leases are the keep-alives; they are
messages of their own, and contain no load.

References
----------
.. [1] T. Repantis, "Synergy: Quality of Service Support for Distributed Stream Processing Systems", dissertation, 2008,
   sections 3.4.2 and 3.4.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Peer, Timer
from synergy_nb.models.overlapping_levels import OverlappingLevels
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.directory_entries import Entry, PeerLoad
from synergy_nb.plan.operators.catalogue import PART

__all__ = ["CORES", "LEVELS", "SPEED", "LoadLevels", "free_cores", "reported_loads"]

CORES: Final = "cores"  # attribute of an entry: processing capacity of its host, cores
SPEED: Final = "speed"  # attribute of an entry: speed of its host without other programs, unless it is 1
LEVELS: Final = 21  # levels of the load: 0.5 wide, so that one begins at the load of a fully used server
PROMISED_LEVELS: Final = 21  # levels of the promised load: 0.05 wide


def reported_loads(entries: Iterable[Entry]) -> dict[str, PeerLoad]:
    """Find the load of each host, for entries that contain one.

    ``entries``: entries as look-ups return them; if several are of one host, its latest load counts.
    """
    loads: dict[str, PeerLoad] = {}
    for entry in entries:
        known = loads.get(entry.host)
        if entry.load is not None and (known is None or known.version < entry.load.version):
            loads[entry.host] = entry.load
    return loads


def free_cores(entries: Iterable[Entry]) -> dict[str, float]:
    """Compute the capacity that a further component would get at each host, cores; see :attr:`.PeerLoad.free`."""
    entries = tuple(entries)
    loads = reported_loads(entries)
    cores = {entry.host: entry.attributes.get(CORES) for entry in entries}
    return {
        host: capacity * loads[host].free
        for host, capacity in cores.items()
        if host in loads and isinstance(capacity, int | float)
    }


class LoadLevels:
    """The load of one peer, which it publishes with its components in the directory."""

    def __init__(
        self,
        peer: Peer,
        directory: Directory,
        ledger: Ledger,
        levels: OverlappingLevels | None = None,  # levels of the load; `LEVELS` of them by default
        every: float = 1.0,  # least time between two load updates because of the promised load, seconds
    ) -> None:
        self.peer = peer
        self.directory = directory
        self.ledger = ledger
        self.every = every
        self.messages = 0  # number of load updates sent to other peers so far
        self.overloaded = False  # whether the load is in the highest level
        # listeners, called when the load has entered the highest level (True), or left it (False)
        self.on_overload: list[Callable[[bool], None]] = []
        self._levels = OverlappingLevels(LEVELS) if levels is None else levels
        self._promised_levels = OverlappingLevels(PROMISED_LEVELS, severe=1.0)
        self._measured: float | None = None
        self._predicted: float | None = None
        self.offered: set[str] = set()
        self._timer: Timer | None = None

    @property
    def _promised(self) -> float:
        return max(self.ledger.load, 0.0)  # sums of released amounts may differ from 0 by a rounding error

    @property
    def load(self) -> PeerLoad:
        """The present load of the peer, which is not necessarily the published one."""
        return PeerLoad(self._promised, self._measured, self._predicted)

    def offer(self, component: str, attributes: Mapping[str, str]) -> None:
        """Register a component."""
        if not self.offered:
            self._publish()
        self.offered.add(component)
        server = self.ledger.server
        cores = self.ledger.machine if component == PART else self.ledger.cores
        speed = {} if server == 1.0 else {SPEED: server}
        self.directory.register(component, "component", {**attributes, CORES: cores, **speed})

    def retract(self, component: str) -> None:
        """Unregister a component."""
        self.offered.discard(component)
        self.directory.unregister(component, "component")

    def withdraw(self) -> None:
        """Unregister all components."""
        for component in sorted(self.offered):
            self.directory.unregister(component, "component")
        self.offered.clear()

    def report(self, measured: float, predicted: float | None) -> None:
        """Receive the driver's report of the load, and publish it if it has left its level.

        ``measured``: measured load, from 0; 1 stands for a server that is fully used, and work that waits counts;
        ``predicted``: predicted load on the same scale; None if none is predicted.
        """
        for field, value in (("measured", measured), ("predicted", predicted)):
            if value is not None and not 0.0 <= value < math.inf:
                raise ValueError(f"{field}: {value}; expected a finite load from 0")
        load = measured if predicted is None else predicted
        left = self._levels.leaves(load)
        self._measured, self._predicted = measured, predicted
        if not left:
            return
        self._publish()
        overloaded = self._levels.highest
        if overloaded != self.overloaded:
            self.overloaded = overloaded
            for listener in self.on_overload:
                listener(overloaded)

    def promises_changed(self) -> None:
        """Publish the load soon if a commitment or a release has moved the promised load out of its level."""
        if self._timer is None and not self._promised_levels.contains(self._promised):
            self._timer = self.peer.after(self.every, self._publish_promised)

    def _publish_promised(self) -> None:
        self._timer = None
        if not self._promised_levels.contains(self._promised):
            self._publish()

    def _publish(self) -> None:
        self._promised_levels.leaves(self._promised)
        self.messages += self.directory.publish_load(self.load)
