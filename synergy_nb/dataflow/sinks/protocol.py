"""The protocol of a sink to the outside: what writes the results of a stream, and knows how far it has got.

Theory of operation
-------------------
A sink with a destination is a reader of a stream. Its durable point is what the destination has committed, and that
point is stored with the data: in the same file, or by the same transaction. So neither is ever there without the other,
and whoever writes next (the same peer after an error, the peer that takes over, the next run of a plan) asks the
destination for its point (:meth:`SinkWriter.open`), and goes on from there.

``docs/sinks.md`` describes the protocol for people who write one.
"""

from __future__ import annotations

import abc
from typing import ClassVar

from synergy_nb.dataflow.streams.log.values import Point
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.errors import SynergyError

__all__ = ["SinkFailed", "SinkUnavailable", "SinkWriter"]


class SinkUnavailable(SynergyError, OSError):
    """The destination of a sink cannot be written to at present: it is retried until it can.

    Examples
    --------
    >>> from synergy_nb import SinkUnavailable
    >>> raise SinkUnavailable("shop.sqlite: database is locked")
    Traceback (most recent call last):
        ...
    synergy_nb.dataflow.sinks.protocol.SinkUnavailable: shop.sqlite: database is locked
    """


class SinkFailed(SynergyError, ValueError):
    """The destination of a sink can never be written to: the application fails, and the error names the sink.

    Examples
    --------
    >>> from synergy_nb import SinkFailed
    >>> raise SinkFailed("shop.sqlite: column 'v' is missing; expected one of type INTEGER")
    Traceback (most recent call last):
        ...
    synergy_nb.dataflow.sinks.protocol.SinkFailed: shop.sqlite: column 'v' is missing; expected one of type INTEGER
    """


class SinkWriter(abc.ABC):
    """Writes the rows of one stream to a destination.

    It is used from one thread at a time, and not from that of an event loop: it may block. Each method may raise
    :class:`SinkUnavailable`, after which :meth:`open` is called again and what was not committed is written again; or
    :class:`SinkFailed`, after which only :meth:`close` is called.

    Attributes
    ----------
    remembers
        Whether :meth:`open` returns the point of the last commit. If not, rows whose commit was interrupted come again,
        and so do all rows of a later run: each row is there at least once.

    Examples
    --------
    >>> from synergy_nb import SinkWriter
    >>> class Rows(SinkWriter):
    ...     def __init__(self, place):  # a list that outlives the writer
    ...         self.place, self.waiting = place, []
    ...
    ...     def open(self):
    ...         self.waiting.clear()
    ...         return self.place[-1][1] if self.place else None
    ...
    ...     def write(self, batch):
    ...         self.waiting += batch.table.to_dicts()
    ...
    ...     def commit(self, point):
    ...         self.place.append((list(self.waiting), point))  # both or neither
    ...         self.waiting.clear()
    """

    remembers: ClassVar[bool] = True

    @abc.abstractmethod
    def open(self) -> tuple[int, int] | None:
        """Begin to write.

        What was written and not committed, by this writer or by an earlier one, is discarded. From here on no other
        writer can write to the destination. May be called again, to begin once more.

        Returns
        -------
        tuple or None
            Point up to which the destination has the stream, as :meth:`commit` was given it, or with an earlier time
            where no rows were committed with it; None if it has nothing of the stream yet, or does not remember.

        Raises
        ------
        SinkUnavailable
            If another writer writes to it, or it cannot be reached.
        SinkFailed
            If it holds something else than this stream, or must not be written to.
        """

    @abc.abstractmethod
    def write(self, batch: Batch) -> None:
        """Take rows.

        Parameters
        ----------
        batch
            Rows as a Polars table, ``batch.table``, of which the first is at ``batch.position`` of the stream: where
            the ones before them have ended.
        """

    @abc.abstractmethod
    def commit(self, point: Point) -> None:
        """Make durable all rows that were written, together with the point where they end: both or neither.

        Once it has returned, :meth:`open` returns this point, whatever happens. Without new rows, and with a point
        that is committed already, it does nothing.

        Parameters
        ----------
        point
            Number of the rows before it, and a time: a pair of integers of 64 bits.
        """

    def close(self) -> None:  # noqa: B027 - many have nothing to release
        """Release the destination; what was not committed is discarded. May be called again, and never raises."""
