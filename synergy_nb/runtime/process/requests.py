"""The requests of clients to peers, and the answers: typed values, which are MessagePack on the link."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from synergy_nb.control.cuts import Cut
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.streams.log.values import ORIGIN
from synergy_nb.events import SkippedLines
from synergy_nb.reporting.cluster_errors import (
    AccessRevoked,
    ClosedClusterError,
    ClusterError,
    NotAdmitted,
    PeerUnreachable,
)

__all__ = [
    "HERE",
    "AccessRevoked",
    "ApplicationId",
    "ApplicationState",
    "AwaitCopies",
    "ChangeCost",
    "ChangeLink",
    "ChangeLoad",
    "ChangePace",
    "ClosedClusterError",
    "ClusterError",
    "ContentPiece",
    "ContentsFound",
    "Fetch",
    "FetchContent",
    "FetchedResults",
    "FindContents",
    "FindHosts",
    "FollowJournal",
    "GrantRight",
    "HoldSources",
    "HostsFound",
    "JoinCommand",
    "Joined",
    "JournalPart",
    "ListApplications",
    "Listed",
    "MeasureDelays",
    "Newcomer",
    "NotAdmitted",
    "PeerUnreachable",
    "PreparedSinks",
    "Push",
    "Pushed",
    "ReplacePlan",
    "Replacing",
    "RowsDropped",
    "SendContent",
    "SinksMeasured",
    "SparkState",
    "SparkStatus",
    "Submit",
    "Submitted",
    "pack",
    "unpack",
]

T = TypeVar("T")


class JoinCommand(msgspec.Struct, frozen=True):
    """Join the ring through ``contact``; None starts a new ring."""

    contact: str | None


class Joined(msgspec.Struct, frozen=True):
    """The peer is in the ring, and the directory has confirmed the components that it offers."""

    offers: list[str]


class Newcomer(msgspec.Struct, frozen=True):
    """A peer that has joined the ring through another one, which tells its clients."""

    name: str
    address: str


class FindContents(msgspec.Struct, frozen=True):
    """Ask a peer which contents it has, and offer their components; answered by :class:`ContentsFound`.

    ``contents`` maps the component that needs a content to the terms of its table, or to nothing for a function.
    """

    contents: dict[str, dict[str, Any]]


class ContentsFound(msgspec.Struct, frozen=True):
    """The directory has confirmed the components of all contents that the peer has."""

    machine: str  # whose peers share tables
    lacking: tuple[str, ...] = ()  # components whose contents it would take
    refused: dict[str, str] = {}  # component to the reason why the peer does not accept its content


class ContentPiece(msgspec.Struct, frozen=True):
    """A piece of the content of a component, ``size`` bytes in all, after ``start`` bytes."""

    component: str
    start: int
    size: int
    data: bytes


class SendContent(msgspec.Struct, frozen=True):
    """Receive a piece of a content; have the content once all of it is there. Answered by nothing."""

    transfer: str  # id of the client that sends it, as several of one user may send the same content
    piece: ContentPiece


class FetchContent(msgspec.Struct, frozen=True):
    """Ask a peer for a piece of the content of a component; answered by :class:`ContentPiece`."""

    component: str
    start: int


class Submit(msgspec.Struct, frozen=True):
    """Start ``application`` from ``plan`` (``Plan.to_bytes()``), placed by ``placement``; a ``trial`` never starts.

    It ends when its client has not renewed its ``lease`` for so many seconds; with 0 it goes on without its client.
    With an ``epoch`` it goes on from what the durable folder has of an application of that id. All of it is made of
    the streams of the application ``beside`` of this peer, if that is stated.
    """

    application: str
    plan: bytes
    placement: str = "composed"
    trial: bool = False
    lease: float = 0.0
    epoch: int = 0
    beside: str = ""


class RenewLeases(msgspec.Struct, frozen=True):
    """The client that submitted these applications at this peer lives."""

    applications: list[str]


class MeasureDelays(msgspec.Struct, frozen=True):
    """Ask a peer for its delays to others; answered by address to seconds of a round trip."""

    addresses: list[str]


class ApplicationId(msgspec.Struct, frozen=True):
    """A request about the application with this id."""

    application: str


class ApplicationState(msgspec.Struct, frozen=True):
    """The state of an application as its origin knows it."""

    application: str
    status: str
    reason: str = ""
    roles: Roles = Roles()  # peers that execute each operator; empty before it runs
    setup: float = 0.0  # seconds from submission to the start of the sources; 0 before
    # sink to its last measurements (`delay_p50_s`, `delay_p99_s`, `miss_rate`, ...)
    qos: dict[str, dict[str, Any]] = {}
    late: dict[str, int] = {}  # source to the number of rows that it has dropped so far because they were late
    skipped: dict[str, SkippedLines] = {}  # source to the malformed lines of its trace that it skips
    # whether it has parts on Spark, which take longer to start; a server may have to be started first
    needs_spark: bool = False
    durable: bool = False  # whether it goes on from a durable folder


class GrantRight(msgspec.Struct, frozen=True):
    """Grant a user a right to an application of this peer; None withdraws what was granted. Answered by nothing."""

    application: str
    user: str
    right: str | None


class SinksMeasured(msgspec.Struct, frozen=True):
    """Sinks of an application at a peer, each with its last measurements; the origin has those at its own peer."""

    qos: dict[str, dict[str, Any]]


class ListApplications(msgspec.Struct, frozen=True):
    """Ask a peer for the applications that were submitted there; answered by :class:`Listed`.

    ``plans`` holds the ids of applications whose plans the client has already.
    """

    plans: list[str] = []


class Submitted(msgspec.Struct, frozen=True):
    """An application in the answer of its origin."""

    state: ApplicationState
    plan: bytes  # submitted plan, as `Plan.to_bytes()`; empty where the client has it already
    since: float  # wall-clock seconds at which it was submitted


class Listed(msgspec.Struct, frozen=True):
    """Applications that were submitted at a peer, in the order of submission."""

    applications: list[Submitted]


class SparkStatus(StrEnum):
    """The status of a Spark server, as far as it is known."""

    UNKNOWN = "unknown"
    READY = "ready"
    DIED = "died"  # it is being restarted, and will accept sessions at the same address
    FAILED = "failed"


class SparkState(msgspec.Struct, frozen=True):
    """A change of the Spark server that peers share, with a ``detail`` of why it died or failed.

    ``url``, ``token`` and ``folder`` say where it accepts sessions, and where checkpoints are; empty if it does not.
    """

    status: SparkStatus
    detail: str = ""
    url: str = ""
    token: str = ""
    folder: str = ""


class Move(msgspec.Struct, frozen=True):
    """Move a running component of an application to the peer with this address; answered by :class:`Outcome`."""

    application: str
    operator: str
    to: str


class ChangeLink(msgspec.Struct, frozen=True):
    """Cut the link to the peer at an ``address``, or mend it if ``cut`` is None."""

    address: str
    cut: Cut | None


class ChangeLoad(msgspec.Struct, frozen=True):
    """Be busy with other work for a ``share`` of the time."""

    share: float


HERE: Final = b"here"  # answer of a peer to a change of a cost or a pace: it executes the operator


class ChangeCost(msgspec.Struct, frozen=True):
    """Have a ``delay`` of an application take so many ``seconds`` a tuple from now on."""

    application: str
    operator: str
    seconds: float


class ChangePace(msgspec.Struct, frozen=True):
    """Read a source of an application at a ``factor`` of its own pace from now on."""

    application: str
    source: str
    factor: float


class ChangeSinks(msgspec.Struct, frozen=True):
    """Withhold rows of an application after an event time (``at``, in µs) from its destinations, for a minute.

    When it ends meanwhile, the application ``new`` goes on there with its own. Answered by :class:`SinksHeld`.
    """

    application: str
    new: str
    at: int


class SinksHeld(msgspec.Struct, frozen=True):
    """What the destinations of an application have at a peer."""

    latest: int  # event time of the latest row in them, in µs: if it is after the one that was stated, nothing is held


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a request."""

    reason: str  # reason why the request was not carried out; empty if it was
    begun: bool = True  # whether it was attempted


