"""Start of peers that form a ring, on this machine or on an existing Dask cluster."""

# mypy: disable-error-code="no-untyped-call"
# (of distributed, which is typed only here and there)

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

import msgspec
from distributed import Client, Security
from distributed.comm.core import connect
from distributed.core import send_recv
from distributed.system import MEMORY_LIMIT

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.assembly.peer_options import check_positive, peer_config
from synergy_nb.connectors.secret_values import given_secrets
from synergy_nb.control.identity import OWNER, WrongIdentity
from synergy_nb.control.rights import Acceptance
from synergy_nb.durable.folder import DurableFolder
from synergy_nb.durable.records import DurableError
from synergy_nb.errors import user_facing
from synergy_nb.lifecycle.records.attempts import next_start
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan.checks.requirements import LEAST_MEMORY, check_discipline
from synergy_nb.plan.terms.units import WrongValue, counted, did_you_mean, duration, parse_size
from synergy_nb.recording.kept_runs import create_folder
from synergy_nb.recording.recording_file import create
from synergy_nb.reporting.formatting import seconds
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.client.error_notices import ErrorNotices, user_sees_output
from synergy_nb.runtime.client.journal_follower import follower_of
from synergy_nb.runtime.client.progress import Progress
from synergy_nb.runtime.client.run_keeping import RunKeeping
from synergy_nb.runtime.client.waiting_display import waiting
from synergy_nb.runtime.data.function_processes import POLICIES
from synergy_nb.runtime.data.spark_servers import checked
from synergy_nb.runtime.identity import credential_folder
from synergy_nb.runtime.identity.authority import Authority, half_life
from synergy_nb.runtime.identity.renewals import INVITE, REVOKE, Renewals
from synergy_nb.runtime.identity.security import IdentitySecurity
from synergy_nb.runtime.process._admission import HostAdmission, settings_for_others
from synergy_nb.runtime.process._claimant import ProcessClaimant
from synergy_nb.runtime.process._peer_factory import FACTORY
from synergy_nb.runtime.process._plugin import client_links, install, peer_addresses, refuses, runs_peer
from synergy_nb.runtime.process.error_publisher import CHANNEL
from synergy_nb.runtime.process.processes import start
from synergy_nb.runtime.process.requests import AccessRevoked, ClusterError
from synergy_nb.runtime.transport.link import DISMISSED
from synergy_nb.runtime.transport.listening import REFUSED
from synergy_nb.runtime.transport.wide_area import WideArea

__all__ = ["check_address", "check_host", "connect_cluster", "operator_memory", "start_cluster"]

LOG: Final = logging.getLogger(__name__)
#: Pattern of a Dask address.
ADDRESS: Final = re.compile(r"[a-z]+://\S+|[^\s:/]+:\d+|\[[0-9a-fA-F:.]+\]:\d+")
JOINING = 60.0  # seconds without progress after which starting fails; an overloaded machine is slow
FREQUENT_PINGERS = 16  # peers for each core that can ping as often as peers on machines of their own
LOOPBACK: Final = "127.0.0.1"
WRITES_ON: Final = 10.0  # seconds for which the peers of a program that was killed may still write to its folder
NOT_YET: Final = 1.0  # seconds for which a scheduler may not listen yet
REVOKES: Final = 10.0  # seconds within which peers take what was revoked
AGAIN: Final = 60.0  # least seconds between two looks for renewed credentials
OPEN: Final = (
    "this Dask cluster has no TLS: every user of this machine can run code on its workers, and read what you submit; "
    "Cluster(8) starts peers that only you can reach"
)
NO_CERTIFICATES: Final = (
    "it has no certificate for workers; expected a distributed.Security with certificates, such as "
    "Security.temporary(), or none: peers that are started here get certificates of their own"
)
RUNNING: Final = "record: a peer runs on worker {} already; expected none, as a recording begins with its peers"
NOT_DURABLE: Final = "the peers of this cluster run already; expected peers started here, or synergy up --durable"
MEASURED: Final = "measured"  # value of bandwidth: each link's measured one
OPERATOR_SHARE = 0.5  # share of a machine's memory for the operators of all its peers
#: Options of the protocols.
PARAMETERS: Final = ("composition", "hotspots", "replication", "overload", "patience", "guests")


