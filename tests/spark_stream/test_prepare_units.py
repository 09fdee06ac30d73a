"""What a job does without Spark: files are found and judged, units leave rows and counts, files are planned."""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import polars as pl
import pyarrow.parquet as pq
import pytest

from spark_stream import _opened_sessions
from spark_stream.java import SparkUnavailable
from spark_stream.pipeline import PrepareError, Progress, prepare
from spark_stream.pipeline import _dividing as dividing
from spark_stream.pipeline import _preparing as preparing
from spark_stream.pipeline._dividing import copy_again, divided, likely_lines, remove_copies, units_of
from spark_stream.pipeline._inputs import check_fits, common_layout, raw_files
from spark_stream.pipeline._judging import judge, quarantine
from spark_stream.pipeline._pieces import Piece, groups_of, pieces_of, slices_of
from spark_stream.pipeline._preparing import late_beside_others, raw_order
from spark_stream.pipeline._profiling import _without_paths, profile
from spark_stream.pipeline._spark_job import executed
from spark_stream.pipeline._surveying import days_of, survey_file, survey_of
from spark_stream.pipeline._units import (
    LATENESSES,
    Sorting,
    Unit,
    UnitCounts,
    UnitFault,
    fault_in,
    parse,
    parsed_or_said,
    rows_so_far,
    source_of,
    stored_rows,
    write_sorted,
)
from spark_stream.pipeline._work_folder import (
    QUARANTINE,
    Manifest,
    WrittenFile,
    begun,
    finished,
    note_units,
    noted_units,
    numbered,
    owned,
    raw_file,
    renew,
)
from synergy_nb.traces.profiles.profiling import RawOrder
from synergy_nb.traces.profiles.surveys import from_bytes
from synergy_nb.traces.raw_files import raw_layout
from synergy_nb.traces.text_files import unpacked

GZIP = b"\x1f\x8b"  # its first bytes
ANYWHERE = "unix:///nowhere/connect"  # no server: what is refused is refused before Spark is asked


def csv_file(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in ("time,n", *lines)))
    return path


def jsonl_file(path: Path, rows: int, bad: tuple[int, ...] = ()) -> Path:
    path.write_text("".join("what\n" if n in bad else f'{{"time": {3600 * n}, "n": {n}}}\n' for n in range(rows)))
    return path


# -- inputs ------------------------------------------------------------------------------------------------------------


def test_files_are_found_in_folders_and_by_patterns_each_once(tmp_path: Path) -> None:
    (tmp_path / "in/deep").mkdir(parents=True)
    names = ["in/b.csv", "in/a.csv", "in/deep/c.csv"]
    for name in [*names, "in/.hidden", "in/_done"]:
        csv_file(tmp_path / name, "1,1")
    found = raw_files([tmp_path / "in/b.csv", tmp_path / "in", str(tmp_path / "in/*.csv")])
    assert [each.name for each in found] == ["b.csv", "a.csv", "c.csv"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("in/gone.csv", r"gone\.csv: no such file or folder; expected a raw trace; did you mean 'one.csv'"),
        ("in/*.log", r"\*\.log: no file has such a path; expected a pattern"),
        ("empty", "empty: a folder without files"),
    ],
)
def test_inputs_that_are_not_there(given: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "in").mkdir()
    csv_file(tmp_path / "in/one.csv", "1,1")
    with pytest.raises(ValueError, match=said):
        raw_files([tmp_path / given])


def test_columns_of_several_files_have_the_wider_type(tmp_path: Path) -> None:
    paths = [csv_file(tmp_path / "a", "1,1"), csv_file(tmp_path / "b", "2,1.5")]
    assert common_layout(paths, {}).schema == {"time": "time", "n": "float"}
    other = tmp_path / "c"
    other.write_text("time,m\n1,1\n")
    with pytest.raises(ValueError, match=r"c: other columns than .*a: m, n; expected files with the same columns"):
        common_layout([*paths, other], {})
    with pytest.raises(ValueError, match=r"format 'jsonl', but .* has 'csv'; expected files of one format"):
        common_layout([*paths, jsonl_file(tmp_path / "d", 1)], {})


