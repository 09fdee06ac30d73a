"""Events of applications that are set up or run: sessions, components, take-overs, moves, and what sinks measure.

The subject of each is the application.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from synergy_nb.events.application_states import Status
from synergy_nb.events.base import RequestEvent, Severity

__all__ = [
    "ENDINGS",
    "ApplicationEnded",
    "ApplicationFailed",
    "ApplicationFinished",
    "ApplicationRejected",
    "ApplicationRunning",
    "ApplicationStopped",
    "ComponentDeployed",
    "ComponentFailed",
    "ComponentMoved",
    "ComponentTakenOver",
    "ComponentUndeployed",
    "CopiesBehind",
    "LateRows",
    "MoveBegun",
    "MoveGivenUp",
    "OperatorFailed",
    "PartPrepared",
    "SessionExpired",
    "SessionLeft",
    "SetupFailed",
    "SharedStreamMoved",
    "SinkFinished",
    "SinkMeasured",
    "SourceStarted",
    "TakenOver",
    "TakeoverBegun",
]

Use = tuple[str, str, str]  # application, operator and peer address of a component that makes a shared stream


# -- life of an application ------------------------------------------------------------------------------------------


class ApplicationRunning(RequestEvent, frozen=True, gc=False):
    """It runs: component graph λ, operator to peer address.

    Parameters
    ----------
    peers
        Operator to the address of its peer.
    shared
        Operator whose stream ran already to the application and operator that give it.
    uses
        The same operator to all components that make its stream.
    """

    peers: Mapping[str, str]
    shared: Mapping[str, Sequence[str]] = {}
    uses: Mapping[str, Sequence[Use]] = {}


class ApplicationEnded(RequestEvent, frozen=True, gc=False):
    """Base of the four ends of an application; ``reason`` is empty where there is nothing to explain."""

    status: ClassVar[Status]

    reason: str = ""


class ApplicationFinished(ApplicationEnded, frozen=True, gc=False):
    """Its sources and sinks have reached their end."""

    status: ClassVar[Status] = Status.FINISHED


class ApplicationStopped(ApplicationEnded, frozen=True, gc=False):
    """Its user stopped it."""

    status: ClassVar[Status] = Status.STOPPED


class ApplicationFailed(ApplicationEnded, frozen=True, gc=False):
    """It cannot go on."""

    status: ClassVar[Status] = Status.FAILED
    severity: ClassVar[Severity] = Severity.ERROR


class ApplicationRejected(ApplicationEnded, frozen=True, gc=False):
    """It was not admitted."""

    status: ClassVar[Status] = Status.REJECTED
    severity: ClassVar[Severity] = Severity.WARNING


#: Status with which an application ends to the event that says so.
ENDINGS: Final[Mapping[Status, type[ApplicationEnded]]] = {
    each.status: each for each in (ApplicationFinished, ApplicationStopped, ApplicationFailed, ApplicationRejected)
}


class SetupFailed(RequestEvent, frozen=True, gc=False):
    """The graph of an attempt could not be set up."""

    severity: ClassVar[Severity] = Severity.WARNING

    attempt: int
    reason: str


class SessionExpired(RequestEvent, frozen=True, gc=False):
    """A peer of the application gave its part up, as it has not heard of the ``origin`` for too long."""

    severity: ClassVar[Severity] = Severity.WARNING

    origin: str


class SessionLeft(RequestEvent, frozen=True, gc=False):
    """A peer gave back all that it held for the application."""

    severity: ClassVar[Severity] = Severity.DETAIL

    reason: str


# -- components ------------------------------------------------------------------------------------------------------


class ComponentDeployed(RequestEvent, frozen=True, gc=False):
    """The peer executes a component, by this scheduling ``discipline``, or has a backup of it."""

    operator: str
    discipline: str = "fcfs"


class ComponentUndeployed(RequestEvent, frozen=True, gc=False):
    """The peer has given a component up."""

    operator: str


class ComponentTakenOver(RequestEvent, frozen=True, gc=False):
    """A component that took another's place has caught up and goes on freely."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str