class Fetch(msgspec.Struct, frozen=True):
    """Fetch results from a sink; wait up to ``wait`` seconds for the first."""

    # application, sink: id of the application and operator id of its sink
    application: str
    sink: str
    # point up to which the reader has everything: position and event time in µs, as in the `end` of the previous
    # answer. None: it has nothing yet. Asked again from the same point, the peer sends the same results again
    since: tuple[int, int] | None
    max_bytes: int = 8 << 20  # limit of the results, bytes, but at least one item if there is any
    wait: float = 1.0  # longest time to wait while there is nothing, seconds
    reader: str = ""  # name that distinguishes the readers of one sink, each of which has its own place in the results
    # number of rows: the last ones that are retained are returned, and nobody's place changes; with `since`, only those
    # after it. 0: read on
    last: int = 0
    # with `last`: times between which rows came to the sink, seconds, as far as its measurements tell them apart; the
    # first of these rows are returned, however old they are
    between: tuple[float, float] | None = None


class FetchedResults(msgspec.Struct, frozen=True):
    """Results of a sink."""

    items: list[bytes]  # encoded items, in order
    # start, end: points between which they are. The first is after that of the request if the rest is not retained any
    # more
    start: tuple[int, int]
    end: tuple[int, int]
    finished: bool  # whether nothing follows
    gone: bool = False  # whether there is no such sink any more
    missed: int = 0  # number of tuples between the point of the request and `start`, which are not retained any more


