"""A table of a DuckDB or SQLite file, or of a database, as the destination of a stream.

Theory of operation
-------------------
Rows and the point where they end are committed by one transaction: a table ``synergy_positions`` beside the rows has
the points. Whoever opens the destination is the next writer, and its number is in that table, too; a commit of an
earlier writer changes nothing. So no lock is needed, and the file is open only while it is read or written: others may
use it in between; a connection to a server lasts as long. With ``key``, a row replaces the row that has the same values
in these columns.
"""

from __future__ import annotations

import abc
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import polars as pl

from synergy_nb.connectors._disk_errors import explained
from synergy_nb.dataflow.sinks.buffering import BufferedWriter, one_table
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch, empty
from synergy_nb.durable.disk import Disk
from synergy_nb.plan.terms.column_types import family

__all__ = ["DatabaseTable", "DuckTable", "SqliteTable", "listed", "quoted"]

_VERSION: Final = 1
_POSITIONS: Final = "synergy_positions"
_MADE: Final = (
    f"CREATE TABLE IF NOT EXISTS {_POSITIONS} "
    "(of_table TEXT PRIMARY KEY, version BIGINT, stream TEXT, position BIGINT, until BIGINT, writer BIGINT)"
)
_KNOWN: Final = f"SELECT version, stream, position, until, writer FROM {_POSITIONS} WHERE of_table = ?"  # noqa: S608
_BEGUN: Final = (
    f"INSERT INTO {_POSITIONS} VALUES (?, ?, ?, 0, ?, ?) ON CONFLICT (of_table) DO UPDATE SET version = "  # noqa: S608
    "excluded.version, stream = excluded.stream, position = 0, until = excluded.until, writer = excluded.writer"
)
_TAKEN: Final = f"UPDATE {_POSITIONS} SET writer = ? WHERE of_table = ?"  # noqa: S608
_NOTED: Final = f"UPDATE {_POSITIONS} SET stream = ?, position = ?, until = ? WHERE of_table = ?"  # noqa: S608
_START: Final = -(2**63)  # of a stream of which nothing is there


