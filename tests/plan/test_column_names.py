"""Names of columns as users have them: each is read right, or refused in words of ours, on every way into a stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb import Plan, PlanError, Simulation, source
from tests.traces.whole_traces import load

#: Valid names, of which each means something to Polars, Arrow, SQL, Spark, a file or to our own operators.
VALID = (
    "count", "len", "literal", "index", "__index_level_0__", "@x", "a.b", 'a"b', "a'b", "a`b", "a, b", "x desc",
    "a;b--", "${x}", "select", "null", "0", "\\", "größe", "*x", "^x", "x$", "time_right", "position",
)  # fmt: skip
#: Names of columns that a stream cannot have, with what is expected instead.
INVALID = {
    "*": "a name other than",
    "^x.*$": "a name other than",
    "": "a name of 1 to 200 printable characters",
    "a\nb": "a name of 1 to 200 printable characters",
    "a\tb": "a name of 1 to 200 printable characters",
    "x" * 201: "a name of 1 to 200 printable characters",
    " x": "a name of 1 to 200 printable characters, without blanks around it",
    "Time": "a name other than time",
    "window_start": "a name other than window_start",
}
VALUES = [1, 1, 2, 3]


def frame(*names: str) -> pl.DataFrame:
    return pl.DataFrame({"time": [0.0, 1.0, 2.0, 3.0], **dict.fromkeys(names, VALUES), "other": [5.0, 6.0, 7.0, 8.0]})


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def queries(*names: str) -> list[Any]:
    """What operators do with columns of these names."""

    def rows() -> Any:
        return source(frame(*names), id="s")

    sums = {f"{name}!": f"sum({quoted(name)})" for name in names}
    return [
        rows().filter(" AND ".join(f"{quoted(name)} > 1" for name in names)),
        rows().operator("project", columns={name: f"{quoted(name)} * 2" for name in names}),
        rows().operator("aggregate", by=list(names), window="10 s", values={"number": "count(*)", **sums}),
        rows().operator("aggregate", by=["other"], window="2 rows", values={n: f"max({quoted(n)})" for n in names}),
        rows().operator("sort", by=[f"{name} desc" for name in names], window="10 s"),
        rows().operator("distinct", on=list(names), window="10 s"),
        rows().operator("top", k=1, by=["other desc"], per=list(names), window="10 s"),
        rows().operator("percentile", value="other", fraction="50 %", by=list(names), window="10 s"),
        rows().operator("percentile", value=names[0], fraction="50 %", by=list(names[1:]), window="10 s"),
        rows().join(source(frame(*names).rename({"other": "w"}), id="t"), on=list(names), within="1 s", how="left"),
        rows().union(source(frame(*names), id="t")),
    ]


def results(*plans: Plan) -> list[pl.DataFrame]:
    simulation = Simulation(1, network="local", cores=1, seed=1)
    return [simulation.submit(plan).results() for plan in plans]


@pytest.mark.slow
def test_operators_treat_columns_of_all_names_alike() -> None:
    plain = [f"plain{number}" for number in range(len(VALID))]
    wanted = results(*(each.sink("r") for each in queries(*plain)))
    found = results(*(each.sink("r") for each in queries(*VALID)))
    names = dict(zip(plain, VALID, strict=True)) | {f"{old}!": f"{new}!" for old, new in zip(plain, VALID, strict=True)}
    for one, other in zip(found, wanted, strict=True):
        renamed = other.rename(names, strict=False)
        assert one.height > 0
        assert one.equals(renamed.select(one.columns)), renamed.columns


@pytest.mark.parametrize("name", INVALID, ids=ascii)
def test_a_name_that_no_stream_can_have_is_refused_by_its_operator(name: str) -> None:
    with pytest.raises(PlanError, match=rf"operator 's', columns: .*; expected {INVALID[name]}"):
        source(frame(name), id="s").sink("r")


def csv(table: pl.DataFrame, path: Path) -> Path:
    table.write_csv(path)
    return path


def parquet(table: pl.DataFrame, path: Path) -> Path:
    table.write_parquet(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("write", [csv, parquet])
def test_a_file_is_read_whatever_the_names_of_its_columns(
    tmp_path: Path, write: Callable[[pl.DataFrame, Path], Path]
) -> None:
    """With some names, columns were missing or the error was one of Polars."""
    for name in (*VALID, "*", "^o.*$"):
        path = write(frame(name), tmp_path / "trace")
        found = load(path, write.__name__).table
        assert (found.columns, found[:, 1].to_list()) == (["time", name, "other"], VALUES)
        assert load(path, write.__name__, columns={"time": "time", "other": "float"}).table.width == 2
        clock = write(frame("v").rename({"time": name}).with_columns(pl.lit("a").alias("s")), tmp_path / "clock")
        plan = source(
            "trace", path=str(clock), format=write.__name__, columns={name: "time", "s": "str", "v": "int"}, time=name,
            speed=0.0,
        )  # fmt: skip
        (read,) = results(plan.sink("r"))
        assert (read.columns, read["v"].to_list()) == (["time", "s", "v"], VALUES)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["*", "^w.*$", "count"])
def test_a_table_may_have_event_times_of_any_name(name: str) -> None:
    times = [f"2026-01-01 00:00:0{second}" for second in range(4)]
    table = pl.DataFrame({name: times, "when": VALUES, "w": VALUES})
    for each in (table, table.with_columns(pl.col("when").alias("x")).to_pandas()):
        (found,) = results(source(each, time=name).sink("r"))
        assert found["time"].dt.second().to_list() == [0, 1, 2, 3]
        assert found["w"].to_list() == VALUES
