"""The messages between an origin, its successor and the members of an application (:mod:`.succession`)."""

from __future__ import annotations

import msgspec

from synergy_nb.control.peer import Message
from synergy_nb.lifecycle.changes.shared_streams import Sharer
from synergy_nb.lifecycle.records.messages import CopiesLag, End, Graph

__all__ = ["Claim", "Claimed", "Entrust", "Entrusted"]


class Entrusted(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a successor has to know of an application beside its graph.

    Parameters
    ----------
    plan
        Submitted plan, encoded.
    decided_by, spread
        Name of the decider, and whether graphs with the most peers were preferred.
    submitted
        Time of the submission, seconds.
    placement
        Number of the attempt by which its replicas were placed; 0 where the placement protocol has placed none.
    lease
        Lease of its client, seconds; 0 for none.
    """

    plan: bytes
    decided_by: str
    spread: bool
    submitted: float
    placement: int
    lease: float = 0.0


class Entrust(Message, frozen=True):
    """The receiver is to lead the application if the sender dies; it answers with :class:`Confirmed`."""

    graph: Graph
    record: Entrusted


class Claim(Message, frozen=True):
    """The sender leads the application from now on, as its origin has died; see :class:`Claimed`."""

    application: str
    attempt: int


class Claimed(Message, frozen=True, gc=False):
    """The answer to :class:`Claim`: a promise to adopt no graph of the origin before, and what the sender knows.

    Parameters
    ----------
    application, attempt
        Id of the application, and number of the attempt to set it up.
    graph
        Latest graph that the sender has adopted; None if it takes no part.
    executes, ready
        Operators that it executes, and those whose copy there could take over.
    runs
        Whether it was told that the application runs.
    ended
        End of the application of which it was told; None if it was told of none.
    lagging
        Last reports of copies that cannot take over.
    sharers
        Applications that share streams of its components, by id.
    """

    application: str
    attempt: int
    graph: Graph | None
    executes: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    runs: bool = False
    ended: End | None = None
    lagging: tuple[CopiesLag, ...] = ()
    sharers: tuple[tuple[str, Sharer], ...] = ()
