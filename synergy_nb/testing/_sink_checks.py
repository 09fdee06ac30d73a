"""Whether a sink keeps the protocol of sinks: whoever is killed before whichever line, each row is there once."""

from __future__ import annotations

import gc
import random
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final

import polars as pl

from synergy_nb.dataflow.sinks.protocol import SinkFailed, SinkUnavailable, SinkWriter
from synergy_nb.dataflow.sinks.writing import SinkReader, stated_point
from synergy_nb.dataflow.streams.log.values import ORIGIN, Chunk, Point, chunks_of
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.errors import user_facing

__all__ = ["check_sink"]

Row = dict[str, Any]
_SIZES: Final = (2, 1, 3)  # rows of the batches, each of which is committed; then as many again
_OTHER_SIZES: Final = (1, 4)  # whoever goes on has other batches
_ROWS: Final = 8
_ABSENT: Final = 4  # the row whose text is NULL
#: Where code is that is not the author's.
_OTHERS: Final = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {str(Path(__file__).parent), str(Path(__file__).parent.parent / "dataflow"), "<frozen"}
)


class _Killed(BaseException):
    """Stands for the end of the process: nothing handles it."""


@user_facing
def check_sink(
    make: Callable[[Path], SinkWriter],
    read: Callable[[Path], Sequence[Row] | pl.DataFrame],
    rows: pl.DataFrame | None = None,
    *,
    kills: int = 100,
    seed: int = 0,
) -> None:
    """Assert that a sink keeps the protocol of sinks.

    A stream is written undisturbed; then again and again, at a new place each time, by a writer that is killed before
    one of the lines of its code, by another one that is killed, too, and by a third one that goes on to the end. Each
    row has to be there once; or at least once, if the sink does not remember how far it has the stream. A killed writer
    is closed, as the system releases what a process has open.

    Parameters
    ----------
    make
        Function that returns a new writer of the destination at a place. The place is a folder that is empty at first;
        a sink that writes elsewhere uses its name.
    read
        Function that returns the rows of the destination at a place, as anybody would read them. They may lack columns.
    rows
        Rows that are written, with a column ``time``. By default eight, with the columns ``time``, ``v`` (integers that
        are all different) and ``text``, which is NULL in one of them.
    kills
        Greatest number of lines before which a writer is killed. If there are more, they are drawn.
    seed
        Seed of what is drawn.

    Raises
    ------
    AssertionError
        If it does not keep the protocol; the message says how.

    Examples
    --------
    >>> from synergy_nb import SinkWriter
    >>> class Rows(SinkWriter):
    ...     places = {}  # of each place, its rows and the last point
    ...
    ...     def __init__(self, place):
    ...         self.place, self.waiting = place, []
    ...
    ...     def open(self):
    ...         self.waiting = []
    ...         self.places.setdefault(self.place, ([], None))
    ...         self.mine = self.places[self.place] = (*self.places[self.place][:2], object())
    ...         return self.places[self.place][1]
    ...
    ...     def write(self, batch):
    ...         self.waiting += batch.table.to_dicts()
    ...
    ...     def commit(self, point):
    ...         rows, _, last = self.places[self.place]
    ...         if last is not self.mine[2]:
    ...             raise SinkUnavailable("another writer writes to it")
    ...         self.places[self.place] = (rows + self.waiting, point, last)  # both or neither
    ...         self.waiting = []
    >>> from synergy_nb import SinkUnavailable
    >>> check_sink(Rows, lambda place: Rows.places[place][0])
    """
    table = _default() if rows is None else rows
    chance = random.Random(seed)
    with TemporaryDirectory() as root, _failures_of_a_check():
        places = (_folder(Path(root) / str(number)) for number in count())
        check = _Check(make, read, table, chance)
        check.undisturbed(next(places))
        check.discards(next(places))
        check.excludes(next(places))
        lines = check.count_lines(next(places))
        chosen = range(lines) if lines <= kills else sorted(chance.sample(range(lines), kills))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # a process that is killed closes nothing
            held = [said for line in chosen if (said := check.killed(next(places), line, lines))]
            gc.collect()
        if len(held) > len(chosen) // 4:
            raise AssertionError(f"open, after a writer was killed and closed: {held[-1]}; expected that it can write")


