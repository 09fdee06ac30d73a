"""Agreements: a peer commits a component only after the origins of all applications that it would delay have agreed.

Theory of operation
-------------------
In the dissertation, each peer compares the last measured delay of an application, and what a component would add to it
here, with the limit of the application (section 2.3.4). What other peers add at the same time does not count. So
several requests for a popular query, which are composed at the same moment and at the same fastest peers, each pass the
check, and together exceed the limits of all of them; and whoever reads the stream of one of them is late as well.

With agreements (:class:`~synergy_nb.algorithms.composition.CompositionConfig`, ``agreed``), the delay of an application
is an account that its origin keeps: the delay that probes projected, and for each peer the seconds by which the
components there, those of shared streams included, now take longer than they were projected to (``grown``). Before a
peer commits a component, it computes ``grown`` with this component for each application here that has a limit, the new
one included, and asks the origins (:class:`GrowthAsked`). An origin agrees, and books the seconds, if the sum is within
the limit, or if the components at this peer would grow by no more than they have (:class:`GrowthAnswered`). If an
origin refuses, the component is refused, and the origin of the request tries its next best graph. A peer handles one
component after the other. So the sum of all that peers have committed is within every limit at any time, without a lock
on more than one peer.

An origin asks in the same way whether the application may read the shared streams of a peer: what the projection of
another application promised may be out of date.

A peer that has asked for more than it needs, because a component was refused or has left, says so
(:class:`GrowthChanged`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from synergy_nb.control.peer import Message, Peer
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.messages import Graph, GrowthAnswered, GrowthAsked, GrowthChanged
from synergy_nb.lifecycle.sessions.impact import Impacts
from synergy_nb.models.projection import WITHIN
from synergy_nb.overlay.answer_limits import AnswerLimit, AnswerLimits
from synergy_nb.plan import Plan

__all__ = ["Agreements"]

EQUAL: Final = 1e-9  # difference of times below which they count as equal, seconds
UNANSWERED: Final = 1.0  # seconds after which an origin that has not answered counts as one that refuses

Agreed = Callable[[str], None]
"""Callback for the answer: an empty text, or the reason of a refusal."""


class _Account:
    """The delay of an application that this peer leads."""

    __slots__ = ("attempt", "grown", "limit", "projected")

    def __init__(self, attempt: int, projected: float, limit: float) -> None:
        self.attempt = attempt
        self.projected = projected
        self.limit = limit
        self.grown: dict[str, float] = {}  # peer to seconds

    @property
    def delay(self) -> float:
        return self.projected + sum(self.grown.values())


class _Question:
    """A component that waits for the agreement of origins."""

    __slots__ = ("answered", "asked", "member", "operator", "timer")

    def __init__(self, member: Member, operator: str, answered: Agreed) -> None:
        self.member = member
        self.operator = operator  # empty for the shared streams of the member
        self.answered = answered
        self.asked: dict[str, float] = {}  # application whose origin has not answered, to the seconds that it was asked
        self.timer: AnswerLimit | None = None


class Agreements:
    """Keeps the accounts of the applications that a peer leads, and asks the origins of others."""

    def __init__(self, peer: Peer, impacts: Impacts, members: Mapping[str, Member], answers: AnswerLimits) -> None:
        self.peer = peer
        self._answers = answers
        self.impacts = impacts
        self.members = members  # member records of the applications in which the peer takes part, by id
        self._accounts: dict[str, _Account] = {}
        self._waiting: deque[_Question] = deque()  # the first one has been asked
        self._told: dict[str, tuple[str, int, float]] = {}  # application to its origin, attempt, and booked seconds
        self.handlers: dict[type[Message], Callable[[str, Any], None]] = {
            GrowthAsked: self._asked,
            GrowthAnswered: self._answered,
            GrowthChanged: self._changed,
        }

    # -- at origins --------------------------------------------------------------------------------------------------

    def open(self, graph: Graph) -> None:
        """Open the account of an application that is set up, if it has a limit and projected times."""
        limit = Plan.from_bytes(graph.plan).qos.delay
        if graph.promised and limit is not None:
            projected = max(graph.reached.values(), default=0.0)
            self._accounts[graph.application] = _Account(graph.attempt, projected, limit)

    def close(self, application: str) -> None:
        """Close the account of an application that has ended."""
        self._accounts.pop(application, None)

    def delay(self, application: str) -> float:
        """Return the delay of an application by its account, seconds; negative if it has none."""
        account = self._accounts.get(application)
        return -1.0 if account is None else account.delay

    def _asked(self, sender: str, message: GrowthAsked) -> None:
        account, reason = self._accounts.get(message.application), ""
        if account is not None and account.attempt == message.attempt:
            booked = account.grown.get(sender, 0.0)
            delay = account.delay - booked + message.seconds
            if delay <= account.limit * WITHIN or message.seconds <= booked + EQUAL:
                account.grown[sender] = message.seconds
            else:
                reason = f"{message.application}: {delay:.4g} s with it, limit {account.limit:.4g} s"
        now = -1.0 if account is None else account.delay
        self.peer.send(sender, GrowthAnswered(message.application, message.attempt, message.seconds, now, reason))

    def _changed(self, sender: str, message: GrowthChanged) -> None:
        account = self._accounts.get(message.application)
        if account is not None and account.attempt == message.attempt:
            account.grown[sender] = message.seconds

    # -- at peers with components ------------------------------------------------------------------------------------

    def ask(self, member: Member, operator: str, answered: Agreed) -> None:
        """Ask whether a component may be committed here, or for no operator whether shared streams may be read.

        ``member``: record of the application; ``operator``: operator that is to be executed here; empty for the
        components of others whose streams it reads; ``answered``: callback for the answer; it is called before the next
        question is asked.
        """
        if any(each.member is member and each.operator == operator for each in self._waiting):
            return  # a duplicate
        self._waiting.append(_Question(member, operator, answered))
        if len(self._waiting) == 1:
            self._next()

    def _next(self) -> None:
        """Ask the first waiting question."""
        while self._waiting:
            question = self._waiting[0]
            member = question.member
            if self.members.get(member.graph.application) is not member:
                self._waiting.popleft()  # it has left meanwhile
                continue
            grown = self.impacts.grown(member, question.operator)
            for application, seconds in grown.items():
                asked = member if application == member.graph.application else self.members[application]
                origin, attempt, told = asked.graph.origin, asked.graph.attempt, self._booked(asked)
                if abs(seconds - told) > EQUAL and (question.operator or asked is member):
                    question.asked[application] = seconds
                    self.peer.send(origin, GrowthAsked(application, attempt, seconds))
            if question.asked:
                origins = [self.members[each].graph.origin for each in question.asked]
                question.timer = self._answers.after(UNANSWERED, origins, self._unanswered, question)
                return
            self._finish(question, "")

    def _booked(self, member: Member) -> float:
        """Seconds that the origin of an application has booked for this peer."""
        _, attempt, seconds = self._told.get(member.graph.application, ("", 0, 0.0))
        return seconds if attempt == member.graph.attempt else 0.0

    def _answered(self, sender: str, message: GrowthAnswered) -> None:
        question = self._waiting[0] if self._waiting else None
        if question is None or question.asked.get(message.application) != message.seconds:
            return  # too late
        seconds = question.asked.pop(message.application)
        member = self.members.get(message.application)
        if member is not None and member.graph.attempt == message.attempt:
            member.hear_account(message.delay)
        if message.reason:
            self._finish(question, message.reason)
            self._next()
            return
        self._told[message.application] = sender, message.attempt, seconds
        if not question.asked:
            self._finish(question, "")
            self._next()

    def _unanswered(self, question: _Question) -> None:
        if self._waiting and self._waiting[0] is question:
            self._finish(question, f"no answer from the origin of {', '.join(sorted(question.asked))}")
            self._next()

    def _finish(self, question: _Question, reason: str) -> None:
        if question.timer is not None:
            question.timer.cancel()
        for application, seconds in question.asked.items():  # they may book it yet
            member = self.members.get(application)
            if member is not None:
                self._told[application] = member.graph.origin, member.graph.attempt, seconds
        member = question.member
        if self.members.get(member.graph.application) is member:
            question.answered(reason)
        self._waiting.popleft()
        self.correct()

    def tell(self, member: Member) -> None:
        """Tell the new leader of an application what the earlier one had booked for this peer."""
        application, leader = member.graph.application, member.leader
        _, attempt, seconds = self._told.get(application, ("", 0, 0.0))
        if attempt == member.graph.attempt:
            self._told[application] = leader, attempt, seconds
            self.peer.send(leader, GrowthChanged(application, attempt, seconds))

    def correct(self) -> None:
        """Tell origins that have booked another time than the components here take now."""
        if not self._told or (self._waiting and self._waiting[0].timer is not None):
            return  # what is asked at present is corrected with the answer
        grown = self.impacts.grown()
        for application, (origin, attempt, booked) in list(self._told.items()):
            member = self.members.get(application)
            here = member is not None and member.graph.attempt == attempt
            seconds = grown.get(application, 0.0) if here else 0.0
            if abs(seconds - booked) > EQUAL:
                self.peer.send(origin, GrowthChanged(application, attempt, seconds))
                self._told[application] = origin, attempt, seconds
            if not here:
                del self._told[application]
