"""Messages and configuration of composition: probes, their answers, and the parameters of a request."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import msgspec

from synergy_nb.control.graph import Hop
from synergy_nb.control.peer import Message
from synergy_nb.errors import user_facing
from synergy_nb.models.projection import ProjectionConfig
from synergy_nb.plan import Plan
from synergy_nb.reporting.formatting import share

__all__ = [
    "APART",
    "UNIT",
    "Acknowledged",
    "CompositionConfig",
    "Dropped",
    "Merged",
    "Probe",
    "ProbedRequest",
    "Release",
    "Returned",
    "decode_request",
    "encode_request",
]

#: Choice of probes for a plan that is to be spread: as ``balanced``, but peers that are not on the path yet come first.
APART: Final = "apart"
CHOICES: Final = ("balanced", "nearest", "random")
OBJECTIVES: Final = ("balance", "delay", "chance")
SHARING: Final = ("off", "live", "all")
DEPLOYMENT: Final = ("off", "collocated", "nearest", "random")
UNIT: Final = 1 << 48  # weight of the probes of one source, large enough to be divided by any budget


class CompositionConfig(msgspec.Struct, frozen=True):
    """Parameters of composition.

    Parameters
    ----------
    ratio
        Probing ratio: share of an operator's candidates that is probed, in (0, 1].
    adaptive
        Whether the ratio follows what requests need, see :mod:`synergy_nb.algorithms.composition._adaptive`.
    at_least
        Least number of candidates of an operator that are probed, if it has as many.
    budget
        Maximum number of paths that a request may probe from each source.
    choice
        Order in which candidates are probed: by the least addition to φ according to the directory (``balanced``), by
        the least measured delay (``nearest``), or at random, by request (``random``).
    merged
        Whether paths that meet at a component are merged (:mod:`synergy_nb.algorithms.composition._probed_paths`). Then
        ``budget`` limits the candidates that each peer chooses, not the paths of the request.
    summed
        Whether the delays that a path would add to a running application at several of its peers are added up before
        they are compared with its limit. In the dissertation each peer compares its own.
    agreed
        Whether a peer commits a component only after the origins of all applications that it would delay have agreed
        (:mod:`synergy_nb.lifecycle.sessions.agreements`). Each origin adds up what the peers of its application have
        told it, so delay limits are kept although several requests are set up at the same moment; and a peer commits no
        component whose stream it makes already for an application that the origin of the request does not know. In the
        dissertation a peer compares the last measured delay with the limit, and what others add at the same time does
        not count.
    patience
        Greatest number of seconds that a request waits while another one for the same stream is composed
        (:mod:`synergy_nb.lifecycle.requests.claims`); 0, as in the dissertation: it does not wait.
    backtracks
        Whether, if the maximum sharable points do not qualify, those before them in the plan are tried. In the
        dissertation nothing is shared then.
    objective
        Quantity that is minimal for the chosen graph among those that qualify: φ (``balance``), as in the dissertation,
        or the end-to-end ``delay``; or ``chance``: any of them, drawn by request, only for a baseline in experiments.
    tolerance
        Share by which φ may exceed the least for a graph that is faster; 0 is the dissertation's rule.
    discovery, probing
        Time limits for the directory's answer and for a round of probes, seconds.
    acknowledgement
        Seconds until a next hop that has not acknowledged a probe counts as silent. Peers acknowledge all probes of a
        request that arrive within a twentieth of it together: that saves half of all messages.
    reservation
        Seconds until a reservation without a confirmation expires.
    tries
        Maximum number of graphs that one attempt may try to set up, the best first.
    attempts
        Maximum number of rounds of probes; each doubles the ratio and the budget of the previous one.
    sharing
        Running streams that are reused: none (``off``), streams without a beginning that a later reader would miss
        (``live``), or ``all``: a later reader gets the tuples from then on.
    deployment
        Rule for the peers of components that are missing, or that no candidate can take on: ``collocated`` with a
        neighbour in the plan, the peer ``nearest`` to the previous component, a ``random`` peer, or none (``off``).
    projection
        Parameters of the projected impact on the QoS of running applications; None disables projection.
    late
        Share of the tuples that may exceed the delay limit of a plan without a miss rate; the quantile of the projected
        delay that belongs to it is compared with the limit, where peers have measured variances. None to compare the
        mean, as in the dissertation.
    guard_band
        Share by which the projected delay of a plan may exceed the plan's own limit, where peers project from measured
        overheads (:mod:`synergy_nb.models.overheads`); a plan that exceeds it by more is refused. The median of such
        projections is right, but the delay of the same plan varies by a fifth from run to run, so near the limit it is
        uncertain whether the plan will meet it. An admitted plan that is late shows that in its measurements, and the
        user can stop it; a refused plan has no measurements. So plans in doubt are admitted. In conformity assessment,
        a limit that such a band moves outwards is a rule of guarded rejection (JCGM 106:2012). The band is not used
        where nothing is measured, as in the papers' model, since projections are then exact; nor for a plan with a miss
        rate, which is a promise about the limit itself.
    enforce
        Whether capacity, bandwidth and QoS are checked at all; False only for baselines in experiments.

    Examples
    --------
    Half of the candidates are probed, and the fastest graph is chosen:

    >>> from synergy_nb import CompositionConfig, Simulation
    >>> simulation = Simulation(4, composition=CompositionConfig(ratio=0.5, objective="delay"), seed=1)
    >>> simulation.close()
    """

    ratio: float = 0.1
    at_least: int = 2
    budget: int = 8
    choice: str = "balanced"
    merged: bool = False
    summed: bool = False
    agreed: bool = False
    patience: float = 0.0
    backtracks: bool = False
    objective: str = "balance"
    tolerance: float = 0.02
    discovery: float = 3.0
    probing: float = 3.0
    acknowledgement: float = 1.0
    reservation: float = 8.0
    tries: int = 3
    attempts: int = 2
    sharing: str = "live"
    deployment: str = "collocated"
    projection: ProjectionConfig | None = ProjectionConfig()
    enforce: bool = True
    adaptive: bool = False
    late: float | None = None
    guard_band: float = 0.1

    @property
    def rule(self) -> str:
        """Readable name of the rule by which the graph is chosen from those that qualify."""
        if self.objective == "delay":
            return "least delay"
        if self.objective == "chance":
            return "any"
        return f"least φ (the fastest within {share(self.tolerance)} of it)" if self.tolerance else "least φ"

    @user_facing
    def __post_init__(self) -> None:
        for field in ("merged", "summed", "agreed", "backtracks", "enforce", "adaptive"):
            if not isinstance(getattr(self, field), bool):
                raise ValueError(f"{field}: {getattr(self, field)!r}; expected True or False")
        for field in ("at_least", "budget", "tries", "attempts"):
            if not isinstance(getattr(self, field), int) or isinstance(getattr(self, field), bool):
                raise ValueError(f"{field}: {getattr(self, field)!r}; expected a whole number")
        durations = ("patience", "discovery", "probing", "acknowledgement", "reservation")
        for field in ("ratio", "tolerance", "guard_band", *durations, *([] if self.late is None else ["late"])):
            value = getattr(self, field)
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                raise ValueError(f"{field}: {value!r}; expected a finite number")
        if self.agreed and self.projection is None:
            raise ValueError("agreed: True; expected a projection beside it, by which peers know what they delay")
        if not 0.0 < self.ratio <= 1.0:
            raise ValueError(f"ratio: {self.ratio}; expected more than 0, at most 1")
        for field, known in (
            ("choice", CHOICES),
            ("objective", OBJECTIVES),
            ("sharing", SHARING),
            ("deployment", DEPLOYMENT),
        ):
            if getattr(self, field) not in known:
                raise ValueError(f"{field}: {getattr(self, field)!r}; expected {' or '.join(known)}")
        if self.late is not None and not 0.0 < self.late < 1.0:
            raise ValueError(f"late: {self.late}; expected a share between 0 and 1, or None")
        for field in ("patience", "tolerance", "guard_band"):
            if not getattr(self, field) >= 0.0:
                raise ValueError(f"{field}: {getattr(self, field)}; expected at least 0")
        for field in ("at_least", "budget", "tries", "attempts"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}: {getattr(self, field)}; expected at least 1")
        for field in ("discovery", "probing", "acknowledgement", "reservation"):
            if not getattr(self, field) > 0.0:
                raise ValueError(f"{field}: {getattr(self, field)} s; expected more than 0")


class ProbedRequest(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The part of a request that all its probes carry."""

    request: str
    attempt: int
    origin: str
    plan: bytes
    candidates: dict[str, tuple[str, ...]]  # operator to the peers that offer it
    # ratio, at_least, choice: see `CompositionConfig`
    ratio: float
    at_least: int
    choice: str
    deploy: tuple[str, ...] = ()  # operators that are to be deployed where their candidates do not suffice
    stage: int = 0  # stage of the search for candidates, see `synergy_nb.algorithms.composition._component_placement`
    near: tuple[str, ...] = ()  # neighbours of the origin in the overlay, if the stage asks for them
    free: dict[str, float] = {}  # candidate to its free cores, for candidates whose load the directory knows
    merged: str = ""  # objective by which paths that meet at a component are merged; empty where they are not
    summed: bool = False  # whether impacts are added up over a path
    user: str = ""  # guest who has submitted the plan; empty: an owner of the cluster