class _Check:
    """The checks of one sink."""

    def __init__(
        self,
        make: Callable[[Path], SinkWriter],
        read: Callable[[Path], Sequence[Row] | pl.DataFrame],
        rows: pl.DataFrame,
        chance: random.Random,
    ) -> None:
        self._make = make
        self._read = read
        self._table = rows
        self._rows = rows.to_dicts()
        self._chance = chance

    def undisturbed(self, place: Path) -> None:
        """A stream is whole, is not written again, and its end is known to a new writer."""
        self._make(place).close()  # which was never opened
        writer = self._make(place)
        first = self._write(writer, self._stream(_SIZES))
        writer.commit(first.committed)  # which does nothing
        writer.close()
        writer.close()
        self._compare(place, "undisturbed")
        if not writer.remembers:
            return
        for again, how in ((self._make(place), "a new writer"), (writer, "the writer, closed before,")):
            self._opened(again, first.committed, how)
            again.close()
            self._write(again, self._stream(_OTHER_SIZES))
            again.close()
            self._compare(place, f"opened again by {how} which has nothing to write")

    def discards(self, place: Path) -> None:
        """What was written and not committed is not there, and nobody counts it."""
        chunks = self._stream(_SIZES)
        writer = self._make(place)
        writer.open()
        batch, point = chunks[0].item, chunks[0].end
        assert isinstance(batch, Batch)
        writer.write(batch)
        self._opened(writer, None, "the writer, opened again with rows that were not committed")
        writer.write(batch)
        writer.commit(point)
        rest = chunks[1].since(point.position).item
        assert isinstance(rest, Batch)
        writer.write(rest)
        writer.close()
        other = self._make(place)
        self._opened(other, point, "a new writer, after a close with rows that were not committed")
        other.close()
        self._compare(place, "closed with rows that were not committed", upto=point.position)

    def excludes(self, place: Path) -> None:
        """Two writers never both commit the same rows."""
        one, other = self._make(place), self._make(place)
        if not one.remembers:
            return
        chunks = self._stream(_SIZES)
        batch = chunks[0].item
        assert isinstance(batch, Batch)
        one.open()
        try:
            other.open()
        except SinkUnavailable:
            pass
        else:  # then only one of them may commit
            done = 0
            for writer in (one, other):
                with suppress(SinkUnavailable, SinkFailed):
                    writer.write(batch)
                    writer.commit(chunks[0].end)
                    done += 1
            if done == 2:
                raise AssertionError(
                    "open: a second writer is let in, and both commit; expected SinkUnavailable from one"
                )
        finally:
            one.close()
            other.close()

    def count_lines(self, place: Path) -> int:
        """Number of lines that a writer executes."""
        with _killing(None) as killer:
            writer = self._make(place)
            self._write(writer, self._stream(_SIZES))
        writer.close()
        return killer.lines

    def killed(self, place: Path, line: int, lines: int) -> str:
        """A writer is killed before a line, so is the next one, and the third one ends what they have begun.

        Returns why the next one could not write, as a lock that was taken and not yet kept outlasts a writer, and not a
        process; empty if it could.
        """
        start, where = ORIGIN, list[str]()
        for at, sizes in ((line, _SIZES), (self._chance.randrange(lines), _OTHER_SIZES), (None, _SIZES)):
            reader: SinkReader | None = None
            writer: SinkWriter | None = None
            with _killing(at) as killer:
                try:
                    writer = self._make(place)
                    reader = SinkReader(writer, "sink", every=0.0)
                    self._feed(reader, self._stream(sizes, start), start)
                except _Killed:
                    where.append(killer.where)
                except SinkUnavailable as error:
                    return str(error)
            if writer is not None:
                writer.close()
                if reader is not None and not writer.remembers:
                    start = max(start, reader.committed)
        self._compare(place, f"killed before {' and then before '.join(where)}")
        return ""

    def _write(self, writer: SinkWriter, chunks: Sequence[Chunk]) -> SinkReader:
        reader = SinkReader(writer, "sink", every=0.0)
        self._feed(reader, chunks, ORIGIN)
        return reader

    @staticmethod
    def _feed(reader: SinkReader, chunks: Sequence[Chunk], start: Point) -> None:
        reader.open(start)
        for chunk in chunks:
            reader.write([chunk], 0.0)
            if reader.must_commit(0.0):
                reader.commit()

    def _stream(self, sizes: Sequence[int], start: Point = ORIGIN) -> list[Chunk]:
        """The stream from a point on, in batches of such sizes."""
        items: list[Item] = []
        at, number = start.position, 0
        while at < self._table.height:
            size = sizes[number % len(sizes)]
            items.append(Batch(self._table.slice(at, size), at, 0.0))
            at, number = min(at + size, self._table.height), number + 1
        items.append(Punctuation(END, at, 0.0))
        return chunks_of(items, start)

    def _opened(self, writer: SinkWriter, expected: Point | None, how: str) -> None:
        found, most = stated_point("sink", writer.open()) or ORIGIN, expected or ORIGIN
        if writer.remembers and (found.position != most.position or (expected and found > expected)):
            raise AssertionError(f"open, {how}: {tuple(found)}; expected {tuple(most)}, as it was committed")

    def _compare(self, place: Path, how: str, upto: int | None = None) -> None:
        """Compare what is there with the rows that were committed."""
        found = self._read(place)
        there = found.to_dicts() if isinstance(found, pl.DataFrame) else [dict(row) for row in found]
        wanted = self._rows[:upto]
        names = list(there[0]) if there else list(self._rows[0])
        numbers = Counter(_shown(row, names) for row in there)
        expected = Counter(_shown(row, names) for row in wanted)
        repeats = not self._make(place).remembers
        for row, times in (expected | numbers).items():
            has, needs = numbers[row], expected[row]
            if has < needs or (has > needs and not (repeats and needs)):
                counted = "at least once" if repeats else f"{needs} times" if needs != 1 else "once"
                raise AssertionError(f"sink, {how}: row {row} is there {has} times; expected {counted} ({times})")


