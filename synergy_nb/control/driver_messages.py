"""The messages of a driver to its own peer: commands of users, and reports about the data path and the machine.

A driver never calls a protocol. It sends one of these messages, with :data:`~synergy_nb.control.peer.DRIVER` as sender.
So the only inputs of a peer are messages and the time, and a recorded run can be replayed. These messages are never
sent over a link: codecs of links do not know them, and a peer refuses them from any other sender.

A command has a ``number`` that the driver chooses. Unless it is 0, the peer answers with one instruction of that
number, :class:`Answer` or :class:`HostsLookedUp`.
"""

from __future__ import annotations

import msgspec

from synergy_nb.control.peer import DriverMessage
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.prediction_reports import PeerPrediction, SlackViolation
from synergy_nb.dataflow.streams.hosting.input_reports import StreamsMeasured
from synergy_nb.events import SkippedLines
from synergy_nb.models.signatures import Segment

__all__ = [
    "Answer",
    "AttemptOutdated",
    "BandwidthMeasured",
    "BandwidthsLimited",
    "ChangePlan",
    "CopiesLagging",
    "CopyReady",
    "CopyUnusable",
    "CoresAdvertised",
    "DelayMeasured",
    "DepartureLimits",
    "HostsLookedUp",
    "InputsReported",
    "JoinRing",
    "LeaseRenewed",
    "LeaveRing",
    "LinesMalformed",
    "LinkFailed",
    "LoadsMeasured",
    "LookUpHosts",
    "MeasuredLoad",
    "MoveComponent",
    "ObtainContents",
    "OfferComponents",
    "OperatorStopped",
    "OverheadsMeasured",
    "PartReady",
    "PlacementDecided",
    "PredictionsMade",
    "ProfileExpired",
    "ReaderStalled",
    "ReleaseResults",
    "ShareApplication",
    "SinksEnded",
    "SlackLost",
    "SparkOffered",
    "SpeedMeasured",
    "StopApplication",
    "StreamProfiled",
    "SubmitPlan",
    "WithdrawComponents",
]


# -- commands --------------------------------------------------------------------------------------------------------


class JoinRing(DriverMessage, frozen=True):
    """Join the ring through the peer at ``contact``, or begin a new ring if it is None, and offer all components."""

    contact: str | None


class OfferComponents(DriverMessage, frozen=True):
    """Register the components of this peer in the directory, and ``more``, the contents of which are here by now."""

    more: tuple[str, ...] = ()
    told: bool = True  # whether neighbours in the ring are told of these contents, so that they fetch them


class WithdrawComponents(DriverMessage, frozen=True):
    """Unregister components whose contents are not here any more, as nobody has needed them for long."""

    components: tuple[str, ...]


class LeaveRing(DriverMessage, frozen=True):
    """Unregister what this peer offers, and leave the ring."""


class LookUpHosts(DriverMessage, frozen=True):
    """Look up who hosts components and streams; answered by :class:`HostsLookedUp` within ``seconds``."""

    number: int
    names: tuple[str, ...]
    seconds: float


class SubmitPlan(DriverMessage, frozen=True):
    """Decide on a plan, and run it; answered by :class:`Answer`, and later by reports of its state."""

    application: str
    plan: bytes  # query plan, as `Plan.to_bytes()` gives it
    # algorithm that finds peers for components: `composed`, `resilient`, or `spread`, which is composition that prefers
    # the graphs with the most peers
    placement: str = "composed"
    number: int = 0  # number of the command
    # whether to decide on it only: nothing is committed or started, and what probes have reserved is released
    trial: bool = False
    lease: float = 0.0  # seconds for which it goes on although nothing is heard of its client; 0: without end
    user: str = ""  # guest who has submitted it; empty: an owner of the cluster
    epoch: int = 0  # epoch of its components, if it goes on from what a folder has of them; 0: it is new
    beside: str = ""  # application of this peer of whose streams it is to be made; empty: of any, or of none


class LeaseRenewed(DriverMessage, frozen=True):
    """The client that submitted an application at this peer is alive."""

    application: str


