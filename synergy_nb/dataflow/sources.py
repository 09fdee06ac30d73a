"""The protocol of sources that have positions of their own. No clock.

Theory of operation
-------------------
A :class:`Source` is polled by one thread. It is opened at a position, or at its beginning, and each poll gives the next
rows with the position *after* them, or nothing yet, or the end. A position is a JSON value: a byte in a file, an
offset of a log, the last key of a table. Whoever polls keeps the position beside the point of the stream that
the rows became (:class:`~synergy_nb.dataflow.streams.log.values.SourcePlace`). So after a death or a move another peer
opens the source at the last position that is known, skips the rows that are known beyond it, and goes on: each row is
in the stream once.

A source may break in two ways. :class:`BrokenForNow` says that the same may work later: the source is closed, and
opened again at the last position after a wait, which doubles from try to try. After any other exception the component
fails, with the text of the exception.

``docs/sources.md`` is the page for authors; :func:`synergy_nb.testing.check_source` asserts what is said here.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import polars as pl

from synergy_nb.errors import SynergyError
from synergy_nb.events import SkippedLines

__all__ = ["FIRST_WAIT_S", "LONGEST_WAIT_S", "BrokenForNow", "Polled", "Source", "longer"]

FIRST_WAIT_S: Final = 0.1  # seconds from the first break to the next try
LONGEST_WAIT_S: Final = 30.0  # longest time between two tries, seconds
POLL_S: Final = 0.5  # seconds of a poll while a source is iterated over

Rows: TypeAlias = pl.DataFrame | Sequence[Mapping[str, Any]]


class BrokenForNow(SynergyError, RuntimeError):
    """A source cannot be read at present, and may be read later; the text says what was tried, and what came of it.

    Examples
    --------
    >>> from synergy_nb import BrokenForNow
    >>> raise BrokenForNow("GET http://meter.local/now: 503 Service Unavailable")
    Traceback (most recent call last):
        ...
    synergy_nb.dataflow.sources.BrokenForNow: GET http://meter.local/now: 503 Service Unavailable
    """


class Polled(NamedTuple):
    """What a poll of a source has found.

    Parameters
    ----------
    rows
        Next rows in their order, maybe none: a Polars table, or dictionaries.
    position
        Position after these rows, a JSON value; None if the source has no positions.
    ends
        Whether no row follows these.
    said
        Sentences for the journal, for instance about lost rows.
    skipped
        Malformed lines that were left out since the source was opened; None if there are none.
    until
        Event time that no later row precedes, in microseconds since 1970, where the source knows more than that its
        rows come in order: windows up to it are closed, although no row has come. None: it promises no more.

    Examples
    --------
    >>> from synergy_nb import Polled
    >>> Polled([{"time": 1.5, "user": "ann"}], position=42).position
    42
    """

    rows: Rows = ()
    position: Any = None
    ends: bool = False
    said: tuple[str, ...] = ()
    skipped: SkippedLines | None = None
    until: int | None = None


class Source(abc.ABC):
    """A source with positions of its own, such as offsets, bytes or versions.

    Iterating over a source polls it to its end, so it can be the rows of a plan: ``source(MySource(), columns=...)``.

    Attributes
    ----------
    repeats
        Whether ``open(None)`` always begins with the first row of the stream, so that rows that are known can be
        skipped if no position is known.

    Examples
    --------
    >>> from synergy_nb import Polled, Source
    >>> class Numbers(Source):
    ...     repeats = True
    ...
    ...     def open(self, position):
    ...         self.next = position or 0
    ...
    ...     def poll(self, seconds):
    ...         self.next += 1
    ...         row = {"time": self.next, "n": self.next}
    ...         return Polled([row], position=self.next, ends=self.next == 3)
    >>> [row["n"] for row in Numbers()]
    [1, 2, 3]
    """

    repeats: ClassVar[bool] = False

    @abc.abstractmethod
    def open(self, position: Any) -> None:
        """Begin to read after a position that a poll has given, or at the beginning.

        Parameters
        ----------
        position
            Position that an earlier poll has given, perhaps one of another instance on another machine; None: the
            beginning, or the present if the source cannot go back.

        Raises
        ------
        BrokenForNow
            If it cannot be read at present.
        """

    @abc.abstractmethod
    def poll(self, seconds: float) -> Polled | None:
        """Return the next rows.

        Parameters
        ----------
        seconds
            Longest time that it may wait for rows, in seconds. It may return at once: the caller waits before it polls
            again.

        Returns
        -------
        Polled or None
            None: nothing yet.

        Raises
        ------
        BrokenForNow
            If it cannot be read at present.
        """

    def split(self, reader: int, readers: int) -> None:
        """Read only the partitions of one of several readers; it is called before :meth:`open`, once.

        Each partition has to be of exactly one reader, also one that is added later. So its reader should
        follow from its name or number and these two numbers alone: as ``partitions[reader::readers]`` if they never
        change. Then each position is that of one reader, and the rows of all readers are those of the source.

        Parameters
        ----------
        reader
            Number of the reader, from 0 on.
        readers
            Number of readers.

        Raises
        ------
        ValueError
            If the source has no partitions, as those that do not define it.
        """
        raise ValueError(f"readers: {readers}; expected 1, as {type(self).__name__} has no method split")

    def agree(self) -> None:  # noqa: B027 - most do so anyway
        """Give what other instances give that read the same; it is called before :meth:`open`, once.

        Several peers then read the source, and who reads their streams takes each row from the first that has it. So
        which rows it gives, and in which order, has to follow from what it reads, and not from when it does.
        """

    def close(self) -> None:  # noqa: B027 - many have nothing to release
        """Release what :meth:`open` has acquired, also after an error; it may be opened again."""

    def __iter__(self) -> Iterator[Any]:
        """Yield its rows, as dictionaries or tables as it gives them, from its beginning to its end."""
        pause, wait, position = threading.Event(), FIRST_WAIT_S, None
        while True:
            try:
                self.open(position)
                while True:
                    polled = self.poll(POLL_S)
                    wait = FIRST_WAIT_S
                    if polled is None:
                        pause.wait(FIRST_WAIT_S)
                        continue
                    position = polled.position
                    if isinstance(polled.rows, pl.DataFrame):
                        yield polled.rows
                    else:
                        yield from polled.rows
                    if polled.ends:
                        return
            except BrokenForNow:
                pause.wait(wait)
                wait = longer(wait)
            finally:
                self.close()


def longer(wait: float) -> float:
    """Return the time until the next try after one that failed, seconds.

    >>> longer(0.1), longer(20.0)
    (0.2, 30.0)
    """
    return min(2.0 * wait, LONGEST_WAIT_S)
