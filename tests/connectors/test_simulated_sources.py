"""Sources of outside systems in virtual time, in the editor, and in plans: as text, and of guests."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from synergy_nb import ClusterError, Simulation, edit, source, sql
from synergy_nb.editing.sampling import SampleError, compute_sample
from synergy_nb.plan import Plan, PlanError, Stream
from synergy_nb.plan.derived.allowed_paths import refused_paths

COLUMNS = {"time": "time", "n": "int"}


def put(path: Path, start: int, stop: int) -> None:
    """Write a file of rows."""
    path.write_text("".join(json.dumps({"time": n, "n": n}) + "\n" for n in range(start, stop)), encoding="utf-8")


def files(folder: Path, **params: object) -> Stream:
    return source("directory", path=folder / "*.jsonl", format="jsonl", columns=COLUMNS, id="rows", **params)


def test_a_directory_that_ends_is_simulated_and_what_waits_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", 0, 3)
    put(tmp_path / "b.jsonl", 3, 5)
    simulation = Simulation(peers=3, network="local", seed=1)
    application = simulation.submit(files(tmp_path, ends=True).filter("n <> 1").sink("out"))
    assert application.results()["n"].to_list() == [0, 2, 3, 4]
    tail = source("tail", path=tmp_path / "a.jsonl", format="jsonl", columns=COLUMNS, id="rows")
    for endless in (files(tmp_path), tail):
        with pytest.raises(ClusterError, match="which waits for what comes; expected a source that ends"):
            simulation.submit(endless.sink("out"))
    put(tmp_path / "c.jsonl", 4, 6)
    late = simulation.submit(files(tmp_path, ends=True, lateness="100 ms").sink("late"))
    assert late.results()["n"].to_list() == [0, 1, 2, 3, 4, 4, 5]
    (tmp_path / "d.jsonl").write_text('{"time": 0, "n": 0}\n', encoding="utf-8")
    broken = simulation.submit(files(tmp_path, ends=True).sink("broken"))
    with pytest.raises(ClusterError, match="expected event times in order"):
        broken.results()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_readers_give_the_rows_of_one_though_a_peer_that_reads_dies(seed: int, tmp_path: Path) -> None:
    for number in range(6):
        put(tmp_path / f"{number}.jsonl", 50 * number, 50 * number + 50)

    def counts(**params: object) -> Stream:
        kept = files(tmp_path, ends=True, **params).filter("n % 7 <> 0", id="kept")
        return kept.aggregate(window="10 s", n="count(*)", total="sum(n)", id="counts")

    alone = Simulation(peers=2, network="local").submit(counts().sink("out")).results()
    simulation = Simulation(peers=6, network="local", loss=0.02, duplication=0.02, reordering=0.02, seed=seed)
    plan = counts(readers=2, availability="degree 2").sink("out", availability="active 2")
    application = simulation.submit(plan)
    before, (backup,) = application.graph, application.backups["rows_1"]
    assert before["rows_1"] != before["rows_2"]
    simulation.run(random.Random(seed).uniform(0.0, 0.02))
    simulation.kill(before["rows_1"])
    results = application.results()
    assert application.graph["rows_1"] == backup
    assert results.equals(alone)
    account = str(application.explain())
    assert "rows_1" in account
    assert "rows_2" in account


def test_readers_are_composed_at_different_peers(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", 0, 3)
    put(tmp_path / "b.jsonl", 3, 5)
    simulation = Simulation(peers=8, network="local", seed=1)
    plan = files(tmp_path, ends=True, readers=6).sink("out")
    trial = simulation.check(plan)
    assert "would be admitted" in str(trial)
    application = simulation.submit(plan)
    assert len({application.graph[f"rows_{number + 1}"] for number in range(6)}) == 6
    assert "in the graph of most peers for the readers of a source, then least φ" in str(application.explain())
    assert "directory *.jsonl, 6 …" in str(application.plan)
    assert sorted(application.results()["n"].to_list()) == [0, 1, 2, 3, 4]


def test_a_sample_has_the_rows_that_are_there(tmp_path: Path) -> None:
    plan = files(tmp_path).filter("n > 0", id="kept").sink("out")
    with pytest.raises(SampleError, match="no rows are there yet"):
        compute_sample(plan, "kept", clock=lambda: 0.0)
    put(tmp_path / "a.jsonl", 0, 3)
    assert [row[-1] for row in compute_sample(plan, "kept", clock=lambda: 0.0).rows] == [1, 2]


def plans(folder: Path) -> list[Plan]:
    tail = source("tail", path=folder / "a.csv", format="csv", columns=COLUMNS, lateness="2 s", strict=True)
    return [files(folder, ends=True, order="time").sink("out"), tail.sink("out")]


def test_plans_are_the_same_as_files_as_python_and_as_sql(tmp_path: Path) -> None:
    for plan in plans(tmp_path):
        name = plan.stream_name(plan.sources[0])
        written: dict[str, object] = {}
        exec(plan.to_python(), written)
        again = [Plan.from_yaml(plan.to_yaml()), Plan.from_bytes(plan.to_bytes()), sql(plan.to_sql()).sink("out")]
        again += [each for each in written.values() if isinstance(each, Plan)]
        assert len(again) == 4
        assert {each.stream_name(each.sources[0]) for each in again} == {name}


def test_a_guest_reads_only_folders_that_were_named(tmp_path: Path) -> None:
    for plan in plans(tmp_path):
        assert refused_paths(plan, [tmp_path]) == ""
        assert "expected a file in" in refused_paths(plan, [tmp_path / "other"])
    outside = files(tmp_path / ".." / "elsewhere").sink("out")
    assert "expected a file in" in refused_paths(outside, [tmp_path])


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"path": "rows/*/a.csv", "format": "csv"}, "path: 'rows/*/a.csv'; expected a folder and a pattern"),
        ({"path": "rows/", "format": "csv"}, "path: 'rows/'; expected a folder and a pattern"),
        ({"path": "a.csv", "format": "tcp"}, "format: 'tcp'; expected one of csv, http, jsonl, ncsa, parquet"),
        ({"path": "a.csv", "format": "csv", "order": "size"}, "order: 'size'; expected one of name, time"),
        ({"path": "a.csv", "format": "csv", "columns": None}, "columns: missing; expected columns with their types"),
        ({"path": "a.log", "format": "ncsa"}, "no columns: the columns of format ncsa are fixed"),
    ],
)
def test_wrong_parameters_are_one_error(params: dict[str, object], expected: str) -> None:
    with pytest.raises(PlanError) as raised:
        source("directory", **{"columns": COLUMNS, **params}).sink("out")
    assert expected in str(raised.value)


def test_the_editor_makes_them_and_takes_the_fields_of_other_connectors_away(tmp_path: Path) -> None:
    editor = edit(Plan.from_yaml(source("packets", id="rows").sink("out", id="out").to_yaml()), anew=True)
    for field, value in {
        "connector": "directory",
        "path": str(tmp_path / "*.jsonl"),
        "format": "jsonl",
        "columns": COLUMNS,
        "ends": True,
    }.items():
        editor.apply({"op": "set", "operator": "rows", "field": field, "value": value})
    assert Plan.from_yaml(editor.yaml).stream_name("rows") == files(tmp_path, ends=True).sink().stream_name("rows")
    editor.apply({"op": "set", "operator": "rows", "field": "connector", "value": "tail"})
    editor.apply({"op": "set", "operator": "rows", "field": "path", "value": "rows.jsonl"})
    tail = source("tail", path="rows.jsonl", format="jsonl", columns=COLUMNS, id="rows").sink()
    assert Plan.from_yaml(editor.yaml).stream_name("rows") == tail.stream_name("rows")