class ShareApplication(DriverMessage, frozen=True):
    """Grant a right to an application of this peer to a user; None withdraws what was granted."""

    application: str
    user: str
    right: str | None
    number: int = 0


class HoldApplication(DriverMessage, frozen=True):
    """Pause an application of this peer (``on``), or resume it; answered by :class:`Answer`."""

    application: str
    on: bool
    number: int = 0


class ChangePlan(DriverMessage, frozen=True):
    """A step of the change of the plan of an application of this peer; answered by :class:`Answer`."""

    application: str
    # ``begin``: execute ``plan``, which is both; ``ask``: it is still wanted; ``give up``: the old plan goes on;
    # ``interrupt``: end the session of both; ``settle``: go on with ``plan``, or with the old one if that is empty
    step: str
    plan: bytes = b""
    number: int = 0


class StopApplication(DriverMessage, frozen=True):
    """End an application that was submitted at this peer, or discard the results of one that has finished."""

    application: str


class ReleaseResults(DriverMessage, frozen=True):
    """Discard the results of an application that has finished: its client has fetched them all."""

    application: str


class MoveComponent(DriverMessage, frozen=True):
    """Move a component of an application of this peer to the peer at ``to``; answered by :class:`Answer`."""

    application: str
    operator: str
    to: str
    number: int = 0


# -- reports of the data path ----------------------------------------------------------------------------------------


class DelayMeasured(DriverMessage, frozen=True):
    """End-to-end execution time in seconds that was measured at the sinks of an application."""

    application: str
    seconds: float


class SinksEnded(DriverMessage, frozen=True):
    """Every sink of an application at this peer has received the end of its streams."""

    application: str


class PartReady(DriverMessage, frozen=True):
    """A part on Spark takes tuples."""

    application: str
    operator: str


class OperatorStopped(DriverMessage, frozen=True):
    """An operator or a source at this peer has failed, for a reason."""

    application: str
    operator: str
    reason: str


class AttemptOutdated(DriverMessage, frozen=True):
    """A later attempt, in which a component of this peer has an ``epoch``, goes on from what it has in the folder."""

    application: str
    operator: str
    epoch: int


class LinesMalformed(DriverMessage, frozen=True):
    """A ``source`` at this peer skips malformed ``lines``; ``operator`` is its component, such as a part on Spark."""

    application: str
    operator: str
    source: str
    lines: SkippedLines


class ReaderStalled(DriverMessage, frozen=True):
    """The reader ``reader`` of a component is so slow that it blocks the other readers of its stream, for a reason."""

    application: str
    operator: str
    reader: str
    reason: str


class CopyReady(DriverMessage, frozen=True):
    """This peer's backup or follower of a component could take over."""

    application: str
    operator: str


class CopyUnusable(DriverMessage, frozen=True):
    """This peer's copy of a component cannot take over, for a reason."""

    application: str
    operator: str
    reason: str


class CopiesLagging(DriverMessage, frozen=True):
    """Copies of a component of this peer cannot take over: address to reason; empty if all can again."""

    application: str
    operator: str
    peers: dict[str, str]


