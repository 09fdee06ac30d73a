"""Techniques for reliable streams, each on the data plane of simulated peers, through a fault (ICDE 2008, VI-B).

The query is that of figure 1 of the paper: source A measures the latencies to B and C, these measure their CPU loads; a
union merges what A measures, another one the loads, and a join at OSU pairs both by server. The unions are at WISC and
at Purdue. All executions take no time, so that the delay of a result is that of links, and of what a technique waits
for.

Replication, no replication and passive replication are the platform's own. The two others exist for comparison only:

*Synchronization.* The backups of passive replication acknowledge each chunk, and the order of inputs that it carries,
at once. Chunks leave the primary for other readers when all of its backups have acknowledged them.

*Deterministic order.* All replicas execute, and sort by punctuations, so that they emit the same tuples at the same
positions. Each reader subscribes to one of them. When that is replaced, the reader subscribes to another one from the
point that it has reached; it has been retained for it.

A peer that fails is replaced after a stated time. That is an instruction to all peers at the same moment, so that the
time of the detector is not mixed with that of a technique. Replication and no replication get no such instruction, nor
does any peer hear that a link has broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import polars as pl

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.streams.component import Component
from synergy_nb.dataflow.streams.deployments import Assignment, Deployment, SharedReader
from synergy_nb.dataflow.streams.effects import Effect
from synergy_nb.dataflow.streams.execution import Logic, Outcome, Work
from synergy_nb.dataflow.streams.frames import Data, Frame
from synergy_nb.dataflow.streams.hosting import Hosting
from synergy_nb.dataflow.streams.sorted_input import SortedInput
from synergy_nb.dataflow.streams.values import COPY
from synergy_nb.dataflow.tuples import Batch, Item
from synergy_nb.plan import Plan, source
from synergy_nb.plan.active_replicas import replicated
from synergy_nb.simulator.timed_world import Promises, TimedWorld

__all__ = [
    "DELAYS_MS",
    "FAULTS",
    "PERIOD_S",
    "TECHNIQUES",
    "Arrival",
    "Deterministic",
    "Reliable",
    "Sites",
    "Synchronized",
    "Technique",
    "query",
    "through_a_fault",
]

A, B, C, WISC, PURDUE, OSU = PEERS = ("A", "B", "C", "WISC", "Purdue", "OSU")
#: One-way delays between sites, ms.
DELAYS_MS: Final[Mapping[tuple[str, str], float]] = {
    (A, WISC): 12, (A, PURDUE): 28, (B, PURDUE): 15, (B, WISC): 40, (C, PURDUE): 35, (C, WISC): 22,
    (WISC, PURDUE): 18, (WISC, OSU): 25, (PURDUE, OSU): 14,
}  # fmt: skip
PERIOD_S: Final = 0.5  # time between two tuples of a source
SLOW_S: Final = 5.0  # delay of a link that is slowed
CRASH, HANG, SLOW = FAULTS = ("crash", "hang", "slow link")


class Sites:
    """Stated delays between sites; those of a link can be changed.

    Parameters
    ----------
    delays_ms
        One-way delay of each link, ms, in both directions.

    Examples
    --------
    >>> sites = Sites(DELAYS_MS)
    >>> sites.delay("OSU", "WISC"), sites.delay("OSU", "OSU")
    (0.025, 0.0)
    """

    def __init__(self, delays_ms: Mapping[tuple[str, str], float]) -> None:
        self._seconds = {frozenset(pair): each / 1e3 for pair, each in delays_ms.items()}

    def delay(self, sender: str, to: str) -> float:
        """Seconds from one site to another."""
        return 0.0 if sender == to else self._seconds[frozenset((sender, to))]

    def change(self, one: str, other: str, seconds: float) -> None:
        """Change the delay of a link."""
        self._seconds[frozenset((one, other))] = seconds


class Arrival(NamedTuple):
    """A result at its sink.

    Parameters
    ----------
    at
        Time of the arrival, seconds.
    stamp
        Time of the result, seconds.
    server
        Server whose load it states.
    """

    at: float
    stamp: float
    server: str


class Reliable(TimedWorld):
    """Peers that execute without delay, and record each result; a peer that fails may be replaced.

    Parameters
    ----------
    peers
        Addresses.
    network
        Delays between the peers.
    promises
        Time at which sources promise that no earlier tuple follows.

    Attributes
    ----------
    arrivals : list of Arrival
        Results that have reached a sink.
    """

    def __init__(self, peers: Sequence[str], network: Sites, promises: Promises = Promises.WITH_THE_NEXT) -> None:
        super().__init__(peers, {}, network=network, promises=promises)
        self.faults.capture = 0.0
        self.arrivals: list[Arrival] = []

    def crash(self, peer: str) -> None:
        """Stop a peer for ever; nobody hears of it."""
        self._nodes[peer].crashed = True

    def later(self, at: float, action: Callable[[], None]) -> None:
        """Do something at a time in seconds."""
        self._later(at - self.now, action)

    def _publish(self, deployment: Deployment) -> None:
        self.deployments[deployment.application] = deployment
        for peer in self._nodes:
            self._later(0.0, self._converge, peer, deployment)

    def _another(self, application: str, operator: str, taken: set[str]) -> tuple[str, ...]:
        """No further peer: what is lost is not replaced."""
        return ()

    def _measure(self, work: Work, outcome: Outcome) -> None:
        super()._measure(work, outcome)
        if work.component.kind == "sink":
            for chunk in outcome.chunks:
                if isinstance(chunk.item, Batch):
                    stamps = chunk.item.table.get_column("time").cast(pl.Int64)
                    pairs = zip(stamps, chunk.item.table.get_column("server"), strict=True)
                    self.arrivals += [Arrival(self.now, stamp / 1e6, server) for stamp, server in pairs]


class Synchronized(Reliable):
    """Backups acknowledge at once, and primaries hold their outputs until all backups have."""

    def __init__(self, peers: Sequence[str], network: Sites, promises: Promises = Promises.WITH_THE_NEXT) -> None:
        super().__init__(peers, network, promises)
        self._held: dict[str, list[tuple[str, Data]]] = {peer: [] for peer in peers}

    def _send(self, peer: str, to: str, frame: Frame) -> None:
        if isinstance(frame, Data) and frame.chunks and frame.reader.port != COPY:
            self._held[peer].append((to, frame))
        else:
            super()._send(peer, to, frame)

    def _at(self, peer: str, act: Callable[[Hosting], list[Effect]]) -> None:
        super()._at(peer, act)
        held, self._held[peer] = self._held[peer], []
        for to, frame in held:
            if self._is_acknowledged(peer, frame):
                super()._send(peer, to, frame)
            else:
                self._held[peer].append((to, frame))

    def _is_acknowledged(self, peer: str, frame: Data) -> bool:
        """Whether all backups have what a frame carries."""
        component = self._nodes[peer].hosting.producer(frame.output)
        cursors = () if component is None else component.log.cursors.values()
        return all(each.received >= frame.chunks[-1].end for each in cursors if each.reader.port == COPY)

    def _arrive(self, peer: str, to: str, frame: Frame, sent: float) -> None:
        super()._arrive(peer, to, frame, sent)
        if isinstance(frame, Data) and frame.chunks and frame.reader.port == COPY:
            self._at(to, lambda hosting: self._answered(hosting, (frame.output.application, frame.output.operator)))

    def _answered(self, hosting: Hosting, key: tuple[str, str]) -> list[Effect]:
        copy = hosting.roles.copies.get(key)
        if copy is not None and copy.ack_at is not None:
            copy.ack_at = self.now
            hosting.touch(*key)
        return hosting.tick(self.now)


class Sorted:
    """An operator whose output is sorted by punctuations: it depends on the tuples only, not on their arrival."""

    def __init__(self, operator: Logic) -> None:
        self._operator = operator
        self._sort = SortedInput()

    @property
    def late(self) -> int:
        """Tuples that the operator dropped as they came after a promise."""
        return self._operator.late

    @property
    def state_bytes(self) -> int:
        """Bytes of the state of the operator and of the tuples that are held."""
        return self._operator.state_bytes + self._sort.nbytes

    def needs(self, port: int, item: Item, /) -> float:
        """Estimate the bytes that processing an item may need in addition to the state."""
        return self._operator.needs(port, item) + self._sort.needs(item)

    def execute(self, port: int, item: Item, /) -> Iterator[Item]:
        """Process an item, and return in order what is complete now."""
        for made in self._operator.execute(port, item):
            yield from self._sort.receive(made)

    def save(self) -> SavedState:
        """Return all that a new instance needs to resume from here."""
        inner, held = self._operator.save(), self._sort.save()
        tables = {2 * number: table for number, table in inner.tables.items()}
        tables |= {2 * number + 1: table for number, table in held.tables.items()}
        return SavedState(msgspec.msgpack.encode((inner.head, held.head)), tables)

    def restore(self, saved: SavedState, /) -> None:
        """Resume where the instance was that saved this state."""
        head, held = msgspec.msgpack.decode(saved.head, type=tuple[bytes, bytes])
        tables = saved.tables.items()
        self._operator.restore(SavedState(head, {number // 2: each for number, each in tables if not number % 2}))
        self._sort.restore(SavedState(held, {number // 2: each for number, each in tables if number % 2}))


class Deterministic(Reliable):
    """Each of some components is executed by two peers in the same order; readers read from one of them.

    Attributes
    ----------
    standbys : dict of str to str
        Operator to the second peer that executes it.
    """

    def __init__(self, peers: Sequence[str], network: Sites, promises: Promises = Promises.WITH_THE_NEXT) -> None:
        super().__init__(peers, network, promises)
        self.standbys: dict[str, str] = {}

    def _create(self, deployment: Deployment, component: Component) -> Logic | None:
        logic = super()._create(deployment, component)
        return Sorted(logic) if logic is not None and component.operator in self.standbys else logic

    def replace_dead(self, dead: str) -> None:
        """Have readers read from the other peer."""
        for application, known in self.deployments.items():
            assignments = dict(known.assignments)
            for operator, standby in self.standbys.items():
                if dead == assignments[operator].active:
                    assignments[operator] = msgspec.structs.replace(assignments[operator], active=standby)
            self.standbys = dict.fromkeys(self.standbys, "")
            self.change(application, assignments)

    def _converge(self, peer: str, deployment: Deployment) -> None:
        super()._converge(peer, self._seen(peer, deployment))

    def _seen(self, peer: str, deployment: Deployment) -> Deployment:
        """The deployment as a peer has to know it: it executes its components, and sources have two readers."""
        assignments = dict(deployment.assignments)
        for operator, standby in self.standbys.items():
            there = assignments[operator]
            if not standby:
                continue
            if peer == standby:
                assignments[operator] = msgspec.structs.replace(there, active=standby)
            for port, feed in enumerate(there.inputs):
                producer: Assignment = assignments[feed.operator]
                reader = SharedReader(feed.application, operator, port, standby if peer != standby else there.active)
                readers = (*producer.shared_readers, reader)
                assignments[feed.operator] = msgspec.structs.replace(producer, shared_readers=readers)
        return msgspec.structs.replace(deployment, assignments=assignments)


# -- the experiment ----------------------------------------------------------------------------------------------------


class Technique(NamedTuple):
    """A technique of the comparison.

    Parameters
    ----------
    world
        World that carries it out.
    second
        Use of the second peers of the unions: ``none``, ``active`` (replicas), ``backup`` or ``standby``.
    promises
        Time at which sources promise that no earlier tuple follows.
    switching_s
        Seconds from the instruction to replace a peer until the other one sends to the reader; None: there is none.
    """

    world: type[Reliable]
    second: str
    promises: Promises = Promises.WITH_THE_NEXT
    switching_s: float | None = None


#: A take-over asks all peers for the order of inputs that they know: a round trip to the farthest, C.
_TAKE_OVER_S: Final = 2 * DELAYS_MS[C, PURDUE] / 1e3
#: The reader asks the other replica.
_SWITCH_S: Final = DELAYS_MS[PURDUE, OSU] / 1e3

TECHNIQUES: Final[Mapping[str, Technique]] = {
    "no replication": Technique(Reliable, "none"),
    "replication": Technique(Reliable, "active"),
    "synchronization": Technique(Synchronized, "backup", switching_s=_TAKE_OVER_S),
    "deterministic, promises at once": Technique(Deterministic, "standby", Promises.AT_ONCE, _SWITCH_S),
    "deterministic, promises with the next": Technique(Deterministic, "standby", switching_s=_SWITCH_S),
    "passive replication": Technique(Reliable, "backup", switching_s=_TAKE_OVER_S),
}


def query() -> Plan:
    """The query of figure 1: two streams of latencies, two of loads, two unions, and a join at OSU."""
    columns = {"server": "str", "value": "int"}
    streams = {
        name: source("python", name=name, columns=columns, rate=1.0 / PERIOD_S, id=name)
        for name in ("latency_b", "latency_c", "load_b", "load_c")
    }
    latencies = streams["latency_b"].union(streams["latency_c"], id="latencies")
    loads = streams["load_b"].union(streams["load_c"], id="loads")
    within = f"{PERIOD_S * 1e3 - 1e-3:g} ms"  # less than a period
    return latencies.join(loads, on="server", within=within, id="join", at=OSU).sink("out", id="out")


def _tables(seconds: float) -> dict[str, pl.DataFrame]:
    count = round(seconds / PERIOD_S)
    stamps = [round(1e6 * PERIOD_S * number) for number in range(count)]
    times = pl.Series("time", stamps, dtype=pl.Int64).cast(pl.Datetime("us"))
    return {
        f"{kind}_{server}": pl.DataFrame(
            [times, pl.Series("server", [server.upper()] * count), pl.Series("value", range(count), dtype=pl.Int64)]
        )
        for kind in ("latency", "load")
        for server in "bc"
    }


def through_a_fault(
    name: str, fault: str, at: float, until: float, failover: float = 0.8, hang: float = 5.0
) -> list[Arrival]:
    """Run a technique through a fault of WISC, and return all results that are stamped before the end.

    Parameters
    ----------
    name
        Name of the technique.
    fault
        ``crash``; ``hang``: WISC stops, and resumes; ``slow link``: that of WISC to OSU takes 5 s from then on.
    at, until
        Times of the fault and of the end, seconds.
    failover
        Seconds from the fault until another peer sends what WISC would have sent, where a technique replaces it.
    hang
        Seconds after which WISC resumes.
    """
    technique = TECHNIQUES[name]
    sites = Sites(DELAYS_MS)
    world = technique.world(PEERS, sites, technique.promises)
    plan, second = query(), {"latencies": PURDUE, "loads": WISC}
    places = {"latency_b": A, "latency_c": A, "load_b": B, "load_c": C, "join": OSU, "out": OSU}
    places |= {"latencies": WISC, "loads": PURDUE}
    backups: dict[str, tuple[str, ...]] = {}
    if technique.second == "active":
        plan = replicated(plan, 2)
        places |= {f"{operator}~1": peer for operator, peer in second.items()}
    elif technique.second == "backup":
        backups = {operator: (peer,) for operator, peer in second.items()}
    elif isinstance(world, Deterministic):
        world.standbys = dict(second)
    world.clients["app", "out"] = 1.0
    world.deploy("app", plan, places, _tables(until + 2.0 * PERIOD_S), backups=backups)

    def happen() -> None:
        if fault == CRASH:
            world.crash(WISC)
        elif fault == HANG:
            world.hang(WISC, hang)
        else:
            sites.change(WISC, OSU, SLOW_S)

    world.later(at, happen)
    if technique.switching_s is not None:
        world.later(at + failover - technique.switching_s, lambda: world.replace_dead(WISC))
    world.run(until + 2.0 * PERIOD_S - world.now)
    if world.failures():
        raise RuntimeError(f"{name}: {world.failures()}")
    return [each for each in world.arrivals if each.stamp < until]
