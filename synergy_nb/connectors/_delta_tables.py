"""A Delta table as the destination of a stream.

Theory of operation
-------------------
A commit of the table has files of rows, and in its transaction identifiers the point where they end: both or neither.
It is the next version after the one that the writer knows, or none: if somebody else has committed in between, the
commit fails, and the writer opens the table again, and reads the point there. So two writers never both write a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from synergy_nb.connectors._disk_errors import explained
from synergy_nb.dataflow.sinks.buffering import BufferedWriter, one_table
from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable
from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch, empty
from synergy_nb.durable.disk import Disk

__all__ = ["DeltaTable"]

_POSITION: Final = "synergy_nb position"
_UNTIL: Final = "synergy_nb until"
_OF: Final = "synergy_nb 1, rows of "  # the description of such a table, and its format


class DeltaTable(BufferedWriter):
    """Writes a stream to a Delta table."""

    def __init__(self, to: Mapping[str, Any], columns: Mapping[str, str], streams: Sequence[str]) -> None:
        """Raises ``SinkFailed`` if the package is not installed."""
        super().__init__()
        self._path = Path(to["path"])
        self._columns = columns
        self._description = _OF + streams[0]
        self._former = [_OF + each for each in streams[1:]]
        self._table: Any = None  # the version that is known
        self._committed: Point | None = None
        try:
            self._delta = import_module("deltalake")
        except ModuleNotFoundError:
            raise SinkFailed(
                "the package deltalake is not installed at this peer; expected `pip install synergy-nb[delta]`"
            ) from None

    def _begin(self) -> Point | None:
        """Return how far the table has the stream."""
        with self._explained():
            if not self._delta.DeltaTable.is_deltatable(str(self._path)):
                self._create()
            self._table = self._delta.DeltaTable(str(self._path))
            description = self._table.metadata().description or "something else"
            if description in self._former:  # from here on the rows of another stream follow
                self._table.alter.set_table_description(self._description)
                self._table.update_incremental()
            elif description != self._description:
                of = description.removeprefix(_OF)
                expected = f"rows of {self._description.removeprefix(_OF)}, or a new folder"
                raise SinkFailed(f"{str(self._path)!r}: it has rows of {of}; expected {expected}")
            position = self._table.transaction_version(_POSITION)
            self._committed = None if position is None else Point(position, self._table.transaction_version(_UNTIL))
        return self._committed

    def _create(self) -> None:
        """Begin a table in a folder of its own."""
        Disk().make_folder(self._path)
        others = sorted(each.name for each in self._path.iterdir() if each.name != "_delta_log")
        if others:
            raise SinkFailed(f"{str(self._path)!r}: it has {others[0]!r}; expected a folder of its own, which is empty")
        self._delta.DeltaTable.create(
            str(self._path), empty(self._columns).to_arrow().schema, description=self._description
        )

    def _carry_out(self, batches: Sequence[Batch], point: Point) -> None:
        """Add a version with rows, and with the point where they end."""
        if not batches and point == self._committed:
            return
        rows = one_table(batches, self._columns)
        transaction = self._delta.Transaction
        noted = [transaction(_POSITION, point.position), transaction(_UNTIL, point.until)]
        properties = self._delta.CommitProperties(app_transactions=noted, max_commit_retries=0)
        with self._explained():
            if not self._path.is_dir():
                raise SinkFailed(f"{str(self._path)!r}: it was removed while it was written; expected that it stays")
            table, self._table = self._table, None
            if table is None:
                raise SinkUnavailable(f"{str(self._path)!r}: its version is not known")
            self._delta.write_deltalake(table, rows.to_arrow(), mode="append", commit_properties=properties)
            self._table = table
        self._committed = point

    @contextmanager
    def _explained(self) -> Iterator[None]:
        errors = self._delta.exceptions
        try:
            with explained(self._path):
                yield
        except errors.CommitFailedError:
            raise SinkUnavailable(f"{str(self._path)!r}: another writer has written to it") from None
        except (errors.DeltaError, errors.SchemaMismatchError) as error:
            said = str(error).splitlines()[0]
            raise SinkFailed(f"{str(self._path)!r}: {said}; expected a Delta table that takes these rows") from None