class ClusterOptions(TypedDict, total=False):
    """Options of a cluster, see :class:`~synergy_nb.runtime.client.cluster.Cluster`."""

    cores: float | None
    memory: float | str | None
    bandwidth: float | str
    wide_area: WideArea | str | os.PathLike[str] | None
    secrets: Mapping[str, bytes | str] | None
    composition: CompositionConfig | None
    discipline: str
    functions: str | None
    hotspots: str | HotSpotConfig
    replication: ReplicationConfig | None
    overload: bool
    patience: float | str
    guests: Acceptance | None
    seed: int
    spark: bool | str | Sequence[str]
    security: Security | str | os.PathLike[str] | None
    insecure: bool
    host: str
    record: str | os.PathLike[str] | None
    runs: str | os.PathLike[str] | None
    durable: str | os.PathLike[str] | None


class _StartProgress:
    """The text of the present step of a start; it passes the progress on to the caller."""

    def __init__(self, text: str, on_progress: Callable[[Progress], object] | None) -> None:
        self.text = text  # description of the first step
        self._on_progress = on_progress  # callback for each further step, or None

    def __call__(self, progress: Progress) -> None:
        """Report the next step."""
        self.text = str(progress)
        if self._on_progress is not None:
            self._on_progress(progress)


@user_facing
async def start_cluster(
    peers: int = 8,
    *,
    per_process: int = 1,
    of: Mapping[str, Mapping[str, Any]] | None = None,
    joining: float = JOINING,
    on_progress: Callable[[Progress], object] | None = None,
    **options: Unpack[ClusterOptions],
) -> AsyncCluster:
    """Start peers on this machine; see :class:`~synergy_nb.runtime.client.cluster.Cluster` for the parameters.

    Beside these, ``per_process`` peers run in one process, and ``of`` maps the name of a peer to its own settings
    (fields of :class:`~synergy_nb.assembly.PeerConfig`). The start fails after ``joining`` seconds without progress;
    ``on_progress`` is called with the progress (:class:`~synergy_nb.runtime.client.progress.Progress`).

    Raises
    ------
    ValueError
        If an argument is invalid; nothing has been started then.

    Examples
    --------
    >>> import asyncio
    >>> from synergy_nb import start_cluster
    >>> async def names():
    ...     async with await start_cluster(3) as cluster:
    ...         return sorted(cluster.peers)
    >>> asyncio.run(names())
    ['peer-1', 'peer-2', 'peer-3']
    """
    if isinstance(peers, bool) or not isinstance(peers, int) or peers < 1:
        raise ValueError(f"peers: {peers!r}; expected a number of at least 1, or the address of a Dask scheduler")
    own = operator_memory(peers)
    config = _config((os.cpu_count() or 1) / peers, own, options, "notebook")
    where = checked(options.get("spark", True))
    config["pings"] = _pings(peers)
    config["spark"] = bool(where)
    config["of"] = {name: dict(settings) for name, settings in (of or {}).items()}
    area = _area(options, peers)
    secured = _security(options)
    if secured is not None and not secured.get_tls_config_for_role("worker")["cert"]:
        raise ClusterError(f"security: {NO_CERTIFICATES}")
    host = _host(options.get("host", LOOPBACK), secured)
    reached = _StartProgress(f"starting {counted(peers, 'peer')}", on_progress)
    with _recorded(options.get("record"), config):
        async with waiting(lambda: reached.text):
            folder = await _durable(options, config)
            try:
                started = await _started(peers, config, where, area, secured, per_process, joining, reached, host)
                return await _restarted(_keep_runs(started, options), folder)
            except BaseException:
                if folder is not None:
                    folder.unlock()
                raise


