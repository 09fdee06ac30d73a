"""Processes that start fast: a fork server imports all modules once, and forks a process on request.

Imports take most of the time when a peer process starts. :class:`ForkServer` starts one fresh interpreter that imports
the named modules, and then forks children that have these already, and share their memory. Unlike the fork server of
``multiprocessing`` it ignores the user's ``__main__`` (so a script without a guard, a notebook and ``python -c`` are
all alike) and changes nothing in the user's process, which is never forked itself.

A child may have the fork server fork a process for it (:func:`fork_apart`), in a session of its own, with no more open
than what it is given. That is killed with all that it has started when the child closes its end of a socket, or dies.

Nothing outlives its parent. The fork server has one end of a socket whose other end is the user's process: when that
process ends, for whatever reason, the fork server kills its children and ends. Children have one end of a pipe whose
other end is the fork server, and end when the fork server does. All of them ignore SIGINT, which interrupts a cell of
the notebook.

This module imports neither Dask nor anything slow, so a fork server can start while the caller imports Dask.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import random
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import msgspec
import psutil

from synergy_nb.errors import SynergyError

__all__ = ["PRELOAD", "Apart", "ForkServer", "ProcessStartError", "fork_apart", "import_all", "without_threads"]

PRELOAD: Final = (
    "synergy_nb.runtime.process.processes:warm_name_lookups",
    "synergy_nb.assembly:prepare",
    "synergy_nb.runtime.process._calibration:make_plans",
    "synergy_nb.runtime.process._calibration:make_cases",
    "synergy_nb.runtime.process.processes:warm_tls",
    "numpy.ma",  # which Polars imports when it first gets an array
    "polars",
    "pyarrow",
    "sqlglot",
)
HEADER: Final = 4  # bytes of the length in front of a frame
WORKS: Final = 0.01  # share of a processor from which on a process that starts counts as slow, not as stuck
EXTENDED: Final = 20.0  # largest factor by which a slow start exceeds its timeout


class ProcessStartError(SynergyError, RuntimeError):
    """A process did not start; the message names the process and the reason."""


def crowding() -> float:
    """Return the programs that run or wait for each processor of this machine, at least 1: the last minute's mean."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


# -- in the user's process -------------------------------------------------------------------------------------------


