"""H6: collection and revival of stream replicas (ICDE 2008, section VI-F, figure 5).

The paper's query is deployed at least cost, with the first placement and the deployment of H5. Real duplicate filters
weigh its streams for 30 s over links whose delays differ from tuple to tuple. Then the streams that are least useful
for their cost are collected (algorithm 6), each operator retaining two replicas, for as long as the mean and the 99th
percentile of the latency rise by at most 0.5 % on delays drawn for this choice. Results are those of other delays,
the same with and without the collected streams. Every crash of a replica, and of a server with all of its replicas, is
then tried on what is left.

Revival needs delays that change for minutes: in smaller clusters each path between two servers is congested at times,
for three minutes on average, and adds 30 s. There streams are collected down to several stated shares θ of the static
cost, without any fit to latencies, as peers do; or a coordinator weighs, collects and revives while tuples flow, by the
paper's intervals: 30 s, 5 minutes, and 10 s of delay. The guarantee is the 99th percentile without collection: it is
kept where at most 1 % of the results are later than 1.05 times that.

Details that the paper does not state
-------------------------------------
θ, ``k_min`` and the numbers of the bars are not stated. Without congestion θ is fitted to "without degrading the
latency guarantee"; with it all shares are shown. Delays and their variation are those of H2. How often paths are
congested, for how long and how badly, is our choice.

Findings
--------
Far more can be collected than the streams that are hardly ever first: what counts is that some stream is early, and
a second one masks what happens to it. Two replicas of each operator do not ensure that a crash is survived, as both may
read the same replica of another operator; nor are two ways of a result apart if they share a path. Therefore collection
also retains what a crash of any single server, and any single congested path, needs (our rule).

Does collection alone lose the guarantee where paths are congested? At half of the static cost it keeps it in 5 of 9
networks with three replicas and in all 10 with four; with two replicas in 2 of 7, as a result has only two paths from
its source. With revival, three replicas and a target of 30 %, .41 of the cost are left and 5 of 9 networks keep it, so
revival is not shown to save more. From which replicas streams are revived makes no difference. A θ
that is fitted to an hour of such delays, as much as leaves their 99th percentile, does lose it on other delays: an hour
has one or two episodes on each path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, cast

import numpy as np

from synergy_experiments.chapters.replica_latencies import snapshots_of
from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Coordinate, Decision, Measured, Point
from synergy_experiments.framework.parameters import Setup, files, number, numbers, whole, wholes
from synergy_experiments.framework.verdicts import at_all, monotone, not_comparable, own
from synergy_experiments.worlds.active_replicas import ActiveReplicas
from synergy_experiments.worlds.collected_streams import COLLECTIONS, WEIGHING, coordinated
from synergy_experiments.worlds.measured_delays import network
from synergy_experiments.worlds.replicated_queries import PERIOD, Readings, shortest, survives
from synergy_experiments.worlds.varying_delays import Array, DelaysOf, Network, episodes
from synergy_experiments.worlds.wide_area_clusters import Cluster, cluster
from synergy_nb.algorithms.replication.collection import collect
from synergy_nb.algorithms.replication.stream_replicas import ReplicaGraph, StreamReplica

__all__ = ["CLAIMED", "collected", "congested", "crashes", "weighed"]

STATIC: Final = "static min-cost"
COLLECTED: Final = "collection"
REVIVED: Final = "collection and revival"
REVIVED_LATE: Final = "collection and revival, also from replicas that are late"
REVIVALS: Final = (REVIVED, REVIVED_LATE)
HINDSIGHT: Final = "collection, least cost that keeps the guarantee"
#: Share of the static cost that is left without streams that are first less than once in 1000, on the same matrix.
USEFUL: Final = {2: 0.90, 3: 0.84, 4: 0.77, 5: 0.69}
REFERENCE: Final = {STATIC: {2: 3.77, 3: 9.16, 4: 18.34, 5: 32.87}, COLLECTED: {2: 3.38, 3: 7.73, 4: 14.17, 5: 22.72}}
CHOSEN: Final = 0.005  # share by which latencies may rise where θ is chosen
TOLERATED: Final = 0.01  # share by which they may rise on other delays
CONGESTION: Final = 30.0  # seconds that a congested path adds
EPISODE: Final = 18.0  # periods of an episode, on average
RISE: Final = 1.05  # times the 99th percentile without collection: later results break the guarantee
LATE: Final = 0.01  # share of the results that may be later
HALF: Final = 0.5  # of the static cost
BEGUN: Final = round(COLLECTIONS / PERIOD)  # periods until the first collection


class _Latency(NamedTuple):
    """Mean, 99th and 99.9th percentile, ms."""

    mean: float
    p99: float
    p999: float

    def within(self, other: _Latency) -> bool:
        """Whether mean and 99th percentile are at most those of another, or little above."""
        return self.mean <= (1.0 + CHOSEN) * other.mean and self.p99 <= (1.0 + CHOSEN) * other.p99


def collected(
    k: int, servers: int, clusters: int, d_min: float, draws: int, k_min: int, paths: tuple[str, ...], seed: int
) -> list[Point]:
    """Collect streams in some clusters; measure cost and latency before and after, and crashes that are survived.

    Parameters
    ----------
    k
        Number of replicas of each operator.
    servers, clusters
        Number of servers of a cluster, and number of clusters.
    d_min
        One-way latency that two replicas of an operator exceed, ms.
    draws
        Number of periods of latencies.
    k_min
        Number of replicas that each operator retains.
    paths
        Matrices of round-trip times, one a snapshot.
    seed
        Seed of clusters and delays.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for drawing in range(clusters):
        drawn = cluster(servers, paths, d_min, 100 * seed + drawing)
        plain, _ = drawn.replicated(1, d_min)
        graph, server_of = drawn.replicated(k, d_min)
        readings, shape = drawn.readings, (draws, servers)
        left = _least(drawn, graph, server_of, draws, k_min, seed)
        network = Network(drawn.snapshots, server_of, shape, seed)
        before, after = (_latency(readings, each, network, shape) for each in (graph, left))
        tried = crashes(readings, left, server_of)
        values = {
            (STATIC, "cost"): graph.cost / plain.cost,
            (COLLECTED, "cost"): left.cost / plain.cost,
            (COLLECTED, "share"): left.cost / graph.cost,
            (COLLECTED, "streams"): len(left.streams) / len(graph.streams),
            (STATIC, "p99"): before.p99,
            (COLLECTED, "p99"): after.p99,
            (COLLECTED, "rise"): after.p99 / before.p99 - 1.0,
            (COLLECTED, "rise of the mean"): after.mean / before.mean - 1.0,
            (STATIC, "p99.9"): before.p999,
            (COLLECTED, "p99.9"): after.p999,
            (COLLECTED, "crashes"): float(len(tried)),
            (COLLECTED, "not survived"): float(len(tried) - sum(tried)),
        }
        for key, value in values.items():
            found.setdefault(key, []).append(value)
    total = {"crashes", "not survived"}
    return [
        Point(k, name, metric, float(np.sum(each) if metric in total else np.mean(each)))
        for (name, metric), each in found.items()
    ]


