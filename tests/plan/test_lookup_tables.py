"""Tables that streams look up: what is refused before anything starts, and what makes two of them one."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import time
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from synergy_nb.plan import Plan, PlanError, source
from synergy_nb.plan.checks.memory_estimates import check_memory, held, retained_bytes
from synergy_nb.plan.data_frames import DataFrameError
from synergy_nb.plan.tables import _table_store, lookup_tables
from synergy_nb.plan.tables._table_store import FRESH, keep_table, kept_file, kept_table
from synergy_nb.plan.text.operator_texts import parameters
from tests.example_plans import problems_of

PACKETS = source("packets", rate="10/s", id="packets")
SITES = {"link": ["A", "B"], "site": ["Bonn", "Oslo"]}
SHORT = """
format: 1
operators:
  packets: {kind: source, connector: packets, rate: 10/s}
  lookup: {kind: lookup, input: packets, table: sites.csv, on: link, how: left, prefix: its_}
  sink: {kind: sink, input: lookup}
"""
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - times of streams have no zone


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tables of its own, which is also where relative paths begin."""
    monkeypatch.setenv("SYNERGY_TABLES", str(tmp_path / "tables"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def name_of(table: Any, **options: Any) -> str:
    """Name of the stream with the columns of a table."""
    return PACKETS.lookup(table, on="link", id="lookup", **options).sink().stream_name("lookup")


def problem(table: Any, on: Any = "link", **options: Any) -> str:
    return str(problems_of(lambda: PACKETS.lookup(table, on=on, **options).sink())[-1])


def test_equal_tables_have_one_name_wherever_they_come_from(folder: Path) -> None:
    frame = pl.DataFrame(SITES)
    frame.write_csv(folder / "sites.csv")
    frame.write_parquet(folder / "sites.parquet")
    frame.write_csv(folder / "sites.tsv", separator="\t")
    with duckdb.connect(str(folder / "sites.duckdb")) as connection:
        connection.execute("CREATE TABLE sites AS SELECT * FROM frame")
    query = {"path": "sites.duckdb", "query": "SELECT link, site FROM sites ORDER BY link DESC"}
    tables: list[Any] = [
        SITES, frame, frame.lazy(), frame.reverse(), frame.to_arrow(), frame.to_pandas(), frame.rows(named=True),
        pa.RecordBatchReader.from_batches(frame.to_arrow().schema, frame.to_arrow().to_batches()),
        "sites.csv", Path("sites.csv"), folder / "sites.parquet", "sites.tsv", query,
    ]  # fmt: skip
    assert len({name_of(table) for table in tables}) == 1
    assert name_of(frame.with_columns(site=pl.lit("Rome"))) != name_of(frame)
    assert name_of(frame.rename({"site": "town"})) != name_of(frame)
    assert name_of(frame, how="left") != name_of(frame)


def test_a_hash_tells_apart_what_differs_and_depends_on_no_order_of_rows() -> None:
    rows: dict[str, list[Any]] = {
        "a": [1, 2, None], "b": ["x", "", None], "c": [0.5, float("nan"), None], "d": [True, False, None],
        "e": [START, START + dt.timedelta(days=1), None], "f": [b"1", b"", None],
    }  # fmt: skip
    whole = pl.DataFrame(rows)
    content = lookup_tables.terms_of(whole)["content"]
    assert lookup_tables.terms_of(whole.reverse())["content"] == content
    for name in whole.columns:
        for row in range(2):
            other = whole.with_columns(
                pl.Series(name, [*rows[name][:row], None, *rows[name][row + 1 :]], whole[name].dtype)
            )
            assert lookup_tables.terms_of(other)["content"] != content
    assert (
        lookup_tables.terms_of(pl.DataFrame({"a": ["ab", "c"]}))["content"]
        != lookup_tables.terms_of(pl.DataFrame({"a": ["a", "bc"]}))["content"]
    )
    assert lookup_tables.terms_of(whole.clear())["content"] != content


def test_a_plan_with_a_table_is_the_same_as_bytes_yaml_and_python(folder: Path) -> None:
    pl.DataFrame(SITES).write_csv(folder / "sites.csv")
    for table in (SITES, "sites.csv"):
        plan = PACKETS.lookup(table, on="link", how="left", prefix="its_").sink()
        assert Plan.from_bytes(plan.to_bytes()) == plan
        assert Plan.from_yaml(plan.to_yaml()) == plan
        scope: dict[str, Any] = {}
        exec(plan.to_python(), scope)
        assert scope["query"] == plan
        assert not plan.validate()
    assert parameters(plan.operators["lookup"]) == "table: sites.csv of 2 rows; on: ['link']; how: left; prefix: its_"
    assert Plan.from_yaml(SHORT) == plan


def test_columns_of_the_table_come_after_those_of_the_stream() -> None:
    packets = PACKETS.filter("bytes > 5", id="all").sink().schema("all")
    table = {"LINK": ["A"], "rank": [1], "site": ["Bonn"]}
    plan = PACKETS.lookup(table, on={"link": "LINK"}, prefix="its ".strip() + "_", id="lookup").sink()
    assert plan.schema("lookup") == {**packets, "its_rank": "int", "its_site": "str"}
    windowed = PACKETS.aggregate("link", "1 min", n="count(*)").lookup(SITES, on="link", id="lookup").sink()
    assert list(windowed.schema("lookup")) == ["time", "window_start", "window_end", "link", "n", "site"]
    assert windowed.window("lookup") == {"kind": "tumbling", "length": 60.0}
    only_keys = PACKETS.lookup({"link": ["A"]}, on="link", id="lookup").sink()
    assert only_keys.schema("lookup") == packets


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"link": ["A", "B", "A"], "v": [1, 2, 3]}, {}, "on: \"link 'A' in rows 0 and 2\"; expected a row for"),
        (SITES, {"on": "lnk"}, "on: 'lnk'; expected a column of the table (link, site); did you mean 'link'?"),
        (SITES, {"on": {"lnk": "link"}}, "on: 'lnk'; expected a column of its input"),
        (SITES, {"on": {"bytes": "link"}}, "'bytes' of the stream is int, 'link' of the table str"),
        (SITES, {"on": []}, "on: []; expected at least one column"),
        (SITES, {"on": {"link": "link", "source": "link"}}, "each of them once"),
        (SITES, {"how": "outer"}, "how: 'outer'; expected one of inner, left"),
        ({"link": ["A"], "Bytes": [1]}, {}, "table: 'Bytes'; expected names that the stream does not have, as it"),
        ({"link": ["A"], "time": [1]}, {}, "state a prefix of the columns of the table, such as prefix='table_'"),
        (SITES, {"valid_from": "site"}, "valid_from: 'site'; expected a column of the table of type time or date"),
        (SITES, {"valid_from": "since"}, "valid_from: 'since'; expected a column of the table (link, site)"),
        (
            {"link": ["A", "A"], "since": [START, START]},
            {"valid_from": "since"},
            "in rows 0 and 1\"; expected a time in each row, and for each key and time one row",
        ),
        ({"link": ["A", None], "since": [START, None]}, {"valid_from": "since"}, "valid_from: 'no time in row 1'"),
        ("nowhere.csv", {}, "table: 'nowhere.csv'; expected a file that is there; looked in"),
        ("sites.xls", {}, "expected a file whose name ends in .csv, .tsv, .txt, .parquet, .duckdb"),
        ({"path": "sites.duckdb"}, {}, "expected a query to this DuckDB file"),
        ({"path": "sites.duckdb", "query": "SELECT"}, {}, "query: 'SELECT'; expected a query that sites.duckdb can"),
        ({"path": "sites.csv", "columns": {"lnk": "str"}}, {}, "expected a column of the table (link, site)"),
        ({"path": "sites.csv", "columns": {"site": "int"}}, {}, "expected values of type int"),
        ({"path": "sites.csv", "columns": {"site": "text"}}, {}, "expected columns with their types (int, float"),
        ({"path": "sites.csv", "colums": {}}, {}, "expected a field of a table"),
        ({"path": "sites.csv", "content": "0" * 32}, {}, "it has changed since the plan was made"),
        ("broken.parquet", {}, "table: 'broken.parquet'; expected a file that can be read"),
        (5, {}, "table: 'an int'; expected a pandas, Polars or Arrow table, the path of a file"),
    ],
)  # fmt: skip
def test_each_wrong_table_has_one_clear_error(folder: Path, table: Any, options: dict[str, Any], message: str) -> None:
    for name in ("sites.csv", "sites.xls"):
        pl.DataFrame(SITES).write_csv(folder / name)
    (folder / "broken.parquet").write_bytes(b"no table")
    duckdb.connect(str(folder / "sites.duckdb")).close()
    assert message in problem(table, **options)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            pl.DataFrame({"link": ["A"], "list": [[1]]}),
            "lookup: table: .*'list' of type List.*convert the column, or omit",
        ),
        (
            pl.DataFrame({"link": ["A"], "far": pl.Series([2**64 - 1], dtype=pl.UInt64)}),
            "far.*expected values of type int",
        ),
        ({"link": ["A"], "x": [object()]}, "column 'x'"),
        (pl.DataFrame(), "expected a table with columns"),
    ],
)
def test_values_that_tuples_cannot_have_are_refused_where_the_frame_is_given(table: Any, message: str) -> None:
    with pytest.raises(DataFrameError, match=message):
        PACKETS.lookup(table, on="link")


