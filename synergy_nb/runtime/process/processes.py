"""A Dask cluster of peer processes on this machine, started fast.

:func:`start` returns an ordinary Dask cluster (a ``SpecCluster``: ``Client(cluster)`` works as always) whose workers
run in processes that a :class:`~synergy_nb.runtime.process.fork_server.ForkServer` forks: one worker without a nanny,
and one peer on it, in each process, or several where many peers must fit on a small machine. A process that has ended
is not restarted: the other peers continue without it.

Dask's periodic tasks (ticks, monitors, profilers) are slowed down in these processes and in the scheduler; the
configuration of the user's process is restored once the cluster has started.
"""

# mypy: disable-error-code="no-untyped-call"
# (of distributed, which is typed only here and there)

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import ssl
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final

import dask
import msgspec
from distributed import Scheduler, Security
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface, SpecCluster
from distributed.utils import silence_logging_cmgr
from distributed.versions import get_versions
from tornado import netutil

from synergy_nb.control.identity import OWNER, PEER, SCHEDULER, endpoint_of
from synergy_nb.runtime.client.progress import Progress
from synergy_nb.runtime.identity.authority import Authority, Credentials
from synergy_nb.runtime.identity.dask_doors import AT_SCHEDULER
from synergy_nb.runtime.identity.security import IdentitySecurity
from synergy_nb.runtime.process._dask_silence import Silence
from synergy_nb.runtime.process._plugin import PEER_ID, SynergyPlugin, load_factory, peer_address, worker_peer_id
from synergy_nb.runtime.process._steady_worker import SteadyWorker
from synergy_nb.runtime.process.fork_server import PRELOAD, ForkServer
from synergy_nb.runtime.transport.listening import Door, bound, without_pages
from synergy_nb.runtime.transport.wire import LinkLimits

__all__ = ["PeerCluster", "PeerProcess", "ProcessSpec", "launch_fork_server", "serve", "start"]

QUIET: Final[dict[str, Any]] = {
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.diagnostics.nvml": False,
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,
    "distributed.worker.use-file-locking": False,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,
}
LOG: Final = logging.getLogger(__name__)
YOUNG: Final = 50_000  # new objects of a peer after which cycles are looked for
GRACE: Final = 2.0  # seconds within which a process may end by itself


class ProcessSpec(msgspec.Struct, frozen=True):
    """Parameters of a process of peers; plain values, as they are sent through a pipe."""

    scheduler: str
    names: tuple[str, ...]
    host: str | None
    security: dict[str, Any]
    credentials: dict[str, Credentials]  # those of each peer, if the cluster has an authority
    dask_config: dict[str, Any]
    factory: str | None
    config: dict[str, Any]
    area: bytes | None
    limits: LinkLimits
    enters: bool = False  # whether the peers enter the ring of others by themselves


class PeerProcess(ProcessInterface):
    """One process with one or more workers, with the interface that Dask's ``SpecCluster`` needs."""

    def __init__(
        self,
        scheduler: str,  # address of the scheduler
        name: str,
        *,
        fork_server: ForkServer,
        spec: ProcessSpec,  # parameters of the process, except the address of the scheduler
        timeout: float,  # seconds without a ready process after which starting is given up
        on_exit: Callable[[str], None],  # callback with the name when the process has ended, for whatever reason
        on_start: Callable[[], None],  # callback when its peers are ready
    ) -> None:
        super().__init__(scheduler=scheduler, name=name)
        self.name = name
        self.peers: dict[str, str] = {}  # peer name to address, once it has started
        self.pid = 0  # process id
        self._fork_server = fork_server
        self._spec = msgspec.structs.replace(spec, scheduler=scheduler)
        self._timeout = timeout
        self._on_exit = on_exit
        self._on_start = on_start
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process and wait until its peers run."""
        if (task := asyncio.current_task()) is not None:  # Dask's; nobody awaits it once the start is interrupted
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        spec = msgspec.msgpack.encode(self._spec)
        try:
            report = await self._fork_server.fork(self.name, f"{__name__}:serve", spec, self._timeout)
        except BaseException:
            self.status = Status.failed
            raise
        self.peers, self.pid = report["peers"], report["pid"]
        self._watch = asyncio.create_task(self._follow(), name=f"process {self.name}")
        await super().start()
        self._on_start()

    async def _follow(self) -> None:
        await self._fork_server.exited(self.name)
        if self.status != Status.closed:
            await super().close()
        self._on_exit(self.name)

    async def close(self) -> None:
        """End the process, by force if it does not end by itself."""
        if self.status == Status.running:
            self.status = Status.closing
            await self._fork_server.stop(self.name, GRACE)
        if self._watch is not None:
            await self._watch
        if self.status != Status.closed:
            await super().close()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Context without messages of Dask and of its dashboard below errors."""
    with silence_logging_cmgr(logging.ERROR), silence_logging_cmgr(logging.ERROR, root="bokeh"):
        yield


