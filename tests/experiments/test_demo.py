"""The main job: its inputs, DuckDB's batch computation against a literal one, and a complete run on a few peers."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from typer.testing import CliRunner

from synergy_experiments.demo import _oracle as oracle
from synergy_experiments.demo import inputs, job
from synergy_experiments.demo.inputs import Input
from synergy_experiments.demo.page import busiest
from synergy_nb.cli.commands import app
from synergy_nb.events import GraphSelected
from synergy_nb.plan.derived.spark_parts import spark_load
from synergy_nb.reporting.explanation import Explanation
from tests.conftest import ROOT
from tests.traces.whole_traces import load

if TYPE_CHECKING:
    from spark_stream.server import Server

KEYS = {"input", "placement", "rows", "rows_sample", "check", "qos", "tuples_per_s", "peers", "setup_s"}
START = datetime(1995, 8, 22, 23, 50, tzinfo=UTC)


class Request:
    """One request of a made-up log, and the pair that it counts for; None if it is not to be counted."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.time = START + timedelta(seconds=number * 4 + rng.randrange(3))
        self.host = f"{rng.randrange(1, 6)}+{rng.randrange(1, 4)}"
        self.file = rng.choice(["/a/b.gif", "/a/c/d.html", "/b/x", "/plain", "/file.txt", "/", "", "/odd (1)/x"])
        self.operation = rng.choice(["Sent binary", "Sent text", "Sent cache", "HTTP error", "No match for selector"])
        self.size = rng.choice([0, 40, 552, 1500])

    @property
    def directory(self) -> str:
        parts = self.file.split("/")
        if len(parts) > 2:
            return f"/{parts[1]}"
        if not self.file or (len(parts) == 2 and parts[1] and "." not in parts[1]):
            return self.file
        return "/"


def requests(number: int = 900) -> list[Request]:
    rng = random.Random(7)
    return [Request(rng, each) for each in range(number)]


def http(path: Path, made: list[Request]) -> None:
    lines = [
        f"{each.host}: {each.time:%a %b %d %H:%M:%S %Y} ({each.file}): {each.operation}: GET {each.file}"
        for each in made
    ]
    lines[5:5] = ["not a line of a log"]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def ncsa(path: Path, made: list[Request]) -> None:
    west = [each.time - timedelta(hours=4) for each in made]
    text = "".join(
        f'{each.host} - - [{time:%d/%b/%Y:%H:%M:%S} -0400] "GET {each.file} HTTP/1.0" '
        f"{200 if each.operation.startswith('Sent') else 404} {each.size or '-'}\n"
        for each, time in zip(made, west, strict=True)
    )
    path.write_bytes(text.encode() + b'\xe9t\xe9 - - [23/Aug/1995:00:00:00 -0400] "GET /\xe9/x HTTP/1.0" 200 9999\n')


def token(each: Request) -> str:
    """The directory as a field of a trace whose fields are separated by blanks."""
    return each.directory.replace(" ", "_") or "-"


def tcp(path: Path, made: list[Request]) -> None:
    first = made[0].time
    path.write_text(
        "".join(
            f"{(each.time - first).total_seconds() + 0.125:.6f} {each.host} {token(each)} 1024 80 {each.size}\n"
            for each in made
        )
    )


def csv(path: Path, made: list[Request]) -> None:
    rows = [f"{each.time:%Y-%m-%d %H:%M:%S},{each.host},{each.directory},{each.size},x" for each in made]
    path.write_text("\n".join(["timestamp,source,destination,bytes,note", *rows, ""]))


def parquet(path: Path, made: list[Request]) -> None:
    pl.DataFrame(
        {
            "time": [each.time.timestamp() for each in made],
            "link": ["B" if each.operation.startswith("Sent") else "A" for each in made],
            "source": [each.host for each in made],
            "destination": [each.directory for each in made],
        }
    ).write_parquet(path)


