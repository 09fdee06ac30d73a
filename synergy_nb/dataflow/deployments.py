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
from typing import NamedTuple

import msgspec

__all__ = ["Assignment", "Deployment", "InputFeed", "Role", "SharedProducer", "SharedReader", "producer"]


class Role(enum.IntEnum):
    """The role of a peer for a component."""

    BACKUP = 1  #: It holds the last snapshot and the output since then; it may execute all the time (``in_order``).
    FOLLOWER = 2  #: It executes what the active one executes, sends nothing, and is about to replace it.
    ACTIVE = 3  #: It executes, and readers read from it.


class InputFeed(NamedTuple):
    """The stream that one input of a component reads; the deployment of its application says which peer emits it.

    Parameters
    ----------
    application, operator
        Component that emits the stream; of another application if the stream is shared. The operator is empty if the
        stream was discarded: the input stays, so that the numbers of the other inputs do not change.
    """

    application: str
    operator: str


class SharedReader(msgspec.Struct, frozen=True):
    """An input of another application that reads a stream of this one.

    Parameters
    ----------
    application, operator, port
        Component and input that read.
    peer, epoch
        Peer and epoch of the component that reads.
    """

    application: str
    operator: str
    port: int
    peer: str
    epoch: int = 0


class SharedProducer(msgspec.Struct, frozen=True):
    """A stream of another application that this one shares.

    Parameters
    ----------
    application, operator
        Component that makes the stream.
    peer, epoch
        Peer and epoch of the component that makes the stream.
    """

    application: str
    operator: str
    peer: str
    epoch: int = 0


class Assignment(msgspec.Struct, frozen=True):
    """The part of a deployment for one component: its peers, its inputs, and its readers in other applications.

    Parameters
    ----------
    active
        Address of the peer that executes it.
    epoch
        Number of earlier components that this one has replaced, one after another.
    backups
        Addresses of the peers that hold backups.
    follower
        Address of the peer that is about to replace the active one, or empty.
    inputs
        Streams that its inputs read.
    shared_readers
        Inputs of other applications that read its stream.
    sink
        Whether a client collects its output.
    external
        Whether another engine (Spark) executes it: it has no follower, but another peer can resume where the engine is.
    ports
        Port of the operator that each input belongs to, where stream replicas feed a port together; empty where each
        input has a port of its own.
    move
        Number of the move for which it has a follower, greater than that of any earlier move: a follower of an earlier
        one does not go on, as its component may have read in another order meanwhile. 0: no follower.
    keeps
        Whether the peer that reads this keeps its last snapshot of the component, as it will hold a backup when the
        follower has replaced the component.
    synchronized
        Addresses of the backups whose copies must have output before any reader is sent it; empty: readers do not wait.
    in_order
        Whether it reads its inputs in the order of event times, and its backups execute it, too, as followers do.
    numbers
        Number of each input, where streams of active replicas were added to those of the plan: no later stream of the
        component gets the number of an earlier one. Empty: inputs are numbered from 0.
    replica_of
        Operator of which it is one of several active replicas; empty for every other component.
    state_from
        Component whose copy at this peer is the state from which it starts; empty: it starts without a state.
    rebuilt
        Epoch in which it was last rebuilt from the state of another replica; 0: never.
    """

    active: str
    epoch: int = 0
    backups: tuple[str, ...] = ()
    follower: str = ""
    inputs: tuple[InputFeed, ...] = ()
    shared_readers: tuple[SharedReader, ...] = ()
    sink: bool = False
    external: bool = False
    ports: tuple[int, ...] = ()
    replica_of: str = ""
    state_from: str = ""
    rebuilt: int = 0
    numbers: tuple[int, ...] = ()
    move: int = 0
    keeps: bool = False
    synchronized: tuple[str, ...] = ()
    in_order: bool = False

    @property
    def feeds(self) -> dict[int, InputFeed]:
        """Number of each input to the stream that it reads."""
        return dict(zip(self.numbers or range(len(self.inputs)), self.inputs, strict=True))

    @property
    def feed_ports(self) -> dict[int, int]:
        """Number of each input to the port of the operator that it belongs to; empty if ``ports`` is."""
        return dict(zip(self.feeds, self.ports, strict=True)) if self.ports else {}

    def port(self, number: int) -> int:
        """Return the port of the operator that an input belongs to."""
        return self.feed_ports[number] if self.ports else number

    @property
    def followers(self) -> tuple[str, ...]:
        """Addresses of the peers that execute what the active one does and send nothing, if it reads any input."""
        backups = self.backups if self.in_order else ()
        return (*backups, self.follower) if self.follower else backups

    @property
    def copies(self) -> tuple[str, ...]:
        """Addresses of all peers that hold a copy: backups and the follower."""
        return (*self.backups, self.follower) if self.follower else self.backups


class Deployment(msgspec.Struct, frozen=True):
    """The complete instruction to peers: which of them executes which component of an application.

    Parameters
    ----------
    application
        Id of the application.
    version
        Version of the deployment; the higher version replaces the lower one.
    assignments
        Operator to the assignment of its component. A deployment without assignments ends the application on the peer.
    shared_producers
        Streams of other applications that its components read, if these are not deployed to the same peers.
    running
        Whether sources emit; they do once each component is deployed.
    witnesses
        Peers of other applications that share streams and may depend on the order of the tuples.
    requires
        Application to the least version of its deployment that goes with this one: a peer that knows only an earlier
        version may still accept frames of a replaced component.
    producer_epochs
        Application and operator to the epoch of each component of another application that contributes to its streams,
        where these are not deployed to the same peers.
    plan
        Serialised plan, as ``Plan.to_bytes()`` makes it.
    remaining
        Operator to the predicted seconds from the execution of a tuple until its result is at a sink, as probes found
        them: t̂_c and t̂_e downstream in equation 3.1. Operators without a prediction are missing.
    limits
        Operator to the least delay limit, in seconds, of the applications that share its stream; operators without a
        limit are missing.
    """

    application: str
    version: int
    assignments: dict[str, Assignment] = {}
    shared_producers: tuple[SharedProducer, ...] = ()
    running: bool = True
    witnesses: tuple[str, ...] = ()
    requires: dict[str, int] = {}
    producer_epochs: dict[str, dict[str, int]] = {}
    plan: bytes = b""
    remaining: dict[str, float] = {}
    limits: dict[str, float] = {}

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
        return frozenset(found.union(self.witnesses))

    def replaced_since(self, earlier: Deployment) -> tuple[str, ...]:
        """Return the operators whose components have been replaced since an earlier deployment."""
        before = earlier.assignments
        now = self.assignments.items()
        return tuple(name for name, each in now if name in before and before[name].epoch != each.epoch)

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

    Parameters
    ----------
    deployments
        Application to its deployment as this peer knows it.
    reader
        Application that reads.
    application, operator
        Component that makes the stream.
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