class Push(msgspec.Struct, frozen=True):
    """Tuples for the ``python`` source with this name on the receiving peer; answered by :class:`Pushed`."""

    application: str
    name: str
    item: bytes  # encoded batch or punctuation
    # point of the stream at which the item begins: position and event time in µs of the last promise before it
    start: tuple[int, int] = ORIGIN
    age: float = 0.0  # seconds since the client first sent the item, to this peer or to one that this one replaces


class AwaitCopies(msgspec.Struct, frozen=True):
    """Wait until all copies of a ``python`` source have more than up to a point; answered by :class:`Pushed`.

    A peer whose source is not of this ``epoch`` answers at once, as the client does not know what it has.
    """

    application: str
    name: str
    epoch: int
    beyond: tuple[int, int]


class Pushed(msgspec.Struct, frozen=True):
    """The progress of a ``python`` source; if it has not advanced, it was full, or waited for copies, for a while."""

    epoch: int  # number of earlier peers of the source
    end: tuple[int, int]  # point up to which this peer has what was pushed: position and event time in µs
    copied: tuple[int, int]  # point up to which all copies of the source have it
    gone: bool = False  # whether the peer has no such source, or not any more


class HoldSources(msgspec.Struct, frozen=True):
    """Pause an application of this peer (``on``), or resume it; answered by an :class:`Outcome`."""

    application: str
    on: bool


class ReplacePlan(msgspec.Struct, frozen=True):
    """Take a step of a change of the plan of a durable application of this peer; answered by :class:`Replacing`.

    ``step``: ``begin``, with the new ``plan`` (``Plan.to_bytes()``); ``ask``: it is still wanted; ``finish``, once its
    sinks are ready for the new plan; ``give up``.
    """

    application: str
    step: str
    plan: bytes = b""


class Replacing(msgspec.Struct, frozen=True):
    """What an application executes after a step of the change of its plan (``plan``), or why that is not possible."""

    reason: str
    plan: bytes = b""


class PreparedSinks(msgspec.Struct, frozen=True):
    """Ask whether another plan may go on from the sinks of an application here; answered by an :class:`Outcome`.

    ``complete``: event time from which the rows of that plan are complete, in µs; None: not known yet.
    """

    application: str
    complete: int | None = None


class RowsDropped(msgspec.Struct, frozen=True):
    """A report to an origin: the number of rows for a source that were dropped so far because they were late."""

    application: str
    source: str
    rows: int


class FindHosts(msgspec.Struct, frozen=True):
    """Ask the directory for the hosts of components and streams; answered by :class:`HostsFound`."""

    names: list[str]


class HostsFound(msgspec.Struct, frozen=True):
    """Name of a component or a stream to the addresses of its hosts."""

    hosts: dict[str, list[str]]


class FollowJournal(msgspec.Struct, frozen=True):
    """Ask for the events of a peer's journal from number ``since`` on; answered by :class:`JournalPart`.

    ``journal`` names the journal that the number belongs to, from an earlier answer; any other journal, such as that of
    a restarted peer, is read from its beginning.
    """

    journal: str = ""
    since: int = 0


class JournalPart(msgspec.Struct, frozen=True):
    """A part of a journal: the journal's name, the next number to ask for, and whether there is ``more`` already."""

    journal: str
    next: int
    more: bool
    events: msgspec.Raw  # as synergy_nb.events encodes them


def pack(value: msgspec.Struct) -> bytes:
    """Encode a request or an answer as MessagePack."""
    return msgspec.msgpack.encode(value)


def unpack(data: bytes, kind: type[T]) -> T:
    """Decode the value in ``data``; a ValueError names the field that is not as declared."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{kind.__name__}: {error}") from None
