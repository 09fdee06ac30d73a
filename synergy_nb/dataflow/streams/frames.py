"""What peers say to one another about streams: typed values, none of which is a text that is taken apart.

Frames may be lost, come twice, late or in another order: each says places, not differences.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from synergy_nb.dataflow.streams.state_pieces import Part, Piece
from synergy_nb.dataflow.streams.values import ORIGIN, Chunk, Determinant, OnLag, Output, Point, Reader, Run, Stream

__all__ = ["Ack", "Data", "Determinants", "Frame", "Recall", "State", "Subscribe", "Supply", "Unsubscribe", "Want"]


class Data(msgspec.Struct, frozen=True, eq=False, tag="data"):
    """Chunks of an output for one reader.

    Parameters
    ----------
    output
        Output that they belong to.
    reader
        Component that they are for.
    start
        Place at which the first begins; without chunks, the place at which the reader is going to be sent chunks.
    chunks
        Consecutive chunks.
    began
        Whether the log has let go of what is between the reader's place and ``start``: a copy begins anew.
    trimmed
        Place before which nobody needs the output any more, for copies.
    """

    output: Output
    reader: Reader
    start: Point
    chunks: tuple[Chunk, ...] = ()
    began: bool = False
    trimmed: Point = ORIGIN


class Ack(msgspec.Struct, frozen=True, tag="ack"):
    """How far a reader is.

    Parameters
    ----------
    output
        Output that it reads.
    reader
        Component that reads.
    received, consumed, durable
        Places up to which it has chunks, has executed them, and will not ask for them again.
    snapshot
        Number of the last snapshot that a copy has completely; -1 before the first.
    left
        Cores that its peer has left.
    """

    output: Output
    reader: Reader
    received: Point
    consumed: Point
    durable: Point
    snapshot: int = -1
    left: float = 0.0


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe"):
    """A reader asks for the chunks of an output, for the first time or again.

    Parameters
    ----------
    output
        Output that it wants to read.
    reader
        Component that reads.
    since
        Place from which it reads; None: where the stream is, or for a copy where the log begins.
    on_lag
        Policy for a reader that falls behind.
    machine
        Machine that its peer runs on, whose memory it can read; empty where it reads none but its own.
    """

    output: Output
    reader: Reader
    since: Point | None
    on_lag: OnLag = OnLag.BLOCK
    machine: str = ""


class Unsubscribe(msgspec.Struct, frozen=True, tag="unsubscribe"):
    """A reader reads no more, or is told by the producer that it gets no more.

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


class State(msgspec.Struct, frozen=True, tag="state"):
    """A consistent cut through a component between two executions, for one who keeps a copy of it.

    Parameters
    ----------
    output
        Output that the component makes.
    reader
        Copy that it is for.
    number
        Number of the snapshot in this epoch.
    inputs
        Place up to which each input was executed.
    end
        Place in the output that was reached.
    trimmed
        Place before which nobody needs the output any more.
    head
        Head of the operator's state, as its ``save`` made it.
    parts
        Tables of the state, of which the copy asks for the pieces that it lacks.
    enclosed
        Pieces that come along.
    order, causes
        Order in which inputs were read since the last chunk, and determinants that came with them.
    taken, dropped
        Number of tuples that the component had taken, and of those that it had dropped.
    """

    output: Output
    reader: Reader
    number: int
    inputs: tuple[Point, ...]
    end: Point
    trimmed: Point
    head: bytes
    parts: tuple[Part, ...] = ()
    enclosed: tuple[Piece, ...] = ()
    order: tuple[Run, ...] = ()
    causes: tuple[Determinant, ...] = ()
    taken: int = 0
    dropped: int = 0


class Want(msgspec.Struct, frozen=True, tag="want"):
    """A copy asks for pieces of a snapshot.

    Parameters
    ----------
    output
        Output of the component.
    reader
        Copy that asks.
    number
        Number of the snapshot that it has heard of last.
    pieces
        Numbers of the pieces.
    """

    output: Output
    reader: Reader
    number: int
    pieces: tuple[int, ...]


class Supply(msgspec.Struct, frozen=True, tag="supply"):
    """A piece of a snapshot, for a copy that asked for it.

    Parameters
    ----------
    output
        Output of the component.
    reader
        Copy that asked.
    piece
        The piece.
    """

    output: Output
    reader: Reader
    piece: Piece


class Recall(msgspec.Struct, frozen=True, tag="recall"):
    """Whoever takes over asks a peer in which order the inputs of a stream were read.

    Parameters
    ----------
    output
        Output that is going to be made.
    version
        Deployment of the application that the peer has to know, so that it refuses what earlier epochs still say.
    question
        Number of the question, which an answer repeats.
    epochs
        Operator to the epoch of its component, where there have been several: a peer that shares streams of the
        application has to read these.
    requires
        Versions of the deployments of other applications that the peer has to know if it has a part in them.
    """

    output: Output
    version: int
    question: int = 0
    epochs: dict[str, int] = {}
    requires: dict[str, int] = {}


class Determinants(msgspec.Struct, frozen=True, tag="determinants"):
    """All that a peer knows of the order of inputs that made a stream.

    Parameters
    ----------
    stream
        Stream that was asked for.
    version
        Deployment of the application that the peer knows.
    found
        Known determinants, by place.
    question
        Number of the question.
    """

    stream: Stream
    version: int
    found: tuple[Determinant, ...]
    question: int = 0


Frame: TypeAlias = Data | Ack | Subscribe | Unsubscribe | State | Want | Supply | Recall | Determinants
