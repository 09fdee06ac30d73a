"""Events of components that wait: for whom or for what, as the peer that executes them reads it off cursors and merges.

:mod:`synergy_nb.reporting.stalls` joins them to chains, from who has nothing to who is the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from synergy_nb.events.base import RequestEvent

__all__ = ["Awaited", "WaitBegun", "WaitEnded", "Why"]


class Why(StrEnum):
    """What a component waits for, or with what it is occupied."""

    INPUT = "input"  #: for what a producer makes: rows, or the promise that no earlier row follows
    ROOM = "room"  #: for a reader that has used up its window
    COPIES = "copies"  #: for a copy that has not confirmed what has to be safe
    FOLDER = "folder"  #: for the disk of a durable folder, which has not taken what has to be safe
    TURN = "turn"  #: for another component of its peer, which executes
    WINDOW = "window"  #: for event time: the windows of its rows are not over
    SILENT = "silent"  #: a source: for rows, of which there are none
    UNPROMISED = "unpromised"  #: a source: rows come, but a part of what it reads may have earlier ones
    UNREACHABLE = "unreachable"  #: a source or a sink: for a system outside, which cannot be used at present
    RESULTS = "results"  #: a sink: for its readers or what it writes to, as all that it may retain waits for them
    EXECUTION = "execution"  #: for the end of its own execution, which is long
    BUSY = "busy"  #: nothing: its input comes faster than it executes


class Awaited(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A component that another one waits for, with the address of its peer, and whether that peer is silent."""

    application: str
    operator: str
    peer: str
    silent: bool = False


class WaitBegun(RequestEvent, frozen=True, gc=False):
    """A component has waited for some seconds, of which it says why; one wait is recorded once."""

    operator: str
    why: Why
    since: float  # time in seconds since when
    awaited: Sequence[Awaited] = ()  # for whom
    said: str = ""  # what is known of what it reads or writes outside, as the end of a sentence
    moves: bool = False  # whether it still gives something meanwhile
    ahead_s: float | None = None  # by how much of event time another input is ahead of the awaited one, seconds
    rate: float | None = None  # tuples/s that a busy component takes
    tuple_s: float | None = None  # seconds that it takes for each


class WaitEnded(RequestEvent, frozen=True, gc=False):
    """A component does not wait any more for what it was last said to wait for, after some ``seconds``."""

    operator: str
    seconds: float
