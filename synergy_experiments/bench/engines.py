"""Other engines on the query of ``dataflow``, each in a process of its own and reading the same file.

Unlike the systems in :mod:`synergy_experiments.bench.rivals`, these read files themselves, so reading is in their time
as it is in ours. Each process is kept for all runs: imports, a JVM and a first, unmeasured run come before the others.
Two of them cannot share an environment with this project, whose pins are newer than what they allow; then the Python of
another environment is named by a variable. :mod:`synergy_experiments.bench.engine_process` is what that Python runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from spark_stream import java
from synergy_experiments.bench import engine_process
from synergy_experiments.bench.measurements import Usage
from synergy_experiments.bench.rivals import Rows

__all__ = ["ENGINES", "Engine", "EngineProcess", "missing_reason"]


class Engine(msgspec.Struct, frozen=True):
    """An engine that runs the query.

    Parameters
    ----------
    name, system
        Name of the engine, and the distribution that it needs.
    form
        The form of the file that it reads: ``"parquet"`` or ``"csv"``.
    how
        Remarks for readers of the results.
    variable
        The environment variable that names a Python which has the engine; empty if this one always has it.
    jvm
        Whether it needs a Java.
    """

    name: str
    system: str
    form: str
    how: str
    variable: str = ""
    jvm: bool = False

    @property
    def python(self) -> str:
        """Path of the Python that has the engine, or in which it is to be installed."""
        return (os.environ.get(self.variable, "") if self.variable else "") or sys.executable


ENGINES: Final = (
    Engine("Polars, streaming engine", "polars", "parquet", 'scan_parquet(...).collect(engine="streaming")'),
    Engine("DuckDB", "duckdb", "parquet", "SQL on read_parquet"),
    Engine("Spark", "pyspark", "parquet", "a batch DataFrame, local[*]", jvm=True),
    Engine(
        "PyFlink, Table API",
        "apache-flink",
        "csv",
        "its embedded cluster in batch mode; it comes without a reader of Parquet",
        variable="SYNERGY_FLINK_PYTHON",
        jvm=True,
    ),
    Engine(
        "pathway",
        "pathway",
        "csv",
        "windowby(tumbling) in static mode, a thread a core; it has no reader of Parquet files",
        variable="SYNERGY_PATHWAY_PYTHON",
    ),
)


@cache
def _has(python: str, system: str) -> bool:
    if python == sys.executable:
        try:
            metadata.version(system)
        except metadata.PackageNotFoundError:
            return False
        return True
    code = "import sys; from importlib import metadata; metadata.version(sys.argv[1])"
    try:
        return not subprocess.run([python, "-c", code, system], capture_output=True, check=False).returncode
    except OSError:
        return False


def missing_reason(engine: Engine) -> str:
    """Reason why an engine cannot run here, and the remedy; empty if it can."""
    if not _has(engine.python, engine.system):
        if engine.python != sys.executable:
            return (
                f"not installed: {engine.variable}: {engine.python!r}; expected a Python that has {engine.system}: "
                f"there, pip install {engine.system}"
            )
        if engine.variable:
            return (
                f"not installed: pip install {engine.system} in an environment of its own, as it may need older "
                f"packages than this project, and set {engine.variable} to the Python there, of version 3.11 or later"
            )
        return f"not installed: pip install {engine.system}"
    if engine.jvm:
        try:
            java.find()
        except java.SparkUnavailable as error:
            return f"not run: {error}"
    return ""


class EngineProcess:
    """The process of one engine, from entering to leaving.

    Parameters
    ----------
    engine
        An installed engine.
    script
        Path of what it runs; by default that of :mod:`synergy_experiments.bench.engine_process`.
    bench
        Name of the measurement, for errors.

    Raises
    ------
    RuntimeError
        On entering or running, if the engine failed, with its error; or if its process ended, with the last line that
        it wrote.
    """

    def __init__(
        self, engine: Engine, *, script: Path = Path(engine_process.__file__), bench: str = "dataflow"
    ) -> None:
        self.engine = engine
        self._script = script
        self._bench = bench

    def __enter__(self) -> EngineProcess:
        # Spark in this process is a client of a server, and says so in variables; the engine has a Spark of its own
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        if self.engine.python != sys.executable:
            environment.pop("PYTHONPATH", None)  # packages of this environment are not for the other
        if self.engine.jvm:
            environment["JAVA_HOME"] = str(java.find().executable.parent.parent)
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [self.engine.python, "-P", str(self._script), self.engine.system],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        try:
            self._answer()
        except RuntimeError:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if kind is not None:
            self._process.kill()
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # at the end of its input it ends, and its JVM with it
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def run(self, path: Path) -> tuple[float, float, Rows]:
        """Seconds, processor seconds of all processes of the engine, and the rows in order.

        Parameters
        ----------
        path
            Path of the file of tuples, in the engine's form.
        """
        return self._told(str(path))

    def ask(self, task: dict[str, Any]) -> tuple[float, float, Any]:
        """The same of a task of :mod:`synergy_experiments.bench.nexmark_process`."""
        return self._told(json.dumps(task))

    def delays(self, task: dict[str, Any]) -> list[float]:
        """Delays of results, seconds, of a live task of that module."""
        self._write(json.dumps(task))
        found: list[float] = self._answer()["delays"]
        return found

    def _told(self, text: str) -> tuple[float, float, Any]:
        with Usage([self._process.pid], descendants=True) as usage:
            self._write(text)
            found = self._answer()
        return found["seconds"], usage.cpu, sorted(tuple(row) for row in found["rows"])

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # of a process that has ended, which the answer tells
            self._process.stdin.write(f"{text}\n")
            self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            last = ([line for line in self._errors.read().splitlines() if line.strip()] or ["no message"])[-1]
            raise RuntimeError(f"{self._bench}: {self.engine.name} ended: {last}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self._bench}: {self.engine.name} failed: {answer['error']}")
        return answer
