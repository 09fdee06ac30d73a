"""The process between a Spark server and its owner: it ensures that no part of the server outlives the owner.

It is started as a file, by an interpreter without site packages, so that it starts within milliseconds and is small. It
creates the server's folder, starts the server on command, and reports its state, one JSON object per line: commands
arrive on its standard input, and reports go to its standard output. When its input ends, because the owner has closed
it or has ended in any way, it kills the server with all its descendants, removes the folder and exits.

On Linux it is the parent of all orphans among its descendants, so it finds Python workers whose server has ended; and
the kernel kills the server if the supervisor is killed. On other systems the server's workers end by themselves, since
their input ends with the server.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

PREFIX: Final = "synergy-spark-"  # beginning of the name of a server's folder
GLANCE: Final = 0.05  # seconds between looks into the log of a server that is starting
ROUND: Final = 1.0  # seconds between looks for the owner
LONGEST_LOG: Final = 64 << 20  # maximum size of a log, bytes
PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
IS_LINUX: Final = sys.platform == "linux"


class Supervisor:
    """Runs one server at a time, and ends it with all that belongs to it."""

    def __init__(self, folder: Path, owner: int) -> None:
        self._folder = folder
        self._owner = owner  # process id of the owner
        self._server: subprocess.Popen[bytes] | None = None
        self._starting: tuple[str, float] | None = None  # what its log says when it is ready, and until when
        self._fork_server: subprocess.Popen[bytes] | None = None
        self._seen = 0  # bytes of the log that have been looked through
        self._orders = b""
        self._bell, ring = os.pipe()
        os.set_blocking(ring, False)
        os.set_blocking(self._bell, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Execute commands until the owner has ended."""
        while os.getppid() == self._owner:
            ready, _, _ = select.select([0, self._bell], [], [], GLANCE if self._starting else ROUND)
            if self._bell in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._bell, 1 << 12)
                self._reap()
            if self._starting:
                self._look()
            if 0 in ready:
                data = os.read(0, 1 << 16)
                if not data:
                    return
                *orders, self._orders = (self._orders + data).split(b"\n")
                for order in orders:
                    self._start(json.loads(order))
            if not self._starting:
                shorten(self._folder / "server.log", LONGEST_LOG)

    def _start(self, order: dict[str, Any]) -> None:
        if "socket" in order:
            (self._folder / order["socket"]).unlink(missing_ok=True)  # that of the server before
        if order["workers"]:
            self._start_workers(order["workers"], order["environment"])
        with (self._folder / "server.log").open("ab") as log:
            self._seen = log.tell()
            try:
                self._server = subprocess.Popen(
                    order["command"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._folder,
                    env=order["environment"],
                    preexec_fn=_die_with_parent if IS_LINUX else None,  # noqa: PLW1509 - this process has one thread
                )
            except OSError as error:
                notify(exited=-1, why=str(error))
                return
        self._starting = (order["ready"], time.monotonic() + order["timeout"])
        notify(started=self._server.pid)

    def _look(self) -> None:
        """Check the log for whether the server that is starting is ready."""
        assert self._starting is not None
        assert self._server is not None
        sign, until = self._starting
        with (self._folder / "server.log").open("rb") as log:
            log.seek(max(0, self._seen - len(sign)))  # the sign may have been cut in two
            new = log.read()
            self._seen = log.tell()
        if sign.encode() in new:
            self._starting = None
            notify(ready=self._server.pid)
        elif time.monotonic() > until:
            self._starting = None
            self._server.kill()
            notify(late=True)

    def _start_workers(self, workers: dict[str, Any], environment: dict[str, str]) -> None:
        """Start the fork server of Python workers, which imports while the server starts."""
        log = self._folder / "server.log"
        folder = os.open(self._folder, os.O_RDONLY)
        path = f"/proc/self/fd/{folder}/{workers['socket']}"  # never too long for an address
        try:
            Path(path).unlink(missing_ok=True)  # that of the server before
            with socket.socket(socket.AF_UNIX) as listener, log.open("ab") as output:
                listener.bind(path)
                listener.listen()
                self._fork_server = subprocess.Popen(  # reaped as all children are
                    [*workers["command"], str(listener.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._folder,
                    env=environment,
                    pass_fds=[listener.fileno()],
                    preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
                )
        except OSError as error:  # workers start without it, each for itself
            with log.open("a", encoding="utf-8") as output:
                output.write(f"the fork server of Python workers could not be started: {error}\n")
        finally:
            os.close(folder)

    def _reap(self) -> None:
        """Collect all children that have ended, and clean up if the server is one of them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._server is not None and pid == self._server.pid:
                self._server.returncode = os.waitstatus_to_exitcode(status)
                code, self._server, self._starting = self._server.returncode, None, None
                self.kill()
                notify(exited=code)

    def kill(self) -> None:
        """Kill the server and all its descendants."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None
        while IS_LINUX and (orphans := _children()):
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in orphans:  # whose own children become ours
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def shorten(log: Path, longest: int) -> None:
    """Empty a log that is longer than ``longest`` bytes; a process that appends to it continues at its new end."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > longest:
            os.truncate(log, 0)


def notify(**news: Any) -> None:
    """Tell the owner."""
    with contextlib.suppress(OSError):  # it has gone, as the next look shows
        os.write(1, json.dumps(news).encode() + b"\n")


def _children() -> list[int]:
    """Process ids of this process's children."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text("utf-8", "replace").rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(directory: str, owner: int) -> None:
    """Entry: ``python supervisor.py DIRECTORY OWNER``, with the place of the folder and the owner's process id."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    os.umask(0o077)  # what the server and its Python workers write is the owner's alone, wherever it is
    if IS_LINUX:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory)).resolve()
    supervisor = None
    try:
        notify(folder=str(folder))
        supervisor = Supervisor(folder, owner)
        supervisor.serve()
    finally:
        if supervisor is not None:
            supervisor.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
