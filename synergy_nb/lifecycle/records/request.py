"""The one record of an application, at its origin, from its submission until the origin discards it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from synergy_nb.control.graph import Producer, Report
from synergy_nb.control.rights import OWNED, Rights
from synergy_nb.control.roles import Roles
from synergy_nb.events import SkippedLines
from synergy_nb.events.application_states import RUNS, STATUS, State, Status, check
from synergy_nb.lifecycle.records.attempts import SUCCEEDED, start_of
from synergy_nb.lifecycle.records.messages import Entrust, Graph
from synergy_nb.overlay.answer_limits import AnswerLimit
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.spark_parts import expanded, parts_of

__all__ = ["Alternative", "Request"]


class Alternative(NamedTuple):
    """One way to run a submitted plan: an equivalent plan, and the streams of other applications that it reads."""

    plan: Plan  # query plan that is to be run; a stream of another application stands in it as a tap
    # tap, then address of a peer that provides its stream, to the components that produce this stream
    shared: Mapping[str, Mapping[str, tuple[Producer, ...]]] = {}
    # operator that makes its stream of a running one, to the name of that stream and what it still does, in words
    rests: Mapping[str, tuple[str, str]] = {}
    # aggregate that makes its stream of no finer one that runs, to the name of the nearest and the reason
    unfit: Mapping[str, tuple[str, str]] = {}

    @property
    def owners(self) -> set[str]:
        """Applications whose components make its shared streams."""
        made = (producers for hosts in self.shared.values() for producers in hosts.values())
        return {producer.application for producers in made for producer in producers}


class Request:
    """A submitted plan, the decision about it, and its state."""

    __slots__ = (
        "_graph",
        "_limit",
        "_state",
        "_unconfirmed",
        "_waits_because",
        "alternative",
        "alternatives",
        "asked",
        "began",
        "beside",
        "changing",
        "decided_by",
        "delays",
        "ended_sinks",
        "epoch",
        "former",
        "held_since",
        "lease",
        "name",
        "on_spark",
        "origin_names",
        "owners",
        "placed",
        "plan",
        "reason",
        "refused_by",
        "restarts",
        "rights",
        "rounds",
        "sharable_soon",
        "skipped",
        "spread",
        "submitted",
        "succeeded",
        "trial",
        "tried",
        "unanswered",
    )

    def __init__(
        self,
        name: str,
        plan: Plan,
        decided_by: str,  # name of the decider that chooses the peers of its components
        now: float,  # time of the submission, seconds
        *,
        spread: bool = False,  # whether the graphs with the most peers are preferred
        trial: bool = False,  # whether it is only decided on, and never run
        lease: float = 0.0,
        origin_names: tuple[str, ...] = (),  # address and name of its origin, by which plans bind operators to that
        rights: Rights = OWNED,
        epoch: int = 0,  # epoch of its components: greater than any that they have had, if it is restarted
        beside: str = "",  # application of whose streams it is to be made; empty: of any, or of none
    ) -> None:
        self.name = name
        self.plan = plan
        self.decided_by = decided_by
        self.submitted = self.asked = now  # `asked`: when it began to be composed, at first or again
        self.restarts = 0  # number of times that it was composed anew after a death
        self.spread = spread
        self.trial = trial
        self.lease = lease
        self.origin_names = origin_names
        self.rights = rights
        self.epoch = epoch
        self.beside = beside
        # plan that it executes while another one takes the place of its own, or that it executes alone; None: its own
        self.changing: Plan | None = None
        self.reason = ""  # reason of its end; empty where no reason is known or needed
        self._state = State.DISCOVERING
        # how it can be run. `alternatives`: those that have not been tried, the preferred one first; None until the
        # directory has answered
        self.alternatives: list[Alternative] | None = None
        self.alternative = Alternative(plan)  # alternative that is being tried, or that runs
        self.on_spark = False  # whether at least one alternative that was found has parts on Spark
        self.owners: set[str] = set()  # applications that make streams of its plan, as far as its origin knows
        self._waits_because = ""  # reason why it has waited for a stream that could be shared soon; empty if it has not
        self.rounds = 0  # rounds of probes that were sent for it, the number of the last one
        self.tried: Roles | None = None  # placement that was decided on for a trial
        # its set-up. `placed`: roles with which it was set up last: its backups are as many as it is to have
        self.placed = Roles()
        self.succeeded = False  # whether this peer leads it instead of its origin
        self._graph: Graph | None = None
        # ids of the sources that have not been confirmed, and addresses of the helpers (peers with backups or shared
        # streams) that have not confirmed; an empty text for the successor
        self._unconfirmed: set[str] = set()
        self._limit: AnswerLimit | None = None
        # whether some peer has not answered in time since candidates were looked up last, so that the request is tried
        # again rather than rejected
        self.unanswered = False
        self.refused_by: set[str] = set()  # addresses of the peers that have refused to commit a component of it
        # whether a peer has refused its graph because of a stream that its origin did not know
        self.sharable_soon = False
        # what has happened since. `began`: time at which its sources were started, seconds
        self.began: float | None = None
        self.former: set[str] = set()  # addresses of the peers that have taken part, and take no part any more
        # address of a peer with sinks to the end-to-end execution time that it has reported last, seconds
        self.delays: dict[str, float] = {}
        self.ended_sinks: set[str] = set()  # addresses of the peers at whose sinks all streams have ended
        self.held_since: float | None = None  # time at which a user has paused it, seconds; None: it is not on hold
        self.skipped: dict[str, SkippedLines] = {}  # source to the malformed lines of its trace that it skips

    @classmethod
    def entrusted(cls, entrust: Entrust, graph: Graph, former: Iterable[str], now: float) -> Request:
        """The record of an application that runs, at the successor that leads it now, from this graph on.

        ``former``: addresses of peers that have taken part, and take no part any more.
        """
        record = entrust.record
        plan = Plan.from_bytes(record.plan)
        request = cls(
            graph.application, plan, record.decided_by, record.submitted, spread=record.spread, lease=record.lease,
            rights=graph.rights,
        )  # fmt: skip
        request.alternative, request.alternatives = Alternative(Plan.from_bytes(graph.plan)), []
        request.placed, request._graph, request.began = entrust.graph.roles, graph, now
        request.held_since = now if graph.on_hold else None
        request.epoch, request.succeeded = start_of(max(graph.roles.epochs.values(), default=0)), True
        request.rounds = SUCCEEDED  # peers refuse probes of earlier rounds than those of the origin
        request.former = set(former)
        for state in (State.DECIDING, State.ESTABLISHING, State.RUNNING):
            request.enter(state)
        return request

    @property
    def state(self) -> State:
        """The state of the application; :meth:`enter` changes it."""
        return self._state

    def enter(self, state: State, reason: str = "") -> None:
        """Change to another state.

        Raises ``IllegalTransition`` if that state may not follow the present one.
        """
        check(self.name, self._state, state)
        self._state = state
        self.reason = reason

    @property
    def status(self) -> Status:
        """The state as notebooks and reports show it."""
        status = STATUS[self._state]
        return Status.ON_HOLD if self.on_hold and status is Status.RUNNING else status

    @property
    def on_hold(self) -> bool:
        """Whether a user has paused it."""
        return self.held_since is not None

    @property
    def running(self) -> bool:
        """Whether the application runs; its graph may be changing."""
        return self._state in RUNS

    @property
    def graph(self) -> Graph:
        """The component graph that is being set up, or that runs."""
        if self._graph is None:
            raise ValueError(f"application: {self.name!r}; expected one that has been decided")
        return self._graph

    def is_of(self, attempt: int) -> bool:
        """Whether the graph that is being set up, or that runs, is of an attempt."""
        return self._graph is not None and self._graph.attempt == attempt

    @property
    def next_epoch(self) -> int:
        """An epoch that none of its components has had in the attempt before."""
        return 0 if self._graph is None else 1 + max(self._graph.roles.epochs.values(), default=-1)

    def outdated_by(self, graph: Graph) -> bool:
        """Whether a graph is of a later attempt than its last one, by the other peer that may lead it."""
        known = self._graph
        return known is not None and graph.attempt > known.attempt and graph.origin != known.origin

    # -- how it can be run -------------------------------------------------------------------------------------------

    def discover(self) -> None:
        """Its candidates are looked up, perhaps once more."""
        if self._state is not State.DISCOVERING:
            self.enter(State.DISCOVERING)
        self.unanswered = False

    def found(self, alternatives: Iterable[Alternative]) -> None:
        """The ways in which it can be run are known, the preferred one first."""
        self.alternative, *self.alternatives = alternatives
        for each in (self.alternative, *self.alternatives):
            self.owners |= each.owners
            self.on_spark |= bool(parts_of(each.plan))

    def expand(self, plan: Plan) -> None:
        """Run an equivalent plan, in which each operator stands as often as it has active replicas."""
        self.alternative = Alternative(plan)

    def next_alternative(self) -> Alternative:
        """Go on to the next alternative; returns the one that is given up."""
        if not self.alternatives:
            raise ValueError(f"application: {self.name!r}; expected one with alternatives that have not been tried")
        given_up, self.alternative = self.alternative, self.alternatives.pop(0)
        return given_up

    def begin_anew(self) -> None:
        """Forget all alternatives; they are found again once the directory has answered again."""
        self.alternatives, self.alternative = None, Alternative(self.executed)
        if self._state is not State.DISCOVERING:
            self.enter(State.DISCOVERING)

    def restart(self, now: float) -> None:
        """A death has ended its session: it is composed anew."""
        self.restarts += 1
        self.asked = now
        self.begin_anew()

    @property
    def executed(self) -> Plan:
        """The plan with which it is composed: its own, or both plans while another one takes its place."""
        return self.plan if self.changing is None else self.changing

    def begin_change(self, both: Plan, decided_by: str) -> None:
        """Another plan is to take the place of its own, which ``both`` executes, too; ``decided_by``: its decider."""
        self.changing, self.decided_by = both, decided_by

    def end_change(self, plan: Plan, decided_by: str) -> None:
        """It goes on with a plan alone: with the new one, or with its own."""
        self.changing, self.plan, self.decided_by = None, plan, decided_by

    def wait(self, reason: str) -> bool:
        """It waits before it is looked up again; returns whether it has waited for another reason before, or none."""
        new, self._waits_because = reason != self._waits_because, reason
        return new

    def next_round(self) -> int:
        """Number of the next round of probes."""
        self.rounds += 1
        return self.rounds

    def try_out(self, roles: Roles) -> None:
        """A trial has been decided."""
        self.tried = roles

    # -- its set-up --------------------------------------------------------------------------------------------------

    def set_up(self, graph: Graph, limit: AnswerLimit) -> None:
        """A graph is being set up until all its sources and helpers have confirmed it, or until the limit."""
        self._graph, self._limit, self.placed = graph, limit, graph.roles
        self.delays, self.ended_sinks = {}, set()
        # without the successor nobody could lead the application after its origin
        successor = {""} if graph.successor else set[str]()
        self._unconfirmed = {*Plan.from_bytes(graph.plan).sources, *graph.helpers, *graph.owner_origins, *successor}

    def confirm(self, which: str) -> bool:
        """A source or a helper has confirmed, or the successor; returns whether all have."""
        self._unconfirmed.discard(which)
        return not self._unconfirmed

    def begin(self, now: float) -> None:
        """The set-up has succeeded: the application runs."""
        self.end_set_up()
        self.enter(State.RUNNING)
        self.began = now

    def refuse(self, address: str, owner: str) -> None:
        """A peer has refused to commit a component; ``owner``: application whose stream could be shared, if any."""
        self.refused_by.add(address)
        self.sharable_soon = bool(owner)
        self.owners |= {owner} - {""}

    def time_out(self) -> None:
        """Not all peers have confirmed in time."""
        self.unanswered = True

    def end_set_up(self) -> None:
        """Nothing is waited for any more."""
        if self._limit is not None:
            self._limit.cancel()

    # -- since it runs -----------------------------------------------------------------------------------------------

    def change(self, graph: Graph) -> None:
        """The graph changes while the application runs."""
        self.former = (self.former | set(self.graph.addresses)).difference(graph.addresses)
        self._graph = graph

    def grant(self, user: str, right: str | None) -> None:
        """Its owner grants a right to a user, or withdraws what he has granted."""
        self.rights = self.rights.granted(user, right)

    def hold(self, since: float | None) -> None:
        """A user pauses it at a time in seconds, or, with None, resumes it."""
        self.held_since = since

    def sinks_reported(self, address: str, delay: float, *, ended: bool) -> None:
        """A peer with sinks has reported; ``delay``: measured there, seconds; negative if none was."""
        if delay >= 0.0:
            self.delays[address] = delay
        if ended:
            self.ended_sinks.add(address)

    def skip(self, source: str, lines: SkippedLines) -> bool:
        """A source skips malformed lines; returns whether that is new."""
        new = self.skipped.get(source) != lines
        self.skipped[source] = lines
        return new

    @property
    def roles(self) -> Roles:
        """The peers of each operator of the submitted plan; empty before the application runs."""
        if self.tried is not None:
            return msgspec.structs.replace(self.tried, peers=expanded(self.alternative.plan, dict(self.tried.peers)))
        if self.began is None:
            return Roles()
        graph = self.graph
        peers = {name: peer for name, peer in graph.roles.peers.items() if peer}  # without lost active replicas
        return msgspec.structs.replace(graph.roles, peers=expanded(Plan.from_bytes(graph.plan), peers))

    def report(self) -> Report:
        """The report of its state for the driver."""
        return Report(self.name, self.status.value, self.reason, self.roles)
