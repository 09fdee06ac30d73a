"""Workers of sessions of users' own: ``foreachBatch`` and listeners at a server that is at a socket."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_stream import _worker_launcher as worker_launcher
from spark_stream.server import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.connect.session import SparkSession

WAIT = 240.0  # seconds
SESSION = "6f1c6a56-0b5c-4a5b-9d3a-0f6a2b8c1d2e"


@pytest.mark.slow
def test_a_function_of_batches_and_a_listener_of_a_users_session_get_all_rows(
    spark: SparkSession, spark_server: Server, tmp_path: Path
) -> None:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    (tmp_path / "in").mkdir()
    for number in range(3):
        pq.write_table(pa.table({"x": range(number * 100, number * 100 + 100)}), tmp_path / f"in/{number}.parquet")
    told, stop = str(tmp_path / "told"), threading.Event()
    heard: list[int] = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802 - Spark's name

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            heard.append(event.progress.numInputRows)

        def onQueryIdle(self, event: Any) -> None: ...  # noqa: N802

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            stop.set()

    def keep(rows: DataFrame, number: int) -> None:
        import json
        import os
        from pathlib import Path

        found = sorted(rows.sparkSession.createDataFrame(rows.toArrow()).toArrow()["x"].to_pylist())
        with Path(told).open("a") as file:
            file.write(json.dumps([number, found, os.environ["SPARK_CONNECT_LOCAL_URL"]]) + "\n")

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        stream = spark.readStream.schema("x long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(int(WAIT))
        assert stop.wait(WAIT)
    finally:
        spark.streams.removeListener(listener)
    lines = [json.loads(line) for line in Path(told).read_text().splitlines()]
    assert [number for number, *_ in lines] == [0, 1, 2]
    assert sorted(row for _, rows, _ in lines for row in rows) == list(range(300))
    assert sum(heard) == 300
    endpoint = spark_server.ready()
    assert {url.split(";")[0] for *_, url in lines} == {f"{endpoint.url}/"}
    log = (Path(endpoint.folder or "").parent / "server.log").read_text()
    assert "Streaming ForeachBatch worker is starting" in log
    assert str(endpoint.token) not in log


def test_the_url_of_a_session_is_that_of_its_servers_socket_without_its_token() -> None:
    from spark_stream._session_worker import at_socket

    told = "sc://localhost:-1/;user_id=ann;token=secret"
    assert at_socket(told, "/tmp/a b;c") == "unix:///tmp/a%20b%3Bc/connect/;user_id=ann"


def test_other_servers_are_reached_as_ever_from_within_such_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.connect.session import SparkSession

    from spark_stream import _session_worker as session_worker
    from spark_stream._connect_server import VARIABLE

    class Asked(SparkSession.Builder):
        """What is asked of Spark's builder of sessions."""

        def config(self, *given: Any, **_: Any) -> Any:
            return given

        def channelBuilder(self, channelBuilder: Any) -> Any:  # noqa: N802, N803 - Spark's names
            return channelBuilder

    monkeypatch.setenv(VARIABLE, "secret")
    asked: Any = session_worker.remote(Asked(), "sc://elsewhere:7")
    assert asked == ("spark.remote", "sc://elsewhere:7")
    asked = session_worker.remote(Asked(), f"unix:///tmp/connect/;user_id=ann;session_id={SESSION}")
    assert (asked.token, asked.userId, asked.session_id) == ("secret", "ann", SESSION)


@pytest.mark.parametrize(
    ("module", "run"),
    [
        ("pyspark.sql.connect.streaming.worker.foreach_batch_worker", True),
        ("pyspark.sql.connect.streaming.worker.listener_worker", True),
        ("pyspark.daemon", False),
    ],
)
def test_the_launcher_has_workers_of_sessions_run_by_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, run: bool
) -> None:
    started: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(os, "execv", lambda *given: started.append(given))
    worker_launcher.main(str(tmp_path), sys.executable, "-m", module, "more")
    given = ["spark_stream._session_worker", str(tmp_path), module] if run else [module]
    assert started == [(sys.executable, [sys.executable, "-m", *given, "more"])]