class _Child:
    """A forked process, as the user's process sees it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.ready: asyncio.Future[Any] = loop.create_future()
        self.exited: asyncio.Future[int] = loop.create_future()


class ForkServer:
    """Starts processes that have already imported ``preload``; call :meth:`close` when done.

    Create one by :meth:`launch`; use it on one event loop.
    """

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.process = process
        self._control = control
        self._children: dict[str, _Child] = {}
        self._buffer = bytearray()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: asyncio.Lock | None = None
        self._lost: str | None = None
        self._reported = 0.0  # time at which a process was last requested, forked or ready

    @classmethod
    def launch(cls, preload: Sequence[str] = PRELOAD, environment: Mapping[str, str] | None = None) -> ForkServer:
        """Start the interpreter; return at once, while it is importing.

        ``preload``: modules to import, or ``module:function`` to import and call. One that fails to import is skipped;
        ``environment``: environment variables for the fork server and its children.
        """
        if not hasattr(os, "fork"):
            raise ProcessStartError(f"peer processes need os.fork, which {sys.platform} does not have")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        arguments = (theirs.fileno(), [path or os.getcwd() for path in sys.path], list(preload))  # noqa: PTH109
        code = f"import sys; sys.path[:] = {arguments[1]!r}; from {__name__} import _main; _main{arguments!r}"
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited, until _main
        try:
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, **(environment or {})},
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return cls(process, ours)

    async def fork(self, name: str, target: str, spec: bytes, timeout: float) -> Any:
        """Start a process that calls ``target`` and wait for its first report.

        ``name``: name of the process, unique among the living processes; ``target``: function to call as
        ``function(spec, report)``, named ``package.module:function``; ``spec``: argument of the function; ``timeout``:
        seconds without a report of any process after which this one is given up, unless it works: where many processes
        start on one machine, or other programs run there, they wait for each other. It is multiplied by the programs
        that wait for each processor of the machine.

        Returns: plain value that the function reported.

        Raises ``ProcessStartError`` if the function raised, the process ended, or the timeout passed before the report.
        """
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop, self._lock = loop, asyncio.Lock()
            loop.add_reader(self._control, self._read)
        if name in self._children:
            raise ValueError(f"name: process {name!r} exists; expected a name that is not in use")
        child = self._children[name] = _Child()
        self._reported = loop.time()
        await self._send({"fork": name, "target": target, "spec": spec})
        last, spent = loop.time() + EXTENDED * timeout, self._processor_s(child)
        while True:
            limit = timeout * min(crowding(), EXTENDED)
            left = self._reported + limit - loop.time()
            done, _ = await asyncio.wait([child.ready], timeout=max(left, 0.0))
            if done:
                return child.ready.result()
            if left > 0.0:
                continue
            before, spent = spent, self._processor_s(child)
            if spent - before < WORKS * timeout or loop.time() > last:
                break
            self._reported = loop.time()  # it is slow, as it gets little of a processor
        await self.stop(name, grace=0.0)
        raise ProcessStartError(f"process {name!r} was not ready within {limit:.3g} s, and no other became ready")

    def _processor_s(self, child: _Child) -> float:
        """Return the seconds of a processor that a child and the fork server have had."""
        spent = 0.0
        for pid in (self.process.pid, child.pid):
            with contextlib.suppress(psutil.Error):
                times = psutil.Process(pid).cpu_times() if pid else None
                spent += 0.0 if times is None else times.user + times.system
        return spent

    def pid(self, name: str) -> int:
        """Process id of a living child."""
        return self._children[name].pid

    async def exited(self, name: str) -> int:
        """Wait until a child has ended, and return its exit code (negative: the signal that ended it)."""
        child = self._children.get(name)
        return 0 if child is None else await asyncio.shield(child.exited)

    async def stop(self, name: str, grace: float = 2.0) -> None:
        """Send a child SIGTERM, and kill it if it has not ended within ``grace`` seconds."""
        child = self._children.get(name)
        if child is None:
            return
        if grace > 0:
            await self._send({"signal": name, "number": int(signal.SIGTERM)})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await asyncio.shield(child.exited)
        if not child.exited.done():
            await self._send({"signal": name, "number": int(signal.SIGKILL)})
            await asyncio.shield(child.exited)

    async def close(self) -> None:
        """End the fork server and all remaining children, by force."""
        self.abandon()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5.0):
                # not in a thread: at the exit of Python there are no new ones
                while self.process.poll() is None:  # noqa: ASYNC110 - the system announces the end to nobody
                    await asyncio.sleep(0.01)
        self.kill()

    def abandon(self) -> None:
        """Disconnect: the fork server ends itself and its children. For code that cannot await."""
        if self._control.fileno() < 0:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._control)
        self._control.close()
        self._lose("the fork server was closed")

    def kill(self) -> None:
        """Kill the fork server at once if it still runs; its children then end."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    # -- inside --------------------------------------------------------------------------------------------------

    async def _send(self, order: Mapping[str, Any]) -> None:
        if self._lost is not None or self._lock is None:
            return  # the children have ended, and their futures have the error
        data = msgspec.msgpack.encode(order)
        async with self._lock:  # a frame in one piece
            with contextlib.suppress(OSError):  # the reader sees the end
                await asyncio.get_running_loop().sock_sendall(self._control, len(data).to_bytes(HEADER) + data)

    def _read(self) -> None:
        try:
            data = self._control.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            assert self._loop is not None
            self._loop.remove_reader(self._control)
            self._lose("the fork server has ended")
            return
        self._buffer += data
        for frame in _frames(self._buffer):
            self._receive(msgspec.msgpack.decode(frame))

    def _receive(self, message: dict[str, Any]) -> None:
        child = self._children.get(message["child"])
        if child is None:
            return
        if "pid" in message or "report" in message:  # the fork server, or a process, has finished its imports
            self._reported = child.ready.get_loop().time()
        if "pid" in message:
            child.pid = message["pid"]
        elif "report" in message:
            _complete(child.ready, message["report"])
        elif "error" in message:
            _complete(child.ready, ProcessStartError(f"process {message['child']!r}: {message['error']}"))
        else:
            del self._children[message["child"]]
            _complete(
                child.ready, ProcessStartError(f"process {message['child']!r} ended with exit code {message['exited']}")
            )
            _complete(child.exited, message["exited"])

    def _lose(self, why: str) -> None:
        self._lost = why
        children, self._children = self._children, {}
        for name, child in children.items():
            _complete(child.ready, ProcessStartError(f"process {name!r}: {why}"))
            _complete(child.exited, -int(signal.SIGKILL))


