"""The messages by which peers agree on a migration (section 3.4.4), and by which they have the origin carry it out."""

from __future__ import annotations

import msgspec

from synergy_nb.control.peer import Message
from synergy_nb.lifecycle.records.messages import Graph

__all__ = [
    "Departure",
    "HopMeasured",
    "MeasureHop",
    "MigrationEndReported",
    "MigrationReply",
    "MigrationRequest",
    "NoTargetFound",
    "Relocate",
]


class Departure(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A component that is to leave the sender, with all that a target needs for its projection."""

    graph: Graph  # component graph of the application, with its plan and all peers
    operator: str
    rate: float  # predicted input rate r̂, tuples/s
    work: float  # work of a tuple: its processing time τ at a peer of speed 1, seconds
    # intercept, slope: line of the execution time of the sender, as it would be at speed 1: a in seconds, b in seconds
    # per tuple/s; a negative slope: no line is trusted
    intercept: float
    slope: float
    age: float  # mean age of tuples on arrival at the sender, seconds
    # greatest age at which a tuple may leave the sender, seconds; infinite if no application limits it
    departure_limit: float
    # address of each peer upstream and downstream to the mean communication time between it and the sender, seconds
    hops: dict[str, float]
    limit: float  # least delay limit q_t of the applications that use the component, seconds; infinite if none has one
    # earlier moves of the component: the time since each in seconds, and the address of the peer that it left
    moves: tuple[tuple[float, str], ...] = ()
    processor: float = 1.0  # speed of the sender's processor, in which the work and the line are stated

    @property
    def name(self) -> str:
        """Name of the component: application/operator."""
        return f"{self.graph.application}/{self.operator}"


class MigrationRequest(Message, frozen=True):
    """Phase 1: the sender asks whether the receiver can execute a component."""

    number: int  # number of the question at the sender
    departure: Departure
    # whether the move begins meanwhile, so that the receiver follows the component as soon as it has accepted it
    moving: bool = False

    @property
    def application(self) -> str:
        """Id of the component's application."""
        return self.departure.graph.application


class MigrationReply(Message, frozen=True):
    """Phase 3: the receiver of a request accepts (empty ``refusal``) and has reserved capacity, or it refuses."""

    number: int
    refusal: str = ""


class Relocate(Message, frozen=True):
    """The sender asks the origin to have a component moved to the peer ``to``."""

    number: int  # number of the sender's request to the target, or a later one
    # application, attempt, operator: id of the application, number of the attempt to set it up, and operator of the
    # component
    application: str
    attempt: int
    operator: str
    to: str  # address of the target
    # whether the target has not answered the request of that number yet: the move begins nevertheless, and goes on only
    # if the target accepts
    unanswered: bool = False


class MigrationEndReported(Message, frozen=True):
    """The answer to :class:`Relocate`: the component has moved, or it has not, for the reason ``failure``.

    ``pending``: the move has begun, and a second answer follows.
    """

    number: int
    failure: str = ""
    pending: bool = False


class NoTargetFound(Message, frozen=True):
    """A report to the origin: the sender executes a component that exceeds its processing time, and finds no target."""

    application: str
    attempt: int
    operator: str


class MeasureHop(Message, frozen=True):
    """A question for the round-trip time, answered at once by :class:`HopMeasured`."""

    number: int


class HopMeasured(Message, frozen=True):
    """The answer to :class:`MeasureHop`."""

    number: int
