"""Spark servers for tests: one for all that need one, and one with peers, which tests may kill.

Each is started when the first test asks for it, and ends after the last test of the unit that shares it
(:data:`tests.scheduling.SERVERS`). Their Java compiles once, and does not verify Spark's own classes anew
each time: a server of tests lives for a minute or two, in which Java's second compiler takes more processor time than
it saves, 13 s rather than 8 until the first answer, and 2 of these 8 are verification. Nor do they compile stages of
queries to Java, which takes a third of the processor time of a query over few rows: only sessions with ``COMPILED``
do, in which the tests of operators and expressions compare rows, and servers with ``STAGES``, as those of notebooks,
which read a million rows.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import psutil
import pytest

from spark_stream import java

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

    from spark_stream.server import Server
    from synergy_nb import Cluster


T = TypeVar("T")
_SHARED: Final[dict[str, tuple[ExitStack, Any]]] = {}  # by the name of the fixture

#: Options of Java for servers that do not live long.
QUICK: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",  # a fifth of that with the first compiler alone, so compiled code is thrown away
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-Dspark.sql.codegen.wholeStage=false",
)
MORE: Final = "MORE_JAVA_OPTIONS"  # variable with more options for that Java, which come after these
#: Value of it for many rows: stages of queries are compiled after all.
STAGES: Final = "-Dspark.sql.codegen.wholeStage=true"
#: Settings of sessions that compile stages of queries, as those of users do. As in the sessions of queries, what is
#: compiled is shared: in sessions with classes of their own each class is looked for at the server first.
COMPILED: Final = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",
}


@pytest.fixture(scope="session", autouse=True)
def quick_java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """``JAVA_HOME`` is a Java that compiles once and verifies nothing, for this process and all that it starts."""
    try:
        found = java.find()
    except java.SparkUnavailable:  # tests of Spark will say so themselves
        found = None
    if found is None or sys.platform == "win32":
        yield
        return
    home = tmp_path_factory.mktemp("java")
    (home / "release").write_text(f'JAVA_VERSION="{found.version}"\n', "utf-8")
    program = home / "bin" / "java"
    program.parent.mkdir()
    command = shlex.join((str(found.executable.resolve()), *QUICK))
    program.write_text(f'#!/bin/sh\nexec {command} ${MORE} "$@"\n', "utf-8")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(home))
        yield


def _shared(name: str, start: Callable[[], AbstractContextManager[T]]) -> T:
    """What the tests of a unit share: started for the first of them, and ended by :func:`end_shared`."""
    if name not in _SHARED:
        stack = ExitStack()
        _SHARED[name] = stack, stack.enter_context(start())
    return cast("T", _SHARED[name][1])


def end_shared() -> None:
    """End what the tests of a unit have shared: it takes memory and processor time from the others."""
    while _SHARED:
        _SHARED.popitem()[1][0].close()


@pytest.fixture(scope="module")
def spark_server(quick_java: None) -> Server:
    """A Spark Connect server that is ready; no test may end it. Tests that use it are slow: it takes seconds."""
    return _shared("spark_server", _server)


@contextmanager
def _server() -> Iterator[Server]:
    from spark_stream.server import Server

    with Server() as server:
        folder = Path(server.ready().folder or "").parent
        yield server
    assert not leftovers(folder)


@pytest.fixture
def spark(spark_server: Server) -> Iterator[SparkSession]:
    """A session of the test's own."""
    from spark_stream.session import connect, disconnect

    session = connect(spark_server.ready(), timeout=120.0)
    yield session
    disconnect(session)


@pytest.fixture(scope="module")
def spark_peers(quick_java: None) -> Cluster:
    """Five peers with a Spark server of their own, which tests may kill, as it comes back; one test kills one peer."""
    return _shared("spark_peers", _peers)


@contextmanager
def _peers() -> Iterator[Cluster]:
    from synergy_nb import Cluster

    with Cluster(5, cores=4.0) as cluster:
        cluster.spark_session()
        yield cluster
        server = cluster._asynchronous.spark.process
    assert server is not None
    assert not psutil.pid_exists(server)


def leftovers(folder: Path) -> list[str]:
    """What is left of a server whose folder was ``folder``: itself, and processes that know it."""
    left = [str(folder)] if folder.exists() else []
    for process in psutil.process_iter():
        try:
            if any(str(folder) in text for text in (*process.cmdline(), *process.environ().values())):
                left.append(f"{process.pid} {' '.join(process.cmdline())[:200]}")
        except psutil.Error:  # it has ended in the meantime, or is somebody else's
            continue
    return left
