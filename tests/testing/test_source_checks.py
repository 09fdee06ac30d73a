"""The contract of sources finds what breaks it, with the position and the row."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import polars as pl
import pytest

from synergy_nb import BrokenForNow, Polled, Source
from synergy_nb.testing import _source_checks, check_source

ROWS = [{"time": n, "n": n} for n in range(6)]


class Listed(Source):
    """Right: two rows at a time, and nothing between them."""

    repeats = True

    def open(self, position: Any) -> None:
        self.at = position or 0
        self.silent = False

    def poll(self, seconds: float) -> Polled | None:
        self.silent = not self.silent
        if self.silent:
            return None
        rows = ROWS[self.at : self.at + 2]
        self.at += len(rows)
        return Polled(rows, self.at, ends=not rows)


class Endless(Listed):
    def poll(self, seconds: float) -> Polled | None:
        polled = super().poll(seconds)
        return None if polled is None or polled.ends else polled


def test_a_source_that_keeps_the_protocol_passes() -> None:
    check_source(Listed)
    check_source(Listed, ROWS)
    check_source(Endless, ROWS)
    assert [row["n"] for row in Listed()] == list(range(6))


class Behind(Listed):
    def open(self, position: Any) -> None:
        super().open(max((position or 0) - 1, 0))


class Ahead(Listed):
    def open(self, position: Any) -> None:
        super().open(0 if position is None else position + 1)


class Shared(Listed):
    place: ClassVar[list[int]] = [0]

    def open(self, position: Any) -> None:
        super().open(self.place[0])

    def poll(self, seconds: float) -> Polled | None:
        polled = super().poll(seconds)
        self.place[0] = self.at
        return polled


class Objects(Listed):
    def poll(self, seconds: float) -> Polled | None:
        polled = super().poll(seconds)
        return None if polled is None else polled._replace(position=object())


class Behindhand(Listed):
    """Does not end if it is opened at its end."""

    def poll(self, seconds: float) -> Polled | None:
        self.at += 1
        return Polled([{"time": self.at, "n": self.at}], self.at, ends=self.at == 6)


class Rash(Listed):
    """Promises a time, and gives a row before it."""

    def poll(self, seconds: float) -> Polled | None:
        polled = super().poll(seconds)
        return None if polled is None else polled._replace(until=5_000_000)


class Bare(Listed):
    def poll(self, seconds: float) -> Any:
        return ROWS


class Forgetful(Listed):
    def open(self, position: Any) -> None:
        if position is None and hasattr(self, "at"):
            return
        super().open(position)


@pytest.mark.parametrize(
    ("kind", "rows", "expected"),
    [
        (
            Behind,
            None,
            "opened at the position 2, after row 2: row 0: {'time': 1, 'n': 1}; expected {'time': 2,",
        ),
        (
            Ahead,
            None,
            "opened at the position 2, after row 2: row 0: {'time': 3, 'n': 3}; expected {'time': 2,",
        ),
        (Shared, None, "a new instance opened at the position 2, after row 2: row 0: 'no more rows'"),
        (Objects, None, "expected a value that JSON has"),
        (
            Behindhand,
            None,
            "the position 6, after row 6: row 0: {'time': 7, 'n': 7}; expected 'no more rows'",
        ),
        (Rash, None, "until: row 2 is of 2, and 5000000 µs was promised after row 2; expected no earlier row"),
        (Bare, ROWS, "expected Polled(rows, position), or None for nothing yet"),
        (Endless, None, "it has not ended; expected an end, or the rows that it gives as rows=[...]"),
        (Listed, ROWS[:-1], "opened at its beginning: row 5: {'time': 5, 'n': 5}; expected 'no more rows'"),
        (Forgetful, None, "opened at its beginning again, as it says that it repeats: row 0: 'no more rows'"),
    ],
)
def test_what_breaks_the_protocol_is_named(kind: type[Source], rows: Any, expected: str) -> None:
    with pytest.raises(AssertionError) as raised:
        check_source(kind, rows)
    assert expected in str(raised.value)


def test_a_poll_that_waits_without_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_source_checks, "PATIENCE_S", 0.01)
    over = threading.Event()

    class Waiting(Listed):
        def poll(self, seconds: float) -> Polled | None:
            over.wait()
            return None

    with pytest.raises(AssertionError, match="expected a bounded wait"):
        check_source(Waiting)
    over.set()


class Broken(Listed):
    text = "GET /: 503"

    def poll(self, seconds: float) -> Polled | None:
        raise BrokenForNow(self.text)


class Mute(Broken):
    text = ""


class Wrong(Listed):
    def open(self, position: Any) -> None:
        raise ValueError("no table of this name")


def test_breaks_have_their_names() -> None:
    check_source(Listed, broken=Broken, wrong=Wrong)
    with pytest.raises(AssertionError, match="no table of this name; expected BrokenForNow"):
        check_source(Listed, broken=Wrong)
    with pytest.raises(AssertionError, match="can never be read: BrokenForNow: GET /: 503"):
        check_source(Listed, wrong=Broken)
    with pytest.raises(AssertionError, match="no text"):
        check_source(Listed, broken=Mute)
    with pytest.raises(AssertionError, match="it gives rows, or nothing"):
        check_source(Listed, broken=Listed)


class Divided(Listed):
    """Right: every second row is of every second reader."""

    def __init__(self) -> None:
        self.reader, self.readers = 0, 1

    def split(self, reader: int, readers: int) -> None:
        self.reader, self.readers = reader, readers

    def poll(self, seconds: float) -> Polled | None:
        polled = super().poll(seconds)
        if polled is None:
            return None
        own = [row for row in polled.rows if not isinstance(row, pl.Series) and row["n"] % self.readers == self.reader]
        return polled._replace(rows=own)


class Everything(Divided):
    def split(self, reader: int, readers: int) -> None: ...


class Nothing(Divided):
    def split(self, reader: int, readers: int) -> None:
        self.reader, self.readers = reader, readers + 1


class Unfaithful(Divided):
    """Opened at a position, it is the only reader."""

    def open(self, position: Any) -> None:
        super().open(position)
        if position is not None:
            self.reader, self.readers = 0, 1


class DividedEndless(Divided):
    def poll(self, seconds: float) -> Polled | None:
        polled = super().poll(seconds)
        return None if polled is None or polled.ends else polled


def test_each_row_is_of_one_reader_and_each_reader_keeps_the_protocol() -> None:
    check_source(Divided, readers=3)
    check_source(Divided, ROWS, readers=8)  # two of them have nothing
    check_source(DividedEndless, ROWS, readers=2)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Everything, "split into 2 readers: row {'time': 0, 'n': 0}: they have it 2 times; expected 1"),
        (Nothing, "split into 2 readers: row {'time': 2, 'n': 2}: they have it 0 times; expected 1"),
        (Unfaithful, "reader 1 of 2: source, a new instance opened at the position 2, after row 1: row 1"),
    ],
)
def test_what_divides_wrongly_fails(made: type[Source], said: str) -> None:
    with pytest.raises(AssertionError) as raised:
        check_source(made, readers=2)
    assert said in str(raised.value)


def test_a_source_that_does_not_divide_itself_says_so() -> None:
    with pytest.raises(ValueError, match="readers: 2; expected 1, as Listed has no method split"):
        check_source(Listed, readers=2)
    with pytest.raises(ValueError, match="readers: 0; expected an integer of at least 1"):
        check_source(Listed, readers=0)
