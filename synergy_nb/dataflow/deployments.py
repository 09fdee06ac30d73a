"""The deployment of an application: which peer executes which component, in which role and epoch.

Examples
--------
>>> count = Assignment("b", backups=("c",), inputs=(InputFeed("app", "source"),))
>>> assignments = {"source": Assignment("a"), "count": count}
>>> deployment = Deployment("app", 1, assignments)
>>> deployment.role("count", "c"), deployment.role("count", "a"), deployment.role("source", "a")
(<Role.BACKUP: 1>, None, <Role.ACTIVE: 3>)
>>> sorted(deployment.peers)
['a', 'b', 'c']
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

__all__ = ["FOLDER", "Assignment", "Deployment", "InputFeed", "Role", "SharedProducer", "SharedReader", "producer"]

#: Address of a backup that is the durable folder of an application instead of a peer: it is asked nothing, and executes
#: nothing.
FOLDER: Final = "durable"


class Role(enum.IntEnum):
    """The role of a peer for a component."""

    BACKUP = 1  #: It holds the last snapshot and the output since then; it may execute all the time (``in_order``).
    FOLLOWER = 2  #: It executes what the active one executes, sends nothing, and is about to replace it.
    ACTIVE = 3  #: It executes, and readers read from it.


class InputFeed(NamedTuple):
    """The stream that one input of a component reads; the deployment of its application says which peer emits it."""

    # application, operator: component that emits the stream; of another application if the stream is shared. The
    # operator is empty if the stream was discarded: the input stays, so that the numbers of the other inputs do not
    # change
    application: str
    operator: str


class SharedReader(msgspec.Struct, frozen=True):
    """An input of another application that reads a stream of this one."""

    # application, operator, port: component and input that read
    application: str
    operator: str
    port: int
    # peer, epoch: peer and epoch of the component that reads
    peer: str
    epoch: int = 0


class SharedProducer(msgspec.Struct, frozen=True):
    """A stream of another application that this one shares."""

    # application, operator: component that makes the stream
    application: str
    operator: str
    # peer, epoch: peer and epoch of the component that makes the stream
    peer: str
    epoch: int = 0


class Assignment(msgspec.Struct, frozen=True):
    """The part of a deployment for one component: its peers, its inputs, and its readers in other applications."""

    active: str  # address of the peer that executes it
    epoch: int = 0  # number of earlier components that this one has replaced, one after another
    backups: tuple[str, ...] = ()  # addresses of the peers that hold backups
    follower: str = ""  # address of the peer that is about to replace the active one, or empty
    inputs: tuple[InputFeed, ...] = ()  # streams that its inputs read
    shared_readers: tuple[SharedReader, ...] = ()  # inputs of other applications that read its stream
    sink: bool = False  # whether a client collects its output
    # whether another engine (Spark) executes it: it has no follower, but another peer can resume where the engine is
    external: bool = False
    # port of the operator that each input belongs to, where stream replicas feed a port together; empty where each
    # input has a port of its own
    ports: tuple[int, ...] = ()
    replica_of: str = ""  # operator of which it is one of several active replicas; empty for every other component
    # component whose copy at this peer is the state from which it starts; empty: it starts without a state
    state_from: str = ""
    rebuilt: int = 0  # epoch in which it was last rebuilt from the state of another replica; 0: never
    # number of each input, where streams of active replicas were added to those of the plan: no later stream of the
    # component gets the number of an earlier one. Empty: inputs are numbered from 0
    numbers: tuple[int, ...] = ()
    # number of the move for which it has a follower, greater than that of any earlier move: a follower of an earlier
    # one does not go on, as its component may have read in another order meanwhile. 0: no follower
    move: int = 0
    # whether the peer that reads this keeps its last snapshot of the component, as it will hold a backup when the
    # follower has replaced the component
    keeps: bool = False
    # addresses of the backups whose copies must have output before any reader is sent it; empty: readers do not wait
    synchronized: tuple[str, ...] = ()
    # whether it reads its inputs in the order of event times, and its backups execute it, too, as followers do
    in_order: bool = False
    # whether streams that it has not read yet may have begun before: it reads them from where they are retained
    joins: bool = False
    # whether users have paused all applications that use it: a source emits nothing then
    on_hold: bool = False

    @property
    def feeds(self) -> dict[int, InputFeed]:
        """Number of each input to the stream that it reads."""
        return dict(zip(self.numbers or range(len(self.inputs)), self.inputs, strict=True))

    @property
    def feed_ports(self) -> dict[int, int]:
        """Number of each input to its port of the operator; empty if ``ports`` is empty."""
        return dict(zip(self.feeds, self.ports, strict=True)) if self.ports else {}

    def port(self, number: int) -> int:
        """Return the port of the operator that an input belongs to."""
        return self.feed_ports[number] if self.ports else number

    @property
    def followers(self) -> tuple[str, ...]:
        """Addresses of the peers that execute the same as the active one and send nothing; none without inputs."""
        backups = tuple(each for each in self.backups if each != FOLDER) if self.in_order else ()
        return (*backups, self.follower) if self.follower else backups

    @property
    def copies(self) -> tuple[str, ...]:
        """Addresses of all peers that hold a copy: backups and the follower."""
        return (*self.backups, self.follower) if self.follower else self.backups

    @property
    def alone(self) -> bool:
        """Whether nothing but a durable folder has a copy of it, from which it goes on with all other components."""
        return self.copies == (FOLDER,) and not self.replica_of and not self.external


class Deployment(msgspec.Struct, frozen=True):
    """The complete instruction to peers: which of them executes which component of an application."""

    application: str
    version: int  # version of the deployment; the higher version replaces the lower one
    # operator to the assignment of its component. A deployment without assignments ends the application on the peer
    assignments: dict[str, Assignment] = {}
    # streams of other applications that its components read, if these are not deployed to the same peers
    shared_producers: tuple[SharedProducer, ...] = ()
    running: bool = True  # whether sources emit; they do once each component is deployed
    # peers of other applications that share streams and may depend on the order of the tuples
    witnesses: tuple[str, ...] = ()
    # application to the least version of its deployment that goes with this one: a peer that knows only an earlier
    # version may still accept frames of a replaced component
    requires: dict[str, int] = {}
    # application and operator to the epoch of each component of another application that contributes to its streams,
    # where these are not deployed to the same peers
    producer_epochs: dict[str, dict[str, int]] = {}
    plan: bytes = b""  # serialised plan, as `Plan.to_bytes()` makes it
    # operator to the predicted seconds from the execution of a tuple until its result is at a sink, as probes found
    # them: t̂_c and t̂_e downstream in equation 3.1. Operators without a prediction are missing
    remaining: dict[str, float] = {}
    # operator to the least delay limit, in seconds, of the applications that share its stream; operators without a
    # limit are missing
    limits: dict[str, float] = {}
    compares: bool = False  # whether readers compare the streams of active replicas
    # application whose place this one is to take: its sinks go on in the destinations of those of that one
    beside: str = ""

    def role(self, operator: str, peer: str) -> Role | None:
        """Return the role of a peer for an operator; None if it has none."""
        assignment = self.assignments.get(operator)
        if assignment is None:
            return None
        if assignment.active == peer:
            return Role.ACTIVE
        if assignment.follower == peer:
            return Role.FOLLOWER
        return Role.BACKUP if peer in assignment.backups else None

    @property
    def peers(self) -> frozenset[str]:
        """All peers that take part, or depend on the output of this application."""
        found = {peer for assignment in self.assignments.values() for peer in (assignment.active, *assignment.copies)}
        found |= {reader.peer for assignment in self.assignments.values() for reader in assignment.shared_readers}
        return frozenset(found.union(self.witnesses) - {FOLDER})

    def replaced_since(self, earlier: Deployment) -> tuple[str, ...]:
        """Return the operators whose components have been replaced since an earlier deployment."""
        before = earlier.assignments
        now = self.assignments.items()
        return tuple(name for name, each in now if name in before and before[name].epoch != each.epoch)

    def held_since(self, earlier: Deployment | None) -> tuple[str, ...]:
        """Return the operators whose components are on hold, or no longer, since an earlier deployment."""
        before = {} if earlier is None else earlier.assignments
        now = self.assignments.items()
        return tuple(name for name, each in now if name in before and before[name].on_hold != each.on_hold)

    def readers(self, operator: str) -> list[tuple[str, int]]:
        """Return the inputs of the application that read an operator's stream: operator and number."""
        return [
            (reader, port)
            for reader, assignment in self.assignments.items()
            for port, feed in assignment.feeds.items()
            if feed.operator == operator and feed.application == self.application
        ]


def producer(
    deployments: Mapping[str, Deployment], reader: str, application: str, operator: str
) -> tuple[str, int] | None:
    """Return peer and epoch of a component whose stream an application reads; None if this peer does not know them.

    ``application``, ``operator``: component that makes the stream.
    """
    found: list[tuple[int, str]] = []
    known = deployments.get(application)
    assignment = known.assignments.get(operator) if known is not None else None
    if assignment is not None:
        found.append((assignment.epoch, assignment.active))
    if reader != application and reader in deployments:
        found += [
            (each.epoch, each.peer)
            for each in deployments[reader].shared_producers
            if (each.application, each.operator) == (application, operator)
        ]
    if not found:
        return None
    epoch, peer = max(found)
    return peer, epoch