_SILENCE: Final = Silence(_silent)


class PeerCluster(SpecCluster):
    """A Dask cluster of :class:`PeerProcess`; made by :func:`start`."""

    def __init__(
        self,
        fork_server: ForkServer,
        workers: dict[str, Any],
        peer_count: int,
        on_progress: Callable[[Progress], object] | None = None,
        *,
        dashboard: bool,
        certificates: Mapping[str, str],
        **options: Any,
    ) -> None:
        self.certificates = certificates  # peer name to the certificate with which it starts; empty: no authority
        self._fork_server = fork_server
        self._peer_count = peer_count
        self._on_progress = on_progress
        self._dashboard = dashboard
        self._order = list(workers)
        self._own_names = {name for worker in workers.values() for name in worker["options"]["spec"].names}
        self._is_up = False
        self._registered: set[str] = set()  # addresses that ``scheduler_info`` has listed
        self.elsewhere: dict[str, str] = {}  # name of the peers of other hosts to where they listen
        self.on_elsewhere: list[Callable[[str], object]] = []  # called with the name of each that comes
        self._changed = asyncio.Event()
        for worker in workers.values():
            worker["options"]["on_exit"] = self._forget
            worker["options"]["on_start"] = self._started
        self._silence = contextlib.ExitStack()
        self._silence.enter_context(_SILENCE.kept())
        try:
            super().__init__(workers=workers, **options)
        except BaseException:
            self._silence.close()
            fork_server.abandon()
            fork_server.kill()
            raise

    @property
    def peers(self) -> dict[str, str]:
        """Name to address of all started peers in living processes."""
        return {name: address for process in self.processes.values() for name, address in process.peers.items()}

    @property
    def processes(self) -> dict[str, PeerProcess]:
        """The living processes by name."""
        started = ((name, self.workers.get(name)) for name in self._order)
        return {name: process for name, process in started if process and process.status == Status.running}

    def _started(self) -> None:
        """Report one more ready process."""
        if self._on_progress is not None:
            running = (process for process in self._created if process.status == Status.running)  # not in workers yet
            self._on_progress(Progress(sum(len(process.peers) for process in running), self._peer_count, "peers run"))

    def _forget(self, name: str) -> None:
        """Remove a process that has ended, so that it is not restarted."""
        self.worker_spec.pop(name, None)
        self.workers.pop(name, None)
        self._changed.set()

    async def _correct_state_internal(self) -> None:
        """Start and close processes as requested, and wait until ``scheduler_info`` lists the new peers."""
        before = set(self.workers)
        await super()._correct_state_internal()
        while not self._registered.issuperset(
            endpoint_of(address)
            for name, process in self.processes.items()
            if name not in before
            for address in process.peers.values()
        ):
            self._changed.clear()
            await self._changed.wait()

    def _update_worker_status(self, op: str, msg: Any) -> None:
        """Apply a message of the scheduler to ``scheduler_info``."""
        if op == "add":
            self._registered.update(msg["workers"])
            for address, worker in msg["workers"].items():
                if (name := str(worker["name"])) not in self._own_names:
                    self.elsewhere[name] = address
                    for listener in tuple(self.on_elsewhere):
                        listener(name)
        elif op == "remove":
            self.elsewhere = {name: address for name, address in self.elsewhere.items() if address != msg}
        super()._update_worker_status(op, msg)
        self._changed.set()

    def __await__(self) -> Generator[Any, Any, PeerCluster]:
        return self._up().__await__()

    async def _up(self) -> PeerCluster:
        """Start; close again everything that was started if that fails."""
        if self._is_up:
            await self._correct_state()
            return self
        try:
            if self.status == Status.created:
                await self._start()
            await self._correct_state()
        except BaseException:
            self._fork_server.abandon()  # first: nobody has used the processes, so none is asked to end by itself
            self._fork_server.kill()
            with contextlib.suppress(AssertionError):  # Dask's, where a process was interrupted before it was up
                await self._close()
            raise
        self._is_up = True
        return self

    async def _start(self) -> None:
        with dask.config.set(QUIET):
            await super()._start()
        scheduler: Any = self.scheduler
        security, door = scheduler.security, None
        if isinstance(security, IdentitySecurity):
            door = Door(security.identify, security.revoked, AT_SCHEDULER)
            security.on_revoked.append(door.end_revoked)

        def refused(address: str, reason: str) -> None:
            LOG.warning("scheduler: refused from %s: %s", address, reason)

        bound(scheduler, refused, door=door)
        if not self._dashboard:
            without_pages(self.scheduler)

    async def _close(self) -> None:
        try:
            await super()._close()
        finally:
            try:
                await self._fork_server.close()
            finally:
                self._silence.close()  # last: what Dask was sending when its links were closed is logged a moment later


