"""``dataflow``: filter, project, aggregate between two peer processes, compared with other systems on the same data.

All systems run in turn in one run, on one machine, and each one's rows are compared before its figure is shown.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from synergy_experiments.bench.engines import ENGINES, Engine, EngineProcess, missing_reason
from synergy_experiments.bench.measurements import Usage, machine_load, measurement, spread
from synergy_experiments.bench.rivals import RIVALS, Rival, Rows, missing, reference
from synergy_nb.events import SinkFinished, SourceStarted
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.client.cluster import Application, Cluster

__all__ = ["dataflow", "query", "ran", "tuples", "written"]

KEYS = 100
SPACING = 10  # µs between tuples
CSV_SHARE: Final = 0.25  # leading share of the tuples that is in the CSV file, so that slow systems take no minutes
WARM: Final = "imports, the start of a JVM and a first run are not in the time"


def tuples(count: int, seed: int = 1) -> pl.DataFrame:
    """``count`` tuples (time, key, value) of 24 bytes, in order of time."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "time": pl.Series(np.arange(count, dtype=np.int64) * SPACING).cast(pl.Datetime("us")),
            "key": rng.integers(0, KEYS, count),
            "value": rng.integers(0, 1000, count),
        }
    )


def written(table: pl.DataFrame, folder: Path) -> dict[str, Path]:
    """Files of the tuples by form: all of them as Parquet, the leading ``CSV_SHARE`` as CSV."""
    files = {"parquet": folder / "tuples.parquet", "csv": folder / "tuples.csv"}
    table.write_parquet(files["parquet"], compression="uncompressed")
    leading(table).write_csv(files["csv"], datetime_format="%Y-%m-%d %H:%M:%S%.6f")
    return files


def leading(table: pl.DataFrame) -> pl.DataFrame:
    """The tuples that are in the CSV file."""
    return table.head(int(table.height * CSV_SHARE))


def query(path: Path, *, early: bool) -> Plan:
    """The query; the source on ``peer-1``, the aggregate on ``peer-2``.

    Parameters
    ----------
    path
        Path of the file of tuples; its ending is its form.
    early
        Filter and project before the wire, on ``peer-1``; otherwise all 24 bytes of every tuple cross it.
    """
    at = "peer-1" if early else "peer-2"
    columns = {"key": "int", "value": "int"}
    stream = source("trace", path=str(path), format=path.suffix[1:], columns=columns, at="peer-1")
    kept = stream.filter("value >= 500", at=at).project("key", double="value * 2", at=at)
    sums = kept.aggregate(by="key", window="1 s", n="count(*)", total="sum(double)", at="peer-2")
    return sums.sink("sums")


def ran(cluster: Cluster, plan: Plan) -> tuple[float, float, Rows]:
    """Seconds from the start of the source, which reads the file, to the end at the sink; CPU seconds; the rows."""
    with Usage(_processes(cluster)) as usage:
        application = cluster.submit(plan, origin="peer-2")
        table = application.results()
    seconds = _time(application)
    application.stop()
    window = pl.col("window_start").cast(pl.Int64).alias("window")
    return seconds, usage.cpu, table.select(window, "key", "n", "total").sort("window", "key").rows()


def _time(application: Application) -> float:
    times = {type(event): event.time for event in application.events()}
    return times[SinkFinished] - times[SourceStarted]


def _processes(cluster: Cluster) -> list[int]:
    return [state.pid for state in cluster.states().values() if state is not None]


