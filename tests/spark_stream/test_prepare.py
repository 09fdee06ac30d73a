"""Jobs on Spark from raw files to clean data: what they make, that they go on, and that they make the same again."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from typer.testing import CliRunner

from spark_stream.pipeline import Prepared, Progress, prepare
from spark_stream.pipeline import profile as profile_of_rows
from synergy_nb.cli.commands import app

if TYPE_CHECKING:
    from spark_stream.server import Server

pytestmark = pytest.mark.slow

Job = Callable[..., Prepared]


@pytest.fixture
def job(spark_server: Server) -> Job:
    return lambda *inputs, **named: prepare(*inputs, spark=spark_server.ready(), **named)


def log(path: Path, seconds: list[int], *others: str) -> Path:
    lines = [f'h{n % 3} - - [01/Jul/1995:23:59:{n:02} +0000] "GET /x{n % 2} HTTP/1.0" 200 {n}' for n in seconds]
    path.write_text("\n".join([*lines, *others, ""]))
    return path


def contents(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each file, in their order."""
    paths = sorted(folder.rglob("*.parquet"))
    return {str(path.relative_to(folder)): pl.read_parquet(path, hive_partitioning=False).rows() for path in paths}


class Stopped(Exception):
    """Somebody stops the job."""


def test_from_raw_logs_to_clean_rows_stopped_on_the_way_and_again(job: Job, tmp_path: Path) -> None:
    """Two files overlap, one has a malformed line, the job is stopped at each stage, and goes on."""
    midnight = 'h0 - - [02/Jul/1995:00:00:00 +0000] "GET /x0 HTTP/1.0" 200 60'
    inputs = [
        log(tmp_path / "a.log", [0, 5, 4, 4, 59], midnight, "what"),
        log(tmp_path / "b [1].log", [4, 59, 58], midnight, midnight),
    ]
    arguments: dict[str, Any] = {"tolerance": 0.2, "derive": {"large": "bytes > 50", "later": "time + INTERVAL 1 DAY"}}
    out = tmp_path / "out put"
    stages: list[str] = []
    for stop in ("write", "profile", ""):

        def progress(now: Progress, stop: str = stop) -> None:
            stages.append(now.stage)
            if now.stage == stop:
                raise Stopped

        if stop:
            with pytest.raises(Stopped):
                job(*inputs, out=out, progress=progress, **arguments)
            assert (out / "_work/rows-00001-00000.json").exists()
            stages.append("stopped")
        else:
            made = job(*inputs, out=out, progress=progress, **arguments)
    assert list(dict.fromkeys(stages[: stages.index("stopped")])) == ["parse", "write"]
    assert "parse" not in stages[stages.index("stopped") :]  # it was done
    found = made.scan().collect()
    assert found["bytes"].to_list() == [0, 4, 4, 5, 58, 59, 60, 60]  # of both files, as many as one has of each
    assert found.schema["time"] == pl.Datetime("us")
    assert found.filter(large=True).height == 4
    assert (found["later"] - found["time"]).unique().to_list() == [found["later"][0] - found["time"][0]]
    assert [(each.name, each.rows_in, each.rows_out) for each in made.stages] == [
        ("parse", 12, 12), ("judge", 12, 11), ("order", 11, 11), ("derive", 11, 11), ("deduplicate", 11, 8),
        ("write", 8, 8), ("profile", 8, 8),
    ]  # fmt: skip
    assert made.files == ["day=1995-07-01/part-00.parquet", "day=1995-07-02/part-00.parquet"]
    assert (made.first, made.last) == ("1995-07-01T23:59:00.000000", "1995-07-02T00:00:00.000000")
    (bad,) = (json.loads(line) for line in (out / "_quarantine/lines.jsonl").read_text().splitlines())
    assert (bad["path"], bad["line"], bad["text"]) == (str(inputs[0].resolve()), 7, "what")
    profile = made.profile
    assert (profile.rows, profile.rate, profile.resolution) == (8, 8 / 61, 1.0)
    assert (profile.columns["host"].distinct, profile.columns["host"].distinct_basis) == (3, "exact")
    assert [(day.day, day.rows) for day in profile.days] == [("1995-07-01", 6), ("1995-07-02", 2)]
    lost = {each.seconds: each.lost for each in profile.lateness}
    assert (lost[0.0], lost[0.1], lost[1.0]) == (3, 3, 0)  # two in one file, one in the other, each by a second
    assert profile.disorder == 1.0
    assert "<h2>Rates</h2>" in (out / "_profile.html").read_text()
    assert profile_of_rows(out, spark="unix:///nowhere/connect") == profile
    assert not list((out / "_work").glob("*.parquet"))
    before = contents(out)
    assert str(prepare(*inputs, out=out, spark="unix:///nowhere/connect", **arguments)) == str(made)  # nothing to do
    assert contents(out) == before
    job(*inputs, out=tmp_path / "other", **arguments)
    assert contents(tmp_path / "other") == before


