"""Peers in separate processes: their start, single failures, and their end with the cluster."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import dask
import msgspec
import psutil
import pytest
from distributed import Client, Security, Worker
from distributed.utils import silence_logging_cmgr

from synergy_nb.runtime.client.progress import Progress
from synergy_nb.runtime.process import fork_server as fork_server_module
from synergy_nb.runtime.process._dask_silence import Silence
from synergy_nb.runtime.process._plugin import client_links, install
from synergy_nb.runtime.process._steady_worker import HEARTBEAT_S, SteadyWorker
from synergy_nb.runtime.process.fork_server import PRELOAD, ForkServer, ProcessStartError, without_threads
from synergy_nb.runtime.process.processes import QUIET, PeerCluster, start
from synergy_nb.runtime.transport.link import LinkDown, Links
from tests.conftest import ROOT
from tests.waiting import DEADLINE, turns, until

FACTORY = "tests.runtime.echo_peer:make"
T = TypeVar("T")

pytestmark = pytest.mark.usefixtures("fresh_servers")


def light() -> ForkServer:
    """A fork server that has little to import, where it does not matter how long a peer takes to start."""
    return ForkServer.launch(preload=("synergy_nb.runtime.process.processes",))


def gone(pids: list[int], timeout: float = 15.0) -> bool:
    """Whether all processes have ended, within a deadline that only ends a test that fails."""
    processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    processes = [process for process in processes if process.status() != psutil.STATUS_ZOMBIE]
    return not psutil.wait_procs(processes, timeout=timeout)[1]


class Held:
    """A synchronous cluster, and requests to its peers from a client on its loop."""

    def __init__(self, cluster: PeerCluster, connection_args: dict[str, Any] | None = None) -> None:
        self.cluster = cluster
        self.links = self.on_loop(self._links, connection_args or {})

    async def _links(self, connection_args: dict[str, Any]) -> Links:
        return client_links(connection_args)

    def on_loop(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        result: T = self.cluster.sync(function, *arguments)
        return result

    def ask(self, peer: str, operation: str, payload: Any = None, timeout: float = 10.0) -> Any:
        answer = self.on_loop(self.links.request, self.cluster.peers[peer], operation, payload or b"", timeout)
        return msgspec.msgpack.decode(answer)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self.cluster.processes.values()]

    def close(self) -> None:
        self.on_loop(self.links.close)
        self.cluster.close()


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held(start(3, FACTORY, {"seed": 5, "of": {"peer-2": {"seed": 6}}}))
    pids = held.pids
    yield held
    held.close()
    assert gone(pids)


def test_a_worker_sends_few_heartbeats_whatever_the_scheduler_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    worker: Any = object.__new__(SteadyWorker)
    worker.periodic_callbacks = {"heartbeat": SimpleNamespace(callback_time=0.0)}

    async def heartbeat(of: Any) -> None:
        of.periodic_callbacks["heartbeat"].callback_time = 500.0  # milliseconds, as the scheduler's answer says

    monkeypatch.setattr(Worker, "heartbeat", heartbeat)
    asyncio.run(worker.heartbeat())
    assert worker.periodic_callbacks["heartbeat"].callback_time == 1000.0 * HEARTBEAT_S


@pytest.mark.slow
def test_peers_start_fail_one_by_one_and_end(held: Held) -> None:
    """The life of a cluster: one test, so that it starts once."""
    cluster = held.cluster
    assert list(cluster.peers) == ["peer-1", "peer-2", "peer-3"]
    assert {info["name"] for info in cluster.scheduler_info["workers"].values()} == set(cluster.peers)
    about = [held.ask(name, "about") for name in cluster.peers]
    assert [one["config"]["seed"] for one in about] == [5, 6, 5]
    assert [one["name"] for one in about] == list(cluster.peers)
    assert sorted(one["pid"] for one in about) == sorted(held.pids)
    assert os.getpid() not in held.pids
    assert {one["interrupt"] for one in about} == {int(signal.SIG_IGN)}  # interrupting a cell is not for them
    assert all(dask.config.get(name) != value for name, value in QUIET.items() if "interval" in name)
    assert held.ask("peer-1", "compute") == [[1, 24995000], [2, 25000000]]  # Polars' threads work in forked processes
    with Client(cluster) as client:  # an ordinary Dask cluster
        assert client.submit(sum, [1, 2]).result(timeout=DEADLINE) == 3

    # the connection of one to the scheduler is reset: it registers anew, and its peer goes on
    async def reset() -> None:
        scheduler, at = cluster.scheduler, cluster.peers["peer-1"]
        assert scheduler is not None
        before = scheduler.workers[at]
        scheduler.stream_comms[at].comm.abort()
        await until(lambda: at in scheduler.workers and scheduler.workers[at] is not before)

    held.on_loop(reset)
    again = held.ask("peer-1", "about")
    assert (again["pid"], again["config"]) == (about[0]["pid"], about[0]["config"])

    # one is killed: the others go on, what was under way with it fails at once, and nobody starts it again
    killed, stopped = cluster.processes["peer-2"], cluster.processes["peer-3"]
    address = cluster.peers["peer-2"]

    async def kill() -> None:
        hanging = asyncio.create_task(held.links.request(address, "hang", timeout=30.0))
        await held.links.request(address, "ping")
        os.kill(killed.pid, signal.SIGKILL)
        with pytest.raises(LinkDown):
            await hanging
        await killed.finished()

    held.on_loop(kill)
    assert list(cluster.peers) == ["peer-1", "peer-3"]
    held.on_loop(cluster._correct_state)
    assert set(cluster.workers) == {"peer-1", "peer-3"}
    assert held.ask("peer-1", "greet", msgspec.msgpack.encode((cluster.peers["peer-3"], 1))) == 1

    # one is stopped: a call to it ends by its deadline, and the cluster still closes
    os.kill(stopped.pid, signal.SIGSTOP)
    with pytest.raises(TimeoutError, match=r"no answer within 0\.2 s"):
        held.ask("peer-3", "about", timeout=0.2)
    assert held.ask("peer-1", "about")["name"] == "peer-1"


@pytest.mark.slow
def test_several_peers_in_one_process_on_a_running_loop() -> None:
    """The asynchronous way, with TLS."""

    async def main() -> list[int]:
        security = Security.temporary()
        async with start(
            5, FACTORY, per_process=3, security=security, asynchronous=True, fork_server=light()
        ) as cluster:
            assert list(cluster.processes) == ["peer-1..peer-3", "peer-4..peer-5"]
            assert list(cluster.peers) == [f"peer-{number}" for number in range(1, 6)]
            assert all(address.startswith("tls://127.0.0.1:") for address in cluster.peers.values())
            links = client_links(security.get_connection_args("client"))
            for address in cluster.peers.values():
                assert await links.request(address, "ping", b"x") == b"x"
            to = cluster.peers["peer-5"]
            assert await links.request(cluster.peers["peer-1"], "greet", msgspec.msgpack.encode((to, 1)))
            await links.close()
            return [process.pid for process in cluster.processes.values()]

    assert gone(asyncio.run(main()))


@pytest.mark.slow
def test_a_cluster_is_up_when_its_scheduler_info_lists_all_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler's messages about workers come by a comm of their own, here after the last peer has started."""

    async def main() -> None:
        all_run, let_through = asyncio.Event(), asyncio.Event()
        watch = PeerCluster._watch_worker_status

        async def watch_later(self: PeerCluster, comm: Any) -> None:
            await let_through.wait()
            await watch(self, comm)

        def progress(reached: Progress) -> None:
            if reached.done == 2:
                all_run.set()

        monkeypatch.setattr(PeerCluster, "_watch_worker_status", watch_later)
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as tasks:
            cluster = start(2, FACTORY, asynchronous=True, fork_server=light(), on_progress=progress)
            up = tasks.create_task(cluster._up())
            await all_run.wait()
            await turns(100)
            assert not up.done()
            assert not cluster.scheduler_info["workers"]
            let_through.set()
            await up
            assert set(cluster.scheduler_info["workers"]) == set(cluster.peers.values())
            await cluster._close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"peers": 0}, "peers: 0; expected at least 1"),
        ({"peers": 2, "per_process": 0}, "per_process: 0; expected at least 1"),
        ({"peers": 2, "factory": "no.such:make"}, "factory: 'no.such:make'; expected a function"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        start(**arguments)


@pytest.mark.slow
def test_a_peer_that_does_not_come_up_is_reported_and_nothing_is_left() -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with pytest.raises(ProcessStartError, match="RuntimeError: this factory fails"):
        start(2, "tests.runtime.test_plugin:broken", fork_server=light())
    assert gone([child.pid for child in psutil.Process().children(recursive=True) if child.pid not in before])


@pytest.mark.slow
def test_a_cluster_that_does_not_come_up_on_a_running_loop_is_closed() -> None:
    async def main() -> list[int]:
        cluster = start(1, "tests.runtime.test_plugin:broken", asynchronous=True, fork_server=light())
        with pytest.raises(ProcessStartError, match="RuntimeError: this factory fails"):
            await cluster
        assert cluster.status.name == "closed"
        return [cluster._fork_server.process.pid]

    assert gone(asyncio.run(main()))


@pytest.mark.parametrize("name", PRELOAD)
def test_every_module_and_function_that_a_fork_server_loads_exists(name: str) -> None:
    """It goes on without what is not there, and each process then does that work itself."""
    module, _, function = name.partition(":")
    imported = importlib.import_module(module)
    assert not function or callable(getattr(imported, function))


@pytest.mark.slow
def test_peers_are_installed_on_workers_that_have_none() -> None:
    with start(2, fork_server=light()) as cluster, Client(cluster) as client:
        peers = install(client, FACTORY)
        assert peers == cluster.peers
        held = Held(cluster)
        assert held.ask("peer-2", "about")["name"] == "peer-2"
        held.on_loop(held.links.close)


@pytest.mark.slow
def test_dask_is_silent_until_the_last_cluster_is_closed() -> None:
    silence = Silence(lambda: silence_logging_cmgr(logging.ERROR))
    logger, handler = logging.getLogger("distributed"), logging.StreamHandler()
    logger.addHandler(handler)
    try:
        first, second = silence.kept(), silence.kept()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert handler.level == logging.ERROR, "the second one is open"
        second.__exit__(None, None, None)
        assert handler.level == logging.NOTSET
    finally:
        logger.removeHandler(handler)


@pytest.mark.slow
def test_a_process_that_is_not_ready_in_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server_module, "crowding", lambda: 2.0)  # two programs for each processor

    async def main() -> int:
        fork_server = ForkServer.launch(preload=())
        with pytest.raises(ProcessStartError, match=r"process 'x' was not ready within 0\.6 s"):
            await fork_server.fork("x", "tests.runtime.test_processes:never_ready", b"", timeout=0.3)
        with pytest.raises(ProcessStartError, match="ValueError: bad spec"):
            await fork_server.fork("y", "tests.runtime.test_processes:fails", b"bad spec", timeout=DEADLINE)
        assert await fork_server.fork("z", "tests.runtime.test_processes:reports", b"spec", timeout=DEADLINE) == b"spec"
        assert await fork_server.exited("z") == 3
        pid = fork_server.process.pid
        fork_server.process.kill()
        with pytest.raises(ProcessStartError, match="the fork server has ended"):
            await fork_server.fork("x", "tests.runtime.test_processes:never_ready", b"", timeout=DEADLINE)
        await fork_server.close()
        return pid

    assert gone([asyncio.run(main())])


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system does not name the threads of a process")
def test_threads_of_an_allocator_keep_no_process_from_being_forked() -> None:
    """Seen once in 400 starts on a busy machine: jemalloc starts its threads at any time, and handles forks itself."""
    ended = threading.Event()

    def begin(name: str) -> None:
        thread = threading.Thread(target=ended.wait)
        thread.start()
        Path(f"/proc/self/task/{thread.native_id}/comm").write_text(name)

    try:
        with without_threads("an allocator"):
            begin("jemalloc_bg_thd")
        with pytest.raises(ProcessStartError, match="another has started threads"), without_threads("another"):
            begin("another")
    finally:
        ended.set()


