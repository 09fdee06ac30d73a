"""What a notebook holds: a cluster of peers and the applications on it, for synchronous code.

Everything is done by :mod:`synergy_nb.runtime.client.async_cluster` on an event loop in a thread of its own, so a cell
that blocks stops nothing: results go on arriving, and calls work under a notebook's own running loop. Coroutines use
:class:`~synergy_nb.runtime.client.AsyncCluster`, which :func:`start_cluster` gives.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.reporting.formatting import amount, share, size
from synergy_nb.reporting.tables import as_html, as_text
from synergy_nb.runtime.client.application import Application
from synergy_nb.runtime.client.applications import Applications
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.client.synchronous import LoopThread, Synchronous, synchronous
from synergy_nb.runtime.process.processes import PeerCluster
from synergy_nb.runtime.process.requests import ClusterError, PeerState
from synergy_nb.runtime.process.starting import check_address, connect_cluster, start_cluster
from synergy_nb.runtime.transport.wide_area import WideArea

__all__ = ["Application", "Cluster"]

T = TypeVar("T")
HEADING: Final = ("peer", "load", "applications", "components", "links, measured of configured")


def _close(thread: LoopThread, cluster: AsyncCluster) -> None:
    if threading.current_thread() is thread.thread:  # collected as garbage there: the loop cannot wait for itself
        threading.Thread(target=_close, args=(thread, cluster), name="synergy close").start()
        return
    try:
        thread.run(cluster.close())
    finally:
        thread.close()


def _held(cluster: Cluster, application: AsyncApplication) -> Application:
    return Application(cluster, application)


class Cluster(Synchronous[AsyncCluster]):
    """A cluster of peers.

    Parameters
    ----------
    peers
        Number of peers to start on this machine, or an existing Dask cluster whose workers become peers: the address of
        its scheduler, or a ``LocalCluster`` or ``Client`` of it.
    cores
        Processing capacity that each peer gives, in cores; by default its share of this machine.
    memory
        Memory that the operators on each peer may take together, in bytes or as ``"4 GB"``; by default half of this
        machine's memory, shared equally by its peers. An operator that needs more fails with its application. A plan
        may give each of its operators less, see ``sink``.
    bandwidth
        Bandwidth of each virtual link that may be promised, bytes/s; or ``"measured"``: what each link was measured to
        carry by the traffic on it, and 125 MB/s before.
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
        Seed of the peers' random generators, and of the sites in a wide area.
    spark
        Server that executes parts of plans on Spark: True, a server of this machine, which is started when it is first
        needed and ends with the cluster; a URL, ``sc://host:port``, or several, which peers use in turn; False, none.
    security
        ``distributed.Security`` of the cluster, for TLS.
    record
        New file to which all peers write what they get, with its effects, to be replayed by ``synergy replay FILE``;
        all peers have to be on this machine. It holds plans, but no keys and no rows of streams.

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
        bandwidth: float | str = 125e6,
        wide_area: WideArea | str | os.PathLike[str] | None = None,
        keys: Mapping[str, bytes] | None = None,
        composition: CompositionConfig | None = None,
        discipline: str = "fcfs",
        seed: int = 0,
        spark: bool | str | Sequence[str] = True,
        security: Any = None,
        record: str | os.PathLike[str] | None = None,
    ) -> None:
        peers = _given(peers)
        self._thread = LoopThread()
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
            "record": record,
        }
        starting = connect_cluster(peers, **options) if isinstance(peers, str) else start_cluster(peers, **options)
        try:
            self._asynchronous = self._thread.run(starting)
        except BaseException:
            self._thread.close()
            raise
        # also where the cluster is garbage, as when a cell that makes one runs again, and at exit
        self._finalizer = weakref.finalize(self, _close, self._thread, self._asynchronous)

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
        if not self._closed:
            return self._thread.run(work)
        if not self._asynchronous.closed:
            work.close()
            raise ClusterError("the cluster is being closed; expected an open one")
        with contextlib.closing(LoopThread()) as thread:  # it says what can be said without peers
            return thread.run(work)

    # -- peers ---------------------------------------------------------------------------------------------------

    @property
    def peers(self) -> dict[str, str]:
        """Peer name to address."""
        return dict(self._asynchronous.peers)

    @property
    def scheduler(self) -> str:
        """Address of the Dask scheduler; ``Cluster(address)`` elsewhere uses the same peers."""
        local = self._asynchronous.local
        return str(local.scheduler_address) if isinstance(local, PeerCluster) else self._given

    states = synchronous(AsyncCluster.states)
    events = synchronous(AsyncCluster.events)
    spark_session = synchronous(AsyncCluster.spark_session)

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
        local = self._asynchronous.local
        if not isinstance(local, PeerCluster):
            raise ClusterError("the peers of this cluster were not started here; expected Cluster(peers=<number>)")
        self._named(peer)
        for process in local.processes.values():
            if peer in process.peers:
                return process.pid
        raise ClusterError(f"peer: {peer!r} has ended; expected one that runs: {', '.join(local.peers)}")

    def _named(self, peer: str) -> str:
        if peer not in self._asynchronous.peers:
            raise ClusterError(f"peer: {peer!r}; expected one of {', '.join(self._asynchronous.peers)}")
        return peer

    def kill_spark(self) -> None:
        """End the embedded Spark server without warning (SIGKILL); it is started again, and its queries go on."""
        server = self._asynchronous.spark.process
        if server is None:
            raise ClusterError("no Spark server runs that was started here; expected one, as spark_session() starts it")
        os.kill(server, signal.SIGKILL)

    # -- applications --------------------------------------------------------------------------------------------

    submit = synchronous(AsyncCluster.submit, _held)
    stop = synchronous(AsyncCluster.stop)
    move = synchronous(AsyncCluster.move)

    @property
    def applications(self) -> Applications[Application]:
        """All applications of the peers, whoever submitted them: id to application, those that run first.

        A notebook shows them as a table: state, delay against its limit, peers, and how each is stopped. What was
        submitted from a variable that has been overwritten is found again here, also by another ``Cluster`` on the same
        peers. An application that has ended is listed as long as its origin remembers it. Each tuple of a sink goes to
        one handle, which collects it first.
        """
        found = self._run(self._asynchronous.entries())
        return Applications(found, {name: Application(self, entry.held) for name, entry in found.items()})

    # -- what is shown -------------------------------------------------------------------------------------------

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        if self._closed:
            return []
        rows = []
        for name, state in self.states().items():
            if state is None:
                rows.append((name, "does not answer", "", "", ""))
            else:
                components = ", ".join(sorted({str(part["operator"]) for part in state.components})) or "-"
                rows.append(
                    (
                        name,
                        f"{share(state.load)} of {amount(round(state.cores, 3))} cores",
                        str(len(state.applications)),
                        components,
                        self._links(state),
                    )
                )
        return rows

    def _links(self, state: PeerState) -> str:
        """The three links to a peer that were measured to carry least."""
        slowest = sorted(state.links.items(), key=lambda link: link[1][1])[:3]
        names = self._asynchronous.name
        shown = [f"{names(each)} {size(rate)}/s of {size(most)}/s" for each, (most, rate) in slowest]
        return ", ".join(shown) + (", ..." if len(state.links) > len(shown) else "") or "-"

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
