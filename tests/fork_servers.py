"""Fork servers of clusters that are forked from one process which has imported everything.

The fork server of a cluster (:mod:`synergy_nb.runtime.process.fork_server`) is a fresh interpreter, whose imports take
0.7 s of a processor: two thirds of the time to start a cluster. So the clusters of a pytest worker have fork servers
that one parent process forks. Such a fork server runs the same code, with the variables, the folder and the outputs
that a fresh one would inherit; only the imports are done already. Where the system has no file descriptors of
processes, and in tests of processes themselves, fork servers are fresh. The parent has loaded the code of active
replicas, too, which each peer that reads some would load in a thread for half a second of a processor.
"""

from __future__ import annotations

import functools
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from synergy_nb.dataflow.streams.replicas import duplicate_code
from synergy_nb.runtime.process import fork_server
from synergy_nb.runtime.process.fork_server import PRELOAD, ForkServer

__all__ = ["Parent", "forked_by", "forked_servers", "fresh_servers"]

LARGEST: Final = 1 << 18  # bytes of an order
_fresh: Final = ForkServer.launch


# -- in the test's process ---------------------------------------------------------------------------------------------


class ForkedServer:
    """A fork server that another process has forked, with what :class:`ForkServer` uses of ``subprocess.Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._process = os.pidfd_open(pid)

    def _ended(self, timeout: float | None) -> bool:
        if self._process < 0:
            return True
        if not select.select([self._process], [], [], timeout)[0]:
            return False
        os.close(self._process)
        self._process = -1
        return True

    def poll(self) -> int | None:
        """0 once it has ended."""
        return 0 if self._ended(0.0) else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended."""
        if not self._ended(timeout):
            raise subprocess.TimeoutExpired("fork server", timeout or 0.0)
        return 0

    def kill(self) -> None:
        """Kill it."""
        if self._process >= 0:
            signal.pidfd_send_signal(self._process, signal.SIGKILL)


class Parent:
    """A process that has imported what fork servers import, and forks them.

    Parameters
    ----------
    forked
        Whether it is forked from this process, which has imported everything and started no thread.
    """

    def __init__(self, *, forked: bool = False) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
        with theirs:
            self._wait = self._fork(theirs) if forked else self._start(theirs)

    def _start(self, theirs: socket.socket) -> Callable[[], object]:
        main = f"from {__name__} import _fresh_main; _fresh_main({theirs.fileno()})"
        code = f"import sys; sys.path[:] = {sys.path!r}; {main}"
        command = [sys.executable, "-c", code]
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # it forks, so it starts no threads
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=alone).wait

    def _fork(self, theirs: socket.socket) -> Callable[[], object]:
        pid = os.fork()
        if pid == 0:
            self._control.close()
            try:
                _main(theirs.detach())
            finally:
                os._exit(0)
        return lambda: os.waitpid(pid, 0)

    def launch(self, preload: Sequence[str], environment: Mapping[str, str]) -> ForkServer:
        """Fork a fork server; the same as :meth:`ForkServer.launch`."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        order = {
            "path": [path or str(Path.cwd()) for path in sys.path],
            "preload": [name for name in preload if name not in PRELOAD],
            "environment": {**os.environ, **environment},
            "folder": str(Path.cwd()),
        }
        with theirs:
            socket.send_fds(self._control, [json.dumps(order).encode()], [theirs.fileno(), 1, 2])
        process: Any = ForkedServer(int(self._control.recv(64)))
        self._control.send(b"known")  # from now on its id may be another's
        return ForkServer(process, ours)

    def close(self) -> None:
        """End the process; fork servers end with their clusters."""
        self._control.close()
        self._wait()


def forked_by(parent: Callable[[], Parent]) -> Callable[..., ForkServer]:
    """Return what stands in for :meth:`ForkServer.launch`: it forks what imports as much as fork servers of clusters.

    ``parent``: called once, for the first of them.
    """
    only = functools.cache(parent)

    def launch(preload: Sequence[str] = PRELOAD, environment: Mapping[str, str] | None = None) -> ForkServer:
        if not set(PRELOAD) <= set(preload):
            return _fresh(preload, environment)
        return only().launch(preload, environment or {})

    return launch


@pytest.fixture(scope="session", autouse=True)
def forked_servers() -> Iterator[None]:
    """The fork servers of clusters are forked; the process that forks them starts with the first cluster."""
    if not hasattr(os, "pidfd_open"):
        yield
        return
    parents: list[Parent] = []

    def start() -> Parent:
        parents.append(Parent())
        return parents[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ForkServer, "launch", forked_by(start))
        yield
    for each in parents:
        each.close()


@pytest.fixture(scope="module")
def fresh_servers(forked_servers: None) -> Iterator[None]:
    """The fork servers of this module are fresh interpreters, as those of users are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ForkServer, "launch", _fresh)
        yield


# -- in the parent process --------------------------------------------------------------------------------------------


def _fresh_main(control: int) -> None:
    """The same as ``_main`` in a fresh interpreter, with the code of active replicas."""
    with fork_server.without_threads("the code of active replicas"):
        duplicate_code.COMPILED.loaded()
    _main(control)


def _main(control: int) -> None:
    """Import everything, and fork fork servers until the test's process has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if fault := fork_server.import_all(PRELOAD):
        raise RuntimeError(fault)
    orders = socket.socket(fileno=control)
    ended = selectors.DefaultSelector()
    ended.register(orders, selectors.EVENT_READ)
    while True:
        for key, _ in ended.select():
            if key.fileobj is not orders:
                ended.unregister(key.fd)
                os.close(key.fd)
                os.waitpid(key.data, 0)
                continue
            data, descriptors, _, _ = socket.recv_fds(orders, LARGEST, 3)
            if not data:
                return
            pid = _fork(orders, json.loads(data), descriptors)
            orders.send(str(pid).encode())
            orders.recv(64)  # it is not reaped before the test's process has a descriptor of it
            ended.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)


def _fork(orders: socket.socket, order: Mapping[str, Any], descriptors: list[int]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads that libraries started
        pid = os.fork()
    if pid:
        for descriptor in descriptors:
            os.close(descriptor)
        return pid
    orders.close()
    control, out, err = descriptors
    for descriptor, standard in ((out, 1), (err, 2)):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    fork_server._main(control, order["path"], order["preload"])
    raise AssertionError("a fork server ends its process")
