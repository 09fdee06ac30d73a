"""Events of the placement of replicas.

The subject of each is the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from synergy_nb.events.base import RequestEvent, Severity

__all__ = [
    "CandidatePassed",
    "DegreeChosen",
    "PlacementAttemptFailed",
    "PlacementBegun",
    "PlacementCompleted",
    "PlacementFailed",
    "PlacementNegotiated",
    "PlacementReleased",
    "PlacementSubmitted",
    "ReplicaAccepted",
    "ReplicaDecided",
    "ReplicaDenied",
    "ReplicaPlaced",
    "ReplicasLeft",
    "ReplicasLost",
]


class PlacementSubmitted(RequestEvent, frozen=True, gc=False):
    """The components of a plan are to be placed: with so many replicas, or for an availability; the other is None."""

    severity: ClassVar[Severity] = Severity.DETAIL

    plan: str
    degree: int | None
    availability: float | None


class DegreeChosen(RequestEvent, frozen=True, gc=False):
    """So many replicas are needed for the ``availability`` asked for; the account tells the degree that was placed."""

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
    """It was decided where a replica goes.

    Parameters
    ----------
    operator, role
        Id of the operator; ``primary`` or ``backup``.
    at
        Address of the peer that was chosen.
    used
        Whether the application uses that peer already.
    apart
        Whether it had to be a peer without a source, a sink or the origin.
    latency_s
        Latency from whoever decided to that peer in seconds; None: it is not known.
    order
        Addresses of the first candidates, the best first.
    candidates
        Number of candidates that were left.
    passed
        Candidates that were passed over, each with the reason.
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
    """All replicas have a place: primaries λ, backups ρ, degree, and availability if peers say how they fail."""

    attempt: int
    degree: int
    primaries: Mapping[str, str]
    backups: Mapping[str, Sequence[str]]
    availability: float | None


class PlacementAttemptFailed(RequestEvent, frozen=True, gc=False):
    """An attempt failed; what it had taken is given back."""

    attempt: int
    reason: str


class PlacementFailed(RequestEvent, frozen=True, gc=False):
    """There is no placement, and no other attempt follows."""

    severity: ClassVar[Severity] = Severity.WARNING

    reason: str


class PlacementReleased(RequestEvent, frozen=True, gc=False):
    """The replicas of a placement are given back."""


class ReplicasLost(RequestEvent, frozen=True, gc=False):
    """A peer ``at`` which replicas were has died: operator to the role of the replica that was there."""

    severity: ClassVar[Severity] = Severity.WARNING

    at: str
    replicas: Mapping[str, str]


class PlacementNegotiated(RequestEvent, frozen=True, gc=False):
    """A peer told the one that decides on an operator of several inputs which candidates it would choose."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    upstream: str
    to: str
    candidates: Sequence[str]


class CandidatePassed(RequestEvent, frozen=True, gc=False):
    """A candidate did not take a replica; :class:`ReplicaDecided` lists it among those that were passed over."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    at: str
    reason: str


class ReplicaAccepted(RequestEvent, frozen=True, gc=False):
    """This peer reserved for a primary, as ``by`` asked, and has so many cores left."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    by: str
    cores_left: float


class ReplicaDenied(RequestEvent, frozen=True, gc=False):
    """This peer does not take a replica."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    role: str
    reason: str


class ReplicaPlaced(RequestEvent, frozen=True, gc=False):
    """This peer took a replica, as ``by`` decided."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    role: str
    by: str


class ReplicasLeft(RequestEvent, frozen=True, gc=False):
    """This peer gave back all replicas of an attempt."""

    severity: ClassVar[Severity] = Severity.DETAIL

    attempt: int
    reason: str