class Probe(Message, frozen=True):
    """A probe: check the component of ``operator`` at the receiver, as the next hop after ``path``."""

    request: bytes
    operator: str
    path: tuple[Hop, ...]
    budget: int
    weight: int
    sent: float


class Acknowledged(Message, frozen=True):
    """The sender has processed probes of the receiver; operator to the sum of the weights of these probes."""

    request: str
    attempt: int
    weights: dict[str, int]


class Returned(Message, frozen=True):
    """A probe has reached a sink; the message returns its path to the origin."""

    request: str
    attempt: int
    path: tuple[Hop, ...]
    weight: int


class Merged(Message, frozen=True):
    """A probe ends where its path meets one that is at least as good; its path and weight return to the origin."""

    request: str
    attempt: int
    path: tuple[Hop, ...]
    weight: int


class Dropped(Message, frozen=True):
    """A probe for ``operator`` at peer ``at`` has failed a condition: ``required`` and ``available`` are its numbers.

    The peers ``via`` have reserved resources for it. ``detail`` is an explanation where the numbers do not suffice. A
    delay that exceeds the limit by at most the share ``tolerated`` would have been accepted.
    """

    request: str
    attempt: int
    operator: str
    at: str
    condition: str
    required: float
    available: float
    via: tuple[str, ...]
    weight: int
    detail: str = ""
    tolerated: float = 0.0


class Release(Message, frozen=True):
    """Release the reservations of a request up to this attempt."""

    request: str
    attempt: int


encode_request = msgspec.msgpack.Encoder().encode


@lru_cache(maxsize=64)
def decode_request(data: bytes) -> tuple[ProbedRequest, Plan]:
    """The request that a probe carries, and its plan; cached, since all its probes at a peer carry the same bytes.

    Raises ``ValueError`` if the bytes are no request, or if its candidates are not those of its plan.
    """
    request = msgspec.msgpack.decode(data, type=ProbedRequest)
    plan = Plan.from_bytes(request.plan)
    offered = {operator for operator, peers in request.candidates.items() if peers}
    if request.candidates.keys() != plan.operators.keys() or not plan.operators.keys() - set(request.deploy) <= offered:
        raise ValueError("candidates: expected at least one for each operator of the plan that is not to be deployed")
    if not 0.0 < request.ratio <= 1.0 or request.at_least < 1:
        raise ValueError(f"ratio, at_least: {request.ratio}, {request.at_least}; expected 0 < ratio <= 1 <= at_least")
    return request, plan
