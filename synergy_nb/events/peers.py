"""Events of peers, of their links and of their measurements; first the errors of peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import msgspec

from synergy_nb.events.base import Event, Severity

__all__ = [
    "REFUSED",
    "ClusterClosed",
    "ComponentMeasurements",
    "DataRefused",
    "FloodShed",
    "FolderBroken",
    "FrameRefused",
    "FrameUnhandled",
    "HandlerFailed",
    "LinkBroken",
    "LinkClosed",
    "LinkMeasured",
    "LinkOverflowed",
    "LinkRefused",
    "LinkResumed",
    "MessageOutdated",
    "MessageRefused",
    "PeerAnswers",
    "PeerDeclaredDead",
    "PeerDistrusted",
    "PeerJoined",
    "PeerLeft",
    "PeerMeasured",
    "PeerRefutedDeath",
    "PeerSilent",
    "PeerStarted",
    "PeerTrouble",
    "RecordingStopped",
    "RouteDropped",
    "SenderRefused",
    "SparkDied",
    "SparkFailed",
    "SparkReady",
]

REFUSED: Final = "no process listens there"  # why a link failed whose other end has ended


class PeerTrouble(Event, frozen=True, gc=False):
    """Base of the events of an error of a peer.

    Such an error alone ends no application. :mod:`synergy_nb.reporting.troubles` describes each in a sentence for the
    live view, the report, the command, ``explain()`` and the notices on standard error.
    """

    severity: ClassVar[Severity] = Severity.ERROR


class HandlerFailed(PeerTrouble, frozen=True, gc=False):
    """A protocol or the host raised an ``error``; the subject is the message or the call that it handled."""

    error: str


class MessageRefused(PeerTrouble, frozen=True, gc=False):
    """A message of the subject was refused, as it is unknown or malformed, or not the subject's to send.

    It has its name or its error, and the reason.
    """

    message: str
    reason: str


class SenderRefused(PeerTrouble, frozen=True, gc=False):
    """The subject sent or asked for what only other roles may; noted at its 1st, 2nd, 4th, 8th ... time."""

    what: str  # message, operation or channel
    expected: str  # roles that may
    times: int


class PeerDistrusted(PeerTrouble, frozen=True, gc=False):
    """The subject has broken promises to applications of this peer, no fewer than it has kept: it is chosen last."""

    broken: int
    kept: int


class RouteDropped(PeerTrouble, frozen=True, gc=False):
    """A message to a key, the subject, was dropped on its route: the reason, the limit, and the previous peer."""

    reason: str
    limit: int
    origin: str = ""


class FloodShed(PeerTrouble, frozen=True, gc=False):
    """Of the subject, ``what`` was shed: so many since the last such event, as they exceed its ``limit``."""

    severity: ClassVar[Severity] = Severity.WARNING

    what: str
    shed: int
    limit: str


class LinkBroken(PeerTrouble, frozen=True, gc=False):
    """The link to a peer failed; its queued messages, and those in transit, are lost."""

    reason: str

    @property
    def refused(self) -> bool:
        """Whether the peer's process has ended."""
        return self.reason == REFUSED


class LinkRefused(PeerTrouble, frozen=True, gc=False):
    """One of both ends refused a link with the subject."""

    reason: str


class LinkOverflowed(PeerTrouble, frozen=True, gc=False):
    """Messages to the subject are dropped, as the queue is full: ``queued`` bytes, and the ``limit`` in bytes."""

    queued: int
    limit: int


class LinkResumed(PeerTrouble, frozen=True, gc=False):
    """Messages to the subject are accepted again, after ``dropped`` messages were dropped."""

    severity: ClassVar[Severity] = Severity.WARNING

    dropped: int


class FrameRefused(PeerTrouble, frozen=True, gc=False):
    """Received bytes of the subject were refused."""

    reason: str


class FrameUnhandled(PeerTrouble, frozen=True, gc=False):
    """The handler of a message or of data from the subject raised an ``error``."""

    error: str


class RecordingStopped(PeerTrouble, frozen=True, gc=False):
    """The subject, a peer, cannot write its recording any more, for a ``reason``; it goes on without."""

    reason: str


class FolderBroken(PeerTrouble, frozen=True, gc=False):
    """The durable folder takes nothing at present: what is to be written is tried again after a wait."""

    severity: ClassVar[Severity] = Severity.WARNING

    reason: str  # what was tried, and what came of it
    tries: int  # number of tries since it broke, this one included
    wait_s: float  # time until the next try, seconds


