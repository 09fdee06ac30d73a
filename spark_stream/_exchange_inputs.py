"""The inputs of an exchange, by port: what they hold, and whether there is room for more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spark_stream._spool import Inlet, Offset, Spool
from spark_stream._staging import Files

if TYPE_CHECKING:
    import pyarrow as pa

    from synergy_nb.dataflow.streams.log.values import Point


class ExchangeInputs:
    """The inputs of one query: streams of peers, and files that Spark reads itself."""

    def __init__(self) -> None:
        self.inlets: list[Inlet] = []  # by port
        self.schemas: list[pa.Schema] = []  # by port
        self._told_full = False  # whether a peer was told that they are full, and has not been told of room since

    def attach(self, inlet: Inlet, schema: pa.Schema) -> int:
        """Add the input of the next port; return the number of the port."""
        self.inlets.append(inlet)
        self.schemas.append(schema)
        return len(self.inlets) - 1

    def spool(self, port: int) -> Spool:
        """Return an input from peers."""
        inlet = self.inlets[port]
        assert isinstance(inlet, Spool)
        return inlet

    def file_source(self, port: int) -> Files:
        """Return an input that Spark reads itself."""
        inlet = self.inlets[port]
        assert isinstance(inlet, Files)
        return inlet

    @property
    def spools(self) -> Iterator[Spool]:
        """Inputs from peers."""
        return (inlet for inlet in self.inlets if isinstance(inlet, Spool))

    @property
    def file_sources(self) -> list[Files]:
        """Inputs that Spark reads itself."""
        return [inlet for inlet in self.inlets if isinstance(inlet, Files)]

    @property
    def are_files(self) -> bool:
        """Whether Spark reads all of them itself."""
        return all(isinstance(inlet, Files) for inlet in self.inlets)

    @property
    def low(self) -> int:
        """Time in microseconds that all inputs have passed."""
        return min(inlet.low for inlet in self.inlets)

    @property
    def retained_bytes(self) -> int:
        """Bytes of items from peers that have not been committed."""
        return sum(spool.retained_bytes for spool in self.spools)

    @property
    def uncovered_bytes(self) -> int:
        """Bytes of rows that no punctuation covers yet."""
        return sum(spool.loose for spool in self.spools)

    @property
    def late(self) -> int:
        """Number of rows that arrived after a punctuation which had promised that none would follow."""
        return sum(spool.late for spool in self.spools)

    @property
    def committed(self) -> list[tuple[Offset, Point]]:
        """For each input from peers, the committed offset, and the position from which on it is still needed."""
        return [(spool.freed, spool.committed) for spool in self.spools]

    def tell_full(self) -> bool:
        """Tell whether they are full; if so, :meth:`take_room` says once when they are no longer."""
        full = any(spool.full for spool in self.spools)
        self._told_full = self._told_full or full
        return full

    def take_room(self) -> bool:
        """Return whether there is room again, and nobody has been told yet."""
        if not self._told_full or any(spool.full for spool in self.spools):
            return False
        self._told_full = False
        return True
