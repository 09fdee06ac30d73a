"""The worker plugin: runs one peer on a Dask worker. No other module of the data or control path knows Dask.

The plugin adds one handler to the worker, ``synergy_link``, which accepts the comms that other peers and clients open;
it opens comms to other workers with the worker's own connection arguments, so TCP, TLS and in-process workers all work.
No message passes through the scheduler.
"""

# mypy: disable-error-code="no-untyped-call"
# (of distributed, which is typed only here and there)

from __future__ import annotations

import asyncio
import importlib
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from distributed.comm.addressing import parse_address, parse_host_port
from distributed.comm.core import connect as dask_connect
from distributed.comm.inproc import global_manager
from distributed.core import Status
from distributed.diagnostics.plugin import WorkerPlugin

from synergy_nb.control.identity import OWNER, SCHEDULER, endpoint_of, link_name, with_peer_id
from synergy_nb.events import REFUSED, FrameRefused
from synergy_nb.runtime.identity.dask_doors import AT_WORKER
from synergy_nb.runtime.identity.renewals import OPERATION, NextCredentials
from synergy_nb.runtime.identity.security import IdentitySecurity
from synergy_nb.runtime.process._peer_driver import PeerRuntime
from synergy_nb.runtime.process._ring_entry import enter
from synergy_nb.runtime.process.requests import JoinCommand, pack
from synergy_nb.runtime.transport.link import HANDLER, LinkLimits, Links
from synergy_nb.runtime.transport.listening import Door, bound, linked
from synergy_nb.runtime.transport.wide_area import WideArea

if TYPE_CHECKING:
    from distributed import Client, Worker

PLUGIN: Final = "synergy"  # name of the plugin on a worker
PEER_ID: Final = "synergy_peer_id"  # under which a worker tells the scheduler the id of its peer
MOST_ENDED: Final = 1024  # maximum number of remembered addresses at which no process listened
REFUSED_WITHIN: Final = 0.25  # seconds after which it is checked whether any process listens at an address


def connector(connection_args: Mapping[str, Any], limits: LinkLimits) -> Callable[[str], Awaitable[Any]]:
    """Return a function that opens Dask comms with given connection arguments, within the deadline of ``limits``.

    It gives up soon where no process listens, and says so by a ``ConnectionRefusedError``: Dask retries until the
    deadline, about nine times in the first quarter of a second. Who knows a peer's address from an earlier time cannot
    expect that it will listen there again, so an address that refused is first tried once.
    """
    ended: set[str] = set()  # addresses at which no process listened

    async def connect(to: str) -> Any:
        address = endpoint_of(to)
        clock = asyncio.get_running_loop().time
        deadline = clock() + limits.connect
        if address in ended:
            if await refuses(address, limits.connect):
                raise ConnectionRefusedError(REFUSED)
            ended.discard(address)
        # Dask gives its first attempts a fifth of the time. If that is over just as the connection is there, both ends
        # keep a connection that nobody uses; so the time is long, and only a refused attempt is given up.
        opened = asyncio.create_task(dask_connect(linked(address), timeout=limits.connect, **connection_args))
        opened.add_done_callback(lambda each: each.cancelled() or each.exception())
        try:
            await asyncio.wait({opened}, timeout=min(REFUSED_WITHIN, limits.connect))
            if opened.done() and not isinstance(opened.exception(), OSError):
                return opened.result()
            if await refuses(address, deadline - clock()):
                if len(ended) >= MOST_ENDED:
                    ended.clear()
                ended.add(address)
                raise ConnectionRefusedError(REFUSED)
            if not (opened.done() and opened.exception()):
                return await opened
        finally:
            opened.cancel()
        return await dask_connect(linked(address), timeout=deadline - clock(), **connection_args)

    return connect


