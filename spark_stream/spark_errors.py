"""Interpretation of Spark's errors: whether the server is lost, and the cause in one line."""

from __future__ import annotations

import re
from typing import Final

from spark_stream.java import SparkUnavailable
from synergy_nb.errors import SynergyError

__all__ = ["SparkQueryEnded", "cause", "has_no_room", "is_lost", "is_passing"]

_DETAILS: Final = re.compile(r'^\s*details = "(.*)"$', re.MULTILINE)  # the details in the text of an error of gRPC
LONGEST: Final = 300  # maximum number of characters of a reason
#: Errors of gRPC which say that the server does not answer, or not any more.
_SERVER_LOST: Final = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"})
#: Errors of Spark Connect which say that the session does not exist, as after a restart of the server.
_NO_SESSION: Final = re.compile(r"INVALID_HANDLE\.(SESSION|OPERATION)|NO_ACTIVE_SESSION|RETRIES_EXCEEDED")
#: Errors of Spark which say that a Python process did not come up, has died, or did not reach the endpoint of its peer.
_WORKER: Final = re.compile(
    r"Python worker (failed to connect back|exited unexpectedly)|CANNOT_OPEN_SOCKET"
    r"|java\.io\.EOFException|java\.net\.Socket\w*Exception|Flight(Unavailable|TimedOut)Error"
)
#: Error of Spark's server where two of three peers that had a query one after the other began a run of it at once.
_AT_ONCE: Final = re.compile(r"\[CONCURRENT_QUERY\]")
_NO_ROOM: Final = re.compile("No space left on device|Disk quota exceeded|File too large")
_CAUSED: Final = "Caused by: "  # what a stack trace of Spark says before each cause
_FRAME: Final = re.compile(r"\s+at ")  # the line of a call in it
_PYTHON: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Refused)): (.+)$")
_SPARK: Final = re.compile(r"\[([A-Z][A-Z_]*(?:\.[A-Z_]+)?)\]\s*(.+)")
_FLIGHT: Final = re.compile(r"(?:Flight error: )?(?:Flight \w+ error: |Flight returned [^:]*: |gRPC returned [^:]*: )")


class SparkQueryEnded(SynergyError, RuntimeError):
    """A query on Spark has ended before its streams had ended and without being stopped."""


def is_lost(error: BaseException) -> bool:
    """Whether an error of a session means that its server is lost, rather than that the request is wrong."""
    if isinstance(error, SparkUnavailable):
        return True
    condition = getattr(error, "getCondition", None)
    if condition is not None and _NO_SESSION.search(str(condition() or "")):
        return True
    code = getattr(error, "code", None)
    if callable(code) and getattr(code(), "name", "") in _SERVER_LOST:
        return True
    text = str(error)
    if _NO_SESSION.search(text.partition("\n")[0]) or any(f"StatusCode.{name}" in text for name in _SERVER_LOST):
        return True
    return error.__cause__ is not None and is_lost(error.__cause__)


def is_passing(error: BaseException) -> bool:
    """Whether a query may be started again: its Python process failed on a busy machine, or another run began with it.

    Of two runs that begin at once while a third one goes on, Spark refuses one: that of the latest peer begins again,
    the others find that they have been replaced.

    >>> is_passing(RuntimeError("Query terminated with exception: Python worker failed to connect back."))
    True
    >>> is_passing(RuntimeError("[CONCURRENT_QUERY] Another instance of this query was just started."))
    True
    """
    return any(pattern.search(_with_causes(error)) for pattern in (_WORKER, _AT_ONCE))


def has_no_room(error: BaseException) -> bool:
    """Whether Spark, or a Python process of it, could not write as the disk is full.

    >>> has_no_room(RuntimeError("Task failed: java.io.IOException: No space left on device"))
    True
    """
    return _NO_ROOM.search(_with_causes(error)) is not None


def cause(error: BaseException) -> str:
    """What went wrong, in one line and without a stack trace: what a Python process of Spark's raised, or Spark itself.

    Examples
    --------
    >>> cause(RuntimeError("[STREAM_FAILED] Query x terminated with exception: [DIVIDE_BY_ZERO] Division. SQLSTATE: 1"))
    'Division.'
    >>> cause(RuntimeError("[A_B] it failed\\nTraceback (most recent call last):\\n  File ...\\nValueError: k: 3\\n"))
    'k: 3'
    >>> cause(KeyError("n"))
    "KeyError: 'n'"
    """
    text = _with_causes(error)
    lines = [line.strip() for line in text.splitlines()]
    raised = [found for line in lines if (found := _PYTHON.match(line)) and not line.startswith(("org.", "java."))]
    if "Traceback" in text and raised:
        kind, message = raised[-1].groups()
        return _shortened(
            _FLIGHT.sub("", message) if kind.startswith(("Flight", "Arrow", "ValueError")) else f"{kind}: {message}"
        )
    conditions = _SPARK.findall(text)
    if conditions:
        return _shortened(re.split(r" SQLSTATE: |\n", conditions[-1][1].rpartition("] ")[2] or conditions[-1][1])[0])
    details = _DETAILS.search(text)
    if details:
        return _shortened(details[1])
    named = isinstance(error, ValueError | SparkUnavailable)
    first = lines[0] if lines else ""
    return _shortened(first if named and first else f"{type(error).__name__}: {first}")


def _with_causes(error: BaseException) -> str:
    """Text of an error, and of what caused it within Spark: where a micro-batch fails twice, Spark only says that."""
    trace = getattr(error, "getStackTrace", str)() or ""
    lines = trace.partition(_CAUSED)[2].splitlines()
    return "\n".join([str(error), *(line for line in lines if not _FRAME.match(line))])


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