# -- the door ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"format": "cvs"}, "format: 'cvs'; expected one of .*, csv, .*; did you mean 'csv'"),
        ({"time_unit": "h"}, "time_unit: 'h'; expected one of s, ms"),
        ({"duplicates": "drop"}, "duplicates: 'drop'; expected one of files, rows, keep"),
        ({"partition": "week"}, "partition: 'week'; expected one of day, hour"),
        ({"tolerance": 1.5}, "tolerance: 1.5; expected a share from 0 to less than 1"),
        ({"derive": {"n": "1"}}, "derive: 'n' is a column of the rows; expected another name"),
        ({"derive": {"m": "n +"}}, "derive: m: "),
        ({"derive": {"day": "n"}}, "'day' is a name of the pipeline's own"),
        ({"derive": {"N": "n"}}, "columns: 'n' and 'N'; expected names that differ in letters"),
        ({"encoding": "utf-9"}, "utf-9"),
        ({"lateness": "soon"}, "soon"),
        ({"start": "July"}, "start: 'July'; expected a time such as '1995-07-01T00:00:00-04:00'"),
        ({"step": 0}, "step"),
        ({"format": "counts"}, "format 'counts' without start and step"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_written(
    arguments: dict[str, object], said: str, tmp_path: Path
) -> None:
    path = csv_file(tmp_path / "raw", "1,1")
    with pytest.raises(ValueError, match=said):
        prepare(path, out=tmp_path / "out", spark=ANYWHERE, **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "brief"),
    [({}, True), ({"duplicates": "rows"}, True), ({"derive": {"m": "n"}}, False)],
)
def test_java_compiles_only_quickly_where_it_has_little_to_execute(
    arguments: dict[str, Any], brief: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = csv_file(tmp_path / "raw", "1,1")
    asked: list[bool] = []

    def server(*, brief: bool) -> NoReturn:
        asked.append(brief)
        raise SparkUnavailable("none here")

    monkeypatch.setattr(_opened_sessions, "Server", server)
    with pytest.raises(SparkUnavailable):
        prepare(path, out=tmp_path / "out", **arguments)
    assert asked == [brief]


@pytest.mark.parametrize("name", ["*", "^x.*$"])
def test_a_column_whose_name_means_several_is_refused_at_the_door(name: str, tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_text(f"time,{name}\n1,\n")
    with pytest.raises(ValueError, match=r"raw.csv: column '.*'; expected a name other than '\*' and "):
        prepare(path, out=tmp_path / "out", spark=ANYWHERE)
    assert not (tmp_path / "out").exists()


def test_several_files_cannot_have_counts(tmp_path: Path) -> None:
    paths = [csv_file(tmp_path / name, "1") for name in ("a", "b")]
    with pytest.raises(
        ValueError, match="inputs: 2 files; expected one of format 'counts', whose first line is at start"
    ):
        prepare(*paths, out=tmp_path / "out", spark=ANYWHERE, format="counts", start="1995-07-01", step="1 s")


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "raw", "1,1")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("x")
    with pytest.raises(ValueError, match=r"out: .* holds other things, such as 'mine'; expected a new or empty folder"):
        prepare(path, out=tmp_path / "out", spark=ANYWHERE)
    with pytest.raises(ValueError, match="is a file; expected a folder"):
        prepare(path, out=path, spark=ANYWHERE)


def test_spark_that_is_not_there_leaves_a_folder_that_nothing_binds(tmp_path: Path) -> None:
    path, out = csv_file(tmp_path / "raw", "1,1"), tmp_path / "out"
    for partition in ("day", "day", "hour"):
        with pytest.raises(PrepareError, match="spark: no Spark server can be reached"):
            prepare(path, out=out, spark=ANYWHERE, partition=partition)
    csv_file(path, "1,1", "2,2")  # as long as there are no rows of it, a file may change
    with pytest.raises(PrepareError, match="spark: no Spark server can be reached"):
        prepare(path, csv_file(tmp_path / "other", "1,1"), out=out, spark=ANYWHERE)


def test_settings_bind_when_the_first_file_of_the_result_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = csv_file(tmp_path / "raw", "1,1"), tmp_path / "out"
    broken = {"write_sorted_files"}

    def here(job: object, sessions: object, stage: str, watch: object, step: str, *given: Any) -> dict[str, int]:
        if step in broken:
            raise PrepareError(f"{stage}: Spark was lost")
        if step == "parse_units":
            units, layout, work, lateness, _ = given
            return {unit.name: parse(unit, layout, work, lateness).rows for unit in units}
        for each in given[0]:
            write_sorted(each, given[1])
        return {each.target: pq.read_metadata(each.target).num_rows for each in given[0]}

    monkeypatch.setattr("spark_stream.pipeline._preparing._Job._on_spark", here)
    monkeypatch.setattr(preparing, "survey_of", lambda days: executed_nowhere())
    with pytest.raises(PrepareError, match="write: Spark was lost"):
        prepare(path, out=out, spark=ANYWHERE)
    broken.clear()
    with pytest.raises(PrepareError, match="profile: Spark was lost"):
        prepare(path, out=out, spark=ANYWHERE, partition="hour")
    assert [each.name for each in out.glob("day=*/*")] == ["hour=00"]
    with pytest.raises(ValueError, match="was prepared with partition='hour', not 'day'"):
        prepare(path, out=out, spark=ANYWHERE)


def executed_nowhere() -> NoReturn:
    raise PrepareError("profile: Spark was lost")


def test_a_job_may_begin_anew_with_other_settings_until_it_has_written_data(tmp_path: Path) -> None:
    path, out = csv_file(tmp_path / "raw", "1,1"), tmp_path / "out"
    layout = raw_layout(path)
    first, second = (Manifest([raw_file(path)], {"time_unit": unit}, layout) for unit in (None, "ms"))
    with owned(out) as work:
        renew(out, None, first)
        (work / "0-0.json").write_text("of the first")
        assert begun(out, second.settings) is None
        assert begun(out, first.settings) == first
        renew(out, None, second)
        assert [each.name for each in work.iterdir()] == ["lock"]
        renew(out, second, written := msgspec.structs.replace(second, kept=1))
        assert begun(out, second.settings) == written
        with pytest.raises(ValueError, match="was prepared with time_unit='ms', not None; expected another folder"):
            begun(out, first.settings)


def test_files_keep_their_numbers_once_their_rows_may_be_in_the_result(tmp_path: Path) -> None:
    a, b, c, d = (raw_file(csv_file(tmp_path / name, "1,1")) for name in "abcd")
    out, layout = tmp_path / "out", raw_layout(tmp_path / "a")
    before = Manifest([c, a, d], {}, layout, kept=2)
    assert numbered(out, before, [a, b, c, d], more=False) == [c, a, d, b]  # d has begun
    changed = msgspec.structs.replace(d, size=0)
    assert numbered(out, before, [a, b, c, changed], more=False) == [c, a, b, changed]
    assert numbered(out, before, [b], more=True) == [c, a, b]
    with pytest.raises(ValueError, match=r"out: .*out has data that was prepared from .*c, too; expected another"):
        numbered(out, before, [a, b], more=False)
    with pytest.raises(ValueError, match=r"prepared from .*a before it was changed"):
        numbered(out, before, [msgspec.structs.replace(a, size=0), c], more=True)
    with owned(out) as work:
        renew(out, None, before)
        note_units(work, [Unit(f"rows-0000{number}-00000", each.path, number) for number, each in enumerate([c, a, d])])
        for name in ("rows-00001-00000.json", "rows-00002-00000.json", "rows-00002-00000.parquet", "files.json"):
            (work / name).touch()
        renew(out, before, msgspec.structs.replace(before, files=[c, a, b]))
        assert sorted(each.name for each in work.iterdir()) == [
            "files.json", "lock", "rows-00001-00000.json", "units.json",
        ]  # fmt: skip
        assert [unit.path for unit in noted_units(work)] == [c.path, a.path]


def test_more_files_have_to_fit_those_that_are_prepared(tmp_path: Path) -> None:
    first = csv_file(tmp_path / "a", "1,1")
    layout = raw_layout(first)
    check_fits(csv_file(tmp_path / "b", "2,2"), layout, first, {})
    with pytest.raises(ValueError, match="c: column 'n': type float, but the data that is prepared has type int; exp"):
        check_fits(csv_file(tmp_path / "c", "2,2.5"), layout, first, {})
    with pytest.raises(ValueError, match=r"d: format 'jsonl', but .*a has 'csv'; expected files of one format"):
        check_fits(jsonl_file(tmp_path / "d", 1), layout, first, {})


def test_two_jobs_do_not_write_one_folder(tmp_path: Path) -> None:
    with owned(tmp_path / "out"), pytest.raises(ValueError, match="another process prepares data in"):  # noqa: SIM117
        with owned(tmp_path / "out"):
            pass


# -- units -------------------------------------------------------------------------------------------------------------


def parsed(path: Path, folder: Path, lateness: float | None = None) -> tuple[Unit, UnitCounts]:
    folder.mkdir(exist_ok=True)
    (unit,) = units_of(path, 0, raw_layout(path))
    return unit, parse(unit, raw_layout(path), folder, lateness)


def test_a_unit_leaves_rows_and_counts(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "raw", "7200,1", "10,2", "x,3", "7300,4")
    unit, counts = parsed(path, tmp_path / "work")
    assert (counts.lines, counts.malformed, counts.rows, counts.late) == (4, 1, 3, 0)
    assert (counts.first, counts.last, counts.hours) == (10_000_000, 7_300_000_000, {0: 1, 2: 2})
    assert counts.disorder == 7_190_000_000
    assert pq.read_table(stored_rows(tmp_path / "work", unit))["n"].to_pylist() == [1, 2, 4]
    assert rows_so_far(tmp_path / "work", unit) == 4
    path.unlink()
    assert parse(unit, raw_layout(csv_file(path, "1,1")), tmp_path / "work", None) == counts  # it is not read again


def test_rows_that_come_too_late_are_left_out_and_kept_in_quarantine(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "raw", "100,1", "95,2", "80,3", "101,4")
    unit, counts = parsed(path, tmp_path / "work", lateness=10.0)
    assert (counts.rows, counts.late) == (3, 1)
    (late,) = counts.rejected
    assert (late.why, late.line, late.expected) == ("late", 3, "at most 10 s before the latest row, not 20 s")
    assert pq.read_table(stored_rows(tmp_path / "work", unit))["n"].to_pylist() == [1, 2, 4]


def test_rows_of_a_part_are_late_by_those_of_the_parts_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A divided file keeps the rows that it keeps as a whole; parts are parsed again only where that matters."""
    times = [*range(20), 60, *range(21, 40), 45, 52, *range(41, 60), *range(55, 80)]
    path = csv_file(tmp_path / "raw", *(f"{at},{n}" for n, at in enumerate(times)))
    layout, lateness = raw_layout(path), 10.0
    unit, whole = parsed(path, tmp_path / "whole", lateness)
    assert whole.late > 20
    (tmp_path / "back").mkdir()
    monkeypatch.setattr(dividing, "PART_BYTES", 60)
    monkeypatch.setattr(dividing, "_BACK", 1)
    monkeypatch.setattr("synergy_nb.traces.text_files.BLOCK", 60)
    units = units_of(path, 0, layout)
    assert len(units) > 5
    found = {unit: parse(unit, layout, tmp_path, lateness) for unit in units}
    again = late_beside_others(found, lateness)
    assert 1 < len(again) < len(units) - 2  # those of which the row just before is not the latest
    alone = raw_order(found)
    assert alone is not None
    assert alone.in_parts
    found |= {unit: parse(unit, layout, tmp_path, lateness, reached) for unit, reached in again.items()}
    assert not late_beside_others(found, lateness)
    monkeypatch.setattr(dividing, "_BACK", 10_000)  # bytes: all rows before it
    others = {unit: parse(unit, layout, tmp_path / "back", lateness) for unit in units_of(path, 0, layout)}
    assert not late_beside_others(others, lateness)
    assert raw_order(others) == raw_order({unit: whole})
    assert (sum(each.late for each in found.values()), sum(each.rows for each in found.values())) == (
        whole.late, whole.rows,
    )  # fmt: skip
    kept = [n for unit in units for n in pq.read_table(stored_rows(tmp_path, unit))["n"].to_pylist()]
    assert kept == pq.read_table(tmp_path / "whole/rows-00000-00000.parquet")["n"].to_pylist()


@pytest.mark.slow
def test_spark_s_processes_import_no_more_than_they_need() -> None:
    """They cannot wait for what only the owner of a job needs, such as the statistics of a profile."""
    text = "import sys, spark_stream.pipeline._units; print(*{'scipy', 'statsmodels', 'pyspark'} & {*sys.modules})"
    assert not subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True).stdout.strip()


# -- packed files ------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dividing, "PART_BYTES", 300)
    monkeypatch.setattr(dividing, "_BACK", 100)
    monkeypatch.setattr("synergy_nb.traces.text_files.BLOCK", 100)


def packed_file(path: Path, rows: int) -> Path:
    """A file with two members, the first of which ends within a row."""
    data = "".join(f'{{"time": {3600 * n}, "n": {n}}}\n' for n in range(rows)).encode()
    path.write_bytes(gzip.compress(data[:333]) + gzip.compress(data[333:]))
    return path


def unwatched(share: float) -> None:
    assert 0 <= share <= 1


@pytest.mark.usefixtures("small_parts")
def test_a_large_packed_file_is_unpacked_and_divided(tmp_path: Path) -> None:
    path, small = packed_file(tmp_path / "raw 1.gz", 60), packed_file(tmp_path / "small.gz", 9)
    work, layout = tmp_path / "work", raw_layout(path)
    work.mkdir()
    units = divided({0: path, 1: small}, layout, work, unwatched)
    assert len(units) > 4
    assert [unit.unpacked for unit in units] == [True] * (len(units) - 1) + [False]  # the small one stays as it is
    (tmp_path / "whole").mkdir()
    (alone,) = units_of(path, 0, layout)
    whole = parse(alone, layout, tmp_path / "whole", None)
    found = {unit: parse(unit, layout, work, None) for unit in units[:-1]}
    assert sum(counts.rows for counts in found.values()) == whole.rows == 60
    stored = [n for unit in found for n in pq.read_table(stored_rows(work, unit))["n"].to_pylist()]
    assert stored == list(range(60))
    remove_copies(work)
    assert not list(work.glob("*.unpacked"))
    copy_again(units, layout, work, unwatched)
    assert source_of(work, units[0]).read_bytes() == gzip.decompress(path.read_bytes())


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("encoding", ["utf-16", "windows-1252", "shift_jis"])
def test_a_large_text_in_another_encoding_is_copied_and_divided(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_bytes(("time,n\n" + "".join(f'{n},"{n}\n"\n' for n in range(99)) + "what\n").encode(encoding))
    layout = raw_layout(path, columns={"time": "time", "n": "str"}, encoding=encoding)
    (whole,) = units_of(path, 0, layout)
    (tmp_path / "whole").mkdir()
    expected = parse(whole, layout, tmp_path / "whole", None)
    units = divided({0: path}, layout, tmp_path, unwatched)
    assert len(units) > 2
    assert list(likely_lines(units, layout, tmp_path))
    found = [parse(unit, layout, tmp_path, None) for unit in units]
    assert [each.line for counts in found for each in counts.rejected] == [200] == [expected.rejected[0].line]
    parts = pl.concat(pl.read_parquet(stored_rows(tmp_path, unit)) for unit in units)
    assert parts.equals(pl.read_parquet(stored_rows(tmp_path / "whole", whole)))
    remove_copies(tmp_path)
    copy_again(units, layout, tmp_path, unwatched)
    assert source_of(tmp_path, units[0]).read_bytes() == path.read_bytes().decode(encoding).encode()


def test_a_text_that_is_not_in_its_encoding_is_refused_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dividing, "PART_BYTES", 300)
    path = tmp_path / "raw"
    path.write_bytes(b"time,n\n" + b"1,1\n" * 100 + b"1,\x81\n")
    with pytest.raises(ValueError, match=r"raw: line 102: .*can't decode byte 0x81 .*; expected text in encoding"):
        divided({0: path}, raw_layout(path, encoding="windows-1252"), tmp_path, unwatched)
    assert not list(tmp_path.glob("*.unpacked*"))


@pytest.mark.usefixtures("small_parts")
def test_a_packed_file_that_is_a_small_share_of_all_is_not_unpacked(tmp_path: Path) -> None:
    path = packed_file(tmp_path / "raw.gz", 60)
    units = divided(dict.fromkeys(range(20), path), raw_layout(path), tmp_path, unwatched)
    assert [unit.unpacked for unit in units] == [False] * 20


@pytest.mark.usefixtures("small_parts")
def test_a_damaged_member_is_named_with_its_place_and_no_copy_stays(tmp_path: Path) -> None:
    path = packed_file(tmp_path / "raw.gz", 60)
    layout, data = raw_layout(path), path.read_bytes()
    place = f" in its member 2, which begins at byte {data.index(GZIP, 1)}"
    for wrong, said in (
        (data[:-9], rf"{place} \(it ends before"),
        (data[:-8] + bytes(8), rf"{place} \(.*incorrect data check"),
        (data[:60], r" \(it ends before"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=rf"raw\.gz: damaged or cut-off gzip file after \d+ bytes of text{said}"):
            list(unpacked(path))
    path.write_bytes(data[:-9])
    with pytest.raises(ValueError, match=r"raw\.gz: damaged"):
        divided({0: path}, layout, tmp_path, unwatched)
    assert not list(tmp_path.glob("*.unpacked*"))


@pytest.mark.usefixtures("small_parts")
def test_without_room_for_a_copy_a_packed_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = packed_file(tmp_path / "raw.gz", 60)
    layout, limits = raw_layout(path), resource.getrlimit(resource.RLIMIT_FSIZE)
    copied = divided({0: path}, layout, tmp_path, unwatched)
    remove_copies(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        (unit,) = divided({0: path}, layout, tmp_path, unwatched)
        with pytest.raises(OSError, match="No space left"):
            copy_again(copied, layout, tmp_path, unwatched)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.glob("*.unpacked*"))
    assert parse(unit, layout, tmp_path, None).rows == 60


@pytest.mark.usefixtures("small_parts")
def test_copies_end_when_nobody_waits_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed_file(tmp_path / "raw.gz", 60)
    layout = raw_layout(path)
    monkeypatch.setattr(dividing, "unpacked", lambda _: iter(lambda: b"", None))  # without an end
    monkeypatch.setattr(dividing, "_LOOK", 0.001)

    def watch(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        divided({0: path}, layout, tmp_path, watch)
    assert not list(tmp_path.glob("*.unpacked*"))


def test_the_longest_units_are_parsed_first(tmp_path: Path) -> None:
    paths = [jsonl_file(tmp_path / f"{rows}", rows) for rows in (2, 40, 9)]
    units = [unit for number, path in enumerate(paths) for unit in units_of(path, number, raw_layout(path))]
    assert [unit.file for unit in likely_lines(units, raw_layout(paths[0]), tmp_path)] == [1, 2, 0]


def test_what_is_wrong_in_a_copy_is_told_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "raw.gz"
    unit = Unit("rows-00000-00000", str(path), 0, unpacked=True)
    layout = raw_layout(csv_file(tmp_path / "plain", "1,1"))
    source_of(tmp_path, unit).write_bytes(b"")
    parsed_or_said(unit, layout, tmp_path, None)
    assert fault_in(tmp_path) == UnitFault("input", f"{path}: empty; expected a trace")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("cut.csv.gz", gzip.compress(b"time,n\n" + b"1,1\n" * 99_999)[:-50], "damaged or cut-off gzip file"),
        ("utf16.csv", "time,n\n1,1\n".encode("utf-16"), "text in UTF-16; expected text in UTF-8"),
        ("binary", b"\0\1\2" * 100, "binary data; expected text"),
        ("empty", b"", "empty; expected a trace"),
    ],
)
def test_files_that_cannot_be_read_are_named(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    try:
        (unit,) = units_of(path, 0, raw_layout(path, "csv"))
    except ValueError as error:
        text = str(error)  # its beginning is wrong already
    else:
        parsed_or_said(unit, raw_layout(path, "csv"), tmp_path, None)
        fault = fault_in(tmp_path)
        assert fault is not None
        assert fault.kind == "input"
        text = fault.text
    assert said in text
    assert str(path) in text


def test_a_full_disk_leaves_no_half_unit(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_text("time,n\n" + "".join(f"{n},{n * 7919 % 1_000_003}\n" for n in range(60_000)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        (unit,) = units_of(path, 0, raw_layout(path))
        (tmp_path / "work").mkdir()
        parsed_or_said(unit, raw_layout(path), tmp_path / "work", None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list((tmp_path / "work").glob("*.part"))  # what was written takes no room
    assert fault_in(tmp_path / "work") == UnitFault("disk", f"{tmp_path / 'work'}: File too large")
    unit, counts = parsed(path, tmp_path / "work")
    assert counts.rows == pq.read_metadata(stored_rows(tmp_path / "work", unit)).num_rows == 60_000


def test_a_file_of_the_result_is_sorted_slice_by_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By time, file and place, also where times are equal; without the rows of other hours."""
    files = [
        csv_file(tmp_path / "b", "7200,1", "3600,2", "3601,3"),
        csv_file(tmp_path / "a", "3600,4", "10800,5", "0,6"),
    ]
    units = [unit for number, path in enumerate(files) for unit in units_of(path, number, raw_layout(path))]
    hours: dict[int, int] = {}
    for unit in units:
        for hour, rows in parse(unit, raw_layout(files[0]), tmp_path, None).hours.items():
            hours[hour] = hours.get(hour, 0) + rows
    monkeypatch.setattr("spark_stream.pipeline._pieces.SLICE_ROWS", 2)
    target = tmp_path / "out.parquet"
    slices = slices_of(Piece(1, 2, 4), hours)
    assert slices == [(1, 2), (2, 3)]
    stored = [(str(stored_rows(tmp_path, unit)), unit.file) for unit in units]
    schema, survey = raw_layout(files[0]).schema, tmp_path / "a.survey"
    write_sorted(Sorting(str(target), slices, stored, str(survey), 1_000_000), schema)
    survey_file(target, tmp_path / "b.survey", schema, 1_000_000)
    assert from_bytes(survey.read_bytes()) == from_bytes((tmp_path / "b.survey").read_bytes())
    table = pq.read_table(target)
    assert (table["n"].to_pylist(), table.column_names) == ([2, 4, 3, 1], ["time", "n"])
    monkeypatch.setattr("spark_stream.pipeline._pieces.PIECE_ROWS", 2)
    assert slices_of(Piece(1, 2, 4), hours) is None  # Spark sorts on disk what does not fit


# -- judging -----------------------------------------------------------------------------------------------------------


def test_lines_of_a_divided_file_have_their_numbers_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dividing, "PART_BYTES", 100)
    monkeypatch.setattr(dividing, "_BACK", 20)
    path = jsonl_file(tmp_path / "raw", 30, bad=(0, 11, 29))
    layout = raw_layout(path)
    units = units_of(path, 0, layout)
    assert len(units) > 4
    found = {unit: parse(unit, layout, tmp_path, None) for unit in units}
    assert sum(counts.rows for counts in found.values()) == 27
    rejected = quarantine(tmp_path, found)
    assert [each.line for each in rejected] == [1, 12, 30]
    stored = [json.loads(line) for line in (tmp_path / QUARANTINE / "lines.jsonl").read_text().splitlines()]
    assert [each["text"] for each in stored] == ["what"] * 3
    judge(tmp_path, "jsonl", 0.1, found, rejected)
    with pytest.raises(
        ValueError, match=r"raw: 3 of 30 lines are not of format 'jsonl' \(up to 9 % are skipped\); line 1: "
    ):
        judge(tmp_path, "jsonl", 0.09, found, rejected)