class DataRefused(PeerTrouble, frozen=True, gc=False):
    """A received frame of a stream from the subject was refused."""

    reason: str


class SparkDied(PeerTrouble, frozen=True, gc=False):
    """The Spark server died and is restarted; ``cause`` is its last output."""

    cause: str


class SparkFailed(PeerTrouble, frozen=True, gc=False):
    """No Spark server is available, or it is no longer available."""

    cause: str


class SparkReady(Event, frozen=True, gc=False):
    """A Spark server accepts sessions at ``url``, for the first time or again."""

    severity: ClassVar[Severity] = Severity.DETAIL

    url: str


class MessageOutdated(Event, frozen=True, gc=False):
    """A message about the subject arrived too late and was refused: its name, its sender, and the reason."""

    severity: ClassVar[Severity] = Severity.DETAIL

    message: str
    sender: str
    reason: str


class LinkClosed(Event, frozen=True, gc=False):
    """The link to the subject ended regularly: the client has disconnected, or a new link replaced it."""

    severity: ClassVar[Severity] = Severity.DETAIL

    reason: str


class PeerStarted(Event, frozen=True, gc=False):
    """The subject, a peer with the readable ``name``, has started."""

    name: str


class PeerJoined(Event, frozen=True, gc=False):
    """The subject has joined the ring through the peer ``contact``; empty: it has begun a ring."""

    contact: str


class PeerLeft(Event, frozen=True, gc=False):
    """The subject leaves the ring, and has announced that to the others."""


class PeerDeclaredDead(Event, frozen=True, gc=False):
    """The subject does not answer and counts as dead in this ``incarnation``."""

    severity: ClassVar[Severity] = Severity.WARNING

    incarnation: int


class PeerRefutedDeath(Event, frozen=True, gc=False):
    """The subject was declared dead in this ``incarnation``, but is alive."""

    incarnation: int


class PeerSilent(Event, frozen=True, gc=False):
    """The subject does not answer the client that follows the cluster."""

    severity: ClassVar[Severity] = Severity.WARNING

    reason: str


class PeerAnswers(Event, frozen=True, gc=False):
    """The subject answers again."""


class ClusterClosed(Event, frozen=True, gc=False):
    """The client that followed the cluster has closed it."""


class LinkMeasured(Event, frozen=True, gc=False):
    """The link from the subject to this peer carries another ``bandwidth`` than it seemed to, by its own traffic.

    Both are in bytes/s, ``bandwidth`` as measured and ``configured``.
    """

    severity: ClassVar[Severity] = Severity.DETAIL

    bandwidth: float
    configured: float


class ComponentMeasurements(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Measurements of one component by its peer, with the names of :meth:`ComponentMetrics.measurements`.

    Units are seconds, bytes, tuples/s and cores. ``memory_share`` is the limit of its memory, None: no limit. ``late``
    counts tuples behind a punctuation that excluded them, ``dropped`` those that were dropped because their deadline
    had passed. ``slack`` is that of the last tuple (equation 3.1), ``predicted_s`` the predicted execution time t_e,
    ``measured_s`` the last one that was measured, and ``predicted_rate`` the predicted input rate of the present
    second; each is None where it is not computed. ``prediction_off`` is how many times as long as predicted execution
    times are, where they are not as predicted (:class:`~synergy_nb.models.execution_times.Deviations`). ``firsts``
    has the active replicas that feed it, with the number of tuples that each delivered first since it began.
    """

    application: str
    operator: str
    kind: str
    rate: float
    output_rate: float
    load: float
    processing_s: float
    queueing_s: float
    queue_tuples: int
    memory_bytes: int
    memory_share: float | None
    late: int
    dropped: int = 0
    slack: float | None = None
    predicted_s: float | None = None
    predicted_rate: float | None = None
    firsts: Mapping[str, int] = {}
    measured_s: float | None = None
    prediction_off: float | None = None


class PeerMeasured(Event, frozen=True, gc=False):
    """Measurements of a peer: ``cpu`` in cores since the previous event, and resident ``memory`` in bytes.

    ``cores`` is the capacity that the peer offers, ``promised`` the committed share of it. ``components`` holds the
    measurements of each component that executes. ``predicted_load`` is the predicted load as a share of that capacity,
    with the work that waits; None where none is predicted.
    """

    cpu: float
    memory: int
    cores: float
    promised: float
    components: Sequence[ComponentMeasurements]
    predicted_load: float | None = None
