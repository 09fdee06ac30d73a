"""Measurements of a peer's machine: CPU load, memory and ping times, as rows of a live stream.

The monitoring module of section 2.2.2 of the dissertation: processor load is derived from the idle time that the
system counts. Nothing here starts a thread or reads a clock: the feed of the source reads the counters regularly and
calls :func:`sample` with the latest ping times, which the overlay measures anyway. A reading takes 0.1 ms.

Rows are (time, peer, metric, target, value):

========  ===========  ================================================================================
metric    target       value
========  ===========  ================================================================================
cpu       ``process``  CPU time that this process used, as a fraction of all the machine's cores, 0 to 1
cpu       ``machine``  fraction of all the machine's cores that was busy, 0 to 1
memory    ``process``  resident bytes of this process
memory    ``machine``  bytes in use on this machine
ping      a peer       round-trip time to that peer in seconds
========  ===========  ================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import psutil


class Counters(NamedTuple):
    """Readings of a machine; CPU times never fall, so a load is the difference of two readings.

    ``process``, ``busy``, ``idle``: CPU seconds of this process, of all processes, and unused, summed over the cores.
    ``resident``, ``used``: bytes of this process and of the machine. ``cores``: number of cores of the machine.
    """

    process: float
    busy: float
    idle: float
    resident: int
    used: int
    cores: int


class Row(NamedTuple):
    """One measurement of one peer."""

    metric: str
    target: str
    value: float


def read_counters() -> Counters:
    """Read the counters."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # user time counts them already
    process = psutil.Process()
    with process.oneshot():
        used, resident = process.cpu_times(), process.memory_info().rss
    memory = psutil.virtual_memory()
    return Counters(
        process=used.user + used.system,
        busy=sum(times) - guests - idle,
        idle=idle,
        resident=resident,
        used=memory.total - memory.available,
        cores=psutil.cpu_count() or 1,
    )


def resident() -> int:
    """Return the resident bytes of this process."""
    return int(psutil.Process().memory_info().rss)


def sample(previous: Counters | None, current: Counters, pings: Mapping[str, float] | None = None) -> list[Row]:
    """Return the rows for the time between two readings.

    ``previous``: previous reading; None: there is no row for CPU load yet; ``current``: present reading; ``pings``:
    peer to the latest round-trip time, seconds.
    """
    rows = []
    if previous is not None:
        busy = max(current.busy - previous.busy, 0.0)
        # Linux may take back some idle time; a negative difference means none.
        total = busy + max(current.idle - previous.idle, 0.0)
        own = max(current.process - previous.process, 0.0)
        if total > 0:  # else less than one tick has passed
            rows.append(Row("cpu", "process", min(own / total, 1.0)))
            rows.append(Row("cpu", "machine", busy / total))
    rows.append(Row("memory", "process", float(current.resident)))
    rows.append(Row("memory", "machine", float(current.used)))
    rows.extend(Row("ping", target, float(value)) for target, value in sorted((pings or {}).items()))
    return rows
