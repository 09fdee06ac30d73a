"""Load levels: the directory entry of each offered component contains the free processing capacity of its peer.

Theory of operation
-------------------
Composition prefers to probe peers with free capacity, and before the first probe it only knows the directory. So the
entries of a peer's components contain its free cores, rounded to levels with a ratio of 1.2. The load balancing metric
(equation 2.5) depends on the share that a component takes of the free capacity; levels of equal ratio give this share
with equal relative precision. A peer publishes a changed level at most once per interval, however many sessions have
begun and ended; probes measure the exact value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from synergy_nb.control.peer import Peer, Timer
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.directory_entries import Entry

__all__ = ["FREE", "LoadLevels", "quantised", "residual_cores"]

FREE: Final = "free"  # attribute of an entry: free cores
STEP: Final = 1.2  # ratio of two adjacent levels
LEAST: Final = 0.01  # cores; a smaller capacity counts as none


def quantised(cores: float) -> float:
    """Residual capacity rounded to the nearest level, cores.

    Examples
    --------
    >>> quantised(1.0), round(quantised(0.42), 3), quantised(0.001)
    (1.0, 0.402, 0.0)
    """
    return STEP ** round(math.log(cores, STEP)) if cores >= LEAST else 0.0


def residual_cores(entries: Iterable[Entry]) -> dict[str, float]:
    """Host to its free cores, for entries that contain them."""
    known = ((entry.host, entry.attributes.get(FREE)) for entry in entries)
    return {host: float(cores) for host, cores in known if isinstance(cores, int | float)}


class LoadLevels:
    """Publishes the components of one peer in the directory, with its free cores.

    Parameters
    ----------
    peer, directory
        The peer, and its directory protocol.
    residual
        Function that returns the residual processing capacity of the peer, cores.
    every
        Least time between two published changes, seconds.
    """

    def __init__(self, peer: Peer, directory: Directory, residual: Callable[[], float], every: float = 1.0) -> None:
        self.peer = peer
        self.directory = directory
        self.residual = residual
        self.every = every
        self._offered: dict[str, Mapping[str, str]] = {}
        self._published = quantised(residual())
        self._timer: Timer | None = None

    def offer(self, component: str, attributes: Mapping[str, str]) -> None:
        """Register a component."""
        self._offered[component] = attributes
        self.directory.register(component, "component", {**attributes, FREE: self._published})

    def withdraw(self) -> None:
        """Unregister all components."""
        for component in self._offered:
            self.directory.unregister(component, "component")
        self._offered.clear()

    def changed(self) -> None:
        """Publish the load level soon, if a commitment or a release has changed it."""
        if self._timer is None and quantised(self.residual()) != self._published:
            self._timer = self.peer.after(self.every, self._publish)

    def _publish(self) -> None:
        self._timer = None
        now = quantised(self.residual())
        if now != self._published:
            self._published = now
            for component, attributes in self._offered.items():
                self.offer(component, attributes)
