"""A cluster of peers and the applications on it, for synchronous code such as notebooks.

:mod:`synergy_nb.runtime.client.async_cluster` does all work, on an event loop in a separate thread, so a blocked cell
stops nothing: results continue to arrive, and calls work under a notebook's own running loop. Coroutines use
:class:`~synergy_nb.runtime.client.AsyncCluster`, which :func:`start_cluster` returns.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.control.cuts import Cut
from synergy_nb.control.rights import Acceptance
from synergy_nb.drawing.notebook_views import view_of
from synergy_nb.errors import user_facing
from synergy_nb.lifecycle.changes.knobs import Knobs
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan.terms.units import counted, did_you_mean
from synergy_nb.reporting.application_list import Applications
from synergy_nb.reporting.formatting import share, size
from synergy_nb.reporting.one_sided import ONLY_SIMULATED, OneSided
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.reporting.tables import as_html, as_text
from synergy_nb.runtime.client._application import Application
from synergy_nb.runtime.client._knobs import change_cost, change_link, change_pace
from synergy_nb.runtime.client._synchronous import LoopThread, Synchronous, synchronous
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.process.processes import PeerCluster
from synergy_nb.runtime.process.requests import ChangeLoad, ClusterError, pack
from synergy_nb.runtime.process.starting import ClusterOptions, check_address, connect_cluster, start_cluster
from synergy_nb.runtime.transport.wide_area import WideArea

if TYPE_CHECKING:
    from synergy_nb.recording.moments import Replay

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


def _wrapped(cluster: Cluster, application: AsyncApplication) -> Application:
    return Application(cluster, application)


class Cluster(Synchronous[AsyncCluster], Knobs[Application], OneSided):
    """A cluster of peers.

    Parameters
    ----------
    peers
        Number of peers to start on this machine, or an existing Dask cluster whose workers become peers: the address of
        its scheduler, or a ``LocalCluster`` or ``Client`` of it.
    cores
        Processing capacity of each peer, in cores; by default its share of this machine. One thread executes the
        operators of a peer, so they get one core at most; parts on Spark may have the rest.
    memory
        Limit of the memory of all operators on each peer together, in bytes or as ``"4 GB"``; by default half of this
        machine's memory, shared equally by its peers. An operator that needs more fails with its application. A plan
        may set a lower limit for each of its operators, see ``sink``.
    bandwidth
        Bandwidth of each virtual link that may be promised, bytes/s; or ``"measured"``: the bandwidth that the traffic
        on each link shows, and 125 MB/s before.
    wide_area
        Delays and bandwidths imposed on the links: a :class:`~synergy_nb.runtime.transport.wide_area.WideArea`, or the
        path of a matrix of round-trip times (``.npz`` with ``rtt_ms``).
    secrets
        Passwords, tokens and keys by the name that plans use for them: as ``bytes``, or where they are,
        ``"env:VARIABLE"``, ``"file:PATH"`` or ``"keyring:SERVICE/USER"``.
    composition
        Parameters of composition, such as the probing ratio.
    discipline
        Order in which peers execute waiting tuples: ``"fcfs"`` (first come, first served), ``"edf"`` (earliest deadline
        first) or ``"least_slack"`` (least time until the deadline beyond the remaining work). A plan may state its own
        (``scheduling`` of ``sink``).
    functions
        Functions of users' own that the peers execute: ``"off"``, none; ``"installed"``, those that can be imported at
        the peers; ``"notebook"``, also those that a notebook declares, whose code comes with the plan. Default:
        ``"notebook"`` for peers that are started here, ``"installed"`` for those of an existing Dask cluster.
    hotspots
        Treatment of hot spots, which are operators whose tuples have no time left until their limit: ``"on"``, peers
        predict them and have operators move to other peers; ``"observe"``, they predict them, and the journal states
        what would move; ``"off"``, neither. Or all parameters, as a :class:`~synergy_nb.HotSpotConfig`. A plan may
        state less (``hotspots`` of ``sink``).
    replication
        Parameters of the streams between active replicas, as a :class:`~synergy_nb.ReplicationConfig`: the share of
        their network cost that may remain (``theta``), and the replicas that each operator retains (``k_min``). None:
        no stream is discarded.
    overload
        Whether peers admit plans beyond their capacity and in spite of limits, so that a promise can be seen to break.
    patience
        Time for which an application waits for a silent peer without which it cannot continue, in seconds or as
        ``"1 min"``. One whose process has ended is not waited for.
    guests
        Limits of what the peers accept from guests, who have a certificate by :meth:`invite`: an
        :class:`~synergy_nb.Acceptance`. Default: four applications of each guest at each peer, on half of its cores and
        memory, without code of the guest, and without access to files or hosts.
    seed
        Seed of the peers' random generators, and of the sites in a wide area.
    spark
        Server that executes parts of plans on Spark: True, a server of this machine, which is started when it is first
        needed and ends with the cluster; a URL, ``sc://host:port``, or several, which peers use in turn; False, none.
    security
        ``distributed.Security`` with certificates of your own, or the file that :meth:`invite` has written for a guest.
        By default a cluster that is started here has an authority of its own, which gives each part a certificate; and
        the credentials of a cluster that you have started in another program on this machine are found by its address.
    insecure
        Whether to use a Dask cluster without TLS on other machines: everybody who can reach its ports can do there what
        you can.
    host
        Address of this machine at which the peers that are started here, and their scheduler, listen. If other hosts
        can reach it, their peers can join: :meth:`join_token`.
    record
        New file to which all peers record their inputs and effects, for ``synergy replay FILE``; all peers have to be
        on this machine. It contains plans, but no secrets and no rows of streams.
    runs
        Folder in which the runs of this client are kept, as Parquet files: plan, journal, measurements and versions of
        each application (:func:`synergy_nb.runs`). Nothing is written by default.
    durable
        Folder from which applications go on in the next cluster that is given it, with the same ids, also when all
        processes of this one were killed: their plans, positions, states and rows are written there in the background.
        All peers have to see it: a folder of the system, or one in an object store, such as ``s3://bucket/folder``.
        Each application of this cluster goes on, until it has finished or is stopped.

    Examples
    --------
    >>> from synergy_nb import Cluster, source
    >>> with Cluster(peers=2) as cluster:
    ...     packets = source("packets", seed=1, rate="1000 tuples/s", duration="2 s", speed=0)
    ...     application = cluster.submit(packets.filter("bytes > 1000").sink(delay="10 s"))
    ...     application.results().columns[:3]
    ['time', 'link', 'source']
    """

    _elsewhere = ONLY_SIMULATED

    def __init__(
        self,
        peers: Any = 8,
        *,
        cores: float | None = None,
        memory: float | str | None = None,
        bandwidth: float | str = 125e6,
        wide_area: WideArea | str | os.PathLike[str] | None = None,
        secrets: Mapping[str, bytes | str] | None = None,
        composition: CompositionConfig | None = None,
        discipline: str = "fcfs",
        functions: str | None = None,
        hotspots: str | HotSpotConfig = "on",
        replication: ReplicationConfig | None = None,
        overload: bool = False,
        patience: float | str = 60.0,
        guests: Acceptance | None = None,
        seed: int = 0,
        spark: bool | str | Sequence[str] = True,
        security: Any = None,
        insecure: bool = False,
        host: str = "127.0.0.1",
        record: str | os.PathLike[str] | None = None,
        runs: str | os.PathLike[str] | None = None,
        durable: str | os.PathLike[str] | None = None,
    ) -> None:
        options = {name: value for name, value in locals().items() if name in ClusterOptions.__annotations__}
        if security is None and not isinstance(peers, str):
            options["security"] = _own_security(peers)
        peers = _scheduler_address(peers)
        self._thread = LoopThread()
        self._scheduler = peers if isinstance(peers, str) else ""
        starting = connect_cluster(peers, **options) if isinstance(peers, str) else start_cluster(peers, **options)
        try:
            self._asynchronous = self._thread.run(starting)
        except ClusterError as error:
            self._thread.close()
            raise error.with_traceback(None)  # noqa: B904 - the same error, without the frames of the thread
        except BaseException:
            self._thread.close()
            raise
        # also when the cluster is garbage-collected, as when a cell that makes one runs again, and at exit
        self._finalizer = weakref.finalize(self, _close, self._thread, self._asynchronous)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all applications, except durable ones, and the peers that were started here."""
        self._finalizer()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has ended: no peer can be asked any more."""
        return self._asynchronous.closed

    @property
    def _closed(self) -> bool:
        """Whether :meth:`close` has begun."""
        return not self._finalizer.alive

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._closed:
            return self._thread.run(work)
        if not self._asynchronous.closed:
            work.close()
            raise ClusterError("the cluster is being closed; expected an open one")
        with contextlib.closing(LoopThread()) as thread:  # it answers what needs no peers
            return thread.run(work)

    # -- peers ---------------------------------------------------------------------------------------------------

    @property
    def peers(self) -> dict[str, str]:
        """Peer name to address."""
        return dict(self._asynchronous.peers)

    @property
    def names(self) -> Mapping[str, str]:
        """Peer address to name, also of peers that have ended."""
        return self._asynchronous.names

    @property
    def scheduler(self) -> str:
        """Address of the Dask scheduler; ``Cluster(address)`` in another program of yours uses the same peers."""
        local = self._asynchronous.local
        return str(local.scheduler_address) if isinstance(local, PeerCluster) else self._scheduler

    @property
    def security(self) -> Any:
        """``distributed.Security`` for a Dask client of your own; None if the cluster has no TLS.

        ``Client(cluster.scheduler, security=cluster.security)`` uses the cluster for ordinary work of Dask.
        """
        return self._asynchronous.security

    invite = synchronous(AsyncCluster.invite)
    join_token = synchronous(AsyncCluster.join_token)
    revoke = synchronous(AsyncCluster.revoke)
    states = synchronous(AsyncCluster.states)
    events = synchronous(AsyncCluster.events)
    spark_session = synchronous(AsyncCluster.spark_session)

    def _kill(self, peer: str) -> None:
        os.kill(self._process(peer), signal.SIGKILL)

    def _suspend(self, peer: str) -> None:
        os.kill(self._process(peer), signal.SIGSTOP)

    def _resume(self, peer: str) -> None:
        os.kill(self._process(peer), signal.SIGCONT)

    def _cut(self, peer: str, other: str, seconds: float | None, how: Cut) -> None:
        self._run(change_link(self._asynchronous, peer, other, how, seconds))

    def _mend(self, peer: str, other: str) -> None:
        self._run(change_link(self._asynchronous, peer, other, None))

    def _load(self, peer: str, share: float) -> None:
        self._run(self._asynchronous.request(peer, "load", pack(ChangeLoad(share))))

    def _pace(self, application: Application, source: str, factor: float) -> None:
        self._run(change_pace(self._asynchronous, application.id, source, factor))

    def _cost(self, application: Application, operator: str, seconds: float) -> None:
        self._run(change_cost(self._asynchronous, application.id, operator, seconds))

    def _process(self, peer: str) -> int:
        """Return the id of the process of a peer that was started here."""
        local = self._asynchronous.local
        if not isinstance(local, PeerCluster):
            raise ClusterError("the peers of this cluster were not started here; expected Cluster(peers=<number>)")
        for process in local.processes.values():
            if peer in process.peers:
                return process.pid
        raise ClusterError(f"peer: {peer!r} has ended; expected one that runs: {', '.join(local.peers)}")

    def _living(self, field: str, peer: str) -> str:
        known = self._asynchronous.peers
        if peer not in known:
            raise ClusterError(f"{field}: {peer!r}; expected one of {', '.join(known)}{did_you_mean(peer, known)}")
        return peer

    def _found(self, application: str | Application) -> Application:
        return Application(self, self._run(self._asynchronous.handle(application)))

    def kill_spark(self) -> None:
        """Kill the embedded Spark server (SIGKILL); it is restarted, and its queries resume."""
        server = self._asynchronous.spark.process
        if server is None:
            raise ClusterError("no Spark server runs that was started here; expected one, as spark_session() starts it")
        os.kill(server, signal.SIGKILL)

    # -- applications --------------------------------------------------------------------------------------------

    submit = synchronous(AsyncCluster.submit, _wrapped)
    check = synchronous(AsyncCluster.check)
    application = synchronous(AsyncCluster.application, _wrapped)
    stop = synchronous(AsyncCluster.stop)
    move = synchronous(AsyncCluster.move)

    @staticmethod
    @user_facing
    def replay(file: str | os.PathLike[str], request: str | None = None) -> Replay:
        """Return what peers did for one request of a recorded run, message by message.

        A notebook shows a stage on which it can be stepped. No peers are needed: ``Cluster.replay("run.rec")``.

        Parameters
        ----------
        file
            Recording, as ``Cluster(record=FILE)`` writes it.
        request
            Id of the request; None: the last one of the recording.

        Raises
        ------
        ValueError
            If the file is no recording, or holds no such request; the text names those that it holds.
        """
        from synergy_nb.recording.stage import replay_file  # noqa: PLC0415 - few need replays

        return replay_file(Path(file), request)

    @property
    def applications(self) -> Applications[Application]:
        """Return all applications of the peers, whoever submitted them: id to application, running ones first.

        A notebook shows them as a table: state, delay against its limit, peers, and how to stop each. An application
        whose variable was overwritten can be found here, also by another ``Cluster`` on the same peers. An ended
        application is listed while its origin remembers it. Each handle reads all results for itself:
        reading takes them from no other handle; see :meth:`Application.results`.
        """
        found = self._run(self._asynchronous.entries())
        handles = {name: Application(self, held) for name, held in found.items()}
        return Applications({name: held.listed for name, held in found.items()}, handles)

    def watch(self) -> Any:
        """Return the live view of all applications and peers, as ``watch(cluster)`` does."""
        return view_of("watch", self)

    # -- displays -------------------------------------------------------------------------------------------

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
                        f"{share(state.load)} of {counted(round(state.cores, 3), 'core')}",
                        str(len(state.applications)),
                        components,
                        self._links(state),
                    )
                )
        return rows

    def _links(self, state: PeerState) -> str:
        """Format the three links to a peer with the lowest measured bandwidth."""
        slowest = sorted(state.links.items(), key=lambda link: link[1][1])[:3]
        names = self._asynchronous.name
        shown = [f"{names(each)} {size(rate)}/s of {size(most)}/s" for each, (most, rate) in slowest]
        return ", ".join(shown) + (", ..." if len(state.links) > len(shown) else "") or "-"

    def __repr__(self) -> str:
        if self._closed:
            return "Cluster (closed)"
        return as_text(f"Cluster of {counted(len(self.peers), 'peer')}", HEADING, self._rows())

    def _repr_html_(self) -> str:
        if self._closed:
            return "<p>Cluster (closed)</p>"
        return as_html(f"Cluster of {counted(len(self.peers), 'peer')}", HEADING, self._rows())


def _own_security(cluster: Any) -> Any:
    """Return the TLS configuration of a Dask cluster or client, if it has one."""
    security = getattr(cluster, "security", None)
    return security if getattr(security, "tls_client_cert", None) else None


def _scheduler_address(peers: Any) -> Any:
    """Return a number of peers unchanged; for a Dask cluster, a client or a text, the scheduler's address.

    Raises ``ValueError`` if a text is not an address.
    """
    found = getattr(peers, "scheduler_address", None) or getattr(getattr(peers, "scheduler", None), "address", None)
    if isinstance(peers, str):
        check_address("peers", peers)
    return found if isinstance(found, str) else peers
