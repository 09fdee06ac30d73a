"""Messages and configuration of the placement of replicas: the four messages of section 4.4, and those around them."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from synergy_nb.algorithms.availability._limits import components_of
from synergy_nb.control.peer import Message
from synergy_nb.control.roles import Roles
from synergy_nb.plan import Plan

__all__ = [
    "PlacementConfig",
    "PlacementDecision",
    "PlacementNegotiation",
    "PlacementRenewal",
    "PlacementReply",
    "PlacementReport",
    "PlacementRequest",
    "PlacementWithdrawn",
    "Survey",
    "Surveyed",
    "Task",
    "decode_task",
    "encode_task",
]


class PlacementConfig(msgspec.Struct, frozen=True):
    """Parameters of placement; times in seconds."""

    discovery: float = 3.0  # time limit for the directory's answer
    # survey, fresh, most_surveyed: time limit for the answers to a survey of links, in which a silent peer is asked
    # `sends` times; time for which an answer is used; and maximum number of surveyed peers, the nearest first, beside
    # those that the application uses
    survey: float = 1.0
    fresh: float = 5.0
    most_surveyed: int = 32
    # answer, sends: seconds until a message without an answer is sent again, and the number of times that it is sent
    answer: float = 1.5
    sends: int = 3
    # seconds until a peer releases the resources of a primary that it accepted and that was not decided
    reservation: float = 15.0
    # placement, attempts: time limit of an attempt, and the maximum number of attempts: peers may become silent in the
    # middle, and concurrent placements may hold the resources for a moment. Between two attempts the origin waits for
    # up to `answer`
    placement: float = 20.0
    attempts: int = 3
    # refresh, lease: seconds between two messages by which the origin renews a placement, and seconds without such a
    # message until a peer releases its resources
    refresh: float = 5.0
    lease: float = 90.0
    # whether to place backups first on peers with free capacity for all operators that they would take over. A backup
    # has no commitment of capacity, so nothing else checks that (section 4.4, step 5)
    room_first: bool = False
    # whether to place replicas first on peers that have no source and no sink and are not the origin. Sources, sinks
    # and the origin have no replicas, so the death of their peer ends the application whatever else that peer has
    # (section 4.4 does not ask for this)
    apart_first: bool = False
    # whether to look ahead: a peer that is asked for a primary offers to take all later components that it has room
    # for, with their backups, and the offer by which the application depends on fewest groups of peers is taken
    # (`_offers`). Section 4.4 looks at the next stream only: where a peer or a link is full in the middle of an
    # application, it needs one peer more
    ahead: bool = False
    offers: int = 8  # maximum number of offers that are compared for one component

    def __post_init__(self) -> None:
        for field in ("most_surveyed", "sends", "attempts", "offers"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}: {getattr(self, field)}; expected at least 1")
        for field in ("discovery", "survey", "fresh", "answer", "reservation", "placement", "refresh"):
            if not getattr(self, field) > 0.0:
                raise ValueError(f"{field}: {getattr(self, field)} s; expected more than 0")
        least = max(self.placement, self.refresh)
        if not self.lease > least:
            raise ValueError(
                f"lease: {self.lease} s; expected more than {least:g} s, the greater of placement and refresh"
            )


class Task(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The part of a placement that all its messages carry."""

    # request, attempt, origin: id of the request, number of the attempt, and the peer v_s where it was submitted
    request: str
    attempt: int
    origin: str
    plan: bytes
    degree: int  # replication degree ϱ
    candidates: dict[str, tuple[str, ...]]  # operator to the peers that can have it, as a primary or a backup
    pinned: dict[str, str]  # operator to the peer where its primary has to be
    degrees: dict[str, int] = {}  # operator to its own degree, where it is another one
    # peers at which earlier attempts found no peer for what comes next. They get no primary, unless there is no other
    # candidate. And if there are any, a peer that looks ahead offers as many components as it can, and offers of more
    # components come first, since what is left for others may find no place
    stuck: tuple[str, ...] = ()

    def degree_of(self, operator: str) -> int:
        """Replication degree of an operator."""
        return self.degrees.get(operator, self.degree)

    def for_primary(self, operator: str) -> tuple[str, ...]:
        """Candidates for the primary of an operator: its pinned peer, or those that earlier attempts have left."""
        if operator in self.pinned:
            return (self.pinned[operator],)
        every = self.candidates[operator]
        return tuple(peer for peer in every if peer not in self.stuck) or every