async def _started(
    peers: int,
    config: Mapping[str, Any],
    where: Sequence[str],
    area: WideArea | None,
    security: Security | None,
    per_process: int,
    joining: float,
    on_progress: Callable[[Progress], object],
    host: str,
) -> AsyncCluster:
    """Start peers, and let them join one ring."""
    authority = Authority() if security is None else None
    started = start(
        peers,
        FACTORY,
        config,
        security=security,
        authority=authority,
        owner=credential_folder.user_name(),
        per_process=per_process,
        asynchronous=True,
        on_progress=on_progress,
        host=host,
    )
    await started

    renewals: Renewals | None = None
    admission: HostAdmission | None = None

    async def close() -> None:
        try:
            if admission is not None:
                await admission.close()
            if renewals is not None:
                await renewals.close()
                credential_folder.remove(started.scheduler_address)
        finally:
            closing = started.close()
            if closing is not None:
                await closing

    held = started.security
    own = held if isinstance(held, IdentitySecurity) else None
    notices = ErrorNotices(asyncio.get_running_loop().call_later)
    arguments = held.get_connection_args("client")
    links = client_links(arguments, channels={CHANNEL: notices.receive}, security=own)
    if authority is not None and own is not None:
        own.scheduler = started.scheduler_address
        scheduler: Any = started.scheduler
        in_process = (own, scheduler.security)
        keep = partial(_keep, started.scheduler_address, own)
        renewals = Renewals(
            authority,
            in_process,
            started.certificates,
            lambda: started.peers | started.elsewhere,
            links.request,
            renewed=keep,
        )
        scheduler.handlers[REVOKE] = renewals.revoke_for
        scheduler.handlers[INVITE] = renewals.invite_for
        admission = HostAdmission(started, renewals, links.request, settings_for_others(config), host)
    cluster = AsyncCluster(
        links, started.peers, close, local=started, spark=where, notices=notices, security=held, renewals=renewals
    )
    cluster.admission = admission
    if renewals is not None:
        try:
            await renewals.address(joining)
            renewals.begin()
            keep()
        except BaseException:
            await asyncio.shield(cluster.close())
            raise
    joined = await _joined(cluster, area, joining, on_progress)
    _record(joined, config)
    if user_sees_output():
        await joined.warm()
    return joined


def _keep(scheduler: str, security: IdentitySecurity) -> None:
    """Write the credentials of the owner, so that another notebook finds them; without a folder there is none."""
    try:
        credential_folder.keep(scheduler, security.credentials)
    except (OSError, credential_folder.CredentialError) as error:
        LOG.warning("other notebooks cannot connect to this cluster: %s", error)


@user_facing
async def connect_cluster(
    scheduler: str,
    *,
    timeout: float | str = 10.0,
    on_progress: Callable[[Progress], object] | None = None,
    **options: Unpack[ClusterOptions],
) -> AsyncCluster:
    """Make the workers of an existing Dask cluster peers; see :class:`~synergy_nb.runtime.client.cluster.Cluster`.

    Beside the parameters there, ``timeout`` is the time within which the scheduler has to answer, in seconds or as
    ``"10 s"``.

    Raises
    ------
    ValueError
        If an argument is invalid.
    ClusterError
        If the scheduler does not answer, or has no workers.

    Examples
    --------
    >>> import asyncio
    >>> from distributed import LocalCluster
    >>> from synergy_nb import connect_cluster
    >>> async def names():
    ...     async with LocalCluster(n_workers=2, dashboard_address=":0", asynchronous=True) as workers:
    ...         async with await connect_cluster(workers.scheduler_address, spark=False) as cluster:
    ...             return sorted(cluster.peers)  # those of Dask's workers
    >>> asyncio.run(names())
    ['0', '1']
    """
    config = _config(1.0, 0.0, options)
    where = checked(options.get("spark", True))
    check_address("scheduler", scheduler)
    scheduler, security = _secured(scheduler, _security(options), insecure=bool(options.get("insecure", False)))
    patience = duration("timeout", timeout)
    reached = _StartProgress(f"connecting to {scheduler}", on_progress)
    with _recorded(options.get("record"), config):
        async with waiting(lambda: reached.text):
            if isinstance(security, IdentitySecurity):
                security.scheduler = scheduler
                return await _met(scheduler, security, config, where, options, patience, reached)
            return await _connected(scheduler, config, where, options, security, patience, reached)


def operator_memory(peers: int) -> float:
    """Return the memory of each of so many peers on this machine, bytes."""
    return float(MEMORY_LIMIT * OPERATOR_SHARE / peers)


