"""Spark frames of a real session as sources, and results as Spark frames."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from synergy_nb import Cluster, Simulation, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_a_frame_is_a_source_and_results_are_a_frame(spark: SparkSession) -> None:
    frame = spark.range(40).selectExpr("timestamp_seconds(40 - id) AS time", "id AS n", "concat('w', id) AS word")
    plan = source(frame).filter("n >= 30").sink("out")
    assert plan.schema("sink") == {"time": "time", "n": "int", "word": "str"}
    assert Simulation(peers=1).submit(plan).results()["n"].to_list() == list(range(39, 29, -1))
    with Cluster(1, cores=1.0, spark=False) as cluster:
        made = cluster.submit(plan).to_spark(spark)
    assert made.columns == ["time", "n", "word"]
    assert made.agg({"n": "sum"}).collect()[0][0] == sum(range(30, 40))
    first = made.orderBy("n").selectExpr("unix_micros(CAST(time AS TIMESTAMP)) AS at", "word").first()
    assert first is not None
    assert (dt.timedelta(microseconds=first["at"]), first["word"]) == (dt.timedelta(seconds=10), "w30")


@pytest.mark.slow
def test_a_streaming_frame_is_read_from_the_folder_that_spark_writes(spark: SparkSession, tmp_path: Path) -> None:
    given, folder = tmp_path / "given", tmp_path / "written"
    given.mkdir()
    for number in range(4):
        lines = [{"time": f"2026-01-01T00:00:0{number}.{n}Z", "n": 10 * number + n} for n in range(3)]
        (given / f"{number}.json").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        os.utime(given / f"{number}.json", (number, number))  # the order in which Spark reads them
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "2")
    frame = spark.readStream.schema("time timestamp, n long").option("maxFilesPerTrigger", 1).json(str(given))
    written = frame.writeStream.format("parquet").option("path", str(folder))
    query = written.option("checkpointLocation", str(tmp_path / "at")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert [path.name for path in (folder / "_spark_metadata").glob("*.compact")]
    stated = {"path": folder / "*.parquet", "format": "parquet", "columns": {"time": "time", "n": "int"}}
    found = Simulation(peers=1).submit(source("directory", **stated, ends=True).sink("out")).results()
    assert found["n"].to_list() == [10 * number + n for number in range(4) for n in range(3)]
    with pytest.raises(TypeError, match="expected a frame that ends, the folder that its writeStream writes"):
        source(frame)