def _complete(future: asyncio.Future[Any], result: Any) -> None:
    if future.done() or future.get_loop().is_closed():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
        future.exception()  # retrieved: nobody may be waiting
    else:
        future.set_result(result)


def _frames(buffer: bytearray) -> list[bytes]:
    """Remove all complete frames from ``buffer``, and return them."""
    frames = []
    while len(buffer) >= HEADER and len(buffer) >= HEADER + (size := int.from_bytes(buffer[:HEADER])):
        frames.append(bytes(buffer[HEADER : HEADER + size]))
        del buffer[: HEADER + size]
    return frames


# -- in the fork server's process ------------------------------------------------------------------------------------


class _Wished(NamedTuple):
    """A process that a child wished for."""

    owner: socket.socket  # the other end is that child's
    process: int  # descriptor of the process


def _tell(owner: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the child has died
        owner.send(number.to_bytes(HEADER, signed=True))


class _ServerProcess:
    """The fork server in its own process: forks children, forwards their reports, and reaps them."""

    def __init__(self, control: socket.socket, fault: str = "") -> None:
        self._control = control
        self._fault = fault  # why no process can be forked; empty if they can
        self._children: dict[str, tuple[int, int]] = {}  # name: pid, read end of its pipe
        self._buffers: dict[str, bytearray] = {"": bytearray()}
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, partial(self._receive, ""))
        self._life_read, self._life_write = os.pipe()  # children see its end when this process ends
        self._ended = False
        self._wishes: socket.socket | None = None  # end that all children have, to wish for processes
        if hasattr(os, "pidfd_open"):
            self._wishes, wished = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._selector.register(wished, selectors.EVENT_READ, partial(self._fork_apart, wished))
        self._apart: dict[int, _Wished] = {}  # by the id of the process

    def serve(self) -> None:
        """Serve until the user's process has ended."""
        while not self._ended:
            for key, _ in self._selector.select():
                # what came before may have closed the descriptor, and another one may have its number since
                if self._selector.get_map().get(key.fileobj) is key:
                    key.data()

    def _receive(self, name: str) -> None:
        """Read what a child reports, or the orders of the user's process."""
        try:
            data = os.read(self._children[name][1] if name else self._control.fileno(), 1 << 16)
        except OSError:
            data = b""
        if name and not data:
            self._reap(name)
            return
        self._ended = not data
        buffer = self._buffers[name]
        buffer += data
        for frame in _frames(buffer):
            order = msgspec.msgpack.decode(frame)
            if name:
                self._send({"child": name, **order})
            elif "fork" in order:
                self._fork(order["fork"], order["target"], order["spec"])
            elif order["signal"] in self._children:
                os.kill(self._children[order["signal"]][0], order["number"])

    def kill(self) -> None:
        """Kill all children."""
        for pid in tuple(self._apart):
            self._end_apart(pid)
        for pid, _ in self._children.values():
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so the id is still its own
        for pid, _ in self._children.values():
            os.waitpid(pid, 0)

    def _send(self, message: Mapping[str, Any]) -> None:
        data = msgspec.msgpack.encode(message)
        with contextlib.suppress(OSError):  # the user's process has ended: the next read fails
            self._control.sendall(len(data).to_bytes(HEADER) + data)

    def _fork(self, name: str, target: str, spec: bytes) -> None:
        if self._fault:
            self._send({"child": name, "error": self._fault})
            self._send({"child": name, "exited": 1})
            return
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads that libraries started; children do not have these
            pid = os.fork()
        if pid == 0:
            for descriptor in (read, self._life_write, *(key.fd for key in self._selector.get_map().values())):
                os.close(descriptor)
            self._selector.close()
            global _wishes  # noqa: PLW0603 - a process has one fork server
            _wishes = self._wishes
            _child(target, spec, write, self._life_read)
        os.close(write)
        self._children[name] = (pid, read)
        self._buffers[name] = bytearray()
        self._selector.register(read, selectors.EVENT_READ, partial(self._receive, name))
        self._send({"child": name, "pid": pid})

    def _fork_apart(self, wished: socket.socket) -> None:
        """Fork a process that a child wishes for."""
        target, (told, *descriptors), _, _ = socket.recv_fds(wished, 1 << 12, 8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            _apart(target.decode(), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        owner, process = socket.socket(fileno=told), os.pidfd_open(pid)
        self._apart[pid] = _Wished(owner, process)
        self._selector.register(process, selectors.EVENT_READ, partial(self._tell_exit, pid))
        self._selector.register(owner, selectors.EVENT_READ, partial(self._end_apart, pid))
        _tell(owner, pid)

    def _tell_exit(self, pid: int) -> None:
        """Tell a child how the process has ended that it wished for: it keeps its id until the child lets it go."""
        owner, process = self._apart[pid]
        self._selector.unregister(process)
        found = os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOWAIT)
        if found is not None:
            _tell(owner, found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)

    def _end_apart(self, pid: int) -> None:
        """End a process, and all that it has started: the child that wished for it needs it no more, or has died."""
        owner, process = self._apart.pop(pid)
        for each in (owner.fileno(), process):
            if each in self._selector.get_map():
                self._selector.unregister(each)
        for kill in (os.killpg, os.kill):  # the second, where it has no session of its own yet
            with contextlib.suppress(OSError):
                kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(process)
        owner.close()

    def _reap(self, name: str) -> None:
        pid, read = self._children.pop(name)
        self._selector.unregister(read)
        os.close(read)
        del self._buffers[name]
        _, status = os.waitpid(pid, 0)  # its pipe has closed, so it has ended, or is about to
        self._send({"child": name, "exited": os.waitstatus_to_exitcode(status)})


@contextlib.contextmanager
def without_threads(what: str) -> Iterator[None]:
    """Context in which ``what`` may start no thread: a forked process would wait for it for ever.

    The first expression that Polars executes starts its threads.

    Raises ``ProcessStartError`` if it does.
    """
    before = _threads()
    yield
    if _threads() > before:
        expected = "expected none, which also Polars starts with its first expression"
        raise ProcessStartError(f"{what} has started threads, for which forked processes would wait; {expected}")


def _threads() -> int:
    """Number of threads of this process, without those of jemalloc, which starts them at any time and handles forks."""
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        return int(psutil.Process().num_threads())
    found = 0
    for task in tasks.iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            found += not (task / "comm").read_text("utf-8", "replace").startswith("jemalloc")
    return found


def _load(name: str) -> str:
    """Import a module, and call a function of it if one is named; return why no process can be forked then."""
    module, _, function = name.partition(":")
    imported = importlib.import_module(module)
    if function:
        try:
            with without_threads(name):
                getattr(imported, function)()
        except ProcessStartError as error:
            return str(error)
    return ""


def import_all(preload: Sequence[str]) -> str:
    """Import modules, or import and call ``module:function``, for processes that will be forked.

    Returns: the reason why no process can be forked now; empty if they can.
    """
    gc.disable()  # imported objects stay: collections would find nothing, and take a tenth of the time
    fault = ""
    for module in preload:
        with contextlib.suppress(Exception):  # only a head start: a child that needs it will report the error
            fault = _load(module)
        if fault:
            break
    gc.enable()
    gc.collect()
    gc.freeze()  # collections in the children skip these objects, and so share their pages
    return fault


def _main(control: int, path: list[str], preload: list[str]) -> None:
    """Run the fork server's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    sys.path[:] = path
    fault = import_all(preload)
    server = _ServerProcess(socket.socket(fileno=control), fault)
    try:
        server.serve()
    except BaseException:  # noqa: BLE001 - the last thing that this process does
        traceback.print_exc()
    finally:
        server.kill()
        os._exit(0)


# -- in the child ----------------------------------------------------------------------------------------------------

_wishes: socket.socket | None = None  # socket by which this process wishes for others, if a fork server has forked it


class Apart:
    """A process that the fork server has forked for this one, and that ends with it."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self._pid = 0

    @property
    def pid(self) -> int:
        """Its id, which belongs to it until :meth:`end`."""
        if not self._pid:
            self._pid = self._number(None)
        return self._pid

    def wait(self, timeout: float) -> int:
        """Return its exit code (negative: the signal that ended it).

        Raises ``TimeoutExpired`` if it still runs after ``timeout`` seconds.
        """
        pid = self.pid
        try:
            return self._number(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(f"process {pid}", timeout) from None

    def end(self) -> None:
        """Kill it, with all that it has started."""
        self._told.close()

    def _number(self, timeout: float | None) -> int:
        self._told.settimeout(timeout)
        data = self._told.recv(HEADER)
        if not data:
            raise ProcessStartError("the fork server has ended")
        return int.from_bytes(data, signed=True)


def fork_apart(target: str, descriptors: Sequence[int]) -> Apart | None:
    """Have the fork server of this process fork another one, in a session of its own.

    ``target``: function to call with the descriptors, named ``package.module:function``; ``descriptors``: what the new
    process has open, beside its standard output and error.

    Returns None if no fork server has forked this process, or the system lacks what it takes.
    """
    if _wishes is None:
        return None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        socket.send_fds(_wishes, [target.encode()], [theirs.fileno(), *descriptors])
    return Apart(ours)


def _apart(target: str, descriptors: list[int]) -> NoReturn:
    """Run a process that another child wished for; never returns."""
    try:
        os.setsid()
        kept = sorted(descriptors)
        for first, last in zip([2, *kept], [*kept, os.sysconf("SC_OPEN_MAX")], strict=True):
            os.closerange(first + 1, last)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _seed()
        module, _, function = target.partition(":")
        getattr(importlib.import_module(module), function)(*descriptors)
    except BaseException:  # noqa: BLE001 - the last thing that this process does
        traceback.print_exc()
    finally:
        os._exit(1)


def _seed() -> None:
    """Let children not all draw the same numbers."""
    random.seed()
    if (numpy := sys.modules.get("numpy.random")) is not None:
        numpy.seed()


def _child(target: str, spec: bytes, pipe: int, life: int) -> None:
    """Run a forked process; never returns."""
    code = 1

    def report(message: Mapping[str, Any]) -> None:
        data = msgspec.msgpack.encode(message)
        view = memoryview(len(data).to_bytes(HEADER) + data)
        while view:
            view = view[os.write(pipe, view) :]

    def watch() -> None:
        os.read(life, 1)  # nothing is ever written: it returns when the fork server has ended
        os._exit(1)  # even if the event loop hangs

    try:
        _seed()
        threading.Thread(target=watch, name="watches the fork server", daemon=True).start()
        module, _, function = target.partition(":")
        call: Callable[[bytes, Callable[[Any], None]], None] = getattr(importlib.import_module(module), function)
        call(spec, lambda value: report({"report": value}))
        code = 0
    except BaseException as error:  # noqa: BLE001 - the last thing that this process does
        while error.__cause__ is not None:  # Dask's wrapper says only that there was an error
            error = error.__cause__
        with contextlib.suppress(OSError):
            report({"error": f"{type(error).__name__}: {error}"})
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
