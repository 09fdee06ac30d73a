"""The embedded Spark server: which Java, how it starts, what it leaves, and its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

    from spark_stream.server import Server


@pytest.mark.slow
def test_a_session_has_the_settings(spark: SparkSession, spark_server: Server) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.range(3).toArrow().num_rows == 3