def weighed(readings: Readings, graph: ReplicaGraph, delays: DelaysOf) -> dict[StreamReplica, float]:
    """Return the weights that real duplicate filters give the streams in one period of weights."""
    periods = round(WEIGHING / PERIOD)
    run = ActiveReplicas(readings, graph, delays, periods)
    run.run(WEIGHING)
    return run.weights()


def crashes(readings: Readings, graph: ReplicaGraph, server_of: dict[str, int]) -> list[bool]:
    """Return whether each crash of one replica, and of one server with its replicas, is survived."""
    alone = [[replica] for replica in graph.operators if replica in graph.inputs]
    return [survives(readings, graph, each) for each in (*alone, *_of_servers(graph, server_of))]


def _of_servers(graph: ReplicaGraph, server_of: Mapping[str, int]) -> list[list[str]]:
    """Return the replicas of each server that has any."""
    found: dict[int, list[str]] = {}
    for replica in graph.operators:
        if replica in graph.inputs:
            found.setdefault(server_of[replica], []).append(replica)
    return list(found.values())


def congested(
    k: int,
    servers: int,
    d_min: float,
    periods: int,
    share: float,
    thetas: tuple[float, ...],
    revived: float | None,
    paths: tuple[str, ...],
    seed: int,
) -> list[Point]:
    """Collect streams in a cluster whose paths are congested at times; measure cost, and results that are too late.

    Costs are shares of the static cost, and count with all results from the first collection on. Where the 99th
    percentile without collection is that of a congested path, there is no guarantee, and so no share that breaks it.

    Parameters
    ----------
    k
        Number of replicas of each operator.
    servers
        Number of servers of the cluster.
    d_min
        One-way latency that two replicas of an operator exceed, ms.
    periods
        Number of periods.
    share
        Share of the time in which a path is congested.
    thetas
        Targets θ of collection alone, as shares of the static cost.
    revived
        Target θ with revival; None: streams are not revived.
    paths
        Matrices of round-trip times, one a snapshot.
    seed
        Seed of cluster, delays and congestion.
    """
    drawn = cluster(servers, paths, d_min, seed)
    graph, server_of = drawn.replicated(k, d_min)
    readings, shape = drawn.readings, (periods, servers)
    network = Network(drawn.snapshots, server_of, shape, seed, episodes(shape, share, EPISODE, CONGESTION, seed))
    limit = RISE * _late_part(readings, shortest(readings, graph, network, shape)).p99
    points: list[Point] = []

    def found(name: str, cost: float, latencies: Mapping[str, Array]) -> bool:
        """Note the cost and the results of a policy; return whether it keeps the guarantee."""
        part = _late_part(readings, latencies, limit)
        values = {"share over time": cost / graph.cost, "p99 of congested": part.p99}
        if limit < 1e3 * CONGESTION:  # else replicas alone do not mask congestion, and there is no guarantee to keep
            values["late"] = part.late
        points.extend(Point(k, name, metric, value) for metric, value in values.items())
        return part.late <= LATE

    found(STATIC, graph.cost, shortest(readings, graph, network, shape))
    weights = weighed(readings, graph, network)
    failures = _failures(graph, server_of)
    kept = [graph.cost]
    for theta in thetas:
        left = graph
        for group in collect(graph, weights, theta * graph.cost, min(2, k), failures):
            left = left.without(group.streams)
        if found(collected_to(theta), left.cost, shortest(readings, left, network, shape)):
            kept.append(left.cost)
    if limit < 1e3 * CONGESTION:
        points.append(Point(k, HINDSIGHT, "share over time", min(kept) / graph.cost))
    if revived is not None:
        for name in REVIVALS:
            run = coordinated(
                readings, graph, network, periods, revived * graph.cost, min(2, k), failures, late_too=name != REVIVED
            )
            found(name, float(run.costs[BEGUN:].mean()), run.latencies)
            points.append(Point(k, name, "revived streams", float(run.revived)))
    return points