@pytest.mark.parametrize("duplicates", ["files", "rows"])
def test_equal_rows_are_kept_as_often_as_asked_by_polars_and_by_spark(
    duplicates: str, job: Job, tmp_path: Path
) -> None:
    """Spark compares them where something is derived, Polars elsewhere; with odd names and values."""
    chance = random.Random(5)
    paths, files = [], list[Counter[tuple[str, ...]]]()
    for name in "abc":
        paths.append(tmp_path / f"{name}.csv")
        lines = [
            (f"{chance.randrange(3)}", chance.choice(["0.0", "-0.0", "NaN", "1.5", ""]), chance.choice(["x", '"', ""]))
            for _ in range(60)
        ]
        quoted = [",".join([at, value, '""""' if text == '"' else text]) for at, value, text in lines]
        paths[-1].write_text("\n".join(["time,a b,é", *quoted, ""]))
        files.append(Counter((at, value.removeprefix("-"), text) for at, value, text in lines))
    most = Counter[tuple[str, ...]]()
    for each in files:
        most |= each if duplicates == "files" else Counter(dict.fromkeys(each, 1))
    found = {}
    for derive in ({}, {"later": "time + INTERVAL 1 DAY"}):
        columns = {"time": "time", "a b": "float", "é": "str"}
        made = job(*paths, out=tmp_path / f"out-{len(derive)}", columns=columns, duplicates=duplicates, derive=derive)
        rows = pl.concat(pl.read_parquet(tmp_path / f"out-{len(derive)}" / file) for file in made.files)
        found[len(derive)] = [(at, str(value), text) for at, value, text, *_ in rows.rows()]
        assert len(rows) == made.rows == most.total()
    assert found[0] == found[1]
    seen = Counter((at.strftime("%-S"), value.removeprefix("-"), text) for at, value, text in found[0])
    assert seen == Counter(
        {(at, value.replace("NaN", "nan") or "None", text): n for (at, value, text), n in most.items()}
    )