@pytest.mark.slow
def test_a_fork_server_forks_nothing_once_a_thread_was_started_in_it() -> None:
    async def main() -> None:
        fork_server = ForkServer.launch(preload=("tests.begun_thread:begin",))
        for name in ("x", "y"):
            with pytest.raises(
                ProcessStartError,
                match=rf"process '{name}': tests.begun_thread:begin has started threads, for which forked",
            ):
                await fork_server.fork(name, "tests.runtime.test_processes:reports", b"spec", timeout=DEADLINE)
        await fork_server.close()

    asyncio.run(main())


@pytest.mark.slow
def test_a_process_that_a_child_wishes_for_ends_with_all_that_it_has_started() -> None:
    async def main() -> None:
        fork_server = ForkServer.launch(preload=())
        found = await fork_server.fork("x", "tests.runtime.test_processes:wishes", b"", timeout=DEADLINE)
        assert found["codes"] == [3, -signal.SIGKILL]
        assert found["open"] == 1, "nothing is open but what it was given, and the standard descriptors"
        assert gone(found["let go"])
        assert all(map(psutil.pid_exists, found["kept"]))
        await fork_server.stop("x", grace=0.0)
        assert gone(found["kept"])
        assert await fork_server.fork("z", "tests.runtime.test_processes:reports", b"on", timeout=DEADLINE) == b"on"
        await fork_server.close()

    asyncio.run(main())


