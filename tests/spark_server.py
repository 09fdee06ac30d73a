"""One Spark server for all tests that need one, started when the first of them asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

    from spark_stream.server import Server


@pytest.fixture(scope="session")
def spark_server() -> Iterator[Server]:
    """A Spark Connect server that is ready; no test may end it. Tests that use it are slow: it takes seconds."""
    from spark_stream.server import Server

    with Server() as server:
        server.ready()
        yield server


@pytest.fixture
def spark(spark_server: Server) -> Iterator[SparkSession]:
    """A session of the test's own."""
    from spark_stream.session import connect, disconnect

    session = connect(spark_server.ready())
    yield session
    disconnect(session)
