"""The record of an application at a peer that takes part in it, and look-ups in component graphs."""

from __future__ import annotations

from collections.abc import Collection, KeysView, Mapping, Set
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from synergy_nb.control.graph import Producer
from synergy_nb.control.rights import Rights
from synergy_nb.events import state_tables
from synergy_nb.events.state_tables import StateTable
from synergy_nb.lifecycle.records._components_here import ComponentsHere
from synergy_nb.lifecycle.records._moves_here import MovesHere
from synergy_nb.lifecycle.records.messages import ComponentTimes, Graph, MeasuredApplication
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.replica_degrees import asks_for_active
from synergy_nb.plan.derived.active_replicas import original, replicas_of
from synergy_nb.plan.derived.stream_sharing import taps_of
from synergy_nb.plan.operators.catalogue import KINDS, TAP

__all__ = [
    "FOLLOWS",
    "NEVER_ENDED",
    "Ended",
    "Member",
    "MemberState",
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
    by: str = ""  # peer that has said so before this one took part; nobody knew then who leads the application


NEVER_ENDED: Final = Ended(0, 0.0)


class MemberState(StrEnum):
    """How far a peer is in an application."""

    JOINED = "joined"
    STARTED = "started"
    RUNNING = "running"
    ENDED = "ended"


#: State to the states that may follow it.
FOLLOWS: Final[StateTable[MemberState]] = {
    MemberState.JOINED: frozenset({MemberState.STARTED, MemberState.ENDED}),
    MemberState.STARTED: frozenset({MemberState.RUNNING, MemberState.ENDED}),
    MemberState.RUNNING: frozenset({MemberState.ENDED}),
    MemberState.ENDED: frozenset(),
}


class Member:
    """The record of an application at a peer that takes part in it (a member of its session)."""

    __slots__ = (
        "_confirmed",
        "_ready",
        "account",
        "address",
        "backups_committed",
        "components",
        "delay",
        "former",
        "graph",
        "helpless",
        "leader",
        "led_before",
        "moves",
        "operators",
        "plan",
        "projected",
        "promised",
        "sinks_ended",
        "state",
        "times",
    )

    def __init__(self, graph: Graph, plan: Plan, address: str) -> None:
        self.graph = graph  # component graph of the application, as the peer knows it
        self.plan = plan
        self.address = address  # of this peer
        self.state = MemberState.JOINED
        # peer whose instructions count: the origin, or the successor to which it is promised
        self.leader = graph.origin
        self.led_before: tuple[str, ...] = ()  # peers that have led the application earlier
        # peers that have taken part by a graph that this peer has adopted, and take no part by the present one
        self.former: frozenset[str] = frozenset()
        self.promised = 0  # least epoch of the graphs that this peer adopts, as it has promised to the successor
        self.operators = _operators_at(graph, address)
        self._confirmed: dict[str, set[str]] = {}  # operator to the consumers that have confirmed it
        self.components = ComponentsHere()
        self.backups_committed = False  # whether its backups at this peer are committed
        self._ready: set[str] = set()  # operators whose copy at this peer could take over
        self.moves = MovesHere()  # moves in which this peer has a part
        self.projected = max(graph.reached.values(), default=0.0)  # t̂ in seconds, as probes projected it
        self.delay = -1.0  # measured t̂, seconds; negative if none was measured yet
        self.account = -1.0  # t̂ in seconds by the account of the origin; negative if it has none
        self.times: Mapping[str, ComponentTimes] = {}  # operator to the predicted times of its component, by feedback
        self.helpless: tuple[str, ...] = ()  # operators whose peers have found no target for a migration
        self.sinks_ended = False  # whether the streams of all sinks here have ended

    # -- how far it is -----------------------------------------------------------------------------------------------

    def _become(self, state: MemberState) -> None:
        if state is not self.state:
            state_tables.check(f"member of {self.graph.application}", FOLLOWS, self.state, state)
            self.state = state

    def confirm(self, operator: str, consumer: str) -> bool:
        """A consumer of an operator is deployed; for a sink, its origin. Returns whether all of them are."""
        confirmed = self._confirmed.setdefault(operator, set())
        if consumer:
            confirmed.add(consumer)
        return confirmed.issuperset(self.plan.downstream(operator))

    def commit_backups(self) -> None:
        """The backups at this peer are committed."""
        self.backups_committed = True

    def start(self) -> bool:
        """The sources here emit from now on; returns whether they have not before."""
        begins = self.state is MemberState.JOINED
        if begins:
            self._become(MemberState.STARTED)
        return begins

    def end(self, retained: Collection[str]) -> None:
        """The application has ended here: of its components only sinks with results are left."""
        self.components.end(retained)
        self._become(MemberState.ENDED)

    @property
    def started(self) -> bool:
        """Whether the sources at this peer emit, or have emitted."""
        return self.state is not MemberState.JOINED

    @property
    def running(self) -> bool:
        """Whether feedback has arrived, so that the application runs at all peers."""
        return self.state is MemberState.RUNNING

    @property
    def ended(self) -> bool:
        """Whether only results are left at this peer."""
        return self.state is MemberState.ENDED

    # -- its graphs, and who leads it --------------------------------------------------------------------------------

    def outdates(self, graph: Graph) -> bool:
        """Whether this peer knows a later graph, or has promised to adopt only later ones."""
        return (self.graph.attempt, max(self.graph.epoch, self.promised)) > (graph.attempt, graph.epoch)

    def adopt(self, graph: Graph) -> set[str]:
        """Know the next graph; returns the deployed components that have no place at this peer any more."""
        before, self.graph = self.graph, graph
        self.former = self.former.union(before.addresses).difference(graph.addresses)
        moves = self.moves.adopt(before, graph, self.address)
        if before.origin != graph.origin:
            self.leader = graph.origin
            self.led_before = (*self.led_before, before.origin)
        self.operators = _operators_at(graph, self.address)
        built = {name: source for name, (source, peer) in graph.roles.rebuilds.items() if peer == self.address}
        rebuilt = {name: source for name, source in built.items() if name != source}
        copies = moves.here.union(graph.roles.backed_up(self.address), rebuilt, rebuilt.values())
        self._ready = (self._ready - moves.anew) & copies
        self.backups_committed = True  # those of the new graph are committed as it is adopted
        followed = {name for name, to in moves.followers.items() if to == self.address}
        return self.deployed - self.operators - rebuilt.keys() - followed

    def learn_rights(self, rights: Rights) -> None:
        """The application has ended, and its owner has granted or withdrawn a right since."""
        self.graph = msgspec.structs.replace(self.graph, rights=rights)

    def promise(self, successor: str, epoch: int) -> None:
        """Follow a successor, and adopt no graphs of earlier epochs than its first, so none of the origin's."""
        self.leader, self.promised = successor, epoch

    def lead(self) -> None:
        """This peer leads the application from now on, and nobody is to succeed it."""
        self.leader = self.address
        self.led_before = (*self.led_before, self.graph.origin)
        self.graph = self.graph.led_by(self.address)

    # -- its components and copies -----------------------------------------------------------------------------------

    @property
    def deployed(self) -> KeysView[str]:
        """Operators whose components are deployed at this peer."""
        return self.components.deployed

    @property
    def ready(self) -> Set[str]:
        """Operators whose copy at this peer could take over."""
        return self._ready

    def copy_ready(self, operator: str) -> None:
        """The copy of a component here could take over."""
        self._ready.add(operator)

    def copy_lags(self, operator: str) -> None:
        """The copy of a component here cannot take over at present."""
        self._ready.discard(operator)

    @property
    def sharable_operators(self) -> list[str]:
        """Operators that this peer executes and whose streams other applications may share.

        Of an application with active replicas these are only the sources that have none: if one replica is lost, its
        application goes on with the others, but an application that shares the stream of that replica would end.
        """
        here = self.operators & self.deployed
        active = asks_for_active(self.plan.operators.values(), self.plan.qos)
        private = set(KINDS) - {"source"} if active else ("sink", TAP)
        here -= {each for group in replicas_of(self.plan).values() for each in group} if active else set()
        return [operator for operator in here if self.plan.operators[operator].kind not in private]

    # -- its times ---------------------------------------------------------------------------------------------------

    @property
    def execution_time(self) -> float:
        """End-to-end execution time t̂, seconds: by the account of the origin, else measured, else projected."""
        if self.account >= 0.0:
            return self.account
        return self.delay if self.delay >= 0.0 else self.projected

    def hear(self, measured: MeasuredApplication, *, own: bool) -> bool:
        """Take over the feedback of whoever leads the application; returns whether it is the first.

        ``own``: whether this peer leads it: then it has measured the delay of its sinks itself.
        """
        first = self.state is MemberState.STARTED
        if first:
            self._become(MemberState.RUNNING)
        if not own:
            self.delay = measured.delay
        if measured.times:  # feedback without them says that they have not changed
            self.times = measured.times
        self.helpless, self.account = measured.helpless, measured.account
        return first

    def hear_account(self, account: float) -> None:
        """The origin has answered with t̂ by its account, seconds."""
        self.account = account

    def sinks_measured(self, delay: float) -> None:
        """The driver has measured t̂ at the sinks here, seconds."""
        self.delay = delay

    def sinks_end(self) -> bool:
        """The streams of all sinks here have ended; returns whether that is new."""
        new, self.sinks_ended = not self.sinks_ended, True
        return new


def _operators_at(graph: Graph, address: str) -> set[str]:
    return {operator for operator, peer in graph.roles.peers.items() if peer == address}


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
