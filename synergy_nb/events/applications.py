"""Events of applications in set-up or running: sessions, components, take-overs, moves, measurements of sinks.

The subject of each is the application.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import msgspec

from synergy_nb.events.application_states import Status
from synergy_nb.events.base import RequestEvent, Severity
from synergy_nb.plan.terms.units import counted

__all__ = [
    "ENDINGS",
    "ApplicationContinued",
    "ApplicationEnded",
    "ApplicationFailed",
    "ApplicationFinished",
    "ApplicationPaused",
    "ApplicationRejected",
    "ApplicationRestarted",
    "ApplicationRunning",
    "ApplicationStopped",
    "ComponentDeployed",
    "ComponentFailed",
    "ComponentMoved",
    "ComponentTakenOver",
    "ComponentUndeployed",
    "CopiesBehind",
    "DestinationBroken",
    "DestinationMended",
    "DestinationOpened",
    "HoldBegun",
    "HoldEnded",
    "LateRows",
    "LeadershipLost",
    "LinesSkipped",
    "MoveBegun",
    "MoveGivenUp",
    "MovePostponed",
    "OperatorFailed",
    "OriginSucceeded",
    "PartPrepared",
    "RestartBegun",
    "ResultsMissed",
    "SessionExpired",
    "SessionLeft",
    "SetupFailed",
    "SharedStreamMoved",
    "SinkFinished",
    "SinkMeasured",
    "SkippedLines",
    "SourceBroken",
    "SourceMended",
    "SourceRemarked",
    "SourceStarted",
    "SuccessionBegun",
    "TakenOver",
    "TakeoverBegun",
    "awaited_text",
]

Producer = tuple[str, str, str]  # application, operator and peer address of the producer of a shared stream


# -- life of an application ------------------------------------------------------------------------------------------


class ApplicationRunning(RequestEvent, frozen=True, gc=False):
    """The application runs on a component graph λ."""

    peers: Mapping[str, str]  # operator to the address of its peer
    # operator with a shared stream to the application and operator that provide it
    shared: Mapping[str, Sequence[str]] = {}
    producers: Mapping[str, Sequence[Producer]] = {}  # operator with a shared stream to all components that produce it


class ApplicationPaused(RequestEvent, frozen=True, gc=False):
    """The application waits for peers that are silent, and without which it cannot continue."""

    severity: ClassVar[Severity] = Severity.WARNING

    awaited: Mapping[str, Sequence[str]]  # address of each such peer to the components there
    patience: float  # time for which it waits before it ends, seconds


def awaited_text(awaited: Mapping[str, Sequence[str]]) -> str:
    """Describe what an application waits for: the address of each peer, and the components there.

    Examples
    --------
    >>> awaited_text({"a": ["f", "x"], "b": []})
    'waiting for peer a (f, x) and peer b'
    """
    peers = [
        f"peer {peer} ({', '.join(sorted(names))})" if names else f"peer {peer}" for peer, names in awaited.items()
    ]
    return f"waiting for {' and '.join(sorted(peers))}" if peers else ""


class HoldBegun(RequestEvent, frozen=True, gc=False):
    """A user has paused the application: its sources give no rows."""


class HoldEnded(RequestEvent, frozen=True, gc=False):
    """A user has resumed the application."""

    seconds: float  # time for which this peer knew it to be on hold


class ApplicationContinued(RequestEvent, frozen=True, gc=False):
    """The application continues after a pause of some seconds: what it ``awaited`` last answers again."""

    awaited: Mapping[str, Sequence[str]]
    seconds: float


class ApplicationEnded(RequestEvent, frozen=True, gc=False):
    """Base of the four events that end an application; ``reason`` may be empty."""

    status: ClassVar[Status]

    reason: str = ""


class ApplicationFinished(ApplicationEnded, frozen=True, gc=False):
    """The end of all streams has reached the sinks."""

    status: ClassVar[Status] = Status.FINISHED


class ApplicationStopped(ApplicationEnded, frozen=True, gc=False):
    """A user stopped the application."""

    status: ClassVar[Status] = Status.STOPPED


class ApplicationFailed(ApplicationEnded, frozen=True, gc=False):
    """The application cannot continue."""

    status: ClassVar[Status] = Status.FAILED
    severity: ClassVar[Severity] = Severity.ERROR


class ApplicationRejected(ApplicationEnded, frozen=True, gc=False):
    """The application was not admitted."""

    status: ClassVar[Status] = Status.REJECTED
    severity: ClassVar[Severity] = Severity.WARNING


#: Final status of an application to the type of its event.
ENDINGS: Final[Mapping[Status, type[ApplicationEnded]]] = {
    each.status: each for each in (ApplicationFinished, ApplicationStopped, ApplicationFailed, ApplicationRejected)
}


class SetupFailed(RequestEvent, frozen=True, gc=False):
    """The graph of an attempt could not be set up."""

    severity: ClassVar[Severity] = Severity.WARNING

    attempt: int
    reason: str


class SessionExpired(RequestEvent, frozen=True, gc=False):
    """A peer of the application undeployed its components, as the lease of the session with ``origin`` expired."""

    severity: ClassVar[Severity] = Severity.WARNING

    origin: str


class SuccessionBegun(RequestEvent, frozen=True, gc=False):
    """The successor of an application asks its peers to follow it, as the peer ``origin``, which leads it, has died."""

    severity: ClassVar[Severity] = Severity.WARNING

    origin: str
    epoch: int


class OriginSucceeded(RequestEvent, frozen=True, gc=False):
    """The peer leads the application from now on, instead of the peer ``origin``."""

    origin: str  # address of the peer that has led it
    epoch: int  # epoch of the first graph of the peer that leads it now
    peers: Mapping[str, str]  # operator to the address of its peer, as its members know it


class LeadershipLost(RequestEvent, frozen=True, gc=False):
    """The peer has learned that the peer ``to`` leads the application now, because it was taken for dead itself."""

    severity: ClassVar[Severity] = Severity.WARNING

    to: str
    epoch: int


class SessionLeft(RequestEvent, frozen=True, gc=False):
    """A peer released all resources of the application."""

    severity: ClassVar[Severity] = Severity.DETAIL

    reason: str


# -- components ------------------------------------------------------------------------------------------------------


class ComponentDeployed(RequestEvent, frozen=True, gc=False):
    """The peer executes a component, by this scheduling ``discipline``, or has a backup of it."""

    operator: str
    discipline: str = "fcfs"


class ComponentUndeployed(RequestEvent, frozen=True, gc=False):
    """The peer has removed a component."""

    operator: str


class ComponentTakenOver(RequestEvent, frozen=True, gc=False):
    """A component that replaced another one has caught up with it."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str


