"""The one record of an application, at the peer where it was submitted: from then until it is forgotten."""

from __future__ import annotations

import msgspec

from synergy_nb.control.graph import Report, Roles
from synergy_nb.control.peer import Timer
from synergy_nb.events.application_states import RUNS, STATUS, State, Status, check
from synergy_nb.lifecycle.alternatives import Alternative
from synergy_nb.lifecycle.messages import Graph
from synergy_nb.plan import Plan
from synergy_nb.plan.spark_parts import expanded

__all__ = ["Request"]


class Request:
    """What was asked for, what was decided, and how it fares.

    Parameters
    ----------
    name
        Id of the application.
    plan
        Query plan that was submitted.
    decided_by
        Name of the decider that says where its components go.
    now
        Time of the submission, seconds.

    Attributes
    ----------
    began : float or None
        Time at which its sources were started, seconds.
    reason : str
        Why it has ended; empty where nothing is to be explained.
    on_spark : bool
        Whether a way to run it that was found has parts on Spark.
    ways : list of Way or None
        Ways to run it that have not been tried, the preferred one first; None until it is known which there are.
    way : Way
        Way to run it that is being tried, or is taken.
    unconfirmed : set of str
        During set-up, the sources that have not been confirmed, and the peers that have not agreed to do more for the
        application than to execute its components.
    timer : Timer or None
        Limits the time of the set-up.
    """

    __slots__ = (
        "_graph",
        "_state",
        "began",
        "decided_by",
        "name",
        "on_spark",
        "plan",
        "reason",
        "submitted",
        "timer",
        "unconfirmed",
        "way",
        "ways",
    )

    def __init__(self, name: str, plan: Plan, decided_by: str, now: float) -> None:
        self.name = name
        self.plan = plan
        self.decided_by = decided_by
        self.submitted = now
        self.began: float | None = None
        self.reason = ""
        self.on_spark = False
        self.ways: list[Alternative] | None = None
        self.way = Alternative(plan)
        self.unconfirmed: set[str] = set()
        self.timer: Timer | None = None
        self._state = State.DISCOVERING
        self._graph: Graph | None = None

    @property
    def state(self) -> State:
        """The state of the application; :meth:`to` changes it."""
        return self._state

    def to(self, state: State, reason: str = "") -> None:
        """Go over to another state.

        Raises
        ------
        IllegalTransition
            If it may not follow the present one.
        """
        check(self.name, self._state, state)
        self._state = state
        self.reason = reason

    @property
    def status(self) -> Status:
        """The state as people are told of it."""
        return STATUS[self._state]

    @property
    def running(self) -> bool:
        """Whether it runs, though its graph may be about to change."""
        return self._state in RUNS

    @property
    def graph(self) -> Graph:
        """The graph that is set up, or runs."""
        if self._graph is None:
            raise ValueError(f"application: {self.name!r}; expected one that has been decided")
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        self._graph = graph

    @property
    def roles(self) -> Roles:
        """Who executes what, for each operator of the plan that was submitted; empty before the application runs."""
        if self.began is None:
            return Roles()
        graph = self.graph
        return msgspec.structs.replace(graph.roles, peers=expanded(Plan.from_bytes(graph.plan), graph.roles.peers))

    def report(self) -> Report:
        """What the driver is told of it."""
        return Report(self.name, self.status.value, self.reason, self.roles)