def collected_to(theta: float) -> str:
    """Return the name of collection down to a share of the static cost."""
    return f"collection to {theta:.0%}"


class _Late(NamedTuple):
    """99th percentile, ms, and share of the results that are later than a limit."""

    p99: float
    late: float


def _late_part(readings: Readings, latencies: Mapping[str, Array], limit: float = math.inf) -> _Late:
    """Summarize the results from the first collection on."""
    found = np.concatenate([_matched(readings, latencies[each][BEGUN:]) for each in readings.applications])
    late = 1e3 * np.where(np.isnan(found), np.inf, found)  # what never arrived
    return _Late(float(np.percentile(late, 99, method="higher")), float(np.mean(late > limit)))


def _failures(graph: ReplicaGraph, server_of: Mapping[str, int]) -> list[frozenset[str | StreamReplica]]:
    """Return the replicas of each server, and the streams on each path between two servers."""
    on: dict[frozenset[int], set[str | StreamReplica]] = {}
    for stream in graph.streams:
        on.setdefault(frozenset((server_of[stream.producer], server_of[stream.consumer])), set()).add(stream)
    paths = (frozenset(each) for ends, each in on.items() if len(ends) == 2)
    return [*map(frozenset, _of_servers(graph, server_of)), *paths]


def _least(
    drawn: Cluster, graph: ReplicaGraph, server_of: dict[str, int], draws: int, k_min: int, seed: int
) -> ReplicaGraph:
    """Collect for as long as latencies stay within what is tolerated, on delays of their own."""
    shape = (draws, drawn.readings.width)
    weights = weighed(drawn.readings, graph, Network(drawn.snapshots, server_of, (round(WEIGHING / PERIOD), shape[1]),
                                                     seed + 7_000_000))  # fmt: skip
    network = Network(drawn.snapshots, server_of, shape, seed + 8_000_000)
    limit = _latency(drawn.readings, graph, network, shape)
    graphs = [graph]
    for group in collect(graph, weights, 0.0, k_min, _failures(graph, server_of) if k_min > 1 else ()):
        graphs.append(graphs[-1].without(group.streams))
    low, high = 0, len(graphs)  # latencies of shortest paths only rise as streams are discarded
    while high - low > 1:
        middle = (low + high) // 2
        fits = _latency(drawn.readings, graphs[middle], network, shape).within(limit)
        low, high = (middle, high) if fits else (low, middle)
    return graphs[low]