class OperatorFailed(RequestEvent, frozen=True, gc=False):
    """The code of an operator raised an error; the host of the peer reports it."""

    severity: ClassVar[Severity] = Severity.ERROR

    operator: str
    reason: str


class ComponentFailed(RequestEvent, frozen=True, gc=False):
    """A component cannot continue; the session of the peer reports it, and notifies the origins of its applications."""

    severity: ClassVar[Severity] = Severity.ERROR

    operator: str
    reason: str


class PartPrepared(RequestEvent, frozen=True, gc=False):
    """A part on Spark is ready for rows."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str


class SourceStarted(RequestEvent, frozen=True, gc=False):
    """A source emits its first rows."""

    operator: str


class SourceBroken(RequestEvent, frozen=True, gc=False):
    """A source cannot be read at present; it is opened again after a wait."""

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    reason: str  # what was tried, and what came of it
    tries: int  # number of tries since it broke, this one included
    wait_s: float  # time until the next try, seconds


class SourceMended(RequestEvent, frozen=True, gc=False):
    """A source that was broken is read again, after so many seconds."""

    operator: str
    seconds: float


class SourceRemarked(RequestEvent, frozen=True, gc=False):
    """A source says something about its rows, such as what is lost."""

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    text: str


class RestartBegun(RequestEvent, frozen=True, gc=False):
    """A peer has died that executed what has no backup: the application is composed anew."""

    severity: ClassVar[Severity] = Severity.WARNING

    reason: str


class ApplicationRestarted(RequestEvent, frozen=True, gc=False):
    """An application goes on from what its durable folder has of it, or from what its sources still have."""

    severity: ClassVar[Severity] = Severity.WARNING

    kept: bool  # whether a folder had its states and positions
    lost: Mapping[str, str]  # source to what of it is lost, in words; sources that can be read again are left out


class DestinationBroken(RequestEvent, frozen=True, gc=False):
    """The destination of a sink cannot be written to at present; it is opened again after a wait."""

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str  # id of the sink
    reason: str  # what was tried, and what came of it
    tries: int  # number of tries since it broke, this one included
    wait_s: float  # time until the next try, seconds


class DestinationMended(RequestEvent, frozen=True, gc=False):
    """A destination that was broken is written to again, after so many seconds."""

    operator: str  # id of the sink
    seconds: float


class DestinationOpened(RequestEvent, frozen=True, gc=False):
    """A sink has opened its destination ``to`` for the first time at its peer."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str  # id of the sink
    to: str
    # rows, repeated: number of rows of the stream that it has, and of those that come again and are not written
    rows: int
    repeated: int


class SinkFinished(RequestEvent, frozen=True, gc=False):
    """The end of the stream has reached a sink."""

    operator: str


class LateRows(RequestEvent, frozen=True, gc=False):
    """Rows that a client pushed behind the watermark of their source were dropped; ``rows`` is their number so far."""

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    dropped: int


