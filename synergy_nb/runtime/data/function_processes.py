"""Functions of one's own at a peer: those that it has, and a process for each component that executes one.

A function may block, kill its process, start others or eat memory. So it runs in a process of its own, in a session of
its own, with a limit of time for each call and one of memory; the component waits for it in a thread that no other
component needs. When it dies, or a limit is exceeded, its application fails, and nothing else. The process ends with
the component, and with the peer, however that ends. What it uses beside the memory with which it was forked counts as
memory of its component (:mod:`synergy_nb.dataflow.memory_shares`), after each call and while one lasts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import polars as pl
import psutil

from synergy_nb.dataflow.functions.calls import FunctionAnswer, FunctionError, FunctionTask, task_of
from synergy_nb.dataflow.memory_shares import MemoryShare
from synergy_nb.dataflow.operators.base import Context
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.plan.derived.allowed_paths import refused_path
from synergy_nb.plan.functions.model_files import wrong_file
from synergy_nb.plan.operators.own import FUNCTION_MEMORY
from synergy_nb.plan.terms.function_references import is_installed, name_of
from synergy_nb.plan.terms.known_functions import checked, forget, payload_of, receive
from synergy_nb.plan.terms.units import format_duration, format_size
from synergy_nb.runtime.data._function_child import ENVIRONMENT, HEAD, read, send, written
from synergy_nb.runtime.process.fork_server import fork_apart

__all__ = ["POLICIES", "FunctionProcesses"]

#: What a peer accepts: no functions, those that are installed at it, or also those that a notebook sends.
POLICIES: Final = ("off", "installed", "notebook")
LOOK_S: Final = 0.05  # seconds between two looks at a process that has not answered
PACKAGES: Final = 300e6  # resident bytes of a process before its function does anything, at most
STARTS_WITHIN_S: Final = 60.0  # seconds for which a process may start, on a busy machine
CHILD: Final = "synergy_nb.runtime.data._function_child:main"


class FunctionProcesses:
    """The functions that a peer has, and the processes that execute them."""

    def __init__(self, policy: str = "notebook") -> None:
        self.policy = policy
        self._accepted: set[str] = set()  # references of the functions that the peer has
        self._lacking: dict[str, tuple[str, str]] = {}  # file and checksum of models that are not here, by reference
        self._running: dict[Component, FunctionProcess] = {}

    def refusal(self, reference: str) -> str:
        """Return the reason why this peer does not accept a function; empty if it does."""
        if self.policy == "off":
            return "this peer executes no functions (functions='off')"
        if not is_installed(reference) and self.policy != "notebook":
            return "this peer executes only functions that are installed at it (functions='installed')"
        return wrong_file(*self._lacking[reference]) if reference in self._lacking else ""

    def has(self, reference: str) -> bool:
        """Whether this peer has a function that it accepts."""
        if is_installed(reference):
            self._accepted.add(reference)
        return reference in self._accepted

    def accept(self, reference: str, payload: bytes, folders: Sequence[str] | None = None) -> None:
        """Have a function from now on.

        ``folders``: folders from which the file of its model may be; None: from all.

        Raises ``ValueError`` if this peer does not accept it, what was sent is other code than the reference names, or
        it has not got the file of its model.
        """
        if refusal := self.refusal(reference):
            raise ValueError(refusal)
        sent = checked(reference, payload)
        if sent.file and folders is not None and (refusal := refused_path("file", sent.file, folders)):
            raise ValueError(refusal)  # before it is read: its checksum is nobody else's either
        if sent.file and (wrong := wrong_file(sent.file, sent.sha256)):
            self._lacking[reference] = sent.file, sent.sha256
            raise ValueError(wrong)
        self._lacking.pop(reference, None)
        receive(reference, payload)
        self._accepted.add(reference)

    def drop(self, reference: str) -> None:
        """Have a function no more; the processes that execute it have its code already."""
        self._accepted.discard(reference)
        forget(reference)

    def calls(self, component: Component) -> Callable[[Context], FunctionProcess]:
        """Function that starts a process for a component, given the context of its operator."""
        return lambda context: self.start(component, task_of(context))

    def start(self, component: Component, task: FunctionTask) -> FunctionProcess:
        """Start a process for a component.

        Raises ``ValueError`` if this peer has not got its function.
        """
        if task.function not in self._accepted:
            what = f"operator {task.operator!r}: function: {task.function!r}"
            raise ValueError(f"{what}; expected one that this peer has")
        self.end(component)
        process = self._running[component] = FunctionProcess(task, payload_of(task.function), component.share)
        return process

    def end(self, component: Component) -> None:
        """End the process of a component that leaves the peer; nothing happens if it has none."""
        process = self._running.pop(component, None)
        if process is not None:
            process.close()

    def close(self) -> None:
        """End all processes."""
        for component in tuple(self._running):
            self.end(component)


class _Interpreter(subprocess.Popen[bytes]):
    """A fresh interpreter, for a peer that no fork server has forked."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        module, _, function = CHILD.partition(":")
        call = f"{function}({', '.join(map(str, descriptors))})"
        super().__init__(
            [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; from {module} import {function}; {call}"],
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
            start_new_session=True,
            env={**os.environ, **ENVIRONMENT},
        )

    def end(self) -> None:
        """Kill it, with all that it has started."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        threading.Thread(target=self.wait, name="reaps a function", daemon=True).start()


class FunctionProcess:
    """A process that executes the function of one operator, see :class:`.Calls`."""

    def __init__(self, task: FunctionTask, payload: bytes, share: MemoryShare) -> None:
        self._name = repr(name_of(task.function))
        self._timeout = float(task.params["timeout"])
        self._share = share  # memory of its component
        self._memory = min(float(task.params.get("memory") or FUNCTION_MEMORY), share.limit)
        self.used = 0  # bytes that its function has made it use, after the last call
        self._task, self._payload = task, payload
        self._begun = self._closed = False
        self._base: int | None = None  # bytes that it used before it had a function; None: it has not said it
        own, other = socket.socketpair()
        alive, self._life = os.pipe()
        descriptors = (other.fileno(), alive)
        self._process = fork_apart(CHILD, descriptors) or _Interpreter(descriptors)
        other.close()
        os.close(alive)
        own.settimeout(LOOK_S)
        self._connection = own
        self._closing = threading.Lock()
        self._using = threading.Lock()  # held while a call uses the connection

    def call(self, what: str, table: pl.DataFrame, low: int) -> FunctionAnswer:
        """See :class:`.Calls`."""
        with self._using:
            try:
                return self._called(what, table, low)
            finally:
                if self._closed:
                    self._connection.close()

    def _called(self, what: str, table: pl.DataFrame, low: int) -> FunctionAnswer:
        if not self._begun:
            self._begun = True
            task = self._task._replace(
                params=dict(self._task.params), input=dict(self._task.input), output=dict(self._task.output)
            )
            begun, _ = self._exchange((self._memory, *task), self._payload, STARTS_WITHIN_S, "it has not started")
            self._base = begun["base"]
        header, data = self._exchange((what, low), written(table), self._timeout, "no answer")
        self.used = max(header["used"], 0)
        return FunctionAnswer(read(data), header["keys"], header["size"])

    def close(self) -> None:
        """Kill the process and all that it has started."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._process.end()
        with contextlib.suppress(OSError):  # wakes the thread that waits for an answer
            self._connection.shutdown(socket.SHUT_RDWR)
        os.close(self._life)
        if self._using.acquire(blocking=False):  # otherwise the call does so that wakes: nobody else may get its number
            self._connection.close()
            self._using.release()

    def _exchange(
        self, header: object, data: bytes | memoryview, seconds: float, late: str
    ) -> tuple[dict[str, Any], bytearray]:
        """Ask, and wait for the answer.

        Raises ``FunctionError`` if the function fails, or its process dies or exceeds a limit.
        """
        until = time.monotonic() + seconds
        try:
            self._send(header, data, until, seconds, late)
            self._connection.settimeout(LOOK_S)
            answer, body = self._answer(until, seconds, late)
            while "progress" in answer:  # one more call has ended, and the next one has its own time
                answer, body = self._answer(time.monotonic() + seconds, seconds, late)
        except OSError as error:
            raise self._dead() from error
        if answer.get("memory"):
            raise self._exceeded()
        if "error" in answer:
            raise FunctionError(answer["error"])
        return answer, body

    def _answer(self, until: float, seconds: float, late: str) -> tuple[dict[str, Any], bytearray]:
        lengths = self._read(2 * HEAD, until, seconds, late)
        head = self._read(int.from_bytes(lengths[:HEAD]), until, seconds, late)
        body = self._read(int.from_bytes(lengths[HEAD:]), until, seconds, late)
        return msgspec.msgpack.decode(bytes(head), type=dict[str, Any]), body

    def _send(self, header: object, data: bytes | memoryview, until: float, seconds: float, late: str) -> None:
        self._connection.settimeout(max(until - time.monotonic(), LOOK_S))
        try:
            send(self._connection, header, data)
        except TimeoutError:
            raise self._too_late(seconds, late) from None

    def _read(self, size: int, until: float, seconds: float, late: str) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            try:
                got = self._connection.recv_into(view)
            except TimeoutError:
                self._look()
                if time.monotonic() >= until:
                    raise self._too_late(seconds, late) from None
                continue
            if not got:
                raise self._dead()
            view = view[got:]
        return data

    def _look(self) -> None:
        """Look how much memory a process uses that has not answered.

        Raises ``FunctionError`` if that exceeds its limit, ``MemoryExceeded`` if it does not fit into the peer.
        """
        try:
            found = psutil.Process(self._process.pid).memory_info()
        except psutil.Error:
            raise self._dead() from None
        if found.rss > self._memory + PACKAGES:
            raise self._exceeded()
        if self._base is not None:
            more = found.rss - getattr(found, "shared", 0) - self._base - self.used
            self._share.admit(max(more, 0))

    def _too_late(self, seconds: float, late: str) -> FunctionError:
        self.close()
        expected = "one, or a longer timeout=" if late == "no answer" else "that it starts"
        return FunctionError(f"function {self._name}: {late} within {format_duration(seconds)}; expected {expected}")

    def _exceeded(self) -> FunctionError:
        self.close()
        whose = " of the sink or of the Cluster" if self._memory == self._share.limit else ""
        limit = format_size(self._memory)
        return FunctionError(
            f"function {self._name}: its process needs more than {limit}; expected less, or more memory={whose}"
        )

    def _dead(self) -> FunctionError:
        if self._closed:
            return FunctionError(f"function {self._name}: its process was ended, as its component left the peer")
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            code = None
        self.close()
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                name = signal.Signals(-code).name
                return FunctionError(f"function {self._name}: its process has died of {name}; expected that it goes on")
        what = "its process has ended" if code is None else f"its process has ended with exit status {code}"
        return FunctionError(f"function {self._name}: {what}; expected that it goes on")
