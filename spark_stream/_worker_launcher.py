"""The program that Spark starts in place of Python: it has a Python worker forked, and stands for that one.

It is started as a file, by an interpreter without site packages, as ``python -I -S worker_launcher.py FOLDER PYTHON
ARGUMENT...``, where FOLDER is the folder of the server, and ``PYTHON ARGUMENT...`` is the command that Spark meant. It
passes its arguments, variables, folder and standard streams to the fork server of Python workers
(:mod:`spark_stream._worker_fork_server`), waits until the worker has ended, and ends with its exit code. If it is ended
before, the fork server ends the worker. Where there is no fork server, it becomes the command that Spark meant.

A worker that opens a session runs :mod:`spark_stream._session_worker`, which finds it at the socket of the server.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Final

SOCKET: Final = "python-workers"  # name of the fork server's socket, in the folder of the server
SIZE: Final = 4  # bytes of the length of a request, and of an exit code
OPENS: Final = "pyspark.sql.connect.streaming.worker."  # beginning of the modules of workers that open a session
SESSION_WORKER: Final = "spark_stream._session_worker"
FAILED: Final = 1  # exit code if the fork server has ended, and the worker with it


def open_path(folder: str) -> tuple[int, str]:
    """Open a folder; return its descriptor, and a path of the socket in it that is never too long for an address."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    return descriptor, f"/proc/self/fd/{descriptor}/{SOCKET}"


def forked(folder: str, arguments: list[str]) -> int | None:
    """Have a Python worker forked, and wait until it has ended; return its exit code, None if there is no fork server.

    ``arguments``: arguments of the interpreter, of which the first is ``-m`` and the second the name of a module.
    """
    order = {"arguments": arguments, "environment": dict(os.environ), "folder": str(Path.cwd())}
    request = json.dumps(order).encode()  # an undecodable byte is a surrogate, which JSON escapes
    with socket.socket(socket.AF_UNIX) as server:
        try:
            descriptor, path = open_path(folder)
            server.connect(path)
            os.close(descriptor)
        except OSError:
            return None
        try:
            socket.send_fds(server, [len(request).to_bytes(SIZE, "big")], [0, 1, 2])
            server.sendall(request)
            code = server.recv(SIZE)
        except OSError:
            code = b""
    return int.from_bytes(code, "big") if code else FAILED


def main(folder: str, python: str, *arguments: str) -> None:
    """Run the command ``python arguments...``, forked where that can be done."""
    if len(arguments) > 1 and arguments[0] == "-m":
        if arguments[1].startswith(OPENS):
            arguments = ("-m", SESSION_WORKER, folder, *arguments[1:])
        code = forked(folder, list(arguments))
        if code is not None:
            os._exit(code)
    os.execv(python, [python, *arguments])  # noqa: S606 - it is the command that Spark meant


if __name__ == "__main__":
    main(*sys.argv[1:])