class MeasuredLoad(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Varying load of one component: segments of constant load, in cores."""

    application: str
    operator: str
    segments: tuple[Segment, ...]


class LoadsMeasured(DriverMessage, frozen=True):
    """Loads of the components at this peer with varying load; the loads of all others are as planned."""

    loads: tuple[MeasuredLoad, ...]


class PredictionsMade(DriverMessage, frozen=True):
    """The measurements and predictions of all components that execute at this peer, once a second."""

    report: PeerPrediction


class InputsReported(DriverMessage, frozen=True):
    """What has arrived on the inputs of all active replicas and their readers at this peer, once a second."""

    components: tuple[StreamsMeasured, ...]


class SlackLost(DriverMessage, frozen=True):
    """The tuples of a component persistently have no slack (equation 3.1); repeated while that lasts."""

    violation: SlackViolation

    @property
    def application(self) -> str:
        """Id of the component's application."""
        return self.violation.prediction.application


class StreamProfiled(DriverMessage, frozen=True):
    """Measured profile of the operator that makes a stream: any of rate, cost, selectivity and signature."""

    stream: str
    measured: dict[str, float | str]


class ProfileExpired(DriverMessage, frozen=True):
    """The profile of a stream has expired; the peer withdraws it from the directory."""

    stream: str


# -- reports of the machine and the network --------------------------------------------------------------------------


class LinkFailed(DriverMessage, frozen=True):
    """The link to the peer at ``address`` has failed; ``refused`` if no process listens there any more."""

    address: str
    refused: bool = False


class SpeedMeasured(DriverMessage, frozen=True):
    """The present speed of this peer."""

    # work that its thread does in a second, in seconds at a peer of speed 1: less what other programs take
    speed: float
    # speed of its processor in the unit that all peers have in common, by calibration. It scales the work of tuples
    # that leaves the peer, or comes to it; 1 where the work is in this unit already
    processor: float = 1.0


class CoresAdvertised(DriverMessage, frozen=True):
    """Another peer has reported its free cores, together with data."""

    address: str
    cores: float


class OverheadsMeasured(DriverMessage, frozen=True):
    """Measured overheads of this peer, see :mod:`synergy_nb.models.overheads`."""

    # stage to mean in seconds and variance in seconds squared, of those that have changed
    stages: dict[str, tuple[float, float]]
    # kind of operator to mean and variance of a call that nobody waits for, of those that have changed
    calls: dict[str, tuple[float, float]]


class BandwidthMeasured(DriverMessage, frozen=True):
    """Bandwidth of the link from another peer, bytes/s, measured by its traffic."""

    address: str
    rate: float


class BandwidthsLimited(DriverMessage, frozen=True):
    """Bandwidth limits of the links to this peer in an emulated wide area."""

    rates: tuple[float, ...] = ()  # bytes/s from each site; empty if no wide area is laid over the links any more
    # address to number of its site; any other peer is at the site that its key gives
    sites: dict[str, int] = msgspec.field(default_factory=dict)


class SparkOffered(DriverMessage, frozen=True):
    """This peer can use Spark."""

    micro_batch: float  # seconds that a micro-batch takes
    local: bool  # whether Spark reads the files of this machine


class PlacementDecided(DriverMessage, frozen=True):
    """The answer to :class:`~synergy_nb.control.graph.PlacementRequest`."""

    # request, attempt: id of the request, and number of the attempt that asked
    request: str
    attempt: int
    roles: Roles = Roles()  # peers that are to execute each operator; empty if the plan cannot be placed
    ratio: float = 0.0  # feasible set as a share of the ideal one
    # text, reason: account of the peer that is overloaded first, and the reason if there is no placement, for people
    text: str = ""
    reason: str = ""


# -- answers ---------------------------------------------------------------------------------------------------------


class Answer(msgspec.Struct, frozen=True):
    """Instruction: report the outcome of a command to the client that sent it."""

    number: int
    refusal: str = ""  # reason why it was not carried out; empty if it was
    begun: bool = True  # whether it was tried


class HostsLookedUp(msgspec.Struct, frozen=True):
    """Instruction: report the hosts that :class:`LookUpHosts` asked for; None if the directory was not in time."""

    number: int
    hosts: dict[str, list[str]] | None


class ObtainContents(msgspec.Struct, frozen=True):
    """Instruction: fetch the contents of components from the peer at ``sender``; answered by :class:`OfferComponents`.

    Contents that the driver refuses, or that do not come, are not answered.
    """

    sender: str
    components: tuple[str, ...]


class DepartureLimits(msgspec.Struct, frozen=True):
    """Instruction: compute the slack of each tuple at the components of an application by these limits."""

    application: str
    # operator to its departure limit: the greatest age in seconds at which a tuple may leave it and is predicted to be
    # in time at all sinks: the limit q_t less the predicted times downstream. Slack is the departure limit less the age
    # on arrival and t̂_e. Operators without a limit are missing; the slack of their tuples is not computed
    limits: dict[str, float]
