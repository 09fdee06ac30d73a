"""``ready``, ``compose``, ``hop`` and ``idle``: time and processor time of peers in processes of this machine."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from synergy_experiments.bench.measurements import Usage, machine_load, measurement, quantile, spread
from synergy_nb.events import ApplicationRunning, CandidatesFound, Event, GraphSelected, ProbingEnded, RequestSubmitted
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.client.cluster import Cluster

__all__ = ["added_by_hops", "compose", "hop", "idle", "nine_operators", "paced_tuples", "ready"]

READY: Final = """
import json, sys, time
began = time.time()
from synergy_nb import Cluster, source
from synergy_nb.events import CandidatesFound
imported = time.time()
plan = source("packets", rate=100, duration="1 s", speed=0).filter("bytes > 0").sink("all", delay="5 s")
begin = time.time()
cluster = Cluster(int(sys.argv[1]))
joined = time.time()
application = cluster.submit(plan)
answered = [event for event in application.events() if isinstance(event, CandidatesFound)][-1]
composed = time.time()
found = min(len(hosts) for name, hosts in answered.candidates.items() if name != "sink")
states = cluster.states().values()
ring = min(len(state.neighbours) for state in states) + 1
application.stop()
stopped = time.time()
cluster.close()
print(json.dumps({"import_s": imported - began, "joined_s": joined - begin, "answered_s": answered.time - begin,
    "composed_s": composed - begin, "close_s": time.time() - stopped, "candidates": found, "ring": ring}))
"""
DASK: Final = """
import json, sys, time
began = time.time()
from distributed import Client, LocalCluster
imported = time.time()
if __name__ == "__main__":
    with LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        with Client(cluster) as client:
            client.wait_for_workers(int(sys.argv[1]))
            up = time.time()
    print(json.dumps({"import_s": imported - began, "ready_s": up - imported}))
