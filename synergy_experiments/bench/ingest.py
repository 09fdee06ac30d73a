"""``ingest``: speed and memory of reading files into tuples, compared with Polars and DuckDB on the same files.

Each reading is taken in a process of its own, as a peak of memory is that of a whole process. Ours ends with the last
batch of :func:`synergy_nb.traces.read`, typed, checked and in order, as a source emits them one after another.
Polars and DuckDB read the file into one table, neither checked nor sorted; they find the types themselves.
"""

from __future__ import annotations

import gzip
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import msgspec
import numpy as np
import polars as pl
import psutil

from synergy_experiments.bench.measurements import machine_load, measurement, spread
from synergy_nb import traces
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.traces import datasets
from synergy_nb.traces.logs import HTTP

__all__ = ["SYSTEMS", "Case", "ingest", "peak", "probe"]

COLUMNS: Final = {"time": "time", "key": "int", "user": "str", "value": "float"}
SYSTEMS: Final = ("ours", "polars", "duckdb")
_SYSTEMS: Final = {"polars": "Polars", "duckdb": "DuckDB"}
_REPEATED: Final = 8  # times that the log is written one after another
_STATUS: Final = Path("/proc/self/status")


class Case(NamedTuple):
    """A file to read: its description, path, format and number of rows."""

    name: str
    path: str
    format: str
    rows: int


def _cases(folder: Path, *, small: bool) -> list[Case]:
    """Create the files; the log repeats the SDSC trace, if that is on this machine."""
    rows = 2_000 if small else 2_000_000
    rng = np.random.default_rng(1)

    def table(count: int) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "time": np.cumsum(rng.integers(1, 1000, count)) / 1e6,
                "key": rng.integers(0, 100, count),
                "user": "user-" + pl.Series(rng.integers(0, 5000, count)).cast(pl.String),
                "value": rng.normal(size=count).round(4),
            }
        )

    small_table = table(rows)
    quoted = small_table.with_columns(pl.col("user") + ', "x"')
    plain, quotes = folder / "plain.csv", folder / "quoted.csv"
    small_table.write_csv(plain)
    quoted.write_csv(quotes)
    packed = folder / "plain.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes(), 6))
    stored, large, one = folder / "small.parquet", folder / "large.parquet", folder / "one-group.parquet"
    small_table.write_parquet(stored)
    cases = [
        Case("CSV, clean", str(plain), "csv", rows),
        Case("CSV, quoted", str(quotes), "csv", rows),
        Case("CSV, gzipped", str(packed), "csv", rows),
        Case("Parquet", str(stored), "parquet", rows),
    ]
    if small:
        return cases[1:3]
    lines = folder / "http.txt"
    real = datasets.find("sdsc-http").path
    text = gzip.decompress(Path(real).read_bytes()) if real and real.endswith(".gz") else _log(28_000)
    lines.write_bytes(text * _REPEATED)
    many = table(4 * rows)
    many.write_parquet(large)
    many.write_parquet(one, row_group_size=4 * rows)
    many.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(folder / "shuffled.parquet")
    return [
        *cases,
        Case("HTTP log", str(lines), "http", text.count(b"\n") * _REPEATED),
        Case("Parquet, large", str(large), "parquet", 4 * rows),
        Case("Parquet, one row group", str(one), "parquet", 4 * rows),
        Case("Parquet, shuffled", str(folder / "shuffled.parquet"), "parquet", 4 * rows),
    ]


