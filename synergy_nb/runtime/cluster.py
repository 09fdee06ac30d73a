"""What a notebook holds: a cluster of peers and the applications on it, for synchronous code.

Everything is done by :mod:`synergy_nb.runtime.client` on an event loop in a thread of its own, so a cell that blocks
stops nothing: results go on arriving, and calls work under a notebook's own running loop. Coroutines use
:class:`~synergy_nb.runtime.client.AsyncCluster`, which :func:`start_cluster` gives.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import html
import operator
import os
import signal
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, TypeVar

import polars as pl

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.explanation import Explanation
from synergy_nb.journal import Event
from synergy_nb.plan import Plan, QoS
from synergy_nb.runtime.application import AsyncApplication
from synergy_nb.runtime.client import AsyncCluster
from synergy_nb.runtime.feeds import Feed
from synergy_nb.runtime.processes import PeerCluster
from synergy_nb.runtime.requests import ClusterError, PeerState
from synergy_nb.runtime.starting import connect_cluster, start_cluster
from synergy_nb.runtime.widearea import WideArea

__all__ = ["Application", "Cluster"]

T = TypeVar("T")
LISTEN: Final = 0.1  # seconds between looks for an interrupt: with Polars' handler of signals, no wait ends for one
ENDING: Final = 5.0  # seconds that what is under way gets to end when a cluster closes


class _Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="synergy cluster", daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Result of a coroutine; an interrupt cancels it, and waits until what it had begun is undone."""
        outcome: concurrent.futures.Future[T] = concurrent.futures.Future()
        begun: list[asyncio.Task[T]] = []

        def settle(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                outcome.set_exception(ClusterError("the cluster was closed meanwhile"))
            elif (error := task.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(task.result())

        def begin() -> None:
            begun.append(self.loop.create_task(work))
            begun[0].add_done_callback(settle)

        self.loop.call_soon_threadsafe(begin)
        try:
            _await(outcome)
            return outcome.result()
        except BaseException:
            if not outcome.done():
                self.loop.call_soon_threadsafe(lambda: begun[0].cancel())  # noqa: PLW0108 - once it is begun
                _await(outcome)
            raise

    def close(self) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._end_all(), self.loop).result()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()

    async def _end_all(self) -> None:
        """Cancel what other threads wait for, so that none waits for ever."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=ENDING)


def _await(outcome: concurrent.futures.Future[Any]) -> None:
    while not outcome.done():
        concurrent.futures.wait([outcome], LISTEN)


def _close(thread: _Loop, cluster: AsyncCluster) -> None:
    if threading.current_thread() is thread.thread:  # collected as garbage there: the loop cannot wait for itself
        threading.Thread(target=_close, args=(thread, cluster), name="synergy close").start()
        return
    try:
        thread.run(cluster.close())
    finally:
        thread.close()


class Cluster:
    """A cluster of peers.

    Parameters
    ----------
    peers
        How many to start on this machine, or an existing Dask cluster whose workers become peers: the address of its
        scheduler, or a ``LocalCluster`` or ``Client`` of it.
    cores
        Processing capacity that each peer gives, in cores; by default its share of this machine.
    bandwidth
        Of each virtual link, in bytes/s.
    wide_area
        Delays and bandwidths laid over the links: a :class:`~synergy_nb.runtime.widearea.WideArea`, or the path of a
        matrix of round-trip times (``.npz`` with ``rtt_ms``).
    keys
        Secrets of ``encrypt`` and ``decrypt``, by name: 16, 24 or 32 bytes each.
    composition
        Parameters of composition, such as the probing ratio.
    seed
        Of the peers' random generators, and of the sites in a wide area.
    spark
        What executes parts of plans that are for Spark: True, a server of this machine, which is started when it is
        first needed and ends with the cluster; a URL, ``sc://host:port``; False, nothing.
    security
        ``distributed.Security`` of the cluster, for TLS.

    Examples
    --------
    >>> from synergy_nb import Cluster, source
    >>> with Cluster(peers=2) as cluster:
    ...     packets = source("packets", seed=1, rate="1000 tuples/s", duration="2 s", speed=0)
    ...     application = cluster.submit(packets.filter("bytes > 1000").sink(delay="10 s"))
    ...     application.results().columns[:3]
    ['time', 'link', 'source']
    """

    def __init__(
        self,
        peers: Any = 8,
        *,
        cores: float | None = None,
        bandwidth: float = 125e6,
        wide_area: WideArea | str | os.PathLike[str] | None = None,
        keys: Mapping[str, bytes] | None = None,
        composition: CompositionConfig | None = None,
        seed: int = 0,
        spark: bool | str = True,
        security: Any = None,
    ) -> None:
        peers = _address(peers)
        self._thread = _Loop()
        self._given = peers if isinstance(peers, str) else ""
        options: dict[str, Any] = {
            "cores": cores,
            "bandwidth": bandwidth,
            "wide_area": wide_area,
            "keys": keys,
            "composition": composition,
            "seed": seed,
            "spark": spark,
            "security": security,
        }
        try:
            if isinstance(peers, str):
                self._cluster: AsyncCluster = self._thread.run(connect_cluster(peers, **options))
            else:
                self._cluster = self._thread.run(start_cluster(peers, **options))
        except BaseException:
            self._thread.close()
            raise
        # also where the cluster is garbage, as when a cell that makes one runs again, and at exit
        self._finalizer = weakref.finalize(self, _close, self._thread, self._cluster)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all applications, and the peers that were started here."""
        self._finalizer()

    @property
    def _closed(self) -> bool:
        return not self._finalizer.alive

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise ClusterError("the cluster is closed; expected an open one")
        return self._thread.run(work)

    # -- peers ---------------------------------------------------------------------------------------------------

    @property
    def peers(self) -> dict[str, str]:
        """Peer name to address."""
        return dict(self._cluster.peers)

    @property
    def scheduler(self) -> str:
        """Address of the Dask scheduler; ``Cluster(address)`` elsewhere uses the same peers."""
        local = self._cluster.local
        return str(local.scheduler_address) if isinstance(local, PeerCluster) else self._given

    def states(self) -> dict[str, PeerState | None]:
        """What each peer says of itself; None for one that does not answer."""
        return self._run(self._cluster.states())

    def kill(self, peer: str) -> None:
        """End the process of a peer without warning (SIGKILL), to see what the others do."""
        os.kill(self._process(peer), signal.SIGKILL)

    def suspend(self, peer: str) -> None:
        """Stop the process of a peer (SIGSTOP): it hangs until :meth:`resume`."""
        os.kill(self._process(peer), signal.SIGSTOP)

    def resume(self, peer: str) -> None:
        """Let a suspended process go on (SIGCONT)."""
        os.kill(self._process(peer), signal.SIGCONT)

    def _process(self, peer: str) -> int:
        """Id of the process in which a peer runs that was started here."""
        local = self._cluster.local
        if not isinstance(local, PeerCluster):
            raise ClusterError("the peers of this cluster were not started here; expected Cluster(peers=<number>)")
        self._named(peer)
        for process in local.processes.values():
            if peer in process.peers:
                return process.pid
        raise ClusterError(f"peer: {peer!r} has ended; expected one that runs: {', '.join(local.peers)}")

    def _named(self, peer: str) -> str:
        if peer not in self._cluster.peers:
            raise ClusterError(f"peer: {peer!r}; expected one of {', '.join(self._cluster.peers)}")
        return peer

    def events(self, subject: str = "") -> list[Event]:
        """Journal of all peers that answer, by time; only of ``subject`` if given."""
        return self._run(self._cluster.events(subject))

    def spark_session(self) -> Any:
        """A ``SparkSession`` of one's own on the Spark that the peers use, which is started if need be.

        It ends with the cluster.

        Raises
        ------
        ClusterError
            If there is no Spark to be had; the text says why, and what to do.
        """
        return self._run(self._cluster.spark_session())

    def kill_spark(self) -> None:
        """End the embedded Spark server without warning (SIGKILL); it is started again, and its queries go on."""
        server = self._cluster.spark.process
        if server is None:
            raise ClusterError("no Spark server runs that was started here; expected one, as spark_session() starts it")
        os.kill(server, signal.SIGKILL)

    # -- applications --------------------------------------------------------------------------------------------

    def submit(
        self,
        plan: Plan,
        *,
        at: str | None = None,
        feeds: Mapping[str, Feed] | None = None,
        placement: str = "composed",
        timeout: float = 30.0,
    ) -> Application:
        """Have the peers compose and start a plan.

        Parameters
        ----------
        plan
            What is asked, as ``.sink(...)`` makes it.
        at
            Name of the peer that becomes its origin, where its results are kept; by default one that answers, in turn.
        feeds
            For each source with connector ``python``, by its name: an iterable of dictionaries or of tables, each with
            a column ``time`` (seconds since 1970, dates, or text that is one), not older than what came before it.
        placement
            How components find their peers: ``composed``, by probes that balance the load, or ``resilient``, so that
            they withstand the largest set of rates that the plan's sources may take (ROD).
        timeout
            Seconds until composition has to be decided.

        Raises
        ------
        NotAdmitted
            If composition was refused; the text says which condition failed where.
        ClusterError
            If no peer answers, or a name is wrong.
        """
        submitted = self._cluster.submit(plan, at=at, feeds=feeds, placement=placement, timeout=timeout)
        return Application(self, self._run(submitted))

    # -- what is shown -------------------------------------------------------------------------------------------

    def _rows(self) -> list[tuple[str, str, str, str]]:
        if self._closed:
            return []
        rows = []
        for name, state in self.states().items():
            if state is None:
                rows.append((name, "does not answer", "", ""))
            else:
                components = ", ".join(sorted({str(part["operator"]) for part in state.components})) or "-"
                rows.append(
                    (name, f"{state.load:.0%} of {state.cores:g} cores", str(len(state.applications)), components)
                )
        return rows

    def __repr__(self) -> str:
        if self._closed:
            return "Cluster (closed)"
        rows = [("peer", "load", "applications", "components"), *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([f"Cluster of {len(self.peers)} peers", *table])

    def _repr_html_(self) -> str:
        if self._closed:
            return "<p>Cluster (closed)</p>"
        body = "".join(
            "<tr>" + "".join(f"<td style='text-align: left'>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        names = ("peer", "load", "applications", "components")
        head = "".join(f"<th style='text-align: left'>{name}</th>" for name in names)
        caption = f"<caption>Cluster of {len(self.peers)} peers</caption>"
        return f"<table>{caption}<tr>{head}</tr>{body}</table>"


class Application:
    """A submitted plan; iterating over it gives its results as they come."""

    def __init__(self, cluster: Cluster, application: AsyncApplication) -> None:
        self._cluster = cluster
        self._application = application

    @property
    def id(self) -> str:
        """Identifies it at all peers."""
        return self._application.id

    @property
    def cluster(self) -> Cluster:
        """Where it runs."""
        return self._cluster

    @property
    def plan(self) -> Plan:
        """What was asked."""
        return self._application.plan

    @property
    def graph(self) -> dict[str, str]:
        """Component graph λ: operator id to the name of its peer."""
        return self._application.graph

    @property
    def backups(self) -> dict[str, list[str]]:
        """Replication graph ρ: of what is replicated, operator id to the names of its backups' peers."""
        return self._application.backups

    @property
    def setup_s(self) -> float:
        """Seconds from submission to the start of its sources."""
        return self._application.last.setup

    @property
    def status(self) -> str:
        """``running``, ``finished``, ``failed`` or ``stopped``."""
        return self._cluster._run(self._application.state()).status

    @property
    def reason(self) -> str:
        """Why it failed or was stopped; empty otherwise."""
        return self._cluster._cluster.readable(self._cluster._run(self._application.state()).reason)

    def qos(self, sink: str | None = None) -> dict[str, Any]:
        """What a sink measured: delays in seconds, miss rate, tuples/s, against the limit of the plan."""
        found = self._cluster._run(self._application.qos())
        return found.get(self._application.sink(sink), {})

    def results(self, sink: str | None = None, *, wait: bool = True) -> pl.DataFrame:
        """All results as one table, after the stream has ended; without ``wait`` those that are there."""
        return self._cluster._run(self._application.results(sink, wait=wait))

    def stream(self, sink: str | None = None) -> Iterator[pl.DataFrame]:
        """Results as they come, one table a batch, until the stream ends."""
        batches = self._application.stream(sink)
        while (table := self._cluster._run(_following(batches))) is not None:
            yield table

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return self.stream()

    def wait(self, timeout: float | None = None) -> str:
        """Wait until it no longer runs and return its status."""
        return self._cluster._run(self._application.wait(timeout)).status

    def events(self) -> list[Event]:
        """All that the peers' journals hold about it, by time."""
        return self._cluster._run(self._application.events())

    def explain(self) -> Explanation:
        """Why it runs where it runs: candidates, dropped probes, the graphs and their φ."""
        names = {address: name for name, address in self._cluster.peers.items()}
        return Explanation(self.id, self.events(), names)

    def stop(self) -> None:
        """End it everywhere; its results go with it."""
        self._cluster._run(self._application.stop())

    def _summary(self) -> list[tuple[str, str]]:
        closed = self._cluster._closed
        state = self._application.last if closed else self._cluster._run(self._application.state())
        reason = self._cluster._cluster.readable(state.reason)
        rows = [("status", f"{state.status}: {reason}" if reason else state.status)]
        rows.append(("set up in", f"{state.setup * 1e3:.0f} ms"))
        for sink, record in state.qos.items():
            if record["delay_p50_s"] is None:
                continue
            limit = "no limit" if record["limit_s"] is None else f"limit {record['limit_s']:g} s"
            delay = f"p50 {record['delay_p50_s'] * 1e3:.3g} ms, p99 {record['delay_p99_s'] * 1e3:.3g} ms ({limit})"
            rows.append((f"delay at {sink}", delay))
            rows.append((f"tuples at {sink}", f"{record['tuples']}, {record['tuples_per_s']:.4g} a second"))
            rows.extend(_kept(self.plan.qos, record))
        rows.append(("runs on", ", ".join(f"{name}@{peer}" for name, peer in self.graph.items())))
        if self.backups:
            kept = (f"{name}@{peer}" for name, peers in self.backups.items() for peer in peers)
            rows.append(("backups", ", ".join(kept) or "none is left"))
        return rows

    def __repr__(self) -> str:
        return "\n".join([f"Application {self.id}", *(f"  {name}: {text}" for name, text in self._summary())])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align: left'>{html.escape(name)}</th>"
            f"<td style='text-align: left'>{html.escape(text)}</td></tr>"
            for name, text in self._summary()
        )
        return f"<table><caption>Application {html.escape(self.id)}</caption>{rows}</table>"


def _address(peers: Any) -> Any:
    """The scheduler's address of a Dask cluster or client; anything else as it is."""
    found = getattr(peers, "scheduler_address", None) or getattr(getattr(peers, "scheduler", None), "address", None)
    return found if isinstance(found, str) else peers


def _kept(asked: QoS, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a sink measured beside what was asked, and whether that is kept."""
    rows: list[tuple[str, float | None, float | None, Callable[[float, float], bool]]] = [
        ("misses", asked.miss_rate, record["miss_rate"], operator.le),
        ("bytes/s", asked.throughput, record["bytes_per_s"], operator.ge),
        ("tuples/s", asked.throughput_tuples, record["tuples_per_s"], operator.ge),
    ]
    for name, limit, found, kept in rows:
        if limit is not None and found is not None:
            yield name, f"{found:.4g}, {limit:.4g} asked: {'kept' if kept(found, limit) else 'not kept'}"


async def _following(batches: Any) -> pl.DataFrame | None:
    try:
        table: pl.DataFrame = await anext(batches)
    except StopAsyncIteration:
        return None
    return table
