"""Network namespaces of a test: machines with addresses of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from tests.waiting import DEADLINE

__all__ = ["inside", "namespaces_made", "run"]


def run(*command: str) -> None:
    """Run a command that has to succeed."""
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)


def inside(name: str, *command: str) -> list[str]:
    """The command that runs another one in a namespace."""
    return ["ip", "netns", "exec", name, *command]


def _remove_left_over(name: str) -> None:
    """Delete a namespace that a killed run has left, without which this one would skip its test; not one in use."""
    there = subprocess.run(["ip", "netns", "pids", name], capture_output=True, check=False, timeout=DEADLINE)
    if there.returncode == 0 and not there.stdout.strip():
        run("ip", "netns", "delete", name)


@contextmanager
def namespaces_made(names: Sequence[str], *commands: Sequence[str]) -> Iterator[None]:
    """Make namespaces and, by ``commands``, what connects them; skip the test where that is not possible."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need the command ip, and root")
    with ExitStack() as stack:
        try:
            for name in names:
                _remove_left_over(name)
                run("ip", "netns", "add", name)
                stack.callback(subprocess.run, ["ip", "netns", "delete", name], check=False)
            for command in commands:
                run(*command)
        except (OSError, subprocess.SubprocessError) as error:
            pytest.skip(f"network namespaces cannot be made here: {error}")
        yield