class OperatorFailed(RequestEvent, frozen=True, gc=False):
    """What an operator executes raised an error, says the host of the peer."""

    severity: ClassVar[Severity] = Severity.ERROR

    operator: str
    reason: str


class ComponentFailed(RequestEvent, frozen=True, gc=False):
    """A component cannot go on, says the session of the peer, and tells the origins of all that use it."""

    severity: ClassVar[Severity] = Severity.ERROR

    operator: str
    reason: str


class PartPrepared(RequestEvent, frozen=True, gc=False):
    """A part on Spark is ready to take rows."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str


class SourceStarted(RequestEvent, frozen=True, gc=False):
    """A source gives its first rows."""

    operator: str


class SinkFinished(RequestEvent, frozen=True, gc=False):
    """The end of the stream has reached a sink."""

    operator: str


class LateRows(RequestEvent, frozen=True, gc=False):
    """Rows that a client pushed too late, behind the watermark of its source, were dropped: so many until now."""

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    dropped: int


class SinkMeasured(RequestEvent, frozen=True, gc=False):
    """Quality of service at a sink since the last measurement.

    Parameters
    ----------
    operator
        Id of the sink.
    delay_p50_s, delay_p95_s, delay_p99_s, delay_mean_s, delay_max_s
        Delays of the tuples that arrived, in seconds; None if none did.
    miss_rate
        Share of the tuples that came later than the limit, or were dropped on their way as their deadline had passed;
        None without a limit or tuples.
    limit_s
        Limit of the delay in seconds, or None.
    tuples_per_s, bytes_per_s
        Tuples and bytes that arrived per second.
    tuples
        Number of tuples since the sink began.
    finished
        Whether the end of the stream has arrived.
    dropped
        Operator to the number of tuples that it has dropped since the application began, as their deadline had passed.
    lost
        Number of results that these would have become at this sink, as others like them have.
    """

    operator: str
    delay_p50_s: float | None
    delay_p95_s: float | None
    delay_p99_s: float | None
    delay_mean_s: float | None
    delay_max_s: float | None
    miss_rate: float | None
    limit_s: float | None
    tuples_per_s: float
    bytes_per_s: float
    tuples: int
    finished: bool
    dropped: Mapping[str, int] = {}
    lost: float = 0.0


# -- take-overs and moves --------------------------------------------------------------------------------------------


class TakeoverBegun(RequestEvent, frozen=True, gc=False):
    """A peer has died: its address, operator to the backup that is to take over, and the ``epoch`` that begins."""

    severity: ClassVar[Severity] = Severity.WARNING

    dead: str
    operators: Mapping[str, str]
    epoch: int


class TakenOver(RequestEvent, frozen=True, gc=False):
    """All backups have taken over: component graph λ and replication graph ρ as they are in this ``epoch``."""

    peers: Mapping[str, str]
    backups: Mapping[str, Sequence[str]]
    epoch: int


class CopiesBehind(RequestEvent, frozen=True, gc=False):
    """Copies of a component could not take over at the moment: ``peers`` and why each could not; none: all could again.

    Of the ``asked`` replicas ``left`` could go on, the one at work among them.
    """

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    asked: int
    left: int
    peers: Mapping[str, str]


class MoveBegun(RequestEvent, frozen=True, gc=False):
    """A component begins to move from the peer ``at`` to the peer ``to``."""

    operator: str
    at: str
    to: str
    epoch: int


class ComponentMoved(RequestEvent, frozen=True, gc=False):
    """A component has moved from the peer ``at`` to the peer ``to`` in so many ``seconds``; λ is now ``peers``."""

    operator: str
    at: str
    to: str
    seconds: float
    peers: Mapping[str, str]


class SharedStreamMoved(RequestEvent, frozen=True, gc=False):
    """A component of another application, ``of``, whose stream this one shares, is at ``to`` now and no longer ``at``.

    ``peers`` is λ of this application, and ``uses`` as of :class:`ApplicationRunning`.
    """

    operator: str
    of: str
    at: str
    to: str
    peers: Mapping[str, str]
    uses: Mapping[str, Sequence[Use]]


class MoveGivenUp(RequestEvent, frozen=True, gc=False):
    """A component did not move to the peer ``to``, and stays where it is."""

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    to: str
    reason: str
