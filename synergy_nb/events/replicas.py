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
    "ReplicaDiffers",
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
    """The peer of a replica was decided."""

    # operator, role: id of the operator; role `primary` or `backup`
    operator: str
    role: str
    at: str  # address of the peer that was chosen
    used: bool  # whether the application uses that peer already
    apart: bool  # whether it had to be a peer without a source, a sink or the origin
    latency_s: float | None  # latency from the deciding peer to that peer, seconds; None if unknown
    order: Sequence[str]  # addresses of the first candidates, the best first
    candidates: int  # number of remaining candidates
    passed: Sequence[tuple[str, str]]  # candidates that were skipped, each with the reason


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
    """Active replicas were placed."""

    # operator to the addresses of the peers of its replicas; one where it is to have no others
    replicas: Mapping[str, Sequence[str]]
    # operator to the number of active replicas that the plan requires of it; where no candidate was left, it has fewer
    degrees: Mapping[str, int]
    # round trip that two replicas of an operator have to exceed, seconds; None if any may be next to another
    distance_s: float | None
    # cost, cost_alone: network cost of all streams, bytes on the way (bytes/s times seconds), with replicas and without
    cost: float
    cost_alone: float
    # bandwidth, bandwidth_alone: bandwidth of all streams, bytes/s, with replicas and without
    bandwidth: float
    bandwidth_alone: float
    # operator to a sentence about whether its replicas agree without a sort of their inputs, and why
    agreement: Mapping[str, str] = {}
    # operator to the addresses of its backups, where the plan requires backups of it
    backups: Mapping[str, Sequence[str]] = {}
    # producer, reader, number of streams between them and their bandwidth in bytes/s, of each stream of the plan and of
    # those to backups
    streams: Sequence[tuple[str, str, int, float]] = ()


class ActiveReplicasLost(RequestEvent, frozen=True, gc=False):
    """An application goes on without some of its active replicas, whose tuples come from the others."""

    severity: ClassVar[Severity] = Severity.WARNING

    # at, operators, reason: address of their peer, ids of the replicas, and the reason
    at: str
    operators: Sequence[str]
    left: Mapping[str, int]  # operator to the number of its remaining replicas
    reason: str


class ReplicaRebuilt(RequestEvent, frozen=True, gc=False):
    """A lost active replica executes again, and everybody that reads it could do without the others."""

    # operator, source: ids of the replica, and of the one from whose state it began: itself if its peer was only
    # silent; empty if it goes on from a durable folder
    operator: str
    source: str
    at: str  # address of its peer now
    seconds: float  # time since the origin began to rebuild it
    left: int  # number of replicas of the operator now
    peers: Mapping[str, str]  # operator to the address of its peer

    @property
    def begun(self) -> str:
        """From what it has begun, in words."""
        if not self.source:
            return "from the durable folder"
        return "as its peer was only silent" if self.source == self.operator else f"from the state of {self.source}"


class BackupRestored(RequestEvent, frozen=True, gc=False):
    """A component has another backup instead of one that was lost or took over, and that backup could take over."""

    # operator, at: operator of the component, and address of the peer of its backup
    operator: str
    at: str
    seconds: float  # time since the origin began to set it up
    backups: Mapping[str, Sequence[str]]  # operator to the addresses of its backups now


class RebuildGivenUp(RequestEvent, frozen=True, gc=False):
    """An attempt to rebuild an active replica or a backup at a peer failed, for a reason; other attempts follow."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    at: str
    reason: str


class RebuildImpossible(RequestEvent, frozen=True, gc=False):
    """A lost active replica or backup cannot be rebuilt at present."""

    severity: ClassVar[Severity] = Severity.WARNING

    # operator, reason: id of the replica, or of the operator that lacks a backup, and the reason
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
    """No placement was found, in any attempt; an application may wait, and request another one."""

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
    """Streams between active replicas were discarded, those of least utility for their cost first (section V-B)."""

    streams: Sequence[Sequence[str]]  # producer and reader of each
    ended: Sequence[str]  # replicas that ended with them
    # cost, left, bound: network cost before and after, and its target θ, bytes on the way (bytes/s times seconds)
    cost: float
    left: float
    bound: float
    utility: float  # utilities of the discarded streams together; that of an application is 1


class StreamsWeighed(RequestEvent, frozen=True, gc=False):
    """The origin computed the utility and the cost of the streams between active replicas that run (section V-B)."""

    # producer and reader of each, its utility (that of an application is 1), and its network cost
    streams: Sequence[tuple[str, str, float, float]]
    # cost, whole: network cost of the streams that run, and of all that there could be, bytes on the way (bytes/s times
    # seconds)
    cost: float
    whole: float
    bound: float | None  # target θ of the cost, bytes on the way; None if no stream is discarded


class StreamRevived(RequestEvent, frozen=True, gc=False):
    """A discarded stream was revived, as all others of the input were late (section V-C)."""

    # producer, reader: ends of the stream
    producer: str
    reader: str
    delay: float  # least delay of the others beyond their usual interval, seconds


class ReplicaDiffers(RequestEvent, frozen=True, gc=False):
    """A reader has compared the streams of replicas by hash: one has other tuples than most of them, or than another.

    It is recorded at the first interval, and whenever their number has doubled.
    """

    severity: ClassVar[Severity] = Severity.WARNING

    # reader, replica, at: operator that reads, the replica that differs, and its peer
    reader: str
    replica: str
    at: str
    intervals: int  # intervals between punctuations in which it has differed
    # whether more than half of the replicas agree on other tuples; otherwise nobody knows which of them is wrong
    outvoted: bool


class RevivalImpossible(RequestEvent, frozen=True, gc=False):
    """All streams of an input are late, and no discarded one can be revived."""

    severity: ClassVar[Severity] = Severity.WARNING

    # reader, upstream: operator that reads, and the operator that it waits for
    reader: str
    upstream: str
    delay: float  # least delay of the streams beyond their usual interval, seconds
    reason: str  # reason why none can be revived
