"""Events of the placement of replicas.

The subject of each is the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from synergy_nb.events.base import RequestEvent, Severity

__all__ = [
    "ActiveReplicasLost",
    "BackupRestored",
    "CandidatePassed",
    "DegreeChosen",
    "PlacementAttemptFailed",
    "PlacementBegun",
    "PlacementCompleted",
    "PlacementFailed",
    "PlacementNegotiated",
    "PlacementReleased",
    "PlacementSubmitted",
    "RebuildGivenUp",
    "RebuildImpossible",
    "ReplicaAccepted",
    "ReplicaDecided",
    "ReplicaDenied",
    "ReplicaPlaced",
    "ReplicaRebuilt",
    "ReplicasDeployed",
    "ReplicasLeft",
    "ReplicasLost",
    "RevivalImpossible",
    "StreamReplicaLost",
    "StreamRevived",
    "StreamsDiscarded",
    "StreamsWeighed",
]


class PlacementSubmitted(RequestEvent, frozen=True, gc=False):
    """A placement was requested, with a number of replicas or for an availability; the other one is None."""

    severity: ClassVar[Severity] = Severity.DETAIL

    plan: str
    degree: int | None
    availability: float | None


class DegreeChosen(RequestEvent, frozen=True, gc=False):
    """The requested ``availability`` needs ``degree`` replicas; the account states the degree that was placed."""

    severity: ClassVar[Severity] = Severity.DETAIL

    degree: int
    availability: float


class PlacementBegun(RequestEvent, frozen=True, gc=False):
    """An attempt began: the degree, operators that have to be at a peer, and the number of candidates by operator."""

    attempt: int
    degree: int
    pinned: Mapping[str, str]
    candidates: Mapping[str, int]


class ReplicaDecided(RequestEvent, frozen=True, gc=False):
    """The peer of a replica was decided.

    Parameters
    ----------
    operator, role
        Id of the operator; role ``primary`` or ``backup``.
    at
        Address of the peer that was chosen.
    used
        Whether the application uses that peer already.
    apart
        Whether it had to be a peer without a source, a sink or the origin.
    latency_s
        Latency from the deciding peer to that peer, seconds; None if unknown.
    order
        Addresses of the first candidates, the best first.
    candidates
        Number of remaining candidates.
    passed
        Candidates that were skipped, each with the reason.
    """

    operator: str
    role: str
    at: str
    used: bool
    apart: bool
    latency_s: float | None
    order: Sequence[str]
    candidates: int
    passed: Sequence[tuple[str, str]]


class PlacementCompleted(RequestEvent, frozen=True, gc=False):
    """All replicas are placed: primaries λ, backups ρ, degree, and availability if failure probabilities are known.

    ``techniques`` has a sentence for each operator whose backups do more than to retain what they are sent.
    """

    attempt: int
    degree: int
    primaries: Mapping[str, str]
    backups: Mapping[str, Sequence[str]]
    availability: float | None
    techniques: Mapping[str, str] = {}


class ReplicasDeployed(RequestEvent, frozen=True, gc=False):
    """Active replicas were placed.

    Parameters
    ----------
    replicas
        Operator to the addresses of the peers of its replicas; one where it is to have no others.
    degrees
        Operator to the number of active replicas that the plan requires of it; where no candidate was left, it has
        fewer.
    backups
        Operator to the addresses of its backups, where the plan requires backups of it.
    streams
        Producer, reader, number of streams between them and their bandwidth in bytes/s, of each stream of the plan
        and of those to backups.
    distance_s
        Round trip that two replicas of an operator have to exceed, seconds; None if any may be next to another.
    cost, cost_alone
        Network cost of all streams, bytes on the way (bytes/s times seconds), with replicas and without.
    bandwidth, bandwidth_alone
        Bandwidth of all streams, bytes/s, with replicas and without.
    agreement
        Operator to a sentence about whether its replicas agree without a sort of their inputs, and why.
    """

    replicas: Mapping[str, Sequence[str]]
    degrees: Mapping[str, int]
    distance_s: float | None
    cost: float
    cost_alone: float
    bandwidth: float
    bandwidth_alone: float
    agreement: Mapping[str, str] = {}
    backups: Mapping[str, Sequence[str]] = {}
    streams: Sequence[tuple[str, str, int, float]] = ()


class ActiveReplicasLost(RequestEvent, frozen=True, gc=False):
    """An application goes on without some of its active replicas, whose tuples come from the others.

    Parameters
    ----------
    at, operators, reason
        Address of their peer, ids of the replicas, and the reason.
    left
        Operator to the number of its remaining replicas.
    """

    severity: ClassVar[Severity] = Severity.WARNING

    at: str
    operators: Sequence[str]
    left: Mapping[str, int]
    reason: str


class ReplicaRebuilt(RequestEvent, frozen=True, gc=False):
    """A lost active replica executes again, and everybody that reads it could do without the others.

    Parameters
    ----------
    operator, source
        Ids of the replica, and of the one from whose state it began.
    at
        Address of its new peer.
    seconds
        Time since the origin began to rebuild it.
    left
        Number of replicas of the operator now.
    peers
        Operator to the address of its peer.
    """

    operator: str
    source: str
    at: str
    seconds: float
    left: int
    peers: Mapping[str, str]


class BackupRestored(RequestEvent, frozen=True, gc=False):
    """A component has another backup instead of one that was lost or took over, and that backup could take over.

    Parameters
    ----------
    operator, at
        Operator of the component, and address of the peer of its backup.
    seconds
        Time since the origin began to set it up.
    backups
        Operator to the addresses of its backups now.
    """

    operator: str
    at: str
    seconds: float
    backups: Mapping[str, Sequence[str]]


class RebuildGivenUp(RequestEvent, frozen=True, gc=False):
    """An attempt to rebuild an active replica or a backup at a peer ended without it, for a reason; others follow."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    at: str
    reason: str


