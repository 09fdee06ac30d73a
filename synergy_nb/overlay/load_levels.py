"""What the directory says of the load of peers: the capacity that each has left, beside every component that it offers.

Theory of operation
-------------------
Whoever composes wants to probe peers that have capacity left, and before the first probe the directory is all that it
has heard. So the entries of a peer's components say how many cores it has left, in levels a fifth apart: what balances
the load (equation 2.5) is the share that a component takes of what is left, which levels of equal ratio give with
equal precision. A level that has changed is told once, at most so often, however many sessions came and went; probes
find out what is true in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from synergy_nb.control.peer import Peer, Timer
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.directory_entries import Entry

__all__ = ["FREE", "LoadLevels", "quantised", "residual_cores"]

FREE: Final = "free"  # the attribute of an entry
STEP: Final = 1.2  # ratio of two levels
LEAST: Final = 0.01  # cores, below which there are none


def quantised(cores: float) -> float:
    """Residual capacity as it is told, in cores.

    Examples
    --------
    >>> quantised(1.0), round(quantised(0.42), 3), quantised(0.001)
    (1.0, 0.402, 0.0)
    """
    return STEP ** round(math.log(cores, STEP)) if cores >= LEAST else 0.0


def residual_cores(entries: Iterable[Entry]) -> dict[str, float]:
    """Cores that hosts have left, by host, of those that say so."""
    known = ((entry.host, entry.attributes.get(FREE)) for entry in entries)
    return {host: float(cores) for host, cores in known if isinstance(cores, int | float)}


class LoadLevels:
    """The components that one peer offers, in the directory, with what it has left.

    Parameters
    ----------
    peer, directory
        Peer whose load is published, and the directory.
    residual
        Gives the residual processing capacity, in cores.
    every
        Seconds between two changes that are told.
    """

    def __init__(self, peer: Peer, directory: Directory, residual: Callable[[], float], every: float = 1.0) -> None:
        self.peer = peer
        self.directory = directory
        self.residual = residual
        self.every = every
        self._offered: dict[str, Mapping[str, str]] = {}
        self._told = quantised(residual())
        self._timer: Timer | None = None

    def offer(self, component: str, attributes: Mapping[str, str]) -> None:
        """Register a component."""
        self._offered[component] = attributes
        self.directory.register(component, "component", {**attributes, FREE: self._told})

    def withdraw(self) -> None:
        """Take back all of them."""
        for component in self._offered:
            self.directory.unregister(component, "component")
        self._offered.clear()

    def changed(self) -> None:
        """Something was taken or given back."""
        if self._timer is None and quantised(self.residual()) != self._told:
            self._timer = self.peer.after(self.every, self._tell)

    def _tell(self) -> None:
        self._timer = None
        now = quantised(self.residual())
        if now != self._told:
            self._told = now
            for component, attributes in self._offered.items():
                self.offer(component, attributes)
