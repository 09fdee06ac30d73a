"""Sources of users, read as an iterator: from the position that the latest poll has given, also after a break."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl
import pytest

from synergy_nb.dataflow import sources
from synergy_nb.dataflow.sources import BrokenForNow, Polled, Source, longer


class Fragile(Source):
    """Rows 0 to 5, two at a poll; it breaks before each poll, and each opening, of which that is told."""

    def __init__(self, *breaks: str) -> None:
        self.breaks = list(breaks)
        self.calls: list[Any] = []
        self.next = -1

    def _break(self, place: str) -> None:
        if self.breaks and self.breaks[0] == place:
            raise BrokenForNow(self.breaks.pop(0))

    def open(self, position: Any) -> None:
        self.calls.append(("open", position))
        self._break(f"open {position}")
        self.next = position or 0

    def poll(self, seconds: float) -> Polled | None:
        assert seconds > 0.0
        self._break(f"poll {self.next}")
        if self.breaks[:1] == ["nothing"]:
            self.breaks.pop(0)
            return None
        first, self.next = self.next, self.next + 2
        table = pl.DataFrame({"n": [first, first + 1]})
        rows = table if first == 2 else table.to_dicts()
        return Polled(rows, position=self.next, ends=self.next == 6)

    def close(self) -> None:
        self.calls.append("close")
        self.next = -1


ONCE = [("open", None), "close"]
AGAIN = [("open", 2), "close"]
CASES: dict[tuple[str, ...], list[Any]] = {
    (): ONCE,
    ("nothing",): ONCE,
    ("open None",): [*ONCE, *ONCE],
    ("poll 2",): [*ONCE, *AGAIN],
    ("poll 2", "open 2", "nothing", "poll 4"): [*ONCE, *AGAIN, *AGAIN, ("open", 4), "close"],
}  # fmt: skip


@pytest.mark.parametrize("breaks", CASES)
def test_a_source_that_breaks_is_opened_where_it_was(breaks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "FIRST_WAIT_S", 0.0)
    made = Fragile(*breaks)
    rows: list[int] = []
    for each in itertools.islice(made, 10):
        rows += each["n"].to_list() if isinstance(each, pl.DataFrame) else [each["n"]]
    assert rows == list(range(6))
    assert made.calls == CASES[breaks]


def test_the_time_until_the_next_try_doubles_up_to_half_a_minute() -> None:
    waits = [sources.FIRST_WAIT_S]
    while len(waits) < 11:
        waits.append(longer(waits[-1]))
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])
