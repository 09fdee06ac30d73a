"""An archive of Spark's classes, with which a server starts sooner.

Java reads, checks and links some eighteen thousand classes before a server is ready and has answered its first query.
An archive holds them as they are in memory after that (class data sharing, JDK Enhancement Proposal 350), so Java maps
it instead. It is written once for a Java and a Spark, by a server that answers a few queries and ends; see
:mod:`spark_stream._settings` for the measurements. With that of Java's own classes it takes 230 MB in the folder of
the Python environment, so it goes with that.

Java itself checks that an archive fits: its own build, and the path, size and time of each jar. Otherwise the server
starts without it, as it does where there is none.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import functions
from pyspark.sql.connect.session import SparkSession

from spark_stream import _settings as settings
from spark_stream import java, launching
from spark_stream._settings import Archives
from spark_stream.java import Java, SparkUnavailable
from spark_stream.session import connect, disconnect
from synergy_nb.errors import SynergyError

__all__ = ["ArchiveNotWritten", "write"]

WITHIN: Final = 600.0  # seconds within which a server has to be ready: one that records its classes is slow
ROWS: Final = 20_000  # rows that the recording server reads in each query


class ArchiveNotWritten(SynergyError, RuntimeError):
    """No archive of Spark's classes could be written; the text gives the reason."""


def write(runtime: Java | None = None) -> Path:
    """Write the archive for a Java runtime and the installed Spark, and return its path.

    Starting a server for that and having it answer queries takes a minute or two of a processor. An archive that exists
    is replaced once the new one is whole; servers that run with it go on. That of Java's own classes stays, unless it
    is damaged.

    ``runtime``: java runtime; by default the one that :func:`spark_stream.java.find` finds.

    Raises ``SparkUnavailable`` if no server can be started; ``ArchiveNotWritten`` if the folder is not writable, or
    this Java writes no archive.
    """
    runtime, home = runtime or java.find(), launching.spark_home()
    paths = launching.archive_paths(runtime)
    parent = paths.spark.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".archive-", dir=parent) as folder:
            new = Archives(Path(folder) / paths.java.name, Path(folder) / paths.spark.name)
            # Java 25 does not map an archive whose lower one has moved since, so one that is whole stays.
            if not _is_whole(runtime, paths.java, Path(folder)):
                log = _of_java(runtime, new.java)
                _check_written(new.java, runtime, log)
                new.java.replace(paths.java)
            log = _recorded(runtime, home, new._replace(java=paths.java))
            _check_written(new.spark, runtime, log)
            new.spark.replace(paths.spark)
    except OSError as error:
        raise ArchiveNotWritten(f"{parent}: {error.strerror or error}; expected a writable folder") from None
    except (PySparkException, subprocess.TimeoutExpired) as error:
        reason = str(error).partition("\n")[0]
        raise ArchiveNotWritten(f"the server that was to record its classes gave no answer: {reason}") from None
    return paths.spark


def _is_whole(runtime: Java, archive: Path, folder: Path) -> bool:
    """Whether there is an archive, and Java finds no damage in it; what a crash of Java leaves is in the folder."""
    options = ("-Xshare:on", f"-XX:SharedArchiveFile={archive}", "-XX:+VerifySharedSpaces", "-XX:+UseSerialGC")
    return archive.is_file() and not _run(runtime, folder, *options, "-version").returncode


def _check_written(path: Path, runtime: Java, log: str) -> None:
    if not path.is_file():
        raise ArchiveNotWritten(f"Java {runtime.version} of {runtime.origin} wrote no archive: {log}")


def _of_java(runtime: Java, archive: Path) -> str:
    """Write an archive of Java's own classes; return the most informative line of what it printed."""
    options = ("-Xshare:dump", f"-XX:SharedArchiveFile={archive}", "-XX:+UseSerialGC")
    printed = _run(runtime, archive.parent, *options)
    return launching.reason_line((printed.stdout + printed.stderr).decode("utf-8", "replace")) or "it gave no reason"


def _run(runtime: Java, folder: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run Java in a folder until it ends."""
    command = (str(runtime.executable.absolute()), *options)
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=WITHIN, check=False, cwd=folder
    )


def _recorded(runtime: Java, home: Path, archives: Archives) -> str:
    """Run a server that writes an archive as it ends; return the most informative line of its log."""
    token = secrets.token_urlsafe(24)
    port = launching.free_port()
    with launching.start_supervisor(archives.spark.parent) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        reports = map(json.loads, process.stdout)
        folder = Path(next(reports)["folder"])
        launching.prepare_folder(folder)
        order = {
            "command": launching.recording_command(runtime, home, folder, port, archives),
            "environment": launching.environment(home, folder, token),
            "workers": launching.worker_server(),
            "ready": settings.READY_SIGN,
            "timeout": WITHIN,
        }
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        pid = _until(reports, "ready", folder)
        _train(f"sc://127.0.0.1:{port}", token, folder)
        os.kill(pid, signal.SIGTERM)
        _until(reports, "exited", folder)
        return _last_line(folder)


def _until(reports: Iterator[dict[str, int]], awaited: str, folder: Path) -> int:
    """Return the value of an awaited report of the supervisor."""
    for report in reports:
        if awaited in report:
            return report[awaited]
        if "exited" in report:
            raise SparkUnavailable(f"the server that was to record its classes ended: {_last_line(folder)}")
    raise SparkUnavailable("the supervisor of the server that was to record its classes has ended")


def _last_line(folder: Path) -> str:
    with contextlib.suppress(OSError):
        log = (folder / "server.log").read_text("utf-8", "replace")
        return launching.reason_line(log) or "it gave no reason"
    return "it left no log"


def _train(url: str, token: str, folder: Path) -> None:
    """Have a server load the classes that most queries need: by a few queries, in a session of its own."""
    session = connect(url, token, timeout=WITHIN)
    try:
        _query(session, folder)
    finally:
        disconnect(session)


def _query(session: SparkSession, folder: Path) -> None:
    """Read, join, sort and sum rows, as tables and as streams."""
    path, schema = str(folder / "tmp" / "rows"), "time timestamp, key long, value long, text string"
    rows = session.range(ROWS).selectExpr(
        "timestamp_millis(id * 10) AS time", "id % 7 AS key", "id AS value", "concat('t', id % 3) AS text"
    )
    rows.write.parquet(path)
    sums = rows.groupBy(functions.window("time", "10 seconds"), "key").agg(functions.sum("value").alias("total"))
    sums.join(rows, "key").filter("total > value").orderBy("value").limit(5).toArrow()
    rows.dropDuplicates(["text"]).toPandas()
    stream = session.readStream.schema(schema).parquet(path).withWatermark("time", "1 second")
    windows = stream.groupBy(functions.window("time", "10 seconds"), "key").agg(functions.sum("value").alias("total"))
    for number, each in enumerate((windows, stream.filter("value > 3").dropDuplicatesWithinWatermark(["key"]))):
        writer = each.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
        writer.option("checkpointLocation", str(folder / "checkpoints" / str(number))).start().awaitTermination()


if __name__ == "__main__":
    try:
        write()
    except SynergyError as error:
        sys.exit(str(error))
