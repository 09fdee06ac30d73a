"""A page of the web that is asked for again and again.

Theory of operation
-------------------
Each answer that differs from the one before is the next rows. With ``by``, a column that grows, only rows with a
greater value than any before are new. The position is that value, and a hash of the answer: a successor leaves out
what is known, and what the page still has of the time between is there. Without ``by``, an answer that has rows that
are known beside new ones has them again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import polars as pl

from synergy_nb.connectors._addresses import WebRequest, secret_headers
from synergy_nb.connectors.secret_values import Secrets
from synergy_nb.dataflow.sources import Polled, Source
from synergy_nb.traces.line_tables import LineTables

MOST_BYTES: Final = 64 << 20  # of an answer


class PageSource(Source):
    """The rows of a page that is polled."""

    def __init__(self, params: Mapping[str, Any], schema: Mapping[str, str], secrets: Secrets) -> None:
        self._url = params["url"]
        self._headers: Mapping[str, str] = params.get("headers", {})
        self._secrets = secrets
        self._params = params
        self._every = float(params["every"])
        by, clock = params.get("by"), params.get("time", "time")
        self._by: str | None = "time" if by == clock else by  # as it is called in the stream
        self._rows_in = params.get("rows_in")
        self._lines = LineTables(self._url, schema, params)
        self._due = 0.0  # time of the clock at which it is asked for
        self._last: Any = None  # greatest value of the column that grows
        self._known = ""  # hash of the last answer
        self._tag = ""  # what the server calls it

    def open(self, position: Any) -> None:
        """Leave out the rows up to a position."""
        self._last, self._known = position or (None, "")
        self._due, self._tag = 0.0, ""

    def poll(self, seconds: float) -> Polled | None:
        """Ask for the page if it is time to; return its new rows."""
        now = time.monotonic()
        if now < self._due:
            return None
        self._due = now + self._every
        headers = {"Accept": "*/*", **secret_headers(self._headers, self._secrets)}
        headers |= {"If-None-Match": self._tag} if self._tag else {}
        request = WebRequest(self._secrets.fill_url(self._url), self._url, headers)
        try:
            if request.answer.status == 304:
                return None
            body = request.read(MOST_BYTES)
            tag = request.answer.headers.get("ETag", "")
        finally:
            request.close()
        known = hashlib.sha256(body).hexdigest()
        if known == self._known:
            return None
        table = self._new(self._table(body))
        self._known, self._tag = known, tag
        return Polled(table, [self._last, known], said=self._lines.said(), skipped=self._lines.skipped)

    def _table(self, body: bytes) -> pl.DataFrame:
        """Rows of an answer."""
        form = self._params["format"]
        self._lines.begin()
        if form == "json":
            return self._lines.of_values(self._values(body))
        start = 0
        if form == "csv":
            start = body.find(b"\n") + 1 or len(body)
            self._lines.headed_by(body[:start])
        return self._lines.take(body[start:], 2 if start else 1, last=True).table

    def _values(self, body: bytes) -> list[Any]:
        try:
            found = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{self._url}: {error}; expected JSON") from None
        for name in self._rows_in.split(".") if self._rows_in else ():
            if not isinstance(found, dict) or name not in found:
                has = ", ".join(found) if isinstance(found, dict) else type(found).__name__
                raise ValueError(f"{self._url}: rows_in: {self._rows_in!r}; expected one of {has}")
            found = found[name]
        return found if isinstance(found, list) else [found]

    def _new(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows of a table that are behind all before."""
        if self._by is None:
            return table
        values = table.get_column(self._by)
        numbers = values.to_physical()
        if self._last is not None:
            table = table.filter(numbers > self._last)
            numbers = table.get_column(self._by).to_physical()
        if table.height:
            table = table.with_columns(numbers.alias("__by")).sort("__by", maintain_order=True).drop("__by")
            self._last = max(numbers.max(), self._last) if self._last is not None else numbers.max()
        return table