def start(
    peers: int,  # number of peers
    # factory, config, area, limits: arguments of `SynergyPlugin`. Without a factory the workers run no peers. In
    # `config`, the values of the mapping `config["of"][name]` override the others for the peer `name`
    factory: str | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    per_process: int = 1,  # number of peers in one process
    security: Security | None = None,  # TLS configuration, for a cluster without an authority
    authority: Authority | None = None,  # certifies who is who, so that each part has credentials of its own
    owner: str = "owner",  # name of who starts it
    # host, port: host and port of the scheduler; the peers listen on ports of the same host
    host: str = "127.0.0.1",
    port: int = 0,
    # address of Dask's dashboard, such as `":8787"`; by default there is no dashboard
    dashboard_address: str | None = None,
    area: bytes | None = None,
    limits: LinkLimits | None = None,
    # whether to return an awaitable for a running event loop. Otherwise the cluster is ready when this returns
    asynchronous: bool = False,
    timeout: float = 30.0,  # seconds without a ready process after which starting is given up
    fork_server: ForkServer | None = None,  # fork server that is already starting; the cluster owns it from then on
    # callback with the number of running peers, whenever it has changed; None: no callback
    on_progress: Callable[[Progress], object] | None = None,
) -> PeerCluster:
    """Start a scheduler in this process and ``peers`` peers, ``peer-1`` and so on, in separate processes.

    Raises ``ValueError`` if an argument is invalid; ``ProcessStartError`` if a process did not start.
    """
    try:
        if peers < 1:
            raise ValueError(f"peers: {peers}; expected at least 1")
        if per_process < 1:
            raise ValueError(f"per_process: {per_process}; expected at least 1")
        if factory is not None:
            load_factory(factory)
        if fork_server is None:
            fork_server = launch_fork_server(peers, factory)
        names = [f"peer-{number}" for number in range(1, peers + 1)]
        held = {name: authority.issue(PEER, name) for name in names} if authority is not None else {}
        scheduler_security = security
        if authority is not None:
            security = IdentitySecurity(authority.issue(OWNER, owner))
            scheduler_security = IdentitySecurity(authority.issue(SCHEDULER))
        groups = [tuple(names[first : first + per_process]) for first in range(0, peers, per_process)]
        spec = ProcessSpec(
            scheduler="",
            names=(),
            host=host,
            security=_plain_security(security) if authority is None else {},
            credentials={},
            dask_config=_plain(dask.config.config),
            factory=factory,
            config=dict(config or {}),
            area=area,
            limits=limits or LinkLimits(),
        )
        workers = {
            group[0] if len(group) == 1 else f"{group[0]}..{group[-1]}": {
                "cls": PeerProcess,
                "options": {
                    "fork_server": fork_server,
                    "spec": msgspec.structs.replace(
                        spec, names=group, credentials={name: held[name] for name in group if name in held}
                    ),
                    "timeout": timeout,
                },
            }
            for group in groups
        }
        scheduler = {
            "cls": Scheduler,
            "options": {
                "host": host,
                "port": port,
                "protocol": "tls" if security is not None and security.require_encryption else "tcp",
                "security": scheduler_security,
                "dashboard": dashboard_address is not None,
                "dashboard_address": dashboard_address or f"{host}:0",
            },
        }
        return PeerCluster(
            fork_server,
            workers,
            peers,
            on_progress,
            dashboard=dashboard_address is not None,
            certificates={name: each.certificate for name, each in held.items()},
            scheduler=scheduler,
            security=security,
            asynchronous=asynchronous,
            name="synergy",
        )
    except BaseException:
        if fork_server is not None:
            fork_server.abandon()
            fork_server.kill()
        raise