def test_a_file_is_judged_by_its_own_lines(tmp_path: Path) -> None:
    good = {"lines": 1000, "malformed": 0, "late": 0, "rows": 1000, "first": 0, "last": 1, "hours": {0: 1000}}
    rest = {"disorder": 0, "complaint": "", "doubt": ""}
    path = csv_file(tmp_path / "bad", "1,1", "x,2")
    unit, bad = parsed(path, tmp_path / "work")
    found = {Unit("a", "good", 0): UnitCounts(rejected=[], **good, **rest), unit: bad}  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="bad: 1 of 2 lines are not of format 'csv'"):
        judge(tmp_path, "csv", 0.01, found, bad.rejected)


# -- files of the result -----------------------------------------------------------------------------------------------


def test_large_days_have_a_file_for_each_hour_and_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_stream.pipeline._pieces.PIECE_ROWS", 10)
    monkeypatch.setattr("spark_stream.pipeline._pieces.GROUP_ROWS", 12)
    hours = {-1: 3, 0: 6, 5: 6, 24: 4, 49: 1}
    groups = groups_of(list(pieces_of(hours, "day")))
    assert [[piece.path("day") for piece in group.pieces] for group in groups] == [
        ["day=1969-12-31/part-00.parquet", "day=1970-01-01/part-00.parquet"],
        ["day=1970-01-01/part-05.parquet", "day=1970-01-02/part-00.parquet", "day=1970-01-03/part-00.parquet"],
    ]
    assert [group.bounds for group in groups] == [(-24, 1), (5, 72)]
    assert groups[0].divided == [0]
    whole = {piece.path("day"): piece.rows for piece in pieces_of(hours, "day", whole=[0])}
    assert whole["day=1970-01-01/part-00.parquet"] == 12  # a day that has one file keeps one
    (group,) = groups_of(list(pieces_of({1: 1}, "hour")))
    assert group.pieces[0].path("hour") == "day=1970-01-01/hour=01/part-00.parquet"


