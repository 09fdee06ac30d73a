"""Rows of a query to a DuckDB or SQLite file or a PostgreSQL server, by a column that grows.

The position is the last value of that column. A file is open only while it is read, so that others may write to it.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Final

from synergy_nb.connectors._postgresql import PostgresServer
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source
from synergy_nb.traces.rows import RowReader
from synergy_nb.traces.text_files import head

MOST_ROWS: Final = 65_536  # rows that are read at a time
_SQLITE: Final = b"SQLite format 3\0"
_CLOSED: Final[dict[str, Any]] = {"enable_external_access": "false"}  # a query reads the file alone


class QuerySource(Source):
    """The rows of a query that come behind those before."""

    repeats: ClassVar[bool] = True

    def __init__(self, params: Mapping[str, Any], schema: Mapping[str, str], secrets: Secrets) -> None:
        self._database = DatabaseFile(params["path"]) if "path" in params else PostgresServer(params, secrets)
        self._name = self._database.name
        self._by: str = params["by"]
        query = str(params["query"]).strip().rstrip(";")
        self._from = f"({query}) AS rows" if " " in query else _quoted(query)
        self._every, self._ends = float(params.get("every", 1.0)), bool(params.get("ends"))
        clock = str(params.get("time", "time"))
        self._reader = RowReader(self._name, schema, clock, params.get("time_unit"))
        self._names = [clock if name == "time" else name for name in schema]
        self._due = 0.0  # time of the clock at which it is read
        self._last: Any = None  # last value of the column that grows

    def open(self, position: Any) -> None:
        """Go on behind a value of the column that grows."""
        self._due = 0.0
        self._last = dt.datetime.fromisoformat(position["time"]) if isinstance(position, dict) else position

    def poll(self, seconds: float) -> Polled | None:
        """Return the rows behind the last one, if it is time to look."""
        now = time.monotonic()
        if now < self._due:
            return None
        names, rows = self._read()
        if not rows:
            self._due = now + self._every
            return Polled(position=self._position, ends=True) if self._ends else None
        place = names.index(self._by)
        for one, other in pairwise(rows):
            if one[place] == other[place]:
                expected = "a column that grows with each row, so that none is left out"
                raise ValueError(f"{self._name}: by: {self._by!r}: {one[place]!r} is there twice; expected {expected}")
        rows = rows[:MOST_ROWS]
        self._last = rows[-1][place]
        wanted = [(name, names.index(name)) for name in dict.fromkeys(self._names)]
        table = self._reader.as_given([{name: row[at] for name, at in wanted} for row in rows])
        return Polled(table, self._position)

    @property
    def _position(self) -> Any:
        return {"time": self._last.isoformat()} if isinstance(self._last, dt.datetime) else self._last

    def _read(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Names of the columns and the next rows, one more than are given."""
        by = _quoted(self._by)
        behind, values = ("", []) if self._last is None else (f"WHERE {by} > {self._database.marker}", [self._last])
        query = f"SELECT * FROM {self._from} {behind} ORDER BY {by} LIMIT {MOST_ROWS + 1}"  # noqa: S608 - it is a query
        names, rows = self._database.read(query, values)
        for name in (*self._names, self._by):
            if name not in names:
                raise ValueError(f"{self._name}: column {name!r} is not there; expected one of {', '.join(names)}")
        return names, rows


class DatabaseFile:
    """A DuckDB or SQLite file."""

    marker: Final = "?"  # what stands for a value in a query

    def __init__(self, path: str) -> None:
        self.name = str(path)
        self._path = Path(path)

    def read(self, query: str, values: list[Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns, and the rows."""
        if not self._path.exists():
            raise BrokenForNow(f"{self._path}: no such file; expected a DuckDB or SQLite file")
        try:
            return self._of_sqlite(query, values) if self._is_sqlite() else self._of_duckdb(query, values)
        except sqlite3.Error as error:
            raise self._said(error, sqlite3.OperationalError) from None

    def _said(self, error: Exception, may_be_locked: type[Exception]) -> Exception:
        """What an error of a database means to who reads it."""
        said = str(error).splitlines()[0]
        if isinstance(error, may_be_locked) and ("lock" in said.lower() or "busy" in said.lower()):
            return BrokenForNow(f"{self._path}: {said}")
        return ValueError(f"{self._path}: query: {said}; expected a query to this file")

    def _is_sqlite(self) -> bool:
        return head(self._path).startswith(_SQLITE)

    def _of_sqlite(self, query: str, values: list[Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        with closing(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.1)) as database:
            found = database.execute(query, values)
            return [each[0] for each in found.description], found.fetchall()

    def _of_duckdb(self, query: str, values: list[Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        import duckdb  # noqa: PLC0415 - only such a file needs it

        try:
            with closing(duckdb.connect(str(self._path), read_only=True, config=_CLOSED)) as database:
                found = database.execute(query, values)
                return [each[0] for each in found.description or []], found.fetchall()
        except duckdb.Error as error:
            raise self._said(error, duckdb.IOException) from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