def launch_fork_server(peers: int, factory: str | None = None) -> ForkServer:
    """Launch the fork server for a cluster of ``peers`` peers; Polars gets one thread for each core of a peer."""
    threads = str(max(1, (os.cpu_count() or 1) // peers))
    variables = {
        "POLARS_MAX_THREADS": threads,
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",  # an arena for each reading thread would retain what it has freed
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),  # memory of batches is reused: fresh pages for each of them took
        "MALLOC_TRIM_THRESHOLD_": str(64 << 20),  # a quarter of all processor time of a fast stream
    }
    preload = PRELOAD if factory is None else (*PRELOAD, factory.partition(":")[0])
    return ForkServer.launch(preload, variables)


# -- in the fork server ----------------------------------------------------------------------------------------------


def warm_name_lookups() -> None:
    """Perform the look-ups of every starting worker before processes are forked."""
    get_versions()  # of packages, from their metadata: a tenth of the time to start a peer


def warm_tls() -> None:
    """Make the default settings of TLS, which Tornado makes in each process at its first connection and does not use.

    They have all authorities that the machine trusts: 30 ms of a processor, a tenth of a peer's start. On macOS they
    may start threads.
    """
    if sys.platform == "linux":
        netutil._client_ssl_defaults()  # without it, each process makes them


# -- in the peers' process -------------------------------------------------------------------------------------------


def serve(data: bytes, report: Callable[[Any], None]) -> None:
    """Run the workers of a process until a signal ends it, or the scheduler has ended."""
    spec = msgspec.msgpack.decode(data, type=ProcessSpec)
    dask.config.update(dask.config.config, spec.dask_config)
    dask.config.set(QUIET)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors of peers are in the journal
    sys.setswitchinterval(0.0005)  # an operator's thread that holds the GIL delays messages by this, not by 5 ms
    gc.set_threshold(YOUNG)  # messages of a topic come by the thousand, and none is part of a cycle
    asyncio.run(_serve(spec, report))


async def _serve(spec: ProcessSpec, report: Callable[[Any], None]) -> None:
    shared = _security(spec.security)
    securities = {name: IdentitySecurity(held, spec.scheduler) for name, held in spec.credentials.items()}
    workers = [
        SteadyWorker(
            spec.scheduler,
            name=name,
            nthreads=1,
            memory_limit=0,
            host=spec.host,
            security=securities.get(name, shared),
            dashboard=False,
            plugins=(_plugin(spec, name),) if spec.factory is not None else (),
            startup_information={PEER_ID: worker_peer_id},
        )
        for name in spec.names
    ]
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    try:
        await asyncio.gather(*workers)
        for worker in workers:
            without_pages(worker)
        report({"peers": {str(worker.name): peer_address(worker) for worker in workers}, "pid": os.getpid()})
        gone = asyncio.create_task(_all_gone(workers, ended))
        await ended.wait()
        gone.cancel()
    finally:
        await asyncio.gather(*(worker.close(timeout=1, executor_wait=False) for worker in workers))


async def _all_gone(workers: Sequence[SteadyWorker], ended: asyncio.Event) -> None:
    """Wait until all workers have ended: they do when the scheduler ends or retires them."""
    for worker in workers:
        await worker.finished()
    ended.set()


def _plugin(spec: ProcessSpec, name: str) -> SynergyPlugin:
    assert spec.factory is not None
    config = {key: value for key, value in spec.config.items() if key != "of"}
    config |= spec.config.get("of", {}).get(name, {})
    return SynergyPlugin(spec.factory, config, enters=spec.enters, area=spec.area, limits=spec.limits)


# -- plain values ----------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Return ``value`` without what MessagePack cannot encode: Dask's configuration may contain anything."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, str | bytes | bool | int | float) else str(value)


def _plain_security(security: Security | None) -> dict[str, Any]:
    if security is None:
        return {}
    fields = {name: getattr(security, name, None) for name in Security.__slots__}
    return {name: int(value) if isinstance(value, ssl.TLSVersion) else value for name, value in fields.items() if value}


def _security(fields: Mapping[str, Any]) -> Security | None:
    if not fields:
        return None
    versions = {name: ssl.TLSVersion(value) for name, value in fields.items() if name.endswith("_version")}
    return Security(**{**fields, **versions})