def test_null_in_a_key_is_no_duplicate_and_odd_names_are_names() -> None:
    table = {"^.*$ key": [None, None, "A"], "*": [1, 2, 3]}
    with pytest.raises(PlanError, match=r"by which Polars means several columns"):
        PACKETS.lookup(table, on={"link": "^.*$ key"}).sink()
    plan = PACKETS.lookup(table, on={"link": "^.*$ key"}, prefix="'\"", id="lookup").sink()
    assert plan.schema("lookup")["'\"*"] == "int"


def test_a_csv_file_has_the_types_that_are_stated(folder: Path) -> None:
    (folder / "zips.csv").write_text("zip,city,opened\n00501,Holtsville,2026-01-01\n,Nowhere,\n")
    inferred = lookup_tables.terms_of("zips.csv")
    assert inferred["columns"] == {"zip": "int", "city": "str", "opened": "date"}
    stated = lookup_tables.terms_of({"path": "zips.csv", "columns": {"zip": "str", "city": "str"}})
    assert lookup_tables.table_of(stated).rows() == [("00501", "Holtsville"), (None, "Nowhere")]


def test_a_table_of_another_machine_is_read_from_its_file_and_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "sites.csv"
    pl.DataFrame(SITES).write_csv(file)
    terms, frame = lookup_tables.terms_of("sites.csv"), lookup_tables.terms_of(pl.DataFrame({**SITES, "rank": [1, 2]}))
    assert not lookup_tables.changed(terms)
    monkeypatch.setenv("SYNERGY_TABLES", str(folder / "elsewhere"))
    assert lookup_tables.table_of(terms).rows() == [("A", "Bonn"), ("B", "Oslo")]
    monkeypatch.setenv("SYNERGY_TABLES", str(folder / "once more"))
    file.write_text("link,site\nA,Rome\n")
    assert "it has changed since the plan was made" in lookup_tables.changed(terms)
    with pytest.raises(ValueError, match="it has changed since the plan was made"):
        lookup_tables.table_of(terms)
    with pytest.raises(ValueError, match="expected SYNERGY_TABLES to name a folder that all machines share"):
        lookup_tables.table_of(frame)
    file.unlink()
    assert "expected a file that is there" in lookup_tables.changed(terms)


