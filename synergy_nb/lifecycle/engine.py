"""The engine that takes every submitted plan of one origin from its submission to its end.

Theory of operation
-------------------
1. :meth:`Requests.submit` creates the record of the request. State *discovering*.
2. The engine asks the directory, once, which peers offer the components of the plan and which of its streams run.
3. The answer gives the alternatives, the preferred one first (:mod:`~synergy_nb.lifecycle.requests.alternatives`).
4. A decider chooses the peers for the first alternative (:mod:`~synergy_nb.lifecycle.requests.decider`). State
   *deciding*.
5. The session sets the chosen graph up (:mod:`~synergy_nb.lifecycle.session`). State *establishing*, then *running*.
6. If the set-up fails, the engine asks the decider for its next graph. If the decider has none, it may ask the engine
   to query the directory again; otherwise the engine tries the next alternative, or, if none is left, rejects the
   request with the reasons.

A request that nobody has refused, but not all have answered in time, begins anew, for at most ``patience``: some peer
may be late, or have been stopped. So does one that lacks a component while some peer is silent.

A request may wait in the state *discovering*, for a stream that can be shared soon: while another request for the same
stream is composed (:mod:`~synergy_nb.lifecycle.requests.claims`), or if a peer refuses a component of its graph because
it makes the stream of that component already.

:mod:`synergy_nb.events.application_states` lists which state may follow which; every change of state is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from synergy_nb.control.peer import Peer
from synergy_nb.control.rights import Rights
from synergy_nb.events import ENDINGS, EnginesChanged, RequestPostponed, RequestSubmitted, SharingFound, SharingGivenUp
from synergy_nb.events.application_states import ENDED, LASTING, UNDECIDED, State
from synergy_nb.lifecycle.records.messages import Entrusted
from synergy_nb.lifecycle.records.request import Alternative, Request
from synergy_nb.lifecycle.requests.alternatives import Alternatives, DirectoryEntries
from synergy_nb.lifecycle.requests.claims import INTERVAL, Claims
from synergy_nb.lifecycle.requests.client_leases import ClientLeases
from synergy_nb.lifecycle.requests.decider import Decider, Decision, Refusal, component_names
from synergy_nb.lifecycle.requests.kept_promises import KeptPromises
from synergy_nb.lifecycle.requests.plan_changes import RequestChanges, check_durable
from synergy_nb.lifecycle.session import Session
from synergy_nb.overlay.directory import Directory
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.placement_modes import SPREAD, decider_of
from synergy_nb.plan.derived.spark_parts import parts_of
from synergy_nb.reporting.formatting import known_rows

__all__ = ["MAX_RETAINED", "Requests"]

# maximum number of routes of a plan from sources to sinks: each is probed, and a split that joins again doubles them
MAX_ROUTES: Final = 256
# maximum number of requests; beyond it, the oldest ended ones are discarded with their results
MAX_RETAINED: Final = 1000


class Requests(Mapping[str, Request]):
    """The requests that were submitted at a peer, by id, in the order of submission; and those that it leads on."""

    def __init__(
        self,
        peer: Peer,
        directory: Directory,
        session: Session,  # session protocol, which sets graphs up, renews their leases and ends them
        alternatives: Alternatives,
        # deciders by name: `composed`, `resilient`, `active`, and `replicated` where this peer places backups
        deciders: Mapping[str, Decider],
        discovery: float,  # time limit for an answer of the directory, seconds
        claims: Claims,
        name: str = "",  # readable name of the peer
    ) -> None:
        self._peer = peer
        self._names = (peer.address, name)
        self._directory = directory
        self._session = session
        self._alternatives = alternatives
        self._deciders = dict(deciders)
        self._discovery = discovery
        self._claims = claims
        self._requests: dict[str, Request] = {}
        self.leases = ClientLeases(peer, self._requests, self.stop)
        self.changes = RequestChanges(peer, self._requests, session.interrupt, self._begin_again)
        self._promises = KeptPromises(peer, lambda name: session.sinks.delay(name) if name in session.led else None)
        session.on_setup_ended.append(self._promises.set_up)
        session.on_setup_ended.append(self._setup_ended)
        session.on_ended.append(self._ended)
        session.on_restart.append(self._begin_again)
        session.succession.on_succeeded.append(self._succeeded)
        session.succession.on_going_on.append(self.changes.succeeded)
        session.succession.on_superseded.append(self._superseded)

    def __getitem__(self, name: str) -> Request:
        return self._requests[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def undecided(self) -> frozenset[str]:
        """Ids of the requests that neither run nor have ended."""
        return frozenset(name for name, each in self._requests.items() if each.state in UNDECIDED)

    # -- submission --------------------------------------------------------------------------------------------------

    def submit(
        self, name: str, plan: Plan, placement: str = "composed", *, trial: bool = False, lease: float = 0.0,
        user: str = "", epoch: int = 0, beside: str = "",
    ) -> None:  # fmt: skip
        """Decide on a plan, and run it; the driver receives a report of each change of its state.

        ``name``: id of the application; ``placement``: decider of a plan that does not ask for replicas: ``composed``
        or ``resilient``; ``spread`` for composition that prefers the graphs with the most peers; ``trial``: whether to
        decide only: the request then ends as stopped, with its ``tried`` placement, or as rejected; ``lease``: lease of
        its client, seconds (:mod:`.client_leases`); 0 if it goes on without its client; ``user``: who has submitted it;
        ``epoch``: epoch of its components, if it goes on from what a folder has of them; ``beside``: application of
        this peer of whose streams all of it is to be made.

        Raises ``ValueError`` if the id is in use, or if this peer cannot place the plan with that decider.
        """
        decided_by = decider_of(plan, placement)
        known = self._requests.get(name)
        if known is not None and known.status not in ENDED:
            raise ValueError(f"request: {name!r}; expected an identifier that is not in use")
        if decided_by not in self._deciders:
            raise ValueError("availability: this peer places no replicas; expected none")
        if self._session.config.durable:
            check_durable(plan, decided_by)
            if beside:
                raise ValueError(
                    f"application: {beside!r}; expected none, as no streams are shared in a durable cluster"
                )
        rights = Rights(user)
        if beside in self._requests:  # it goes on as long as the one whose place it is to take, and for the same users
            lease, rights = self._requests[beside].lease, self._requests[beside].rights.passed_to(user)
        self._discard_ended()
        if len(self._requests) >= MAX_RETAINED:
            raise ValueError(
                f"request: {name!r}; expected one of at most {MAX_RETAINED} at a peer, which leads so many that have "
                f"not ended: submit it at another peer, or stop one"
            )
        request = Request(
            name, plan, decided_by, self._peer.now,
            spread=placement == SPREAD, trial=trial, lease=lease, origin_names=self._names, rights=rights,
            epoch=epoch, beside=beside,
        )  # fmt: skip
        self._requests[name] = request
        self.leases.begin(request)
        self._peer.record(
            RequestSubmitted,
            name,
            plan=plan.name,
            operators=list(plan.operators),
            qos=plan.qos.numbers,
            scheduling=plan.qos.scheduling or "",
            overdue=plan.qos.overdue or "",
            hotspots=plan.qos.hotspots or "",
            trial=trial,
            sources={name: known_rows(plan.sizes[name]) for name in plan.sources if name in plan.sizes},
        )
        routes = _count_routes(plan)
        if routes > MAX_ROUTES:
            self._reject(
                request, f"{routes} routes lead from its sources to its sinks; at most {MAX_ROUTES} can be probed"
            )
            return
        # the other deciders place every operator of the plan, so nothing is shared, but by one that takes the place of
        # another; nor is anything by an application that has to be restarted as it is
        if (decided_by != "composed" and not beside) or self._session.config.durable:
            request.found([self._alternatives.as_requested(name, plan)])
        else:
            self._claims.claim(request)
        self._discover(request)

    def stop(self, name: str, reason: str = "") -> bool:
        """End a request in any state and discard its results; return False if it is unknown or had ended before."""
        request = self._requests.get(name)
        if request is None:
            return False
        if request.state in UNDECIDED:
            self._decider(request).release(request)
        stopped = self._session.stop(name, reason)
        if request.state in (State.DISCOVERING, State.DECIDING):
            self._end(request, State.STOPPED, reason)
            return True
        if request.state is State.FINISHED:
            request.enter(State.STOPPED)
        return stopped

    def grant(self, name: str, user: str, right: str | None) -> None:
        """Grant a right to an application to a user, or withdraw with None what was granted.

        What is to take its place at this peer gets the same right, unless it is that user's own.

        Raises ``ValueError`` if the application is unknown.
        """
        request = self._requests.get(name)
        if request is None:
            raise ValueError(f"application: {name!r}; expected one that this peer leads")
        places = [each for each in self._requests.values() if each.beside == name and each.status not in ENDED]
        for each in (request, *(each for each in places if each.rights.owner != user)):
            each.grant(user, right)
            self._session.grants.publish(each)

    def hold(self, name: str, *, on: bool, answer: Callable[[str], None] = lambda _refusal: None) -> None:
        """Pause an application, or resume it.

        ``answer``: function that is called once its sources stand still, or go on, with an empty text, or else with the
        reason of a refusal.

        Raises ``ValueError`` if the application does not run, or shares streams.
        """
        request = self._requests.get(name)
        if request is None or not request.running:
            what = "is not known here" if request is None else f"is {request.status}"
            raise ValueError(f"application: {name!r} {what}; expected one that runs")
        self._session.holds.hold(name, on=on, answer=answer)

    def of_user(self, user: str) -> list[str]:
        """Ids of the requests of a user that have not ended."""
        return [name for name, each in self._requests.items() if each.rights.owner == user and each.status in LASTING]

    def discard_results(self, name: str) -> None:
        """Discard the results of a finished application: the client has fetched all of them."""
        if self._requests[name].state is State.FINISHED:
            self._session.stop(name)

    def _discard_ended(self) -> None:
        """Discard the oldest ended requests until there is room for one more."""
        while len(self._requests) >= MAX_RETAINED:
            ended = next((name for name, each in self._requests.items() if each.status in ENDED), None)
            if ended is None:
                return
            self._session.stop(ended)
            del self._requests[ended]

    # -- discovering -------------------------------------------------------------------------------------------------

    def _discover(self, request: Request) -> None:
        """Look up the components of the plan and, the first time, all names that its alternatives depend on."""
        request.discover()
        wanted = component_names(request.alternative.plan)
        if request.alternatives is None:
            wanted |= self._alternatives.names(request.plan)
        self._directory.lookup(sorted(wanted), lambda found: self._found(request, found), self._discovery)

    def _found(self, request: Request, found: DirectoryEntries | None) -> None:
        """Look up also the streams of which those of the plan can be made, if there may be any."""
        names = self._alternatives.containing(request.plan, found) if found and request.alternatives is None else set()
        if not names:
            self._discovered(request, found)
            return

        def complete(more: DirectoryEntries | None) -> None:
            self._discovered(request, {**(found or {}), **(more or {})})

        self._directory.lookup(sorted(names), complete, self._discovery)

    def _discovered(self, request: Request, found: DirectoryEntries | None) -> None:
        if self._requests.get(request.name) is not request or request.state is not State.DISCOVERING:
            return  # the request has ended meanwhile
        if found is None:
            self._try_again(request, "the directory did not answer in time")
            return
        if request.alternatives is None:
            first = self._claims.first(request, found)
            if first:
                self._wait(request, f"{first}, which has the same stream, is being composed")
                return
            self._claims.compose(request)
            ways = self._ways(request, found)
            if not ways:
                self._try_again(request, f"the directory does not have the streams of {request.beside}")
                return
            request.found(ways)
            self._record_sharing(request)
        request.enter(State.DECIDING)
        self._decider(request).decide(request, self._promises.trusted(found), self._decided)

    def _ways(self, request: Request, found: DirectoryEntries) -> list[Alternative]:
        """How a request can be run; nothing if the streams of which it is to be made are not known."""
        if not request.beside:
            return self._alternatives.of(request.name, request.plan, found)
        graph = self._session.led_graph(request.beside)
        if graph is None:
            return []
        streams = {each[:2] for each in graph.producers} | {(request.beside, each) for each in graph.roles.peers}
        return self._alternatives.beside(request.name, request.plan, found, streams)

    def _record_sharing(self, request: Request) -> None:
        if request.alternative.shared:
            points = {tap: sorted(hosts) for tap, hosts in request.alternative.shared.items()}
            rests, unfit = dict(request.alternative.rests), dict(request.alternative.unfit)
            self._peer.record(SharingFound, request.name, points=points, rests=rests, unfit=unfit)

    # -- deciding ----------------------------------------------------------------------------------------------------

    def _decider(self, request: Request) -> Decider:
        return self._deciders[request.decided_by]

    def _decided(self, request: Request, answer: Decision | Refusal) -> None:
        """Act on the answer of the decider."""
        if self._requests.get(request.name) is not request or request.state is not State.DECIDING:
            return  # the request has ended meanwhile
        if isinstance(answer, Decision) and request.trial:
            request.try_out(answer.roles)
            self._decider(request).release(request)
            self._end(request, State.STOPPED, "")
        elif isinstance(answer, Decision):
            request.enter(State.ESTABLISHING)
            self._session.establish(request, answer)
        elif answer.retry:
            self._discover(request)
        elif request.alternatives:
            self._try_next_alternative(request, answer.reason)
        elif request.unanswered or answer.unanswered or (answer.missing and self._silent()):
            self._try_again(request, answer.reason)
        else:
            self._reject(request, answer.reason)

    def _silent(self) -> list[str]:
        """Peers that may be late or cut off, and have what a plan needs."""
        return self._session.membership.silent(self._session.config.patience)

    def _try_again(self, request: Request, reason: str) -> None:
        """Start again with a request that nobody has refused, unless its peers have been silent for too long."""
        if self._peer.now - request.asked >= self._session.config.patience:
            self._reject(request, reason)
            return
        self._begin_anew(request, reason)

    def _begin_anew(self, request: Request, reason: str) -> None:
        self._decider(request).release(request)
        request.begin_anew()
        self._wait(request, reason)

    def _wait(self, request: Request, reason: str) -> None:
        """Look up the running streams again after a short time; the journal gets each reason once."""
        if request.wait(reason):
            self._peer.record(RequestPostponed, request.name, reason=reason)
        self._peer.after(INTERVAL, self._look_up_again, request)

    def _look_up_again(self, request: Request) -> None:
        if self._requests.get(request.name) is request and request.state is State.DISCOVERING:
            self._discover(request)

    def _try_next_alternative(self, request: Request, reason: str) -> None:
        given_up = request.next_alternative()
        if given_up.shared:
            self._peer.record(SharingGivenUp, request.name, reason=reason)
            self._record_sharing(request)
        else:
            self._peer.record(EnginesChanged, request.name, reason=reason, parts=parts_of(request.alternative.plan))
        self._discover(request)

    def _reject(self, request: Request, reason: str) -> None:
        if self.changes.refused(request, reason):
            return
        self._decider(request).release(request)
        self._end(request, State.REJECTED, reason)

    def _end(self, request: Request, state: State, reason: str) -> None:
        """End a request that holds nothing at any peer."""
        self._claims.end(request)
        request.enter(state, reason)
        self._peer.record(ENDINGS[request.status], request.name, reason=reason)
        self._peer.instruct(request.report())

    # -- reports of the session --------------------------------------------------------------------------------------

    def _setup_ended(self, request: Request, refusal: str) -> None:
        """Tell the decider that its graph runs; if the set-up has failed, ask it for its next graph."""
        if not refusal:
            self._decider(request).established(request)
            self._claims.end(request)
        elif request.sharable_soon and self._claims.waits(request):
            self._begin_anew(request, refusal)
        else:
            self._decider(request).next(request, refusal, self._decided)

    def _begin_again(self, request: Request, reason: str) -> None:
        """Compose an application anew whose session a death has ended, or a change of its plan."""
        self._decider(request).release(request)
        self.changes.resumed(request, reason)
        self._claims.end(request)
        if request.decided_by != "composed" or self._session.config.durable:
            request.found([self._alternatives.as_requested(request.name, request.executed)])
        else:
            self._claims.claim(request)
        self._wait(request, reason)

    def _ended(self, request: Request) -> None:
        """Have the decider release what it holds for an application that has ended."""
        self._decider(request).release(request)
        self._claims.end(request)

    def _succeeded(self, request: Request, _record: Entrusted) -> None:
        """Lead an application that was submitted at a peer which has died."""
        self._discard_ended()
        self._requests[request.name] = request
        self.leases.begin(request)

    def _superseded(self, request: Request) -> None:
        """Forget a request that another peer leads now; if it ran, its peers still hold what they have committed."""
        if request.state in UNDECIDED:
            self._decider(request).release(request)
        self._claims.end(request)
        if self._requests.get(request.name) is request:
            del self._requests[request.name]


def _count_routes(plan: Plan) -> int:
    """Number of routes from a source to a sink, counted without enumerating them."""
    count: dict[str, int] = {}
    for operator in plan.operators:
        count[operator] = sum(count[upstream] for upstream in plan.upstream(operator)) or 1
    return sum(count[sink] for sink in plan.sinks)
