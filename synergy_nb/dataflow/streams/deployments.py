"""Who executes what of an application, in which role and epoch: the one carrier of that.

Examples
--------
>>> places = {"source": Place("a"), "count": Place("b", backups=("c",), inputs=(Feed("app", "source"),))}
>>> deployment = Deployment("app", 1, places)
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

__all__ = ["Borrowed", "Deployment", "Feed", "Lent", "Place", "Role", "producer"]


class Role(enum.IntEnum):
    """What a peer does for a component."""

    BACKUP = 1  #: It keeps the last snapshot and the output since then.
    FOLLOWER = 2  #: It executes what the active one executes, and sends nothing: it is about to take its place.
    ACTIVE = 3  #: It executes, and readers read from it.


class Feed(NamedTuple):
    """What one input of a component reads; where that is, its application's deployment tells.

    Parameters
    ----------
    application, operator
        Component that makes the stream; of another application where the stream is shared.
    """

    application: str
    operator: str


class Lent(msgspec.Struct, frozen=True):
    """An input of another application that reads a stream of this one.

    Parameters
    ----------
    application, operator, port
        Component and input that read.
    peer, epoch
        Peer and epoch of the component.
    """

    application: str
    operator: str
    port: int
    peer: str
    epoch: int = 0


class Borrowed(msgspec.Struct, frozen=True):
    """A stream of another application that this one shares.

    Parameters
    ----------
    application, operator
        Component that makes the stream.
    peer, epoch
        Peer and epoch of the component.
    """

    application: str
    operator: str
    peer: str
    epoch: int = 0


class Place(msgspec.Struct, frozen=True):
    """Where a component is.

    Parameters
    ----------
    active
        Address of the peer that executes it.
    epoch
        Number of components that have been in its place before.
    backups
        Addresses of the peers that keep backups.
    follower
        Address of the peer that is about to take its place, or empty.
    inputs
        Outputs that each of its inputs reads.
    lent
        Inputs of other applications that share its stream.
    sink
        Whether a client collects what it makes.
    elsewhere
        Whether another engine executes it: nobody can follow it, but go on where the engine is.
    """

    active: str
    epoch: int = 0
    backups: tuple[str, ...] = ()
    follower: str = ""
    inputs: tuple[Feed, ...] = ()
    lent: tuple[Lent, ...] = ()
    sink: bool = False
    elsewhere: bool = False

    @property
    def copies(self) -> tuple[str, ...]:
        """Addresses of all who keep a copy: backups and the follower."""
        return (*self.backups, self.follower) if self.follower else self.backups


class Deployment(msgspec.Struct, frozen=True):
    """Who executes what of an application.

    Parameters
    ----------
    application
        Id of the application.
    version
        Number that grows with each deployment of the application; of two the one with the higher number counts.
    places
        Operator to where its component is. An application without places has ended on the peer that is told so.
    borrowed
        Streams of other applications that its components read, where these are not deployed to the same peers.
    running
        Whether sources emit: each component is where it is wanted.
    witnesses
        Peers of other applications that share streams, and may depend on the order in which these were made.
    requires
        Versions of the deployments of these applications that belong to this one: who knows an earlier version may
        still take what a component says that has been replaced.
    uses
        Application and operator to the epoch of each component of other applications that its streams are made by,
        where these are not deployed to the same peers.
    plan
        ``Plan.to_bytes()``.
    remaining
        Operator to the predicted seconds from when it has executed a tuple until that is at a sink, as probes found
        them: t̂_c and t̂_e downstream in equation 3.1. Missing where nobody has predicted them.
    limits
        Operator to the least delay limit, in seconds, of the applications that share its stream; missing where none
        has a limit.
    """

    application: str
    version: int
    places: dict[str, Place] = {}
    borrowed: tuple[Borrowed, ...] = ()
    running: bool = True
    witnesses: tuple[str, ...] = ()
    requires: dict[str, int] = {}
    uses: dict[str, dict[str, int]] = {}
    plan: bytes = b""
    remaining: dict[str, float] = {}
    limits: dict[str, float] = {}

    def role(self, operator: str, peer: str) -> Role | None:
        """What a peer does for an operator; None: nothing."""
        place = self.places.get(operator)
        if place is None:
            return None
        if place.active == peer:
            return Role.ACTIVE
        if place.follower == peer:
            return Role.FOLLOWER
        return Role.BACKUP if peer in place.backups else None

    @property
    def peers(self) -> frozenset[str]:
        """All peers that take part, or depend on what is made here."""
        found = {peer for place in self.places.values() for peer in (place.active, *place.copies)}
        found |= {lent.peer for place in self.places.values() for lent in place.lent}
        return frozenset(found.union(self.witnesses))

    def readers(self, operator: str) -> list[tuple[str, int]]:
        """The inputs within the application that read an operator's stream: operator and port."""
        return [
            (reader, port)
            for reader, place in self.places.items()
            for port, feed in enumerate(place.inputs)
            if feed.operator == operator and feed.application == self.application
        ]


def producer(
    deployments: Mapping[str, Deployment], reader: str, application: str, operator: str
) -> tuple[str, int] | None:
    """Peer and epoch of a component whose stream an application reads, as far as a peer knows.

    Parameters
    ----------
    deployments
        Application to the deployment that the peer knows.
    reader
        Application that reads.
    application, operator
        Component that makes the stream.
    """
    found: list[tuple[int, str]] = []
    known = deployments.get(application)
    place = known.places.get(operator) if known is not None else None
    if place is not None:
        found.append((place.epoch, place.active))
    if reader != application and reader in deployments:
        found += [
            (each.epoch, each.peer)
            for each in deployments[reader].borrowed
            if (each.application, each.operator) == (application, operator)
        ]
    if not found:
        return None
    epoch, peer = max(found)
    return peer, epoch
