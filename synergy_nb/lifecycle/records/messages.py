"""All messages of the life of applications, and what they carry: component graphs, measurements, sharers."""

from __future__ import annotations

from typing import Any

import msgspec

from synergy_nb.control.graph import Producer
from synergy_nb.control.peer import Message
from synergy_nb.control.rights import Rights
from synergy_nb.control.roles import Roles
from synergy_nb.events import SkippedLines

__all__ = [
    "ApplicationTimes",
    "Begin",
    "Claim",
    "Claimed",
    "ComponentTimes",
    "Confirm",
    "Confirmed",
    "CopiesLag",
    "End",
    "Entrust",
    "Entrusted",
    "Feedback",
    "Follow",
    "Followed",
    "Granted",
    "Graph",
    "GraphAsked",
    "GraphChanged",
    "GrowthAnswered",
    "GrowthAsked",
    "GrowthChanged",
    "HoldAnswered",
    "Lost",
    "MeasuredApplication",
    "ProducersFollowed",
    "ProducersMoved",
    "ReadersComplete",
    "ReadersQuestion",
    "Rebuild",
    "Rebuilt",
    "Refused",
    "Share",
    "Sharer",
    "SharerLed",
    "SinksReported",
    "SkippedReported",
    "TakeOver",
    "TimesReported",
    "TookOver",
    "no_session",
]


