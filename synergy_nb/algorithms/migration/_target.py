"""The target's part of a migration: projection, reservation and reply (phases 1 to 3 of section 3.4.4).

A peer that is asked to execute a component (the *newcomer*) projects its own state with it: the execution times of all
its components and of the newcomer, at its own predicted total rate plus that of the newcomer. It accepts if the
newcomer has slack and no other component loses its slack. A component that has no slack anyway, because of another
peer, does not count. The peer reserves capacity for what it has accepted, for a limited time, so that two hot spots do
not get the same capacity.

The times of the hops that change are replaced: a tuple arrives at the target later or earlier than at the peer that
asks, and has less or more time left downstream. If the target never measured the round trip to one of the peers
upstream or downstream, it measures it first (:class:`~synergy_nb.algorithms.migration.messages.MeasureHop`).

What a peer measured says as much about its speed, and about other programs there, as about the component. So the peer
that asks sends the *work* of a tuple, its processing time at speed 1, and its line as it would be at that speed; the
target divides by its own present speed. The execution time of the newcomer follows the line of the target's own
component of the same operator and plan, if it has a trusted one; else that line of the peer that asks. If no line is
trusted, it is the processing time plus the mean queueing time of the components that the target executes. If the
utilisation would reach 1, the target refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from synergy_nb.algorithms.migration._candidates import Reservations, at_speed, project
from synergy_nb.algorithms.migration._move_history import MoveHistory
from synergy_nb.algorithms.migration._selection import Execution
from synergy_nb.algorithms.migration._selection import slacks as current_slacks
from synergy_nb.algorithms.migration._slack_monitor import SlackMonitor
from synergy_nb.algorithms.migration.messages import (
    Departure,
    HopMeasured,
    MeasureHop,
    MigrationReply,
    MigrationRequest,
)
from synergy_nb.control.peer import Message, Peer
from synergy_nb.events import MigrationProjected
from synergy_nb.lifecycle.changes.approvals import Asked
from synergy_nb.lifecycle.changes.migration import Migrations
from synergy_nb.lifecycle.records.members import other_replicas
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.plan import Plan

PATIENCE: Final = 1.0  # seconds to wait for the answers of peers whose round trip is measured


class _Question:
    """A request that waits until the round trips to other peers are measured."""

    __slots__ = ("request", "sender", "waiting")

    def __init__(self, sender: str, request: MigrationRequest, waiting: dict[int, tuple[str, float]]) -> None:
        self.sender = sender
        self.request = request
        self.waiting = waiting  # number of a measurement to the address, and the time at which it began


class Target:
    """Answers the peers that ask whether this one can execute a component."""

    def __init__(
        self,
        peer: Peer,
        monitor: SlackMonitor,
        history: MoveHistory,  # recent moves of components; those of an accepted component are added
        config: HotSpotConfig,
        # function of (plan, operator) that returns whether this peer has the component of an operator
        offers: Callable[[Plan, str], bool],
        moves: Migrations,  # protocol of moves, some of which have begun and depend on the answers of this peer
    ) -> None:
        self.peer = peer
        self.monitor = monitor
        self.history = history
        self.config = config
        self.offers = offers
        self.moves = moves
        self.reservations = Reservations(config.reservation)
        self._questions: list[_Question] = []
        self._number = 0
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            MigrationRequest: self._requested,
            MeasureHop: lambda sender, message: peer.send(sender, HopMeasured(message.number)),
            HopMeasured: self._measured,
        }

    # -- measuring the hops ------------------------------------------------------------------------------------------

    def _requested(self, sender: str, message: MigrationRequest) -> None:
        waiting: dict[int, tuple[str, float]] = {}
        for address in sorted(message.departure.hops):
            if address != self.peer.address and self.monitor.latency.one_way(address) is None:
                self._number += 1
                waiting[self._number] = address, self.peer.now
                self.peer.send(address, MeasureHop(self._number))
        question = _Question(sender, message, waiting)
        self._questions.append(question)
        if waiting:
            self.peer.after(PATIENCE, self._answer, question)
        else:
            self._answer(question)

    def _measured(self, sender: str, message: HopMeasured) -> None:
        for question in tuple(self._questions):
            address, began = question.waiting.get(message.number, ("", 0.0))
            if address and address == sender:
                del question.waiting[message.number]
                self.monitor.latency.sample(address, self.peer.now - began)
                if not question.waiting:
                    self._answer(question)

    # -- phase 2 -----------------------------------------------------------------------------------------------------

    def _answer(self, question: _Question) -> None:
        if question not in self._questions:
            return
        self._questions.remove(question)
        departure = question.request.departure
        silent = sorted(address for address, _ in question.waiting.values())
        refusal, rate, slacks = f"{' and '.join(silent)} did not answer", 0.0, dict[str, float]()
        if not silent:
            refusal, rate, slacks = self._project(departure)
        self.peer.record(
            MigrationProjected,
            departure.graph.application,
            operator=departure.operator,
            source=question.sender,
            accepted=not refusal,
            reason=refusal,
            rate=rate,
            slacks=slacks,
        )
        number = question.request.number
        self.peer.send(question.sender, MigrationReply(number, refusal))
        asked = Asked(question.sender, number, departure.graph.application, departure.operator)
        if question.request.moving and not refusal:
            self.moves.early.follow(question.sender, departure.graph, departure.operator)
        self.moves.approvals.answer(asked, refusal)

    def _project(self, departure: Departure) -> tuple[str, float, dict[str, float]]:
        """Project this peer with a component; return the reason of a refusal or "", its total rate, and all slacks."""
        graph, operator = departure.graph, departure.operator
        plan = Plan.from_bytes(graph.plan)
        if self.config.mode == "off":
            return "it does not take part in migrations", 0.0, {}
        if self.peer.address in (graph.roles.peers.get(operator), graph.roles.followers.get(operator)):
            return "it executes the component already", 0.0, {}
        if self.peer.address in other_replicas(graph, plan, operator):
            return "it executes another replica of the operator", 0.0, {}
        if not self.offers(plan, operator):
            return "it does not offer the component", 0.0, {}
        running = {each.name: each for each in self.monitor.executions()}
        reserved = {each.name: each for each in self.reservations.at(self.peer.now) if each.name not in running}
        there = [*running.values(), *reserved.values()]
        newcomer = self.newcomer(departure, plan)
        work = math.fsum(each.rate * each.floor for each in [*there, newcomer])
        margin = self._margin(departure.limit)
        projection = project(there, newcomer, 0.0)
        slacks = dict(projection.slacks)
        if work >= 1.0:
            return f"its utilisation would be {work:.2f}", projection.rate, slacks
        if slacks[newcomer.name] <= margin:
            return f"the slack of {newcomer.name} would be {slacks[newcomer.name]:.3g} s", projection.rate, slacks
        before = current_slacks(there)  # a component that has no slack anyway does not count
        margins = {"/".join(each): self._margin(self.monitor.delay_limit(each)) for each in self.monitor.predictions}
        harmed = []
        for name, slack in before.items():
            least = margins.get(name, 0.0) if slack > margins.get(name, 0.0) else 0.0
            if slack > least >= slacks[name]:
                harmed.append(name)
        if harmed:
            tightest = min(harmed, key=lambda name: (slacks[name], name))
            return f"the slack of {tightest} would be {slacks[tightest]:.3g} s", projection.rate, slacks
        self.reservations.reserve(newcomer, self.peer.now)
        for ago, left in (*departure.moves, (0.0, graph.roles.peers[operator])):
            self.history.moved(newcomer.name, left, self.peer.address, self.peer.now - ago)
        return "", projection.rate, slacks

    def _margin(self, limit: float) -> float:
        """Slack that an application with a delay limit must have here, seconds."""
        return self.config.margin * limit if limit < math.inf else 0.0

    def newcomer(self, departure: Departure, plan: Plan) -> Execution:
        """The execution of the newcomer at this peer."""
        graph, operator = departure.graph, departure.operator
        peers, hops = graph.roles.peers, departure.hops
        since = max((self._extra_delay(peers[up], hops) for up in plan.upstream(operator) if peers[up]), default=0.0)
        until = max(
            (self._extra_delay(peers[down], hops) for down in plan.downstream(operator) if peers[down]), default=0.0
        )
        allowed = departure.departure_limit - until - max(departure.age + since, 0.0)
        speed = self.monitor.speed_for(departure.processor)
        processing = departure.work / speed
        own = self._own_line(plan, operator)
        if own is not None:
            intercept, slope, processing = own
        elif departure.slope >= 0.0:
            intercept, slope = at_speed(departure.intercept, departure.slope, speed)
        else:
            queueing = [each.measured - each.processing for each in self.monitor.predictions.values()]
            intercept = processing + max(math.fsum(queueing) / len(queueing) if queueing else 0.0, 0.0)
            slope = 0.0
        return Execution(departure.name, departure.rate, intercept, slope, allowed, processing)

    def _extra_delay(self, address: str, hops: dict[str, float]) -> float:
        """Seconds by which the hop between this peer and another is longer than that of the peer that asks."""
        return self.monitor.hop(address, hops.get(address, 0.0)) - hops.get(address, 0.0)

    def _own_line(self, plan: Plan, operator: str) -> tuple[float, float, float] | None:
        """Line and processing time of this peer's own component of the same operator; None without a trusted line."""
        asked = plan.operators[operator]
        for (application, name), prediction in sorted(self.monitor.predictions.items()):
            found = self.monitor.components.get((application, name))
            if found is None or prediction.basis != "line" or prediction.slope <= 0.0:
                continue
            other = found.plan.operators[name]
            if (other.kind, msgspec.to_builtins(other.params)) == (asked.kind, msgspec.to_builtins(asked.params)):
                return prediction.intercept, prediction.slope, prediction.processing
        return None

    def release_arrived(self) -> None:
        """End the reservations of components that this peer executes now."""
        for component in self.monitor.predictions:
            self.reservations.release("/".join(component))