def dataflow(*, small: bool = False) -> dict[str, Any]:
    """Tuples/s of the query, all tuples crossing from one peer process to another; rows are asserted to be equal."""
    count, repeats = (20_000, 1) if small else (8_000_000, 5)
    table = tuples(count)
    expected = {"parquet": reference(table), "csv": reference(leading(table))}
    runs = _Runs()
    before = machine_load()
    with tempfile.TemporaryDirectory() as folder, Cluster(2) as cluster, ExitStack() as stack:
        files = written(table, Path(folder))
        plans = {
            "late": query(files["parquet"], early=False),
            "early": query(files["parquet"], early=True),
            "csv": query(files["csv"], early=False),
        }
        engines = [stack.enter_context(EngineProcess(engine)) for engine in ENGINES if not missing_reason(engine)]
        for repeat in range(small, repeats + 1):  # the first warms up
            for way, plan in plans.items():
                form = "csv" if way == "csv" else "parquet"
                seconds, cpu, rows = ran(cluster, plan)
                runs.add(way, repeat, _size(form, count), seconds, cpu, equal=rows == expected[form])
            for rival in RIVALS:
                if not missing(rival.system) and repeat:
                    part = table.head(max(int(count * rival.share), 1000))
                    seconds, cpu, rows = rival.run(part)
                    runs.add(rival.name, 1, part.height, seconds, cpu, equal=rows == reference(part))
            for process in engines:
                form = process.engine.form
                seconds, cpu, rows = process.run(files[form])
                size = _size(form, count)
                runs.add(process.engine.name, repeat, size, seconds, cpu, equal=rows == expected[form])
    rate = runs.rate("late")
    peers = [_beside_engine(engine, runs) for engine in ENGINES] + [_beside_rival(rival, runs) for rival in RIVALS]
    detail = {
        "query": "filter, project and aggregate by key over windows of 1 s of tuples (time, key, value) of 24 bytes",
        "way": f"source in one peer process, all operators in another; reading the file is in the time; {WARM}",
        "tuples": count,
        "rate": rate,
        "cpu_s_a_million": runs.cpu("late"),
        "filtered_before_the_wire": runs.rate("early"),
        "filtered_before_the_wire_cpu_s_a_million": runs.cpu("early"),
        "from_csv": runs.rate("csv"),
        "from_csv_cpu_s_a_million": runs.cpu("csv"),
        "rows": len(expected["parquet"]),
        "equal": True,
        "target": 2e6,
        "load": {"before": before, "after": machine_load()},
    }
    return {**measurement("dataflow", rate["median"], "tuples/s", detail), "peers": peers}


def _size(form: str, count: int) -> int:
    """Tuples in the file of a form, of ``count`` in all."""
    return int(count * CSV_SHARE) if form == "csv" else count


class _Runs:
    """Tuples/s and processor seconds a million tuples of each variant and system, by run."""

    def __init__(self) -> None:
        self._rates: dict[str, list[float]] = {}
        self._cpu: dict[str, list[float]] = {}

    def add(self, name: str, repeat: int, count: int, seconds: float, cpu: float, *, equal: bool) -> None:
        """Store a run of ``count`` tuples, unless its ``repeat`` is 0, the warm-up.

        Raises
        ------
        AssertionError
            If the rows were not ``equal`` to those of the batch query.
        """
        if not equal:
            raise AssertionError(f"dataflow: rows of {name} differ from those of the batch query")
        if repeat:
            self._rates.setdefault(name, []).append(count / seconds)
            self._cpu.setdefault(name, []).append(cpu / count * 1e6)

    def rate(self, name: str) -> dict[str, Any]:
        """Tuples/s, over all runs."""
        return spread(self._rates[name], digits=0)

    def cpu(self, name: str) -> float:
        """Processor seconds a million tuples, of all processes, in the best run."""
        return round(min(self._cpu[name]), 4)

    def beside(self, name: str, ours: str) -> dict[str, Any]:
        """The result of another system, compared with our variant ``ours``."""
        rate = self.rate(name)
        return {
            "rate": rate,
            "cpu_s_a_million": self.cpu(name),
            "equal": True,
            "ours_to_theirs": round(self.rate(ours)["median"] / rate["median"], 3),
            "cpu_ours_to_theirs": round(self.cpu(ours) / self.cpu(name), 3) if self.cpu(name) else None,
        }


def _beside_engine(engine: Engine, runs: _Runs) -> dict[str, Any]:
    detail: dict[str, Any] = {"how": f"{engine.how}; it reads the same {engine.form} file as ours", "way": WARM}
    note = missing_reason(engine)
    if note:
        return measurement(engine.name, 0.0, "tuples/s", {**detail, "note": note})
    detail |= runs.beside(engine.name, "csv" if engine.form == "csv" else "late")
    return measurement(engine.name, detail["rate"]["median"], "tuples/s", detail)


def _beside_rival(rival: Rival, runs: _Runs) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "how": rival.how,
        "way": "in one process, which has the tuples in memory: reading the file is not in the time",
    }
    note = missing(rival.system)
    if note:
        return measurement(rival.name, 0.0, "tuples/s", {**detail, "note": note})
    detail |= {**runs.beside(rival.name, "late"), "processes": 1}
    return measurement(rival.name, detail["rate"]["median"], "tuples/s", detail)