def check_host(host: str) -> bool:
    """Raise ValueError if a text is no address at which others reach this machine; return whether it is a loopback."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address is None or address.is_unspecified or address.is_multicast:
        raise ValueError(f"host: {host!r}; expected one address of this machine, such as '10.0.0.1'")
    return address.is_loopback


def _host(host: str, security: Security | None) -> str:
    """Return the address at which scheduler and peers listen; beyond the loopback only with TLS."""
    if not check_host(host) and security is not None and not security.require_encryption:
        raise ValueError(f"host: {host!r} is not on the loopback; expected security= that requires TLS, or none")
    return host


def _security(options: ClusterOptions) -> Security | None:
    """Return the certificates of a cluster; refuse what holds none, such as True."""
    given: object = options.get("security")
    if isinstance(given, str | os.PathLike):
        try:
            return IdentitySecurity(credential_folder.read(given))
        except credential_folder.CredentialError as error:
            raise ClusterError(f"security: {error}") from None
    if given is not None and not isinstance(given, Security):
        raise ClusterError(
            f"security: {given!r}; expected a distributed.Security with certificates, such as Security.temporary()"
        )
    return given


async def _connected(
    scheduler: str,
    config: dict[str, Any],
    where: Sequence[str],
    options: ClusterOptions,
    security: Security | None,
    patience: float,
    on_progress: Callable[[Progress], object],
) -> AsyncCluster:
    """Start peers on the workers of a scheduler, and let them join one ring."""
    client = await _client(scheduler, security, patience)

    async def close() -> None:
        await client.close()

    folder: DurableFolder | None = None
    try:
        folder = await _durable(options, config)
        workers = (await client.scheduler.identity(n_workers=-1))["workers"]
        if not workers:
            raise ClusterError(f"scheduler: {scheduler!r} has no workers; expected at least one, each becomes a peer")
        area = _area(options, len(workers))
        if "local" in where and not all(_on_this_machine(address) for address in workers):
            where = ()  # other machines cannot use a server of this one
        config["memory"] = config["memory"] or OPERATOR_SHARE * min(_own_memory(workers))
        config["spark"] = bool(where)
        if "record" in config:
            await _check_recordable(client, workers)
        peers = await install(client, FACTORY, config)
    except BaseException:
        if folder is not None:
            folder.unlock()
        await client.close()
        raise
    notices = ErrorNotices(asyncio.get_running_loop().call_later)
    links = client_links(client.security.get_connection_args("client"), channels={CHANNEL: notices.receive})
    cluster = AsyncCluster(links, peers, close, spark=where, notices=notices, security=security)
    joined = await _joined(cluster, area, JOINING, on_progress)
    _record(joined, config)
    if security is None and not scheduler.startswith("inproc"):
        joined.tell(OPEN)
    return await _restarted(_keep_runs(joined, options), folder)


async def _met(
    scheduler: str,
    security: IdentitySecurity,
    config: Mapping[str, Any],
    where: Sequence[str],
    options: ClusterOptions,
    patience: float,
    on_progress: Callable[[Progress], object],
) -> AsyncCluster:
    """Return a client of a cluster that has an authority: its peers run already, and nothing is installed there."""
    workers = await _workers(scheduler, security, patience)
    if "record" in config:
        raise ClusterError(RUNNING.format(next(iter(workers))))
    if config["secrets"]:
        raise ClusterError(
            "secrets: the peers run already, with those that they were started with; expected none, and these at their "
            "start, as synergy up --secret NAME=env:VARIABLE"
        )
    if options.get("durable") is not None:
        raise ClusterError(f"durable: {NOT_DURABLE}")
    if "local" in where and not all(_on_this_machine(address) for address in workers):
        where = ()  # other machines cannot use a server of this one
    following = asyncio.create_task(_followed(scheduler, security), name=f"credentials of {scheduler}")

    async def close() -> None:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    notices = ErrorNotices(asyncio.get_running_loop().call_later)
    arguments = security.get_connection_args("client")
    owns = security.identity.role == OWNER
    told = None if owns else _once_dismissed(notices.write_line)
    links = client_links(arguments, channels={CHANNEL: notices.receive}, security=security, on_down=told)
    peers = peer_addresses(workers)
    there = (scheduler, security, patience)
    cluster = AsyncCluster(
        links,
        peers,
        close,
        spark=where,
        notices=notices,
        security=security,
        revoking=partial(_revoke_there, *there) if owns else None,
        inviting=partial(_invite_there, *there) if owns else None,
    )
    if not owns:
        await cluster.listen()
        return cluster
    return _keep_runs(await _joined(cluster, _area(options, len(peers)), JOINING, on_progress), options)


def _once_dismissed(write: Callable[[str], None]) -> Callable[[str, str], None]:
    """Return what a failed link calls, and writes once that the certificate of this client was revoked."""
    written: set[str] = set()

    def down(_to: str, reason: str) -> None:
        if reason == DISMISSED and reason not in written:
            written.add(reason)
            write(str(AccessRevoked("synergy")))

    return down


async def _revoke_there(scheduler: str, security: IdentitySecurity, patience: float, name: str) -> None:
    """Ask the program that has the authority to revoke an identity, and refuse it here, too.

    Raises ``WrongIdentity`` if there is none of that name, or it is the owner.
    """
    answer = await _asked(scheduler, security, patience + REVOKES, REVOKE, name=name)
    if "wrong" in answer:
        raise WrongIdentity(answer["wrong"])
    security.take_revocations(answer["revocations"])


async def _invite_there(scheduler: str, security: IdentitySecurity, patience: float, user: str, public_key: str) -> str:
    """Ask the program that has the authority for the certificate of a guest.

    Raises ``WrongIdentity`` if he can have none.
    """
    answer = await _asked(scheduler, security, patience, INVITE, user=user, public_key=public_key)
    if "wrong" in answer:
        raise WrongIdentity(answer["wrong"])
    return str(answer["certificate"])


async def _workers(scheduler: str, security: IdentitySecurity, patience: float) -> Mapping[str, Mapping[str, Any]]:
    """Ask a scheduler for its workers: where each listens to what it knows of it."""
    workers: Mapping[str, Mapping[str, Any]] = (await _asked(scheduler, security, patience, "identity", n_workers=-1))[
        "workers"
    ]
    if not workers:
        raise ClusterError(f"scheduler: {scheduler!r} has no workers; expected at least one, each becomes a peer")
    return workers


async def _asked(
    scheduler: str, security: IdentitySecurity, patience: float, operation: str, **fields: Any
) -> Mapping[str, Any]:
    """Return what a scheduler answers; ``ClusterError`` is raised if it is none, or refuses."""
    try:
        comm = await connect(scheduler, timeout=patience, **security.get_connection_args("client"))
    except OSError as error:
        if security.impostor:
            raise ClusterError(
                f"scheduler: {security.impostor} listens at {scheduler!r}; expected a scheduler"
            ) from None
        raise ClusterError(
            f"scheduler: {scheduler!r} does not answer as the scheduler of {security.identity.cluster}: {error}; "
            "check that the cluster still runs, and that your certificate has not expired"
        ) from None
    try:
        async with asyncio.timeout(patience):
            answer: Mapping[str, Any] = await send_recv(comm, op=operation, **fields)
    except OSError as error:
        raise ClusterError(
            f"scheduler: {scheduler!r} has closed the connection of {security.identity.id}; "
            "check that the cluster still runs"
        ) from error
    finally:
        comm.abort()
    if REFUSED in answer:
        raise ClusterError(f"scheduler: {scheduler!r} has refused {answer[REFUSED]}")
    return answer


async def _followed(scheduler: str, security: IdentitySecurity) -> None:
    """Use the renewed credentials that the program which started the cluster writes."""
    while True:
        await asyncio.sleep(max(AGAIN, half_life(security.credentials.certificate) - time.time()))
        with contextlib.suppress(OSError, ValueError, credential_folder.CredentialError):
            found = credential_folder.find(scheduler)
            if found is not None:
                security.renew(found.certificate)


def _secured(scheduler: str, security: Security | None, *, insecure: bool) -> tuple[str, Security | None]:
    """Return the address of a scheduler and how to connect: as given, or by credentials that lie on this machine.

    Raises ``ClusterError`` if there are none and the cluster asks for them, or is beyond this machine without TLS.
    """
    scheme, _, location = scheduler.rpartition("://")
    secure = f"tls://{location}"
    if security is not None or scheme == "inproc":
        return secure if isinstance(security, IdentitySecurity) else scheduler, security
    try:
        held = credential_folder.find(secure)
    except credential_folder.CredentialError as error:
        raise ClusterError(str(error)) from None
    if held is not None:
        return secure, IdentitySecurity(held)
    if scheme == "tls":
        raise ClusterError(
            f"scheduler: {scheduler!r} asks for a certificate, and {credential_folder.folder()} has none for it; "
            "connect as the user who started the cluster, or with the file by which he has invited you: "
            "give security=, or --credentials of synergy run"
        )
    if not insecure and not _on_this_machine(f"tcp://{location}"):
        raise ClusterError(
            f"scheduler: {scheduler!r} is on another machine and has no TLS, so everybody who can reach its ports can "
            "run code on its workers; expected an address with tls://, or insecure=True (--insecure of synergy run)"
        )
    return scheduler, None


async def _client(scheduler: str, security: Security | None, patience: float) -> Any:
    """Return a client of a scheduler, which may be starting: a refused connection is tried again for a second.

    Dask goes on until its time is over, whatever the answer is. So a first attempt has a second; only where nobody has
    answered in it, not even by a refusal, a second one has all of the time.

    Raises ``ClusterError`` if there is none; its sentence is all that is shown, without pages about TCP.
    """
    what = f"within {seconds(patience)}"
    for within in (NOT_YET, patience) if patience > NOT_YET else (patience,):
        client: Any = Client(scheduler, asynchronous=True, security=security, timeout=within, set_as_default=False)
        try:
            return await client
        except (OSError, TimeoutError, ValueError, MemoryError) as error:
            await client.close()  # otherwise it warns when it is garbage-collected
            if await refuses(scheduler, within):
                what = "as nobody listens there"
                break
            if isinstance(error, MemoryError):  # it took text for the length of a message
                what = "as another program listens there"
                break
    raise ClusterError(
        f"scheduler: no Dask scheduler answered at {scheduler!r} {what}: look whether one runs there (it prints its "
        "address as it starts), or start peers on this machine with Cluster(8)"
    )


@contextlib.contextmanager
def _recorded(record: str | os.PathLike[str] | None, config: dict[str, Any]) -> Iterator[None]:
    """Have the peers record to a new file; the file is removed if they do not start."""
    if record is None:
        yield
        return
    path = create(record)
    config["record"] = str(path)
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _keep_runs(cluster: AsyncCluster, options: ClusterOptions) -> AsyncCluster:
    """Have the runs of a client be kept, if that is asked for."""
    if (folder := options.get("runs")) is not None:
        keeping = RunKeeping(Path(folder), follower_of(cluster), cluster.held)
        cluster.before_close.append(keeping.close)
        cluster.on_replaced.append(keeping.replaced)
    return cluster


async def _durable(options: ClusterOptions, config: dict[str, Any]) -> DurableFolder | None:
    """Open the durable folder of a cluster, if it is to have one, before its peers start.

    Raises ``ClusterError`` if it cannot be used, and leaves it as it is.
    """
    if (given := options.get("durable")) is None:
        return None
    try:
        folder = DurableFolder(given, claimant=ProcessClaimant())
        await asyncio.to_thread(_open, folder)
    except DurableError as error:
        raise ClusterError(str(error)) from None
    config["durable"] = folder.where
    config["session"] = {**config["session"], "durable": True}
    return folder


def _open(folder: DurableFolder) -> None:
    """Have this program use a folder alone; raise ``DurableError`` if it cannot, or if anything is damaged."""
    try:
        _check(folder)
    except DurableError:
        folder.unlock()
        raise


def _check(folder: DurableFolder) -> None:
    folder.prepare()
    folder.lock()
    until = time.monotonic() + WRITES_ON
    while not folder.is_quiet and time.monotonic() < until:
        time.sleep(0.05)
    folder.check_quiet()
    try:
        folder.clean()
        for each in folder.applications():
            folder.shut_out(each.id, next_start(each.epoch))
    except OSError as error:
        raise DurableError(f"durable: {folder.where!r}: {error.strerror or error}") from None
    for each in folder.applications():
        folder.check_application(each.id)
    folder.upgrade()


async def _restarted(cluster: AsyncCluster, folder: DurableFolder | None) -> AsyncCluster:
    """Have the applications of a durable folder go on."""
    if folder is None:
        return cluster
    cluster.on_closed.append(folder.unlock)
    try:
        await cluster.restart(folder)
    except BaseException as error:
        await asyncio.shield(cluster.close())
        if isinstance(error, DurableError):
            raise ClusterError(str(error)) from None
        raise
    return cluster


def _record(cluster: AsyncCluster, config: Mapping[str, Any]) -> None:
    """Have all peers write their records before the cluster closes."""

    if "record" in config:
        cluster.recording = str(config["record"])
        cluster.before_close.append(cluster.recorded)


async def _check_recordable(client: Any, workers: Iterable[str]) -> None:
    """Refuse to record workers on other machines, and peers that run already."""
    remote = [address for address in workers if not _on_this_machine(address)]
    if remote:
        raise ClusterError(
            f"record: worker {remote[0]} is on another machine; expected all workers on this one, as the file is"
        )
    running = [address for address, runs in (await client.run(runs_peer)).items() if runs]
    if running:
        raise ClusterError(RUNNING.format(running[0]))


def check_address(field: str, scheduler: str) -> None:
    """Raise ValueError if the parameter ``field`` is not the address of a scheduler."""
    if not isinstance(scheduler, str) or not ADDRESS.fullmatch(scheduler):
        raise ValueError(
            f"{field}: {scheduler!r}; expected the address of a Dask scheduler, such as 'tls://127.0.0.1:8786', or a "
            "number of peers to start on this machine, as in Cluster(8)"
        )


async def _joined(
    cluster: AsyncCluster, area: WideArea | None, patience: float, on_progress: Callable[[Progress], object] | None
) -> AsyncCluster:
    """Return the cluster, after placing its peers on the sites of an area, if any, and forming one ring."""
    try:
        if area is not None:
            area.set_sites(list(cluster.peers.values()))
            laid = area.to_bytes()
            await asyncio.gather(*(cluster.request(peer, "area", laid) for peer in cluster.peers))
            cluster.area = area
        await cluster.join(patience, on_progress)
        await cluster.listen()
    except BaseException:
        await asyncio.shield(cluster.close())
        raise
    return cluster


def _config(cores: float, memory: float, options: ClusterOptions, functions: str = "installed") -> dict[str, Any]:
    """Return checked plain values for the peers' factory; the others are for options that do not set them."""
    given: dict[str, Any] = {"bandwidth": PeerConfig().bandwidth, **options}
    if given.get("runs") is not None:
        create_folder(given["runs"])
    capacity = cores if given.get("cores") is None else given["cores"]
    limit = memory if given.get("memory") is None else given["memory"]
    bandwidth = given["bandwidth"]
    measured = bandwidth == MEASURED
    promised = PeerConfig().bandwidth if measured else bandwidth
    if not isinstance(promised, int | float):
        raise ValueError(f"bandwidth: {bandwidth!r}; expected a number of bytes/s, or {MEASURED!r}")
    check_positive(cores=capacity, bandwidth=promised)
    try:
        size = parse_size(limit)
    except WrongValue as wrong:
        raise ValueError(f"memory: {wrong}") from None
    if 0.0 < size < LEAST_MEMORY:
        raise ValueError(f"memory: {limit!r}; expected at least 16 MB, which operators without state need")
    parameters = {name: given[name] for name in PARAMETERS if name in given}
    config = msgspec.to_builtins(peer_config(promised, **parameters))
    return {
        **{
            name: config[name]
            for name in ("accepts", "bandwidth", "composition", "hotspots", "placement", "replication", "session")
        },
        "cores": float(capacity),
        "memory": size,
        "promise_measured": measured,
        "seed": given.get("seed", 0),
        "secrets": given_secrets(given.get("secrets")),
        "functions": _policy(options.get("functions") or functions),
        "discipline": check_discipline("discipline", given.get("discipline", "fcfs")),
    }


