"""What hosting asks of its driver."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.streams.component import Component
from synergy_nb.dataflow.streams.frames import Frame
from synergy_nb.dataflow.streams.state_pieces import Encoded, decoded, encoded
from synergy_nb.dataflow.streams.values import Point

__all__ = ["Arrived", "Capture", "Captured", "Close", "Effect", "Fact", "FactKind", "Open", "Restore", "Send"]


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


class Captured(msgspec.Struct, frozen=True, eq=False):
    """What was made for a snapshot.

    Parameters
    ----------
    head
        Head of the operator's state.
    tables
        Number of each table to its pieces; None where these were not needed.
    """

    head: bytes
    tables: dict[int, list[Encoded] | None]


class Capture(msgspec.Struct, frozen=True, eq=False):
    """The state of a component has to be saved and encoded, in any thread, and handed to ``Hosting.captured``.

    Nothing is executed of the component until ``Hosting.saved`` or that is called.

    Parameters
    ----------
    component
        Component to save.
    number
        Number of the snapshot.
    known
        Tables of which no pieces are needed.
    most
        Bytes of a piece.
    """

    component: Component
    number: int
    known: Mapping[int, tuple[int, ...]]
    most: int

    def save(self) -> SavedState:
        """The state of the component, which is not copied."""
        return self.component.saving()

    def size(self, saved: SavedState) -> int:
        """Bytes of the tables that have to be encoded."""
        return sum(int(table.estimated_size()) for number, table in saved.tables.items() if number not in self.known)

    def encode(self, saved: SavedState) -> Captured:
        """What was saved as bytes; the component may be executed meanwhile."""
        tables: dict[int, list[Encoded] | None] = {}
        for number, table in saved.tables.items():
            tables[number] = None if number in self.known else encoded(table.clone(), self.most)
        return Captured(saved.head, tables)


class Restore(msgspec.Struct, frozen=True, eq=False):
    """A component has to go on from a snapshot, which is made in any thread; then ``Hosting.restored`` is to be called.

    Parameters
    ----------
    component
        Component that nothing is executed of meanwhile.
    head
        Head of the operator's state.
    tables
        Number of each table to the bytes of its pieces.
    """

    component: Component
    head: bytes
    tables: Mapping[int, tuple[bytes, ...]]

    @property
    def size(self) -> int:
        """Bytes of the tables."""
        return sum(len(piece) for pieces in self.tables.values() for piece in pieces)

    def make(self) -> None:
        """Restore the operator's state.

        Raises
        ------
        ValueError
            If it is no state of this operator.
        """
        if self.component.logic is not None:
            tables = {number: decoded(pieces) for number, pieces in self.tables.items()}
            self.component.logic.restore(SavedState(self.head, tables))


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


class FactKind(StrEnum):
    """Kinds of facts about a component."""

    COMPONENT_FAILED = "component_failed"  # it has failed, or could not be made
    COPY_READY = "copy_ready"  # the peer that keeps a copy of it can take over
    COPIES_BEHIND = "copies_behind"  # of the peers that keep a copy of it, some could not take over
    TAKEN_OVER = "taken_over"  # it took another's place, and no longer follows an order of the other


class Fact(msgspec.Struct, frozen=True):
    """Something has become true that others want to know.

    Parameters
    ----------
    kind
        Kind of the fact.
    application, operator
        Component that it is about.
    reason
        Reason in one sentence; empty where nothing is to be explained.
    peers
        Addresses of the peers that it is about, where it is about others.
    """

    kind: FactKind
    application: str
    operator: str
    reason: str = ""
    peers: tuple[str, ...] = ()


class Arrived(msgspec.Struct, frozen=True):
    """A sink has results that the client may collect.

    Parameters
    ----------
    application, operator
        Sink that has them.
    """

    application: str
    operator: str


Effect: TypeAlias = Send | Capture | Restore | Open | Close | Arrived | Fact
