"""What a peer's machine does: CPU load, memory and ping times, as rows of a live stream.

The monitoring module of section 2.2.2 of the dissertation: processor load is inferred from the idle time in ``/proc``.
Nothing here starts a thread or looks at a clock: who runs the source reads the counters every so often and calls
:func:`sample` with the latest ping times, which the overlay measures anyway. A reading opens four small files.

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

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Counters", "Row", "parse_proc", "read_counters", "resident", "sample"]

PROC: Final = ("/proc/stat", "/proc/meminfo", "/proc/self/stat", "/proc/self/statm")


class Counters(NamedTuple):
    """Readings of a machine; CPU times only ever grow, so a load is the difference of two.

    ``process``, ``busy``, ``idle``: CPU seconds used by this process, used by all, and unused, summed over the cores.
    ``resident``, ``used``: bytes of this process and of the machine. ``cores`` of the machine.
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


def parse_proc(stat: str, meminfo: str, self_stat: str, self_statm: str, ticks: int, page: int) -> Counters:
    """Counters from the texts of Linux's ``/proc`` (proc(5)).

    Parameters
    ----------
    stat, meminfo, self_stat, self_statm
        Texts of ``/proc/stat``, ``/proc/meminfo``, ``/proc/self/stat`` and ``/proc/self/statm``.
    ticks
        Clock ticks a second.
    page
        Bytes of a page.

    Raises
    ------
    ValueError
        If a text is not of the known form; the message names the file.
    """
    try:
        lines = stat.splitlines()
        times = [int(field) for field in lines[0].split()[1:9]]
        if not lines[0].startswith("cpu ") or len(times) < 4:
            raise ValueError
        cores = sum(line.startswith("cpu") and line[3:4].isdigit() for line in lines)
    except (ValueError, IndexError):
        raise ValueError(f"/proc/stat: {stat[:40]!r}; expected 'cpu' and the times of all cores") from None
    idle = sum(times[3:5])  # idle, and waiting for input or output
    # The name of the command, in parentheses, may hold spaces and parentheses of its own.
    fields = self_stat.rpartition(")")[2].split()
    if len(fields) < 13 or not (fields[11].isdigit() and fields[12].isdigit()):
        raise ValueError(f"/proc/self/stat: {self_stat[:40]!r}; expected user and system time as fields 14 and 15")
    sizes = {}
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable") and rest.split():
            sizes[name] = int(rest.split()[0]) * 1024
    if len(sizes) < 2:
        raise ValueError(f"/proc/meminfo: {meminfo[:40]!r}; expected MemTotal and MemAvailable")
    pages = self_statm.split()
    if len(pages) < 2 or not pages[1].isdigit():
        raise ValueError(f"/proc/self/statm: {self_statm[:40]!r}; expected resident pages as field 2")
    return Counters(
        process=(int(fields[11]) + int(fields[12])) / ticks,
        busy=(sum(times) - idle) / ticks,
        idle=idle / ticks,
        resident=int(pages[1]) * page,
        used=sizes["MemTotal"] - sizes["MemAvailable"],
        cores=max(cores, 1),
    )


def read_counters() -> Counters:
    """The counters now: from ``/proc``, and where there is none (macOS, Windows) from psutil."""
    try:
        texts = [Path(name).read_text(encoding="ascii", errors="replace") for name in PROC]
    except FileNotFoundError:
        return _psutil_counters()
    return parse_proc(texts[0], texts[1], texts[2], texts[3], os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGESIZE"))


def resident() -> int:
    """Bytes of this process that are in memory; reads one small file."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    except FileNotFoundError:
        return int(importlib.import_module("psutil").Process().memory_info().rss)
    return int(pages) * os.sysconf("SC_PAGESIZE")


def _psutil_counters() -> Counters:
    psutil = importlib.import_module("psutil")  # a dependency of distributed; on Linux it is not needed here

    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    own = psutil.Process()
    used = own.cpu_times()
    memory = psutil.virtual_memory()
    return Counters(
        process=used.user + used.system,
        busy=sum(times) - idle,
        idle=idle,
        resident=own.memory_info().rss,
        used=memory.total - memory.available,
        cores=psutil.cpu_count() or 1,
    )


def sample(previous: Counters | None, current: Counters, pings: Mapping[str, float] | None = None) -> list[Row]:
    """What happened between two readings.

    Parameters
    ----------
    previous
        The reading before; None: no CPU load is known yet, and no row tells one.
    current
        The reading now.
    pings
        Latest round-trip times in seconds, by peer.
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