def _latency(readings: Readings, graph: ReplicaGraph, network: DelaysOf, shape: tuple[int, int]) -> _Latency:
    found = shortest(readings, graph, network, shape)
    return _summary(np.concatenate([_matched(readings, found[each]) for each in readings.applications]))


def _matched(readings: Readings, found: Array) -> Array:
    return found[:, list(readings.matched)].ravel()


def _summary(found: Array) -> _Latency:
    late = np.where(np.isnan(found), np.inf, found)  # what never arrived
    p99, p999 = np.percentile(late, [99, 99.9], method="higher")
    return _Latency(1e3 * float(late.mean()), 1e3 * float(p99), 1e3 * float(p999))


def _cells(setup: Setup) -> Iterator[Cell]:
    given = [setup[name] for name in ("servers", "clusters", "d_min", "draws", "k_min")]
    for k in cast("tuple[int, ...]", setup["degrees"]):
        yield Cell(collected, (k, *given, snapshots_of(setup)))
    changing = [setup[name] for name in ("servers_congested", "d_min", "periods", "congested", "thetas")]
    for k in cast("tuple[int, ...]", setup["degrees_congested"]):
        revived = setup["theta"] if k in cast("tuple[int, ...]", setup["degrees_revived"]) else None
        yield Cell(congested, (k, *changing, revived, snapshots_of(setup)))


def _checks(measured: Measured, setup: Setup) -> Iterator[Check]:
    degrees = [k for k in measured.xs("share", COLLECTED) if isinstance(k, int)]
    yield at_all("collection saves cost", "saves", [(k, _below(measured, k, "share", 1.0)) for k in degrees])
    yield monotone("the useful share of the cost with the degree", "falls", measured.changes(COLLECTED, "share"), -1.0)
    goal = [(k, _below(measured, k, "share", USEFUL[k])) for k in degrees if k in USEFUL]
    numbers = " ".join(f"{share:.0%}" for share in USEFUL.values())
    about = "share of the cost that is left, beside that of the streams that are ever first"
    yield own(at_all(about, f"at most {numbers} (not the paper's)", goal))
    for metric, words in (("rise", "99th percentile"), ("rise of the mean", "mean latency")):
        unchanged = [(k, _below(measured, k, metric, TOLERATED)) for k in measured.xs(metric, COLLECTED)]
        yield at_all(f"{words} unchanged (interval of the paired rise up to {TOLERATED:.0%})", "the same", unchanged)
    survived = [(k, measured.always(k, COLLECTED, "not survived", lambda lost: not lost)) for k in degrees]
    yield own(at_all("every single crash of a replica or a server is survived after collection", "(ours)", survived))

    changing = measured.xs("late", STATIC)
    for theta in cast("tuple[float, ...]", setup.get("thetas", ())):
        name = collected_to(theta)
        kept = [(k, _below(measured, k, "late", LATE, name)) for k in changing]
        check = at_all(f"{name}, paths congested: {GUARANTEE}", "without degrading the latency guarantee", kept)
        yield check if theta == HALF else own(check)
    cheap = [(k, _below(measured, k, "share over time", HALF + 1e-9, collected_to(HALF))) for k in changing]
    yield own(
        at_all("beyond the paper: collection alone, paths congested: at most half of the static cost", "(ours)", cheap)
    )
    for name in REVIVALS:
        which = f"with revival{name.removeprefix(REVIVED)}"
        revived = measured.xs("late", name)
        same = [(k, _below(measured, k, "late", LATE, name)) for k in revived]
        yield at_all(f"{which}, paths congested: {GUARANTEE}", "the same guarantee", same)
        cheaper = [(k, measured.lower(k, name, HINDSIGHT, "share over time")) for k in revived]
        yield at_all(f"cost {which} below the least of collection alone that keeps the guarantee", "lower", cheaper)
    yield not_comparable("network cost at each degree", "figure 5", None, "the heights of its bars are not stated")