def wishes(_spec: bytes, report: Callable[[Any], None]) -> None:
    """Wish for four processes: one exits, one is killed, one is let go, and one is kept."""
    told: dict[str, Any] = {"codes": []}
    for name in ("exit", "kill", "let go", "kept"):
        ours, theirs = socket.socketpair()
        process = fork_server_module.fork_apart("tests.runtime.test_processes:wished", [theirs.fileno()])
        assert process is not None
        theirs.close()
        number, began = msgspec.msgpack.decode(ours.recv(64))
        told["open"] = number
        if name in ("exit", "kill"):
            if name == "kill":
                os.kill(process.pid, signal.SIGKILL)
            ours.close()
            told["codes"].append(process.wait(DEADLINE))
            process.end()
        else:
            told[name] = [process.pid, began]
        if name == "let go":
            process.end()
    report(told)
    signal.pause()


def wished(descriptor: int) -> None:
    """Start a process, tell its id and what is open, and exit at the end of a socket."""
    number = sum(map(_is_open, range(3, 256)))
    began = os.fork()
    if began == 0:
        signal.pause()
    connection = socket.socket(fileno=descriptor)
    connection.send(msgspec.msgpack.encode((number, began)))
    connection.recv(1)
    os._exit(3)


@pytest.mark.slow
def test_the_end_of_a_process_is_not_told_of_the_next_one_that_has_its_descriptor() -> None:
    """The fork server finds at once: one let go, one wished for, and the end of the first, whose number is reused."""

    async def main() -> None:
        fork_server = ForkServer.launch(preload=())
        await fork_server.fork("x", "tests.runtime.test_processes:wishes_at_once", b"", timeout=DEADLINE)
        fork_server.process.send_signal(signal.SIGSTOP)
        await asyncio.to_thread(os.waitid, os.P_PID, fork_server.process.pid, os.WSTOPPED)
        os.kill(fork_server.pid("x"), signal.SIGUSR1)
        assert await fork_server.exited("x") == 0
        await fork_server.close()

    asyncio.run(main())


