"""Spark frames of a real session as sources, and results as Spark frames."""

from __future__ import annotations

import datetime as dt
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
