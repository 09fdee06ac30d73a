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

import numpy as np
import polars as pl

from synergy_experiments.bench.measurements import Usage, machine_load, measurement, spread
from synergy_experiments.bench.rivals import reference
from synergy_experiments.bench.throughput import query, ran, tuples, written
from synergy_nb.durable.folder import DurableFolder
from synergy_nb.events import SinkFinished, SourceStarted
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.client.cluster import Application, Cluster

__all__ = ["durable", "filled", "totals"]

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
ROW: Final = 36  # bytes of the state of a key
MEMORY: Final = 12.0  # bytes that a peer may use for each of the state: merging is taken to need a multiple of it
SHOWN: Final = 3  # keys whose totals are results
KEYS: Final = {"120 MB": 3_300_000, "1 GB": 28_000_000}  # size of a state, and its keys
HELD_PROGRAM: Final = """
import sys, threading
from synergy_experiments.bench.durables import filled, totals
from synergy_nb import Cluster
cluster = Cluster(2, spark=False, memory=float(sys.argv[4]), durable=sys.argv[1])
application = cluster.submit(totals(sys.argv[2], speed=1.0), origin="peer-2")
while not filled(cluster, application.id, int(sys.argv[3])):
    threading.Event().wait(0.1)
print("ready", flush=True)
threading.Event().wait()
"""


def durable(*, small: bool = False) -> dict[str, Any]:
    """Seconds from the start of a cluster until all applications of its folder run again, after all were killed.

    In the detail, what the query of ``dataflow`` costs with a folder and without, in turn; and what a state costs that
    is large, in the same way, with the time until it is there again.
    """
    applications, peers, count, repeats = (2, 2, 20_000, 1) if small else (50, 8, 4_000_000, 3)
    before = machine_load()
    restarts = [_restarted(applications, peers) for _ in range(repeats)]
    costs = _costs(count, repeats)
    sizes = {"0.1 MB": 3_000} if small else KEYS
    large = {name: _large(keys, repeats=1) for name, keys in sizes.items()}
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
        "large_states": large,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("durable", seconds["median"], "s", detail)