# -- Spark's end -------------------------------------------------------------------------------------------------------


class Interrupted:
    def __init__(self) -> None:
        self.times = 0

    def interruptAll(self) -> None:  # noqa: N802 - Spark's name
        self.times += 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("StatusCode.UNAVAILABLE: gone", "Spark was lost"),
        ("[TASK_WRITE_FAILED] Task failed.\njava.io.IOException: No space left on device", "no space left on the disk"),
        ("[A_B] Task failed. SQLSTATE: 1", "Spark failed: Task failed."),
    ],
)
def test_a_step_says_why_it_failed(text: str, said: str) -> None:
    def step() -> None:
        raise RuntimeError(text)

    with pytest.raises(PrepareError) as caught:
        executed(Interrupted(), step, lambda: None)  # type: ignore[arg-type]
    assert str(caught.value) == said


def test_an_error_while_watching_gives_the_step_up() -> None:
    session = Interrupted()

    def watch() -> None:
        raise ValueError("the disk")

    with pytest.raises(ValueError, match="the disk"):
        executed(session, lambda: None, watch)  # type: ignore[arg-type]
    assert session.times == 1


def test_progress_has_rate_and_time_left() -> None:
    told: list[Progress] = []
    preparing.Told("parse", 0, 100, told.append).rows(50)
    (now,) = told
    assert (now.stage, now.share, now.rows) == ("parse", 0.5, 50)
    assert now.left == pytest.approx(50 / now.rate)