async def refuses(address: str, within: float) -> bool:
    """Whether no process listens at an address.

    This attempt is separate from Dask's: Dask reports the outcome of its last attempt, which its deadline may have cut
    short before the connection could be refused.
    """
    scheme, location = parse_address(address)
    if scheme == "inproc":  # a listener of this process that is late still listens
        try:
            return global_manager.get_listener_for(location) is None
        except ValueError:  # of another process
            return True
    if scheme not in {"tcp", "tls"}:
        return False
    host, port = parse_host_port(location)
    try:
        async with asyncio.timeout(within):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    writer.close()
    return False


def worker_peer_id(worker: Worker) -> str:
    """Return the id of the peer of a worker; empty where no authority has given one."""
    return worker.security.identity.peer_id if isinstance(worker.security, IdentitySecurity) else ""


def peer_address(worker: Worker) -> str:
    """Return the address of the peer of a worker."""
    return with_peer_id(worker.address, worker_peer_id(worker))


def peer_addresses(workers: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return peer name to address, by what a scheduler knows of its workers: where each listens to its identity."""
    return {str(each["name"]): with_peer_id(listens, each.get(PEER_ID, "")) for listens, each in workers.items()}


def load_factory(name: str) -> Any:
    """Import the factory named ``package.module:function``.

    Raises ``ValueError`` if the name has another form or does not exist.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f"factory: {name!r}; expected 'package.module:function'")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"factory: {name!r}; expected a function that can be imported: {error}") from error


class SynergyPlugin(WorkerPlugin):
    """Runs one peer on each worker that it is registered on."""

    name = PLUGIN
    idempotent = False

    def __init__(
        self,
        factory: str,  # importable name `package.module:function` of a `Factory`
        config: Mapping[str, Any] | None = None,  # plain values for the factory
        *,
        enters: bool = False,  # whether a peer enters the ring of the others by itself, as nobody else does it
        area: bytes | None = None,  # delays and bandwidths to impose on the links (`to_bytes`), or None
        limits: LinkLimits | None = None,
    ) -> None:
        load_factory(factory)  # a wrong name is refused before anything is started
        self._factory = factory
        self._config = msgspec.msgpack.encode(dict(config or {}))  # plain values only: refused here, not on the worker
        self._enters = enters
        self._entering: asyncio.Task[None] | None = None
        self._area = area
        self._limits = limits or LinkLimits()
        self.runtime: PeerRuntime | None = None  # running peer, between `setup` and `teardown`
        self._door: Door | None = None

    async def setup(self, worker: Worker) -> None:
        """Create the peer and start it."""
        security = worker.security if isinstance(worker.security, IdentitySecurity) else None
        runtime = PeerRuntime(
            peer_address(worker),
            str(worker.name),
            connector(worker.connection_args, self._limits),
            load_factory(self._factory),
            msgspec.msgpack.decode(self._config),
            limits=self._limits,
            area=None if self._area is None else WideArea.from_bytes(self._area),
            identities=security,
        )
        if security is not None:
            security.on_revoked.append(runtime.links.revocations_grew)
            security.on_impostor.append(
                lambda at, who: runtime.links.refuse(who, f"the place of the scheduler at {at}", {SCHEDULER})
            )
            runtime.operations[OPERATION] = partial(_next_credentials, security)
        self.runtime = runtime
        worker.handlers[HANDLER] = self.synergy_link
        if security is not None:
            self._door = Door(security.identify, security.revoked, AT_WORKER)
            security.on_revoked.append(self._door.end_revoked)
        bound(worker, lambda address, reason: runtime.record(FrameRefused, address, reason=reason), door=self._door)
        runtime.start()
        if self._enters and "join" in runtime.operations:
            self._entering = asyncio.create_task(_enter(worker, runtime), name="enter the ring")

    async def teardown(self, worker: Worker) -> None:
        """Stop the peer."""
        if self._entering is not None:
            self._entering.cancel()
        worker.handlers.pop(HANDLER, None)
        runtime, self.runtime = self.runtime, None
        if runtime is not None:
            await runtime.close()

    async def synergy_link(self, comm: Any, hello: Any = None) -> Status:
        """Serve a link that another peer or a client has opened (handler of the worker)."""
        if self.runtime is None:
            comm.abort()
        else:
            if self._door is not None:
                self._door.hand_over(comm)  # a link tells its other end before
            await self.runtime.links.accept(comm, hello if isinstance(hello, Mapping) else {})
        return Status.dont_reply


