"""``durable``: the time in which applications go on after the death of everything, and what a durable folder costs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from synergy_experiments.bench.measurements import machine_load, measurement, spread
from synergy_experiments.bench.rivals import reference
from synergy_experiments.bench.throughput import query, ran, tuples, written
from synergy_nb.durable.folder import DurableFolder
from synergy_nb.runtime.client.cluster import Cluster

__all__ = ["durable"]

TARGET: Final = 10.0  # seconds for 50 applications
PROGRAM: Final = """
import sys, threading
from synergy_nb import Cluster, source
cluster = Cluster(int(sys.argv[2]), spark=False, durable=sys.argv[1])
for number in range(int(sys.argv[3])):
    packets = source("packets", rate="20 tuples/s", duration="1 h", seed=number)
    cluster.submit(packets.filter("bytes > 100").count(window="1 s", name=f"application {number}").sink())
print("ready", flush=True)
threading.Event().wait()
"""


def durable(*, small: bool = False) -> dict[str, Any]:
    """Seconds from the start of a cluster until all applications of its folder run again, after all were killed.

    In the detail, what the query of ``dataflow`` costs with a folder and without, in turn.
    """
    applications, peers, count, repeats = (2, 2, 20_000, 1) if small else (50, 8, 4_000_000, 3)
    before = machine_load()
    restarts = [_restarted(applications, peers) for _ in range(repeats)]
    costs = _costs(count, repeats)
    seconds = spread([total for total, _ in restarts], digits=3)
    detail = {
        "way": f"{applications} applications of four components, at 20 tuples/s each, on {peers} peers, all killed",
        "seconds": seconds,
        "of_these_starting_peers": spread([started for _, started in restarts], digits=3),
        "target": TARGET,
        **costs,
        "with_to_without": _ratio(costs["tuples/s"]),
        "cpu_with_to_without": _ratio(costs["cpu_s"]),
        "tuples": count,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("durable", seconds["median"], "s", detail)


def _restarted(applications: int, peers: int) -> tuple[float, float]:
    """Seconds until all applications run again, and those of them in which peers without a folder start."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "folder"
        command = [sys.executable, "-c", PROGRAM, str(path), str(peers), str(applications)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True) as program:
            assert program.stdout is not None
            program.stdout.readline()
            time.sleep(2.0)  # until each has been saved
            os.killpg(program.pid, signal.SIGKILL)
        assert len(DurableFolder(path).applications()) == applications
        began = time.perf_counter()
        with Cluster(peers, spark=False):
            started = time.perf_counter() - began
        began = time.perf_counter()
        with Cluster(peers, spark=False, durable=path) as cluster:
            running = [each for each in cluster.applications.values() if each.status == "running"]
            total = time.perf_counter() - began
            assert len(running) == applications, f"{len(running)} of {applications} go on"
    return total, started


def _costs(count: int, repeats: int) -> dict[str, Any]:
    """Tuples/s, processor seconds and MB written of the query, whose rows are asserted to be right."""
    table = tuples(count)
    expected = reference(table)
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        files, kept = written(table, Path(folder)), Path(folder) / "folder"
        with Cluster(2, spark=False) as plain, Cluster(2, spark=False, durable=kept) as durable_one:
            for repeat in range(repeats + 1):  # the first warms up
                for way, cluster in (("with a folder", durable_one), ("without", plain)):
                    before = _written_mb(cluster)
                    seconds, cpu, rows = ran(cluster, query(files["parquet"], early=False))
                    assert rows == expected, "rows differ from those of the batch query"
                    if repeat or repeats == 1:
                        mb = _written_mb(cluster) - before
                        for what, value in (("tuples/s", count / seconds), ("cpu_s", cpu), ("written_mb", mb)):
                            found.setdefault(what, {}).setdefault(way, []).append(value)
    return {what: {way: spread(each, digits=3) for way, each in ways.items()} for what, ways in found.items()}


def _ratio(ways: dict[str, Any]) -> float:
    """How many times as much it is with a folder."""
    with_it, without = (float(ways[way]["median"]) for way in ("with a folder", "without"))
    return round(with_it / max(without, 1e-9), 3)


def _written_mb(cluster: Cluster) -> float:
    """MB that the peers of a cluster have written to files so far; 0 where the system does not count them."""
    total = 0
    for state in cluster.states().values():
        counts = Path(f"/proc/{0 if state is None else state.pid}/io")
        with contextlib.suppress(OSError):
            total += int(dict(line.split(": ") for line in counts.read_text().splitlines())["write_bytes"])
    return total / 1e6
