"""The total rate of a node, in both readings of section 3.3.2: claim B2 compares them.

Peers take the sum of all present rates (:mod:`synergy_nb.dataflow.streams.component.predictions`).
"""

from __future__ import annotations

__all__ = ["TotalRate"]


class TotalRate:
    """The total rate r_t of a node when it processes a tuple of an application (section 3.3.2), in two readings.

    Parameters
    ----------
    literal
        Whether the total is the sum of the rates of those applications of which tuples were processed since the last
        tuple of the same application, itself included (True), or the sum of the present rates of all applications at
        the node (False).

    Examples
    --------
    >>> total = TotalRate(literal=True)
    >>> [total.processed(*each) for each in [("a", 50.0), ("b", 10.0), ("a", 60.0), ("a", 60.0)]]
    [50.0, 60.0, 70.0, 60.0]
    >>> total = TotalRate()
    >>> [total.processed(*each) for each in [("a", 50.0), ("b", 10.0), ("a", 60.0), ("a", 60.0)]]
    [50.0, 60.0, 70.0, 70.0]
    """

    __slots__ = ("_literal", "_number", "_processed", "rates")

    def __init__(self, *, literal: bool = False) -> None:
        self._literal = literal
        self._number = 0
        self._processed: dict[str, int] = {}  # application to the number of its last tuple among all of the node
        self.rates: dict[str, float] = {}

    def processed(self, application: str, rate: float) -> float:
        """Count a processed item of an application; return the total rate for its pair, tuples/s.

        Parameters
        ----------
        application
            Name of the application.
        rate
            Present input rate of the application at this node, tuples/s.
        """
        rates = self.rates
        rates[application] = rate
        if not self._literal:
            return sum(rates.values())
        since = self._processed.get(application, 0)
        self._number += 1
        self._processed[application] = self._number
        return sum(rates[each] for each, number in self._processed.items() if number > since)

    def forget(self, application: str) -> None:
        """Remove an application that has left the node."""
        self.rates.pop(application, None)
        self._processed.pop(application, None)