async def _enter(worker: Worker, runtime: PeerRuntime) -> None:
    """Let the peer of a worker enter the ring of the peers of the others."""

    async def workers() -> Iterable[str]:
        return peer_addresses((await worker.scheduler.identity(n_workers=-1))["workers"]).values()

    async def join(contact: str) -> None:
        await runtime.operations["join"](pack(JoinCommand(contact)))

    joined = partial(runtime.operations["joined"], b"")
    await enter(runtime.address, joined, join, workers, runtime.links.request)


async def _next_credentials(security: IdentitySecurity, payload: bytes) -> bytes:
    """Take the next certificate of a peer, and the list of what was revoked."""
    told = msgspec.msgpack.decode(payload, type=NextCredentials)
    if told.certificate:
        security.renew(told.certificate)
    security.take_revocations(told.revocations)
    return b""


def runtime_of(worker: Worker) -> PeerRuntime:
    """Return the peer that runs on a worker of this process.

    Raises ``LookupError`` if no peer runs there.
    """
    plugin = worker.plugins.get(PLUGIN)
    if not isinstance(plugin, SynergyPlugin) or plugin.runtime is None:
        raise LookupError(f"worker: no peer runs on {worker.name!r}; expected a worker with a peer")
    return plugin.runtime


def install(
    client: Client,
    factory: str,
    config: Mapping[str, Any] | None = None,
    *,
    area: bytes | None = None,
    limits: LinkLimits | None = None,
) -> Any:
    """Run a peer on every worker of an existing Dask cluster, including workers that join later.

    A peer that runs already, whoever started it, remains as it is.

    Returns: worker name to peer address, for the present workers; a coroutine of it if the client is asynchronous.
    """
    plugin = SynergyPlugin(factory, config, enters=True, area=area, limits=limits)
    return client.sync(_install, client, plugin)


async def _install(client: Client, plugin: SynergyPlugin) -> dict[str, str]:
    running: dict[str, bool] = await client.run(runs_peer)  # a coroutine: this runs on the client's loop
    bare = [address for address, runs in running.items() if not runs]
    if len(bare) == len(running):
        await client.register_plugin(plugin)
    elif bare:  # registering would replace running peers, and end their applications
        await client.run(_add_peer, plugin, workers=bare)
    scheduler: Any = client.scheduler
    return peer_addresses((await scheduler.identity(n_workers=-1))["workers"])


def runs_peer(dask_worker: Worker) -> bool:
    """Whether a peer runs on a worker; executed there for a client."""
    return PLUGIN in dask_worker.plugins


async def _add_peer(plugin: SynergyPlugin, dask_worker: Worker) -> None:
    await dask_worker.plugin_add(plugin, name=PLUGIN, catch_errors=False)


def client_links(
    # connection arguments: `client.connection_args` of a Dask client, or `security.get_connection_args("client")`
    connection_args: Mapping[str, Any],
    *,
    channels: Mapping[str, Callable[[str, bytes], None]] | None = None,
    on_down: Callable[[str, str], None] | None = None,
    limits: LinkLimits | None = None,
    security: IdentitySecurity | None = None,  # credentials of the client, if the cluster has an authority
) -> Links:
    """Create the links of a client: it sends requests to peers, and peers may send data to it by ``links.address``."""
    limits = limits or LinkLimits()
    asyncio.get_running_loop()  # links belong to a loop: raise here rather than at the first request
    process = f"{socket.gethostname()}-{uuid.uuid4().hex[:12]}"
    name = f"{OWNER}#{process}" if security is None else link_name(security.identity, process)
    connect = connector(connection_args, limits)
    links = Links(name, connect, channels=channels, on_down=on_down, limits=limits, identities=security)
    if security is not None:
        security.on_revoked.append(links.revocations_grew)
    return links
