"""The fork server of Spark's Python workers: it has imported what they need, and forks them on request.

Spark starts Python anew for each source of a query, and for each kind of worker: to look up a source, to plan its
reading, to read, to write. Each of these imports PySpark, from an archive without compiled code, and pyarrow: 1.5 s of
a processor, most of the time in which a query starts. So the server's ``PYSPARK_PYTHON`` is a program
(:mod:`spark_stream._worker_launcher`) that has the worker forked here instead.

Measured with a server without an archive of classes, on two cores with two other busy processes: the rows of a first
query were there after 29 and 31 s rather than 38, those of later ones after 5 to 7 s rather than 8 to 9; a later query
took 7.6 s of a processor rather than 9.7.

A forked worker has the arguments, variables, folder and standard streams that Spark gave it, and its exit code reaches
Spark. It ends when its launcher does, or this process. The random numbers of workers differ.

This runs on Linux alone: elsewhere it is not safe to fork a process whose libraries may have started threads.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn

from spark_stream._supervisor import PR_SET_PDEATHSIG
from spark_stream._worker_launcher import SIZE

#: What Python workers import.
PRELOAD: Final = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyarrow.flight",
)
REQUEST_WITHIN: Final = 10.0  # time limit for a launcher to send its request, seconds
SIGNALLED: Final = 128  # base of the exit code of a worker that a signal has ended; the number of the signal is added


class _Worker(NamedTuple):
    """A forked worker: its process id, the descriptor of its process, and the connection of its launcher."""

    pid: int
    process: int
    launcher: socket.socket


def serve(listener: socket.socket) -> NoReturn:
    """Fork a worker for each connection to ``listener``, for ever.

    ``listener``: socket that listens for launchers.
    """
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            worker: _Worker | None = key.data
            if worker is None:
                with contextlib.suppress(OSError, ValueError):  # the launcher has ended meanwhile
                    launcher, _ = listener.accept()
                    _answer(launcher, selector)
            elif key.fileobj is not worker.launcher:
                _reap(worker, selector)
            elif worker.launcher.fileno() >= 0:  # the worker was not reaped a moment ago
                selector.unregister(worker.launcher)  # it has ended, so the worker has to end, too
                signal.pidfd_send_signal(worker.process, signal.SIGTERM)


def _answer(launcher: socket.socket, selector: selectors.BaseSelector) -> None:
    """Fork the worker that a launcher asks for."""
    streams: list[int] = []
    try:
        launcher.settimeout(REQUEST_WITHIN)
        size, streams, _, _ = socket.recv_fds(launcher, SIZE, 3)
        request = b""
        while len(request) < int.from_bytes(size, "big"):
            piece = launcher.recv(1 << 16)
            if not piece:
                raise ConnectionError("the launcher has ended")
            request += piece
        order = json.loads(request)
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads that libraries started; workers do not have these
            pid = os.fork()
        if pid == 0:
            _become(order, streams, launcher, selector, parent)
    except BaseException:
        launcher.close()
        raise
    finally:
        for each in streams:
            os.close(each)
    worker = _Worker(pid, os.pidfd_open(pid), launcher)
    selector.register(launcher, selectors.EVENT_READ, worker)
    selector.register(worker.process, selectors.EVENT_READ, worker)


def _reap(worker: _Worker, selector: selectors.BaseSelector) -> None:
    """Tell the launcher of a worker that has ended its exit code."""
    code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
    selector.unregister(worker.process)
    os.close(worker.process)
    with contextlib.suppress(KeyError):  # the launcher ended first
        selector.unregister(worker.launcher)
    with worker.launcher, contextlib.suppress(OSError):
        worker.launcher.sendall((code if code >= 0 else SIGNALLED - code).to_bytes(SIZE, "big"))


# -- in the worker -----------------------------------------------------------------------------------------------------


def _become(
    order: Mapping[str, Any],
    streams: list[int],
    launcher: socket.socket,
    selector: selectors.BaseSelector,
    parent: int,
) -> NoReturn:
    """Be the worker that a launcher asks for, and end with its exit code."""
    code: Any = 1
    try:
        _die_with(parent)
        for key in list(selector.get_map().values()):
            os.close(key.fd)
        selector.close()
        launcher.close()  # what this worker forks may live longer than it does
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(order["environment"])
        if os.environ.get("PYTHONUNBUFFERED"):
            sys.stdout, sys.stderr = _unbuffered(1), _unbuffered(2)
        os.chdir(order["folder"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _, module, *rest = order["arguments"]
        sys.argv = [module, *rest]
        named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:0] = [order["folder"], *(path for path in named if path and path not in sys.path)]
        sys.modules.pop(module, None)  # it runs as the main module
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code
        if code is not None and not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()
        for text in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):  # it may be closed
                if text is not None:
                    text.flush()
        os._exit(code & 0xFF if isinstance(code, int) else int(code is not None))


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _unbuffered(descriptor: int) -> io.TextIOWrapper:
    """A text stream to a descriptor that writes without delay."""
    raw = io.FileIO(descriptor, "wb", closefd=False)
    return io.TextIOWrapper(raw, errors="backslashreplace", write_through=True)


def _draw_anew() -> None:
    """Give a forked process random numbers of its own, as a fresh one has; Python itself does so for ``random``."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def main(descriptor: int) -> None:
    """Entry: ``python -P -m spark_stream._worker_fork_server DESCRIPTOR``, that of a socket that listens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as Spark sets for a worker that has one core
    gc.disable()
    for module in PRELOAD:
        with contextlib.suppress(Exception):  # only a head start: a worker that needs it will report the error
            importlib.import_module(module)
    gc.enable()
    gc.collect()
    gc.freeze()  # collections in the workers skip these objects, and so share their pages
    os.register_at_fork(after_in_child=_draw_anew)
    serve(socket.socket(fileno=descriptor))


if __name__ == "__main__":
    main(int(sys.argv[1]))
