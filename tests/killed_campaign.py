"""Kill a durable cluster with all of its processes, again and again, and see whether its destination can tell.

    python -m tests.killed_campaign [--tries 100] [--seed 1] [--file build/killed_campaign.jsonl] [--only SEED]

It is no part of the suite, as it takes long. A try is drawn by its seed: a plan, a destination that has each row once,
and one to five times at which everything is killed by SIGKILL: scheduler, peers, and the program that has submitted the
plan. Each next program has another number of peers. Some kills come while a program starts or restarts the application.
The last program is left in peace. Then the destination has to have the rows that a simulation makes of the same plan,
each once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl
import pytest

from synergy_nb import Cluster, Plan, Simulation, csv, delta, duckdb, jsonl, parquet, source, sqlite
from synergy_nb.assembly import PeerConfig
from synergy_nb.durable.folder import DurableFolder
from synergy_nb.errors import SynergyError
from synergy_nb.lifecycle.sessions.deploying import EPOCHS
from synergy_nb.plan import Stream
from synergy_nb.runtime.process import starting

ROOT: Final = Path(__file__).resolve().parent.parent
ROWS: Final = 3_000  # of each of two sources
LASTS_S: Final = 6.0  # time for which a source emits, if nobody is killed
STARTS_S: Final = 2.0  # time in which a cluster starts on a machine that does nothing else
ENDS_S: Final = 180.0  # longest time in which the last program ends
EVERY: Final = ("50 ms", "300 ms", "1 s")

#: Plans, by name: two streams, which are read again after a death.
SHAPES: Final[dict[str, Callable[[Stream, Stream], Stream]]] = {
    "filter": lambda a, b: a.filter("v % 3 > 0"),
    "union": lambda a, b: a.union(b).filter("v % 3 > 0"),
    "sums": lambda a, b: a.aggregate(by="k", window="200 ms", n="count(*)", total="sum(v)"),
    "join": lambda a, b: a.join(b, on="k", within="20 ms"),
    "totals": lambda a, b: a.union(b).over("k", "1 s", n="count(*)", total="sum(v)"),
}
FORMATS: Final = ("csv", "jsonl", "parquet", "parquet by time", "sqlite", "duckdb", "delta")


class Kill(msgspec.Struct, frozen=True):
    """A program that is killed."""

    peers: int
    runs: (
        bool  # whether it has started the application, or started it again, by then; otherwise it has just begun itself
    )
    after: float  # seconds until it is killed, from then on


class Try(msgspec.Struct, frozen=True):
    """What one try does."""

    seed: int
    shape: str
    format: str
    every: str  # interval of commits
    backups: bool  # whether operators have backups at peers, too
    kills: tuple[Kill, ...]
    peers: int  # of the last program


def drawn(seed: int) -> Try:
    """What the try of a seed does."""
    rng = random.Random(seed)
    kills = [Kill(rng.randint(1, 4), True, rng.uniform(0.0, LASTS_S / 2.0))]
    for _ in range(rng.randint(0, 4)):
        runs = rng.random() < 0.7
        kills.append(
            Kill(rng.randint(1, 4), runs, rng.uniform(0.0, LASTS_S / 2.0) if runs else rng.uniform(0.3, STARTS_S))
        )
    backups = rng.random() < 0.2
    least = 2 if backups else 1  # with fewer peers the plan is refused, and waits in the folder
    kills = [msgspec.structs.replace(kill, peers=max(kill.peers, least)) for kill in kills]
    shape, form = rng.choice(sorted(SHAPES)), rng.choice(FORMATS)
    return Try(seed, shape, form, rng.choice(EVERY), backups, tuple(kills), rng.randint(least, 4))


def plan_of(each: Try, folder: Path, to: dict[str, Any] | None) -> Plan:
    """The plan of a try, whose sources are in a folder."""
    rng = random.Random(each.seed)
    streams = []
    for name, value in zip("ab", "vw" if each.shape == "join" else "vv", strict=True):
        path = folder / f"{name}.csv"
        times = sorted(rng.uniform(0.0, LASTS_S) for _ in range(ROWS))
        rows = [f"{at:.6f},{rng.randrange(20)},{number}\n" for number, at in enumerate(times)]
        if not path.exists():
            path.write_text("".join([f"time,k,{value}\n", *rows]), "utf-8")
        columns = {"time": "time", "k": "int", value: "int"}
        streams.append(source("trace", path=str(path), format="csv", columns=columns, speed=1.0, id=name))
    options: dict[str, Any] = {} if to is None else {"to": to}
    if each.backups:
        options["availability"] = "degree 2"
    return SHAPES[each.shape](*streams).sink("out", **options)


def destination(each: Try, folder: Path) -> dict[str, Any]:
    """Where the rows of a try go."""
    form, _, by_time = each.format.partition(" ")
    make: Any = {"csv": csv, "jsonl": jsonl, "parquet": parquet, "sqlite": sqlite, "duckdb": duckdb, "delta": delta}[
        form
    ]
    place = folder / ("out" if form in {"parquet", "delta"} else f"out.{form}")
    table = ("rows",) if form in {"sqlite", "duckdb"} else ()
    to: dict[str, Any] = make(place, *table, every=each.every, **({"partition": "2 s"} if by_time else {}))
    return to


def written(each: Try, folder: Path) -> pl.DataFrame:
    """What a destination has."""
    match each.format.split()[0]:
        case "csv":
            return pl.read_csv(folder / "out.csv", try_parse_dates=True)
        case "jsonl":
            return pl.read_ndjson(folder / "out.jsonl")
        case "parquet":
            return pl.read_parquet(folder / "out" / "**" / "*.parquet", hive_partitioning=False)
        case "delta":
            return pl.read_delta(str(folder / "out"))
        case "sqlite":
            with contextlib.closing(sqlite3.connect(folder / "out.sqlite")) as database:
                return pl.read_database("SELECT * FROM rows", database)
    import duckdb as engine

    with engine.connect(folder / "out.duckdb", read_only=True) as database:
        table: pl.DataFrame = database.sql("SELECT * FROM rows").pl()
        return table


def counted(table: pl.DataFrame, columns: list[str]) -> Counter[tuple[Any, ...]]:
    """The rows by their numbers, of which formats hold the same."""
    return Counter(table.select(columns).rows())


def wrong(found: Counter[tuple[Any, ...]], wanted: Counter[tuple[Any, ...]]) -> str:
    """What is wrong with the rows of a destination; empty if nothing is."""
    lost, more = wanted - found, found - wanted
    if not lost and not more:
        return ""
    return (
        f"{lost.total()} rows are lost, such as {list(lost)[:3]}, and {more.total()} too many, such as {list(more)[:3]}"
    )


def epoch(folder: Path) -> int:
    """Epoch of the application that a folder has; 0 if it has none."""
    if not (folder / "FORMAT").exists():
        return 0
    return max((1 + each.epoch for each in DurableFolder(folder).applications()), default=0)


def killed(folder: Path, kill: Kill, plan: Path | None) -> str:
    """Run a program for a while, and kill all of it; return what it said if it has ended by itself."""
    known, deadline = epoch(folder / "durable"), time.monotonic() + ENDS_S
    arguments = [str(folder / "durable"), str(kill.peers), "off", *(() if plan is None else [str(plan)])]
    command = [sys.executable, "-m", "tests.durable.durable_program", *arguments]
    with (folder / "programs.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            while kill.runs and process.poll() is None and time.monotonic() < deadline:
                now = epoch(folder / "durable")
                if now > known or (not now and (known or plan is None)):  # it runs, or it has finished
                    break
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.02)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(kill.after)
        finally:
            ended = process.poll() is not None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = (folder / "programs.log").read_text("utf-8", "replace").strip().splitlines()
    return f"a program has ended: {said[-1] if said else 'without a word'}" if ended else ""


def run(each: Try) -> dict[str, Any]:
    """Carry out a try; returns its line."""
    with tempfile.TemporaryDirectory(prefix="killed-") as name:
        folder, began = Path(name), time.monotonic()
        with Simulation(2, network="local", cores=1, seed=each.seed) as simulation:
            plan = plan_of(msgspec.structs.replace(each, backups=False), folder, None)
            wanted = simulation.submit(plan).results()
        file = folder / "plan.yaml"
        file.write_text(plan_of(each, folder, destination(each, folder)).to_yaml(), "utf-8")
        waits: Path | None = file  # until a program has kept the plan
        line: dict[str, Any] = msgspec.to_builtins(each)
        restarts = 0
        for kill in each.kills:
            if ended := killed(folder, kill, waits):  # it refused the plan, or the folder
                return line | {"wrong": ended}
            if now := epoch(folder / "durable"):
                waits, restarts = None, now // EPOCHS
        with Cluster(each.peers, cores=1.0, spark=False, durable=folder / "durable") as cluster:
            if waits is not None and not cluster.applications:
                cluster.submit(Plan.from_yaml(waits.read_text("utf-8")))
            for application in cluster.applications.values():
                application.wait(ENDS_S)
        columns = [name for name, kind in wanted.schema.items() if kind.is_integer()]
        fault = wrong(counted(written(each, folder), columns), counted(wanted, columns))
        return line | {
            "restarts": restarts, "rows": wanted.height, "wrong": fault, "seconds": round(time.monotonic() - began, 1)
        }  # fmt: skip


def main() -> None:
    """Carry out tries, and write a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", type=Path, default=ROOT / "build" / "killed_campaign.jsonl")
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    patch = pytest.MonkeyPatch()  # so that a busy machine takes nobody for dead
    patch.setattr(starting, "_pings", lambda peers: 4.0 * PeerConfig().pings)
    if given.only is not None:
        print(json.dumps(run(drawn(given.only)), indent=1))
        return
    given.file.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in given.file.read_text("utf-8").splitlines()] if given.file.exists() else []
    done, failed = {line["seed"] for line in known}, sum(bool(line["wrong"]) for line in known)
    for seed in range(given.seed, given.seed + given.tries):
        if seed in done:
            continue
        try:
            line = run(drawn(seed))
        except SynergyError as error:
            line = msgspec.to_builtins(drawn(seed)) | {"wrong": f"{type(error).__name__}: {error}"}
        failed += bool(line["wrong"])
        with given.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(seed, line["shape"], line["format"], len(line["kills"]), line["wrong"] or "right", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
