"""Files of results that the command writes: whole files in three formats, and what a run that ends badly leaves."""

from __future__ import annotations

import io
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb import Plan, csv, source
from synergy_nb.cli._input_checks import parsed, print_json
from synergy_nb.cli._result_files import chosen_files
from synergy_nb.cli._run_command import execute
from synergy_nb.dataflow.sinks.protocol import SinkFailed
from synergy_nb.runtime.client import result_files
from synergy_nb.runtime.client.result_files import ResultFile
from synergy_nb.runtime.process.requests import ClusterError

SCHEMA = {"time": "time", "who": "str", "n": "int", "share": "float", "secret": "bytes", "yes": "bool"}
TABLES = [
    pl.DataFrame(
        {
            "time": [datetime.fromisoformat(f"2026-01-0{day}T09:30:00.000005")],
            "who": ['ann, "ä"\n'],
            "n": [2**62 + day],
            "share": [0.1],
            "secret": [b"\x00\xff"],
            "yes": [None],
        },
        schema_overrides={"yes": pl.Boolean},
    )
    for day in (1, 2, 3)
]


def written(path: Path) -> ResultFile:
    file = ResultFile(path, SCHEMA, "stream")
    for table in TABLES:
        file.add(table)
    return file


def plan_of_two() -> Plan:
    return Plan.from_yaml(
        "format: 1\nname: two\noperators:\n  s: {kind: source, connector: packets, rate: 10 tuples/s}\n"
        "  one: {kind: sink, input: s, name: one}\n  two: {kind: sink, input: s, name: two}\n"
    )