class DatabaseTable(BufferedWriter):
    """Writes a stream to a table of a database."""

    def __init__(
        self,
        where: str,  # the database, for errors
        to: Mapping[str, Any],
        columns: Mapping[str, str],  # columns of the stream, with their types
        # what the rows are, and what those before them may be: rows of other streams are not mixed with them
        streams: Sequence[str],
    ) -> None:
        super().__init__()
        self._name = str(to["table"])
        self._what = f"{where}: table {self._name!r}"
        self._key: list[str] = to.get("key", [])
        self._columns = columns
        self._empty = empty(columns)
        self._stream = streams[0]
        self._streams = streams
        self._writer = -1  # number of this writer
        self._committed: Point | None = None

    def _begin(self) -> tuple[int, int] | None:
        """Return how far the table has the stream; from now on no earlier writer can commit."""
        with self._transaction() as database:
            database.execute(_MADE)
            known = database.execute(_KNOWN, [self._name]).fetchone()
            if known is None:
                self._make(database, 0)
                return None
            version, stream, *point, writer = known
            if version != _VERSION:
                raise SinkFailed(f"{self._what}: format {version}; expected format {_VERSION}")
            if stream not in self._streams:
                raise SinkFailed(
                    f"{self._what}: it has rows of {stream}; expected rows of {self._stream}, or a new table"
                )
            if not self._columns_of(database):  # it was dropped
                self._make(database, writer + 1)
                return None
            self._writer = writer + 1
            database.execute(_TAKEN, [self._writer, self._name])
            self._committed = Point(*point)
        return self._committed

    def _make(self, database: Any, writer: int) -> None:
        """Make the table, unless somebody has made it with these columns."""
        have = self._columns_of(database)
        lacking = [name for name in self._columns if name not in have] if have else []
        if lacking:
            raise SinkFailed(f"{self._what}: it has no column {lacking[0]!r}; expected {', '.join(self._columns)}")
        if not have:
            fields = [f"{quoted(name)} {kind}" for name, kind in self._types(database).items()]
            if self._key:
                fields.append(f"PRIMARY KEY ({listed(self._key)})")
            database.execute(f"CREATE TABLE {quoted(self._name)} ({', '.join(fields)})")
        database.execute(_BEGUN, [self._name, _VERSION, self._stream, _START, writer])
        self._writer, self._committed = writer, None

    def _carry_out(self, batches: Sequence[Batch], point: Point) -> None:
        """Write rows, and how far the table has the stream, by one transaction."""
        if not batches and point == self._committed:
            return
        rows = one_table(batches, self._columns)
        if self._key:
            rows = rows.unique(self._key, keep="last", maintain_order=True)
        with self._transaction() as database:
            known = database.execute(_KNOWN, [self._name]).fetchone()
            if known is None:
                raise SinkFailed(f"{self._what}: its positions were removed; expected that they stay")
            if known[-1] != self._writer:
                raise SinkUnavailable(f"{self._what}: another writer writes to it")
            database.execute(_NOTED, [self._stream, *point, self._name])
            if rows.height:
                self._insert(database, rows)
        self._committed = point

    def _upsert(self) -> str:
        """What happens to a row whose key is there."""
        rest = [name for name in self._columns if name not in self._key]
        if not self._key:
            return ""
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in rest)
        return f" ON CONFLICT ({listed(self._key)}) DO " + (f"UPDATE SET {changes}" if rest else "NOTHING")

    @abc.abstractmethod
    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Open the database for one transaction, and say what its errors mean."""

    @abc.abstractmethod
    def _columns_of(self, database: Any) -> list[str]:
        """Columns of the table; none if it is not there."""

    @abc.abstractmethod
    def _types(self, database: Any) -> dict[str, str]:
        """Column to type, as the database calls it."""

    @abc.abstractmethod
    def _insert(self, database: Any, rows: pl.DataFrame) -> None:
        """Insert rows into the table."""

    def _failed(self, error: Exception, *, passes: bool) -> Exception:
        said = f"{self._what}: {str(error).splitlines()[0]}"
        if passes:
            return SinkUnavailable(said)
        keyless = self._key and "conflict" in said.casefold()  # "does not match any constraint", in both databases
        expected = f"has a primary key of {', '.join(self._key)}" if keyless else "takes these rows"
        return SinkFailed(f"{said}; expected a table that {expected}")


class _FileTable(DatabaseTable):
    """Writes a stream to a table of a file."""

    FORM: ClassVar[str]  # what wrote the file
    MARK: ClassVar[bytes]  # what such a file has near its beginning
    AT: ClassVar[int]  # and at which byte

    def __init__(self, to: Mapping[str, Any], columns: Mapping[str, str], streams: Sequence[str]) -> None:
        self._path = Path(to["path"])
        super().__init__(repr(str(self._path)), to, columns, streams)

    def _begin(self) -> tuple[int, int] | None:
        with explained(self._path):
            Disk().make_folder(self._path.parent)
            if self._path.is_file() and (first := self._first_bytes()) and first[self.AT :] != self.MARK:
                raise SinkFailed(f"{str(self._path)!r}: it holds something else; expected a file of {self.FORM}")
        return super()._begin()

    def _first_bytes(self) -> bytes:
        """First bytes of the file, to the end of its mark."""
        with self._path.open("rb") as file:
            return file.read(self.AT + len(self.MARK))

    def _carry_out(self, batches: Sequence[Batch], point: Point) -> None:
        if not self._path.exists():
            raise SinkFailed(f"{str(self._path)!r}: it was removed while it was written; expected that it stays")
        super()._carry_out(batches, point)


class SqliteTable(_FileTable):
    """A table of SQLite: times and dates are text, as its functions take them, and decimals are text, too."""

    FORM, MARK, AT = "SQLite", b"SQLite format 3\0", 0

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        try:
            with closing(sqlite3.connect(self._path, timeout=0.1, isolation_level=None)) as database:
                database.execute("PRAGMA synchronous = FULL")
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            passing = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
            raise self._failed(error, passes=code in passing) from None

    def _columns_of(self, database: Any) -> list[str]:
        return [row[1] for row in database.execute(f"PRAGMA table_info({quoted(self._name)})")]

    def _types(self, database: Any) -> dict[str, str]:
        names = {"int": "INTEGER", "bool": "INTEGER", "float": "REAL", "bytes": "BLOB"}
        return {name: names.get(family(kind), "TEXT") for name, kind in self._columns.items()}

    def _insert(self, database: Any, rows: pl.DataFrame) -> None:
        given = rows.with_columns(
            pl.col(pl.Datetime).dt.to_string("%Y-%m-%d %H:%M:%S%.6f"), pl.col(pl.Date).dt.to_string("%Y-%m-%d"),
            pl.col(pl.Decimal).cast(pl.String),
        )  # fmt: skip
        places = ", ".join("?" * rows.width)
        into = f"INSERT INTO {quoted(self._name)} ({listed(rows.columns)}) VALUES ({places}){self._upsert()}"  # noqa: S608
        database.executemany(into, given.rows())


class DuckTable(_FileTable):
    """A table of DuckDB, with the types that it has for Arrow's."""

    FORM, MARK, AT = "DuckDB", b"DUCK", 8

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        import duckdb  # noqa: PLC0415 - only such a file needs it

        try:
            with closing(duckdb.connect(str(self._path), config={"enable_external_access": "false"})) as database:
                database.execute("BEGIN")
                yield database
                database.execute("COMMIT")
        except (duckdb.TransactionException, duckdb.ConnectionException) as error:
            raise self._failed(error, passes=True) from None
        except duckdb.IOException as error:
            said = str(error).lower()
            raise self._failed(error, passes="lock" in said or "space" in said) from None
        except duckdb.Error as error:
            raise self._failed(error, passes=False) from None

    def _columns_of(self, database: Any) -> list[str]:
        found = database.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = ?", [self._name])
        return [name for (name,) in found.fetchall()]

    def _types(self, database: Any) -> dict[str, str]:
        database.register("synergy_rows", self._empty.to_arrow())
        return dict(database.execute("SELECT column_name, column_type FROM (DESCRIBE synergy_rows)").fetchall())

    def _insert(self, database: Any, rows: pl.DataFrame) -> None:
        database.register("synergy_rows", rows.to_arrow())
        names = listed(rows.columns)
        into = f"INSERT INTO {quoted(self._name)} ({names}) SELECT {names} FROM synergy_rows{self._upsert()}"  # noqa: S608
        database.execute(into)


def quoted(name: str) -> str:
    """Name of a table or a column, as statements have it."""
    return '"' + name.replace('"', '""') + '"'


def listed(names: Sequence[str]) -> str:
    """Names of columns, as statements have them."""
    return ", ".join(map(quoted, names))
