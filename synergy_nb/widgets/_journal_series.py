"""A journal as series over time, with their subjects: each event is read once, when it is new.

:class:`JournalSeries` follows a journal by its sequence numbers. It has a line of bounded length for every quantity
(see :mod:`synergy_nb.widgets._line_history`), and the latest values of applications, sinks, components and peers.
The result does not depend on the portions in which events arrive, so a new view shows the same as the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from synergy_nb import events
from synergy_nb.events import Event, Handlers
from synergy_nb.events.application_states import ENDED
from synergy_nb.events.journal import Journal
from synergy_nb.reporting.formatting import rate, seconds
from synergy_nb.reporting.hot_spots import component_text, slack_text
from synergy_nb.reporting.stalls import OpenWaits
from synergy_nb.reporting.troubles import Trouble, joined, trouble
from synergy_nb.widgets._latest_values import LatestComponent, LatestFlow, LatestPeer, LatestRun
from synergy_nb.widgets._line_history import Line
from synergy_nb.widgets._replica_events import ReplicaEvent, note

TRAILING: Final = 2.0  # interval of the throughput, seconds; results of windows arrive in bursts
MOST_APPLICATIONS: Final = 50  # maximum number of applications; those that ended first are discarded beyond it
MOST_ERRORS: Final = 100  # maximum number of different errors of peers; the oldest are discarded beyond it


class JournalSeries:
    """The contents of a journal about one application, or about all."""

    #: Types of events that views show.
    SHOWN: Final = Handlers()

    def __init__(self, application: str | None = None, names: Mapping[str, str] | None = None) -> None:
        self.application = application  # id of the application; None for all
        # readable names of peers, by address; the journal adds those that peers record
        self.names: Mapping[str, str] = names if names is not None else {}
        # now, first: times of the latest and of the first event, in seconds
        self.now = -math.inf
        self.first = math.inf
        # (quantity, of what) to its line: p50, p99, rate and miss of application/sink; slack of application/operator;
        # load and promised of a peer's address
        self.lines: dict[tuple[str, str], Line] = {}
        # runs, flows, components, peers: series by application, by (application, sink), by (application, operator), and
        # by address
        self.runs: dict[str, LatestRun] = {}
        self.flows: dict[tuple[str, str], LatestFlow] = {}
        self.components: dict[tuple[str, str], LatestComponent] = {}
        self.peers: dict[str, LatestPeer] = {}
        self.troubles: dict[str, Trouble] = {}  # errors of peers, by their sentences
        self.waits = OpenWaits()  # components that wait, and for whom
        self.closed = False  # whether the cluster was closed
        self._trials: set[str] = set()
        self._next = 0

    def read(self, journal: Journal) -> bool:
        """Read the new events of ``journal``; return whether any of them changes a view."""
        found = journal.since(self._next)
        if not found:
            return False
        self._next = found[-1].sequence + 1
        return self.add_events(found)

    def add_events(self, found: Iterable[Event]) -> bool:
        """Read events; return whether any of them changes a view."""
        mattered = False
        for event in found:
            handle = self.SHOWN.get(type(event))
            if handle is None or (isinstance(event, events.RequestEvent) and not self._concerns(event)):
                continue
            mattered = True
            self.now = max(self.now, event.time)
            self.first = min(self.first, event.time)
            handle(self, event)
        return mattered

    def _concerns(self, event: Event) -> bool:
        """Whether an event is about the application that is shown; trials never run, so no view shows them."""
        if isinstance(event, events.RequestSubmitted) and event.trial:
            self._trials.add(event.subject)
        if event.subject in self._trials:
            return False
        return self.application is None or self.application in event.subjects

    def line(self, quantity: str, of: str) -> Line:
        """The line of a quantity, created if it does not exist."""
        key = (quantity, of)
        if key not in self.lines:
            self.lines[key] = Line()
        return self.lines[key]

    def name(self, address: str) -> str:
        """Name of a peer, from the given names or its journal."""
        known = self.names.get(address)
        return known if known is not None else self.peer(address).name

    def peer(self, address: str) -> LatestPeer:
        """The record of a peer, created if it does not exist."""
        if address not in self.peers:
            self.peers[address] = LatestPeer(address, self.names.get(address, address))
        return self.peers[address]

    # -- peers ---------------------------------------------------------------------------------------------------

    @SHOWN.add
    def _peer_started(self, event: events.PeerStarted) -> None:
        peer = self.peer(event.peer)
        peer.name = event.name or peer.name
        self._return(event.peer, event.time)

    @SHOWN.add
    def _peer_dead(self, event: events.PeerDeclaredDead) -> None:
        address = event.subject
        self.peer(address).dead = True
        for run in self.runs.values():
            self._lose(run, address, event.time)

    def _lose(self, run: LatestRun, address: str, time: float) -> None:
        """Mark the death of a peer that an application uses, once, even if several peers report it."""
        if run.status in ENDED or address in run.lost or address not in run.peers:
            return
        run.lost = run.lost | {address}
        roles = run.roles.at(address).items()
        had = [name if role == "primary" else f"the backup of {name}" for name, role in roles]
        had += ["its origin"] if address == run.origin else []
        run.mark(time, "bad", f"{address} died", f"{address} died with {', '.join(had)}")

    def _return(self, address: str, time: float) -> None:
        """Mark that a peer which was declared dead lives, in each application that had lost it."""
        self.peer(address).dead = self.peer(address).silent = False
        for run in self.runs.values():
            if address in run.lost and run.status not in ENDED:
                run.mark(time, "note", "", f"{address} is back: it had been declared dead")
            run.lost = run.lost - {address}

    @SHOWN.add
    def _peer_in_ring(self, event: events.PeerJoined | events.PeerLeft) -> None:
        self.peer(event.subject).left = isinstance(event, events.PeerLeft)

    @SHOWN.add
    def _peer_silent(self, event: events.PeerSilent) -> None:
        self.peer(event.subject).silent = True

    @SHOWN.add
    def _peer_alive(self, event: events.PeerRefutedDeath | events.PeerAnswers) -> None:
        self._return(event.subject, event.time)

    @SHOWN.add
    def _trouble(self, event: events.PeerTrouble) -> None:
        text = trouble(event)
        self.troubles[text] = joined(self.troubles.pop(text, None), event, text)  # so the latest error is the last
        if len(self.troubles) > MOST_ERRORS:
            del self.troubles[next(iter(self.troubles))]

    @SHOWN.add
    def _measured(self, event: events.PeerMeasured) -> None:
        peer = self.peer(event.peer)
        self._return(event.peer, event.time)  # a peer that sends measurements is alive
        peer.cpu, peer.memory, peer.cores, peer.promised = event.cpu, event.memory, event.cores, event.promised
        peer.predicted_load = event.predicted_load
        if peer.load is not None:
            self.line("load", event.peer).append(event.time, peer.load)
        self.line("promised", event.peer).append(event.time, peer.promised)
        for stats in event.components:
            if self.application in (None, stats.application):
                component = self._component(stats.application, stats.operator, event.peer)
                component.stats = stats
                component.count_firsts(event.time, stats.firsts)
                if stats.slack is not None:
                    self.line("slack", f"{stats.application}/{stats.operator}").append(event.time, stats.slack)
                    known = component.least_slack
                    component.least_slack = stats.slack if known is None else min(stats.slack, known)
                    component.hot = component.hot and stats.slack <= 0.0

    @SHOWN.add
    def _cluster_closed(self, _event: events.ClusterClosed) -> None:
        self.closed = True

    # -- sinks ---------------------------------------------------------------------------------------------------

    @SHOWN.add
    def _qos(self, event: events.SinkMeasured) -> None:
        key = (event.subject, event.operator)
        first = key not in self.flows
        flow = self.flows.setdefault(key, LatestFlow(*key))
        of = "/".join(key)
        flow.limit, flow.finished, total = event.limit_s, event.finished, event.tuples
        run = self.runs.get(event.subject)
        if run is not None and run.status in ENDED and total == flow.tuples:
            return  # a sink that only retains results has no new measurement
        whole = not first or (run is not None and run.began is not None)  # otherwise the journal lacks its beginning
        number = max(total - flow.tuples, 0) if whole else 0
        flow.tuples = total
        lost = max(event.lost - flow.lost, 0.0) if whole else 0.0
        flow.dropped, flow.lost = sum(event.dropped.values()), event.lost
        if event.delay_p50_s is not None and event.delay_p99_s is not None:
            flow.p50, flow.p99 = event.delay_p50_s, event.delay_p99_s
            self.line("p50", of).append(event.time, event.delay_p50_s)
            self.line("p99", of).append(event.time, event.delay_p99_s)
        if event.miss_rate is not None or event.delay_p50_s is not None:
            flow.miss = event.miss_rate
        if event.miss_rate is not None:
            flow.counted += number + lost
            flow.missed += (number + lost) * event.miss_rate
            self.line("miss", of).append(event.time, event.miss_rate)
        totals = flow.totals
        while len(totals) > 1 and totals[1][0] <= event.time - TRAILING:
            totals.popleft()
        flow.rate = event.tuples_per_s
        if totals and event.time > totals[0][0]:
            flow.rate = max(total - totals[0][1], 0) / (event.time - totals[0][0])
        totals.append((event.time, total))
        self.line("rate", of).append(event.time, flow.rate)

    @SHOWN.add
    def _sink_finished(self, event: events.SinkFinished) -> None:
        key = (event.subject, event.operator)
        self.flows.setdefault(key, LatestFlow(*key)).finished = True

    @SHOWN.add
    def _rows_lost(self, event: events.LateRows | events.LinesSkipped) -> None:
        self.run(event.subject).mark_loss(event)

    @SHOWN.add
    def _outside_broken(self, event: events.SourceBroken | events.DestinationBroken) -> None:
        self.waits.add(event)
        if event.tries == 1:
            source = isinstance(event, events.SourceBroken)
            label = f"{event.operator} {'cannot be read' if source else 'cannot write'}"
            self.run(event.subject).mark(event.time, "bad", label, f"{label}: {event.reason}")

    @SHOWN.add
    def _outside_mended(self, event: events.SourceMended | events.DestinationMended) -> None:
        self.waits.add(event)
        source = isinstance(event, events.SourceMended)
        label = f"{event.operator} {'is read again' if source else 'writes again'}"
        self.run(event.subject).mark(event.time, "good", label, f"{label}, after {seconds(event.seconds)}")

    @SHOWN.add
    def _source_remarked(self, event: events.SourceRemarked) -> None:
        text = f"{event.operator}: {event.text}"
        self.run(event.subject).mark(event.time, "bad", "", text)

    # -- applications --------------------------------------------------------------------------------------------

    def run(self, application: str) -> LatestRun:
        """The record of an application, created if it does not exist."""
        if application not in self.runs:
            self.runs[application] = LatestRun(application)
            if len(self.runs) > MOST_APPLICATIONS:
                self._forget()
        return self.runs[application]

    def _learn(self, event: Event) -> LatestRun:
        """The record of the application that an event is about, with the facts of the event."""
        run = self.run(event.subject)
        run.learn(event)
        return run

    def _forget(self) -> None:
        ended = next((run.application for run in self.runs.values() if run.status in ENDED), None)
        if ended is None:
            return
        del self.runs[ended]
        for of in [of for of in self.flows if of[0] == ended]:
            del self.flows[of]
            for quantity in ("p50", "p99", "rate", "miss"):
                self.lines.pop((quantity, "/".join(of)), None)
        for key in [key for key in self.components if key[0] == ended]:
            del self.components[key]
            self.lines.pop(("slack", "/".join(key)), None)

    @SHOWN.add
    def _submitted(self, event: events.RequestSubmitted) -> None:
        self._learn(event).origin = event.peer

    @SHOWN.add
    def _engines(self, event: events.EnginesChosen | events.EnginesChanged) -> None:
        self._learn(event)

    @SHOWN.add
    def _selected(self, event: events.GraphSelected) -> None:
        self._graph(event.subject, event.peers)

    def _graph(self, application: str, peers: Mapping[str, str]) -> None:
        """Store a component graph λ: the peer address of each operator."""
        run = self.run(application)
        within = {each for part, members in run.engines.parts.items() for each in members if each != part}
        run.roles = replace(run.roles, peers={name: peer for name, peer in peers.items() if name not in within})
        for operator, peer in run.roles.peers.items():
            if peer:  # else it is an active replica that was lost
                self._component(application, operator, peer).peer = peer

    @SHOWN.add
    def _running(self, event: events.ApplicationRunning) -> None:
        self._graph(event.subject, event.peers)
        run = self._learn(event)
        run.status, run.reason, run.began = run.going, "", event.time

    @SHOWN.add
    def _hold_begun(self, event: events.HoldBegun) -> None:
        self.run(event.subject).go_on_as("on hold")
        self.run(event.subject).mark(event.time, "note", "on hold", "paused by a user")

    @SHOWN.add
    def _hold_ended(self, event: events.HoldEnded) -> None:
        self.run(event.subject).go_on_as("running")
        self.run(event.subject).mark(event.time, "good", "resumed", f"resumed by a user after {seconds(event.seconds)}")

    @SHOWN.add
    def _replicated(self, event: events.PlacementCompleted) -> None:
        run = self._learn(event)
        run.roles = replace(run.roles, backups={name: tuple(peers) for name, peers in event.backups.items()})
        where = ", ".join(f"{name} on {' and '.join(peers)}" for name, peers in run.roles.backups.items() if peers)
        if where:
            run.mark(event.time, "note", "", f"backups were placed: {where}")

    @SHOWN.add
    def _replicas_lost(self, event: events.ReplicasLost) -> None:
        self._lose(self.run(event.subject), event.at, event.time)

    @SHOWN.add
    def _active_replicas(self, event: ReplicaEvent) -> None:
        note(self._learn(event), event)
        if isinstance(event, events.ReplicaRebuilt):
            self._graph(event.subject, event.peers)

    @SHOWN.add
    def _taking_over(self, event: events.TakeoverBegun) -> None:
        self._lose(self.run(event.subject), event.dead, event.time)

    @SHOWN.add
    def _taken_over(self, event: events.TakenOver) -> None:
        run = self.run(event.subject)
        before = run.roles.peers
        self._graph(event.subject, event.peers)
        run.roles = replace(run.roles, backups={name: tuple(peers) for name, peers in event.backups.items()})
        moved: dict[str, list[str]] = {}
        for name, peer in run.roles.peers.items():
            if before.get(name) != peer:
                moved.setdefault(peer, []).append(name)
        for peer, names in moved.items():
            run.mark(event.time, "good", "taken over", f"the backup on {peer} took over {', '.join(names)}")

    @SHOWN.add
    def _moved(self, event: events.ComponentMoved) -> None:
        self._graph(event.subject, event.peers)
        component = self._component(event.subject, event.operator, event.to)
        why = f" in {seconds(event.seconds)}, {component.migration_reason}" if component.migration_reason else ""
        component.moving = component.migration_reason = ""
        component.hot = False
        text = f"{event.operator} moved from {event.at} to {event.to}{why}"
        self.run(event.subject).mark(event.time, "good", "moved", text)

    @SHOWN.add
    def _move_begun(self, event: events.MoveBegun) -> None:
        self._component(event.subject, event.operator, event.at).moving = event.to

    @SHOWN.add
    def _shared_moved(self, event: events.SharedStreamMoved) -> None:
        self._graph(event.subject, event.peers)
        run = self._learn(event)
        text = f"{event.operator} of {event.of}, which it shares, moved from {event.at} to {event.to}"
        run.mark(event.time, "good", "", text)

    @SHOWN.add
    def _move_given_up(self, event: events.MoveGivenUp) -> None:
        run = self.run(event.subject)
        component = self._component(event.subject, event.operator, event.peer)
        component.peer, component.removed = run.roles.peers.get(event.operator, component.peer), False
        component.moving = component.migration_reason = ""
        run.mark(event.time, "note", "", f"{event.operator} did not move to {event.to}: {event.reason}")

    @SHOWN.add
    def _waits(self, event: events.WaitBegun | events.WaitEnded) -> None:
        self.waits.add(event)

    @SHOWN.add
    def _ended(self, event: events.ApplicationEnded) -> None:
        self.waits.add(event)
        run = self.run(event.subject)
        if run.status in ENDED and event.status == "stopped":
            return  # it ended before its results were released
        run.status, run.reason, run.ended = event.status, event.reason, event.time
        if event.status == "failed":
            run.mark(event.time, "bad", "failed", f"the application failed: {run.reason}")

    # -- hot spots -----------------------------------------------------------------------------------------------

    def _shown_run(self, event: Event) -> LatestRun:
        """The application that is shown, or that of an event in the view of a cluster."""
        return self.run(event.subject if self.application is None else self.application)

    @SHOWN.add
    def _hot_spot(self, event: events.HotSpotDetected) -> None:
        component = self._component(event.subject, event.operator, event.peer)
        if not component.hot:  # it is detected again and again as long as it lasts
            component.hot = True
            text = f"{event.operator} has no slack at {event.peer}: {slack_text(event)}"
            self.run(event.subject).mark(event.time, "bad", "hot spot", text)

    @SHOWN.add
    def _dismissed(self, event: events.HotSpotDismissed) -> None:
        self.run(event.subject).mark_once(event.time, f"{event.peer} does not act: {event.reason}")

    @SHOWN.add
    def _decided(self, event: events.MigrationDecided) -> None:
        run = self._shown_run(event)
        what = component_text((event.subject, event.operator), run.application)
        rates = f"{rate(event.rate)} before, {rate(event.remaining_rate)} without"
        if not event.act:
            candidates = ", ".join(event.candidates) or "no peer"
            text = f"{event.peer} only observes: {what} would leave it, {rates}; it would ask {candidates}"
            run.mark_once(event.time, text)
            return
        run.mark(event.time, "note", "", f"{what} is to leave {event.peer}: {rates}")
        if (event.subject, event.operator) in self.components:
            cause = component_text(event.cause, run.application)
            slack = "it" if event.cause == (event.subject, event.operator) else cause
            self.components[event.subject, event.operator].migration_reason = f"since {slack} had no slack there"

    @SHOWN.add
    def _answered(self, event: events.MigrationAnswered) -> None:
        run = self._shown_run(event)
        what = component_text((event.subject, event.operator), run.application)
        text = f"{event.target} accepts {what}" if event.accepted else f"{event.target} refuses {what}: {event.reason}"
        run.mark(event.time, "note", "", text)

    @SHOWN.add
    def _migration_ended(self, event: events.MigrationEnded) -> None:
        run = self._shown_run(event)
        what = component_text((event.subject, event.operator), run.application)
        if event.failure:
            text = f"{what} did not leave {event.peer}: {event.failure}"
            run.mark(event.time, "bad", "not moved", text)
        elif event.subject != run.application:  # its own application shows the move itself
            run.mark(event.time, "good", "relieved", f"{what} left {event.peer} for {event.target}")

    @SHOWN.add
    def _overloaded(self, event: events.PeerOverloaded) -> None:
        self.peer(event.peer).overloaded = event.overloaded
        for run in self.runs.values():
            if run.status in ENDED or event.peer not in run.peers:
                continue
            if event.overloaded:
                loads = f"load {event.load:.2g}, predicted {event.predicted_load:.2g}"
                run.mark(event.time, "bad", "", f"{event.peer} is overloaded: {loads}")
            else:
                run.mark(event.time, "note", "", f"{event.peer} is not overloaded any more")

    def _component(self, application: str, operator: str, peer: str) -> LatestComponent:
        key = (application, operator)
        if key not in self.components:
            self.components[key] = LatestComponent(application, operator, peer)
            self.run(application)
        return self.components[key]

    @SHOWN.add
    def _deployed(self, event: events.ComponentDeployed) -> None:
        component = self._component(event.subject, event.operator, event.peer)
        component.peer, component.deployed, component.removed, component.failure = event.peer, True, False, None
        component.discipline = event.discipline
        self.waits.add(event)

    @SHOWN.add
    def _undeployed(self, event: events.ComponentUndeployed) -> None:
        component = self._component(event.subject, event.operator, event.peer)
        if component.peer == event.peer:
            component.removed = True
        self.waits.add(event)

    @SHOWN.add
    def _operator_failed(self, event: events.OperatorFailed | events.ComponentFailed) -> None:
        self._component(event.subject, event.operator, event.peer).failure = event.reason
