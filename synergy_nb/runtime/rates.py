"""Measured rates of streams, in the directory: what a plan does not say of a source, earlier runs may."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

__all__ = ["Rates"]

CHANGE: Final = 0.25  # relative, that is worth telling
SETTLED: Final = 5  # measurements before the first is told, so that a start is not taken for the rate
KEPT: Final = 64  # streams whose rates a peer goes on telling, the latest ones


class Rates:
    """Tells the directory what rates a peer measures.

    Parameters
    ----------
    register, unregister
        Of the directory: called with a stream's name and attributes, and with a name.

    Examples
    --------
    >>> told = []
    >>> rates = Rates(lambda name, attributes: told.append((name, attributes["rate"])), told.append)
    >>> for rate in [10.0, 90.0, 100.0, 100.0, 100.0, 110.0, 130.0]:
    ...     rates.note([{"stream": "packets", "output_rate": rate}])
    >>> told
    [('packets', 100.0), ('packets', 130.0)]
    """

    def __init__(self, register: Callable[[str, Mapping[str, float]], None], unregister: Callable[[str], None]) -> None:
        self._register = register
        self._unregister = unregister
        self._told: OrderedDict[str, float] = OrderedDict()
        self._seen: dict[str, int] = {}

    def note(self, components: Iterable[Mapping[str, Any]]) -> None:
        """Take what was measured of components that are at work."""
        for stats in components:
            name, rate = stats["stream"], stats["output_rate"]
            seen = self._seen[name] = self._seen.get(name, 0) + 1
            told = self._told.get(name, 0.0)
            if seen < SETTLED or rate <= 0.0 or abs(rate - told) <= CHANGE * told:
                continue
            self._told[name] = rate
            self._told.move_to_end(name)
            self._register(name, {"rate": rate})
        while len(self._told) > KEPT:
            name, _ = self._told.popitem(last=False)
            self._seen.pop(name, None)
            self._unregister(name)
        if len(self._seen) > 16 * KEPT:
            self._seen = {name: self._seen[name] for name in self._told}