def wishes_at_once(_spec: bytes, report: Callable[[Any], None]) -> None:
    target = "tests.runtime.test_processes:wished"
    ours, theirs = socket.socketpair()
    first = fork_server_module.fork_apart(target, [theirs.fileno()])
    assert first is not None
    theirs.close()
    ours.recv(64)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    with open_process(first.pid) as ended:
        report(None)
        signal.sigwait({signal.SIGUSR1})  # the fork server is stopped
        first.end()
        next_ours, next_theirs = socket.socketpair()
        second = fork_server_module.fork_apart(target, [next_theirs.fileno()])
        ours.close()  # at which the first one exits
        select.select([ended], [], [])
    os.kill(os.getppid(), signal.SIGCONT)
    next_ours.recv(64)
    next_ours.close()
    assert second is not None
    assert second.wait(DEADLINE) == 3


@contextlib.contextmanager
def open_process(pid: int) -> Iterator[int]:
    """Give a descriptor of a process, readable when it has ended."""
    descriptor = os.pidfd_open(pid)
    yield descriptor
    os.close(descriptor)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_a_process_that_gets_little_of_a_processor_is_waited_for() -> None:
    async def main() -> None:
        fork_server = ForkServer.launch(preload=())
        assert await fork_server.fork("x", "tests.runtime.test_processes:works", b"1.5", timeout=0.5) == b"1.5"
        await fork_server.close()

    asyncio.run(main())


def works(spec: bytes, report: Callable[[Any], None]) -> None:
    while time.process_time() < float(spec):
        pass
    report(spec)


def never_ready(_spec: bytes, _report: Callable[[Any], None]) -> None:
    signal.pause()


def fails(spec: bytes, _report: Callable[[Any], None]) -> None:
    raise ValueError(spec.decode())


def reports(spec: bytes, report: Callable[[Any], None]) -> None:
    report(spec)
    os._exit(3)


SCRIPT = """
import sys
print("the script runs", flush=True)
from synergy_nb.runtime.process.processes import start
cluster = start(2, "tests.runtime.echo_peer:make")
fork_server = cluster._fork_server.process.pid
print(fork_server, *(process.pid for process in cluster.processes.values()), flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["kill", "raise", "kill the fork server"])
def test_nothing_outlives_the_user_s_process(way: str, tmp_path: Path) -> None:
    """A script without a guard is not run again in the peers; however it ends, they end."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + ("raise SystemExit('an error')" if way == "raise" else ""))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *(["-c", SCRIPT] if way == "kill" else [str(script)])]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, cwd=tmp_path
    ) as user:
        assert user.stdin is not None
        assert user.stdout is not None
        assert user.stdout.readline() == "the script runs\n"
        pids = [int(word) for word in user.stdout.readline().split()]
        assert len(pids) == 3
        assert all(psutil.pid_exists(pid) for pid in pids)
        if way == "kill":
            user.kill()
        elif way == "kill the fork server":
            os.kill(pids[0], signal.SIGKILL)
            assert gone(pids[1:])
        if way != "kill":
            user.stdin.write("\n")
            user.stdin.close()
        assert user.stdout.read() == ""  # its end, so nobody holds it any more; and the script ran once
    assert gone(pids)


@pytest.mark.slow
def test_an_interrupt_while_the_fork_server_imports_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    server = ForkServer.launch(preload=())
    server.process.send_signal(signal.SIGINT)
    server.abandon()
    assert server.process.wait(60) == 0
    assert capfd.readouterr() == ("", "")