def _below(measured: Measured, k: Coordinate, metric: str, limit: float, name: str = COLLECTED) -> Decision | None:
    """Return whether the mean is below a limit."""
    found = measured.estimate(k, name, metric)
    return None if found is None else found.below(limit)


GUARANTEE: Final = f"at most {LATE:.0%} of the results later than {RISE:g} times the static 99th percentile"

_PARAMETERS: Final = {
    "degrees": wholes("numbers of replicas of each operator", (2, 3), (2, 3, 4, 5), most=9, least=2),
    "servers": whole("servers of a cluster", 20, 30, least=6),
    "clusters": whole("clusters of one repetition", 1),
    "d_min": number("one-way latency that two replicas of an operator exceed, ms", 15.0),
    "draws": whole("periods of 10 s of latencies", 300, least=20),
    "k_min": whole("replicas that each operator retains", 2),
    "degrees_congested": wholes("numbers of replicas where paths are congested", (2, 3), (2, 3, 4), most=9, least=2),
    "degrees_revived": wholes("those with which streams are also revived", (3,), most=9, least=2),
    "servers_congested": whole("servers of a cluster in which paths are congested", 8, least=6),
    "periods": whole("periods of 10 s in which paths are congested at times", 90, 150, least=60),
    "congested": number("share of the time in which a path between two servers is congested", 0.08, most=0.5),
    "thetas": numbers("targets θ of collection alone where paths are congested, shares of the static cost",
                      (0.3, 0.4, 0.5, 0.6, 0.75), most=1.0),
    "theta": number("target θ with revival, a share of the static cost", 0.3, most=1.0),
    "network": network(),
    "snapshots": files("matrices of round-trip times between the same hosts, one a snapshot, in .npz files"),
}  # fmt: skip

CLAIMED: Final = (
    Claim(
        id="H6",
        title="collection and revival of stream replicas",
        source="Hwang, Çetintemel, Zdonik, ICDE 2008, section VI-F, figure 5",
        says="degrees 2 to 5: collection lowers the network cost at the same latency guarantee, the more so the higher "
        "the degree; with revival the cost is lower still",
        parameters=_PARAMETERS,
        cells=_cells,
        checks=_checks,
        panels=(
            Panel("cost", "network cost over that of one replica"),
            Panel("p99", "99th percentile of latency (ms)"),
            Panel("p99.9", "99.9th percentile of latency (ms)"),
            Panel("share", "cost that is left after collection"),
            Panel("share over time", "share of the static cost, paths congested at times"),
            Panel("late", "results that break the guarantee, paths congested at times (%)", factor=100.0,
                  bounds=((LATE, "the guarantee"),)),
            Panel("p99 of congested", "99th percentile, paths congested at times (ms)", logarithmic=True),
        ),
        xlabel="degree of replication",
        paper=[Point(k, f"{name}, another implementation", "cost", value)
               for name, each in REFERENCE.items() for k, value in each.items()],
        repeat=(3, 10),
        shares=("share*", "streams", "late", "not survived"),
    ),
)  # fmt: skip
