"""What a notebook holds: a cluster of peers and the applications on it, for synchronous code.

Everything is done by :mod:`synergy_nb.runtime.client.async_cluster` on an event loop in a thread of its own, so a cell
that blocks stops nothing: results go on arriving, and calls work under a notebook's own running loop. Coroutines use
:class:`~synergy_nb.runtime.client.AsyncCluster`, which :func:`start_cluster` gives.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import signal
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.errors import brief
from synergy_nb.events.table import Events
from synergy_nb.plan import Plan
from synergy_nb.reporting.formatting import amount, share
from synergy_nb.runtime.client.application import Application
from synergy_nb.runtime.client.applications import Applications
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.client.feeds import Rows
from synergy_nb.runtime.client.tables import as_html, as_text
from synergy_nb.runtime.client.waiting_display import WaitingDisplay, display, heard
from synergy_nb.runtime.process.processes import PeerCluster
from synergy_nb.runtime.process.requests import ClusterError, PeerState
from synergy_nb.runtime.process.starting import check_address, connect_cluster, start_cluster
from synergy_nb.runtime.transport.wide_area import WideArea

__all__ = ["Application", "Cluster"]

T = TypeVar("T")
HEADING: Final = ("peer", "load", "applications", "components")
LISTEN: Final = 0.1  # seconds between looks for an interrupt: with Polars' handler of signals, no wait ends for one
ENDING: Final = 5.0  # seconds that what is under way gets to end when a cluster closes


class _Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="synergy cluster", daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, T], doing: Callable[[], str] = str) -> T:
        """Result of a coroutine; an interrupt cancels it, and waits until what it had begun is undone.

        ``doing`` gives a short text of what the coroutine does, which is shown while the caller waits
        (:mod:`~synergy_nb.runtime.client.waiting_display`).
        """
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
            heard.set(True)  # in the context of this call alone: the line below tells
            begun.append(self.loop.create_task(work))
            begun[0].add_done_callback(settle)

        self.loop.call_soon_threadsafe(begin)
        telling = WaitingDisplay(doing, display())
        try:
            _await(outcome, telling.tick)
            return outcome.result()
        except BaseException as error:
            brief(error)
            if not outcome.done():
                self.loop.call_soon_threadsafe(lambda: begun[0].cancel())  # noqa: PLW0108 - once it is begun
                _await(outcome)
            raise
        finally:
            telling.close()

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


def _await(outcome: concurrent.futures.Future[Any], tick: Callable[[], None] = lambda: None) -> None:
    while not outcome.done():
        concurrent.futures.wait([outcome], LISTEN)
        tick()


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
    memory
        Memory that the operators on each peer may take together, in bytes or as ``"4 GB"``; by default half of this
        machine's memory, shared equally by its peers. An operator that needs more fails with its application. A plan
        may give each of its operators less, see ``sink``.
    bandwidth
        Of each virtual link, in bytes/s.
    wide_area
        Delays and bandwidths laid over the links: a :class:`~synergy_nb.runtime.transport.wide_area.WideArea`, or the
        path of a matrix of round-trip times (``.npz`` with ``rtt_ms``).
    keys
        Secrets of ``encrypt`` and ``decrypt``, by name: 16, 24 or 32 bytes each.
    composition
        Parameters of composition, such as the probing ratio.
    discipline
        Order in which peers execute what waits: ``"fcfs"`` (first come, first served), ``"edf"`` (earliest deadline
        first) or ``"least_slack"`` (least time left beyond what is still to be done). A plan may state its own
        (``scheduling`` of ``sink``).
    seed
        Of the peers' random generators, and of the sites in a wide area.
    spark
        What executes parts of plans that are for Spark: True, a server of this machine, which is started when it is
        first needed and ends with the cluster; a URL, ``sc://host:port``, or several, which peers use in turn; False,
        nothing.
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
        memory: float | str | None = None,
        bandwidth: float = 125e6,
        wide_area: WideArea | str | os.PathLike[str] | None = None,
        keys: Mapping[str, bytes] | None = None,
        composition: CompositionConfig | None = None,
        discipline: str = "fcfs",
        seed: int = 0,
        spark: bool | str | Sequence[str] = True,
        security: Any = None,
    ) -> None:
        peers = _given(peers)
        self._thread = _Loop()
        self._given = peers if isinstance(peers, str) else ""
        options: dict[str, Any] = {
            "cores": cores,
            "memory": memory,
            "bandwidth": bandwidth,
            "wide_area": wide_area,
            "keys": keys,
            "composition": composition,
            "discipline": discipline,
            "seed": seed,
            "spark": spark,
            "security": security,
        }
        reached = [f"connecting to {peers}" if isinstance(peers, str) else f"starting {peers} peers"]
        options["told"] = lambda progress: reached.append(str(progress))
        try:
            if isinstance(peers, str):
                self._cluster: AsyncCluster = self._thread.run(connect_cluster(peers, **options), lambda: reached[-1])
            else:
                self._cluster = self._thread.run(start_cluster(peers, **options), lambda: reached[-1])
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

    def _run(self, work: Coroutine[Any, Any, T], doing: str = "") -> T:
        if self._closed:
            work.close()
            raise ClusterError("the cluster is closed; expected an open one")
        return self._thread.run(work, lambda: self._cluster.spark.doing or doing)

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

    def events(self, subject: str = "") -> Events:
        """Journal of all peers that answer, by time; only of ``subject`` if given. ``table()`` makes a table of it."""
        return self._run(self._cluster.events(subject))

    def spark_session(self) -> Any:
        """A ``SparkSession`` of one's own on the Spark that the peers use, which is started if need be.

        It ends with the cluster.

        Raises
        ------
        ClusterError
            If there is no Spark to be had; the text says why, and what to do.
        """
        return self._run(self._cluster.spark_session(), "starting Spark")

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
        feeds: Mapping[str, Rows] | None = None,
        placement: str = "composed",
        timeout: float | str = 30.0,
    ) -> Application:
        """Have the peers compose and start a plan.

        Parameters
        ----------
        plan
            What is asked, as ``.sink(...)`` makes it.
        at
            Name of the peer that becomes its origin, where its results are kept; by default the one that its sinks are
            bound to, or else one that answers, in turn.
        feeds
            Rows of each source with connector ``python``, by its name: a pandas, Polars or Arrow table, a
            :class:`~synergy_nb.runtime.client.feeds.Feed`, or an iterable, asynchronous or not, of dictionaries or
            tables. Sources that were made of rows, as in ``source(table)``, need none.
        placement
            How components find their peers: ``composed``, by probes that balance the load, or ``resilient``, so that
            they withstand the largest set of rates that the plan's sources may take (ROD).
        timeout
            Time until composition has to be decided, in seconds or as ``"1 min"``.

        Raises
        ------
        NotAdmitted
            If composition was refused; the text says which condition failed where, and its ``explain()`` the rest.
        ClusterError
            If no peer answers, or a name is wrong.
        """
        submitted = self._cluster.submit(plan, at=at, feeds=feeds, placement=placement, timeout=timeout)
        doing = f"composing {getattr(plan, 'name', 'the plan')}"
        if placement == "resilient":
            doing = (
                f"placing {getattr(plan, 'name', 'the plan')}: a peer that does so for the first time loads its solver"
            )
        return Application(self, self._run(submitted, doing))

    @property
    def applications(self) -> Applications[Application]:
        """All applications of the peers, whoever submitted them: id to application, those that run first.

        A notebook shows them as a table: state, delay against its limit, peers, and how each is stopped. What was
        submitted from a variable that has been overwritten is found again here, also by another ``Cluster`` on the same
        peers. An application that has ended is listed as long as its origin remembers it. Each tuple of a sink goes to
        one handle, which collects it first.
        """
        found = self._run(self._cluster.entries())
        return Applications(found, {name: Application(self, entry.held) for name, entry in found.items()})

    def stop(self, application: str) -> None:
        """End an application, whoever submitted it; nothing happens if it has ended already.

        Parameters
        ----------
        application
            Id of the application, or the name of its plan if exactly one running application has that name.

        Raises
        ------
        ClusterError
            If there is no such application, or several have that name; the text names them.
        """
        self._run(self._cluster.stop(application))

    def move(self, application: str | Application, operator: str, to: str) -> None:
        """Move a component to another peer while its application runs; no tuple is lost, doubled or held up by that.

        Parameters
        ----------
        application
            Application, its id, or the name of its plan if exactly one running application has that name.
        operator
            Operator id of the component.
        to
            Name of the peer that it moves to.

        Raises
        ------
        ClusterError
            If there is no such application, operator or peer; if the component cannot move, such as a sink; if the peer
            has no room for it, or dies meanwhile. The text says why, and the component is where it was.
        """
        name = application.id if isinstance(application, Application) else application
        self._run(self._cluster.move(name, operator, to), f"moving {operator} of {name} to {to}")

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
                    (
                        name,
                        f"{share(state.load)} of {amount(round(state.cores, 3))} cores",
                        str(len(state.applications)),
                        components,
                    )
                )
        return rows

    def __repr__(self) -> str:
        if self._closed:
            return "Cluster (closed)"
        return as_text(f"Cluster of {len(self.peers)} peers", HEADING, self._rows())

    def _repr_html_(self) -> str:
        if self._closed:
            return "<p>Cluster (closed)</p>"
        return as_html(f"Cluster of {len(self.peers)} peers", HEADING, self._rows())


def _given(peers: Any) -> Any:
    """A number of peers as it is; of a Dask cluster or client, or of a text, the scheduler's address.

    Raises
    ------
    ValueError
        If a text is no address.
    """
    found = getattr(peers, "scheduler_address", None) or getattr(getattr(peers, "scheduler", None), "address", None)
    if isinstance(peers, str):
        check_address("peers", peers)
    return found if isinstance(found, str) else peers