class _Killer:
    """Counts the lines of the author's code, and ends it before one of them."""

    def __init__(self, at: int | None) -> None:
        self.lines = 0
        self.where = ""  # function and line before which it was ended
        self._at = at

    def trace(self, frame: FrameType, event: str, _value: object) -> Callable[..., Any] | None:
        """Follow one frame, if it is the author's."""
        if frame.f_code.co_filename.startswith(_OTHERS):
            return None
        if event == "line":
            if self.lines == self._at:
                self.where = f"line {frame.f_lineno} of {Path(frame.f_code.co_filename).name} ({frame.f_code.co_name})"
                raise _Killed
            self.lines += 1
        return self.trace


@contextmanager
def _killing(at: int | None) -> Iterator[_Killer]:
    killer, before = _Killer(at), sys.gettrace()
    sys.settrace(killer.trace)
    try:
        yield killer
    finally:
        sys.settrace(before)


@contextmanager
def _failures_of_a_check() -> Iterator[None]:
    """A sink that is right never fails for good here, and states a point or nothing as it is opened."""
    try:
        yield
    except SinkFailed as error:
        raise AssertionError(str(error)) from None


def _shown(row: Row, names: Sequence[str]) -> str:
    return ", ".join(f"{name}={row[name]!r}" for name in names)


def _default() -> pl.DataFrame:
    times = pl.Series("time", [1_000_000 * number for number in range(_ROWS)]).cast(pl.Datetime("us"))
    numbers = pl.int_range(_ROWS)
    text = pl.when(numbers != _ABSENT).then(pl.format("{},\n", numbers))
    return pl.DataFrame([times]).with_columns(v=numbers, text=text)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
