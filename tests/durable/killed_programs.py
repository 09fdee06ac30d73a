"""Programs with a durable cluster, killed with all that they have started, and the files that they read and write."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil


@contextlib.contextmanager
def program(folder: Path | str, peers: int, plan: Path | None = None, *, spark: bool = False) -> Iterator[None]:
    """A program with a durable cluster; at the end it is killed, with all that it has started, also Spark's server."""
    arguments = [str(folder), str(peers), "spark" if spark else "off", *(() if plan is None else [str(plan)])]
    command = [sys.executable, "-m", "tests.durable.durable_program", *arguments]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], start_new_session=True)
    try:
        yield
    finally:
        started = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGKILL)
        for each in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()


def append(path: Path, begin: int, end: int) -> None:
    with path.open("a") as file:
        file.writelines(f"{number / 1000},{number}\n" for number in range(begin, end))


def values(path: Path) -> list[str]:
    """Values of the rows of a CSV file that are complete."""
    if not path.exists():
        return []
    return [line.split(",")[1] for line in path.read_text("utf-8").split("\n")[1:-1]]