def kept(folder: Path) -> set[int]:
    return {int(file.stem) for file in (folder / "tables").glob("*")}


def keep(folder: Path, number: int, idle: float = 0.0) -> None:
    """Keep a table that was used so many seconds ago."""
    keep_table(f"{number:032}", pl.DataFrame({"n": [number]}))
    used = time.time() - idle
    os.utime(folder / "tables" / f"{number:032}.arrow", (used, used))


def test_the_folder_keeps_the_tables_that_were_used_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_table_store, "MOST", 4)
    for number in range(4):
        keep(folder, number, 10 * FRESH - number)
    assert kept_table(f"{0:032}") is not None, "which is a use of it"
    keep(folder, 4)
    assert kept(folder) == {0, 2, 3, 4}
    (size,) = {file.stat().st_size for file in (folder / "tables").glob("*")}
    monkeypatch.setattr(_table_store, "ROOM", 3 * size)
    keep(folder, 5)
    assert kept(folder) == {0, 4, 5}
    with pytest.raises(OSError, match=r"has 4 tables of \d+ bytes, all in use; expected at most 4 of \d+ bytes"):
        keep(folder, 6)
    assert kept(folder) == {0, 4, 5}
    os.utime(folder / "tables" / f"{4:032}.arrow", (1.0, 1.0))
    os.utime(folder / "tables" / f"{5:032}.arrow", (1.0, 1.0))
    keep(folder, 7)
    assert kept(folder) == {0, 7}, "nobody has used the others for a month"


def test_the_memory_of_a_table_is_known_before_anything_starts() -> None:
    plan = PACKETS.lookup(pl.DataFrame({"k": range(100_000), "v": 0.5}), on={"bytes": "k"}, id="lookup").sink()
    assert held(plan, "lookup").tuples == 100_000
    assert retained_bytes(plan, "lookup") == 100_000 * (16 + 24)
    check_memory(plan, ["lookup"], 5e6)
    with pytest.raises(PlanError, match=r"lookup', memory: '4 MB that it will keep of 100,?000 tuples'"):
        check_memory(plan, ["lookup"], 3e6)


def test_a_folder_that_cannot_be_written_is_an_error_of_the_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file").write_text("")
    pl.DataFrame({**SITES, "rank": [3, 4]}).write_csv(folder / "sites.csv")
    monkeypatch.setenv("SYNERGY_TABLES", str(folder / "file"))
    assert "SYNERGY_TABLES names another one" in problem("sites.csv")
    with pytest.raises(DataFrameError, match="SYNERGY_TABLES names another one"):
        PACKETS.lookup({**SITES, "rank": [5, 6]}, on="link")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="folders have no owner here")
def test_a_folder_of_tables_that_somebody_else_has_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SYNERGY_TABLES", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    uid = os.getuid() + 1
    (tmp_path / f"synergy-tables-{uid}").mkdir()  # it is ours, so for that user it is somebody else's
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"synergy-tables-{uid + 1}").symlink_to(tmp_path / "elsewhere")
    for number in (uid, uid + 1):
        monkeypatch.setattr("os.getuid", itertools.repeat(number).__next__)
        with pytest.raises(PermissionError, match="belongs to somebody else; expected a folder of your own"):
            kept_file("0" * 32)