class Graph(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A component graph: an application, and the roles of all peers in it."""

    # application, attempt, origin: id of the application, number of the attempt to set it up, and address of the peer
    # that leads it
    application: str
    attempt: int
    origin: str
    plan: bytes  # encoded plan (`Plan.to_bytes()`) that is composed; streams of other applications stand in it as taps
    # peer, backups and follower of each operator. The peer of a tap is the peer of the component that makes its stream
    roles: Roles
    shared: dict[str, tuple[Producer, ...]] = {}  # tap to all components of other applications that produce its stream
    reached: dict[str, float] = {}  # operator to the projected seconds from a source until a tuple leaves the operator
    epoch: int = 0  # number of changes of this graph since the application began
    # operator to its projected execution time, seconds; empty where peers need no agreement
    # (`synergy_nb.lifecycle.sessions.agreements`)
    promised: dict[str, float] = {}
    # applications whose streams the origin knew when it decided: it could not, or need not, share them
    known: tuple[str, ...] = ()
    successor: str = ""
    rights: Rights = Rights()
    on_hold: bool = False  # whether its sources give no rows, as a user has paused it
    beside: str = ""  # application whose place it is to take, or has taken; empty: of none

    def changed(self, roles: Roles, **others: Any) -> Graph:
        """The next graph of the application, one epoch later."""
        return msgspec.structs.replace(self, roles=roles, epoch=self.epoch + 1, **others)

    def led_by(self, address: str) -> Graph:
        """The same graph, led by another peer, which nobody succeeds."""
        return msgspec.structs.replace(self, origin=address, successor="")

    @property
    def helpers(self) -> set[str]:
        """Peers with backups, followers or shared components of the application."""
        return self.producer_peers | self.producer_copies | self.roles.copies

    @property
    def addresses(self) -> list[str]:
        """Addresses of all peers that take part, sorted."""
        return sorted({*self.roles.addresses, *self.helpers})

    def components_at(self, address: str) -> list[str]:
        """Names, for people, of the components at a peer that the application uses."""
        own = sorted(
            operator for operator, peer in self.roles.peers.items() if peer == address and operator not in self.shared
        )
        used = {
            f"{producer.operator} of {producer.application}" for producer in self.producers if producer.peer == address
        }
        return own + sorted(used)

    @property
    def producers(self) -> list[Producer]:
        """All components of other applications that this one uses, sorted."""
        return sorted({producer for producers in self.shared.values() for producer in producers})

    @property
    def producer_peers(self) -> set[str]:
        """Peers with components of other applications that this one uses."""
        return {producer.peer for producers in self.shared.values() for producer in producers}

    @property
    def producer_copies(self) -> set[str]:
        """Peers that back up or follow components of other applications that this one uses."""
        return {peer for producers in self.shared.values() for producer in producers for peer in producer.copies}

    @property
    def owner_origins(self) -> set[str]:
        """Addresses of the origins of the owners whose streams this application shares; owners that ended have none."""
        return {producer.origin for producers in self.shared.values() for producer in producers if producer.origin}

    @property
    def watched(self) -> list[str]:
        """Addresses of all peers whose death the origin has to learn of, sorted."""
        return sorted({*self.addresses, *self.owner_origins})


class Confirm(Message, frozen=True):
    """An instruction to commit and deploy ``operator``: its reader ``consumer`` (empty for a sink) is deployed."""

    graph: Graph
    operator: str
    consumer: str


class Share(Message, frozen=True):
    """An instruction to a helper: retain the shared components that the application uses, and commit its backups.

    A receiver that is the origin of an owner reports from then on where the shared components of that owner move.
    """

    graph: Graph


class Confirmed(Message, frozen=True):
    """A report to the origin: the source ``operator`` of the application and all operators downstream are deployed.

    In the answer to :class:`Share`, ``operator`` is the sender's address: the sender has done all that was asked.
    """

    application: str
    attempt: int
    operator: str


class GrowthAsked(Message, frozen=True):
    """A question to the origin: may the components at the sender take ``seconds`` longer than was projected, in all?"""

    application: str
    attempt: int
    seconds: float


class GrowthAnswered(Message, frozen=True):
    """The answer to :class:`GrowthAsked`: no ``reason`` if the origin agrees, and the ``delay`` by its account."""

    application: str
    attempt: int
    seconds: float
    delay: float
    reason: str


class GrowthChanged(Message, frozen=True):
    """A report to the origin: by how many ``seconds`` longer the components at the sender now take."""

    application: str
    attempt: int
    seconds: float


class Refused(Message, frozen=True):
    """The sender cannot commit a component, a backup or a shared stream of the graph.

    Where ``owner`` is an application, the stream of the component runs at the sender for it already.
    """

    application: str
    attempt: int
    operator: str
    reason: str
    owner: str = ""


class Begin(Message, frozen=True):
    """An instruction to start the sources of an application at the receiver."""

    application: str
    attempt: int


class ComponentTimes(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Predicted times of a component (section 3.3.1)."""

    seconds: float  # predicted execution time t̂_e, seconds
    processing: float  # processing time τ of a tuple, seconds
    hops: dict[str, float] = {}  # operator upstream to the mean communication time t̂_c from its peer, seconds


class MeasuredApplication(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Measurements of an application."""

    application: str
    attempt: int
    delay: float  # measured end-to-end execution time t̂, seconds; negative if none was measured yet
    # operator to the predicted times of its component; empty if they have hardly changed since they were sent last
    times: dict[str, ComponentTimes] = {}
    # operators whose peers have found no target for the components that have to leave them
    helpless: tuple[str, ...] = ()
    # end-to-end execution time by the account of its origin, seconds; negative without one
    # (`synergy_nb.lifecycle.sessions.agreements`)
    account: float = -1.0
    epoch: int = 0  # epoch of its graph; 0 while that changes


class ApplicationTimes(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Predicted times of the components of an application at one peer."""

    application: str
    attempt: int
    components: dict[str, ComponentTimes]  # operator to the predicted times of its component


class TimesReported(Message, frozen=True, gc=False):
    """Predicted times of the components at the sender, of all applications that the receiver leads."""

    times: tuple[ApplicationTimes, ...]


class Feedback(Message, frozen=True, gc=False):
    """Measurements of the applications that the sender leads; each renews the lease of its session."""

    measured: tuple[MeasuredApplication, ...]


class End(Message, frozen=True):
    """An instruction to end the session of an application, and to release what it holds.

    Where ``status`` is that of an application whose results are retained, the receiver retains those at its sinks.
    """

    application: str
    attempt: int
    reason: str
    status: str = ""


class Granted(Message, frozen=True):
    """The rights to an application, for peers that no graph tells: it has ended, they have left, or the graph changes.

    While the graph changes, only the successor of the sender is told.
    """

    application: str
    attempt: int
    rights: Rights


class Lost(Message, frozen=True):
    """A component has failed, or the sender has no session of the application.

    ``epoch`` is the epoch of the graph to which the report applies; a negative one stands for every graph of the
    attempt. ``operator`` is the component that has failed; empty for all components of the application at the sender.
    ``failed``: a component has failed; otherwise the sender has no session. ``ended``: it has none as whoever led the
    application has ended it.
    """

    application: str
    attempt: int
    reason: str
    epoch: int = -1
    operator: str = ""
    failed: bool = False
    ended: bool = False


def no_session(address: str, origin: str) -> str:
    """Reason of a :class:`Lost` for people: the peer at ``address`` has no session of an application of ``origin``."""
    return (
        f"no session at {address} (it was restarted, or took {origin}, where the application was submitted, for dead)"
    )


class TakeOver(Message, frozen=True):
    """An instruction to make the receiver's backup of ``operator`` its primary."""

    graph: Graph
    operator: str


class TookOver(Message, frozen=True):
    """The answer to :class:`TakeOver`: the sender executes ``operator`` now, or ``refusal`` says why it cannot."""

    application: str
    epoch: int
    operator: str
    refusal: str


class Follow(Message, frozen=True):
    """A move of ``operator`` begins: the new peer starts a follower, and the peer that executes it agrees."""

    graph: Graph  # component graph with the follower
    operator: str  # operator of the component that moves
    # applications that share its stream; the follower is not ready before its peer knows their graphs
    sharers: tuple[str, ...] = ()
    # number of the old peer's request to the new one, which has to accept it before it follows; 0: none is needed
    request: int = 0
    # whether the new peer has a backup of the component, which the old one will have instead: it is ready as soon as it
    # has kept a snapshot
    backup: bool = False


class Followed(Message, frozen=True):
    """The answer to :class:`Follow`: the sender agrees, and may be ``ready``, or ``refusal`` says why not.

    The new peer is ready when its follower could replace the component; the old one when it has what it needs for the
    backup that it will have, if it will have one. ``early`` states that the sender has not received ``Follow``: the
    follower began when the new peer accepted the component, and ``epoch`` is that of the graph which will name it if
    the origin begins this move next.
    """

    application: str
    attempt: int
    epoch: int
    operator: str
    ready: bool
    refusal: str
    early: bool = False


class Rebuild(Message, frozen=True):
    """Prepare to execute the lost replica ``operator`` from a copy of another one; or confirm that it executes."""

    graph: Graph
    operator: str


class Rebuilt(Message, frozen=True):
    """The answer to :class:`Rebuild`: the sender agrees, or refuses.

    ``ready`` states that its copy could take over or, once the graph has it execute the replica, that the replica is
    subscribed to all of its inputs.
    """

    application: str
    attempt: int
    epoch: int
    operator: str
    ready: bool
    refusal: str


class ReadersQuestion(Message, frozen=True):
    """Ask whether the readers at the receiver could do without the replicas other than ``operator``.

    ``rebuilt`` is the epoch in which ``operator`` was rebuilt.
    """

    application: str
    attempt: int
    operator: str
    rebuilt: int


class ReadersComplete(Message, frozen=True):
    """The answer to :class:`ReadersQuestion`, once each reader at the sender has all that has not passed its filter."""

    application: str
    attempt: int
    operator: str
    rebuilt: int


class GraphChanged(Message, frozen=True):
    """The graph of a running application has changed; the receiver adopts the new one."""

    graph: Graph


class CopiesLag(Message, frozen=True):
    """A report to the origin that copies of ``operator`` cannot take over; the sender executes it or keeps a copy."""

    # application, attempt, operator: id of the application, number of the attempt to set it up, and id of the operator
    application: str
    attempt: int
    operator: str
    number: int  # sequence number of the sender's reports; the origin uses the report with the highest one
    # address of each such copy to the reason; empty if all copies that the sender reported can take over again
    peers: dict[str, str]


class HoldAnswered(Message, frozen=True):
    """The answer to a graph that is on hold, of a peer with components of other applications that this one uses."""

    application: str
    attempt: int
    epoch: int  # of that graph
    users: tuple[str, ...]  # further applications that use these components, whose rows would stop, too


class ProducersMoved(Message, frozen=True):
    """Where the components of ``owner`` are now, for the origin of an application that shares some of them."""

    application: str
    attempt: int
    # owner, epoch: application whose components these are, and the epoch of its graph
    owner: str
    epoch: int
    producers: tuple[Producer, ...]  # all components of the owner except sinks and taps, with their peers and copies
    ended: bool  # whether the owner has ended: its shared components then run on at their peers, without copies


class ProducersFollowed(Message, frozen=True):
    """The acknowledgement of :class:`ProducersMoved`: the sender has applied the report of ``epoch``."""

    application: str
    attempt: int
    owner: str
    epoch: int


class SharerLed(Message, frozen=True):
    """A report to the origin of an owner: the sender leads an application that shares its streams from now on."""

    graph: Graph


class Sharer(msgspec.Struct, frozen=True, array_like=True):
    """An application that shares streams of another one."""

    # attempt, epoch, origin, successor: number of the attempt to set it up, epoch of its graph, its origin, and its
    # successor
    attempt: int
    epoch: int
    origin: str
    successor: str
    operators: frozenset[str]  # components of the other application that it uses

    @classmethod
    def of(cls, graph: Graph, application: str) -> Sharer:
        """Describe the application of a graph as a sharer of another one."""
        used = frozenset(producer.operator for producer in graph.producers if producer.application == application)
        return cls(graph.attempt, graph.epoch, graph.origin, graph.successor, used)


class GraphAsked(Message, frozen=True):
    """A question to the peer that leads an application: does it go on, and with which graph?"""

    application: str
    attempt: int


class SinksReported(Message, frozen=True):
    """A report to the origin: the ``delay`` that the sinks at the sender measured last, and whether all streams ended.

    The delay is in seconds; it is negative before the first measurement.
    """

    application: str
    attempt: int
    delay: float
    ended: bool


class SkippedReported(Message, frozen=True):
    """A report to the origin: a source that the application uses skips malformed ``lines`` of its trace."""

    application: str
    attempt: int
    source: str
    lines: SkippedLines


class Entrusted(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a successor has to know of an application beside its graph."""

    plan: bytes  # submitted plan, encoded
    # decided_by, spread: name of the decider, and whether graphs with the most peers were preferred
    decided_by: str
    spread: bool
    submitted: float  # time of the submission, seconds
    # number of the attempt by which its replicas were placed; 0 where the placement protocol has placed none
    placement: int
    lease: float = 0.0  # lease of its client, seconds; 0 for none


class Entrust(Message, frozen=True):
    """The receiver is to lead the application if the sender dies; it answers with :class:`Confirmed`."""

    graph: Graph
    record: Entrusted


class Claim(Message, frozen=True):
    """The sender leads the application from now on, as its origin has died; see :class:`Claimed`."""

    application: str
    attempt: int


class Claimed(Message, frozen=True, gc=False):
    """The answer to :class:`Claim`: a promise to adopt no graph of the origin before, and what the sender knows."""

    application: str
    attempt: int
    graph: Graph | None  # latest graph that the sender has adopted; None if it takes no part
    # executes, ready: operators that it executes, and those whose copy there could take over
    executes: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    runs: bool = False  # whether it was told that the application runs
    ended: End | None = None  # end of the application of which it was told; None if it was told of none
    lagging: tuple[CopiesLag, ...] = ()  # last reports of copies that cannot take over
    sharers: tuple[tuple[str, Sharer], ...] = ()  # applications that share streams of its components, by id
