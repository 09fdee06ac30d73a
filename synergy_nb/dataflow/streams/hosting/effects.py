"""Effects: what hosting asks of its driver."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from synergy_nb.dataflow.logic import ANYTHING, SavedState
from synergy_nb.dataflow.prediction_reports import PeerPrediction, SlackViolation
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting.input_reports import InputsMeasured
from synergy_nb.dataflow.streams.log.frames import Frame
from synergy_nb.dataflow.streams.log.state_pieces import Encoded, decoded, encoded
from synergy_nb.dataflow.streams.log.values import Point

__all__ = [
    "Arrived",
    "Capture",
    "Captured",
    "Close",
    "Copied",
    "Effect",
    "Fact",
    "FactKind",
    "Hold",
    "Open",
    "Restore",
    "SendFrame",
]


class SendFrame(msgspec.Struct, frozen=True, eq=False):
    """Send a frame to a peer."""

    to: str  # address of the peer
    frame: Frame


class Captured(msgspec.Struct, frozen=True, eq=False):
    """The encoded state of a snapshot."""

    head: bytes  # head of the operator's state
    # number of each table to its pieces; None for a table whose pieces are not needed
    tables: dict[int, list[Encoded] | None]


class Capture(msgspec.Struct, frozen=True, eq=False):
    """Save and encode the state of a component, in any thread; the driver passes it to ``Hosting.captured``.

    The component executes nothing until ``Hosting.saved`` or ``Hosting.captured`` is called.
    """

    component: Component
    number: int  # number of the snapshot
    known: Mapping[int, tuple[int, ...]]  # tables whose pieces are not needed
    most: int  # size limit of a piece, bytes

    def save(self) -> SavedState:
        """Save the state of the component without copying it."""
        return self.component.saving()

    def size(self, saved: SavedState) -> int:
        """Return the bytes of the tables that have to be encoded."""
        return sum(int(table.estimated_size()) for number, table in saved.tables.items() if number not in self.known)

    def encode(self, saved: SavedState) -> Captured:
        """Encode saved state; the component may be executed meanwhile."""
        tables: dict[int, list[Encoded] | None] = {}
        for number, table in saved.tables.items():
            tables[number] = None if number in self.known else encoded(table.clone(), self.most)
        return Captured(saved.head, tables)


class Restore(msgspec.Struct, frozen=True, eq=False):
    """Restore a component from a snapshot, in any thread; then the driver calls ``Hosting.restored``."""

    component: Component  # component to restore; it executes nothing meanwhile
    head: bytes  # head of the operator's state
    tables: Mapping[int, tuple[bytes, ...]]  # number of each table to the bytes of its pieces

    @property
    def size(self) -> int:
        """Bytes of the tables."""
        return sum(len(piece) for pieces in self.tables.values() for piece in pieces)

    def make(self) -> None:
        """Restore the operator's state.

        Raises ``ValueError`` if the snapshot is not a state of this operator.
        """
        if self.component.logic is not None:
            tables = {number: decoded(pieces) for number, pieces in self.tables.items()}
            self.component.logic.restore(SavedState(self.head, tables))

    def attempt(self) -> BaseException | None:
        """Restore the operator's state; return the exception that was raised, or None."""
        try:
            self.make()
        except ANYTHING as error:
            return error
        return None


class Open(msgspec.Struct, frozen=True):
    """Read a source from a point on, and pass what it yields to ``Hosting.emit``."""

    application: str
    operator: str
    since: Point  # point from which it is read: tuples and promises before it have been emitted


class Hold(msgspec.Struct, frozen=True):
    """Read a source that is open no further (``on``), or go on reading it.

    What it has given already is kept until ``Hosting.may_emit`` is true.
    """

    application: str
    operator: str
    on: bool


class Close(msgspec.Struct, frozen=True):
    """Stop reading a source."""

    application: str
    operator: str


class FactKind(StrEnum):
    """Kinds of facts about a component."""

    COMPONENT_FAILED = "component_failed"  # it has failed, or could not be created
    COPY_READY = "copy_ready"  # this peer has a copy of it and can take over
    COPIES_BEHIND = "copies_behind"  # some peers with a copy of it could not take over
    INPUT_LOST = "input_lost"  # one of several stream replicas sends it nothing more
    FRAME_REFUSED = "frame_refused"  # a peer that does not read or make its stream has sent a frame
    TAKEN_OVER = "taken_over"  # it replaced another one, and replays no more of its order


class Fact(msgspec.Struct, frozen=True):
    """Report a fact about a component to the control side."""

    kind: FactKind
    application: str
    operator: str
    reason: str = ""  # reason in one sentence; empty where there is nothing to explain
    peers: tuple[str, ...] = ()  # addresses of the peers concerned, where the fact concerns other peers


class Arrived(msgspec.Struct, frozen=True):
    """Report that a sink has results for the client to collect."""

    application: str
    operator: str


class Copied(msgspec.Struct, frozen=True):
    """Report that copies of a source or a sink have more of its output: see ``StreamLog.copied``."""

    # application, operator: component whose copies have advanced, or some of which nobody waits for any more
    application: str
    operator: str


Effect: TypeAlias = (
    SendFrame
    | Capture
    | Restore
    | Open
    | Hold
    | Close
    | Arrived
    | Copied
    | Fact
    | PeerPrediction
    | SlackViolation
    | InputsMeasured
)
