"""The tables of the flow simulator: growing arrays of records, shared by compiled code and Python."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

__all__ = [
    "APPLICATION",
    "DAY",
    "EDGE",
    "EVENT",
    "LINK",
    "NODE",
    "OBSERVED",
    "PEER",
    "PORT",
    "PROFILE",
    "SOURCE",
    "STATE",
    "Table",
    "aligned",
]

CACHE_LINE: Final = 64  # bytes

#: An event: at ``when`` a tuple born at ``born`` arrives at the component ``node`` over ``edge``, or the source
#: ``~edge`` acts. ``after`` and ``before`` are its neighbours of the same day, -1 for none; ``after`` chains those that
#: are not in use too.
EVENT: Final = np.dtype(
    [("when", "f8"), ("born", "f8"), ("node", "i4"), ("edge", "i4"), ("after", "i4"), ("before", "i4")]
)
#: First and last event of a day of the calendar, -1 for none.
DAY: Final = np.dtype([("first", "i4"), ("last", "i4")])
#: Where a run stands, one row.
STATE: Final = np.dtype(
    [
        ("events", "i8"),  # planned
        ("unused", "i8"),  # first event not in use, or -1
        ("today", "i8"),  # day of the earliest event, at the latest
        ("a_second", "f8"),  # days
        ("carried_out", "i8"),  # events since the calendar was looked at
        ("effort", "i8"),  # days and events passed by since then
        ("served", "i8"),  # component-tuples
        ("observed", "i8"),  # rows of observed tuples
    ]
)
#: A component: what every tuple needs, in one line of a cache. ``peer`` is -1 for one outside, ``edge`` its first
#: outgoing one or -1, ``application`` whose sink it is or -1; ``plain`` where each tuple gives one, whatever comes.
#: A tuple whose service would begin at an age above ``patience`` is dropped.
NODE: Final = np.dtype(
    [
        ("generator", "u8"),
        ("mean", "f8"),  # seconds at this peer; of drawn times a factor
        ("waiting", "f8"),  # seconds, of all tuples
        ("busy", "f8"),
        ("served", "i8"),
        ("peer", "i4"),
        ("edge", "i4"),
        ("application", "i4"),
        ("service", "i1"),
        ("alive", "i1"),
        ("plain", "i1"),
        ("matching", "i1"),
        ("patience", "f8"),  # seconds
    ],
    align=True,
)
#: What else there is to say of a component. All instances of a component that has moved have ``shared``, the row of the
#: first, in common; ``dropped`` is counted for each of them.
PROFILE: Final = np.dtype(
    [
        ("selectivity", "f8"),
        ("credit", "f8"),  # of outputs, kept from one tuple to the next
        ("random", "i8"),  # selectivity by chance rather than by credit
        ("first", "i8"),  # of its drawn times in the pool
        ("length", "i8"),
        ("place", "i8"),
        ("ring", "i8"),  # where its ring begins, if it matches its inputs
        ("inputs", "i8"),
        ("matched", "i8"),  # number of the next tuple that all inputs are to have brought
        ("lost", "i8"),
        ("dropped", "i8"),
        ("shared", "i8"),
    ],
)
#: Tuples that an edge has brought to a component that matches its inputs. Edges to the instances of such a component,
#: and from those of the component that it reads, count in one row, ``port``.
PORT: Final = np.dtype([("tuples", "i8"), ("port", "i8")])
#: A tuple that arrived at the component ``node`` at ``when`` and departed at ``done``, which is nan if it was dropped.
OBSERVED: Final = np.dtype([("when", "f8"), ("born", "f8"), ("done", "f8"), ("node", "i8")])
#: A source: the component ``node`` gets tuples from outside.
SOURCE: Final = np.dtype(
    [
        ("node", "i8"),
        ("kind", "i4"),
        ("state", "i4"),  # 0 not begun, 1 in a segment of low rate, 2 of high rate
        ("high", "f8"),  # tuples/s
        ("low", "f8"),
        ("on", "f8"),  # seconds of a segment
        ("off", "f8"),
        ("exponential", "i8"),  # segments of random length
        ("turn", "f8"),  # end of the segment
        ("start", "f8"),
        ("until", "f8"),
        ("left", "i8"),  # tuples to come
        ("first", "i8"),  # of its times of arrival in the pool
        ("length", "i8"),
        ("place", "i8"),
    ],
)
#: A stream from one component to another. ``sink`` is the application whose sink, outside, is all that it leads to;
#: ``link`` is -1 where there is none, or one that is never busy.
EDGE: Final = np.dtype(
    [
        ("to", "i4"),
        ("next", "i4"),
        ("link", "i4"),
        ("sink", "i4"),
        ("delay", "f8"),
        ("transmission", "f8"),  # seconds a tuple
    ],
)
#: When a link or a peer is free again, and for how many seconds it has been or will have been busy until then.
LINK: Final = np.dtype([("free", "f8"), ("busy", "f8")])
PEER: Final = LINK
#: Delays at the sinks of an application, and how its records are thinned out.
APPLICATION: Final = np.dtype(
    [
        ("tuples", "i8"),
        ("late", "i8"),
        ("limit", "f8"),
        ("total", "f8"),
        ("late_total", "f8"),
        ("squares", "f8"),
        ("most", "f8"),
        ("kept", "i8"),
        ("stride", "i8"),
    ]
)


def aligned(kind: Any, *shape: int) -> Any:
    """An array of zeros that begins where a line of the processor's cache does: records are no longer than a line."""
    size = math.prod(shape) * np.dtype(kind).itemsize
    room = np.zeros(size + CACHE_LINE, dtype=np.uint8)
    begin = -room.ctypes.data % CACHE_LINE
    return room[begin : begin + size].view(kind).reshape(shape)


class Table:
    """An array of records that grows; what is not in use is zero.

    Attributes
    ----------
    rows : ndarray
        Shape (room,) or (room, columns).
    used : int
        Rows in use.
    """

    def __init__(self, kind: Any, columns: int = 0) -> None:
        self._kind = np.dtype(kind)
        self._columns = (columns,) if columns else ()
        self.rows = aligned(self._kind, 16, *self._columns)
        self.used = 0

    def add(self, count: int = 1) -> int:
        """Number of the first of ``count`` new rows."""
        first = self.used
        self.used += count
        if self.used > len(self.rows):
            grown = aligned(self._kind, max(2 * len(self.rows), self.used), *self._columns)
            grown[:first] = self.rows[:first]
            self.rows = grown
        return first