def _restarted(applications: int, peers: int) -> tuple[float, float]:
    """Seconds until all applications run again, and those of them in which peers without a folder start."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "folder"
        command = [sys.executable, "-c", PROGRAM, str(path), str(peers), str(applications)]
        _killed_when_ready(command)
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


def totals(path: Path | str, speed: float = 0.0) -> Plan:
    """Totals by key in a window that does not end before its source; the source on ``peer-1``, all else on ``peer-2``.

    Parameters
    ----------
    path
        Path of the file of tuples.
    speed
        Speed of event time, seconds a second; 0 is as fast as possible.
    """
    columns = {"key": "int", "value": "int"}
    rows = source("trace", path=str(path), format="parquet", columns=columns, speed=speed, at="peer-1")
    shown = f"key < {SHOWN}"
    sums = rows.aggregate(
        by="key", window="1 d", n="count(*)", total="sum(value)", having=shown, id="totals", at="peer-2"
    )
    return sums.sink("sums", at="peer-2")


def filled(cluster: Cluster, application: str, keys: int) -> bool:
    """Whether the aggregate of an application has the state of so many keys."""
    states = [state for state in cluster.states().values() if state is not None]
    found = [each for state in states for each in state.components if each["application"] == application]
    return any(each["operator"] == "totals" and each["memory_bytes"] >= ROW * keys for each in found)


def _of_keys(keys: int, more: int) -> pl.DataFrame:
    """A tuple for each key, in any order, and ``more`` of any keys; 1 µs apart."""
    rng = np.random.default_rng(1)
    chosen = np.concatenate([rng.permutation(keys), rng.integers(0, keys, more)])
    times = pl.Series("time", np.arange(len(chosen))).cast(pl.Datetime("us"))
    return pl.DataFrame([times, pl.Series("key", chosen), pl.Series("value", rng.integers(0, 1000, len(chosen)))])


def _large(keys: int, repeats: int) -> dict[str, Any]:
    """Costs of a state of so many keys, half of which change once it is there; and seconds until it is there again.

    Besides, another application on the peer of the state: the delays of its rows.
    """
    found: dict[str, dict[str, list[float]]] = {}
    memory = max(MEMORY * ROW * keys, 1e9)
    with tempfile.TemporaryDirectory() as folder:
        path, kept = Path(folder) / "tuples.parquet", Path(folder) / "folder"
        table = _of_keys(keys, keys // 2)
        table.write_parquet(path, compression="uncompressed")
        count, expected = table.height, table.filter(pl.col("key") < SHOWN).get_column("value").sum()
        last = table.head(1).with_columns(pl.lit(12 * 3_600_000_000).cast(pl.Datetime("us")).alias("time"))
        pl.concat([table, last]).write_parquet(Path(folder) / "waiting.parquet", compression="uncompressed")
        del table
        with (
            Cluster(2, spark=False, memory=memory) as plain,
            Cluster(2, spark=False, memory=memory, durable=kept) as durable_one,
        ):
            for _ in range(repeats):
                for way, cluster in (("with a folder", durable_one), ("without", plain)):
                    before = _written_mb(cluster)
                    seconds, cpu, p99, total = _ran_beside(cluster, path)
                    assert total == expected, f"the totals are {total}; expected {expected}"
                    mb = _written_mb(cluster) - before
                    figures = {"tuples/s": count / seconds, "cpu_s": cpu, "delay_p99_s": p99, "written_mb": mb}
                    for what, value in figures.items():
                        found.setdefault(what, {}).setdefault(way, []).append(value)
        again = _held_again(Path(folder) / "waiting.parquet", Path(folder) / "again", keys, memory)
    costs = {what: {way: spread(each, digits=4) for way, each in ways.items()} for what, ways in found.items()}
    ratios = {f"{what}_with_to_without": _ratio(costs[what]) for what in ("tuples/s", "cpu_s", "delay_p99_s")}
    return {"keys": keys, "tuples": count, "state_mb": ROW * keys / 1e6, **costs, **ratios, "restart_s": again}


def _ran_beside(cluster: Cluster, path: Path) -> tuple[float, float, float, int]:
    """Seconds and processor seconds of the totals, p99 delay of the rows beside it, seconds, and the sum of totals."""
    packets = source("packets", rate="200 tuples/s", duration="1 h", seed=1, at="peer-1")
    beside = cluster.submit(packets.filter("bytes > 0", at="peer-2").sink("beside", at="peer-2"), origin="peer-2")
    with Usage([state.pid for state in cluster.states().values() if state is not None]) as usage:
        application = cluster.submit(totals(path), origin="peer-2")
        total = int(application.results().get_column("total").sum())
    p99 = beside.qos()["delay_p99_s"]
    for each in (application, beside):
        each.stop()
    return _seconds(application), usage.cpu, 0.0 if p99 is None else float(p99), total


def _seconds(application: Application) -> float:
    times = {type(event): event.time for event in application.events()}
    return times[SinkFinished] - times[SourceStarted]


def _held_again(path: Path, folder: Path, keys: int, memory: float) -> float:
    """Seconds from the start of a cluster until a state is there again, after all were killed that had it."""
    command = [sys.executable, "-c", HELD_PROGRAM, str(folder), str(path), str(keys), str(memory)]
    _killed_when_ready(command)
    (kept,) = DurableFolder(folder).applications()
    began = time.perf_counter()
    with Cluster(2, spark=False, memory=memory, durable=folder) as cluster:
        while not filled(cluster, kept.id, keys):
            assert cluster.applications[kept.id].status not in ("failed", "stopped")
            time.sleep(0.05)
        return round(time.perf_counter() - began, 3)


def _killed_when_ready(command: list[str]) -> None:
    """Start a program, and kill it with all that it has started 2 s after it has said that it is ready."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True) as program:
        assert program.stdout is not None
        said = program.stdout.readline()
        time.sleep(2.0)  # until each has been saved
        os.killpg(program.pid, signal.SIGKILL)
    assert said == b"ready\n", "the program ended before it was ready"


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
