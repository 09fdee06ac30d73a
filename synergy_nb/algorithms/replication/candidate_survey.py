"""Survey of the candidates for active replicas: what each could execute, and its links from the others.

Theory of operation
-------------------
The deployment of replicas needs the delays between any two candidates, and the origin has measured only its own. So it
asks all candidates at once (:class:`CandidateQuestion`). Each answers (:class:`CandidateAnswer`) with its capacity,
with its links from the other candidates, and, for each operator that it offers, with the projected execution time, or
with the reason why it would refuse: the impact on the applications that run there. A peer that has never measured its
delay from another one asks that peer first: a question without a plan is answered at once, and measures the round trip.

A question is asked again until it is answered, and an answer counts once. Peers that stay silent are left out. A
question that measures a delay has a number of its own each time, so an answer to any of them measures the round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from synergy_nb.control.graph import Hop
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Message, Peer, Protocol
from synergy_nb.events import MessageRefused
from synergy_nb.models.delay_matrix import Matrix
from synergy_nb.models.overheads import HOP, Overhead, Overheads
from synergy_nb.models.projection import Impact, refused
from synergy_nb.overlay.answer_limits import AnswerLimit, AnswerLimits
from synergy_nb.overlay.latency import Latency
from synergy_nb.plan import Plan

__all__ = [
    "MOST_CANDIDATES",
    "CandidateAnswer",
    "CandidateQuestion",
    "CandidateSurvey",
    "IncomingLink",
    "delays_between",
]

Project = Callable[[str, Plan, str, Sequence[str], float], tuple[float, list[Impact]]]

MOST_CANDIDATES: Final = 32  # maximum number of candidates that are asked for an operator: those nearest to the origin
ANSWER_TIME: Final = 2.5  # seconds until candidates that have not answered are left out
MEASURING_TIME: Final = 1.2  # seconds, likewise, for a question that only measures the delay
MOST_SENDS: Final = 3  # largest number of times that a question is sent


class IncomingLink(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A virtual link to a candidate from another one."""

    bandwidth: float  # residual bandwidth, bytes/s
    delay: float  # one-way delay, seconds
    # transmission, variance: mean time until a frame has arrived and been read, seconds, and its variance in seconds
    # squared
    transmission: float
    variance: float


class CandidateQuestion(Message, frozen=True):
    """A question: what could the receiver execute of an encoded plan, and how far are ``peers`` from it?

    Without a plan, the question only measures the time until the answer.
    """

    number: int
    request: str
    plan: bytes
    peers: tuple[str, ...]


class CandidateAnswer(Message, frozen=True):
    """The answer of a candidate to :class:`CandidateQuestion`."""

    number: int
    # cores, free: processing capacity of the sender, and the part of it that is not committed, cores
    cores: float
    free: float
    hops: dict[str, Hop]  # name of each operator that the sender would execute to its projected execution there
    refusals: dict[str, str]  # name of each operator that the sender offers but would not execute to the reason
    # address of another candidate to the link from it; without those whose delay is not known
    links: dict[str, IncomingLink]
    # failure, domains: probability that the sender fails by itself, and the failure domains that it depends on, with
    # theirs
    failure: float = 0.0
    domains: dict[str, float] = msgspec.field(default_factory=dict)


class _Question:
    """A question that not all peers have answered."""

    __slots__ = ("answers", "done", "message", "sent", "timer", "waiting")

    def __init__(
        self, message: CandidateQuestion, waiting: set[str], done: Callable[[dict[str, CandidateAnswer]], None]
    ) -> None:
        self.message = message
        self.waiting = waiting
        self.done = done
        self.answers: dict[str, CandidateAnswer] = {}
        self.sent: list[tuple[int, float]] = []  # number and time (s) of each time that it was sent
        self.timer: AnswerLimit | None = None