class SkippedLines(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The malformed lines of a trace that its source skips, as few enough are, and its implausible times.

    Examples
    --------
    >>> print(SkippedLines("rows.csv", 2, "line 7: field 'v': 'x'; expected an integer"))
    2 malformed lines of rows.csv; the first: line 7: field 'v': 'x'; expected an integer
    """

    path: str
    count: int  # number of the lines in the whole trace, however often it is read
    first: str  # first of them: its number, its invalid field, the value and what was expected
    # sentence about an event time that is implausible, as its number seems to have another unit; empty: none is
    doubt: str = ""

    def __str__(self) -> str:
        skipped = f"{counted(self.count, 'malformed line')} of {self.path}; the first: {self.first}"
        return "; ".join(([skipped] if self.count else []) + ([f"{self.path}: {self.doubt}"] if self.doubt else []))

    @property
    def clause(self) -> str:
        """The same as a clause about the source: what it does, or what is wrong with its times."""
        return f"{'skips' if self.count else 'has implausible times in'} {self}"

    def heading(self, source: str) -> str:
        """Heading of the text in a list, for the name of the source."""
        return f"{'skipped by' if self.count else 'times of'} {source}"


class LinesSkipped(RequestEvent, frozen=True, gc=False):
    """A source skips malformed ``lines`` of its trace, or doubts its times.

    Of a source that it shares, ``operator`` names the owner.
    """

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    lines: SkippedLines


class ResultsMissed(RequestEvent, frozen=True, gc=False):
    """A reader of a sink came when its first ``rows`` results were not retained any more; its handle tells the user."""

    severity: ClassVar[Severity] = Severity.DETAIL

    operator: str
    rows: int


class SinkMeasured(RequestEvent, frozen=True, gc=False):
    """Quality of service at a sink since the last measurement."""

    operator: str  # id of the sink
    # delay_p50_s, delay_p95_s, delay_p99_s, delay_mean_s, delay_max_s: delays of the tuples that arrived, seconds; None
    # if none did
    delay_p50_s: float | None
    delay_p95_s: float | None
    delay_p99_s: float | None
    delay_mean_s: float | None
    delay_max_s: float | None
    # share of the tuples that arrived later than the limit, or were dropped because their deadline had passed; None
    # without a limit or tuples
    miss_rate: float | None
    limit_s: float | None  # limit of the delay in seconds, or None
    # tuples_per_s, bytes_per_s: tuples and bytes that arrived per second
    tuples_per_s: float
    bytes_per_s: float
    tuples: int  # number of tuples since the sink began
    finished: bool  # whether the end of the stream has arrived
    # operator to the number of tuples that it has dropped since the application began, as their deadline had passed
    dropped: Mapping[str, int] = {}
    lost: float = 0.0  # estimated number of results that the dropped tuples would have led to at this sink


# -- take-overs and moves --------------------------------------------------------------------------------------------


class TakeoverBegun(RequestEvent, frozen=True, gc=False):
    """A peer has died: its address, operator to the backup that will take over, and the new ``epoch``."""

    severity: ClassVar[Severity] = Severity.WARNING

    dead: str
    operators: Mapping[str, str]
    epoch: int


class TakenOver(RequestEvent, frozen=True, gc=False):
    """All backups have taken over: component graph λ and replication graph ρ of this ``epoch``."""

    peers: Mapping[str, str]
    backups: Mapping[str, Sequence[str]]
    epoch: int


class CopiesBehind(RequestEvent, frozen=True, gc=False):
    """Copies of a component cannot take over at present: ``peers`` maps each to the reason; empty if all can again.

    Of the ``degree`` replicas, ``left`` could continue, including the one that executes.
    """

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    degree: int
    left: int
    peers: Mapping[str, str]


class MovePostponed(RequestEvent, frozen=True, gc=False):
    """A component is to move to the peer ``to``, but waits until another change has ended: the ``reason``."""

    operator: str
    to: str
    reason: str


class MoveBegun(RequestEvent, frozen=True, gc=False):
    """A component begins to move from the peer ``at`` to the peer ``to``."""

    operator: str
    at: str
    to: str
    epoch: int


class ComponentMoved(RequestEvent, frozen=True, gc=False):
    """A component has moved from the peer ``at`` to the peer ``to`` in ``seconds``; λ is now ``peers``."""

    operator: str
    at: str
    to: str
    seconds: float
    peers: Mapping[str, str]


class SharedStreamMoved(RequestEvent, frozen=True, gc=False):
    """A component of the application ``of``, whose stream this application shares, has moved from ``at`` to ``to``.

    ``peers`` is λ of this application; ``producers`` has the meaning of :class:`ApplicationRunning`.
    """

    operator: str
    of: str
    at: str
    to: str
    peers: Mapping[str, str]
    producers: Mapping[str, Sequence[Producer]]


class MoveGivenUp(RequestEvent, frozen=True, gc=False):
    """A component did not move to the peer ``to``, and remains at its peer."""

    severity: ClassVar[Severity] = Severity.WARNING

    operator: str
    to: str
    reason: str
