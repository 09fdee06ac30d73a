"""The protocol by which a peer relieves itself of a hot spot, if possible before results are late (chapter 3).

Theory of operation
-------------------
*Detection.* The data path reports a component whose tuples persistently have no slack
(:class:`~synergy_nb.control.driver_messages.SlackLost`). Every component on the path sees the violation. Only the peer
of the component with the greatest excess of execution time over processing time acts (``PredictedPaths.excesses``). If
it finds no target, the origin informs the others with its feedback, and the peer of the next component acts.

*Selection* (section 3.4.1). The peer selects the components that have to leave so that all that stay have slack, of all
applications that it executes. It moves one after the other.

*Target* (section 3.4.2). It looks the component up in the directory and asks the peers that offer it, the least loaded
first (:class:`~synergy_nb.algorithms.migration.messages.MigrationRequest`), until one accepts. A component that none
accepts is left out of the next selections for a while, so that others are tried.

*Migration* (section 3.4.4). The origin of the application has the component moved
(:mod:`synergy_nb.lifecycle.changes.migration`), since only the origin changes a graph: a take-over and a migration
never run at the same time. The peer repeats :class:`~synergy_nb.algorithms.migration.messages.Relocate` until the
origin answers. If by its published load the first candidate has room, the peer asks the origin at the same time as the
target: the target follows the component as soon as it has accepted, and a round trip between both peers is saved. If it
refuses, the origin gives the move up, and the next candidate is asked before the origin.

*Rest.* After a migration the peer still has its queue, whose tuples have no slack although enough components have left.
So it does not decide again until the queue can have drained, unless its utilisation reaches 1 again (``Rest``). The
times between two moves of a component are in :mod:`synergy_nb.algorithms.migration._move_history`.

A peer with the mode ``observe`` records its decisions in the journal and sends no request. The plan of an application
may restrict peers (``qos.hotspots``): with ``off``, its components neither trigger a decision nor move; with
``observe``, they trigger decisions that are only journaled, and do not move.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from synergy_nb.algorithms.migration._candidates import candidates, least_loaded
from synergy_nb.algorithms.migration._departures import departure_of
from synergy_nb.algorithms.migration._move_history import MoveHistory
from synergy_nb.algorithms.migration._relief import Relief, Rest
from synergy_nb.algorithms.migration._relocations import Relocations
from synergy_nb.algorithms.migration._selection import Execution, Selection, fewest, largest_first
from synergy_nb.algorithms.migration._slack_monitor import SlackMonitor
from synergy_nb.algorithms.migration._target import Target
from synergy_nb.algorithms.migration.messages import (
    MigrationEndReported,
    MigrationReply,
    MigrationRequest,
    NoTargetFound,
    Relocate,
)
from synergy_nb.control.peer import Message, Peer, Protocol
from synergy_nb.dataflow.prediction_reports import PeerPrediction, SlackViolation
from synergy_nb.events import (
    HotSpotDetected,
    HotSpotDismissed,
    MigrationAnswered,
    MigrationDecided,
    MigrationEnded,
)
from synergy_nb.lifecycle.changes.movable import movable
from synergy_nb.lifecycle.records.hosted_components import ComponentId
from synergy_nb.lifecycle.requests.alternatives import DirectoryEntries
from synergy_nb.lifecycle.requests.decider import component_name
from synergy_nb.lifecycle.session import Session
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.overlay.directory import Directory
from synergy_nb.overlay.latency import Latency
from synergy_nb.overlay.membership import Membership
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.requirements import HOTSPOTS

REPLY: Final = 3.0  # seconds to wait for the answer of a target
REPEAT: Final = 1.0  # seconds until a request to the origin is sent again
# seconds for which an equal dismissal, or an equal decision of mode ``observe``, is not journaled again
JOURNALED: Final = 10.0
LOOKUP: Final = 3.0  # seconds to wait for the directory
NOT_OFFERED: Final = 10.0  # seconds for which a component that no peer accepted is not selected again


class HotSpots(Protocol):
    """Relieves this peer when applications miss their limits here, or are predicted to."""

    def __init__(
        self,
        peer: Peer,
        session: Session,
        directory: Directory,
        membership: Membership,
        latency: Latency,  # measured round-trip times to other peers
        config: HotSpotConfig,
        # function of (plan, operator) that returns whether this peer has the component of an operator
        offers: Callable[[Plan, str], bool],
        server: float = 1.0,  # speed of the peer without other programs, see `.SlackMonitor`
    ) -> None:
        super().__init__(peer)
        self.session = session
        self.directory = directory
        self.membership = membership
        self.config = config
        self.history = MoveHistory(config.return_ban, config.rest)
        self.monitor = SlackMonitor(peer, session.members, session.components, latency, config, server)
        self.target = Target(peer, self.monitor, self.history, config, offers, session.moves)
        self._relief: Relief | None = None
        self._number = 0
        self._rest = Rest(config.seconds)
        self._dismissed: dict[ComponentId, tuple[str, float]] = {}
        self._observed: dict[ComponentId, float] = {}  # component to the time of a decision that was only journaled
        self._not_accepted: dict[ComponentId, float] = {}  # component that no peer accepted to when it may be selected
        self._left: dict[ComponentId, int] = {}  # component that has moved away to the epoch of the graph known then
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            MigrationReply: self._replied,
            MigrationEndReported: self._ended,
            **self.target.handlers,
            **Relocations(peer, session).handlers,
        }

    @property
    def quiet(self) -> bool:
        """Whether no component of this peer is looking for a target or about to leave."""
        return self._relief is None

    # -- detection ---------------------------------------------------------------------------------------------------

    def predictions_reported(self, report: PeerPrediction) -> None:
        """Handle the report of the data path about all components."""
        self.monitor.predictions_reported(report)
        self.target.release_arrived()
        components = self.session.components
        for known in (self._dismissed, self._observed, self._not_accepted, self._left):
            for ended in [component for component in known if component not in components]:
                del known[ended]

    def slack_lost(self, violation: SlackViolation) -> None:
        """Handle the report of the data path that the tuples of a component persistently have no slack."""
        prediction = violation.prediction
        component = prediction.application, prediction.operator
        mode = self._mode(component)
        if mode == "off" or component not in self.session.components:
            return
        self.monitor.note(prediction)
        now = self.peer.now
        # tuples of the queue that has built up have no slack, although enough has left: who decided on them would move
        # too much
        if self._rest.lasts(now, self.monitor.utilisation()) or self._relief is not None or self._has_left(component):
            return
        if mode == "observe" and now - self._observed.get(component, -math.inf) < JOURNALED:
            return
        excesses = self._excesses(self.monitor.path(component))
        worst = next((each for each in excesses if not self._helpless(each)), None)
        reason, selection = self._dismissal(worst, violation.age if worst == component else None), None
        if worst is not None and not reason:
            selection, reason = self._select(component, violation.age, act=mode == "on")
            if selection is None and mode == "on":
                self._report_helpless(worst)
                self._rest.begin(now)
        names = {"/".join(each): seconds for each, seconds in excesses.items()}
        before, since = self._dismissed.get(component, ("", -math.inf))
        if reason and before == reason and now - since < JOURNALED:
            return
        self.peer.record(
            HotSpotDetected,
            component[0],
            operator=component[1],
            slack=violation.slack,
            age=violation.age,
            predicted=prediction.predicted,
            measured=prediction.measured,
            basis=prediction.basis,
            intercept=prediction.intercept,
            slope=prediction.slope,
            error=prediction.error,
            departure_limit=violation.slack + violation.age + prediction.predicted,
            rate=prediction.rate,
            predicted_rate=prediction.predicted_rate,
            tuples=violation.tuples,
            seconds=violation.seconds,
            excesses=names,
            prediction_off=prediction.off,
            rise=prediction.rise,
        )
        if reason:
            self._dismissed[component] = reason, now
            self.peer.record(HotSpotDismissed, component[0], operator=component[1], reason=reason)
        elif selection is not None:
            self._relief = Relief(component, selection, now, act=mode == "on")
            self._next_component(self._relief)

    def _mode(self, component: ComponentId) -> str:
        """What this peer may do about hot spots of a component: the stricter of its own mode and that of the plan."""
        member = self.session.members.get(component[0])
        stated = None if member is None else member.plan.qos.hotspots
        return max(self.config.mode, stated or "on", key=HOTSPOTS.index)

    def _excesses(self, path: tuple[ComponentId, ...]) -> dict[ComponentId, float]:
        """Components of the violated path to their excess of t̂_e over τ in seconds, the greatest first."""
        times = {each: self.monitor.times(each) for each in path}
        found = {each: seconds - processing for each, (seconds, processing) in times.items()}
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def _helpless(self, component: ComponentId) -> bool:
        member = self.session.members.get(component[0])
        return member is not None and component[1] in member.helpless

    def _dismissal(self, worst: ComponentId | None, age: float | None) -> str:
        """The reason why this peer does not act on a violation; empty if it does."""
        if worst is None:
            return "no peer on the path can relieve itself"
        if worst not in self.session.components:
            member = self.session.members.get(worst[0])
            at = "" if member is None else f" at {member.graph.roles.peers.get(worst[1], '')}"
            return f"{worst[1]} of {worst[0]}{at} exceeds its processing time by more"
        if self.monitor.comes_late(worst, age):
            return f"tuples come too late to {worst[1]} of {worst[0]} for any peer"
        return ""

    # -- selection (3.4.1) -------------------------------------------------------------------------------------------

    def _select(self, component: ComponentId, age: float, *, act: bool) -> tuple[Selection | None, str]:
        """Select the components that leave this peer; None if those that can leave would not help.

        The second value is the reason why none leaves; empty if some do.
        """
        found: list[Execution] = []
        fixed: dict[str, str] = {}
        for each, prediction in sorted(self.monitor.predictions.items()):
            # a component that has moved is here until the graph arrives: it would count as load, and be selected again
            if each not in self.session.components or self._has_left(each):
                continue
            execution = self.monitor.execution(each, prediction, age if each == component else None)
            if self._mode(each) == "off" or not self._worst_is_here(each):
                # its rate counts, but it need not have slack
                # (test_a_plan_without_hot_spots_that_is_late_does_not_prevent_the_relief_of_others)
                execution = execution._replace(allowed=math.inf)
            found.append(execution)
            reason = self._reason_to_stay(each, act=act)
            if reason:
                fixed[execution.name] = reason
        select = fewest if self.config.selection == "fewest" else largest_first
        # those that cannot move take part, too: their rates are what the others have to make room for
        selection = select(found, fixed)
        if selection is not None:
            return selection, "" if selection.moved else "at the predicted rates all components here have slack"
        why = "; ".join(f"{name}: {reason}" for name, reason in sorted(fixed.items()))
        return None, f"no component that can leave would help ({why})"

    def _worst_is_here(self, component: ComponentId) -> bool:
        """Whether this peer executes the component of a path that exceeds its processing time by most."""
        return next(iter(self._excesses(self.monitor.path(component)))) in self.session.components

    def _has_left(self, component: ComponentId) -> bool:
        """Whether a component has moved away, although this peer has not received the graph that shows it."""
        epoch = self._left.get(component)
        member = self.session.members.get(component[0])
        if epoch is not None and (member is None or member.graph.epoch > epoch):
            del self._left[component]
            return False
        return epoch is not None

    def _reason_to_stay(self, component: ComponentId, *, act: bool) -> str:
        """The reason why a component cannot leave this peer now; empty if it can.

        Without ``act`` (the decision is only journaled), the mode ``observe`` is no such reason.
        """
        application, operator = component
        member = self.session.members.get(application)
        if member is None or member.ended:
            return "its application has ended"
        mode = self._mode(component)
        if mode == "off" or (act and mode != "on"):
            return f"its plan states hotspots: {mode}"
        if operator in member.graph.roles.followers or member.graph.roles.peers.get(operator) != self.peer.address:
            return "it is moving"
        if self.history.resting("/".join(component), self.peer.now):
            return "it has moved recently"
        if self._not_accepted.get(component, -math.inf) > self.peer.now:
            return "no peer accepted it recently"
        if member.plan.operators[operator].at is not None:
            return f"its plan places it at {member.plan.operators[operator].at}"
        return movable(member.plan, operator, durable=self.session.config.durable)

    # -- target (3.4.2) ----------------------------------------------------------------------------------------------

    def _next_component(self, relief: Relief) -> None:
        """Look up candidates for the next component that is to leave, or end the relief."""
        while relief.waiting:
            component = relief.next_component()
            member = self.session.members.get(component[0])
            if member is not None and not self._reason_to_stay(component, act=relief.act):
                self._look_up(relief, component_name(member.plan, component[1]))
                return
        self._relief = None

    def _look_up(self, relief: Relief, name: str) -> None:
        """Look up the peers that offer the component that is to leave, by its directory name."""
        number = self._next_number()
        relief.look_up(number, self.peer.now)

        def found(entries: DirectoryEntries | None) -> None:
            self._found(number, name, entries)

        self.directory.lookup([name], found, LOOKUP)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _found(self, number: int, name: str, found: DirectoryEntries | None) -> None:
        relief = self._relief
        if relief is None or relief.number != number or relief.operator is None:
            return
        component = relief.operator
        member, prediction = self.session.members.get(component[0]), self.monitor.predictions.get(component)
        if member is None or prediction is None:
            self._give_up(relief, "the component has ended")
            return
        entries = () if found is None else found.get(name, ())
        offered = candidates(entries)
        known = {each.address: each for each in offered}
        away = {self.peer.address, *self.history.left("/".join(component), self.peer.now)}
        away |= {entry.host for entry in entries if self.membership.is_dead(entry.host)}
        relief.offer(least_loaded(offered, away)[: self.config.candidates], known)
        selection = relief.selection
        self.peer.record(
            MigrationDecided,
            component[0],
            operator=component[1],
            cause=relief.cause,
            selected=list(selection.moved),
            rate=selection.before,
            remaining_rate=selection.after,
            slacks=dict(selection.slacks),
            candidates=list(relief.candidates),
            loads={host: known[host].load for host in relief.candidates if known[host].load < math.inf},
            act=relief.act,
        )
        if not relief.act:
            self._observed[relief.cause] = self.peer.now
            self._next_component(relief)
        elif found is None:
            self._give_up(relief, "the directory did not answer in time")
        else:
            self._ask_next(relief)

    def _ask_next(self, relief: Relief) -> None:
        """Send the request to the next candidate (phase 1); if the first one is not busy, the move begins at once."""
        component, departure = relief.operator, None
        if component is not None:
            departure = departure_of(component, self.session, self.monitor, self.history, self.peer.now)
        if departure is None:
            relief.ask_nobody()
            self._give_up(relief, "the component has ended")
            return
        to = relief.next_candidate(self.membership.is_dead)
        if not to:
            self._give_up(relief, "no peer accepts it")
            return
        relief.ask(self._next_number(), departure.rate * departure.work, self.peer.now)
        self.peer.send(to, MigrationRequest(relief.number, departure, relief.moving))
        if relief.moving:
            self.session.moves.early.expect(departure.graph.application, departure.operator, to)
            self._relocate_there(relief.number, self._time_limit)
        else:
            relief.wait(self.peer.after(REPLY, self._no_reply, relief.number))

    def _no_reply(self, number: int) -> None:
        relief = self._relief
        if relief is not None and relief.number == number:
            self._answered(relief, "it did not answer in time")
            self._ask_next(relief)

    def _replied(self, sender: str, message: MigrationReply) -> None:
        relief = self._relief
        # a late answer of a candidate that was given up must not begin a second move of the component
        if relief is None or relief.number != message.number or relief.asked != sender or relief.accepted is not None:
            return
        self._answered(relief, message.refusal)
        if relief.moving:
            # the move runs already: whatever the target answers, the origin ends it or gives it up
            return  # the origin hears of it from the target, and answers
        if message.refusal:
            self._ask_next(relief)
        else:
            relief.move(self._next_number())
            self._relocate_there(relief.number, self._time_limit)

    def _answered(self, relief: Relief, refusal: str) -> None:
        relief.answered(accepted=not refusal)
        if relief.operator is not None:
            self.peer.record(
                MigrationAnswered,
                relief.operator[0],
                operator=relief.operator[1],
                cause=relief.cause,
                target=relief.asked,
                accepted=not refusal,
                reason=refusal,
                seconds=self.peer.now - relief.began,
            )

    # -- migration (3.4.4) -------------------------------------------------------------------------------------------

    @property
    def _time_limit(self) -> float:
        """Seconds after which a migration counts as failed: the limits of its steps at the origin together."""
        return self.session.config.setup + self.session.config.moving + REPLY

    def _relocate_there(self, number: int, left: float) -> None:
        """Ask the origin to move the component to the peer that was asked, again and again until the origin answers."""
        relief = self._relief
        if relief is None or relief.number != number or relief.operator is None:
            return
        member = self.session.members.get(relief.operator[0])
        if member is not None:
            relief.note_graph(member.graph)
        graph = relief.graph  # without a member the last one known: it may have moved already
        if left <= 0.0 or graph is None or (member is not None and member.ended):
            self._give_up(relief, "the origin did not answer in time" if left <= 0.0 else "its application has ended")
        else:
            (application, operator), to = relief.operator, relief.asked
            self.peer.send(graph.origin, Relocate(number, application, graph.attempt, operator, to, relief.moving))
            self.session.moves.early.agree(application, operator, to)
            relief.wait(self.peer.after(REPEAT, self._relocate_there, number, left - REPEAT))

    def _ended(self, sender: str, message: MigrationEndReported) -> None:
        relief = self._relief
        if relief is None or relief.number != message.number or relief.operator is None or message.pending:
            return
        led = self.session.members.get(relief.operator[0])
        if led is not None and sender not in (led.leader, led.graph.origin):
            return  # only who leads the application moves its components
        if message.failure:
            self._not_moved(relief, message.failure)
            return
        if relief.accepted is None:
            self._answered(relief, "")  # its reply is still under way
        self.history.moved("/".join(relief.operator), self.peer.address, relief.asked, self.peer.now)
        known = self.monitor.predictions
        concerned = [known[each] for each in (relief.cause, relief.operator) if each in known]
        times = [max(each.measured, each.predicted) for each in concerned]
        self.monitor.forget(relief.operator)
        member = self.session.members.get(relief.operator[0])
        if member is not None and member.graph.roles.peers.get(relief.operator[1]) == self.peer.address:
            self._left[relief.operator] = member.graph.epoch
        self._record_end(relief, "")
        self._rest.begin(self.peer.now, max(times, default=0.0), self.monitor.utilisation())
        self._next_component(relief)

    def _not_moved(self, relief: Relief, failure: str) -> None:
        """Give up a move; if it began before the candidate had answered, that answer decides what follows."""
        began = relief.stop_moving()
        if relief.operator is not None:
            self.session.moves.early.end(*relief.operator)
        if not began or relief.accepted:
            self._give_up(relief, failure)
        elif relief.accepted is None:
            seconds = max(relief.asked_at + REPLY - self.peer.now, 0.0)
            relief.wait(self.peer.after(seconds, self._no_reply, relief.number))
        else:
            self._ask_next(relief)

    def _give_up(self, relief: Relief, reason: str) -> None:
        """End the search for a target of one component, and go on with the next."""
        component = relief.operator
        self._record_end(relief, reason)
        relief.give_up()
        self._rest.begin(self.peer.now)
        if component is not None and not relief.asked:
            self._report_helpless(component)
            self._not_accepted[component] = self.peer.now + NOT_OFFERED
        self._next_component(relief)

    def _record_end(self, relief: Relief, failure: str) -> None:
        relief.wait(None)
        if relief.operator is not None:
            self.peer.record(
                MigrationEnded,
                relief.operator[0],
                operator=relief.operator[1],
                cause=relief.cause,
                target=relief.asked,
                failure=failure,
                seconds=self.peer.now - relief.began,
            )

    def _report_helpless(self, component: ComponentId) -> None:
        """Inform the origin that this peer has found no target, so that the peer of the next component acts."""
        member = self.session.members.get(component[0])
        if member is not None and not member.ended:
            graph = member.graph
            self.peer.send(graph.origin, NoTargetFound(component[0], graph.attempt, component[1]))