@pytest.mark.parametrize("every", [0.0, 100.0])
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".NDJSON"])
def test_a_file_has_all_rows_however_they_came(
    suffix: str, every: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_files, "EVERY_S", every)
    path = tmp_path / f"of the day{suffix}"
    path.write_text("the file of before")
    file = written(path)
    assert path.read_text() == "the file of before"
    file.close(complete=True)
    assert (file.rows, file.complete, file.part.exists()) == (3, True, False)
    whole = pl.concat(TABLES)
    if suffix == ".parquet":
        assert pl.read_parquet(path).equals(whole)
        return
    if suffix == ".csv":
        found = pl.read_csv(path, try_parse_dates=True)
    else:
        found = pl.DataFrame([json.loads(line) for line in path.read_text("utf-8").splitlines()])
        found = found.with_columns(pl.col("time").str.to_datetime())
    assert found["time"].to_list() == whole["time"].to_list()
    assert found.select("who", "n", "share").equals(whole.select("who", "n", "share"))
    assert found["secret"].to_list() == ["00ff"] * 3
    assert found["yes"].to_list() == [None] * 3


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_file_without_rows_has_its_columns(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"none{suffix}"
    ResultFile(path, SCHEMA, "stream").close(complete=True)
    if suffix == ".jsonl":
        assert path.read_text() == ""
    else:
        read: Any = pl.read_parquet if suffix == ".parquet" else pl.read_csv
        assert read(path).columns == list(SCHEMA)


def test_a_file_that_is_not_complete_keeps_its_part_and_an_empty_one_nothing(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    path.write_text("the file of before")
    written(path).abandon()
    assert path.read_text() == "the file of before"
    assert pl.read_parquet(tmp_path / "some.parquet.part" / "*.parquet").height == 3
    ResultFile(tmp_path / "no.csv", SCHEMA, "stream").abandon()
    assert not (tmp_path / "no.csv.part").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["x.json"],
            "'x.json'; expected a file NAME.parquet, NAME.csv, NAME.jsonl or NAME.ndjson; did you mean",
        ),
        (["x"], "'x'; expected a file NAME.parquet"),
        (["a.csv", "b.csv"], "'b.csv'; expected one file for each sink, and sink has 'a.csv' already"),
    ],
)
def test_a_file_of_another_format_and_a_second_one_are_refused(given: list[str], said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared
        chosen_files(given, source("packets").sink("r"))
    assert str(caught.value).startswith(said)


def test_a_file_that_the_plan_uses_is_not_replaced() -> None:
    plan = source("trace", path="mine.csv", format="csv", columns={"time": "time"}).sink(to=csv("rows.csv"))
    for given, said in (("./mine.csv", "that source reads"), ("rows.csv", "that sink writes")):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared
            chosen_files([given], plan)
        assert str(caught.value) == f"{given!r}; expected another file than the one {said}"


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("folder", [False, True])
def test_what_is_beside_a_file_and_not_of_an_earlier_run_stays(suffix: str, folder: bool, tmp_path: Path) -> None:
    path = tmp_path / f"rows{suffix}"
    part = tmp_path / f"rows{suffix}.part"
    mine = part / "mine.txt" if folder else part
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("something else")
    with pytest.raises(SinkFailed, match=re.escape(str(part))):
        written(path)
    assert mine.read_text() == "something else"
    assert not path.exists()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_rows_of_another_stream_by_an_earlier_run_are_discarded(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows{suffix}"
    written(path).close(complete=False)
    file = ResultFile(path, SCHEMA, "another stream")
    assert (file.repeated, file.rows) == (0, 0)
    file.close(complete=True)


def test_several_sinks_have_a_file_each() -> None:
    found = chosen_files(["two=b=2.csv", "one=a.parquet"], plan_of_two())
    assert found == {"two": Path("b=2.csv"), "one": Path("a.parquet")}
    for given, said in (
        (["a.csv"], "'a.csv'; expected SINK=FILE with one of the sinks one, two"),
        (["one=a.csv", "two=./a.csv"], "'two=./a.csv'; expected another file than that of another sink"),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is compared
            chosen_files(given, plan_of_two())
        assert str(caught.value) == said
    assert chosen_files(["a=b.csv"], source("packets").sink("r")) == {"sink": Path("a=b.csv")}


def test_a_refused_plan_leaves_no_file(tmp_path: Path) -> None:
    class Refusing:
        def submit(self, *_: object, **__: object) -> None:
            raise ClusterError("no room")

    class Silent:
        def stage(self, text: str) -> None: ...

    with pytest.raises(ClusterError, match="no room"):
        execute(
            source("packets").sink("r"), Refusing(), {}, {"sink": tmp_path / "r.csv"},  # type: ignore[arg-type]
            limit=1, duration=None, progress=Silent(),
        )  # fmt: skip
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.parquet", "Out.CSV", "a.jsonl"])
def test_a_result_that_is_named_like_a_file_is_told_that_none_is_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(
        UserWarning, match=rf"sink\('{name}'\) names the result, and writes no file; results\(\)\.write_"
    ):
        source("packets").sink(name)
    text = source("packets").sink("rows").to_yaml().replace("name: rows", f"name: {name}")
    assert name in text
    with pytest.warns(UserWarning, match=rf"operator 'sink', name: '{name}' names the result, and writes no file; "):
        Plan.from_yaml(text)
    file = tmp_path / "plan.yaml"
    file.write_text(text, "utf-8")
    parsed(file)
    assert capsys.readouterr().err.startswith(f"! operator 'sink', name: '{name}' names the result")


def test_json_is_valid_on_a_terminal_without_the_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, letters in (("ascii", False), ("utf-8", True)):
        raw = io.BytesIO()
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding, write_through=True))
        print_json({"name": "ü😀"})
        said = raw.getvalue().decode(encoding)
        assert json.loads(said) == {"name": "ü😀"}
        assert ("ü" in said) is letters


def test_json_has_null_for_what_it_lacks_and_all_digits_of_integers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nan, infinity = float("nan"), float("inf")
    print_json({"x": [nan, (infinity, -infinity)], "n": {"most": 2**63 - 1, "share": 0.1}})
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert found == {"x": [None, [None, None]], "n": {"most": 2**63 - 1, "share": 0.1}}
    far = pl.Series([253_402_300_800_000_000] * 2).cast(pl.Datetime("us"))  # the year 10000, which Python has not
    table = pl.DataFrame({"time": far, "n": [2**53 + 1, -(2**63)], "x": [nan, -infinity]})
    for suffix in ("jsonl", "csv"):
        file = ResultFile(tmp_path / f"rows.{suffix}", {"time": "time", "n": "int", "x": "float"}, "s")
        file.add(table)
        file.close(complete=True)
    lines = (tmp_path / "rows.jsonl").read_text().splitlines()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    time = "+10000-01-01T00:00:00.000000"
    assert rows == [{"time": time, "n": 2**53 + 1, "x": None}, {"time": time, "n": -(2**63), "x": None}]
    assert (tmp_path / "rows.csv").read_text().splitlines()[1:] == [
        f"{time},{2**53 + 1},NaN",
        f"{time},{-(2**63)},-inf",
    ]
