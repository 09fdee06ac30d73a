"""Frames: the typed messages of the data path between peers.

Frames may be lost, duplicated, delayed or reordered: so each states absolute points, not differences.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from synergy_nb.dataflow.streams.log.state_pieces import Part, Piece
from synergy_nb.dataflow.streams.log.values import (
    ORIGIN,
    Chunk,
    ComponentStream,
    Determinant,
    Loss,
    OnLag,
    OrderRun,
    Output,
    Point,
    Reader,
)
from synergy_nb.dataflow.tuples import START

__all__ = [
    "Ack",
    "ComponentState",
    "Data",
    "Determinants",
    "Frame",
    "LastOrder",
    "PieceReply",
    "PieceRequest",
    "Recall",
    "Subscribe",
    "Unsubscribe",
]


class Data(msgspec.Struct, frozen=True, eq=False, tag="data"):
    """Chunks of an output for one reader.

    Parameters
    ----------
    output
        Output that the chunks belong to.
    reader
        Reader that the chunks are for.
    start
        Point at which the first chunk begins; without chunks, the point from which the reader will be sent chunks.
    chunks
        Consecutive chunks.
    began
        Whether the log was trimmed between the reader's point and ``start``, so that a copy restarts.
    trimmed
        Point before which no reader needs the output any more, for copies.
    end
        Present end of the output, in the answer to a subscription.
    losses
        Losses up to that end, in such an answer: chunks that carried them may have been trimmed.
    latest
        Greatest event time in µs of all tuples before that end, in such an answer of an active replica.
    unasked
        Version of the producer's deployment, if the reader has not subscribed as far as the producer knows, so that it
        still has to; 0 if it has. A reader that knows a later deployment does not follow: another peer may have led the
        application by the producer's, whose take-over nobody else knows.
    """

    output: Output
    reader: Reader
    start: Point
    chunks: tuple[Chunk, ...] = ()
    began: bool = False
    trimmed: Point = ORIGIN
    end: Point = ORIGIN
    losses: tuple[Loss, ...] = ()
    latest: int = START
    unasked: int = 0


class Ack(msgspec.Struct, frozen=True, tag="ack"):
    """Acknowledgement: the progress of a reader.

    Parameters
    ----------
    output
        Output that it reads.
    reader
        Component that reads.
    received, consumed, durable
        Points up to which it has chunks, has executed them, and will not request them again.
    snapshot
        Number of the last complete snapshot of a copy; -1 before the first.
    unused_cores
        Unused cores of its peer.
    """

    output: Output
    reader: Reader
    received: Point
    consumed: Point
    durable: Point
    snapshot: int = -1
    unused_cores: float = 0.0


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe"):
    """A reader requests the chunks of an output, for the first time or again.

    Parameters
    ----------
    output
        Output to read.
    reader
        Component that reads.
    since
        Point from which it reads; None: the present end of the stream, or for a copy the beginning of the log.
    on_lag
        Policy for a reader that falls behind.
    machine
        Machine whose memory the reader's peer can read; empty where it reads only its own.
    """

    output: Output
    reader: Reader
    since: Point | None
    on_lag: OnLag = OnLag.BLOCK
    machine: str = ""


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe"):
    """A reader stops reading, or the producer notifies it that it will receive nothing more.

    Parameters
    ----------
    output
        Output that it read.
    reader
        Component that read.
    reason
        Reason in one sentence; empty where the reader itself has ended.
    """

    output: Output
    reader: Reader
    reason: str = ""


class ComponentState(msgspec.Struct, frozen=True, tag="state"):
    """A consistent cut through a component between two executions, for a peer that holds a copy of it.

    Parameters
    ----------
    output
        Output that the component makes.
    reader
        Copy that the snapshot is for.
    number
        Number of the snapshot in this epoch.
    inputs
        Number of each input to the point up to which it was executed.
    end
        Point that was reached in the output.
    trimmed
        Point before which no reader needs the output any more.
    head
        Head of the operator's state, as its ``save`` made it.
    parts
        Tables of the state, of which the copy asks for the pieces that it lacks.
    enclosed
        Pieces that are sent with this frame.
    order, causes
        Order in which inputs were read since the last chunk, and determinants that arrived with them.
    consumed, dropped
        Numbers of tuples that the component had consumed and had dropped.
    """

    output: Output
    reader: Reader
    number: int
    inputs: dict[int, Point]
    end: Point
    trimmed: Point
    head: bytes
    parts: tuple[Part, ...] = ()
    enclosed: tuple[Piece, ...] = ()
    order: tuple[OrderRun, ...] = ()
    causes: tuple[Determinant, ...] = ()
    consumed: int = 0
    dropped: int = 0


class PieceRequest(msgspec.Struct, frozen=True, tag="piece_request"):
    """A copy requests pieces of a snapshot.

    Parameters
    ----------
    output
        Output of the component.
    reader
        Copy that requests them.
    number
        Number of the last snapshot that was announced to the copy.
    pieces
        Numbers of the pieces.
    """

    output: Output
    reader: Reader
    number: int
    pieces: tuple[int, ...]


class PieceReply(msgspec.Struct, frozen=True, tag="piece_reply"):
    """A piece of a snapshot, for the copy that requested it.

    Parameters
    ----------
    output
        Output of the component.
    reader
        Copy that requested it.
    piece
        Piece of the snapshot.
    """

    output: Output
    reader: Reader
    piece: Piece


class Recall(msgspec.Struct, frozen=True, tag="recall"):
    """A peer that takes over asks another in which order the inputs of a stream were read.

    Parameters
    ----------
    output
        Output that will be made by the component that takes over.
    version
        Version of the deployment that the peer has to know, so that it refuses frames of earlier epochs.
    question
        Number of the question; the answer repeats it.
    epochs
        Operator to the epoch of its component, where there were several: a peer that shares streams of the
        application has to read from these.
    requires
        Application to the version of its deployment that the peer has to know if it takes part in that application.
    """

    output: Output
    version: int
    question: int = 0
    epochs: dict[str, int] = {}
    requires: dict[str, int] = {}


class Determinants(msgspec.Struct, frozen=True, tag="determinants"):
    """The answer to a :class:`Recall`: all that a peer knows of the order of inputs that made a stream.

    Parameters
    ----------
    stream
        Stream of the question.
    version
        Version of the application's deployment that the peer knows.
    found
        Determinants that the peer knows.
    question
        Number of the question.
    end
        Point up to which the stream has arrived at the peer, for its readers and copies.
    """

    stream: ComponentStream
    version: int
    found: tuple[Determinant, ...]
    question: int = 0
    end: Point = ORIGIN


class LastOrder(msgspec.Struct, frozen=True, tag="last_order"):
    """The peer that a component has left states the whole order of inputs, to the peer where the component is now.

    It emits nothing after it. Readers of the stream receive the frame, too, and pass it on: their way may be shorter.
    A component that still repeats one before it does not send it, as others depend on more than it has read. Of one
    that read its inputs aligned it states only where the output ends.

    Parameters
    ----------
    output
        Output that has ended.
    to
        Address of the peer that executes the component now.
    end
        Point at which the output ended.
    found
        Determinants of the output that no snapshot on all backups covers.
    """

    output: Output
    to: str
    end: Point
    found: tuple[Determinant, ...]


Frame: TypeAlias = (
    Data
    | Ack
    | Subscribe
    | Unsubscribe
    | ComponentState
    | PieceRequest
    | PieceReply
    | Recall
    | Determinants
    | LastOrder
)
