"""The journal: the record of a peer's events, with their reasons.

Peers never write files or print: they emit events (:mod:`synergy_nb.events`), and their driver appends these to a
:class:`Journal`. ``explain()``, the HTML report, widgets and notebooks read only journals, so they show live and
simulated runs in the same form.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar, overload

import msgspec

from synergy_nb.events import Event, decode_events, encode_events

__all__ = ["Journal"]

PAGE: Final = 1024  # number of events that are encoded together
E = TypeVar("E", bound=Event)


class _Page(NamedTuple):
    """Older events in encoded form, in a fifth of the memory."""

    held: int
    subjects: frozenset[str]
    data: bytes

    def events(self) -> list[Event]:
        """Decode the events."""
        return decode_events(self.data)


class Journal:
    """A bounded, append-only list of events that readers follow by sequence number.

    Examples
    --------
    >>> from synergy_nb.events import SourceStarted
    >>> journal = Journal()
    >>> _ = journal.append(SourceStarted(0.5, "peer-1", "r1", operator="packets"))
    >>> [event.operator for event in journal.about("r1", SourceStarted)]
    ['packets']
    """

    def __init__(self, capacity: int = 100_000, volume: int | None = None) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: {capacity} events; expected at least 1")
        if volume is not None and volume < 1:
            raise ValueError(f"volume: {volume} bytes; expected at least 1")
        # largest number of events; the oldest are discarded first. A reader that lags sees the gap in the sequence
        # numbers
        self.capacity = capacity
        # limit in bytes of the older events, which are retained in encoded form, so that a peer of many applications
        # does not run out of memory; the oldest are discarded first. None: all events are retained without encoding
        self.volume = volume
        self._pages: deque[_Page] = deque()
        self._packed = 0  # number of events in pages
        self._bytes = 0
        self._events: deque[Event] = deque()  # events after the pages
        self._next = 0

    def __len__(self) -> int:
        return min(self._packed + len(self._events), self.capacity)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.since(0))

    @property
    def next_sequence(self) -> int:
        """Sequence number of the next event."""
        return self._next

    @property
    def packed_bytes(self) -> int:
        """Bytes of the older events, which are held in encoded form."""
        return self._bytes

    def append(self, event: Event) -> Event:
        """Append one event and return it with its sequence number."""
        event = msgspec.structs.replace(event, sequence=self._next)
        self._next += 1
        self._events.append(event)
        if self.volume is not None and len(self._events) >= 2 * PAGE:
            self._pack(self.volume)
        if len(self._events) > self.capacity:
            self._events.popleft()
        return event

    def _pack(self, volume: int) -> None:
        """Encode the older half of the events that are not encoded, and discard pages beyond the limit."""
        older = [self._events.popleft() for _ in range(PAGE)]
        page = _Page(PAGE, frozenset(chain.from_iterable(event.subjects for event in older)), encode_events(older))
        self._pages.append(page)
        self._packed += page.held
        self._bytes += len(page.data)
        while self._pages and (
            self._bytes > volume or self._packed - self._pages[0].held + len(self._events) >= self.capacity
        ):
            gone = self._pages.popleft()
            self._packed -= gone.held
            self._bytes -= len(gone.data)

    def since(self, sequence: int, limit: int | None = None) -> list[Event]:
        """Events numbered ``sequence`` and later, at most ``limit`` of them, oldest first."""
        first = max(sequence, self._next - len(self))
        stop = self._next if limit is None else min(self._next, first + limit)
        found: list[Event] = []
        number = self._next - len(self._events) - self._packed  # sequence number of the first event of a page
        for page in self._pages:
            if number < stop and first < number + page.held:
                found.extend(page.events()[max(first - number, 0) : stop - number])
            number += page.held
        found.extend(self._events[index] for index in range(max(first - number, 0), max(stop - number, 0)))
        return found

    @overload
    def about(self, subject: str) -> list[Event]: ...
    @overload
    def about(self, subject: str, kind: type[E]) -> list[E]: ...
    def about(self, subject: str, kind: type[Event] = Event) -> list[Any]:
        """Events of one request, application or peer, oldest first, optionally only of one type and those below it."""
        first = self._next - len(self)
        pages = (page.events() for page in self._pages if subject in page.subjects)
        return [
            event
            for event in chain(chain.from_iterable(pages), self._events)
            if subject in event.subjects and event.sequence >= first and isinstance(event, kind)
        ]
