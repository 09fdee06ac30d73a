"""The process that executes one function of one's own for a peer: it answers calls until its peer is gone.

What is read here comes from the peer that started it, by a socket that nobody else has. Code is read here only, so what
it does when it is read, too, harms nobody but its own application.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Final

import msgspec
import polars as pl
import pyarrow as pa

from synergy_nb.connectors.own_sources import SourceCalls
from synergy_nb.dataflow.functions.calls import FunctionError, FunctionTask, LocalCalls, brief, unpacked

__all__ = ["ENVIRONMENT", "HEAD", "ask", "main", "read", "receive", "send", "written"]

YOUNG: Final = 100_000  # new objects after which cycles are looked for
TOLD_S: Final = 0.05  # least time between two messages of progress, seconds
#: One component has one thread, as at the peer.
ENVIRONMENT: Final = {
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
HEAD: Final = 8  # bytes of the length before a header, and of that before a table


def send(connection: socket.socket, header: object, table: bytes | memoryview = b"") -> None:
    """Send a header, and a table or nothing."""
    head = msgspec.msgpack.encode(header)
    connection.sendall(len(head).to_bytes(HEAD) + len(table).to_bytes(HEAD) + head)
    if len(table):
        connection.sendall(table)


def receive(connection: socket.socket) -> tuple[bytes, bytearray] | None:
    """Receive a header and a table; None at the end."""
    lengths = ask(connection, 2 * HEAD)
    if lengths is None:
        return None
    head = ask(connection, int.from_bytes(lengths[:HEAD]))
    table = ask(connection, int.from_bytes(lengths[HEAD:]))
    return None if head is None or table is None else (bytes(head), table)


def written(table: pl.DataFrame) -> memoryview:
    """Write a table as Polars holds it: with its views of text, which cost most of the time otherwise."""
    arrow = table.to_arrow(compat_level=pl.CompatLevel.newest())
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, arrow.schema) as writer:
        writer.write_table(arrow)
    return memoryview(stream.getvalue())


def read(data: bytearray) -> pl.DataFrame:
    """Read a table that :func:`written` has written, whose memory it becomes."""
    table = pl.from_arrow(pa.ipc.open_stream(pa.py_buffer(data)).read_all())
    assert isinstance(table, pl.DataFrame)
    return table


def ask(connection: socket.socket, size: int) -> bytearray | None:
    """Receive so many bytes; None at the end."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        got = connection.recv_into(view)
        if not got:
            return None
        view = view[got:]
    return data


def main(descriptor: int, life: int) -> None:
    """FunctionAnswer the calls that come by a socket, until it is closed; never return.

    ``life``: descriptor of a pipe whose other end is the peer: when that is closed, the peer is gone.
    """
    os.environ.update(ENVIRONMENT)  # what is loaded later reads it
    threading.Thread(target=_watch, args=(life,), name="watches the peer", daemon=True).start()
    gc.freeze()
    gc.set_threshold(YOUNG)  # a batch is thousands of rows, none of which is part of a cycle
    connection = socket.socket(fileno=descriptor)
    calls: LocalCalls | SourceCalls | None = None
    memory = _Memory()
    with contextlib.suppress(OSError):
        while (message := receive(connection)) is not None:
            header, data = message
            try:
                if calls is None:
                    calls = _begun(header, bytes(data), _Progress(connection))
                    send(connection, {"base": memory.base, "used": memory.used})
                    continue
                what, low = msgspec.msgpack.decode(header, type=tuple[str, int])
                answer = calls.call(what, read(data), low)
                told = {"keys": answer.keys, "size": answer.size, "used": memory.used}
                send(connection, told, written(answer.table))
            except FunctionError as error:
                send(connection, {"error": str(error)})
            except MemoryError:
                send(connection, {"memory": True})
            except BaseException as error:  # noqa: BLE001 - even an exit is the fault of the function alone
                what = f"function {calls.name!r}" if calls is not None else "a function that cannot be read"
                plain = calls is None and isinstance(error, ValueError)
                send(connection, {"error": str(error) if plain else f"{what}: {brief(error)}"})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Progress:
    """Tells the peer, at most a few times a second, that the author's code has returned from one more call."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._told = time.monotonic()

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._told > TOLD_S:
            self._told = now
            send(self._connection, {"progress": True})


def _begun(header: bytes, payload: bytes, progressed: _Progress) -> LocalCalls | SourceCalls:
    """Limit the memory, and read the function."""
    limit, *fields = msgspec.msgpack.decode(header)
    task = FunctionTask(*fields)
    with contextlib.suppress(OSError, ValueError, ImportError):  # where there is no such limit, the peer watches
        import resource  # noqa: PLC0415 - Windows has none

        used = _private_bytes()
        if used:
            resource.setrlimit(resource.RLIMIT_DATA, (used + int(limit), used + int(limit)))
    content = unpacked(task.function, payload)
    return SourceCalls(content, task) if content.kind == "source" else LocalCalls(content, task, progressed)


def _private_bytes() -> int:
    """Private memory of this process that may be written, bytes; 0 where it is unknown."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else ()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmData")), 0)


class _Memory:
    """Memory of this process that it shares with no file; nothing is known where the system does not tell."""

    def __init__(self) -> None:
        self._page = mmap.PAGESIZE
        self._counts = -1  # descriptor of the file that has the numbers of pages, which is read after each call
        with contextlib.suppress(OSError):
            self._counts = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self.base = self._bytes()  # bytes before there was a function

    @property
    def used(self) -> int:
        """Bytes beside those."""
        return self._bytes() - self.base

    def _bytes(self) -> int:
        if self._counts < 0:
            return 0
        _, resident, shared, *_ = os.pread(self._counts, 256, 0).split()
        return (int(resident) - int(shared)) * self._page


def _watch(life: int) -> None:
    os.read(life, 1)  # nothing is ever written: it returns when the peer has ended
    os._exit(1)
