"""A program as on a system without fork, memory files, /proc and POSIX modules: run by ``test_platforms``."""

from __future__ import annotations

import builtins
import os
from typing import Any

POSIX = {"fcntl", "grp", "pwd", "resource", "termios"}
LACKING = (
    "fork", "forkpty", "getloadavg", "killpg", "memfd_create", "pidfd_open", "sched_getaffinity",
    "setpriority", "setsid",
)  # fmt: skip

_import = builtins.__import__


def imported(name: str, globals: Any = None, *rest: Any, **named: Any) -> Any:  # noqa: A002 - as Python calls it
    """Import a module, unless this package asks for one that the other system has not."""
    if name in POSIX and str((globals or {}).get("__name__", "")).startswith(("synergy_nb", "spark_stream")):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _import(name, globals, *rest, **named)


builtins.__import__ = imported
for lacking in LACKING:
    if hasattr(os, lacking):
        delattr(os, lacking)

import synergy_nb  # noqa: E402 - after the system has changed
from synergy_nb import Cluster, Simulation, source  # noqa: E402

for public in synergy_nb.__all__:
    getattr(synergy_nb, public)
packets = source("packets", seed=1, rate="100 tuples/s", duration="2 s", speed=0)
rows = Simulation(peers=3, seed=1).submit(packets.count(window="1 s", name="n").sink()).results()
print(rows.height, "rows")
try:
    Cluster(2)
except synergy_nb.SynergyError as error:
    print(error)
