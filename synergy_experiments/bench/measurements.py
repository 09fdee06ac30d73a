"""Common parts of all measurements: repeated runs, quantiles, CPU and memory of processes, and the form of a result."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any

import psutil

__all__ = ["Usage", "machine_load", "measurement", "quantile", "spread"]


def quantile(values: Iterable[float], fraction: float) -> float:
    """The value at ``fraction`` of the sorted values, interpolated.

    >>> quantile([3.0, 1.0, 2.0], 0.5)
    2.0
    """
    ranked = sorted(values)
    place = fraction * (len(ranked) - 1)
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (place - low)


def spread(runs: Sequence[float], *, digits: int = 6) -> dict[str, Any]:
    """Results of repeated runs: all of them, the median, the least and the greatest.

    >>> spread([2.0, 1.0, 4.0])
    {'median': 2.0, 'least': 1.0, 'most': 4.0, 'runs': [2.0, 1.0, 4.0]}
    """
    rounded = [round(run, digits) for run in runs]
    return {"median": statistics.median(rounded), "least": min(rounded), "most": max(rounded), "runs": rounded}


def measurement(name: str, value: float, unit: str, detail: dict[str, Any] | None = None) -> dict[str, Any]:
    """One entry of the documented form; ``unit`` is s, tuples/s, events/s, hops, calls, MB or cores."""
    return {"name": name, "value": value, "unit": unit, "detail": detail or {}}


def machine_load() -> dict[str, Any]:
    """Load of the machine by other work, which slows a measurement down, CPU times included."""
    return {"cores": os.cpu_count() or 1, "load_average": [round(load, 2) for load in os.getloadavg()]}


class Usage:
    """CPU seconds that processes use between entering and leaving, and their memory.

    Parameters
    ----------
    processes
        Process ids.
    descendants
        Whether to count the processes that they start, such as a JVM, too, also after these have ended.

    Attributes
    ----------
    wall, cpu : float
        Seconds, after leaving.
    """

    def __init__(self, processes: Iterable[int], *, descendants: bool = False) -> None:
        self._processes = [psutil.Process(pid) for pid in processes]
        self._descendants = descendants
        self.wall = self.cpu = 0.0

    def __enter__(self) -> Usage:
        self._began, self._before = time.perf_counter(), self._used()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wall, self.cpu = time.perf_counter() - self._began, self._used() - self._before

    def _used(self) -> float:
        if not self._descendants:
            return float(sum(sum(process.cpu_times()[:2]) for process in self._processes))
        total = 0.0
        for process in self._processes:
            family = [process]
            with suppress(psutil.NoSuchProcess):  # the process itself may have ended, which is for its owner to tell
                family += process.children(recursive=True)
            for each in family:
                with suppress(psutil.NoSuchProcess):  # it has just ended, and is counted with who started it
                    total += sum(each.cpu_times()[:4])  # its own, and of its children that ended
        return total

    def memory(self) -> list[float]:
        """Proportional set size of each process in MB: shared pages count by share; resident where there is no PSS."""
        found = [process.memory_full_info() for process in self._processes]
        return [getattr(each, "pss", each.rss) / 1e6 for each in found]
