"""A journal as series over time, and what they were measured of: read once, event by event, and only what is new.

:class:`Readings` follows a journal by its sequence numbers. It keeps a line of bounded length for every quantity (see
:mod:`synergy_nb.widgets.lines`), and the last that is known of applications, sinks, components and peers. Nothing
depends on the portions in which events come, so a view that is made again shows what the one before it showed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from synergy_nb.journal import Event, Journal
from synergy_nb.troubles import TROUBLES, Trouble, joined, trouble
from synergy_nb.widgets.lines import Line

__all__ = ["ENDED", "Component", "Flow", "Mark", "Peer", "Readings", "Run"]

TRAILING: Final = 2.0  # seconds over which throughput is taken: results of windows come in bursts
ENDED: Final = frozenset({"finished", "failed", "rejected", "stopped"})
REMEMBERED: Final = 50  # applications; of more, those that ended first are forgotten
MARKS: Final = 40  # of an application; of more, the oldest are forgotten
MET: Final = 100  # different errors of peers; of more, the oldest are forgotten


class Peer(msgspec.Struct):
    """What is known of a peer: share of its ``cores`` that is ``promised``, ``cpu`` in cores, ``memory`` in bytes."""

    address: str
    name: str
    dead: bool = False
    silent: bool = False
    cpu: float | None = None
    cores: float = 0.0
    promised: float = 0.0
    memory: float = 0.0

    @property
    def gone(self) -> bool:
        """Whether it was declared dead, or does not answer."""
        return self.dead or self.silent

    @property
    def load(self) -> float | None:
        """Cores used over cores given; None before the first measurement."""
        return None if self.cpu is None or self.cores <= 0 else self.cpu / self.cores


class Component(msgspec.Struct):
    """An operator of an application on its peer, with what was measured last, as ``Component.stats`` names it."""

    application: str
    operator: str
    peer: str
    deployed: bool = False
    removed: bool = False
    failure: str | None = None
    stats: dict[str, Any] = {}


class Flow(msgspec.Struct):
    """What one sink measured last: delays and limit in seconds, tuples/s, shares; and sums since it began."""

    application: str
    sink: str
    limit: float | None = None
    p50: float | None = None
    p99: float | None = None
    rate: float | None = None
    miss: float | None = None
    tuples: int = 0
    counted: int = 0
    missed: float = 0.0
    finished: bool = False
    totals: deque[tuple[float, int]] = msgspec.field(default_factory=deque)

    @property
    def missed_share(self) -> float | None:
        """Share of all tuples so far that were later than the limit."""
        return self.missed / self.counted if self.counted and self.limit is not None else None


class Mark(msgspec.Struct, frozen=True):
    """An event of an application: ``said`` is a sentence with addresses, ``label`` two words for a chart."""

    time: float
    tone: str
    label: str
    said: str


class Run(msgspec.Struct):
    """An application: ``asked`` is Q_ξ in base units, ``graph`` operator to peer address, ``origin`` an address.

    Parameters
    ----------
    parts
        Operator in the graph that stands for a part of the plan on Spark, to the operators of that part.
    shared
        Operator whose stream ran already to the application and operator that give it.
    uses
        The same operator to all components that make its stream: application, operator, peer address.
    degree
        Number of replicas of each component that was placed; 0 without replication.
    backups
        Replication graph ρ as it is now: operator to peer addresses.
    lost
        Addresses of the peers of the application that have died.
    marks
        Events of the application, in order of time.
    """

    application: str
    plan: str = ""
    asked: dict[str, float] = {}
    operators: list[str] = []
    status: str = "composing"
    reason: str = ""
    graph: dict[str, str] = {}
    parts: dict[str, list[str]] = {}
    shared: dict[str, tuple[str, str]] = {}
    uses: dict[str, list[tuple[str, str, str]]] = {}
    degree: int = 0
    backups: dict[str, list[str]] = {}
    lost: set[str] = set()
    marks: list[Mark] = []
    submitted: float | None = None
    began: float | None = None
    ended: float | None = None
    origin: str = ""

    def mark(self, time: float, tone: str, label: str, said: str) -> None:
        """Add an event."""
        self.marks = [*self.marks[1 - MARKS :], Mark(time, tone, label, said)]

    @property
    def peers(self) -> set[str]:
        """Addresses of the peers that execute it or keep its backups, and of its origin."""
        keeping = {peer for peers in self.backups.values() for peer in peers}
        return {*self.graph.values(), *keeping} | ({self.origin} if self.origin else set())

    @property
    def left(self) -> dict[str, int]:
        """Component to the number of its remaining replicas, for components with fewer than were asked for."""
        alive = {
            name: [self.graph.get(name), *peers] for name, peers in self.backups.items()
        }  # the primary is one of the replicas
        counts = {name: sum(peer not in self.lost for peer in peers) for name, peers in alive.items()}
        return {name: count for name, count in counts.items() if count < self.degree}


class Readings:
    """What a journal tells of one application, or of all.

    Parameters
    ----------
    application
        Which; None: all of them.
    names
        Peer address to a name for people; peers also tell theirs in the journal.

    Attributes
    ----------
    now, first : float
        Times of the latest and of the first event, in seconds.
    closed : bool
        Whether whoever watched has closed the cluster.
    lines : dict
        ``(quantity, of what)`` to its line: ``p50``, ``p99``, ``rate`` and ``miss`` of ``application/sink``; ``load``
        and ``promised`` of a peer's address.
    runs, flows, components, peers : dict
        By application, by (application, sink), by (application, operator), by address.
    troubles : dict
        Errors of peers by what is said of them.
    """

    def __init__(self, application: str | None = None, names: Mapping[str, str] | None = None) -> None:
        self.application = application
        self.names: Mapping[str, str] = names if names is not None else {}
        self.now = -math.inf
        self.first = math.inf
        self.lines: dict[tuple[str, str], Line] = {}
        self.runs: dict[str, Run] = {}
        self.flows: dict[tuple[str, str], Flow] = {}
        self.components: dict[tuple[str, str], Component] = {}
        self.peers: dict[str, Peer] = {}
        self.troubles: dict[str, Trouble] = {}
        self.closed = False
        self._next = 0
        self._told: dict[str, Callable[[Event], None]] = {
            "measured": self._measured,
            "qos": self._qos,
            "peer_started": self._peer_started,
            "peer_declared_dead": self._peer_dead,
            "peer_refuted_death": self._peer_alive,
            "peer_silent": self._peer_silent,
            "peer_answers": self._peer_alive,
            "request_submitted": self._submitted,
            "engines_chosen": self._engines,
            "engines_changed": self._engines,
            "graph_selected": self._graph,
            "application_running": self._running,
            "placement_completed": self._replicated,
            "replicas_lost": self._replicas_lost,
            "taking_over": self._taking_over,
            "taken_over": self._taken_over,
            "moved": self._moved,
            "stream_moved": self._moved,
            "move_given_up": self._move_given_up,
            "component_deployed": self._deployed,
            "component_undeployed": self._undeployed,
            "operator_failed": self._operator_failed,
            "component_failed": self._operator_failed,
            "sink_finished": self._sink_finished,
            "cluster_closed": self._cluster_closed,
            **{f"application_{status}": self._ended for status in sorted(ENDED)},
            **dict.fromkeys(sorted(TROUBLES), self._trouble),
        }

    def read(self, journal: Journal) -> bool:
        """Take in what has been appended to ``journal`` since the last call; whether any of it matters here."""
        events = journal.since(self._next)
        if not events:
            return False
        self._next = events[-1].sequence + 1
        return self.take(events)

    def take(self, events: Iterable[Event]) -> bool:
        """Take in events; whether any of them matters here."""
        mattered = False
        for event in events:
            told = self._told.get(event.kind)
            if told is None or (event.kind in OF_APPLICATIONS and self.application not in (None, event.subject)):
                continue
            mattered = True
            self.now = max(self.now, event.time)
            self.first = min(self.first, event.time)
            told(event)
        return mattered

    def line(self, quantity: str, of: str) -> Line:
        """The line of a quantity; a new one where there is none."""
        key = (quantity, of)
        if key not in self.lines:
            self.lines[key] = Line()
        return self.lines[key]

    def name(self, address: str) -> str:
        """Name of a peer, as the names given or its journal tell it."""
        known = self.names.get(address)
        return known if known is not None else self.peer(address).name

    def peer(self, address: str) -> Peer:
        """What is known of a peer."""
        if address not in self.peers:
            self.peers[address] = Peer(address, self.names.get(address, address))
        return self.peers[address]

    # -- peers ---------------------------------------------------------------------------------------------------

    def _peer_started(self, event: Event) -> None:
        peer = self.peer(event.peer)
        peer.name = str(event.detail.get("name") or peer.name)
        peer.dead = peer.silent = False

    def _peer_dead(self, event: Event) -> None:
        address = event.subject
        self.peer(address).dead = True
        for run in self.runs.values():
            self._lose(run, address, event.time)

    def _lose(self, run: Run, address: str, time: float) -> None:
        """Mark the death of a peer that an application uses, once, whoever tells of it."""
        if run.status in ENDED or address in run.lost or address not in run.peers:
            return
        run.lost = run.lost | {address}
        had = [name for name, peer in run.graph.items() if peer == address]
        had += [f"the backup of {name}" for name, peers in run.backups.items() if address in peers]
        had += ["its origin"] if address == run.origin else []
        run.mark(time, "bad", f"{address} died", f"{address} died with {', '.join(had)}")

    def _peer_silent(self, event: Event) -> None:
        self.peer(event.subject).silent = True

    def _peer_alive(self, event: Event) -> None:
        peer = self.peer(event.subject)
        peer.dead = peer.silent = False
        for run in self.runs.values():
            run.lost = run.lost - {event.subject}

    def _trouble(self, event: Event) -> None:
        said = trouble(event)
        if not said:
            return
        self.troubles[said] = joined(self.troubles.pop(said, None), event, said)  # the latest is the last
        if len(self.troubles) > MET:
            del self.troubles[next(iter(self.troubles))]

    def _measured(self, event: Event) -> None:
        detail = event.detail
        peer = self.peer(event.peer)
        peer.dead = peer.silent = False  # who measures lives
        peer.cpu, peer.memory = float(detail["cpu"]), float(detail["memory"])
        peer.cores, peer.promised = float(detail["cores"]), float(detail["promised"])
        if peer.load is not None:
            self.line("load", event.peer).append(event.time, peer.load)
        self.line("promised", event.peer).append(event.time, peer.promised)
        for stats in detail["components"]:
            key = (stats["application"], stats["operator"])
            if self.application in (None, key[0]):
                self._component(*key, event.peer).stats = stats

    def _cluster_closed(self, _event: Event) -> None:
        self.closed = True

    # -- sinks ---------------------------------------------------------------------------------------------------

    def _qos(self, event: Event) -> None:
        detail = event.detail
        key = (event.subject, str(detail["operator"]))
        first = key not in self.flows
        flow = self.flows.setdefault(key, Flow(*key))
        of = "/".join(key)
        flow.limit, flow.finished = detail["limit_s"], bool(detail["finished"])
        total = int(detail["tuples"])
        run = self.runs.get(event.subject)
        if run is not None and run.status in ENDED and total == flow.tuples:
            return  # a sink that only keeps its results has nothing more to tell
        whole = not first or (run is not None and run.began is not None)  # else its beginning is not in the journal
        number = max(total - flow.tuples, 0) if whole else 0
        flow.tuples = total
        if detail["delay_p50_s"] is not None:
            flow.p50, flow.p99, flow.miss = detail["delay_p50_s"], detail["delay_p99_s"], detail["miss_rate"]
            self.line("p50", of).append(event.time, detail["delay_p50_s"])
            self.line("p99", of).append(event.time, detail["delay_p99_s"])
            if flow.miss is not None:
                flow.counted += number
                flow.missed += number * flow.miss
                self.line("miss", of).append(event.time, flow.miss)
        totals = flow.totals
        while len(totals) > 1 and totals[1][0] <= event.time - TRAILING:
            totals.popleft()
        flow.rate = float(detail["tuples_per_s"])
        if totals and event.time > totals[0][0]:
            flow.rate = max(total - totals[0][1], 0) / (event.time - totals[0][0])
        totals.append((event.time, total))
        self.line("rate", of).append(event.time, flow.rate)

    def _sink_finished(self, event: Event) -> None:
        key = (event.subject, str(event.detail["operator"]))
        self.flows.setdefault(key, Flow(*key)).finished = True

    # -- applications --------------------------------------------------------------------------------------------

    def run(self, application: str) -> Run:
        """What is known of an application."""
        if application not in self.runs:
            self.runs[application] = Run(application)
            if len(self.runs) > REMEMBERED:
                self._forget()
        return self.runs[application]

    def _forget(self) -> None:
        ended = next((run.application for run in self.runs.values() if run.status in ENDED), None)
        if ended is None:
            return
        del self.runs[ended]
        for of in [of for of in self.flows if of[0] == ended]:
            del self.flows[of]
            for quantity in ("p50", "p99", "rate", "miss"):
                self.lines.pop((quantity, "/".join(of)), None)
        for key in [key for key in self.components if key[0] == ended]:
            del self.components[key]

    def _submitted(self, event: Event) -> None:
        run = self.run(event.subject)
        run.submitted, run.origin = event.time, event.peer
        run.plan = str(event.detail.get("plan", ""))
        run.operators = list(event.detail.get("operators", ()))
        run.asked = dict(event.detail.get("qos", {}))

    def _engines(self, event: Event) -> None:
        self.run(event.subject).parts = {name: list(members) for name, members in event.detail["parts"].items()}

    def _graph(self, event: Event) -> None:
        run = self.run(event.subject)
        within = {each for part, members in run.parts.items() for each in members if each != part}
        run.graph = {name: peer for name, peer in event.detail["peers"].items() if name not in within}
        for operator, peer in run.graph.items():
            self._component(event.subject, operator, peer).peer = peer

    def _running(self, event: Event) -> None:
        self._graph(event)
        run = self.run(event.subject)
        run.status, run.reason, run.began = "running", "", event.time
        run.shared = {tap: (of, name) for tap, (of, name) in event.detail.get("shared", {}).items()}
        run.uses = {tap: list(made) for tap, made in event.detail.get("uses", {}).items()}

    def _replicated(self, event: Event) -> None:
        run = self.run(event.subject)
        detail = event.detail
        run.degree = int(detail["degree"])
        run.backups = {name: list(peers) for name, peers in detail["backups"].items()}
        where = ", ".join(f"{name} on {' and '.join(peers)}" for name, peers in run.backups.items() if peers)
        if where:
            run.mark(event.time, "note", "", f"backups were placed: {where}")

    def _replicas_lost(self, event: Event) -> None:
        self._lose(self.run(event.subject), str(event.detail["at"]), event.time)

    def _taking_over(self, event: Event) -> None:
        self._lose(self.run(event.subject), str(event.detail["dead"]), event.time)

    def _taken_over(self, event: Event) -> None:
        run = self.run(event.subject)
        before = dict(run.graph)
        self._graph(event)
        run.backups = {name: list(peers) for name, peers in event.detail["backups"].items()}
        moved: dict[str, list[str]] = {}
        for name, peer in run.graph.items():
            if before.get(name) != peer:
                moved.setdefault(peer, []).append(name)
        for peer, names in moved.items():
            run.mark(event.time, "good", "taken over", f"the backup on {peer} took over {', '.join(names)}")

    def _moved(self, event: Event) -> None:
        self._graph(event)
        run, detail = self.run(event.subject), event.detail
        shared = f" of {detail['of']}, which it shares," if "of" in detail else ""
        run.uses = {tap: list(made) for tap, made in detail.get("uses", run.uses).items()}
        said = f"{detail['operator']}{shared} moved from {detail['at']} to {detail['to']}"
        run.mark(event.time, "good", "" if shared else "moved", said)

    def _move_given_up(self, event: Event) -> None:
        run, detail = self.run(event.subject), event.detail
        operator = str(detail["operator"])
        component = self._component(event.subject, operator, event.peer)
        component.peer, component.removed = run.graph.get(operator, component.peer), False
        run.mark(event.time, "note", "", f"{operator} did not move to {detail['to']}: {detail['reason']}")

    def _ended(self, event: Event) -> None:
        run = self.run(event.subject)
        status = event.kind.removeprefix("application_")
        if run.status in ENDED and status == "stopped":
            return  # it had ended before its results were given back
        run.status, run.reason, run.ended = status, str(event.detail.get("reason", "")), event.time
        if status == "failed":
            run.mark(event.time, "bad", "failed", f"the application failed: {run.reason}")

    def _component(self, application: str, operator: str, peer: str) -> Component:
        key = (application, operator)
        if key not in self.components:
            self.components[key] = Component(application, operator, peer)
            self.run(application)
        return self.components[key]

    def _deployed(self, event: Event) -> None:
        component = self._component(event.subject, str(event.detail["operator"]), event.peer)
        component.peer, component.deployed, component.removed, component.failure = event.peer, True, False, None

    def _undeployed(self, event: Event) -> None:
        component = self._component(event.subject, str(event.detail["operator"]), event.peer)
        if component.peer == event.peer:
            component.removed = True

    def _operator_failed(self, event: Event) -> None:
        component = self._component(event.subject, str(event.detail["operator"]), event.peer)
        component.failure = str(event.detail.get("reason", ""))


#: Kinds whose subject is an application.
OF_APPLICATIONS: Final = frozenset(
    {
        "qos",
        "request_submitted",
        "engines_chosen",
        "engines_changed",
        "graph_selected",
        "application_running",
        "placement_completed",
        "replicas_lost",
        "taking_over",
        "taken_over",
        "moved",
        "stream_moved",
        "move_given_up",
        "component_deployed",
        "component_undeployed",
        "operator_failed",
        "component_failed",
        "sink_finished",
        *(f"application_{status}" for status in ENDED),
    }
)
