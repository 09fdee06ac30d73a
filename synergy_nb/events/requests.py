"""Events of requests: how a plan was composed, step by step, until a graph was chosen or the request was rejected.

The subject of each is the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from synergy_nb.events.base import RequestEvent, Severity

__all__ = [
    "AttemptFailed",
    "CandidatesFound",
    "DeploymentConsidered",
    "EnginesChanged",
    "EnginesChosen",
    "GraphEvaluated",
    "GraphSelected",
    "PlacementComputed",
    "ProbeAccepted",
    "ProbeDropped",
    "ProbingEnded",
    "ProjectedImpact",
    "RequestSubmitted",
    "ReservationExpired",
    "SharingFound",
    "SharingGivenUp",
    "SignaturesFound",
]


class RequestSubmitted(RequestEvent, frozen=True, gc=False):
    """A request arrived at its origin.

    Parameters
    ----------
    plan, operators
        Name of its plan, and the ids of the operators.
    qos
        Numbers of the QoS requirement Q_ξ, in base units.
    scheduling
        Scheduling discipline that the plan states; empty: it states none.
    overdue
        Policy of the plan for tuples whose deadline has passed; empty if it states none.
    """

    plan: str
    operators: Sequence[str]
    qos: Mapping[str, float]
    scheduling: str = ""
    overdue: str = ""


class SignaturesFound(RequestEvent, frozen=True, gc=False):
    """Streams of the plan have rates that go up and down, and its impact is projected by that.

    Parameters
    ----------
    stated, measured
        Source, or operator whose stream runs already, to the segments of its signature, each with seconds and
        tuples/s: as the plan states it, or as peers have measured it.
    """

    stated: Mapping[str, Sequence[tuple[float, float]]]
    measured: Mapping[str, Sequence[tuple[float, float]]]


class EnginesChosen(RequestEvent, frozen=True, gc=False):
    """It was decided what Spark executes: operator to engine and reason, and each part on Spark with its operators."""

    reasons: Mapping[str, tuple[str, str]]
    parts: Mapping[str, Sequence[str]]


class EnginesChanged(RequestEvent, frozen=True, gc=False):
    """The request could not be composed so, and is now tried with less on Spark: why, and the ``parts`` that remain."""

    reason: str
    parts: Mapping[str, Sequence[str]]


class SharingFound(RequestEvent, frozen=True, gc=False):
    """Streams of the plan run already: maximum sharable ``points``, operator to the peers that give its stream."""

    points: Mapping[str, Sequence[str]]


class SharingGivenUp(RequestEvent, frozen=True, gc=False):
    """The streams that run already are not used."""

    reason: str


class CandidatesFound(RequestEvent, frozen=True, gc=False):
    """Who offers the components: operator to peers, and peer to the cores that it says it has ``free``."""

    candidates: Mapping[str, Sequence[str]]
    free: Mapping[str, float]


class PlacementComputed(RequestEvent, frozen=True, gc=False):
    """Resilient placement decided where operators go: operator to peer, the feasible share, and why, for people."""

    peers: Mapping[str, str]
    ratio: float
    text: str


class DeploymentConsidered(RequestEvent, frozen=True, gc=False):
    """For want of components, these operators may be deployed anew, at the places that this ``stage`` allows."""

    operators: Sequence[str]
    stage: int


class ProjectedImpact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Seconds that an application that runs is projected to take, ``before`` and ``after`` the request; its limit."""

    application: str
    before: float
    after: float
    limit: float


class ProbeAccepted(RequestEvent, frozen=True, gc=False):
    """A probe passed the checks of a peer.

    Parameters
    ----------
    operator
        Id of the operator that was probed.
    via
        Addresses of the peers that the probe passed before.
    capacity
        Cores that remain at the peer.
    bandwidth
        Bytes/s that remain on the link from the peer before; None within one peer.
    so_far_s
        Projected delay from the source to here, in seconds.
    impacts
        Projected delays of those applications that come nearest to their limits.
    """

    operator: str
    via: Sequence[str]
    capacity: float
    bandwidth: float | None
    so_far_s: float
    impacts: Sequence[ProjectedImpact]


class ProbeDropped(RequestEvent, frozen=True, gc=False):
    """A probe failed a condition at a peer.

    Parameters
    ----------
    operator, at
        Id of the operator that was probed, and address of the peer.
    condition
        Name of the condition that does not hold.
    asked, available
        Value that is asked for, and the value that there is, in the unit of the condition.
    explanation
        More about it, where numbers do not say enough.
    tolerated
        Share by which the delay may exceed what is asked for.
    """

    operator: str
    at: str
    condition: str
    asked: float
    available: float
    explanation: str = ""
    tolerated: float = 0.0


class ProbingEnded(RequestEvent, frozen=True, gc=False):
    """A round of probing ended: how many paths came back, probes were dropped, graphs resulted, and qualified.

    It is ``complete`` unless the time for it was up.
    """

    attempt: int
    paths: int
    dropped: int
    graphs: int
    qualified: int
    complete: bool


class GraphEvaluated(RequestEvent, frozen=True, gc=False):
    """A complete component graph: operator to peer, φ (None if infinite), its delay, and why it does not qualify."""

    peers: Mapping[str, str]
    phi: float | None
    delay_s: float
    unqualified: str = ""


class GraphSelected(RequestEvent, frozen=True, gc=False):
    """A component graph was chosen to be set up.

    Parameters
    ----------
    peers
        Operator to the address of its peer.
    phi, delay_s
        Balance φ of the graph, and its projected delay in seconds.
    kept_s
        Delay in seconds that all tuples but the share ``late`` are projected to keep; None: it is not known.
    late
        Share of tuples that may exceed the limit; None: it is not known.
    rule
        Rule by which it was chosen among those that qualified.
    """

    peers: Mapping[str, str]
    phi: float
    delay_s: float
    kept_s: float | None = None
    late: float | None = None
    rule: str = "least φ"


class AttemptFailed(RequestEvent, frozen=True, gc=False):
    """No graph of an attempt could be set up; another attempt may follow."""

    attempt: int
    reason: str


class ReservationExpired(RequestEvent, frozen=True, gc=False):
    """What was reserved for an attempt was given back as nobody confirmed it; of one operator where that is named."""

    severity: ClassVar[Severity] = Severity.DETAIL

    attempt: int
    operator: str = ""
