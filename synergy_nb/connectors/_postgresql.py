"""A PostgreSQL server, by its driver of ADBC: rows of a query, and a table as the destination of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import polars as pl

from synergy_nb.connectors._addresses import PATIENCE_S
from synergy_nb.connectors._database_tables import DatabaseTable, listed, quoted
from synergy_nb.connectors._extras import imported
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.sources import BrokenForNow
from synergy_nb.plan.terms.column_types import family

__all__ = ["PostgresServer", "PostgresTable"]

_PASSES: Final = ("08", "40", "53", "55", "57")  # classes of errors that pass: connections, conflicts, resources, ends
LOCKED_MS: Final = 5000  # longest time for which a transaction waits for others, milliseconds
_ARRIVED: Final = "synergy_rows"  # temporary table with the rows of a commit
#: Types of columns, as the server calls them; others are text.
_TYPES: Final = {
    "int": "BIGINT",
    "float": "DOUBLE PRECISION",
    "bool": "BOOLEAN",
    "bytes": "BYTEA",
    "time": "TIMESTAMPTZ",
    "date": "DATE",
    "duration": "INTERVAL",
    "decimal": "NUMERIC",
}
#: What a server says that will let others in later.
_BUSY: Final = ("starting up", "shutting down", "recovery", "too many", "remaining connection slots")


class PostgresServer:
    """A database of a server. A connection lasts for one transaction."""

    marker: Final = "$1"  # what stands for a value in a query

    def __init__(self, params: Mapping[str, Any], secrets: Secrets, *, writes: bool = False) -> None:
        account = quote(params.get("user") or "", safe="")
        if (password := params.get("password")) is not None:
            account += f":{quote(secrets.value(password), safe='')}"
        database = params.get("database") or ""
        self.name = f"{params['server']}/{database}"
        options = {
            "options": f"-c lock_timeout={LOCKED_MS}" if writes else "-c default_transaction_read_only=on",
            "connect_timeout": f"{PATIENCE_S:.0f}",
            "sslmode": "verify-full" if params.get("tls") else "prefer",
            **({"sslrootcert": "system"} if params.get("tls") else {}),
        }
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
        at = f"{account}@" if account else ""
        self._url = f"postgresql://{at}{params['server']}/{quote(database, safe='')}?{query}"

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Connect, and disconnect.

        Raises ``BrokenForNow`` if nobody answers, or is busy; ``ValueError`` if the server refuses.
        """
        driver = imported("adbc_driver_postgresql.dbapi", "postgresql")
        try:
            connection = driver.connect(self._url)
        except driver.Error as error:
            said = _said(error)
            if "FATAL" in said and not any(each in said for each in _BUSY):
                raise ValueError(f"{self.name}: {said}; expected a database that may be used") from None
            if "SSL" in said or "certificate" in said:
                raise ValueError(f"{self.name}: {said}; expected a server with a certificate that is trusted") from None
            raise BrokenForNow(f"{self.name}: {said}") from None
        with connection:
            yield connection

    def read(self, query: str, values: Sequence[Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns, and the rows."""
        driver = imported("adbc_driver_postgresql.dbapi", "postgresql")
        with self.connected() as connection:
            try:
                with connection.cursor() as cursor:
                    cursor.execute(query, values or None)
                    return [each[0] for each in cursor.description], cursor.fetchall()
            except driver.Error as error:
                if _passes(error):
                    raise BrokenForNow(f"{self.name}: {_said(error)}") from None
                raise ValueError(f"{self.name}: query: {_said(error)}; expected a query to this database") from None


def _passes(error: Any) -> bool:
    """Whether the same may work later."""
    state = error.sqlstate
    return state is None or state[:2] in _PASSES


class _Cursor:
    """A cursor as the other databases have it, with question marks for values."""

    def __init__(self, cursor: Any) -> None:
        self.of_driver = cursor

    def execute(self, text: str, values: Sequence[Any] = ()) -> _Cursor:
        """Execute a statement."""
        for number in range(1, len(values) + 1):
            text = text.replace("?", f"${number}", 1)
        self.of_driver.execute(text, list(values) or None)
        return self

    def fetchone(self) -> Any:
        """The next row; None if there is none."""
        return self.of_driver.fetchone()


class PostgresTable(DatabaseTable):
    """Writes a stream to a table of a server."""

    def __init__(
        self, to: Mapping[str, Any], columns: Mapping[str, str], streams: Sequence[str], secrets: Secrets
    ) -> None:
        self._server = PostgresServer(to, secrets, writes=True)
        super().__init__(self._server.name, to, columns, streams)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        try:
            driver = imported("adbc_driver_postgresql.dbapi", "postgresql")
            with self._server.connected() as connection:
                try:
                    with connection.cursor() as cursor:
                        # writers of other tables wait, too, for as long as a commit takes; without a lock two writers
                        # could both find that they are the last one
                        cursor.execute("SELECT pg_advisory_xact_lock(7961)")
                        yield _Cursor(cursor)
                    connection.commit()
                except driver.Error as error:
                    raise self._failed(error, passes=_passes(error)) from None
        except BrokenForNow as error:
            raise SinkUnavailable(str(error)) from None
        except ValueError as error:
            if isinstance(error, SinkFailed):
                raise
            raise SinkFailed(str(error)) from None

    def _columns_of(self, database: Any) -> list[str]:
        found = database.execute(
            "SELECT attname::text FROM pg_attribute "
            "WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped",
            [quoted(self._name)],
        )
        return [name for (name,) in found.of_driver.fetchall()]

    def _types(self, database: Any) -> dict[str, str]:
        return {name: _TYPES.get(family(kind), "TEXT") for name, kind in self._columns.items()}

    def _insert(self, database: Any, rows: pl.DataFrame) -> None:
        given = rows.with_columns(pl.col(pl.Datetime).dt.replace_time_zone("UTC"), pl.col(pl.Decimal).cast(pl.String))
        database.of_driver.adbc_ingest(_ARRIVED, given.to_arrow(), mode="create", temporary=True)
        casts = [
            f"CAST({quoted(name)} AS NUMERIC)" if family(kind) == "decimal" else quoted(name)
            for name, kind in self._columns.items()
        ]
        into = f"INSERT INTO {quoted(self._name)} ({listed(list(self._columns))}) "
        database.execute(f"{into} SELECT {', '.join(casts)} FROM {_ARRIVED}{self._upsert()}")  # noqa: S608
        database.execute(f"DROP TABLE {_ARRIVED}")


def _said(error: Exception) -> str:
    """The line of an error that says what is wrong."""
    line = str(error).strip().splitlines()[0]
    for mark in ("FATAL: ", "ERROR: ", "Failed to connect: "):
        if mark in line:
            return f"{'FATAL: ' if mark == 'FATAL: ' else ''}{line.partition(mark)[2].strip()}"
    return line