class RebuildImpossible(RequestEvent, frozen=True, gc=False):
    """A lost active replica or backup cannot be rebuilt at present.

    Parameters
    ----------
    operator, reason
        Id of the replica, or of the operator that lacks a backup, and the reason.
    """

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    reason: str


class StreamReplicaLost(RequestEvent, frozen=True, gc=False):
    """One of several stream replicas sends an ``operator`` nothing more; it reads on from the others."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    reason: str


class PlacementAttemptFailed(RequestEvent, frozen=True, gc=False):
    """An attempt failed; its reservations were released."""

    attempt: int
    reason: str


class PlacementFailed(RequestEvent, frozen=True, gc=False):
    """No placement was found, and no other attempt follows."""

    severity: ClassVar[Severity] = Severity.WARNING

    reason: str


class PlacementReleased(RequestEvent, frozen=True, gc=False):
    """The replicas of a placement were released."""


class ReplicasLost(RequestEvent, frozen=True, gc=False):
    """A peer ``at`` with replicas has died: operator to the role of its replica."""

    severity: ClassVar[Severity] = Severity.WARNING

    at: str
    replicas: Mapping[str, str]


class PlacementNegotiated(RequestEvent, frozen=True, gc=False):
    """A peer sent its order of candidates to the peer that decides on an operator with several inputs."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    upstream: str
    to: str
    candidates: Sequence[str]


class CandidatePassed(RequestEvent, frozen=True, gc=False):
    """A candidate refused a replica; :class:`ReplicaDecided` lists it among the skipped candidates."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    at: str
    reason: str


class ReplicaAccepted(RequestEvent, frozen=True, gc=False):
    """This peer reserved resources for a primary at the request of ``by``, with the remaining cores."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    by: str
    cores_left: float


class ReplicaDenied(RequestEvent, frozen=True, gc=False):
    """This peer refuses a replica."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    role: str
    reason: str


class ReplicaPlaced(RequestEvent, frozen=True, gc=False):
    """This peer accepted a replica that ``by`` placed."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    role: str
    by: str


class ReplicasLeft(RequestEvent, frozen=True, gc=False):
    """This peer released all replicas of an attempt."""

    severity: ClassVar[Severity] = Severity.DETAIL

    attempt: int
    reason: str


class StreamsDiscarded(RequestEvent, frozen=True, gc=False):
    """Streams between active replicas were discarded, those of least utility for their cost first (section V-B).

    Parameters
    ----------
    streams
        Producer and reader of each.
    ended
        Replicas that ended with them.
    cost, left, bound
        Network cost before and after, and its target θ, bytes on the way (bytes/s times seconds).
    utility
        Utilities of the discarded streams together; that of an application is 1.
    """

    streams: Sequence[Sequence[str]]
    ended: Sequence[str]
    cost: float
    left: float
    bound: float
    utility: float


class StreamsWeighed(RequestEvent, frozen=True, gc=False):
    """The origin computed the utility and the cost of the streams between active replicas that run (section V-B).

    Parameters
    ----------
    streams
        Producer and reader of each, its utility (that of an application is 1), and its network cost.
    cost, whole
        Network cost of the streams that run, and of all that there could be, bytes on the way (bytes/s times seconds).
    bound
        Target θ of the cost, bytes on the way; None if no stream is discarded.
    """

    streams: Sequence[tuple[str, str, float, float]]
    cost: float
    whole: float
    bound: float | None


class StreamRevived(RequestEvent, frozen=True, gc=False):
    """A discarded stream was revived, as all others of the input were late (section V-C).

    Parameters
    ----------
    producer, reader
        Ends of the stream.
    delay
        Least delay of the others beyond their usual interval, seconds.
    """

    producer: str
    reader: str
    delay: float


class RevivalImpossible(RequestEvent, frozen=True, gc=False):
    """All streams of an input are late, and no discarded one can be revived.

    Parameters
    ----------
    reader, upstream
        Operator that reads, and the operator that it waits for.
    delay
        Least delay of the streams beyond their usual interval, seconds.
    reason
        Reason why none can be revived.
    """

    severity: ClassVar[Severity] = Severity.WARNING

    reader: str
    upstream: str
    delay: float
    reason: str
