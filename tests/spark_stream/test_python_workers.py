"""Python workers of Spark: forked with what Spark gave them, ended with their launchers, and plain where need be."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from spark_stream import _worker_launcher as worker_launcher
from spark_stream import launching
from tests.conftest import ROOT

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

pytestmark = pytest.mark.skipif(not launching.FORKS, reason="Python workers are forked on Linux")

WAIT = 60.0  # seconds
#: A worker that says what it is, and then does what its first argument says.
PROBE = """
import json, os, random, sys
own = {"id": os.getpid(), "parent": os.getppid(), "arguments": sys.argv[1:], "main": __name__, "folder": os.getcwd()}
own |= {"given": os.environ.get("GIVEN"), "inherited": os.environ.get("INHERITED"), "random": random.random()}
own["forked"] = "numpy" in sys.modules
import numpy
own["numpy"] = numpy.random.random()
print(json.dumps(own), flush=True)
sys.stderr.write("and this, as an error")
sys.stdout.write(sys.stdin.readline())
sys.stdout.flush()
exec(sys.argv[1])
"""


class Workers:
    """A fork server of workers, and programs that launch these."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "probe.py").write_text(PROBE, "utf-8")
        descriptor, path = worker_launcher.open_path(str(folder))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
            code = "from spark_stream import _worker_fork_server as w; w.PRELOAD = ('numpy',); w.main({})"
            self.server = subprocess.Popen(
                [sys.executable, "-P", "-c", code.format(listener.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[listener.fileno()],
                env={**kept, "PYTHONPATH": str(ROOT), "INHERITED": "from the server"},
            )
        os.close(descriptor)

    def launch(self, *arguments: str, **given: Any) -> subprocess.Popen[str]:
        """Start a worker by its launcher."""
        command = [sys.executable, "-I", "-S", worker_launcher.__file__, str(self.folder), sys.executable]
        kept = {name: value for name, value in os.environ.items() if name != "INHERITED"}
        return subprocess.Popen(
            [*command, *(arguments or ("-m", "probe", "pass"))],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **{"env": {**kept, "PYTHONPATH": str(self.folder), "GIVEN": "ü by Spark"}, "cwd": self.folder, **given},
        )

    def run(self, script: str, **given: Any) -> tuple[int, dict[str, Any], str, str]:
        """Run the probe; return its exit code, what it says of itself, and what it writes."""
        process = self.launch("-m", "probe", script, **given)
        out, err = process.communicate("a line for it\nnot read\n", WAIT)
        said, _, rest = out.partition("\n")
        return process.returncode, json.loads(said), rest, err

    def end(self) -> None:
        """Kill the fork server."""
        self.server.kill()
        self.server.wait(WAIT)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    made = Workers(tmp_path_factory.mktemp("workers"))
    yield made
    made.end()


def test_a_worker_has_what_spark_gave_it(workers: Workers) -> None:
    elsewhere = workers.folder / "elsewhere"
    elsewhere.mkdir()
    code, said, out, err = workers.run("pass", cwd=elsewhere)
    assert code == 0
    assert said["forked"]
    assert said["parent"] == workers.server.pid
    assert said["arguments"] == ["pass"]
    assert said["main"] == "__main__"
    assert said["folder"] == str(elsewhere)
    assert (said["given"], said["inherited"]) == ("ü by Spark", None)
    assert out == "a line for it\n"
    assert err == "and this, as an error"


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("sys.exit(3)", 3, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit('it says why')", 1, "it says why"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("os.kill(os.getpid(), 9)", 128 + 9, ""),
        ("import atexit; atexit.register(lambda: sys.stderr.write('at its end'))", 0, "at its end"),
        ("sys.stdout.write('without the end of a line'); sys.stdout = None", 0, ""),
    ],
)
def test_its_exit_code_and_its_last_words_reach_spark(workers: Workers, script: str, code: int, said: str) -> None:
    ended, _, out, err = workers.run(script)
    assert ended == code
    assert said in err
    if "without" in script:
        assert out.endswith("without the end of a line")
    assert workers.server.poll() is None


def test_output_is_unbuffered_where_spark_asks_for_that(workers: Workers) -> None:
    given = {**os.environ, "PYTHONPATH": str(workers.folder), "PYTHONUNBUFFERED": "YES"}
    code, _, out, err = workers.run("sys.stdout.write('ä'); os._exit(0)", env=given)
    assert (code, out, err) == (0, "a line for it\nä", "and this, as an error")


def test_random_numbers_of_workers_differ(workers: Workers) -> None:
    """Also those of workers that a worker forks, as Spark's daemon does."""
    found = [workers.run("pass")[1] for _ in range(2)]
    for library in ("random", "numpy"):
        assert found[0][library] != found[1][library]
    script = "os.fork() and os.wait(); print(numpy.random.random(), flush=True); os._exit(0)"
    lines = workers.run(script)[2].splitlines()[1:]
    assert len(set(lines)) == len(lines) == 2


def test_workers_run_beside_each_other(workers: Workers) -> None:
    both = [workers.launch("-m", "probe", "pass") for _ in range(3)]
    said = []
    for each in both:
        assert each.stdout is not None
        said.append(json.loads(each.stdout.readline()))
    assert len({one["id"] for one in said}) == 3
    for each in both:
        each.communicate("x\n", WAIT)
        assert each.returncode == 0


def test_a_worker_ends_with_its_launcher(workers: Workers) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        launcher = workers.launch()
        assert launcher.stdout is not None
        worker = psutil.Process(json.loads(launcher.stdout.readline())["id"])
        launcher.send_signal(number)
        worker.wait(WAIT)
        launcher.communicate(timeout=WAIT)
    assert workers.run("pass")[0] == 0


@pytest.mark.slow
def test_workers_end_with_their_fork_server_and_later_ones_are_plain(tmp_path: Path) -> None:
    workers = Workers(tmp_path)
    launcher = workers.launch()
    assert launcher.stdout is not None
    worker = psutil.Process(json.loads(launcher.stdout.readline())["id"])
    workers.end()
    worker.wait(WAIT)
    launcher.communicate(timeout=WAIT)
    assert launcher.returncode == worker_launcher.FAILED
    code, said, out, err = workers.run("sys.exit(4)")
    assert code == 4
    assert not said["forked"]
    assert said["given"] == "ü by Spark"
    assert out == "a line for it\n"
    assert err == "and this, as an error"


@pytest.mark.slow
def test_a_launcher_ends_with_the_fork_server_although_what_its_worker_forked_lives(tmp_path: Path) -> None:
    """As the workers of Spark's daemon may, for a moment."""
    workers = Workers(tmp_path)
    forks = "child = os.fork()\nif not child:\n    os.closerange(0, 3)\nelse:\n    print(child, flush=True)"
    launcher = workers.launch("-m", "probe", f"{forks}\nimport signal\nsignal.pause()")
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    launcher.stdin.write("\n")
    launcher.stdin.flush()
    lines = [launcher.stdout.readline() for _ in range(3)]
    forked = psutil.Process(int(lines[2]))
    try:
        workers.end()
        assert launcher.wait(WAIT) == worker_launcher.FAILED
        assert forked.is_running()
    finally:
        forked.kill()
        launcher.communicate(timeout=WAIT)


def test_a_launcher_that_ends_within_its_request_harms_nobody(workers: Workers) -> None:
    for part in (b"", b"\0", (99).to_bytes(worker_launcher.SIZE, "big"), (4).to_bytes(4, "big") + b"[1}]"):
        descriptor, path = worker_launcher.open_path(str(workers.folder))
        with socket.socket(socket.AF_UNIX) as launcher:
            launcher.connect(path)
            launcher.sendall(part)
        os.close(descriptor)
    code, said, _, _ = workers.run("pass")
    assert code == 0
    assert said["forked"]


def test_what_is_no_module_is_run_by_python_itself(workers: Workers) -> None:
    out, _ = workers.launch("-c", "import sys; print('numpy' in sys.modules)").communicate(timeout=WAIT)
    assert out == "False\n"


def test_a_folder_may_have_a_long_and_odd_name(tmp_path: Path) -> None:
    folder = tmp_path / ("it's long " + 100 * "x") / (100 * "ü")
    folder.mkdir(parents=True)
    found = Workers(folder)
    try:
        assert found.run("pass")[1]["forked"]
    finally:
        found.end()


def test_without_programs_in_its_folder_a_server_has_plain_workers(tmp_path: Path) -> None:
    """As where the file system of temporary files allows none."""
    folder = tmp_path / "server"
    folder.mkdir()
    launching.prepare_folder(folder)
    program = folder / launching.PYTHON
    assert launching.environment(tmp_path, folder, "")["PYSPARK_PYTHON"] == str(program)
    program.chmod(0o600)
    assert launching.environment(tmp_path, folder, "")["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.slow
def test_a_server_forks_its_python_workers(spark: SparkSession) -> None:
    import pyarrow as pa

    def names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        import pyspark

        list(batches)
        found = ["pyspark.sql.worker.create_data_source" in sys.modules, ".zip" in pyspark.__file__]
        yield pa.record_batch({"found": [str(found)]})

    assert spark.range(1).mapInArrow(names, "found string").collect()[0].found == "[True, False]"
