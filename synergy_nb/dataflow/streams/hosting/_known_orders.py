"""Orders of inputs that a peer knows, as they came with the chunks that anything on it depends on. No IO, no clock."""

from __future__ import annotations

from collections.abc import Iterable

from synergy_nb.dataflow.streams.log.values import ORIGIN, ComponentStream, Determinant, Point


class Orders:
    """Determinants of all streams that something on this peer depends on, until they are stable.

    Examples
    --------
    >>> stream = ComponentStream("app", "join")
    >>> first = Determinant(stream, Point(0, 0), Point(5, 0), (), ORIGIN)
    >>> second = Determinant(stream, Point(5, 0), Point(9, 0), (), Point(5, 0))
    >>> orders = Orders()
    >>> orders.add([first, first]), len(orders.of(stream))
    (None, 1)
    >>> orders.add([second]), orders.of(stream) == (second,)
    (None, True)
    """

    def __init__(self) -> None:
        self._found: dict[ComponentStream, dict[tuple[Point, Point], Determinant]] = {}
        self._stable: dict[ComponentStream, Point] = {}

    def add(self, determinants: Iterable[Determinant]) -> None:
        """Add determinants, and drop those that have become stable."""
        for each in determinants:
            stable = self._stable.get(each.stream, ORIGIN)
            if each.stable > stable:
                stable = self._stable[each.stream] = each.stable
                known = self._found.get(each.stream, {})
                for key in [key for key in known if key[1] <= stable]:
                    del known[key]
            if each.end > stable:
                found = self._found.setdefault(each.stream, {})
                found.setdefault((each.start, each.end), each)

    def of(self, stream: ComponentStream) -> tuple[Determinant, ...]:
        """Return all known determinants of a stream."""
        return tuple(self._found.get(stream, {}).values())

    def forget(self, application: str) -> None:
        """Drop the determinants of an application that has ended."""
        for stream in [stream for stream in self._found if stream.application == application]:
            del self._found[stream]
        for stream in [stream for stream in self._stable if stream.application == application]:
            del self._stable[stream]