# -- surveys -----------------------------------------------------------------------------------------------------------


def test_rows_that_come_late_are_counted_by_lateness(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "raw", *(f"{at},1" for at in (0, 100, 99.995, 98, 100, 30)))
    unit = Unit("unit", str(path), 0)
    counts = parse(unit, raw_layout(path), tmp_path, None)
    lost = dict(zip(LATENESSES, counts.later, strict=True))
    assert [lost[each] for each in (0.0, 0.001, 0.01, 1.0, 10.0, 60.0, 600.0)] == [3, 3, 2, 2, 1, 1, 0]
    assert raw_order({unit: counts}) == RawOrder(lost, 70.0)
    parts = {Unit("other", str(path), 0, part=1): counts, unit: counts}
    assert raw_order(parts) == RawOrder({late: 2 * rows for late, rows in lost.items()}, 70.0, in_parts=True)
    older = msgspec.structs.replace(counts, later=[])
    assert raw_order({unit: older}) is None


def test_only_days_that_get_rows_are_surveyed_again(tmp_path: Path) -> None:
    """The survey of a day is made of those of its files, and kept; that of a day with more rows is another one."""
    files: dict[str, WrittenFile] = {}

    def add(name: str, start: int, hours: int, rows: int) -> None:
        table = pl.DataFrame({"time": [start * 3_600_000_000 + each for each in range(rows)], "n": [start] * rows})
        table.with_columns(pl.col("time").cast(pl.Datetime("us"))).write_parquet(tmp_path / name)
        files[name] = WrittenFile(start, hours, rows, rows)

    schema, step = {"time": "time", "n": "int"}, 1_000_000
    add("b-2", 26, 1, 3)
    add("a", 0, 24, 5)
    add("b-1", 25, 1, 4)
    first = days_of(tmp_path, tmp_path, files, step)
    assert [[path.name for path, _, _ in day.files] for day in first] == [["a"], ["b-1", "b-2"]]
    assert first[0].survey == first[0].files[0][1]  # of its only file
    for day in first:
        for path, survey, _ in day.files:
            survey_file(path, survey, schema, step)
    found = survey_of(first)
    assert (found.rows, found.columns["n"].values) == (12, {"0": 5, "25": 4, "26": 3})
    assert list(found.days) == ["1970-01-01", "1970-01-02"]
    finished(tmp_path, {day.survey for day in first})
    assert {path.name for path in tmp_path.glob("*.survey")} == {day.survey.name for day in first}
    assert survey_of(first) == found
    add("b-2", 26, 1, 6)
    second = days_of(tmp_path, tmp_path, files, step)
    assert [day.survey.exists() for day in second] == [True, False]
    assert not any(day.survey.exists() for day in days_of(tmp_path, tmp_path, files, 10 * step))


def test_rows_of_a_frame_that_cannot_be_profiled_are_told_of_without_paths_that_are_gone() -> None:
    with pytest.raises(ValueError, match=r"^a frame: no rows; expected at least one$"):
        profile(pl.DataFrame({"time": [], "n": []}, schema={"time": pl.Datetime("us"), "n": pl.Int64}))
    place = "/measured"
    text = f"{place}/frame/rows-00000.parquet: 2 of 2 lines are not rows; {place}/clean/_quarantine has more of them"
    assert _without_paths(text, place) == "a frame: 2 of 2 lines are not rows"
