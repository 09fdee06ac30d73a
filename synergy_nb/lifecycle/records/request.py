"""The one record of an application, at its origin, from its submission until the origin discards it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from synergy_nb.control.graph import Producer, Report
from synergy_nb.control.roles import Roles
from synergy_nb.events import SkippedLines
from synergy_nb.events.application_states import RUNS, STATUS, State, Status, check
from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.overlay.answer_limits import AnswerLimit
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.spark_parts import expanded

__all__ = ["Alternative", "Request"]


class Alternative(NamedTuple):
    """One way to run a submitted plan: an equivalent plan, and the streams of other applications that it reads."""

    plan: Plan  # query plan that is to be run; a stream of another application stands in it as a tap
    # tap, then address of a peer that provides its stream, to the components that produce this stream
    shared: Mapping[str, Mapping[str, tuple[Producer, ...]]] = {}


class Request:
    """A submitted plan, the decision about it, and its state."""

    __slots__ = (
        "_graph",
        "_state",
        "alternative",
        "alternatives",
        "began",
        "decided_by",
        "delays",
        "ended_sinks",
        "former",
        "lease",
        "name",
        "on_spark",
        "origin_names",
        "owners",
        "placed",
        "plan",
        "reason",
        "refused_by",
        "rounds",
        "sharable_soon",
        "silent_looks",
        "skipped",
        "spread",
        "submitted",
        "timer",
        "trial",
        "tried",
        "unanswered",
        "unconfirmed",
        "waits_because",
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
    ) -> None:
        self.name = name
        self.origin_names = origin_names
        self.trial = trial
        self.lease = lease
        self.silent_looks = 0  # number of looks since its client was heard of (`.client_leases`)
        self.tried: Roles | None = None  # placement that was decided on for a trial
        self.placed = Roles()  # roles with which it was set up last: its backups are as many as it is to have
        self.plan = plan
        self.decided_by = decided_by
        self.spread = spread
        self.submitted = now
        self.began: float | None = None  # time at which its sources were started, seconds
        self.reason = ""  # reason of its end; empty where no reason is known or needed
        self.on_spark = False  # whether at least one alternative that was found has parts on Spark
        # alternatives that have not been tried, the preferred one first; None until the directory has answered
        self.alternatives: list[Alternative] | None = None
        self.alternative = Alternative(plan)  # alternative that is being tried, or that runs
        # ids of the sources that have not been confirmed during set-up, and addresses of the helpers (peers with
        # backups or shared streams) that have not confirmed; an empty text for the successor
        self.unconfirmed: set[str] = set()
        self.rounds = 0  # rounds of probes that were sent for it, the number of the last one
        self.waits_because = ""  # reason why it has waited for a stream that could be shared soon; empty if it has not
        # whether a peer has refused its graph because of a stream that its origin did not know
        self.sharable_soon = False
        self.owners: set[str] = set()  # applications that make streams of its plan, as far as its origin knows
        self.refused_by: set[str] = set()  # addresses of the peers that have refused to commit a component of it
        # address of a peer with sinks to the end-to-end execution time that it has reported last, seconds
        self.delays: dict[str, float] = {}
        self.former: set[str] = set()  # addresses of the peers that have taken part, and take no part any more
        self.ended_sinks: set[str] = set()  # addresses of the peers at whose sinks all streams have ended
        self.skipped: dict[str, SkippedLines] = {}  # source to the malformed lines of its trace that it skips
        self.timer: AnswerLimit | None = None  # limit of the set-up
        # whether some peer has not answered in time since candidates were looked up last, so that the request is tried
        # again rather than rejected
        self.unanswered = False
        self._state = State.DISCOVERING
        self._graph: Graph | None = None

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
        return STATUS[self._state]

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

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph

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
