"""What hosting asks of its driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from synergy_nb.dataflow.streams.component import Component
from synergy_nb.dataflow.streams.frames import Frame
from synergy_nb.dataflow.streams.values import Point

__all__ = ["Arrived", "Capture", "Close", "Effect", "Fact", "Open", "Send"]


class Send(msgspec.Struct, frozen=True, eq=False):
    """A frame has to go to a peer.

    Parameters
    ----------
    to
        Address of the peer.
    frame
        Frame that it is sent.
    """

    to: str
    frame: Frame


class Capture(msgspec.Struct, frozen=True, eq=False):
    """The bytes of a snapshot have to be made, and handed to ``Hosting.captured``.

    Parameters
    ----------
    component
        Component that nothing is executed of meanwhile.
    number
        Number of the snapshot.
    make
        Makes the bytes; in any thread.
    """

    component: Component
    number: int
    make: Callable[[], bytes]


class Open(msgspec.Struct, frozen=True):
    """A source has to be read from a place on, and what it gives to be handed to ``Hosting.emit``.

    Parameters
    ----------
    application, operator
        Source that is read.
    since
        Place from which it is read: tuples and promises before it have been emitted.
    """

    application: str
    operator: str
    since: Point


class Close(msgspec.Struct, frozen=True):
    """A source is no longer read here.

    Parameters
    ----------
    application, operator
        Source that was read.
    """

    application: str
    operator: str


class Fact(msgspec.Struct, frozen=True):
    """Something has become true that others want to know.

    Parameters
    ----------
    kind
        ``component_failed``, ``copy_ready`` (whoever keeps a copy can take over) or ``taken_over`` (a component that
        took another's place goes on freely).
    application, operator
        Component that it is about.
    reason
        One sentence; empty where nothing is to be explained.
    """

    kind: str
    application: str
    operator: str
    reason: str = ""


class Arrived(msgspec.Struct, frozen=True):
    """A sink has results that the client may collect.

    Parameters
    ----------
    application, operator
        Sink that has them.
    """

    application: str
    operator: str


Effect: TypeAlias = Send | Capture | Open | Close | Arrived | Fact
