"""Costs of delays and paces of sources that users change while applications run: they hold at every peer.

Each peer of a cluster learns of a change, also one that does not execute the operator. So the operator keeps its cost
or pace when it moves, when a backup takes it over, and when a replica of it is rebuilt.
"""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar
from weakref import WeakSet

from synergy_nb.dataflow.operators.rows import Delay
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.runtime.data.sources import SourceFeed

__all__ = ["ChangedValues"]

V = TypeVar("V")

MOST: Final = 1000  # operators whose changed values are kept; of more, the oldest are forgotten
Key: TypeAlias = tuple[str, str]
"""Application and operator; all replicas of an operator have the same one."""


class ChangedValues:
    """The changed costs and paces of one peer, and the operators and sources that have them.

    Examples
    --------
    >>> values = ChangedValues()
    >>> values.change_cost("app", "work", 0.002)  # not executed here
    False
    >>> values.costs
    {('app', 'work'): 0.002}
    """

    def __init__(self) -> None:
        self.costs: dict[Key, float] = {}
        self.paces: dict[Key, float] = {}
        self._delays: dict[Key, WeakSet[Delay]] = {}
        self._feeds: dict[Key, WeakSet[SourceFeed]] = {}

    def created(self, component: Component, logic: object) -> None:
        """Give a new operator its changed cost, if it is a delay."""
        if not isinstance(logic, Delay):
            return
        key = component.application, original(component.operator)
        _kept(self._delays, key, WeakSet[Delay]()).add(logic)
        logic.cost = self.costs.get(key, logic.cost)

    def opened(self, component: Component, feed: SourceFeed) -> None:
        """Give a source that is opened its changed pace."""
        key = component.application, original(component.operator)
        _kept(self._feeds, key, WeakSet[SourceFeed]()).add(feed)
        if key in self.paces:
            feed.change_pace(self.paces[key])

    def change_cost(self, application: str, operator: str, seconds: float) -> bool:
        """Change the time that a tuple takes at a delay; return whether this peer executes it."""
        key = application, operator
        _kept(self.costs, key, seconds, replace=True)
        here = tuple(self._delays.get(key, ()))
        for delay in here:
            delay.cost = seconds
        return bool(here)

    def change_pace(self, application: str, source: str, factor: float) -> bool:
        """Change the pace of a source; return whether this peer reads it.

        ``application``, ``source``: application and operator.

        Raises ``ValueError`` if the source has no pace of its own.
        """
        key = application, source
        here = [feed for feed in self._feeds.get(key, ()) if not feed.stopped]
        for feed in here:
            feed.change_pace(factor)
        _kept(self.paces, key, factor, replace=True)
        return bool(here)


def _kept(values: dict[Key, V], key: Key, value: V, *, replace: bool = False) -> V:
    """Return the value of a key after adding it, or replacing it on request."""
    if replace or key not in values:
        values.pop(key, None)
        values[key] = value
    if len(values) > MOST:
        del values[next(iter(values))]
    return values[key]
