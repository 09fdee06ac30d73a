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
    """Chunks of an output for one reader."""

    output: Output  # output that the chunks belong to
    reader: Reader
    # point at which the first chunk begins; without chunks, the point from which the reader will be sent chunks
    start: Point
    chunks: tuple[Chunk, ...] = ()  # consecutive chunks
    began: bool = False  # whether the log was trimmed between the reader's point and `start`, so that a copy restarts
    trimmed: Point = ORIGIN  # point before which no reader needs the output any more, for copies
    end: Point = ORIGIN  # present end of the output, in the answer to a subscription
    # losses up to that end, in such an answer: chunks that carried them may have been trimmed
    losses: tuple[Loss, ...] = ()
    # greatest event time in µs of all tuples before that end, in such an answer of an active replica
    latest: int = START
    # version of the producer's deployment, if the reader has not subscribed as far as the producer knows, so that it
    # still has to; 0 if it has. A reader that knows a later deployment does not follow: another peer may have led the
    # application by the producer's, whose take-over nobody else knows
    unasked: int = 0


class Ack(msgspec.Struct, frozen=True, tag="ack", omit_defaults=True):
    """Acknowledgement: the progress of a reader."""

    output: Output  # output that it reads
    reader: Reader  # component that reads
    # received, consumed, durable: points up to which it has chunks, has executed them, and will not request them again
    received: Point
    consumed: Point
    durable: Point
    snapshot: int = -1  # number of the last complete snapshot of a copy; -1 before the first
    unused_cores: float = 0.0  # unused cores of its peer
    # point up to which its snapshots in the durable folder cover the output; None: the same as `durable`
    saved: Point | None = None


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe"):
    """A reader requests the chunks of an output, for the first time or again."""

    output: Output  # output to read
    reader: Reader  # component that reads
    # point from which it reads; None: the present end of the stream, or for a copy the beginning of the log
    since: Point | None
    on_lag: OnLag = OnLag.BLOCK  # policy for a reader that falls behind
    machine: str = ""  # machine whose memory the reader's peer can read; empty where it reads only its own


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe"):
    """A reader stops reading, or the producer notifies it that it will receive nothing more."""

    output: Output
    reader: Reader  # component that read
    reason: str = ""  # reason in one sentence; empty where the reader itself has ended


class ComponentState(msgspec.Struct, frozen=True, tag="state"):
    """A consistent cut through a component between two executions, for a peer that holds a copy of it."""

    output: Output
    reader: Reader  # copy that the snapshot is for
    number: int  # number of the snapshot in this epoch
    inputs: dict[int, Point]  # number of each input to the point up to which it was executed
    end: Point  # point that was reached in the output
    trimmed: Point  # point before which no reader needs the output any more
    head: bytes  # head of the operator's state, as its `save` made it
    parts: tuple[Part, ...] = ()  # tables of the state, of which the copy asks for the pieces that it lacks
    enclosed: tuple[Piece, ...] = ()  # pieces that are sent with this frame
    # order, causes: order in which inputs were read since the last chunk, and determinants that arrived with them
    order: tuple[OrderRun, ...] = ()
    causes: tuple[Determinant, ...] = ()
    # consumed, dropped: numbers of tuples that the component had consumed and had dropped
    consumed: int = 0
    dropped: int = 0


class PieceRequest(msgspec.Struct, frozen=True, tag="piece_request"):
    """A copy requests pieces of a snapshot."""

    output: Output  # output of the component
    reader: Reader  # copy that requests them
    number: int  # number of the last snapshot that was announced to the copy
    pieces: tuple[int, ...]  # numbers of the pieces


class PieceReply(msgspec.Struct, frozen=True, tag="piece_reply"):
    """A piece of a snapshot, for the copy that requested it."""

    output: Output  # output of the component
    reader: Reader
    piece: Piece


class Recall(msgspec.Struct, frozen=True, tag="recall"):
    """A peer that takes over asks another in which order the inputs of a stream were read."""

    output: Output  # output that will be made by the component that takes over
    version: int  # version of the deployment that the peer has to know, so that it refuses frames of earlier epochs
    question: int = 0  # number of the question; the answer repeats it
    # operator to the epoch of its component, where there were several: a peer that shares streams of the application
    # has to read from these
    epochs: dict[str, int] = {}
    # application to the version of its deployment that the peer has to know if it takes part in that application
    requires: dict[str, int] = {}


class Determinants(msgspec.Struct, frozen=True, tag="determinants"):
    """The answer to a :class:`Recall`: all that a peer knows of the order of inputs that made a stream."""

    stream: ComponentStream  # stream of the question
    version: int  # version of the application's deployment that the peer knows
    found: tuple[Determinant, ...]
    question: int = 0  # number of the question
    end: Point = ORIGIN  # point up to which the stream has arrived at the peer, for its readers and copies


class LastOrder(msgspec.Struct, frozen=True, tag="last_order"):
    """The peer that a component has left states the whole order of inputs, to the peer where the component is now.

    It emits nothing after it. Readers of the stream receive the frame, too, and pass it on: their way may be shorter.
    A component that still repeats one before it does not send it, as others depend on more than it has read. Of one
    that read its inputs aligned it states only where the output ends.
    """

    output: Output
    to: str  # address of the peer that executes the component now
    end: Point
    found: tuple[Determinant, ...]  # determinants of the output that no snapshot on all backups covers


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
