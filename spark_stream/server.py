"""A Spark Connect server on this machine, started in the background; it ends with its owner.

    server = Server()
    server.start()                    # returns at once
    endpoint = server.ready()         # waits, and returns the address and the token
    session = connect(endpoint)       # from spark_stream.session, in any process of the machine
    server.close()

One process of the machine owns the server; it passes the :class:`Endpoint` to others, such as peers. A server that dies
is reported and restarted, at the same socket in the same folder. So checkpoints survive; sessions do not, and must be
opened again. When the owner ends, for whatever reason, the server, its workers and its folder are removed: see
:mod:`spark_stream._supervisor`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple
from urllib.parse import quote

from spark_stream import _connect_server as connect_server
from spark_stream import _settings as settings
from spark_stream import java, launching
from spark_stream._settings import Archives
from spark_stream.java import Java, SparkUnavailable

__all__ = ["Endpoint", "Event", "Server", "SparkUnavailable"]

READY_WITHIN: Final = (
    120.0  # time limit, seconds; a quiet machine needs 6 to 9, two cores with twelve busy processes 50
)
RESTARTS: Final = 3  # largest number of restarts of a server within PERIOD
PERIOD: Final = 60.0  # seconds within which restarts are counted
GRACE: Final = 10.0  # time limit for the supervisor to end all processes, seconds


class Endpoint(NamedTuple):
    """The address of a server, with all that is needed to open sessions on it."""

    url: str  # URL of the server, such as `unix:///tmp/synergy-spark-x/connect` or `sc://spark.example.org:15002`
    token: str | None = None  # token that clients have to present; empty if the server requires none
    # folder for the checkpoints of queries, each in a folder of its own; empty for a server on another machine
    folder: str | None = None


class Event(NamedTuple):
    """A change of the state of a server."""

    # kind of change: `ready`; `died`, and is being restarted; `failed`, as it could not be started or died too often
    kind: Literal["ready", "died", "failed"]
    detail: str  # reason and remedy; for `ready`, the URL
    seconds: float = 0.0  # time since the start of the server, seconds; only for `ready`


class Server:
    """One Spark Connect server at a socket in a folder of its own; close it when done, or use it as a context manager.

    It may be used from any thread. Nothing is started before :meth:`start` or :meth:`ready`.
    """

    def __init__(
        self,
        *,
        cores: int = settings.CORES,  # number of tasks that run at once
        timeout: float = READY_WITHIN,  # time limit until the server must accept sessions, seconds
        # directory in which its folder is created; by default the directory of temporary files
        directory: Path | None = None,
        runtime: Java | None = None,  # java runtime to use; by default the one that `spark_stream.java.find` finds
        brief: bool = False,  # whether Java compiles only quickly, as what is executed on it is little
        # callback for changes of the server's state, called on a thread of the server; it should return soon
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        if cores < 1:
            raise ValueError(f"cores: {cores}; expected at least 1")
        self.pid: int | None = None  # process id of Java while it runs
        self._cores = cores
        self._timeout = timeout
        self._directory = directory
        self._runtime = runtime
        self._brief = brief
        self._on_event = on_event
        self._token = secrets.token_urlsafe(24)
        self._changed = threading.Condition()
        self._endpoint: Endpoint | None = None  # None while it accepts no sessions
        self._fault: SparkUnavailable | None = None
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._folder: Path | None = None
        self._archives: Archives | None = None  # None: Java starts without
        self._closed = False

    def start(self) -> None:
        """Start the server without waiting for it; no effect if it runs or starts already. A failed one is retried."""
        with self._changed:
            if self._closed:
                raise SparkUnavailable("the Spark server was closed")
            if self._thread is not None and self._thread.is_alive() and self._fault is None:
                return
            self._fault = None
            self._thread = threading.Thread(target=self._run, args=(self._thread,), name="spark server", daemon=True)
            self._thread.start()

    @property
    def endpoint(self) -> Endpoint | None:
        """Endpoint of the server while it accepts sessions; None otherwise."""
        return self._endpoint

    def ready(self, timeout: float | None = None) -> Endpoint:
        """Wait until the server accepts sessions; start it if necessary.

        ``timeout``: time limit, seconds; by default until the server is ready or has failed.

        Raises ``SparkUnavailable`` if the server cannot be started; the text names the reason and a remedy;
        ``TimeoutError`` if the server is not ready within ``timeout``.
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
        """End the server and all its descendants, and remove its folder; waiting callers get an error."""
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

    def _run(self, previous: threading.Thread | None) -> None:
        """Follow the server from its start to its end."""
        if previous is not None:
            previous.join()  # it has failed, and clears up
        try:
            runtime = self._runtime or java.find()
            home = launching.spark_home()
            self._archives = launching.written_archives(runtime)
            with self._launch() as pipe:
                self._follow(map(json.loads, pipe), runtime, home)
        except SparkUnavailable as fault:
            self._fail(fault)
        except Exception as error:  # noqa: BLE001 - the waiting callers get the error
            self._fail(SparkUnavailable(f"the Spark server could not be started: {error}"))
        finally:
            self._end()

    def _launch(self) -> IO[bytes]:
        """Start the supervisor; return the pipe for its reports."""
        directory = self._directory or Path(tempfile.gettempdir())
        if not directory.is_dir():
            raise SparkUnavailable(f"directory: {directory}; expected a folder that exists, for temporary files")
        process = launching.start_supervisor(directory)
        with self._changed:
            self._supervisor = process
            closed = self._closed
        if closed:
            self._end()
        assert process.stdout is not None
        return process.stdout

    def _follow(self, reports: Iterator[dict[str, Any]], runtime: Java, home: Path) -> None:
        deaths: deque[float] = deque(maxlen=RESTARTS + 1)
        began = 0.0
        late = False
        for report in reports:
            if "folder" in report:
                self._folder = Path(report["folder"])
                launching.prepare_folder(self._folder)
            elif "started" in report:
                self.pid = report["started"]
                continue
            elif "ready" in report:
                self._up(time.monotonic() - began)
                continue
            elif "late" in report:
                late = True
                continue
            else:
                self.pid, why = None, report.get("why") or self._last_words(report["exited"])
                if late:
                    raise SparkUnavailable(
                        f"the Spark server was not ready within {self._timeout:g} s ({why}); "
                        "increase the timeout, or end other programs that keep the machine busy"
                    )
                if self._endpoint is not None:
                    deaths.append(time.monotonic())
                    self._down(why)
                    if len(deaths) > RESTARTS and deaths[-1] - deaths[0] < PERIOD:
                        raise SparkUnavailable(f"the Spark server has died {len(deaths)} times in a minute: {why}")
                elif self._archives is not None:
                    self._archives = None  # a damaged one ends Java
                else:
                    raise SparkUnavailable(launching.advice(why, runtime))
            began = time.monotonic()
            self._order(runtime, home)
        if not self._closed:
            if self._endpoint is not None:
                self._down("its supervisor was killed")
            raise SparkUnavailable("the Spark server's supervisor has ended; start the server again")

    def _order(self, runtime: Java, home: Path) -> None:
        """Command the supervisor to start the server."""
        assert self._folder is not None
        process = self._supervisor
        if process is None:
            return  # closed in the meantime
        order = {
            "command": launching.command(
                runtime, home, self._folder, self._cores, settings.HEAP, self._archives, brief=self._brief
            ),
            "environment": launching.environment(home, self._folder, self._token),
            "workers": launching.worker_server(),
            "socket": connect_server.SOCKET,
            "ready": settings.READY_SIGN,
            "timeout": self._timeout,
        }
        pipe = process.stdin
        assert pipe is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended, or was closed: its reports end, too
            pipe.write(json.dumps(order).encode() + b"\n")
            pipe.flush()

    def _last_words(self, code: int) -> str:
        """Return why the server ended: the most informative line of its log, or the signal that ended it."""
        if code < 0:
            return f"it was ended by {signal.Signals(-code).name}"
        assert self._folder is not None
        with contextlib.suppress(OSError):
            log = (self._folder / "server.log").read_bytes()[-(1 << 16) :].decode("utf-8", "replace")
            if (line := launching.reason_line(log)) is not None:
                return line
        return f"it ended with exit code {code}"

    # -- inside, changes of the state --------------------------------------------------------------------------------

    def _up(self, seconds: float) -> None:
        assert self._folder is not None
        socket = quote(str(self._folder / connect_server.SOCKET))
        endpoint = Endpoint(f"unix://{socket}", self._token, str(self._folder / "checkpoints"))
        with self._changed:
            if self._closed:
                return
            self._endpoint = endpoint
            self._changed.notify_all()
        self._notify(Event("ready", endpoint.url, seconds))

    def _down(self, why: str) -> None:
        with self._changed:
            self._endpoint = None
        if not self._closed:
            self._notify(Event("died", why))

    def _fail(self, fault: SparkUnavailable) -> None:
        with self._changed:
            if self._closed:
                return
            self._endpoint, self._fault = None, fault
            self._changed.notify_all()
        self._notify(Event("failed", str(fault)))

    def _notify(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _end(self) -> None:
        """End the supervisor, and with it the server and its folder."""
        with self._changed:
            process, self._supervisor = self._supervisor, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            with contextlib.suppress(OSError):
                process.stdin.close()  # the signal for the supervisor to end
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            pid, self.pid = self.pid, None
            if process.returncode and pid is not None and sys.platform != "linux":
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)  # other kernels do not do so when the supervisor is killed
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)  # in case the supervisor could not
