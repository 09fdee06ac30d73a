"""Techniques for reliable streams, each on the data plane of simulated peers, through a fault (ICDE 2008, VI-B).

The query is that of figure 1 of the paper: source A measures the latencies to B and C, these measure their CPU loads; a
union merges what A measures, another one the loads, and a join at OSU pairs both by server. The unions are at WISC and
at Purdue. All executions take no time, so that the delay of a result is that of links, and of what a technique waits
for.

All techniques are the platform's own, as plans ask for them
(:class:`~synergy_nb.plan.checks.replica_degrees.Technique`), and peers do the same on Dask workers
(:mod:`~synergy_experiments.worlds.reliable_peers`):

*Synchronization.* The backups of passive replication acknowledge each chunk, and the order of inputs that it carries,
at once. Chunks leave the primary for other readers when all of its backups have acknowledged them.

*Deterministic order.* All replicas execute, and read their inputs in the order of event times, so that they emit the
same tuples at the same positions. One of them sends to each reader. Another one that replaces it sends what it has
retained, and the reader goes on from the point that it has reached.

A peer that fails is replaced after a stated time. That is an instruction to all peers at the same moment, so that the
time of the detector is not mixed with that of a technique. Replication and no replication get no such instruction, nor
does any peer hear that a link has broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import polars as pl

from synergy_experiments.flows.timed_world import Promises, TimedWorld
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.active_replicas import degrees_of, replicated

__all__ = [
    "DELAYS_MS",
    "FAULTS",
    "PERIOD_S",
    "TECHNIQUES",
    "Arrival",
    "Reliable",
    "Sites",
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
        self.nodes[peer].crashed = True

    def later(self, at: float, action: Callable[[], None]) -> None:
        """Do something at a time in seconds."""
        self.after(at - self.now, action)

    def _publish(self, deployment: Deployment) -> None:
        self.deployments[deployment.application] = deployment
        for peer in self.nodes:
            self.after(0.0, self._converge, peer, deployment)

    def _another(self, application: str, operator: str, taken: set[str]) -> tuple[str, ...]:
        """No further peer: what is lost is not replaced."""
        return ()

    def _measure(self, work: Work, outcome: ExecutionOutcome) -> None:
        super()._measure(work, outcome)
        if work.component.kind == "sink":
            for chunk in outcome.chunks:
                if isinstance(chunk.item, Batch):
                    stamps = chunk.item.table.get_column("time").cast(pl.Int64)
                    pairs = zip(stamps, chunk.item.table.get_column("server"), strict=True)
                    self.arrivals += [Arrival(self.now, stamp / 1e6, server) for stamp, server in pairs]


# -- the experiment ----------------------------------------------------------------------------------------------------


class Technique(NamedTuple):
    """A technique of the comparison.

    Parameters
    ----------
    availability
        Availability of the unions, such as ``"ordered 2"``; empty: none is asked for.
    promises
        Time at which sources promise that no earlier tuple follows.
    switching_s
        Seconds from the instruction to replace a peer until the other one sends to the reader; None: there is none.
    """

    availability: str
    promises: Promises = Promises.WITH_THE_NEXT
    switching_s: float | None = None


#: A take-over asks all peers for the order of inputs that they know: a round trip to the farthest, C.
_TAKE_OVER_S: Final = 2 * DELAYS_MS[C, PURDUE] / 1e3

TECHNIQUES: Final[Mapping[str, Technique]] = {
    "no replication": Technique(""),
    "replication": Technique("active 2"),
    "synchronization": Technique("synchronized 2", switching_s=_TAKE_OVER_S),
    "deterministic, promises at once": Technique("ordered 2", Promises.AT_ONCE, 0.0),
    "deterministic, promises with the next": Technique("ordered 2", switching_s=0.0),
    "passive replication": Technique("degree 2", switching_s=_TAKE_OVER_S),
}


def query(availability: str = "", period: float = PERIOD_S, at: Mapping[str, str] | None = None) -> Plan:
    """The query of figure 1: two streams of latencies, two of loads, two unions, and a join at OSU.

    Parameters
    ----------
    availability
        Availability of the unions, such as ``"ordered 2"``; empty: none is asked for.
    period
        Seconds between two tuples of a source.
    at
        Operator to the name of the peer that it is pinned to; None: the join to OSU.
    """
    at = {"join": OSU} if at is None else at
    asked = {"availability": availability} if availability else {}
    columns = {"server": "str", "value": "int"}
    streams = {
        name: source("python", name=name, columns=columns, rate=1.0 / period, id=name, at=at.get(name))
        for name in ("latency_b", "latency_c", "load_b", "load_c")
    }
    latencies, loads = (
        streams[f"{one}_b"].union(streams[f"{one}_c"], id=name, at=at.get(name), **asked)
        for one, name in (("latency", "latencies"), ("load", "loads"))
    )
    within = f"{period * 5e2:g} ms"  # half a period: a tuple pairs with that of the same time
    return latencies.join(loads, on="server", within=within, id="join", at=at["join"]).sink("out", id="out")


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
    world = Reliable(PEERS, sites, technique.promises)
    plan, second = query(technique.availability), {"latencies": PURDUE, "loads": WISC}
    places = {"latency_b": A, "latency_c": A, "load_b": B, "load_c": C, "join": OSU, "out": OSU}
    places |= {"latencies": WISC, "loads": PURDUE}
    backups: dict[str, tuple[str, ...]] = {}
    if max(each.active for each in degrees_of(plan).values()) > 1:
        plan = replicated(plan, 2)
        places |= {f"{operator}~1": peer for operator, peer in second.items()}
    elif technique.availability:
        backups = {operator: (peer,) for operator, peer in second.items()}
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
