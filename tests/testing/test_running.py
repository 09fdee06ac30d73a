"""Plans, streams and functions run over rows, without peers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from synergy_nb import aggregate, function, keyed, plan, source
from synergy_nb.testing import run

UTC = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - event times have no zone
ROWS = [
    {"time": 1, "link": "A", "bytes": 4},
    {"time": 2, "link": "B", "bytes": 5},
    {"time": 3, "link": "A", "bytes": 6},
]


@function(columns={"kB": "float"})
def kilobytes(batch: pl.DataFrame) -> pl.DataFrame:
    """Bytes as kilobytes."""
    return batch.select(kB=pl.col("bytes") / 1000)


@function(columns={"half": "int"})
async def halved(row: dict[str, Any]) -> dict[str, Any]:
    """Half of the bytes."""
    return {"half": row["bytes"] // 2}


@aggregate(columns={"spread": "int"})
def spread(rows: pl.DataFrame) -> dict[str, Any]:
    """Difference of the most and the least."""
    return {"spread": rows["bytes"].max() - rows["bytes"].min()}  # type: ignore[operator]


@keyed(columns={"total": "int"})
class Totals:
    """The sum of a key."""

    def __init__(self) -> None:
        self.total = 0

    def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The sum so far."""
        for row in rows:
            self.total += row["bytes"]
            yield {"total": self.total}


def test_a_function_alone_is_a_plan_of_one_operator() -> None:
    assert run(kilobytes, ROWS).columns == ["time", "kB"]
    assert run(kilobytes, ROWS, keep=True)["link"].to_list() == ["A", "B", "A"]
    assert run(halved, pl.DataFrame(ROWS))["half"].to_list() == [2, 2, 3]
    assert run(spread, ROWS, window="10 s", by="link").select("link", "spread").rows() == [("A", 2), ("B", 0)]
    assert run(Totals, ROWS, key="link").select("link", "total").rows() == [("A", 4), ("B", 5), ("A", 10)]
    assert run(Totals, pl.DataFrame(ROWS).clear(), key="link").is_empty()


def test_a_plan_and_a_stream_take_rows_for_any_source() -> None:
    stream = source("packets", rate="1000 tuples/s").filter("bytes > 4")
    columns = {"source": "a", "destination": "b", "source_port": 1, "destination_port": 2}
    rows = [{**row, **columns} for row in ROWS]
    assert run(stream, rows).height == run(stream.sink(), rows).height == 2
    assert run(stream.sink(), {"source": rows}).equals(run(stream, pl.DataFrame(rows)))


def test_sources_with_an_end_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("time,amount\n1,5\n2,7\n")
    trace = source("trace", path=str(tmp_path / "sales.csv"), format="csv", columns={"time": "time", "amount": "int"})
    assert run(trace.filter("amount > 5"))["amount"].to_list() == [7]
    assert run(source("packets", count=30, seed=1)).height == 30
    assert run(source(ROWS).filter("bytes > 4")).height == 2
    for endless in (source("packets"), source("peers"), source("python", name="a", columns={"v": "int"})):
        with pytest.raises(ValueError, match=r"operator 'source': .*; expected rows for it"):
            run(endless)


def test_several_sinks_and_sources_go_by_their_names() -> None:
    one, other = (source("python", name=name, columns={"bytes": "int"}, id=name) for name in "ab")
    both = plan(one.union(other).sink("all"), other.filter("bytes > 4").sink("large"))
    found = run(both, {"a": ROWS[:1], "b": ROWS[1:]})
    assert {name: table["bytes"].to_list() for name, table in found.items()} == {"all": [4, 5, 6], "large": [5, 6]}
    with pytest.raises(ValueError, match="rows: not by source; expected a dictionary of rows by source: a, b"):
        run(both, ROWS)


def test_a_moment_between_rows_promises_that_no_earlier_one_follows() -> None:
    second = dt.timedelta(seconds=1)
    stream = source("python", name="a", columns={"bytes": "int"}).count("n", window="1 s")
    late = [ROWS[0], UTC + 3 * second, ROWS[1], ROWS[2]]
    assert run(stream, ROWS)["n"].to_list() == [1, 1, 1]
    assert run(stream, late)["n"].to_list() == [1, 1], "the second row is late"
    assert run(stream, [ROWS[0], (UTC + 3 * second).replace(tzinfo=dt.UTC), ROWS[1], ROWS[2]]).height == 2
    assert run(stream, [pl.DataFrame(ROWS[:2]), UTC + 3 * second, pl.DataFrame(ROWS[2:])]).height == 3


def test_secrets_and_waits_need_nothing() -> None:
    sealed = source(ROWS).delay("10 s").encrypt("link", key="mine").decrypt({"link": "str"}, key="mine")
    assert run(sealed)["link"].to_list() == ["A", "B", "A"]


def test_what_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="expected a plan, a stream, or what @function, @aggregate or @keyed returns"):
        run(print, ROWS)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="window: given; expected none but for a function alone"):
        run(source(ROWS), window="1 s")
    with pytest.raises(ValueError, match=r"rows: \[\]; expected rows for 'kilobytes'"):
        run(kilobytes, [])
    with pytest.raises(ValueError, match="'much' in row 1"):
        run(source("python", name="a", columns={"v": "int"}), [{"time": 1, "v": 1}, {"time": 2, "v": "much"}])
