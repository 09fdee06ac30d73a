"""What placement sends and is set by: the four messages of section 4.4, those around them, and the parameters."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from synergy_nb.algorithms.availability.limits import components_of
from synergy_nb.control.graph import Roles
from synergy_nb.control.peer import Message
from synergy_nb.plan import Plan

__all__ = [
    "PlacementConfig",
    "PlacementDecision",
    "PlacementKept",
    "PlacementNegotiation",
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
    """Parameters of placement; times in seconds.

    Parameters
    ----------
    discovery
        Allowed for the directory's answer.
    survey, fresh, surveyed
        Allowed for the answers to a survey of links, in which a silent peer is asked ``sends`` times; how long what it
        found counts; peers asked at most, the nearest first, beside those that the application uses already.
    answer, sends
        Seconds until a message without an answer is sent again, and the number of times that it is sent.
    reservation
        Seconds until an accepted primary that has not been decided returns its resources.
    placing, attempts
        Allowed for an attempt; attempts, for peers may fall silent on the way, and concurrent placements may hold for a
        moment what one needs. After one the origin waits for up to ``answer``.
    able
        Whether backups go first to peers with room for all that they would have to take over: a backup promises no
        capacity, and without this nobody asks for it (section 4.4, step 5).
    apart
        Whether to place replicas first on peers that have no source and no sink and are not the origin. Sources, sinks
        and the origin have no replicas, so the death of their peer ends the application whatever else that peer has
        (section 4.4 does not ask for this).
    refresh, lease
        Seconds between two messages by which the origin renews a placement, and seconds without such a message until a
        peer releases its resources.
    """

    discovery: float = 3.0
    survey: float = 1.0
    fresh: float = 5.0
    surveyed: int = 32
    answer: float = 1.5
    sends: int = 3
    reservation: float = 15.0
    placing: float = 20.0
    attempts: int = 3
    refresh: float = 5.0
    lease: float = 30.0
    able: bool = False
    apart: bool = False

    def __post_init__(self) -> None:
        for field in ("surveyed", "sends", "attempts"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field}: {getattr(self, field)}; expected at least 1")
        for field in ("discovery", "survey", "fresh", "answer", "reservation", "placing", "refresh"):
            if not getattr(self, field) > 0.0:
                raise ValueError(f"{field}: {getattr(self, field)} s; expected more than 0")
        least = max(self.placing, self.refresh)
        if not self.lease > least:
            raise ValueError(f"lease: {self.lease} s; expected more than {least:g} s, which placing or a refresh takes")


class Task(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What every message of a placement carries.

    Parameters
    ----------
    request, attempt, origin
        Id of the request, number of the attempt, and the peer v_s where it was submitted.
    plan
        ``Plan.to_bytes()`` of ξ.
    degree
        Replication degree ϱ.
    candidates
        Operator to the peers that can have it, as a primary or a backup.
    pinned
        Operator to the peer where its primary has to be.
    """

    request: str
    attempt: int
    origin: str
    plan: bytes
    degree: int
    candidates: dict[str, tuple[str, ...]]
    pinned: dict[str, str]

    def for_primary(self, operator: str) -> tuple[str, ...]:
        """Peers that can have the primary of an operator."""
        return (self.pinned[operator],) if operator in self.pinned else self.candidates[operator]


class PlacementRequest(Message, frozen=True):
    """Host the primary of ``operator``, and place what follows from it; ``graph`` is as far as is decided."""

    number: int
    task: bytes
    operator: str
    graph: Roles


class PlacementReply(Message, frozen=True):
    """Answer to the message of that number; why not, where it is denied."""

    number: int
    accepted: bool
    reason: str


class PlacementNegotiation(Message, frozen=True):
    """What the host of ``upstream`` would have ``operator`` placed on, the preferred peers first.

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
    """The receiver is to have the primary of ``operator``, or a backup of it; ``graph`` is as far as is decided."""

    number: int
    task: bytes
    operator: str
    backup: bool
    graph: Roles


class PlacementReport(Message, frozen=True):
    """To the origin: the host of ``operator`` has placed what it had to, or could not, and why.

    ``silent`` says which peer did not answer after it had accepted something. The report of a destination node holds
    the complete graph.
    """

    number: int
    request: str
    attempt: int
    operator: str
    graph: Roles
    reason: str = ""
    silent: str = ""


class PlacementKept(Message, frozen=True):
    """The placement stands, and these operators have their replicas at the receiver; it may forget any others of it."""

    request: str
    attempt: int
    operators: tuple[str, ...]


class PlacementWithdrawn(Message, frozen=True):
    """Give back what is held for one operator of a placement; for all, up to that attempt, where none is named."""

    request: str
    attempt: int
    operator: str


class Survey(Message, frozen=True):
    """How good is the link from me to you?"""

    number: int


class Surveyed(Message, frozen=True):
    """Residual bandwidth of the link from the receiver to the sender, bytes/s, cores left, and how the sender may fail.

    ``failure`` is the probability ϕ that it does by itself, ``domains`` those that it depends on, the widest first,
    with the probability that each of them fails.
    """

    number: int
    bandwidth: float
    cores: float
    failure: float
    domains: dict[str, float]


encode_task = msgspec.msgpack.Encoder().encode


@lru_cache(maxsize=512)
def decode_task(data: bytes) -> tuple[Task, Plan]:
    """The task that a message carries, and its plan; cached, for all messages of an attempt carry the same bytes.

    Raises
    ------
    ValueError
        If these are no task and plan, or do not belong together.
    """
    task = msgspec.msgpack.decode(data, type=Task)
    plan = Plan.from_bytes(task.plan)
    if task.candidates.keys() != plan.operators.keys() or not all(task.candidates.values()):
        raise ValueError("candidates: expected at least one peer for each operator of the plan")
    if not 1 <= task.degree <= min((len(task.candidates[name]) for name in components_of(plan)), default=1):
        raise ValueError(f"degree: {task.degree}; expected 1 to the number of candidates of each component")
    return task, plan