def _log(rows: int) -> bytes:
    """Lines in the form of the SDSC trace."""
    return b"".join(
        b"%d+1: Tue Aug 22 %02d:%02d:%02d 1995 (/d%d/f%d.html): Sent text: GET /d%d/f%d.html HTTP/1.0\n"
        % (row % 977, row // 3600 % 24, row // 60 % 60, row % 60, row % 31, row, row % 31, row)
        for row in range(rows)
    )


# -- one reading, in a process of its own --------------------------------------------------------------------------


def probe(system: str, case: Case) -> None:
    """Read a file once and print rows, seconds, CPU seconds and the growth of memory in MB, as JSON."""
    read = _READERS[system]
    with tempfile.TemporaryDirectory() as folder:  # threads and code are there before the clock starts
        tiny = Path(folder) / ("tiny.parquet" if case.format == "parquet" else "tiny.txt")
        if case.format == "http":
            tiny.write_bytes(_log(100))
        else:
            table = pl.DataFrame({"time": [1.0, 2.0], "key": [1, 2], "user": ["a", "b"], "value": [0.5, 1.5]})
            table.write_parquet(tiny) if case.format == "parquet" else table.write_csv(tiny)
        read(case._replace(path=str(tiny)))
    before = psutil.Process().memory_info().rss
    began, used = time.perf_counter(), time.process_time()
    rows = read(case)
    found = {"rows": rows, "seconds": time.perf_counter() - began, "cpu": time.process_time() - used}
    print(json.dumps({**found, "growth": max(peak() - before, 0) / 1e6}))  # noqa: T201 - what the process answers


def peak() -> int:
    """Bytes of memory that this process has had resident at most."""
    if _STATUS.exists():  # what getrusage tells begins with the memory of the process that started this one
        return next(int(line.split()[1]) for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM")) << 10
    resource = importlib.import_module("resource")  # Windows has none
    found = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return found if sys.platform == "darwin" else found << 10


def _ours(case: Case) -> int:
    params: dict[str, Any] = {"connector": "trace", "path": case.path, "format": case.format}
    if case.format != "http":
        params["columns"] = COLUMNS
    return sum(item.rows for item in traces.read(params) if isinstance(item, Batch))


def _polars(case: Case) -> int:
    if case.format == "parquet":
        return pl.read_parquet(case.path).height
    if case.format == "csv":
        return pl.read_csv(case.path).height
    schema = {"line": pl.String()}
    lines = pl.read_csv(
        case.path, has_header=False, separator="\x1f", quote_char=None, schema=schema, encoding="utf8-lossy"
    )
    fields = lines.select(pl.col("line").str.extract_groups(HTTP)).unnest("line")
    return fields.with_columns(pl.col("time").str.to_datetime("%b %d %H:%M:%S %Y", time_unit="us")).height


def _duckdb(case: Case) -> int:
    path = "'" + case.path.replace("'", "''") + "'"
    if case.format == "parquet":
        rows = f"SELECT * FROM read_parquet({path})"  # noqa: S608 - paths of our own
    elif case.format == "csv":
        rows = f"SELECT * FROM read_csv({path})"  # noqa: S608
    else:
        pattern = HTTP.replace("?P<", "?<").replace("'", "''")
        for name in ("host", "time", "file", "operation", "request"):
            pattern = pattern.replace(f"?<{name}>", "")
        names = "['host', 'time', 'file', 'operation', 'request']"
        lines = (
            f"read_csv({path}, columns = {{'line': 'VARCHAR'}}, delim = '\x1f', quote = '', escape = '', "
            "header = false, auto_detect = false, strict_mode = false, encoding = 'latin-1')"
        )
        rows = (
            f"SELECT unnest(found), strptime(found.time, '%b %d %H:%M:%S %Y') AS at "  # noqa: S608
            f"FROM (SELECT regexp_extract(line, '{pattern}', {names}) AS found FROM {lines})"
        )
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"CREATE TABLE tuples AS {rows}")
        found = connection.execute("SELECT count(*) FROM tuples").fetchone()
    return int(found[0]) if found else 0


_READERS: Final[Mapping[str, Callable[[Case], int]]] = {"ours": _ours, "polars": _polars, "duckdb": _duckdb}


# -- the measurement -----------------------------------------------------------------------------------------------


def ingest(*, small: bool = False) -> dict[str, Any]:
    """Tuples/s and growth of memory for each kind of file; all systems in turn, the median of three rounds."""
    rounds = 1 if small else 3
    before = machine_load()
    with tempfile.TemporaryDirectory() as folder:
        found = [_measured(case, rounds) for case in _cases(Path(folder), small=small)]
    detail: dict[str, Any] = {each["case"]: _line(each) for each in found}
    detail |= {
        "way": "ours is typed, judged, in order and in batches; Polars and DuckDB make one table",
        "least_to_polars": min(each["to_polars"] for each in found),
        "least_to_duckdb": min(each["to_duckdb"] for each in found),
        "most_growth_mb": max(each["ours"]["growth_mb"] for each in found),
        "cases": found,
        "load": {"before": before, "after": machine_load()},
    }
    first = found[0]
    peers = [
        measurement(_SYSTEMS[name], first[name]["rate"], "tuples/s", {"case": first["case"], **first[name]})
        for name in SYSTEMS
        if name != "ours"
    ]
    return {**measurement("ingest", first["ours"]["rate"], "tuples/s", detail), "peers": peers}


def _measured(case: Case, rounds: int) -> dict[str, Any]:
    taken: dict[str, list[dict[str, float]]] = {system: [] for system in SYSTEMS}
    for _ in range(rounds):
        for system in SYSTEMS:
            taken[system].append(_probed(system, case))
    result: dict[str, Any] = {"case": case.name, "rows": case.rows, "bytes": Path(case.path).stat().st_size}
    for system, readings in taken.items():
        if any(reading["rows"] != case.rows for reading in readings):
            raise RuntimeError(f"ingest: {case.name}: {system} read {readings[0]['rows']} rows of {case.rows}")
        rate = spread([case.rows / reading["seconds"] for reading in readings], digits=0)
        cpu = spread([reading["cpu"] / case.rows * 1e6 for reading in readings])
        growth = round(max(reading["growth"] for reading in readings), 1)
        result[system] = {"rate": rate["median"], "rates": rate, "cpu_s_a_million": cpu["median"], "growth_mb": growth}
    for system in _SYSTEMS:
        result[f"to_{system}"] = round(result["ours"]["rate"] / result[system]["rate"], 3)
        result[f"cpu_to_{system}"] = round(result["ours"]["cpu_s_a_million"] / result[system]["cpu_s_a_million"], 3)
    return result


def _probed(system: str, case: Case) -> dict[str, float]:
    code = "import sys, json; from synergy_experiments.bench.ingest import Case, probe; "
    code += "probe(sys.argv[1], Case(*json.loads(sys.argv[2])))"
    done = subprocess.run(
        [sys.executable, "-c", code, system, json.dumps(list(case))], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"ingest: {case.name}: {system}: {last}")
    return msgspec.json.decode(done.stdout.strip().splitlines()[-1], type=dict[str, float])


def _line(found: dict[str, Any]) -> str:
    def told(system: str) -> str:
        return f"{found[system]['rate'] / 1e6:.2f} M tuples/s, +{found[system]['growth_mb']:.0f} MB"

    parts = [told("ours")]
    for system, name in _SYSTEMS.items():
        ratio, cpu = found[f"to_{system}"], found[f"cpu_to_{system}"]
        parts.append(f"{name} {told(system)} (we have {ratio:.2f} of its speed for {cpu:.2f} of its CPU time)")
    return "; ".join(parts)