class PlacementRequest(Message, frozen=True):
    """A request to host the primary of ``operator`` and to continue from it; ``graph`` holds the decisions so far."""

    number: int
    task: bytes
    operator: str
    graph: Roles


class PlacementReply(Message, frozen=True):
    """The answer to the message with that number; with a reason if it is denied.

    A peer that looks ahead and accepts a primary states its offer: the number of components that it ``takes``, and the
    ``groups`` of peers on which the application would depend.
    """

    number: int
    accepted: bool
    reason: str
    takes: int = 0
    groups: int = 0


class PlacementNegotiation(Message, frozen=True):
    """The candidates for ``operator`` that the host of its input ``upstream`` suggests, the preferred first.

    It goes to the host of the first operator that ``operator`` reads, which decides; by the origin, if the sender does
    not know that host.
    """

    number: int
    task: bytes
    operator: str
    upstream: str
    graph: Roles
    candidates: tuple[str, ...]


class PlacementDecision(Message, frozen=True):
    """The decision that the receiver hosts the primary or a backup of ``operator``; ``graph`` holds earlier ones.

    With ``also`` it hosts the backups of these operators, too, or of none of them.
    """

    number: int
    task: bytes
    operator: str
    backup: bool
    graph: Roles
    also: tuple[str, ...] = ()


class PlacementReport(Message, frozen=True):
    """A report to the origin: the host of ``operator`` has placed its part, or has failed for a reason.

    ``silent`` is the peer that did not answer after it had accepted a replica. The report of a destination node holds
    the complete graph.
    """

    number: int
    request: str
    attempt: int
    operator: str
    graph: Roles
    reason: str = ""
    silent: str = ""


class PlacementRenewal(Message, frozen=True):
    """A renewal of a committed placement: the receiver hosts replicas of these operators, and releases others."""

    request: str
    attempt: int
    operators: tuple[str, ...]


class PlacementWithdrawn(Message, frozen=True):
    """Release the resources for one operator of a placement; if none is named, for all up to that attempt.

    With ``accepted`` only those of a primary that the receiver has accepted, and that is not decided.
    """

    request: str
    attempt: int
    operator: str
    accepted: bool = False


class Survey(Message, frozen=True):
    """A question for the residual bandwidth of the link from the sender to the receiver."""

    number: int


class Surveyed(Message, frozen=True):
    """The answer to :class:`Survey`: residual bandwidth of that link in bytes/s, free cores, failure probabilities.

    ``failure`` is the probability ϕ that the peer fails by itself. ``domains`` maps its failure domains, the widest
    first, to the probability that each of them fails.
    """

    number: int
    bandwidth: float
    cores: float
    failure: float
    domains: dict[str, float]


encode_task = msgspec.msgpack.Encoder().encode


@lru_cache(maxsize=64)
def decode_task(data: bytes) -> tuple[Task, Plan]:
    """The task that a message carries, and its plan; cached, since all messages of an attempt carry the same bytes.

    Raises ``ValueError`` if the bytes are no task, or if its candidates are not those of its plan.
    """
    task = msgspec.msgpack.decode(data, type=Task)
    plan = Plan.from_bytes(task.plan)
    if task.candidates.keys() != plan.operators.keys() or not all(task.candidates.values()):
        raise ValueError("candidates: expected at least one peer for each operator of the plan")
    for name in components_of(plan):
        if not 1 <= task.degree_of(name) <= len(task.candidates[name]):
            raise ValueError(f"degree: {task.degree_of(name)}; expected 1 to the number of candidates of {name}")
    return task, plan
