"""Latest values of peers, applications, components and sinks, for views."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

import msgspec

from synergy_nb.control.roles import Roles
from synergy_nb.events import ComponentMeasurements, Event, LateRows, LinesSkipped
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.facts import EngineFacts, ReplicationFacts, RequestFacts, SharingFacts

WITHIN: Final = 0.01  # share of the results that may be late for a limit to count as met
FIRSTS: Final = 30.0  # seconds over which it counts which active replica was first
MARKS: Final = 40  # maximum number of marks of an application; the oldest are discarded beyond it


class LatestPeer(msgspec.Struct):
    """Latest values of a peer: ``promised`` share of its ``cores``, ``cpu`` in cores, ``memory`` in bytes.

    ``left`` is whether it has left the ring. ``predicted_load`` is a share of its cores, None if it is not predicted;
    ``overloaded`` is whether its load is in the highest level.
    """

    address: str
    name: str
    dead: bool = False
    silent: bool = False
    left: bool = False
    cpu: float | None = None
    cores: float = 0.0
    promised: float = 0.0
    memory: float = 0.0
    predicted_load: float | None = None
    overloaded: bool = False

    @property
    def gone(self) -> bool:
        """Whether it was declared dead, does not answer, or has left the ring."""
        return self.dead or self.silent or self.left

    @property
    def load(self) -> float | None:
        """Used cores over offered cores; None before the first measurement."""
        return None if self.cpu is None or self.cores <= 0 else self.cpu / self.cores


class LatestComponent(msgspec.Struct):
    """An operator of an application on its peer: its scheduling discipline, and its latest measurements, or None.

    ``least_slack`` is the least slack that was measured, seconds; None before the first. ``hot`` is whether it has no
    slack. ``moving`` is the address of the peer that it moves to; ``migration_reason`` is why it leaves its peer.
    ``firsts`` has the times and counts of the active replicas that feed it, of the last :data:`FIRSTS` seconds.
    """

    application: str
    operator: str
    peer: str
    deployed: bool = False
    discipline: str = ""
    removed: bool = False
    failure: str | None = None
    stats: ComponentMeasurements | None = None
    least_slack: float | None = None
    hot: bool = False
    moving: str = ""
    migration_reason: str = ""
    firsts: list[tuple[float, Mapping[str, int]]] = []

    def first_shares(self) -> dict[str, float]:
        """Active replicas that feed it to the share of the latest tuples that each delivered first; empty if none."""
        if len(self.firsts) < 2:
            return {}
        (_, before), (_, now) = self.firsts[0], self.firsts[-1]
        counts = {name: max(count - before.get(name, 0), 0) for name, count in now.items()}
        total = sum(counts.values())
        return {name: count / total for name, count in counts.items()} if total else {}

    def count_firsts(self, time: float, counts: Mapping[str, int]) -> None:
        """Add counts, and discard those that are too old; begin anew if the component did."""
        if self.firsts and any(count < self.firsts[-1][1].get(name, 0) for name, count in counts.items()):
            self.firsts = []
        self.firsts = [each for each in self.firsts if each[0] >= time - FIRSTS] + [(time, counts)]


class LatestFlow(msgspec.Struct):
    """Latest measurements of a sink: delays and limit in seconds, tuples/s, shares; and sums since its start.

    ``dropped`` counts tuples that were dropped since their deadline had passed, ``lost`` the results that they would
    have caused.
    """

    application: str
    sink: str
    limit: float | None = None
    p50: float | None = None
    p99: float | None = None
    rate: float | None = None
    miss: float | None = None
    tuples: int = 0
    counted: float = 0.0
    missed: float = 0.0
    dropped: int = 0
    lost: float = 0.0
    finished: bool = False
    totals: deque[tuple[float, int]] = msgspec.field(default_factory=deque)

    @property
    def within(self) -> bool | None:
        """Whether 99 % of the latest results, with the lost ones, were within the limit; None if that is unknown."""
        if self.limit is None or (self.p99 is None and not self.dropped):
            return None
        missed = (self.miss or 0.0) if self.dropped else 0.0
        return (self.p99 or 0.0) <= self.limit and missed <= WITHIN

    @property
    def missed_share(self) -> float | None:
        """Share of all tuples so far that were later than the limit, or dropped for that reason."""
        return self.missed / self.counted if self.counted and self.limit is not None else None


class Mark(msgspec.Struct, frozen=True):
    """An event of an application: ``text`` is a sentence with addresses of peers, ``label`` is for a chart."""

    time: float
    tone: str
    label: str
    text: str


class LatestRun(msgspec.Struct):
    """An application: its facts, its present peers, and what happened."""

    application: str
    # asked, engines, sharing, replication: facts about the request, parts on Spark, streams of other applications, and
    # the placements of its replicas
    asked: RequestFacts = msgspec.field(default_factory=RequestFacts)
    engines: EngineFacts = msgspec.field(default_factory=EngineFacts)
    sharing: SharingFacts = msgspec.field(default_factory=SharingFacts)
    replication: ReplicationFacts = msgspec.field(default_factory=ReplicationFacts)
    status: str = "composing"
    going: str = "running"  # its status while it goes on: "on hold" if a user has paused it
    reason: str = ""
    roles: Roles = Roles()  # present component graph λ and replication graph ρ
    # active replicas that were lost: id to the address of its peer and the reason
    lost_replicas: dict[str, tuple[str, str]] = {}
    # producer and reader of each stream that is discarded at present
    discarded: frozenset[tuple[str, str]] = frozenset()
    lost: set[str] = set()  # addresses of the peers of the application that have died
    orphaned: bool = False  # whether a peer has left it because its origin died
    marks: list[Mark] = []  # events of the application, in order of time
    began: float | None = None
    ended: float | None = None
    origin: str = ""  # address of its origin

    def learn(self, event: Event) -> None:
        """Add the facts of an event about it."""
        for facts in (self.asked, self.engines, self.sharing, self.replication):
            facts.add(event)

    def go_on_as(self, going: str) -> None:
        """A user has paused or resumed it."""
        self.status, self.going = going if self.status == self.going else self.status, going

    def mark(self, time: float, tone: str, label: str, text: str) -> None:
        """Add an event."""
        self.marks = [*self.marks[1 - MARKS :], Mark(time, tone, label, text)]

    def mark_once(self, time: float, text: str) -> None:
        """Add a note, unless the events contain it already."""
        if all(mark.text != text for mark in self.marks):
            self.mark(time, "note", "", text)

    def mark_loss(self, event: LateRows | LinesSkipped) -> None:
        """Add the rows that a source has left out so far, in place of what was added about it before."""
        if isinstance(event, LateRows):
            label, what = "late rows", f"dropped {counted(event.dropped, 'row')} that came too late"
        else:
            label, what = "lines skipped" if event.lines.count else "times", event.lines.clause
        self.marks = [
            mark for mark in self.marks if mark.label != label or not mark.text.startswith(f"{event.operator} ")
        ]
        self.mark(event.time, "bad", label, f"{event.operator} {what}")

    @property
    def peers(self) -> set[str]:
        """Addresses of the peers that execute it or have its backups, and of its origin."""
        return {*self.roles.addresses, *filter(None, [self.origin])}

    @property
    def running_replicas(self) -> dict[str, int]:
        """Operator to the number of its active replicas that are left; empty without active replicas."""
        replicas = [name for name, peer in self.roles.peers.items() if peer and peer not in self.lost]
        counts = Counter(map(original, replicas))
        return {name: counts[name] for name in self.replication.active}

    @property
    def left(self) -> dict[str, int]:
        """Operator to the number of its remaining replicas, for operators with fewer than were placed or asked for."""
        primaries, backups = self.roles.peers, self.roles.backups  # the primary is one of the replicas
        replicas = {name: (primaries.get(name), *peers) for name, peers in backups.items()}
        counts = {name: sum(peer not in self.lost for peer in peers) for name, peers in replicas.items()}
        wanted = self.replication.placed_replicas | self.replication.active
        counts |= self.running_replicas
        return {name: count for name, count in counts.items() if count < wanted.get(name, 0)}