class CandidateSurvey(Protocol):
    """Asks candidates for what they could execute, and answers such questions."""

    def __init__(
        self,
        peer: Peer,
        ledger: Ledger,
        latency: Latency,
        overheads: Overheads,
        # function that returns the execution time of a component here and its impact on the applications here, see
        # `project`
        project: Project,
        # function of (plan, operator) that returns whether this peer has the component
        offers: Callable[[Plan, str], bool],
        answers: AnswerLimits,  # time limits on the answers of other peers
        # failure, domains: probability that this peer fails by itself, and the failure domains that it depends on, with
        # theirs
        failure: float = 0.0,
        domains: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(peer)
        self._limits = answers
        self._failing = failure, dict(domains or {})
        self._ledger = ledger
        self._latency = latency
        self._overheads = overheads
        self._project = project
        self._offers = offers
        self._number = 0
        self._questions: dict[int, _Question] = {}
        self._answering: set[tuple[str, int]] = set()  # questions whose answer waits for measurements
        self.handlers = {CandidateQuestion: self._asked, CandidateAnswer: self._answered}

    def start(self) -> None:
        """Start with numbers that this peer has not used before a restart."""
        self._number = int(self.peer.now * 1000)

    @property
    def idle(self) -> bool:
        """Whether no question and no answer is under way here."""
        return not self._questions and not self._answering

    def ask(
        self, request: str, plan: Plan, peers: Collection[str], done: Callable[[dict[str, CandidateAnswer]], None]
    ) -> None:
        """Ask peers what they could execute of a plan, and call ``done`` with the answers by address.

        ``request``, ``plan``: id of the request, and its plan without replicas; ``peers``: addresses of the candidates,
        which may include this peer; ``done``: callback for the answers, which may lack some.
        """
        self._ask(
            CandidateQuestion(self._next(), request, plan.to_bytes(), tuple(sorted(peers))), peers, ANSWER_TIME, done
        )

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ask(
        self,
        message: CandidateQuestion,
        peers: Collection[str],
        seconds: float,
        done: Callable[[dict[str, CandidateAnswer]], None],
    ) -> None:
        """Send a question to peers; after ``seconds`` those that have not answered are left out."""
        self._send(_Question(message, set(peers), done), seconds)

    def _send(self, question: _Question, seconds: float) -> None:
        if len(question.sent) == MOST_SENDS:
            self._complete(question)
            return
        message = question.message
        if question.sent and not message.plan:
            message = msgspec.structs.replace(message, number=self._next())
        question.sent.append((message.number, self.peer.now))
        self._questions[message.number] = question
        question.timer = self._limits.after(seconds / MOST_SENDS, question.waiting, self._send, question, seconds)
        for address in sorted(question.waiting):
            self.peer.send(address, message)

    def _complete(self, question: _Question) -> None:
        if question.timer is not None:
            question.timer.cancel()
        for number, _ in question.sent:
            self._questions.pop(number, None)
        question.done(question.answers)

    def _answered(self, sender: str, message: CandidateAnswer) -> None:
        """Note an answer; when all have answered, the question is complete."""
        question = self._questions.get(message.number)
        if question is None or sender not in question.waiting:
            return
        question.waiting.discard(sender)
        question.answers[sender] = message
        if not question.message.plan:
            self._latency.sample(sender, self.peer.now - dict(question.sent)[message.number])
        if not question.waiting:
            self._complete(question)

    # -- at candidates -------------------------------------------------------------------------------------------------

    def _asked(self, sender: str, message: CandidateQuestion) -> None:
        """Answer a question, after the delays from unknown peers were measured."""
        if not message.plan:
            self.peer.send(sender, CandidateAnswer(message.number, self._ledger.cores, 0.0, {}, {}, {}))
            return
        try:
            plan = Plan.from_bytes(message.plan)
        except ValueError as error:
            self.peer.record(MessageRefused, sender, message="CandidateQuestion", reason=str(error))
            return
        key = sender, message.number
        if key in self._answering:
            return  # a repetition: the answer follows
        others = [each for each in message.peers if each != self.peer.address]
        unknown = [each for each in others if self._latency.one_way(each) is None]

        def answer(_: dict[str, CandidateAnswer]) -> None:
            self._answering.discard(key)
            self.peer.send(sender, self.candidate(message, plan, others))

        if unknown:
            self._answering.add(key)
            self._ask(CandidateQuestion(self._next(), message.request, b"", ()), unknown, MEASURING_TIME, answer)
        else:
            answer({})

    def candidate(self, message: CandidateQuestion, plan: Plan, others: Sequence[str]) -> CandidateAnswer:
        """Answer of this peer: the operators that it would execute, those that it refuses, and its incoming links."""
        request = message.request
        hops: dict[str, Hop] = {}
        refusals: dict[str, str] = {}
        free = self._ledger.residual_cores(request)
        for operator in plan.operators:
            if not self._offers(plan, operator):
                continue
            processing, impacts = self._project(request, plan, operator, (), 0.0)
            victim = refused(impacts) if self._ledger.enforce else None
            if victim is not None or processing == float("inf"):
                refusals[operator] = f"QoS impact on {victim}" if victim is not None else "no capacity is left"
                continue
            stated, overhead = plan.processing_time(operator), self._overheads.component(plan, operator)
            variance = max(processing * processing - stated * stated, 0.0) + overhead.variance
            hops[operator] = Hop(
                operator, self.peer.address, free, float("inf"), processing + overhead.mean, 0.0, variance
            )
        links = {each: link for each in others if (link := self._link(request, each)) is not None}
        return CandidateAnswer(message.number, self._ledger.cores, free, hops, refusals, links, *self._failing)

    def _link(self, request: str, upstream: str) -> IncomingLink | None:
        """The link from another peer; None if its delay is not known."""
        delay = self._latency.one_way(upstream)
        if delay is None:
            return None
        pinged = None if self._overheads.empty else self._latency.one_way_overhead(upstream)
        one_way = pinged or Overhead(delay, self._latency.deviation(upstream) ** 2)
        taking = self._overheads.expected(HOP)
        bandwidth = self._ledger.residual_bandwidth(request, upstream)
        return IncomingLink(bandwidth, one_way.mean, one_way.mean + taking.mean, one_way.variance + taking.variance)


def delays_between(peers: Sequence[str], answers: Mapping[str, CandidateAnswer], origin: str) -> Matrix:
    """Return one-way delays between peers, seconds, shape (peers, peers).

    If neither of two peers has measured the delay between them, it is at least the difference of their delays from the
    origin, and that is returned.

    ``peers``: addresses of the peers, in the order of rows and columns; ``answers``: address to what that peer has
    answered; some may be missing; ``origin``: address of the origin.
    """
    count = len(peers)
    found = np.zeros((count, count))

    def known(one: str, other: str) -> float | None:
        both = ((one, other), (other, one))
        ways = [answers[to].links[at].delay for at, to in both if to in answers and at in answers[to].links]
        return sum(ways) / len(ways) if ways else None

    for i, one in enumerate(peers):
        for j, other in enumerate(peers[:i]):
            delay = known(one, other)
            if delay is None:
                delay = abs((known(origin, one) or 0.0) - (known(origin, other) or 0.0)) if origin in answers else 0.0
            found[i, j] = found[j, i] = delay
    return found
