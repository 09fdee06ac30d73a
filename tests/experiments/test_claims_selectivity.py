"""C12: traffic of the operators of the top-k monitor, as a literal count finds it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from synergy_experiments.chapters import find
from synergy_experiments.chapters.selectivity import executed, monitored
from synergy_experiments.demo import inputs
from synergy_experiments.framework import runner
from synergy_experiments.framework.verdicts import of_claim
from synergy_nb import traces
from synergy_nb.dataflow.tuples import Batch

PACKETS = (20.0, 3600.0)


@pytest.mark.slow
def test_tuples_are_those_of_the_query() -> None:
    given = inputs.generated({"seed": 1001, "rate": PACKETS[0], "duration": PACKETS[1], "hosts": 200})
    plan = inputs.query(given, speed=0.0)
    rows = pl.concat(
        item.table for item in traces.read(given.params | {"connector": "packets"}) if isinstance(item, Batch)
    )
    on_b = rows.filter(pl.col("link") == "B")
    windows = on_b.group_by(pl.col("time").dt.truncate("20m"), "source", "destination").agg(pl.len())
    found = {(x, metric): value for x, _, metric, value in monitored("generated packets 1", "generated", PACKETS, 1)}
    assert found["filter", "tuples"] == pytest.approx(on_b.height / rows.height)
    assert found["project", "tuples"] == found["sort", "tuples"] == 1.0
    assert found["aggregate", "tuples"] == pytest.approx(windows.height / on_b.height)
    assert found["count", "tuples"] == pytest.approx(windows["time"].n_unique() / windows.height)
    assert found["count", "tuples a window"] == 1.0
    assert found["compare", "tuples"] < 0.06
    assert found["project", "traffic"] < 0.8
    assert found["sort", "traffic"] == pytest.approx(1.0, abs=0.01)
    given_out = [item for operator, item in executed(plan, []) if operator == "sink"]
    assert not given_out


@pytest.mark.slow
def test_without_traces_numbers_are_not_compared() -> None:
    (claim,) = find(["C12"])
    chosen = {"generated": 1, "rate": 5.0, "duration": 2400.0}
    (result,) = runner.reproduce([(claim, chosen)])
    verdict = {check.name: (check.verdict, check.judges) for check in result.checks}
    assert [each for name, (each, _) in verdict.items() if name.startswith("traffic")] == ["not comparable"] * 3
    assert verdict["count gives one tuple a window"] == ("holds", "own")
    assert of_claim(result.checks) == "not comparable"


def test_two_traces_of_the_same_name_are_two_traces(tmp_path: Path) -> None:
    paths = []
    for folder, share in (("monday", 5), ("tuesday", 4)):
        lines = [f"{second}.5 {second % 7} {second % 3} 1024 80 {(second % share) * 100}" for second in range(3000)]
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / "mine.tcp")
        paths[-1].write_text("\n".join(lines) + "\n")
    (claim,) = find(["C12"])
    (result,) = runner.reproduce([(claim, {"traces": tuple(map(str, paths))})])
    found = {row.algorithm: row.value for row in result.rows if (row.x, row.metric) == ("filter", "tuples")}
    assert found == {"monday/mine.tcp": 0.8, "tuesday/mine.tcp": 0.75, "mean of traces": pytest.approx(0.775)}


def test_a_trace_of_the_user_is_compared(tmp_path: Path) -> None:
    lines = [f"{second}.5 {second % 7} {second % 3} 1024 80 {(second % 5) * 100}" for second in range(3000)]
    (tmp_path / "mine.tcp").write_text("\n".join(lines) + "\n")
    (claim,) = find(["C12"])
    (result,) = runner.reproduce([(claim, {"traces": (str(tmp_path / "mine.tcp"),)})])
    assert {row.algorithm for row in result.rows} == {"mine.tcp", "mean of traces"}
    filtered = next(row for row in result.rows if row[:3] == ("filter", "mine.tcp", "tuples"))
    assert filtered.value == 0.8
    assert all(check.verdict != "not comparable" for check in result.checks)


@pytest.mark.slow
def test_selectivities_of_the_real_trace_are_those_measured(real_data: Path) -> None:
    found = {
        (x, metric): value for x, _, metric, value in monitored(str(real_data / "sdsc-http.txt.gz"), "SDSC", PACKETS, 1)
    }
    assert found["compare", "tuples"] == pytest.approx(0.0401, abs=1e-3)
    assert found["aggregate", "traffic"] < 0.5
