"""The demo's job: run the query three times on peers, check its rows, and collect the measurements.

One pass is paced by event time and measures delays against the limit of the plan; one is as fast as possible and
measures throughput; in one Spark computes the sums of the windows, and peers execute the other operators. The rows of
all passes must equal those of DuckDB, row for row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import msgspec
import polars as pl

from synergy_experiments.demo import _oracle as oracle
from synergy_experiments.demo._oracle import Check, Row
from synergy_experiments.demo.inputs import PACED_SECONDS, WINDOW_SECONDS, Input, query, watch
from synergy_nb import traces
from synergy_nb.events import Event, SinkFinished, SourceStarted
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.runtime.client.cluster import Application, Cluster
from synergy_nb.runtime.process.requests import ClusterError

__all__ = ["WATCHED_SECONDS", "DemoOutcome", "JobProgress", "Killed", "run"]

PACED_RATE: Final = 100_000.0  # tuples/s of the paced pass, at most
PATIENCE: Final = 60.0  # seconds beyond what a pass should take
WATCHED_SECONDS: Final = 3.0
POLL: Final = 0.1  # seconds


class JobProgress(Protocol):
    """Receives the progress of a job."""

    def stage(self, text: str) -> None:
        """Begin the next stage."""

    def share(self, done: float) -> None:
        """Set the share of the stage that is done, from 0 to 1."""


class Killed(msgspec.Struct, frozen=True):
    """The application whose peer was killed."""

    peer: str  # name of the killed peer, and the operators that ran on it
    operators: list[str]
    # application, reason: id of the application that failed, and the reason
    application: str
    reason: str
    detected_s: float  # seconds from the kill until the application was reported failed
    recomposed: str  # the application that was submitted to the other peers afterwards


class OnSpark(msgspec.Struct, frozen=True):
    """The pass with its windows on Spark."""

    # operators, peer: operators that Spark executed, and the peer that hosts that part
    operators: list[str]
    peer: str
    # seconds from submission to the start of the source, in which the server and its session were started
    setup_s: float
    seconds: float  # seconds from then to the end at the sink


class DemoOutcome(msgspec.Struct, frozen=True):
    """All results of the demo."""

    given: Input
    plan: Plan
    peers: int  # number of peers; `ready_s` is the time in seconds until they formed a ring
    ready_s: float
    # placement, explanation, events: peer of each operator, the reasons, and the journal of the paced pass
    placement: dict[str, str]
    explanation: Explanation
    events: list[Event]
    # rows, check: rows of the result, and their comparison with those of DuckDB
    rows: list[Row]
    check: Check
    qos: dict[str, Any]  # measurements of the sink in the paced pass
    # setup_s, fast_setup_s: seconds from submission to the start of the sources, in the paced and the fast pass
    setup_s: float
    fast_setup_s: float
    fast_s: float  # seconds of the fast pass from the start of its source to the end at its sink
    killed: Killed | None  # application that failed because a peer was killed on purpose; None if no peer was killed
    watched: pl.DataFrame | None  # rows of the live stream of the peers; None unless it was the input
    spark: OnSpark | None = None  # the pass with its windows on Spark; None if it was omitted

    @property
    def tuples_per_s(self) -> float:
        """Tuples of the input a second, from the file or the generator to the results, in the fast pass."""
        return self.given.tuples / self.fast_s

    def to_dict(self) -> dict[str, Any]:
        """The output of ``synergy demo --json``; it has ``kill`` only if a peer was killed on purpose."""
        killed = {"kill": msgspec.structs.asdict(self.killed)} if self.killed is not None else {}
        spark = {"spark": msgspec.structs.asdict(self.spark)} if self.spark is not None else {}
        return (
            killed
            | spark
            | {
                "input": {"name": self.given.name, "tuples": self.given.tuples, "real": self.given.real},
                "placement": self.placement,
                "rows": len(self.rows),
                "rows_sample": [
                    {
                        "window_start": start.isoformat(),
                        "window_end": end.isoformat(),
                        self.given.pair[0]: first,
                        self.given.pair[1]: second,
                        "total": total,
                    }
                    for start, end, first, second, total in self.rows[:10]
                ],
                "check": {"engine": "duckdb", "equal": self.check.equal, "rows": self.check.rows},
                "qos": {name: self.qos.get(name) for name in ("delay_p50_s", "delay_p99_s", "limit_s", "miss_rate")},
                "tuples_per_s": self.tuples_per_s,
                "peers": self.peers,
                "setup_s": self.setup_s,
            }
        )


def run(
    given: Input, *, peers: int, speed: float | None, kill: bool, progress: JobProgress, spark: bool | str = True
) -> DemoOutcome:
    """Run the demo.

    ``peers``: number of peers to start on this machine; at least 2 if one is to be killed; ``speed``: speed of the
    paced pass, seconds of event time per second; None selects a speed at which it takes about 6 seconds; ``kill``: kill
    a peer while the paced pass runs, and submit it to the others again; ``progress``: receiver of the progress;
    ``spark``: argument of :class:`~synergy_nb.runtime.client.cluster.Cluster`; False omits that pass.

    Raises ``ClusterError`` if peers cannot be started, or the application is not admitted or fails.
    """
    seconds = max(PACED_SECONDS, given.tuples / PACED_RATE) if speed is None else given.seconds / speed
    speed = (given.seconds / seconds or 1.0) if speed is None else speed
    paced, fast = query(given, speed), query(given, 0.0)
    progress.stage("DuckDB computes the rows to be expected")
    wanted = _wanted(given)
    progress.stage(f"starting {counted(peers, 'peer')}")
    began = time.monotonic()
    with Cluster(peers=peers, spark=spark) as cluster:
        ready = time.monotonic() - began
        watched = _watch(cluster, progress) if not given.real else None
        killed: Killed | None = None
        if kill:
            killed = _kill_one(cluster, paced, seconds, progress)
            progress.stage(f"paced again, without {killed.peer}")
        else:
            progress.stage(f"paced by event time, {speed:.0f} times as fast as it happened")
        application = cluster.submit(paced)
        if killed is not None:
            killed = msgspec.structs.replace(killed, recomposed=application.id)
        slow_rows = _rows(_followed(application, seconds, progress), given)
        progress.stage("as fast as possible")
        quick = cluster.submit(fast)
        fast_rows = _rows(_followed(quick, 0.0, progress), given)
        passes = {"paced pass": slow_rows, "fast pass": fast_rows}
        on_spark: OnSpark | None = None
        if spark is not False:
            on_spark, passes["pass with its windows on Spark"] = _on_spark(cluster, given, progress)
        check = _checked(passes, wanted)
        return DemoOutcome(
            given=given,
            plan=paced,
            peers=peers,
            ready_s=ready,
            placement=application.graph,
            explanation=application.explain(),
            events=application.events(),
            rows=slow_rows,
            check=check,
            qos=application.qos(),
            setup_s=application.setup_s,
            fast_setup_s=quick.setup_s,
            fast_s=_span(quick.events()),
            killed=killed,
            watched=watched,
            spark=on_spark,
        )


def _on_spark(cluster: Cluster, given: Input, progress: JobProgress) -> tuple[OnSpark, list[Row]]:
    """Run the fast pass again, with its windows on Spark."""
    progress.stage("with its windows on Spark, which is started")
    application = cluster.submit(query(given, 0.0, engine="spark"))
    progress.stage("with its windows on Spark")
    rows = _rows(_followed(application, 0.0, progress), given)
    (part,) = application.explain().parts.values()
    spent = _span(application.events())
    return OnSpark(part, application.graph[part[-1]], application.setup_s, spent), rows


def _wanted(given: Input) -> list[Row]:
    table = None
    if given.connector == "packets":
        table = traces.table({"connector": "packets", **given.params})
    return oracle.expected(
        path=given.path,
        format=given.format,
        clock=given.params.get("time", "time"),
        pair=given.pair,
        where=given.where,
        value=given.value,
        window=WINDOW_SECONDS,
        fraction=0.95,
        table=table,
    )


def _rows(table: pl.DataFrame, given: Input) -> list[Row]:
    return table.select("window_start", "window_end", *given.pair, "total").rows()


def _checked(passes: dict[str, list[Row]], wanted: list[Row]) -> Check:
    for name, rows in passes.items():
        check = oracle.compare(rows, wanted)
        if not check.equal:
            return check._replace(difference=f"{name}, {check.difference}")
    return Check(equal=True, rows=len(wanted))


def _followed(application: Application, seconds: float, progress: JobProgress) -> pl.DataFrame:
    """Wait for the end of an application that should take ``seconds``, and return its results."""
    status = _until(application, seconds, progress, lambda: False)
    if status != "finished":
        raise ClusterError(f"{application.id}: {status}: {application.reason}; expected it to finish")
    return application.results()


def _until(application: Application, seconds: float, progress: JobProgress, enough: Callable[[], bool]) -> str:
    """Collect results until the application no longer runs, or ``enough`` is true; return its status."""
    began = time.monotonic()
    while True:
        application.results(wait=False)
        status = application.status
        elapsed = time.monotonic() - began
        progress.share(min(elapsed / seconds, 1.0) if seconds else 0.0)
        if status != "running" or enough():
            return status
        if elapsed > seconds + PATIENCE:
            raise ClusterError(f"{application.id}: still running after {elapsed:.0f} s; expected about {seconds:.0f} s")
        time.sleep(POLL)


def _span(events: Iterable[Event]) -> float:
    """Seconds from the start of the source to the end at the sink."""
    times = {type(event): event.time for event in events}
    return max(times[SinkFinished] - times[SourceStarted], 1e-6)


def _watch(cluster: Cluster, progress: JobProgress) -> pl.DataFrame:
    progress.stage("watching the peers' own load and ping times")
    live = cluster.submit(watch(cluster.peers))
    ends = time.monotonic() + WATCHED_SECONDS
    _until(live, WATCHED_SECONDS, progress, lambda: time.monotonic() >= ends)
    seen = live.results(wait=False)
    live.stop()
    names = {address: name for name, address in cluster.peers.items()}
    return seen.with_columns(pl.col("peer").replace(names)).sort("window_start", "metric", "peer")


def _with_one_at(given: Plan, peer: str) -> Plan:
    """A plan whose first operator after a source is bound to a peer; otherwise light work would all run on one peer."""
    first = next(name for name, operator in given.operators.items() if operator.kind not in ("source", "sink"))
    operators = [
        msgspec.structs.replace(operator, at=peer) if name == first else operator
        for name, operator in given.operators.items()
    ]
    return Plan(operators, given.qos, given.name)


def _kill_one(cluster: Cluster, paced: Plan, seconds: float, progress: JobProgress) -> Killed:
    """Kill a peer of an application, not its origin, after a third of the run, and wait for the report of it."""
    progress.stage("paced by event time, until a peer is killed")
    origin, victim, *_ = cluster.peers
    application = cluster.submit(_with_one_at(paced, victim), origin=origin)
    placed = application.graph
    killing = time.monotonic() + seconds / 3
    status = _until(application, seconds / 3, progress, lambda: time.monotonic() >= killing)
    if status != "running":
        raise ClusterError(f"{application.id}: {status} before a peer was killed: {application.reason}")
    cluster.kill(victim)
    killed = time.monotonic()
    progress.stage(f"killed {victim}, waiting for what the others say")
    status = _until(application, 1.0, progress, lambda: False)
    if status != "failed":
        raise ClusterError(f"{application.id}: {status} although {victim} was killed; expected failed")
    return Killed(
        peer=victim,
        operators=[operator for operator, peer in placed.items() if peer == victim],
        application=application.id,
        reason=application.reason,
        detected_s=time.monotonic() - killed,
        recomposed="",
    )
