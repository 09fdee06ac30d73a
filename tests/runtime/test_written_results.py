"""Results that a program passes on: to a writer of its own, a function, the feed of another plan, files and frames."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa
import pytest

from synergy_nb import Application, Cluster, ClusterError, Feed, SinkFailed, SinkUnavailable, SinkWriter, source
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch

NUMBERS = source("packets", seed=1, rate="1000 tuples/s", count=2000, speed=0).project(v="bytes")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, cores=1.0, spark=False) as found:
        yield found


@pytest.fixture
def application(cluster: Cluster) -> Application:
    return cluster.submit(NUMBERS.sink("all"))


class Place(SinkWriter):
    """Rows in memory; so many tries to commit fail."""

    failing: ClassVar[type[Exception]] = SinkUnavailable

    def __init__(self, fails: int = 0) -> None:
        self.rows: list[int] = []
        self.point: Point | None = None
        self.fails = fails
        self.opened = 0

    def open(self) -> Point | None:
        self.waiting: list[int] = []
        self.opened += 1
        return self.point

    def write(self, batch: Batch) -> None:
        self.waiting += batch.table["v"].to_list()

    def commit(self, point: Point) -> None:
        if self.rows and self.fails:
            self.fails -= 1
            raise self.failing("not now")
        self.rows += self.waiting
        self.point, self.waiting = point, []


class Broken(Place):
    failing = SinkFailed


@pytest.mark.slow
def test_a_writer_has_each_row_once_though_it_is_unavailable_for_a_while(
    cluster: Cluster, application: Application
) -> None:
    expected = cluster.submit(NUMBERS.sink("same")).results()["v"].to_list()
    place = Place(fails=2)
    assert application.write_to(place) == 2000
    assert place.rows == expected
    assert place.opened >= 1
    assert place.point is not None
    assert place.point.position == 2000
    other = cluster.submit(NUMBERS.sink("again"))
    broken = Broken(fails=1)
    with pytest.raises(ClusterError, match="the results cannot be written: not now"):
        other.write_to(broken)
    assert other.write_to(broken) == 2000, "the same call goes on"
    assert broken.rows == expected


@pytest.mark.slow
def test_a_function_and_the_feed_of_another_plan_get_all_rows(cluster: Cluster, application: Application) -> None:
    feed = Feed({"v": "int"}, room=10_000)
    second = cluster.submit(source(feed).filter("v > 1000").sink("large"))
    assert application.write_to(feed) == 2000
    feed.close()
    passed = second.results()["v"].to_list()
    tables: list[pl.DataFrame] = []
    third = cluster.submit(NUMBERS.sink("third"))
    assert third.write_to(tables.append) == 2000
    assert passed == [v for table in tables for v in table["v"] if v > 1000]

    def fails(_table: pl.DataFrame) -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        cluster.submit(NUMBERS.sink("fourth")).write_to(fails)
    with pytest.raises(TypeError, match="to: 3; expected a SinkWriter, a Feed, or a function of a table"):
        third.write_to(3)  # type: ignore[arg-type]


class Session:
    """What a Spark session does with a table of Arrow."""

    def createDataFrame(self, table: Any) -> pl.DataFrame:  # noqa: N802 - as Spark calls it
        assert isinstance(table, pa.Table)
        return pl.DataFrame(table)


@pytest.mark.slow
def test_results_are_files_and_frames_of_others(cluster: Cluster, application: Application, tmp_path: Path) -> None:
    expected = application.results()
    assert application.to_spark(Session())["v"].to_list() == expected["v"].to_list()
    frame = application.to_dask(partitions=2)
    assert frame.npartitions == 2
    assert frame.compute()["v"].to_list() == expected["v"].to_list()
    other = cluster.submit(NUMBERS.sink("files"))
    assert other.to_csv(tmp_path / "rows.txt") == 2000
    assert pl.read_csv(tmp_path / "rows.txt")["v"].to_list() == expected["v"].to_list()
    with pytest.raises(ClusterError, match=r"rows.csv'; expected a file that ends with .parquet, or to_csv\("):
        other.to_parquet(tmp_path / "rows.csv")
    last = cluster.submit(NUMBERS.sink("lines"))
    assert last.to_jsonl(tmp_path / "rows") == 2000
    assert pl.read_ndjson(tmp_path / "rows")["v"].to_list() == expected["v"].to_list()
