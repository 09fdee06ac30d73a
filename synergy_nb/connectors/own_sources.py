"""Sources of one's own at a peer: the author's class runs in a process of its own, as functions do, and is asked by it.

:class:`SourceCalls` is at the side of the author's code, :func:`own_source` at that of the peer. Between both is
:class:`~synergy_nb.dataflow.functions.calls.Calls`: a question, a table, and a number. So the process, its limits, and
how the code travels are those of functions.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import polars as pl

from synergy_nb.connectors.secret_values import Secrets, discreet
from synergy_nb.dataflow.functions.calls import (
    Calls,
    FunctionAnswer,
    FunctionError,
    FunctionTask,
    brief,
    found,
    line_of,
)
from synergy_nb.dataflow.logic import ANYTHING
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.events import SkippedLines
from synergy_nb.plan.derived.named_secrets import secrets_of
from synergy_nb.plan.functions.declaring import Content
from synergy_nb.plan.operators.sources import reader_of
from synergy_nb.traces.rows import RowReader

__all__ = ["SourceCalls", "executed_here", "own_source"]

_NOTHING: Final = pl.DataFrame()


class _Told(msgspec.Struct, frozen=True):
    """What came of a call."""

    rows: bytes = b""  # table of a poll, as Arrow writes it; empty: nothing yet
    position: Any = None
    ends: bool = False
    said: tuple[str, ...] = ()
    skipped: SkippedLines | None = None
    until: int | None = None
    broken: str | None = None  # what the source has said as it could not be read; None: it could

    def table(self) -> pl.DataFrame:
        """One cell that has all of it."""
        return pl.DataFrame({"told": [msgspec.msgpack.encode(self)]})

    @classmethod
    def of(cls, table: pl.DataFrame) -> _Told:
        """Read it again."""
        return msgspec.msgpack.decode(table.item(), type=cls)


def own_source(
    operator: str,
    params: Mapping[str, Any],
    schema: Mapping[str, str],  # columns of its stream, with their types
    secrets: Mapping[str, bytes],  # values by the name that plans use for them
    execute: Callable[[FunctionTask], Calls],  # function that starts the execution of the author's class
) -> Source:
    """Return the source that the parameters of a plan's source describe, which is not open yet.

    Its class gets the values of the secrets that its arguments name; what it raises has the names.

    Raises ``ValueError`` if a secret is not there.
    """
    named = Secrets(secrets_of("source", params), secrets)
    given = {**params, "arguments": named.fill_in(params.get("arguments") or {})}
    calls = execute(FunctionTask(operator, params["function"], given, {}, schema))
    return discreet(_OwnSource(calls, repeats=bool(params["repeats"])), named, ("open", "poll", "close"))


def executed_here(task: FunctionTask) -> SourceCalls:
    """Execute a source in this process.

    Raises ``ValueError`` if its class is not known here.
    """
    return SourceCalls(found(task.function), task)


class SourceCalls:
    """A source of one's own, executed in this process."""

    used = 0  # beside the memory of its peer, see `Calls`

    def __init__(self, content: Content, task: FunctionTask) -> None:
        self.name = content.name
        self._content = content
        self._arguments: Mapping[str, Any] = task.params["arguments"]
        own = {name: kind for name, kind in task.output.items() if name != "time"}
        self._reader = RowReader(task.operator, own, task.params.get("time", "time"), task.params.get("time_unit"))
        self._share = reader_of(task.params)
        self._source: Source | None = None

    def call(self, what: str, table: pl.DataFrame, low: int) -> FunctionAnswer:
        """Answer a question.

        ``open``: open it at the position that the table has. ``poll``: poll, and wait for ``low`` microseconds at most.
        ``close``: close it.

        Raises ``FunctionError`` if the source fails for good.
        """
        try:
            match what:
                case "open":
                    self._source = self._source or self._made()
                    self._source.open(_Told.of(table).position)
                    told = _Told()
                case "poll":
                    told = self._polled(low / 1e6)
                case _:
                    told = _Told()
                    if self._source is not None:
                        self._source.close()
        except BrokenForNow as error:
            told = _Told(broken=str(error))
        except ANYTHING as error:
            if isinstance(error, MemoryError | FunctionError):
                raise
            raise FunctionError(f"source {self.name!r}: {brief(error)}{line_of(error, self._content)}") from None
        return FunctionAnswer(told.table())

    def _made(self) -> Source:
        made: Source = self._content.call(**self._arguments)
        if self._share is not None:
            made.split(*self._share)
        return made

    def _polled(self, seconds: float) -> _Told:
        assert self._source is not None
        polled: Any = self._source.poll(seconds)
        if polled is None:
            return _Told()
        if not isinstance(polled, Polled):
            expected = "Polled(rows, position), or None for nothing yet"
            raise FunctionError(f"source {self.name!r}: poll: {polled!r}; expected {expected}")
        written = io.BytesIO()
        self._reader.as_given(polled.rows).write_ipc_stream(written)
        return _Told(written.getvalue(), *polled[1:])


class _OwnSource(Source):
    """A source whose author's code is executed elsewhere, or in this process."""

    def __init__(self, calls: Calls, *, repeats: bool) -> None:
        self.repeats = repeats  # type: ignore[misc]  # of each class of an author its own
        self._calls = calls

    def open(self, position: Any) -> None:
        """Make it, and open it."""
        self._ask("open", _Told(position=position).table())

    def poll(self, seconds: float) -> Polled | None:
        """Poll it."""
        told = self._ask("poll", low=round(seconds * 1e6))
        if not told.rows:
            return None
        rows = pl.read_ipc_stream(told.rows)
        return Polled(rows, told.position, told.ends, told.said, told.skipped, told.until)

    def close(self) -> None:
        """Close it, unless its process has ended."""
        with contextlib.suppress(FunctionError, OSError):
            self._ask("close")

    def _ask(self, what: str, table: pl.DataFrame = _NOTHING, low: int = 0) -> _Told:
        told = _Told.of(self._calls.call(what, table, low).table)
        if told.broken is not None:
            raise BrokenForNow(told.broken)
        return told
