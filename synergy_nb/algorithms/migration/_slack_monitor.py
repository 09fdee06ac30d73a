"""The slack of the applications at one peer: predicted times along their graphs, and limits for the data path.

Theory of operation
-------------------
The data path reports once a second what it measured and predicts of each component
(:class:`~synergy_nb.control.driver_messages.PredictionsMade`). The monitor reports the times of these components, with
the communication times of their inputs, to the origins of the applications, and receives those of all other components
with the feedback (:mod:`synergy_nb.lifecycle.sessions.feedback`).

All applications of the peer form one graph: a tap is a component without execution time, behind the producer of its
stream. So the slack of a shared component is the least one of all applications that read its stream, and a violated
path may lead through several applications. From this graph the monitor computes the departure limit of each component
of the peer (:class:`~synergy_nb.control.driver_messages.DepartureLimits`), and from that the data path computes the
slack of each tuple.

Until the times of a component are reported, the monitor assumes the processing time of its plan, and the communication
times with which the application was composed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from synergy_nb.algorithms.migration._selection import Execution
from synergy_nb.control.driver_messages import DepartureLimits, SpeedMeasured
from synergy_nb.control.peer import Peer
from synergy_nb.dataflow.prediction_reports import PeerPrediction, Prediction
from synergy_nb.lifecycle.records.hosted_components import ComponentId, Components
from synergy_nb.lifecycle.records.members import Member, producer_of
from synergy_nb.lifecycle.records.messages import ApplicationTimes, ComponentTimes, TimesReported
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.slack import PredictedPaths
from synergy_nb.overlay.latency import Latency
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.operators.catalogue import TAP

CHANGED: Final = 0.01  # relative change of a departure limit from which on the data path is told the new one
ALIKE: Final = 1.25  # ratio of the measured speeds of two processors up to which they count as equally fast
LEAST_CHANGE: Final = 1e-4  # seconds: a smaller change is never reported

Limits = dict[str, float]


class SlackMonitor:
    """Predicted times and slack of the applications with components at a peer.

    ``speed``, ``processor``: present speed of the peer, and that of its processor in the unit that all peers have in
    common, see :class:`~synergy_nb.control.driver_messages.SpeedMeasured`.
    """

    def __init__(
        self,
        peer: Peer,
        members: Mapping[str, Member],  # member records of the applications in which the peer takes part, by id
        components: Components,
        latency: Latency,
        config: HotSpotConfig,
        # speed of the peer where no other program runs: the work that its thread does in a second, in seconds at a peer
        # of speed 1
        server: float = 1.0,
    ) -> None:
        self.peer = peer
        self.server = self.speed = server
        self.processor = 1.0
        self.members = members
        self.components = components
        self.latency = latency
        self.config = config
        # last report of the data path about each component of the peer
        self.predictions: dict[ComponentId, Prediction] = {}
        self.predicted_rate = 0.0  # predicted total input rate of the peer, tuples/s
        self._limits: dict[str, Limits] = {}  # application to the departure limits that the data path has
        self._paths: PredictedPaths[ComponentId] | None = None
        self._computed = -math.inf

    def note(self, prediction: Prediction) -> None:
        """The data path has reported a component alone."""
        self.predictions[prediction.application, prediction.operator] = prediction

    def forget(self, component: ComponentId) -> None:
        """A component has left this peer."""
        self.predictions.pop(component, None)

    def predictions_reported(self, report: PeerPrediction) -> None:
        """Handle the report of the data path: inform the origins, and compute the departure limits anew."""
        self.predictions = {(each.application, each.operator): each for each in report.components}
        self.predicted_rate = report.predicted_rate
        self._paths = None
        self._report_times()
        self._send_departure_limits()

    def speed_measured(self, measured: SpeedMeasured) -> None:
        """Handle the driver's report of the speed of this peer."""
        self.speed, self.processor = measured.speed, measured.processor

    def speed_for(self, processor: float) -> float:
        """Present speed of this peer for work that is stated in seconds of a processor of another speed.

        Processors of one machine are measured a fifth apart where it is busy, so speeds that are near count as equal.
        """
        ratio = self.processor / processor
        return self.speed if 1.0 / ALIKE < ratio < ALIKE else self.speed * ratio

    def hop(self, address: str, otherwise: float = 0.0) -> float:
        """Mean communication time t̂_c with another peer, seconds; ``otherwise`` if it was never measured."""
        if address == self.peer.address:
            return 0.0
        measured = self.latency.one_way(address)
        return otherwise if measured is None else measured

    # -- the graph of all applications at the peer -------------------------------------------------------------------

    @property
    def paths(self) -> PredictedPaths[ComponentId]:
        """Predicted times from each component of all applications here to the sinks; computed once for each report."""
        if self._paths is None or self.peer.now - self._computed > self.config.report:
            self._paths, self._computed = self._compute_paths(), self.peer.now
        return self._paths

    def _compute_paths(self) -> PredictedPaths[ComponentId]:
        times: dict[ComponentId, float] = {}
        hops: dict[tuple[ComponentId, ComponentId], float] = {}
        limits: dict[ComponentId, float] = {}
        replica_of: dict[ComponentId, ComponentId] = {}
        for application, member in sorted(self.members.items()):
            if member.ended:
                continue
            peers = member.graph.roles.peers
            for operator in filter(peers.__getitem__, member.plan.operators):  # without lost active replicas
                node = application, operator
                times[node] = self.times(node)[0]
                if original(operator) != operator:
                    replica_of[node] = application, original(operator)
                for upstream in filter(None, member.graph.roles.reads(member.plan, operator).values()):
                    hops[(application, upstream), node] = self._hop(member, upstream, operator)
                limit = member.plan.qos.delay
                if limit is not None and member.plan.operators[operator].kind == "sink":
                    limits[node] = limit
            for tap in member.graph.shared:
                producer = producer_of(member.graph, member.plan, tap)
                if producer is not None:
                    hops[producer[:2], (application, tap)] = 0.0
                    times.setdefault(producer[:2], self.times(producer[:2])[0])
        return PredictedPaths(hops, times, limits, replica_of)

    def times(self, component: ComponentId) -> tuple[float, float]:
        """Predicted execution time t̂_e and profiled processing time τ of a component, seconds.

        The profiled time is that at its peer without other programs.
        """
        own = self.predictions.get(component)
        if own is not None:
            return own.predicted, self._profiled(own)
        member = self.members.get(component[0])
        if member is None:
            return 0.0, 0.0
        asked, reported = member.plan.operators[component[1]], member.times.get(component[1])
        if reported is not None:
            return reported.seconds, reported.processing
        if asked.kind == TAP or not asked.inputs:
            return 0.0, 0.0
        planned = member.plan.processing_time(component[1])
        return planned, planned

    def _profiled(self, prediction: Prediction) -> float:
        """Processing time τ of a component here without other programs, seconds."""
        return prediction.work / self.server

    def _hop(self, member: Member, upstream: str, operator: str) -> float:
        """Mean communication time t̂_c between two operators of an application, seconds."""
        peers, reached = member.graph.roles.peers, member.graph.reached
        if peers[upstream] == peers[operator]:
            return 0.0
        composed = max(reached.get(operator, 0.0) - reached.get(upstream, 0.0), 0.0)
        composed = max(composed - member.plan.processing_time(operator), 0.0)
        if peers[operator] == self.peer.address:
            return self.hop(peers[upstream], composed)
        reported = member.times.get(operator)
        return composed if reported is None else reported.hops.get(upstream, composed)

    # -- reports -----------------------------------------------------------------------------------------------------

    def _report_times(self) -> None:
        """Send the predicted times of the components here to the origins of their applications."""
        found: dict[str, list[ApplicationTimes]] = {}
        for application, member in sorted(self.members.items()):
            here = sorted(member.operators & member.deployed)
            times = {each: known for each in here if (known := self._times(member, each)) is not None}
            if times and not member.ended:
                found.setdefault(member.graph.origin, []).append(
                    ApplicationTimes(application, member.graph.attempt, times)
                )
        for origin, reported in found.items():
            self.peer.send(origin, TimesReported(tuple(reported)))

    def _times(self, member: Member, operator: str) -> ComponentTimes | None:
        prediction = self.predictions.get((member.graph.application, operator))
        if prediction is None:
            return None
        peers = member.graph.roles.peers
        upstream = {up: self._hop(member, up, operator) for up in member.plan.upstream(operator) if peers[up]}
        hops = {up: seconds for up, seconds in upstream.items() if peers[up] != self.peer.address}
        return ComponentTimes(prediction.predicted, self._profiled(prediction), hops)

    def _send_departure_limits(self) -> None:
        """Inform the data path of the departure limits of the components here, if they have changed."""
        paths = self.paths
        found: dict[str, Limits] = {}
        for component in [name for name, _ in self.components.items() if name in paths.times]:
            limit = paths.departure_limit(component)
            if limit < math.inf:
                found.setdefault(component[0], {})[component[1]] = limit
        for application in sorted(found.keys() | self._limits.keys()):
            limits, known = found.get(application, {}), self._limits.get(application, {})
            if limits.keys() != known.keys() or any(_differ(limits[each], known[each]) for each in limits):
                self.peer.instruct(DepartureLimits(application, limits))
                if limits:
                    self._limits[application] = limits
                else:
                    del self._limits[application]

    # -- for decisions -----------------------------------------------------------------------------------------------

    def departure_limit(self, component: ComponentId) -> float:
        """Greatest age at which a tuple may leave a component of this peer, seconds; infinite without a limit."""
        paths = self.paths
        return paths.departure_limit(component) if component in paths.times else math.inf

    def path(self, component: ComponentId) -> tuple[ComponentId, ...]:
        """Path with the least slack through a component of this peer."""
        return self.paths.through(component) if component in self.paths.times else (component,)

    def comes_late(self, component: ComponentId, age: float | None = None) -> bool:
        """Whether tuples come too late to a component of this peer to leave it in time, wherever it is executed.

        Another peer is taken to be as fast as this one without other programs, or of speed 1 if that is faster.

        ``component``: application and operator; ``age``: age of its tuples on arrival, seconds; None for the mean one
        of its last report.
        """
        known = self.predictions.get(component)
        if known is None:
            return False
        since = max(known.age, 0.0) if age is None else age
        until = self.departure_limit(component)
        for each, downstream in self._others_on_path(component):
            if downstream:
                until += max(each.predicted - each.processing, 0.0)
            else:
                since -= max(each.measured - each.processing, 0.0)
        return since + min(self._profiled(known), known.work) >= until

    def attainable_limit(self, component: ComponentId, age: float) -> float:
        """Departure limit that a component would have after it has left this peer, seconds.

        The components downstream of it at this peer would then need less time. The limit is infinite if its tuples come
        too late for any peer.
        """
        if self.comes_late(component, age):
            return math.inf
        until, remaining = self.departure_limit(component), self.predicted_rate
        if component in self.predictions:
            remaining -= self.predictions[component].predicted_rate
        for each, downstream in self._others_on_path(component):
            if downstream:
                intercept, slope = self.line(each)
                until += max(each.predicted - max(intercept + slope * remaining, each.processing), 0.0)
        return until

    def _others_on_path(self, component: ComponentId) -> Iterator[tuple[Prediction, bool]]:
        """Other components of this peer on the path of a component, each with whether it is downstream of that one."""
        path = self.path(component)
        for number, each in enumerate(path):
            if each != component and each in self.predictions:
                yield self.predictions[each], number > path.index(component)

    def delay_limit(self, component: ComponentId) -> float:
        """Least delay limit of the applications that use a component of this peer, seconds; infinite without any."""
        found = self.components.get(component)
        users = {component[0]} if found is None else found.users
        known = (self.members[user].plan.qos.delay for user in users if user in self.members)
        return min((limit for limit in known if limit is not None), default=math.inf)

    def execution(self, component: ComponentId, prediction: Prediction, age: float | None = None) -> Execution:
        """The execution of a component at this peer, with its line and the time that its limit allows.

        If a component leaves the peer, the other components of this peer on the same path need less time, too. So their
        lines and times are added to those of the component.

        ``age``: age of its tuples on arrival, seconds; None for the mean age of the report. If they come too late for
        any peer, the execution may take any time, as no migration would help.
        """
        since = max(prediction.age, 0.0) if age is None else age
        allowed = math.inf if self.comes_late(component, age) else self.departure_limit(component) - since
        intercept, slope = self.line(prediction)
        for each, downstream in self._others_on_path(component):
            more = self.line(each)
            intercept, slope = intercept + more[0], slope + more[1]
            allowed += each.predicted if downstream else each.measured
        return Execution(
            "/".join(component), prediction.predicted_rate, intercept, slope, allowed, prediction.processing
        )

    def line(self, prediction: Prediction) -> tuple[float, float]:
        """Line of a predicted execution time over the total rate: intercept in seconds, slope in s per tuple/s.

        Where the backlog grows, t̂_e = t_e + (load - 1) times the horizon, and the load is proportional to the rate.
        Where no line is trusted, the time beyond the processing time is taken as proportional to the rate, since a
        time that does not depend on the rate would leave nothing to select.
        """
        if prediction.basis == "line" and prediction.slope > 0.0:
            return prediction.intercept, prediction.slope
        if prediction.basis == "growing backlog" and self.predicted_rate > 0.0:
            ahead = self.config.ahead(self.delay_limit((prediction.application, prediction.operator)))
            slope = ahead * self.utilisation() / self.predicted_rate
            return prediction.predicted - slope * self.predicted_rate, slope
        if self.predicted_rate > 0.0:
            waiting = max(prediction.predicted - prediction.processing, 0.0)
            return prediction.processing, waiting / self.predicted_rate
        return prediction.predicted, 0.0

    def utilisation(self) -> float:
        """Share of the time that all components are predicted to need, Σ r̂ τ, in the next seconds."""
        return math.fsum(each.coming_rate * each.processing for each in self.predictions.values())

    def executions(self) -> list[Execution]:
        """Executions of all components at this peer that take tuples."""
        return [self.execution(component, each) for component, each in sorted(self.predictions.items())]


def _differ(limit: float, known: float) -> bool:
    return abs(limit - known) > max(LEAST_CHANGE, CHANGED * abs(known))