def _policy(given: str) -> str:
    if given not in POLICIES:
        hint = did_you_mean(given, POLICIES)
        raise ValueError(f"functions: {given!r}; expected one of {', '.join(POLICIES)}{hint}")
    return given


def _pings(peers: int) -> float:
    """Return the seconds between pings of the failure detector, so that many peers on a machine do not overload it.

    A peer sends and answers two messages in each period, about 2 ms of one core's time. Up to 16 peers on each core
    use the default.
    """
    return PeerConfig().pings * max(1.0, peers / (FREQUENT_PINGERS * (os.cpu_count() or 1)))


def _own_memory(workers: Mapping[str, Mapping[str, Any]]) -> list[float]:
    """Return the memory of each worker, bytes: its limit or, without one, an equal share of its machine."""
    hosts = [info["host"] for info in workers.values()]
    return [info["memory_limit"] or MEMORY_LIMIT / hosts.count(info["host"]) for info in workers.values()]


def _on_this_machine(address: str) -> bool:
    """Whether a worker's address is a loopback address, or within this process."""
    scheme, _, rest = address.partition("://")
    return scheme == "inproc" or rest.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]")


def _area(options: ClusterOptions, peers: int) -> WideArea | None:
    area = options.get("wide_area")
    if area is None or isinstance(area, WideArea):
        return area
    return WideArea.from_file(os.fspath(area), sites=peers, seed=options.get("seed", 0))
