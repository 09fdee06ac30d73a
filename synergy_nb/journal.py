"""The one record of what happened and why.

Peers never write files or print: they emit :class:`Event` values, and the driver that runs them appends these to a
:class:`Journal`. ``explain()``, the HTML report, widgets and notebooks read journals and nothing else, so what they
show for a run on Dask workers and for a simulated one is the same.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

__all__ = ["Event", "Journal"]


class Event(msgspec.Struct, frozen=True):
    """One past fact.

    Parameters
    ----------
    time
        Seconds on the clock of the driver (the peer's clock on Dask workers, virtual time in the simulator).
    peer
        Address of the peer at which it happened.
    kind
        A short past fact, such as ``probe_dropped``.
    subject
        The request, application or peer it is about; empty when it is about the peer itself.
    detail
        Named values, all of them plain (numbers, strings, lists, dictionaries).
    sequence
        Position in the journal that holds the event; assigned when it is appended.
    """

    time: float
    peer: str
    kind: str
    subject: str = ""
    detail: dict[str, Any] = {}
    sequence: int = -1


class Journal:
    """A bounded, append-only list of events that readers follow by sequence number.

    Parameters
    ----------
    capacity
        Events kept; the oldest go first. A reader that fell behind sees the gap in the sequence numbers.

    Examples
    --------
    >>> journal = Journal()
    >>> _ = journal.append(Event(0.5, "peer-1", "probe_sent", "r1", {"operator": "filter"}))
    >>> [event.kind for event in journal.about("r1")]
    ['probe_sent']
    """

    def __init__(self, capacity: int = 100_000) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: {capacity} events; expected at least 1")
        self._events: deque[Event] = deque(maxlen=capacity)
        self._next = 0

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[Event]:
        return iter(tuple(self._events))

    @property
    def next_sequence(self) -> int:
        """Sequence number that the next event will get."""
        return self._next

    def append(self, event: Event) -> Event:
        """Add one event and return it with its sequence number."""
        event = msgspec.structs.replace(event, sequence=self._next)
        self._next += 1
        self._events.append(event)
        return event

    def since(self, sequence: int, limit: int | None = None) -> list[Event]:
        """Events numbered ``sequence`` and later, at most ``limit`` of them, oldest first."""
        first = self._next - len(self._events)
        skip = max(sequence - first, 0)
        stop = len(self._events) if limit is None else min(len(self._events), skip + limit)
        events = self._events
        return [events[index] for index in range(skip, stop)]

    def about(self, subject: str, kinds: Iterable[str] | None = None) -> list[Event]:
        """Events of one request, application or peer, oldest first, optionally only of some kinds."""
        wanted = None if kinds is None else frozenset(kinds)
        return [
            event for event in self._events if event.subject == subject and (wanted is None or event.kind in wanted)
        ]

    def to_json_lines(self) -> str:
        """The journal as one JSON object a line."""
        return "".join(json.dumps(msgspec.to_builtins(event), sort_keys=True) + "\n" for event in self._events)

    @classmethod
    def from_json_lines(cls, text: str, capacity: int = 100_000) -> Journal:
        """Read what :meth:`to_json_lines` wrote; sequence numbers are assigned anew."""
        journal = cls(capacity)
        for line in text.splitlines():
            if line.strip():
                journal.append(msgspec.json.decode(line, type=Event))
        return journal