def test_more_files_are_added_as_if_all_had_been_there(job: Job, tmp_path: Path) -> None:
    """Days without new rows are left alone; a wrong file is refused and may come again; files are waited for."""
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()

    def day(name: str, number: int, *others: str) -> Path:
        path = raw / name
        line = 'h{} - - [{:02}/Jul/1995:0{}:00:00 +0000] "GET /x HTTP/1.0" 200 {}'
        lines = [line.format(n, number + n // 3, n % 3, 10 * number + n) for n in range(6)]
        path.write_text("\n".join([*lines, *others, ""]))
        return path

    day("b.log", 2)
    first = job(raw, out=out)
    kept = {path: path.stat().st_mtime_ns for path in (out / first.files[0], out / first.files[1])}
    day("a.log", 3, "what")
    with pytest.raises(ValueError, match=r"a\.log: 1 of 7 lines are not of format"):
        job(raw, out=out)
    day("a.log", 3)
    second = job(raw, out=out)
    assert [Path(each).name for each in second.inputs] == ["b.log", "a.log"]  # in the order in which they came
    assert (out / first.files[0]).stat().st_mtime_ns == kept[out / first.files[0]]
    assert (out / first.files[1]).stat().st_mtime_ns != kept[out / first.files[1]]
    assert second.rows == 12
    looks: list[int] = []

    def progress(now: Progress) -> None:
        if now.stage == "follow":
            looks.append(now.rows)
            if len(looks) == 1:
                day("c.log", 4)
                (raw / "b.log").unlink()  # not needed any more: the file that comes has no rows of its days
            if now.rows > 12:
                raise KeyboardInterrupt

    third = job(raw, out=out, follow=True, every=0.01, progress=progress)
    assert (looks[0], third.rows) == (0, 18)
    assert not list((out / "_work").glob("*.parquet"))
    came = [
        (number + n // 3, n % 3, place, 10 * number + n) for place, number in enumerate((2, 3, 4)) for n in range(6)
    ]
    assert third.scan().collect()["bytes"].to_list() == [each[-1] for each in sorted(came)]
    assert third.files == [f"day=1995-07-0{number}/part-00.parquet" for number in range(2, 6)]
    (raw / "a.log").unlink()
    day("d.log", 4)
    with pytest.raises(ValueError, match=r"a\.log: it was removed or changed, and new files have rows of the same da"):
        job(raw, out=out, follow=True, every=0.01)


def test_too_many_malformed_lines_are_refused_and_nothing_is_lost(job: Job, tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_text("time,n,name\n5,1,a\n1,2,b\nx,3,c\n3,4\n")
    said = r"raw\.csv: 2 of 4 lines are not of format 'csv' .* line 4: field 'time': 'x'; .*_quarantine has more of"
    with pytest.raises(ValueError, match=said):
        job(path, out=tmp_path / "out")
    assert contents(tmp_path / "out").keys() == {"_work/rows-00000-00000.parquet"}
    assert len((tmp_path / "out/_quarantine/lines.jsonl").read_text().splitlines()) == 2
    made = job(path, out=tmp_path / "out", tolerance=0.5, partition="day")
    assert made.scan().collect().rows() == [
        (made.scan().collect()["time"][0], 2, "b"),
        (made.scan().collect()["time"][1], 1, "a"),
    ]


def test_the_command_prepares_by_hour_with_a_row_that_is_late(spark_server: Server, tmp_path: Path) -> None:
    path, out = tmp_path / "raw.jsonl", tmp_path / "out"
    seconds = [7200, 3600, 7100, 7300]
    path.write_text("".join(f'{{"time": {1e9 + each}, "n": {each}, "part": {{"a": 1}}}}\n' for each in seconds))
    where = spark_server.ready()
    options = ["--by", "hour", "--lateness", "10 min", "--duplicates", "rows", "--json"]
    arguments = ["data", "prepare", str(path), "--out", str(out), "--spark", f"{where.url}/;token={where.token}"]
    result = CliRunner().invoke(app, [*arguments, *options])
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert made["files"] == ["day=2001-09-09/hour=03/part-00.parquet"]
    assert made["stages"][2]["did"] == "1 row came too late"
    assert pl.read_parquet(out / made["files"][0])["n"].to_list() == [7100, 7200, 7300]
    assert "parse" in result.stderr


def test_a_frame_and_counts_have_profiles(spark_server: Server, tmp_path: Path) -> None:
    """Rows of a frame in any order; and a file with a count a line, by the command."""
    where = spark_server.ready()
    frame = pl.DataFrame({"when": [30.0, 10.0, 20.0, 20.0], "key": ["a", "b", "a", "a"]})
    found = profile_of_rows(frame, spark=where, time="when")
    assert (found.name, found.rows, found.seconds) == ("a frame", 4, 30.0)
    assert found.columns["key"].distinct == 2
    assert (found.lateness[0].lost, found.disorder) == (3, 20.0)
    counts, page = tmp_path / "counts.txt", tmp_path / "page.html"
    counts.write_text("2\n0\n3\n")
    arguments = ["data", "prepare", str(counts), "--out", str(tmp_path / "out"), "--format", "counts"]
    arguments += ["--start", "1995-07-01T00:00:00-04:00", "--step", "1 min", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--spark", f"{where.url}/;token={where.token}"])
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert [(each["name"], each["rows_in"], each["rows_out"]) for each in made["stages"][:3]] == [
        ("parse", 3, 3), ("judge", 3, 3), ("order", 5, 5),
    ]  # fmt: skip
    assert (made["first"], made["rows"]) == ("1995-07-01T04:00:00.000000", 5)
    result = CliRunner().invoke(app, ["data", "profile", str(tmp_path / "out"), "--page", str(page)])
    assert result.exit_code == 0, result.output
    assert "counts.txt: 5 rows from 1995-07-01 04:00:00" in result.stdout
    assert page.read_text().startswith("<!doctype html>")
