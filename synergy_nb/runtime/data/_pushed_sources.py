"""The sources of a peer into which clients push rows, by the names that plans give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.values import ORIGIN, Point
from synergy_nb.plan import Plan
from synergy_nb.runtime.data.sources import PushFeed, SourceFeed


class PushedSources:
    """The sources with connector ``python`` that are open on a peer."""

    def __init__(self, feeds: Mapping[Component, SourceFeed], plan_of: Callable[[str], Plan | None]) -> None:
        self._feeds = feeds  # component to its feed, for all sources that are read on the peer
        self._plan_of = plan_of  # function that returns the plan of an application; None if it is not deployed here

    def push(self, application: str, name: str, data: bytes, start: Point = ORIGIN, age: float = 0.0) -> bool:
        """Push one encoded item to a source, which begins at a point, ``age`` seconds after its client first sent it.

        Returns: whether the source has the item now; False if it is full, or items before this one are missing.

        Raises ``LookupError`` if no such source is open on this peer; ``ValueError`` if the item does not fit the
        source, see :meth:`.PushFeed.push`.
        """
        return self._find(application, name)[1].push(data, start, age)

    def full(self, application: str, name: str) -> bool:
        """Whether a source takes nothing at present; LookupError if it is not open on this peer."""
        return self._find(application, name)[1].full

    async def room(self, application: str, name: str) -> None:
        """Return when a source has room, or has ended; LookupError if it is not open on this peer."""
        feed = self._find(application, name)[1]
        await feed.until(lambda: not feed.full)

    async def copied(self, application: str, name: str, epoch: int, beyond: Point) -> None:
        """Return when all copies of a source have more than up to a point, or it has ended or is of another epoch.

        Raises ``LookupError`` if no such source is open on this peer.
        """
        component, feed = self._find(application, name)
        await feed.until(lambda: component.epoch != epoch or _copied(component) > beyond)

    def progress(self, application: str, name: str) -> tuple[int, Point, Point]:
        """Return how far a source is.

        Returns: epoch of the source on this peer.

        Returns: point up to which it has been pushed.

        Returns: point up to which all copies of it have its output; that of its output if it has no copies.

        Raises ``LookupError`` if no such source is open on this peer.
        """
        component, feed = self._find(application, name)
        return component.epoch, feed.point, _copied(component)

    def _find(self, application: str, name: str) -> tuple[Component, PushFeed]:
        plan = self._plan_of(application)
        for component, feed in self._feeds.items():
            if component.application == application and isinstance(feed, PushFeed) and plan is not None:
                operator = plan.operators.get(component.operator)
                if operator is not None and operator.params.get("name") == name:
                    return component, feed
        raise LookupError(f"name: {name!r}; expected a python source of application {application!r} that runs here")


def _copied(component: Component) -> Point:
    return component.log.copied(component.copy_holders.behind)
