"""Events of peers, of the links between them and of what they share; first those that tell of an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from synergy_nb.events.base import Event, Severity

__all__ = [
    "ClusterClosed",
    "ComponentMeasurements",
    "DataRefused",
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
    "PeerMeasured",
    "PeerRefutedDeath",
    "PeerSilent",
    "PeerStarted",
    "PeerTrouble",
    "RecordingStopped",
    "RouteDropped",
    "SparkDied",
    "SparkFailed",
    "SparkReady",
]


class PeerTrouble(Event, frozen=True, gc=False):
    """Base of the events that tell of an error of a peer.

    Such an error ends no application by itself. :mod:`synergy_nb.reporting.troubles` says each in a sentence, which the
    live view, the report, the command, ``explain()`` and the notices on the standard error show.
    """

    severity: ClassVar[Severity] = Severity.ERROR


class HandlerFailed(PeerTrouble, frozen=True, gc=False):
    """A protocol or the host raised an ``error``; the subject is the message or the call that it handled."""

    error: str


class MessageRefused(PeerTrouble, frozen=True, gc=False):
    """A message of the subject was refused, as it is unknown or malformed: its name or its fault, and the reason."""

    message: str
    reason: str


class RouteDropped(PeerTrouble, frozen=True, gc=False):
    """A message to a key, the subject, was dropped on its route: why, the limit, and the peer that it came from."""

    reason: str
    limit: int
    origin: str = ""


class LinkBroken(PeerTrouble, frozen=True, gc=False):
    """The link to a peer failed; what was queued or on its way is lost."""

    reason: str


class LinkRefused(PeerTrouble, frozen=True, gc=False):
    """A link with the subject was refused, here or there."""

    reason: str


class LinkOverflowed(PeerTrouble, frozen=True, gc=False):
    """Messages to the subject are dropped, as too many wait: bytes ``queued``, and the ``limit`` in bytes."""

    queued: int
    limit: int


class LinkResumed(PeerTrouble, frozen=True, gc=False):
    """Messages to the subject are taken again, after so many were ``dropped``."""

    severity: ClassVar[Severity] = Severity.WARNING

    dropped: int


class FrameRefused(PeerTrouble, frozen=True, gc=False):
    """Bytes that came from the subject were refused."""

    reason: str


class FrameUnhandled(PeerTrouble, frozen=True, gc=False):
    """What took a message or data from the subject raised an ``error``."""

    error: str


class RecordingStopped(PeerTrouble, frozen=True, gc=False):
    """The subject, a peer, cannot write its recording any more, for a ``reason``; it goes on without."""

    reason: str


class DataRefused(PeerTrouble, frozen=True, gc=False):
    """A frame of a stream that came from the subject was refused."""

    reason: str


class SparkDied(PeerTrouble, frozen=True, gc=False):
    """The Spark server died and is started again; ``cause`` is its last word."""

    cause: str


class SparkFailed(PeerTrouble, frozen=True, gc=False):
    """There is no Spark server, or no longer one."""

    cause: str


class SparkReady(Event, frozen=True, gc=False):
    """A Spark server takes sessions at ``url``, for the first time or again."""

    severity: ClassVar[Severity] = Severity.DETAIL

    url: str


class MessageOutdated(Event, frozen=True, gc=False):
    """A message about the subject came too late, as messages may, and was refused: its name, its sender, and why."""

    severity: ClassVar[Severity] = Severity.DETAIL

    message: str
    sender: str
    reason: str


class LinkClosed(Event, frozen=True, gc=False):
    """The link to the subject ended as links do: to a client that has gone, or replaced by a new link."""

    severity: ClassVar[Severity] = Severity.DETAIL

    reason: str


class PeerStarted(Event, frozen=True, gc=False):
    """The subject, a peer that people call ``name``, has started."""

    name: str


class PeerDeclaredDead(Event, frozen=True, gc=False):
    """The subject does not answer and counts as dead in this ``incarnation``."""

    severity: ClassVar[Severity] = Severity.WARNING

    incarnation: int


class PeerRefutedDeath(Event, frozen=True, gc=False):
    """The subject was taken for dead in this ``incarnation``, and lives."""

    incarnation: int


class PeerSilent(Event, frozen=True, gc=False):
    """The subject does not answer whoever follows the cluster."""

    severity: ClassVar[Severity] = Severity.WARNING

    reason: str


class PeerAnswers(Event, frozen=True, gc=False):
    """The subject answers again."""


class ClusterClosed(Event, frozen=True, gc=False):
    """Whoever followed the cluster has closed it."""


class LinkMeasured(Event, frozen=True, gc=False):
    """The link from the subject to this peer carries another ``bandwidth`` than it seemed to, by its own traffic.

    Both are in bytes/s, ``bandwidth`` as measured and ``configured``.
    """

    severity: ClassVar[Severity] = Severity.DETAIL

    bandwidth: float
    configured: float


class ComponentMeasurements(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a peer measured of one component, as :meth:`ComponentMetrics.measurements` names it.

    Seconds, bytes, tuples/s and cores; ``memory_share`` is the most bytes that it may hold, None: no limit. ``late``
    counts tuples that came after a punctuation that had excluded them, ``dropped`` those that were dropped as their
    deadline had passed.
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


class PeerMeasured(Event, frozen=True, gc=False):
    """What a peer measured of itself: ``cpu`` in cores since the event before, and resident ``memory`` in bytes.

    ``cores`` is what the peer gives, ``promised`` the share of these that is promised. ``components`` is what it
    measured of each component that is at work.
    """

    cpu: float
    memory: int
    cores: float
    promised: float
    components: Sequence[ComponentMeasurements]