"""


def _fresh(code: str, *arguments: str) -> dict[str, Any]:
    """The JSON output of ``code``, run as a script by a fresh interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "measured.py"
        script.write_text(code, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        done = subprocess.run(
            [sys.executable, str(script), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"a measured process ended with exit code {done.returncode}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def ready(*, small: bool = False) -> dict[str, Any]:
    """Seconds from ``Cluster(8)`` in a fresh interpreter until all have joined and the directory has answered."""
    peers, repeats = (2, 1) if small else (8, 5)
    before = machine_load()
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(_fresh(READY, str(peers)))
        theirs.append(_fresh(DASK, str(peers)))
    values = spread([run["answered_s"] for run in ours], digits=3)
    detail = {
        "way": "fresh interpreters; from Cluster(n) to the directory's answer to the first request, all peers joined",
        "peers": peers,
        "ready": values,
        "joined": spread([run["joined_s"] for run in ours], digits=3),
        "first_request_running": spread([run["composed_s"] for run in ours], digits=3),
        "import": spread([run["import_s"] for run in ours], digits=3),
        "close": spread([run["close_s"] for run in ours], digits=3),
        "candidates_found": [run["candidates"] for run in ours],
        "target": 3.0,
        "load": {"before": before, "after": machine_load()},
    }
    dask = spread([run["ready_s"] for run in theirs], digits=3)
    imports = spread([run["import_s"] for run in theirs], digits=3)
    how = "LocalCluster of as many worker processes, and a client; no peers on them"
    rival = measurement("dask.distributed", dask["median"], "s", {"how": how, "ready": dask, "import": imports})
    return {**measurement("ready", values["median"], "s", detail), "peers": [rival]}


def nine_operators() -> Plan:
    """A request with a split and a join, as the traffic monitor's, on a stream that needs nearly no processing."""
    pings = source("peers", interval="1 s").filter("metric = 'ping'").project("target", "value").sample(0.5)
    means = pings.aggregate(by="target", window="10 s", mean="avg(value)")
    return means.compare("mean", "50 %", count=means.count()).sort("mean desc").sink("far", delay="20 s")


def compose(*, small: bool = False) -> dict[str, Any]:
    """Seconds from submitting a request of nine operators until all are deployed and the source has been started."""
    peers, warm, count = (3, 0, 2) if small else (8, 5, 60)
    plan = nine_operators()
    before = machine_load()
    calls, setups, shares = [], [], []
    with Cluster(peers) as cluster:
        processes = [state.pid for state in cluster.states().values() if state is not None]
        for _ in range(warm):
            cluster.submit(plan).stop()
        quiet = _background(cluster, 0.0 if small else 3.0)
        begun, messages, cpu = _totals(cluster)[0], 0.0, 0.0
        for _ in range(count):
            sent = _totals(cluster)[1]
            with Usage(processes) as call:
                application = cluster.submit(plan)
            calls.append(call.wall)
            cpu += call.cpu
            messages += _totals(cluster)[1] - sent - quiet * call.wall
            setups.append(application.setup_s)
            events = application.events()
            origin = next(event.peer for event in events if isinstance(event, RequestSubmitted))
            shares.append({type(event): event.time for event in events if event.peer == origin})
            application.stop()
        probes = _totals(cluster)[0] - begun
    value = quantile(calls, 0.5)
    detail = {
        "way": "the notebook's call submit(), one request after the other, each stopped before the next",
        "peers": peers,
        "operators": len(plan.operators),
        "requests": count,
        "p50": value,
        "p99": quantile(calls, 0.99),
        "least": min(calls),
        "at_origin_p50": quantile(setups, 0.5),
        "discovery_p50": _step(shares, RequestSubmitted, CandidatesFound),
        "probing_p50": _step(shares, CandidatesFound, ProbingEnded),
        "selection_p50": _step(shares, ProbingEnded, GraphSelected),
        "confirmation_p50": _step(shares, GraphSelected, ApplicationRunning),
        "messages_a_request": round(messages / count, 1),
        "background_messages_a_second": round(quiet, 1),
        "probes_a_request": round(probes / count, 1),
        "cpu_s_a_request": round(cpu / count, 4),
        "target": 0.05,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("compose", value, "s", detail)


def _totals(cluster: Cluster) -> tuple[int, int]:
    """Probes processed and control messages sent by all peers so far."""
    states = [state for state in cluster.states().values() if state is not None]
    return sum(state.probes for state in states), sum(state.messages for state in states)


def _background(cluster: Cluster, seconds: float) -> float:
    """Messages/s that the overlay sends by itself."""
    if not seconds:
        return 0.0
    before = _totals(cluster)[1]
    _pause(seconds)
    return (_totals(cluster)[1] - before) / seconds


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def _step(requests: list[dict[type[Event], float]], begin: type[Event], end: type[Event]) -> float:
    return statistics.median(times[end] - times[begin] for times in requests)


def hop(*, small: bool = False) -> dict[str, Any]:
    """Seconds that one more peer on the path of a stream adds to the delay of a tuple, at 100 tuples/s."""
    seconds, repeats, hops = (0.2, 1, 2) if small else (4.0, 3, 8)
    before = machine_load()
    added, inside, delays = [], [], []
    with tempfile.TemporaryDirectory() as folder, Cluster(2) as cluster:
        path = paced_tuples(Path(folder), seconds)
        for _ in range(repeats):
            near = _delay(cluster, path, ["peer-1"] * hops)
            far = _delay(cluster, path, ["peer-2", "peer-1"] * (hops // 2))
            none = _delay(cluster, path, [])
            delays.append({"none": none, "one_peer": near, "two_peers": far})
            added.append((far - none) / hops)
            inside.append((near - none) / hops)
    values = spread(added)
    detail = {
        "way": "p50 at the sink of a stream of 100 tuples/s with pass-through operators on two peers in turn, less "
        "that of the stream without them, by hop",
        "hops": hops,
        "tuples": int(100 * seconds),
        "hop": values,
        "operator_on_the_same_peer": spread(inside),
        "delays_p50_s": delays,
        "target": 0.002,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("hop", values["median"], "s", detail)


def paced_tuples(folder: Path, seconds: float) -> Path:
    """Write a trace of 100 tuples/s that lasts so many seconds."""
    path, count = folder / "hundred.parquet", int(100 * seconds)
    times = pl.Series(np.arange(count, dtype=np.int64) * 10_000).cast(pl.Datetime("us"))
    pl.DataFrame({"time": times, "value": np.arange(count)}).write_parquet(path)
    return path


def added_by_hops(cluster: Cluster, path: Path, hops: int) -> float:
    """Seconds that each hop between two peers adds to the p50 of the delay of a trace of ``paced_tuples``."""
    far = _delay(cluster, path, ["peer-2", "peer-1"] * (hops // 2))
    return (far - _delay(cluster, path, [])) / hops


def _delay(cluster: Cluster, path: Path, through: list[str]) -> float:
    stream = source("trace", path=str(path), format="parquet", columns={"value": "int"}, speed=1, rate=100, at="peer-1")
    for peer in through:
        stream = stream.sample(1.0, at=peer)
    application = cluster.submit(stream.sink("end"), origin="peer-1")
    application.wait(60.0)
    delay = application.qos()["delay_p50_s"]
    application.stop()
    return float(delay)


def idle(*, small: bool = False) -> dict[str, Any]:
    """CPU in cores and memory in MB of eight peers that have nothing to do."""
    peers, warm_up, seconds, repeats = (2, 0.0, 0.2, 1) if small else (8, 3.0, 5.0, 3)
    before = machine_load()
    with Cluster(peers) as cluster:
        processes = [state.pid for state in cluster.states().values() if state is not None]
        _pause(warm_up)
        cores, notebook = [], []
        for _ in range(repeats):
            with Usage(processes) as usage, Usage([os.getpid()]) as own:
                _pause(seconds)
            cores.append(usage.cpu / usage.wall)
            notebook.append(own.cpu / own.wall)
        memory = Usage(processes).memory()
        sent = _background(cluster, seconds)
    values = spread(cores, digits=4)
    detail = {
        "peers": peers,
        "seconds": seconds,
        "cpu_cores": values,
        "notebook_and_scheduler_cpu_cores": spread(notebook, digits=4),
        "memory_mb": round(sum(memory), 1),
        "memory_mb_a_peer": round(statistics.mean(memory), 1),
        "memory_is": "proportional set size of the peers' processes",
        "messages_a_second": round(sent, 1),
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("idle", values["median"], "cores", detail)
