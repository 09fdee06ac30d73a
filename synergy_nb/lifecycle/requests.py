"""The applications of one origin, from submission to their end: the engine that all of them go through.

Theory of operation
-------------------
``submit`` makes the record of a request. The directory is asked, once, who offers what the plan needs and which of its
streams run; from that follow the ways to run the plan (:mod:`~synergy_nb.lifecycle.alternatives`). A decider says who
executes what on the first way (:mod:`~synergy_nb.lifecycle.decider`), and the session sets that up
(:mod:`~synergy_nb.lifecycle.sessions`). Where a graph cannot be set up, the decider is asked for the next one; where it
has none, it may ask for one more look at the directory, or the next way is tried; where there is none left, the request
is rejected with the reasons. What may follow what is in :mod:`synergy_nb.events.application_states`, and is checked at
each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from synergy_nb.control.peer import Peer
from synergy_nb.events import ENDINGS, EnginesChanged, RequestSubmitted, SharingFound, SharingGivenUp
from synergy_nb.events.application_states import ENDED, UNDECIDED, State
from synergy_nb.lifecycle.alternatives import Alternative, Alternatives, Found
from synergy_nb.lifecycle.decider import Answer, Decider, Decision, names
from synergy_nb.lifecycle.request import Request
from synergy_nb.lifecycle.sessions import Session
from synergy_nb.overlay.directory import Directory
from synergy_nb.plan import Plan
from synergy_nb.plan.placement_modes import check_placement, replicates
from synergy_nb.plan.spark_parts import parts_of

__all__ = ["REMEMBERED", "Requests"]

ROUTES: Final = 256  # of a plan, from sources to sinks: each is probed, and splits that join again double them
REMEMBERED: Final = 1000  # requests; of more, those that ended first are forgotten, and their results


class Requests(Mapping[str, Request]):
    """The requests that were submitted at a peer, by their ids, in the order of submission.

    Parameters
    ----------
    peer
        The peer.
    directory
        Knows who offers what.
    session
        Sets graphs up, keeps what runs, and ends it.
    ways
        Finds the ways to run a plan.
    deciders
        Decide who executes what: ``composed``, ``resilient``, and ``replicated`` where this peer places replicas.
    discovery
        Time allowed for an answer of the directory, seconds.
    """

    def __init__(
        self,
        peer: Peer,
        directory: Directory,
        session: Session,
        ways: Alternatives,
        deciders: Mapping[str, Decider],
        discovery: float,
    ) -> None:
        self._peer = peer
        self._directory = directory
        self._session = session
        self._ways = ways
        self._deciders = dict(deciders)
        self._discovery = discovery
        self._requests: dict[str, Request] = {}
        ways.on_parts.append(self._on_parts)
        session.on_established.append(self._established)
        session.on_ended.append(self._ended)

    def __getitem__(self, name: str) -> Request:
        return self._requests[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def undecided(self) -> frozenset[str]:
        """Requests of which it is not decided whether they run."""
        return frozenset(name for name, each in self._requests.items() if each.state in UNDECIDED)

    # -- what is asked for -------------------------------------------------------------------------------------------

    def submit(self, name: str, plan: Plan, placement: str = "composed") -> None:
        """Decide on a plan, and run it; the driver is told what becomes of it.

        Parameters
        ----------
        name
            Id of the application.
        plan
            Query plan to run.
        placement
            How its components find their peers, where it does not ask for replicas: ``composed`` or ``resilient``.

        Raises
        ------
        ValueError
            If the id is in use, or if the plan cannot be placed in that way by this peer.
        """
        check_placement(plan, placement)
        known = self._requests.get(name)
        if known is not None and known.status not in ENDED:
            raise ValueError(f"request: {name!r}; expected an identifier that is not in use")
        decided_by = "replicated" if replicates(plan) else placement
        if decided_by not in self._deciders:
            raise ValueError("qos.availability: this peer places no replicas; expected none")
        self._make_room()
        request = self._requests[name] = Request(name, plan, decided_by, self._peer.now)
        self._peer.record(
            RequestSubmitted,
            name,
            plan=plan.name,
            operators=list(plan.operators),
            qos=plan.qos.numbers,
            scheduling=plan.qos.scheduling or "",
            overdue=plan.qos.overdue or "",
        )
        routes = _count_routes(plan)
        if routes > ROUTES:
            self._reject(request, f"{routes} routes lead from its sources to its sinks; at most {ROUTES} can be probed")
            return
        if decided_by != "composed":  # who proposes where components go decides on all of them
            request.ways, request.way = [], self._ways.bound(name, plan)
        self._discover(request)

    def stop(self, name: str) -> bool:
        """End a request, whatever its state, and forget its results; False if it is unknown or has ended before."""
        request = self._requests.get(name)
        if request is None:
            return False
        if request.state in UNDECIDED:
            self._decider(request).release(request)
        stopped = self._session.stop(name)
        if request.state in (State.DISCOVERING, State.DECIDING):
            self._end(request, State.STOPPED, "")
            return True
        if request.state is State.FINISHED:
            request.to(State.STOPPED)
        return stopped

    def collected(self, name: str) -> None:
        """Forget the results of an application that has finished: whoever asked for them has them all."""
        if self._requests[name].state is State.FINISHED:
            self._session.stop(name)

    def _make_room(self) -> None:
        """Forget requests that have ended, to have room for one more."""
        while len(self._requests) >= REMEMBERED:
            ended = next((name for name, each in self._requests.items() if each.status in ENDED), None)
            if ended is None:
                return
            self._session.stop(ended)
            del self._requests[ended]

    # -- discovering -------------------------------------------------------------------------------------------------

    def _discover(self, request: Request) -> None:
        """Ask who offers the components of the plan, and at first what is needed to know the ways to run it."""
        wanted = names(request.way.plan)
        if request.ways is None:
            wanted |= self._ways.names(request.plan)
        self._directory.lookup(sorted(wanted), lambda found: self._discovered(request, found), self._discovery)

    def _discovered(self, request: Request, found: Found | None) -> None:
        if self._requests.get(request.name) is not request or request.state is not State.DISCOVERING:
            return  # given up meanwhile
        if found is None:
            self._reject(request, "the directory did not answer in time")
            return
        if request.ways is None:
            request.way, *request.ways = self._ways.of(request.name, request.plan, found)
            if request.way.shared:
                points = {tap: sorted(hosts) for tap, hosts in request.way.shared.items()}
                self._peer.record(SharingFound, request.name, points=points)
        request.to(State.DECIDING)
        self._decider(request).decide(request, found, self._decided)

    def _on_parts(self, name: str) -> None:
        self._requests[name].on_spark = True

    # -- deciding ----------------------------------------------------------------------------------------------------

    def _decider(self, request: Request) -> Decider:
        return self._deciders[request.decided_by]

    def _decided(self, request: Request, answer: Answer) -> None:
        """A decider has answered."""
        if self._requests.get(request.name) is not request or request.state is not State.DECIDING:
            return  # given up meanwhile
        if isinstance(answer, Decision):
            request.to(State.ESTABLISHING)
            self._session.establish(request, answer.roles, answer.reached)
        elif answer.again:
            request.to(State.DISCOVERING)
            self._discover(request)
        elif request.ways:
            self._go_another_way(request, request.ways, answer.reason)
        else:
            self._reject(request, answer.reason)

    def _go_another_way(self, request: Request, ways: list[Alternative], reason: str) -> None:
        given_up, request.way = request.way, ways.pop(0)
        if given_up.shared:
            self._peer.record(SharingGivenUp, request.name, reason=reason)
        else:
            self._peer.record(EnginesChanged, request.name, reason=reason, parts=parts_of(request.way.plan))
        request.to(State.DISCOVERING)
        self._discover(request)

    def _reject(self, request: Request, reason: str) -> None:
        self._decider(request).release(request)
        self._end(request, State.REJECTED, reason)

    def _end(self, request: Request, state: State, reason: str) -> None:
        """End a request of which nothing has been set up."""
        request.to(state, reason)
        self._peer.record(ENDINGS[request.status], request.name, reason=reason)
        self._peer.instruct(request.report())

    # -- set up, and ended -------------------------------------------------------------------------------------------

    def _established(self, request: Request, refusal: str) -> None:
        """The session runs, or cannot be set up for the reason that is given."""
        if refusal:
            self._decider(request).next(request, refusal, self._decided)
        else:
            self._decider(request).established(request)

    def _ended(self, request: Request) -> None:
        """An application that was set up has ended."""
        self._decider(request).release(request)


def _count_routes(plan: Plan) -> int:
    """How many paths lead from a source to a sink, without following each."""
    count: dict[str, int] = {}
    for operator in plan.operators:
        count[operator] = sum(count[upstream] for upstream in plan.upstream(operator)) or 1
    return sum(count[sink] for sink in plan.sinks)
