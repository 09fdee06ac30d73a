"""Rows of a query to a PostgreSQL server, by its driver of ADBC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from synergy_nb.connectors._addresses import PATIENCE_S
from synergy_nb.connectors._extras import imported
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import BrokenForNow

__all__ = ["PostgresServer"]

_PASSES: Final = ("08", "40", "53", "55", "57")  # classes of errors that pass: connections, conflicts, resources, ends
#: What a server says that will let others in later.
_BUSY: Final = ("starting up", "shutting down", "recovery", "too many", "remaining connection slots")


class PostgresServer:
    """A database of a server. A connection lasts for one query, which cannot write."""

    marker: Final = "$1"  # what stands for a value in a query

    def __init__(self, params: Mapping[str, Any], secrets: Secrets) -> None:
        account = quote(params.get("user") or "", safe="")
        if (password := params.get("password")) is not None:
            account += f":{quote(secrets.value(password), safe='')}"
        database = params.get("database") or ""
        self.name = f"{params['server']}/{database}"
        options = {
            "options": "-c default_transaction_read_only=on",
            "connect_timeout": f"{PATIENCE_S:.0f}",
            "sslmode": "verify-full" if params.get("tls") else "prefer",
            **({"sslrootcert": "system"} if params.get("tls") else {}),
        }
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
        at = f"{account}@" if account else ""
        self._url = f"postgresql://{at}{params['server']}/{quote(database, safe='')}?{query}"

    def read(self, query: str, values: Sequence[Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns, and the rows."""
        driver = imported("adbc_driver_postgresql.dbapi", "postgresql")
        try:
            connection = driver.connect(self._url)
        except driver.Error as error:
            said = _said(error)
            if "FATAL" in said and not any(each in said for each in _BUSY):
                raise ValueError(f"{self.name}: {said}; expected a database that may be read") from None
            if "SSL" in said or "certificate" in said:
                raise ValueError(f"{self.name}: {said}; expected a server with a certificate that is trusted") from None
            raise BrokenForNow(f"{self.name}: {said}") from None
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(query, values or None)
                return [each[0] for each in cursor.description], cursor.fetchall()
        except driver.Error as error:
            state = error.sqlstate
            if state is None or state[:2] in _PASSES:
                raise BrokenForNow(f"{self.name}: {_said(error)}") from None
            raise ValueError(f"{self.name}: query: {_said(error)}; expected a query to this database") from None


def _said(error: Exception) -> str:
    """The line of an error that says what is wrong."""
    line = str(error).strip().splitlines()[0]
    for mark in ("FATAL: ", "ERROR: ", "Failed to connect: "):
        if mark in line:
            return f"{'FATAL: ' if mark == 'FATAL: ' else ''}{line.partition(mark)[2].strip()}"
    return line
