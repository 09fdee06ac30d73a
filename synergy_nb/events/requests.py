"""Events of requests: the steps of composition until a graph is chosen or the request is rejected.

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
    "EstimatesFound",
    "GraphEvaluated",
    "GraphSelected",
    "PlacementComputed",
    "ProbeAccepted",
    "ProbeDropped",
    "ProbingEnded",
    "ProjectedImpact",
    "RequestPostponed",
    "RequestSubmitted",
    "ReservationExpired",
    "SharingFound",
    "SharingGivenUp",
    "SignaturesFound",
]


class RequestSubmitted(RequestEvent, frozen=True, gc=False):
    """A request arrived at its origin."""

    # plan, operators: name of the plan, and ids of its operators
    plan: str
    operators: Sequence[str]
    qos: Mapping[str, float]  # numbers of the QoS requirement Q_ξ, in base units
    scheduling: str = ""  # scheduling discipline that the plan states; empty: it states none
    overdue: str = ""  # policy of the plan for tuples whose deadline has passed; empty if it states none
    hotspots: str = ""  # mode of hot spots that the plan states; empty if it states none
    trial: bool = False  # whether it is only decided on, and never run
    # source to what was known of its rows, in words; only those whose rows somebody has looked at
    sources: Mapping[str, str] = {}


class SignaturesFound(RequestEvent, frozen=True, gc=False):
    """Streams of the plan have signatures, by which its impact is projected."""

    # stated, measured: segments of the signature of each source, or of each operator whose stream runs already, with
    # seconds and tuples/s: stated by the plan, or measured by peers
    stated: Mapping[str, Sequence[tuple[float, float]]]
    measured: Mapping[str, Sequence[tuple[float, float]]]
    profiled: Mapping[str, Sequence[tuple[float, float]]] = {}  # by the profile of their trace


class EstimatesFound(RequestEvent, frozen=True, gc=False):
    """Rates of sources and selectivities of operators by which the plan was decided on, and where they come from."""

    # operator to what the number is (`rate`, tuples/s, or `selectivity`), the number, and its origin: `stated`, `rows`,
    # `profile`, `before` (measured by peers) or `assumed`
    numbers: Mapping[str, tuple[str, float, str]]
    # stream of a source to the name of its profile
    profiles: Mapping[str, str]
    # operator with state that a profile tells to the bytes of it in a busy window, and in a mean one
    held: Mapping[str, tuple[float, float]] = {}


class EnginesChosen(RequestEvent, frozen=True, gc=False):
    """Engines of operators were chosen: operator to engine and reason, and each part on Spark with its operators."""

    reasons: Mapping[str, tuple[str, str]]
    parts: Mapping[str, Sequence[str]]


class EnginesChanged(RequestEvent, frozen=True, gc=False):
    """The request could not be composed and is tried with less on Spark: the reason, and the remaining ``parts``."""

    reason: str
    parts: Mapping[str, Sequence[str]]


class SharingFound(RequestEvent, frozen=True, gc=False):
    """Streams of the plan run already: maximum sharable ``points``, operator to the peers that provide its stream.

    ``rests``: operator that makes its stream of another one than its plan says, to the name of that one and what it
    still does; ``unfit``: aggregate to the nearest stream of finer windows that it does not read, and the reason.
    """

    points: Mapping[str, Sequence[str]]
    rests: Mapping[str, tuple[str, str]] = {}
    unfit: Mapping[str, tuple[str, str]] = {}


class RequestPostponed(RequestEvent, frozen=True, gc=False):
    """The request waits and is tried again: a stream can be shared soon, or a peer is silent, as ``reason`` says."""

    reason: str


class SharingGivenUp(RequestEvent, frozen=True, gc=False):
    """Running streams of the plan are not used."""

    reason: str


class CandidatesFound(RequestEvent, frozen=True, gc=False):
    """Candidates of the components: operator to peers, and peer to the cores that it reports as ``free``."""

    candidates: Mapping[str, Sequence[str]]
    free: Mapping[str, float]


class PlacementComputed(RequestEvent, frozen=True, gc=False):
    """Resilient placement placed the operators: operator to peer, the feasible share, and the reason for people."""

    peers: Mapping[str, str]
    ratio: float
    text: str


class DeploymentConsidered(RequestEvent, frozen=True, gc=False):
    """Components are missing, so these operators may be deployed at the peers that this ``stage`` allows."""

    operators: Sequence[str]
    stage: int


class ProjectedImpact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Projected delay of a running application ``before`` and ``after`` the request, and its limit, seconds."""

    application: str
    before: float
    after: float
    limit: float


class ProbeAccepted(RequestEvent, frozen=True, gc=False):
    """A probe passed the checks of a peer."""

    operator: str  # id of the operator that was probed
    via: Sequence[str]  # addresses of the previous peers of the probe
    capacity: float  # remaining capacity of the peer, cores
    bandwidth: float | None  # remaining bandwidth of the link from the previous peer, bytes/s; None within one peer
    so_far_s: float  # projected delay from the source to this peer, seconds
    impacts: Sequence[ProjectedImpact]  # projected delays of the applications nearest to their limits


class ProbeDropped(RequestEvent, frozen=True, gc=False):
    """A probe failed a condition at a peer."""

    # operator, at: id of the operator that was probed, and address of the peer
    operator: str
    at: str
    condition: str  # name of the failed condition
    # required, available: required value and available value, in the unit of the condition
    required: float
    available: float
    explanation: str = ""  # additional text for conditions that numbers do not describe
    tolerated: float = 0.0  # share by which the delay may exceed the requirement


class ProbingEnded(RequestEvent, frozen=True, gc=False):
    """A round of probing ended: numbers of returned paths, dropped probes, resulting graphs and qualified graphs.

    It is ``complete`` unless its time limit expired.
    """

    attempt: int
    paths: int
    dropped: int
    graphs: int
    qualified: int
    complete: bool


class GraphEvaluated(RequestEvent, frozen=True, gc=False):
    """A complete component graph: operator to peer, φ (None if infinite), delay, and why it is unqualified, if so."""

    peers: Mapping[str, str]
    phi: float | None
    delay_s: float
    unqualified: str = ""


class GraphSelected(RequestEvent, frozen=True, gc=False):
    """A component graph was chosen for set-up."""

    peers: Mapping[str, str]  # operator to the address of its peer
    # phi, delay_s: balance φ of the graph, and its projected delay, seconds
    phi: float
    delay_s: float
    # projected delay that only the share `late` of the tuples exceeds, seconds; None if unknown
    quantile_s: float | None = None
    late: float | None = None  # share of tuples that may exceed the limit; None if unknown
    rule: str = "least φ"  # rule by which it was chosen among those that qualified


class AttemptFailed(RequestEvent, frozen=True, gc=False):
    """No graph of an attempt could be set up; another attempt may follow."""

    attempt: int
    reason: str


class ReservationExpired(RequestEvent, frozen=True, gc=False):
    """Reservations of an attempt, or of the named operator, were released because they were not confirmed in time."""

    severity: ClassVar[Severity] = Severity.DETAIL

    attempt: int
    operator: str = ""
