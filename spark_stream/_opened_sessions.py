"""A session on Spark for one job: on a server of its own, which starts meanwhile, or on one that the caller names."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from spark_stream.address import parse_url
from spark_stream.server import Endpoint, Server

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

__all__ = ["OpenedSession", "is_here"]

_HERE = ("localhost", "127.0.0.1", "::1", "[::1]")


def is_here(spark: str | Endpoint | SparkSession | None) -> bool:
    """Whether a server is on this machine, and so reads its files; None: one of our own.

    Raises ``ValueError`` if a URL is invalid.

    >>> is_here("sc://spark.example.org"), is_here("unix:///tmp/connect"), is_here(None)
    (False, True, True)
    """
    if spark is None:
        return True
    if isinstance(spark, str | Endpoint):
        address = parse_url(spark if isinstance(spark, str) else spark.url)
        return bool(address.socket) or address.host in _HERE
    return spark.client.host in _HERE  # that of a socket is localhost


class OpenedSession:
    """A session, opened when it is needed first; what was started for it ends with the context.

    ``spark``: endpoint or URL of a server; a session, which stays open; or None: a server of our own. ``brief``:
    whether Java itself has little to execute on that, see :class:`.Server`.
    """

    def __init__(self, spark: str | Endpoint | SparkSession | None, *, brief: bool = False) -> None:
        self._spark = spark
        self._brief = brief
        self._ends = contextlib.ExitStack()
        self._server: Server | None = None
        self._session: SparkSession | None = None

    def __enter__(self) -> OpenedSession:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    @property
    def is_ours(self) -> bool:
        """Whether nobody else uses the session."""
        return self._spark is None or isinstance(self._spark, str | Endpoint)

    def start(self) -> None:
        """Begin to start the server of our own, if there is to be one, without waiting for it."""
        if self._spark is None and self._server is None:
            self._server = self._ends.enter_context(Server(brief=self._brief))
            self._server.start()

    def session(self) -> SparkSession:
        """Return the session.

        Raises ``SparkUnavailable`` if no server can be started or reached.
        """
        from spark_stream.session import connect, disconnect  # noqa: PLC0415 - imports PySpark

        if self._session is not None:
            return self._session
        where = self._spark
        if where is None:
            self.start()
            assert self._server is not None
            where = self._server.ready()
        if isinstance(where, str | Endpoint):
            self._session = connect(where, timeout=60.0)
            self._ends.callback(disconnect, self._session)
        else:
            self._session = where
        return self._session