def top(counted: list[tuple[datetime, Any, Any, int]]) -> list[oracle.Row]:
    """The query, literally."""
    sums: Counter[tuple[datetime, Any, Any]] = Counter()
    for time, first, second, amount in counted:
        start = datetime.fromtimestamp(time.timestamp() // 1200 * 1200, UTC).replace(tzinfo=None)
        sums[start, first, second] += amount
    rows: list[oracle.Row] = []
    for start in sorted({key[0] for key in sums}):
        totals = {pair: total for (window, *pair_), total in sums.items() if window == start for pair in [tuple(pair_)]}
        for (first, second), total in totals.items():
            if sum(other < total for other in totals.values()) > 0.95 * len(totals):
                rows.append((start, start + timedelta(minutes=20), first, second, total))
    return sorted(rows, key=lambda row: (row[0], -row[4], row[2], row[3]))


def rows_of(given: Input) -> list[oracle.Row]:
    return oracle.expected(
        path=given.path,
        format=given.format,
        clock=given.params.get("time", "time"),
        pair=given.pair,
        where=given.where,
        value=given.value,
        window=1200,
        fraction=0.95,
    )


def served(each: Request) -> bool:
    return each.operation.startswith("Sent")


@pytest.mark.parametrize(
    ("write", "name", "wanted"),
    [
        (http, "log.txt.gz", lambda r: (r.time, r.host, r.directory, 1) if served(r) else None),
        (tcp, "trace.tcp", lambda r: (r.time, r.host, token(r), r.size) if r.size else None),
        (csv, "rows.csv", lambda r: (r.time, r.host, r.directory, r.size) if r.size else None),
        (parquet, "rows.parquet", lambda r: (r.time, r.host, r.directory, 1) if served(r) else None),
    ],
    ids=["http", "tcp", "csv", "parquet"],
)
def test_duckdb_computes_the_result_of_the_query(
    tmp_path: Path,
    write: Callable[[Path, list[Request]], None],
    name: str,
    wanted: Callable[[Request], tuple[datetime, Any, Any, int] | None],
) -> None:
    made = requests()
    write(tmp_path / name, made)
    given = inputs.choose(tmp_path / name)
    counted = [row for each in made if (row := wanted(each)) is not None]
    if given.format == "tcp":  # its times begin at 0
        counted = [(datetime.fromtimestamp(0.125, UTC) + (time - made[0].time), *rest) for time, *rest in counted]
    rows = rows_of(given)
    assert rows == top(counted)
    assert len(rows) >= 3
    assert (given.tuples, given.real) == (len(made), True)
    inputs.query(given, 100.0)  # a valid plan


def test_a_log_that_is_not_utf_8_is_read(tmp_path: Path) -> None:
    made = requests()
    ncsa(tmp_path / "access_log", made)
    given = inputs.choose(tmp_path / "access_log")
    assert (given.format, given.where, given.value) == ("ncsa", "status = 200", "sum(bytes)")
    table = load(tmp_path / "access_log").table.filter(pl.col("status") == 200)
    columns = table.select("time", "host", "directory", "bytes").rows()
    assert rows_of(given) == top([(time.replace(tzinfo=UTC), *rest) for time, *rest in columns])


def test_rows_are_compared_in_order() -> None:
    one = (datetime(1995, 8, 22), datetime(1995, 8, 22, 0, 20), "a", "b", 3)  # noqa: DTZ001
    two = (*one[:2], "a", "c", 2)
    assert oracle.compare([one, two], [one, two]) == (True, 2, "")
    swapped = oracle.compare([two, one], [one, two])
    assert not swapped.equal
    assert swapped.difference == (
        "row 1: the peers give (1995-08-22 00:00:00 to 00:20:00, a, c, 2), "
        "DuckDB gives (1995-08-22 00:00:00 to 00:20:00, a, b, 3)"
    )
    assert "2 rows of the peers, 1 of DuckDB; only the peers give row 2" in oracle.compare([one, two], [one]).difference
    assert "only DuckDB gives row 1" in oracle.compare([], [one]).difference
    assert busiest([one, (*one[:2], "x", "y", 1), (one[1], one[1], "z", "z", 5)]) == [(one[1], one[1], "z", "z", 5)]
    assert busiest([]) == []


def test_a_trace_without_pairs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("time,source,size\n1,a,2\n2,b,3\n")
    with pytest.raises(ValueError, match="columns: time, source, size; expected source and destination, or host and"):
        inputs.choose(path)


@pytest.mark.parametrize(("write", "name"), [(http, "log.gz"), (csv, "rows.csv"), (None, "")])
def test_sums_on_spark_leave_room_on_one_of_eight_peers_of_two_cores(
    tmp_path: Path, write: Callable[[Path, list[Request]], None] | None, name: str
) -> None:
    """With a real trace they needed all of a peer, so that the pass on Spark was always refused."""
    if write is not None:
        write(tmp_path / name, requests())
    given = inputs.generated() if write is None else inputs.choose(tmp_path / name)
    assert spark_load(inputs.query(given, 0.0, engine="spark"), "aggregate") <= 0.5 * 2.0 / 8


@pytest.mark.slow
def test_without_a_trace_packets_are_generated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SYNERGY_DATA", raising=False)
    given = inputs.choose(None)
    assert not given.real
    assert given.name == "generated packets"
    assert given == inputs.generated()
    assert inputs.query(given, 0.0).operators["filter"].params["where"] == "link = 'B'"


def demo(folder: Path, *options: str, data: Path | None = None) -> tuple[int, Any, str]:
    """Exit code, JSON and what was said, of ``synergy demo`` in a folder."""
    environment = {name: value for name, value in os.environ.items() if name != "SYNERGY_DATA"}
    if data is not None:
        environment["SYNERGY_DATA"] = str(data)
    done = subprocess.run(
        [sys.executable, "-m", "synergy_nb", "demo", "--json", *options],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=330,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def checked(found: Any, *, peers: int, rows: int | None = None) -> None:
    assert found.keys() == KEYS
    assert found["check"].keys() == {"engine", "equal", "rows"}
    assert found["check"] == {"engine": "duckdb", "equal": True, "rows": found["rows"]}
    assert rows is None or found["rows"] == rows
    assert found["qos"].keys() == {"delay_p50_s", "delay_p99_s", "limit_s", "miss_rate"}
    assert 0 < found["qos"]["delay_p50_s"] <= found["qos"]["delay_p99_s"]
    assert found["qos"]["limit_s"] == 5.0
    assert 0 <= found["qos"]["miss_rate"] <= 1
    assert set(found["placement"]) == {
        "source", "filter", "project", "aggregate", "sort", "count", "compare", "sink",
    }  # fmt: skip
    assert set(found["placement"].values()) <= {f"peer-{number}" for number in range(1, peers + 1)}
    assert found["peers"] == peers
    assert found["setup_s"] > 0
    assert found["tuples_per_s"] > 0


@pytest.mark.slow
def test_the_demo_without_a_trace_watches_the_peers_and_says_that_packets_are_generated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark_server: Server
) -> None:
    """Its pass on Spark is at a server that runs already, as the start of one takes longer than all three passes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SYNERGY_DATA", raising=False)
    where = spark_server.ready()
    options = ["--json", "--peers", "3", "--speed", "14400", "--spark", f"{where.url}/;token={where.token}"]
    result = CliRunner().invoke(app, ["demo", *options])
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    spark = found.pop("spark")
    assert spark["operators"] == ["aggregate"]
    assert spark["seconds"] > 0
    checked(found, peers=3)
    assert found["input"]["real"] is False
    page = (tmp_path / "synergy-demo.html").read_text("utf-8")
    assert "all three passes, one with its windows on Spark" in page
    assert "The packets are generated" in page
    assert "What the peers see of themselves" in page
    assert ">ping<" in page


@pytest.mark.slow
def test_the_demo_on_a_trace_goes_on_when_a_peer_is_killed(tmp_path: Path) -> None:
    made = requests()
    http(tmp_path / "log.txt.gz", made)
    options = ["--trace", "log.txt.gz", "--peers", "4", "--speed", "2400", "--kill", "--report", "r.html"]
    options += ["--spark", "off"]
    code, found, said = demo(tmp_path, *options)
    assert code == 0, said
    killed = found.pop("kill")
    assert killed["operators"]
    assert killed["peer"] not in found["placement"].values()
    assert killed["peer"] in killed["reason"]
    assert killed["recomposed"] != killed["application"]

    wanted = top([(each.time, each.host, each.directory, 1) for each in made if served(each)])
    checked(found, peers=4, rows=len(wanted))
    assert found["input"] == {"name": "log.txt.gz", "tuples": len(made), "real": True}
    assert [(row["host"], row["directory"], row["total"]) for row in found["rows_sample"]] == [
        row[2:] for row in wanted[:10]
    ]
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Top-k traffic on 4 peers" in page
    assert f"All {len(wanted)} rows of both passes equal DuckDB" in page
    assert f"{killed['peer']} ({', '.join(killed['operators'])}) was killed" in page
    assert page.count('class="synergy-chart"') == 2


@pytest.mark.slow
def test_the_demo_on_the_real_trace_equals_duckdb(tmp_path: Path, real_data: Path) -> None:
    code, found, said = demo(tmp_path, "--peers", "3", "--speed", "40000", "--spark", "off", data=real_data)
    assert code == 0, said
    checked(found, peers=3, rows=282)
    assert found["input"] == {"name": "sdsc-http.txt.gz", "tuples": 28338, "real": True}


@pytest.mark.slow
def test_rows_that_differ_are_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SYNERGY_DATA", raising=False)
    given = inputs.generated({"seed": 1, "count": 100})
    plan = inputs.query(given, 0.0)
    placed = dict.fromkeys(plan.operators, "peer-1")
    selected = GraphSelected(1.0, "peer-1", "r1", peers=placed, phi=0.5, delay_s=0.01)
    one = (datetime(1995, 8, 22), datetime(1995, 8, 22, 0, 20), "a", "b", 3)  # noqa: DTZ001

    def run(*_: object, spark: bool | str, **__: object) -> job.DemoOutcome:
        assert spark is True, "without the option it starts a server of its own"
        return job.DemoOutcome(
            given=given,
            plan=plan,
            peers=2,
            ready_s=1.0,
            placement=placed,
            explanation=Explanation("r1", [selected], {}),
            events=[selected],
            rows=[one],
            check=oracle.compare([one], [])._replace(difference="paced pass, only the peers give row 1"),
            qos={"delay_p50_s": 7.0, "delay_p99_s": 7.0, "limit_s": 5.0, "miss_rate": 1.0},
            setup_s=0.01,
            fast_setup_s=0.01,
            fast_s=0.5,
            killed=None,
            watched=None,
        )

    monkeypatch.setattr(job, "run", run)
    for options in ((), ("--json",)):
        result = CliRunner().invoke(app, ["demo", *options])
        assert result.exit_code == 1
        assert "synergy: the rows do not equal DuckDB's: paced pass, only the peers give row 1" in result.stderr
    assert json.loads(result.stdout)["check"] == {"engine": "duckdb", "equal": False, "rows": 0}
    page = (tmp_path / "synergy-demo.html").read_text("utf-8")
    assert "The rows do not equal DuckDB&#x27;s" in page
    assert "100 % of the results came later than 5 s (above the 5 % asked for)" in page
