"""Feedback (section 2.3.4): an origin sends the measured execution times of its applications once a second.

Feedback is also the lease of a session. One message carries the feedback of many applications to a peer, so the number
of messages hardly grows with the number of applications.

*Predicted times* (section 3.3.1) take the same path: each peer reports those of its components to the origin
(:class:`~synergy_nb.lifecycle.records.messages.TimesReported`), and the origin sends those of the whole application
with its feedback, as soon as they have changed, and every ten rounds in any case. So each peer knows the times
downstream of its components, from which the slack of tuples follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from synergy_nb.control.peer import Message, Timer
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.messages import (
    ComponentTimes,
    Feedback,
    GraphChanged,
    MeasuredApplication,
    TimesReported,
)
from synergy_nb.lifecycle.sessions.leases import Leases
from synergy_nb.lifecycle.sessions.participation import Participation

__all__ = ["Feedbacks"]

PER_MESSAGE: Final = 256  # maximum number of applications in one message
ROUNDS: Final = 10  # rounds after which unchanged times are sent again
CHANGED: Final = 0.05  # relative change of a predicted time that is sent at once
LEAST_CHANGE: Final = 1e-3  # seconds: a smaller change of a predicted time is not sent at once
HELPLESS: Final = 10.0  # seconds for which a peer counts as helpless after its report


class _PredictedTimes:
    """Predicted times of an application that the peer leads, and those that its feedback has carried."""

    __slots__ = ("helpless", "rounds", "sent", "times")

    def __init__(self) -> None:
        self.times: dict[str, ComponentTimes] = {}  # latest, by operator
        self.sent: dict[str, ComponentTimes] = {}  # those in the last feedback that carried any
        self.rounds = 0  # rounds since then
        self.helpless: dict[str, float] = {}  # operator to the time until which its peer counts as helpless

    def next(self, now: float) -> tuple[dict[str, ComponentTimes], tuple[str, ...]]:
        """Return the times that the next feedback carries, and the operators whose peers are helpless."""
        self.rounds += 1
        changed = self.times.keys() != self.sent.keys() or any(
            _differ(times, self.sent[operator]) for operator, times in self.times.items()
        )
        if changed or self.rounds >= ROUNDS:
            self.rounds, self.sent = 0, dict(self.times)
        self.helpless = {operator: until for operator, until in self.helpless.items() if until > now}
        return self.sent if not self.rounds else {}, tuple(sorted(self.helpless))


def _differ(one: ComponentTimes, other: ComponentTimes) -> bool:
    """Whether two predictions of a component differ so much that the later one is sent at once."""
    pairs = [(one.seconds, other.seconds), (one.processing, other.processing)]
    pairs += [(seconds, other.hops.get(up, 0.0)) for up, seconds in one.hops.items()]
    return any(abs(a - b) > max(LEAST_CHANGE, CHANGED * max(a, b)) for a, b in pairs)


class Feedbacks:
    """Sends the feedback of the applications that a peer leads, and expires leases of those in which it takes part."""

    def __init__(
        self,
        # applications in which the peer takes part; their sources here run, and their streams are offered, from the
        # first feedback on
        participation: Participation,
        # leases, which feedback renews, and by which a peer asks for a graph that is later than its own
        leases: Leases,
        # function that returns the delay of an application that the peer leads by its account, seconds; negative
        # without one
        account: Callable[[str], float],
        # function that returns the measured delay of an application that the peer leads, seconds; negative before the
        # first measurement
        delay: Callable[[str], float],
    ) -> None:
        self._participation = participation
        self._peer = participation.peer
        self._config = participation.config
        self._members = participation.members
        self._led = participation.led
        self._leases = leases
        self._account = account
        self._delay = delay
        self._timer: Timer | None = None
        self._predicted: dict[str, _PredictedTimes] = {}  # by application that the peer leads
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            Feedback: self._feedback,
            TimesReported: self._times_reported,
        }

    # -- at the origin -----------------------------------------------------------------------------------------------

    def begin(self, application: str) -> None:
        """Send the first feedback of an application now, and further feedback while it runs."""
        self._send((application,))
        if self._timer is None:
            self._timer = self._peer.after(self._config.feedback, self._round)

    def _round(self) -> None:
        running = [application for application, request in self._led.items() if request.running]
        self._send(running)
        self._timer = self._peer.after(self._config.feedback, self._round) if running else None

    def _send(self, applications: Iterable[str]) -> None:
        measurements: dict[str, list[MeasuredApplication]] = {}
        for application in applications:
            graph = self._led[application].graph
            predicted = self._predicted.get(application)
            times, helpless = ({}, ()) if predicted is None else predicted.next(self._peer.now)
            delay, account = self._delay(application), self._account(application)
            epoch = graph.epoch if self._led[application].state is State.RUNNING else 0  # else it may not be published
            measured = MeasuredApplication(application, graph.attempt, delay, times, helpless, account, epoch)
            for address in graph.addresses:
                measurements.setdefault(address, []).append(measured)
        for address, sent in measurements.items():
            for start in range(0, len(sent), PER_MESSAGE):
                self._peer.send(address, Feedback(tuple(sent[start : start + PER_MESSAGE])))

    def _times_reported(self, sender: str, message: TimesReported) -> None:
        for reported in message.times:
            request = self._led.get(reported.application)
            if request is None or not request.running or request.graph.attempt != reported.attempt:
                continue
            times = self._of(reported.application).times
            peers = request.graph.roles.peers
            times.update((name, each) for name, each in reported.components.items() if peers.get(name) == sender)

    def _of(self, application: str) -> _PredictedTimes:
        for ended in self._predicted.keys() - self._led.keys():
            del self._predicted[ended]
        return self._predicted.setdefault(application, _PredictedTimes())

    def note_helpless(self, application: str, operator: str) -> None:
        """Note that the peer of a component cannot relieve it; the next feedback informs the other peers."""
        if application in self._led:
            self._of(application).helpless[operator] = self._peer.now + HELPLESS

    # -- at members --------------------------------------------------------------------------------------------------

    def _feedback(self, sender: str, message: Feedback) -> None:
        for measured in message.measured:
            member = self._members.get(measured.application)
            if member is None or member.graph.attempt != measured.attempt:
                self._participation.absent(sender, measured.application, measured.attempt)
                continue
            if sender != member.leader:  # the sender has not heard that another peer leads the application now
                if member.graph.origin == member.leader:
                    self._peer.send(sender, GraphChanged(member.graph))
                continue
            self._leases.heard(member)
            self._participation.start(member)  # the Begin message may have been lost
            if member.hear(measured, own=sender == self._peer.address):
                self._participation.components.offer(measured.application, member.sharable_operators)
            if measured.epoch > member.graph.epoch and not member.ended:
                self._leases.ask(member)
