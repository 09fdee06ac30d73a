"""The record of an application at a peer that takes part in it, and look-ups in component graphs."""

from __future__ import annotations

from typing import Final, NamedTuple

from synergy_nb.control.graph import Producer
from synergy_nb.control.peer import Timer
from synergy_nb.lifecycle.records._moves_here import MovesHere
from synergy_nb.lifecycle.records.messages import ComponentTimes, Graph
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.replica_degrees import asks_for_active
from synergy_nb.plan.derived.active_replicas import original, replicas_of
from synergy_nb.plan.derived.stream_sharing import taps_of
from synergy_nb.plan.operators.catalogue import KINDS, TAP

__all__ = [
    "NEVER_ENDED",
    "Ended",
    "Member",
    "other_replicas",
    "plan_of",
    "present_producer",
    "producer_of",
    "producers_of",
]


class Ended(NamedTuple):
    """The latest attempt of an application that this peer has left."""

    # attempt, until: number of the attempt, and the last epoch of its graphs whose messages this peer refuses; infinite
    # where the application has ended
    attempt: int
    until: float
    # status, reason: status with which its origin has ended it, and the reason; both are empty where this peer was not
    # told
    status: str = ""
    reason: str = ""


NEVER_ENDED: Final = Ended(0, 0.0)


class Member:
    """The record of an application at a peer that takes part in it (a member of its session).

    ``now``: time from which the lease of the session counts, seconds.
    """

    __slots__ = (
        "account",
        "backups_committed",
        "confirmed",
        "delay",
        "deployed",
        "ended",
        "graph",
        "helpless",
        "last_feedback",
        "leader",
        "lost",
        "moves",
        "operators",
        "plan",
        "preparing",
        "projected",
        "promised",
        "ready",
        "running",
        "sinks_ended",
        "started",
        "timer",
        "times",
    )

    def __init__(self, graph: Graph, plan: Plan, address: str, now: float) -> None:
        self.graph = graph  # component graph of the application, as the peer knows it
        self.plan = plan
        self.leader = (
            graph.origin
        )  # peer whose instructions count: the origin, or the successor to which it is promised
        self.promised = 0  # least epoch of the graphs that this peer adopts, as it has promised to the successor
        self.lost: set[str] = set()  # operators whose components here have failed
        self.sinks_ended = False  # whether the streams of all sinks here have ended
        self.operators = {operator for operator, peer in graph.roles.peers.items() if peer == address}
        self.confirmed: dict[str, set[str]] = {}
        self.deployed: set[str] = set()
        self.preparing: set[str] = set()  # deployed parts on Spark that are not ready yet
        self.ready: set[str] = set()  # operators whose copy at this peer could take over
        self.moves = MovesHere()  # moves in which this peer has a part
        self.delay = -1.0  # measured t̂, seconds; negative if none was measured yet
        self.account = -1.0  # t̂ in seconds by the account of the origin; negative if it has none
        self.times: dict[str, ComponentTimes] = {}  # operator to the predicted times of its component, by feedback
        self.helpless: tuple[str, ...] = ()  # operators whose peers have found no target for a migration
        self.projected = max(graph.reached.values(), default=0.0)  # t̂ in seconds, as probes projected it
        self.backups_committed = False  # whether its backups at this peer are committed
        self.started = False  # whether its sources at this peer emit
        self.running = False  # whether feedback has arrived
        self.ended = False  # whether only results are left at this peer
        self.last_feedback = now
        self.timer: Timer | None = None

    def outdates(self, graph: Graph) -> bool:
        """Whether this peer knows a later graph, or has promised to adopt only later ones."""
        return (self.graph.attempt, max(self.graph.epoch, self.promised)) > (graph.attempt, graph.epoch)

    @property
    def execution_time(self) -> float:
        """End-to-end execution time t̂, seconds: by the account of the origin, else measured, else projected."""
        if self.account >= 0.0:
            return self.account
        return self.delay if self.delay >= 0.0 else self.projected

    @property
    def sharable_operators(self) -> list[str]:
        """Operators that this peer executes and whose streams other applications may share.

        Of an application with active replicas these are only the sources: if one replica is lost, its application goes
        on with the others, but an application that shares the stream of that replica would end.
        """
        here = self.operators & self.deployed
        active = asks_for_active(self.plan.operators.values(), self.plan.qos)
        private = set(KINDS) - {"source"} if active else ("sink", TAP)
        return [operator for operator in here if self.plan.operators[operator].kind not in private]


def plan_of(graph: Graph) -> Plan:
    """Return the plan of a component graph.

    Raises ``ValueError`` if the operators or taps of the graph are not those of the plan.
    """
    plan = Plan.from_bytes(graph.plan)
    if graph.roles.peers.keys() != plan.operators.keys():
        known, wanted = ", ".join(graph.roles.peers), ", ".join(plan.operators)
        raise ValueError(f"peers: for the operators {known}; expected one for each of {wanted}")
    if graph.shared.keys() != set(taps_of(plan)):
        raise ValueError(f"shared: {', '.join(graph.shared)}; expected the producers of each tap of the plan")
    return plan


def other_replicas(graph: Graph, plan: Plan, operator: str) -> set[str]:
    """Return the peers that execute other active replicas of the same operator."""
    group = replicas_of(plan).get(original(operator), ())
    return {graph.roles.peers[each] for each in group if each != operator} - {""}


def producer_of(graph: Graph, plan: Plan, tap: str) -> Producer | None:
    """Return the component whose output is the stream of a tap, at its present peer; None if it is not known."""
    providers = {(application, operator) for application, operator in plan.operators[tap].params["providers"].values()}
    found = [producer for producer in graph.shared[tap] if producer[:2] in providers]
    return next((producer for producer in found if producer.peer == graph.roles.peers[tap]), None)


def present_producer(graph: Graph, operator: str) -> Producer:
    """Describe a component of an application as a producer: its present peer, epoch, copies and origin."""
    roles = graph.roles
    follower = roles.followers.get(operator)
    copies = (*roles.backups.get(operator, ()), *(() if follower is None else (follower,)))
    epoch = roles.epochs.get(operator, 0)
    return Producer(graph.application, operator, roles.peers[operator], epoch, graph.origin, copies, graph.successor)


def producers_of(graph: Graph, plan: Plan, operator: str) -> tuple[Producer, ...]:
    """Return all components that produce the stream of an operator, including those of other applications."""
    found: set[Producer] = set()
    waiting = [operator]
    while waiting:
        name = waiting.pop()
        if name not in graph.shared:
            found.add(present_producer(graph, name))
        found.update(graph.shared.get(name, ()))
        waiting.extend(plan.upstream(name))
    return tuple(sorted(found))
