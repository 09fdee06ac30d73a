"""One Spark server for all tests that need one, started when the first of them asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

    from spark_stream.server import Server


@pytest.fixture(scope="session")
def spark_server() -> Iterator[Server]:
    """A Spark Connect server that is ready; no test may end it. Tests that use it are slow: it takes seconds."""
    from spark_stream.server import Server

    with Server() as server:
        folder = Path(server.ready().folder or "").parent
        yield server
    assert not leftovers(folder)


@pytest.fixture
def spark(spark_server: Server) -> Iterator[SparkSession]:
    """A session of the test's own."""
    from spark_stream.session import connect, disconnect

    session = connect(spark_server.ready(), timeout=60.0)
    yield session
    disconnect(session)


def leftovers(folder: Path) -> list[str]:
    """What is left of a server whose folder was ``folder``: itself, and processes that know it."""
    left = [str(folder)] if folder.exists() else []
    for process in psutil.process_iter():
        try:
            if any(str(folder) in text for text in (*process.cmdline(), *process.environ().values())):
                left.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
        except psutil.Error:  # it has ended in the meantime, or is somebody else's
            continue
    return left
