"""This program, as it claims a durable folder in an object store (:mod:`synergy_nb.durable`)."""

from __future__ import annotations

import platform
import threading
import time
import uuid
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import psutil

__all__ = ["ProcessClaimant"]


class ProcessClaimant:
    """This process. See :class:`synergy_nb.durable._places.Claimant`."""

    @cached_property
    def token(self) -> str:
        """A number that no other one has."""
        return uuid.uuid4().hex

    @cached_property
    def machine(self) -> str:
        """The machine, with the time at which it was started."""
        try:
            processes = str(Path("/proc/self/ns/pid").readlink())  # containers do not see each other's processes
        except OSError:
            processes = ""
        return f"{uuid.getnode():x} {platform.node()} {psutil.boot_time():.0f} {processes}"

    @cached_property
    def process(self) -> str:
        """The number of the process, which others have later, and the second in which it was started."""
        me = psutil.Process()
        return f"{me.pid} {me.create_time():.0f}"

    def lives(self, process: str) -> bool:
        """Whether a process of this machine lives."""
        number, _, began = process.partition(" ")
        try:
            return bool(abs(psutil.Process(int(number)).create_time() - float(began)) < 2.0)
        except psutil.NoSuchProcess:
            return False

    def wait(self, seconds: float) -> None:
        """Wait for a while."""
        time.sleep(seconds)

    def every(self, seconds: float, step: Callable[[], bool]) -> Callable[[], None]:
        """Take a step again and again, on a thread, until it returns False; return what ends that, and waits for it."""
        ended = threading.Event()

        def take() -> None:
            while not ended.wait(seconds) and step():
                pass

        thread = threading.Thread(target=take, name="synergy claim", daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            thread.join()

        return end
