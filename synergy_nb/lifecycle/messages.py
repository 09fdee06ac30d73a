"""What sessions send, and their times."""

from __future__ import annotations

from typing import Any

import msgspec

from synergy_nb.control.graph import Roles, Use
from synergy_nb.control.peer import Message
from synergy_nb.plan import Plan
from synergy_nb.plan.spark_parts import PART

__all__ = [
    "Begin",
    "Confirm",
    "Confirmed",
    "CopiesLag",
    "End",
    "Feedback",
    "Follow",
    "Followed",
    "Graph",
    "Lost",
    "Measured",
    "Moved",
    "ProducersFollowed",
    "ProducersMoved",
    "Refused",
    "SessionConfig",
    "Share",
    "TakeOver",
    "TookOver",
]


class Graph(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a confirmation carries: an application, and who does what for it.

    Parameters
    ----------
    application, attempt, origin
        Id of the application, number of the try to set it up, and the peer that leads it.
    plan
        ``Plan.to_bytes()`` of what is composed: streams of others that it uses stand in it as taps.
    roles
        Who executes what, who backs it up, and who follows it. A tap is where the component is that makes its stream.
    shared
        Tap to the components of other applications that its stream is made by.
    reached
        Operator to the seconds from a source until a tuple is done, as probes found it.
    epoch
        Number of changes of this graph since the application began.
    """

    application: str
    attempt: int
    origin: str
    plan: bytes
    roles: Roles
    shared: dict[str, tuple[Use, ...]] = {}
    reached: dict[str, float] = {}
    epoch: int = 0

    def changed(self, roles: Roles, **others: Any) -> Graph:
        """The next graph of the application."""
        return msgspec.structs.replace(self, roles=roles, epoch=self.epoch + 1, **others)

    @property
    def beside(self) -> set[str]:
        """Peers that do something for the application besides executing its components."""
        return self.sharing | self.spare | self.roles.copies

    @property
    def addresses(self) -> list[str]:
        """Every peer that takes part."""
        return sorted({*self.roles.peers.values(), *self.beside})

    def at(self, address: str) -> list[str]:
        """What of it is at a peer, for people."""
        own = sorted(
            operator for operator, peer in self.roles.peers.items() if peer == address and operator not in self.shared
        )
        used = {f"{use.operator} of {use.application}" for use in self.uses if use.peer == address}
        return own + sorted(used)

    @property
    def uses(self) -> list[Use]:
        """All components of other applications that this one uses."""
        return sorted({use for uses in self.shared.values() for use in uses})

    @property
    def sharing(self) -> set[str]:
        """Peers with components of other applications that this one uses."""
        return {use.peer for uses in self.shared.values() for use in uses}

    @property
    def spare(self) -> set[str]:
        """Peers that back up or follow components of other applications that this one uses."""
        return {peer for uses in self.shared.values() for use in uses for peer in use.copies}

    @property
    def shared_owners(self) -> set[str]:
        """Origins of the other applications whose components this one uses, as far as these have not ended."""
        return {use.origin for uses in self.shared.values() for use in uses if use.origin}

    @property
    def watched(self) -> list[str]:
        """Every peer whose death the origin has to know of."""
        return sorted({*self.addresses, *self.shared_owners})


class Confirm(Message, frozen=True):
    """Commit ``operator``, on behalf of its consumer ``consumer`` (empty for a sink)."""

    graph: Graph
    operator: str
    consumer: str


class Share(Message, frozen=True):
    """Keep, as long as an application runs, what it uses of others at the receiver, and its backups there.

    The origin of an application of which components are used says from then on where these are.
    """

    graph: Graph


class Confirmed(Message, frozen=True):
    """A source of the application and everything downstream of it is deployed.

    Where ``operator`` is the sender's address: what the application uses of others there, and its backups, will stay,
    and it will be told where that goes.
    """

    application: str
    attempt: int
    operator: str


class Refused(Message, frozen=True):
    """A peer cannot keep its part of the graph."""

    application: str
    attempt: int
    operator: str
    reason: str


class Begin(Message, frozen=True):
    """Let the sources at this peer emit."""

    application: str
    attempt: int


class Measured(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Measured end-to-end execution time t̂ of an application in seconds; negative: none measured yet."""

    application: str
    attempt: int
    delay: float


class Feedback(Message, frozen=True, gc=False):
    """Measurements of the applications of which the sender is the origin, and the lease of their sessions."""

    measured: tuple[Measured, ...]


class End(Message, frozen=True):
    """Take the application back."""

    application: str
    attempt: int
    reason: str


class Lost(Message, frozen=True):
    """A component failed, or a peer no longer has the session.

    ``epoch`` is that of the graph that cannot be kept, or negative: it is about any.
    """

    application: str
    attempt: int
    reason: str
    epoch: int = -1


class TakeOver(Message, frozen=True):
    """Execute ``operator`` from now on, whose backup the receiver has."""

    graph: Graph
    operator: str


class TookOver(Message, frozen=True):
    """The sender executes ``operator`` from now on, or cannot: ``refusal`` says why."""

    application: str
    epoch: int
    operator: str
    refusal: str


class Follow(Message, frozen=True):
    """Follow ``operator``, which is to move to the receiver; or let it be followed, where the receiver executes it.

    The follower is not ready before it knows the graphs of ``sharers``, who read the stream of the component.
    """

    graph: Graph
    operator: str
    sharers: tuple[str, ...] = ()


class Followed(Message, frozen=True):
    """The sender follows ``operator`` or lets it be followed, and is ``ready`` to take its place, or refuses."""

    application: str
    attempt: int
    epoch: int
    operator: str
    ready: bool
    refusal: str


class Moved(Message, frozen=True):
    """Components are elsewhere from now on, or followed by others."""

    graph: Graph


class CopiesLag(Message, frozen=True):
    """Some copies of ``operator`` could not take over, as the sender knows, who executes it or keeps one.

    Parameters
    ----------
    application, attempt, operator
        Component, and which try to set its application up.
    number
        Number that grows with what the sender says of it: the latest counts.
    peers
        Addresses of these copies, and why each could not; empty if all that the sender spoke of could again.
    """

    application: str
    attempt: int
    operator: str
    number: int
    peers: dict[str, str]


class ProducersMoved(Message, frozen=True):
    """Tell the origin of an application that shares streams of ``owner`` where the components of that are.

    Parameters
    ----------
    application, attempt
        Application that shares, and which try to set it up.
    owner, epoch
        Application whose components these are, and the epoch of its graph.
    uses
        All components of the owner that are not sinks.
    ended
        Whether the owner has ended: what is shared of it stays where it is.
    """

    application: str
    attempt: int
    owner: str
    epoch: int
    uses: tuple[Use, ...]
    ended: bool


class ProducersFollowed(Message, frozen=True):
    """The graph of an application that shares streams of ``owner`` is as the sender was told at ``epoch``."""

    application: str
    attempt: int
    owner: str
    epoch: int


class SessionConfig(msgspec.Struct, frozen=True):
    """Times of sessions, in seconds.

    Parameters
    ----------
    setup
        From the first confirmation to the last answer of a source.
    feedback
        Between two feedback messages.
    lease
        Without feedback, after which a peer takes a session for abandoned.
    prepare
        Allowed in addition to these, during set-up, for the parts on Spark to get ready.
    moving
        Allowed for the follower of a component that moves until it can take its place.
    """

    setup: float = 3.0
    feedback: float = 1.0
    lease: float = 10.0
    prepare: float = 120.0
    moving: float = 60.0

    def preparation(self, plan: Plan) -> float:
        """Seconds more that the set-up of a plan may take."""
        return self.prepare if any(each.kind == PART for each in plan.operators.values()) else 0.0
