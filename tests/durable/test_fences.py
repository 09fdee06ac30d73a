"""Who reads the files of a component leaves a fence; who still writes them for an attempt that has ended stops."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator

from synergy_nb.durable.restoring import Restored, restored
from synergy_nb.durable.writing import CarriedOut, carry_out, fence
from tests.durable.durable_world import MemoryFiles
from tests.durable.kept_component import Kept, piece_of


class Turns:
    """The order in which a writer and a reader take their steps; what is left of it does not matter."""

    def __init__(self, order: Iterable[str]) -> None:
        self._order = deque(order)
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def step(self, who: str) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._order or self._order[0] == who)
            yield
            if self._order:
                self._order.popleft()
            self._changed.notify_all()

    def end(self, who: str) -> None:
        """The other one goes on alone."""
        with self._changed:
            self._order = deque(each for each in self._order if each != who)
            self._changed.notify_all()


class SharedFiles:
    """Files of which each use is a step of one of those who share them."""

    def __init__(self, files: MemoryFiles, turns: Turns, who: str) -> None:
        self._files, self._turns, self._who = files, turns, who
        self.steps = 0

    def _step(self) -> contextlib.AbstractContextManager[None]:
        self.steps += 1
        return self._turns.step(self._who)

    def names(self) -> list[str]:
        with self._step():
            return self._files.names()

    def read(self, name: str) -> bytes:
        with self._step():
            return self._files.read(name)

    def append(self, name: str, data: bytes) -> None:
        with self._step():
            self._files.append(name, data)

    def sync(self) -> None:
        with self._step():
            self._files.sync()

    def remove(self, name: str) -> None:
        with self._step():
            self._files.remove(name)


def saved_again() -> Kept:
    """A component that was taken over and is saved for the second time; that is not written yet, and removes much."""
    first = Kept()
    first.begin()
    first.emit(3)
    kept = Kept(1, first.end, first.files)
    kept.begin()
    for number in range(2):
        kept.held_back = None if not number else []
        for _ in range(3):
            kept.emit(20, trimmed=kept.end)
        piece = piece_of(number, 400)
        kept.save(number, (piece,), (piece,))
    return kept


def shared(order: Iterable[str]) -> tuple[bool, Restored, int, int]:
    """Whether what is written is answered, what is found, and how many steps the writer and the reader take."""
    kept, turns = saved_again(), Turns(order)
    mine, theirs = SharedFiles(kept.files, turns, "w"), SharedFiles(kept.files, turns, "r")
    found: list[CarriedOut] = []

    def write() -> None:
        try:
            found.append(carry_out(mine, kept.held_back or []))
        finally:
            turns.end("w")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        fence(theirs, {"f": 2})
        there = restored(theirs, "f")
    finally:
        turns.end("r")
        thread.join()
    assert there is not None
    assert kept.held_back
    return not kept.held_back[-1].outdated_by(found[0].fences), there, mine.steps, theirs.steps


def test_what_is_written_while_somebody_else_reads_it_is_found_or_not_answered() -> None:
    _, there, writes, reads = shared("w" * 99)
    end = there.copy.log.end
    met = set[bool]()
    for begun in range(0, writes + 1, 2):
        for read in range(1, reads + 1):
            for more in (0, 3, writes):
                answered, there, *_ = shared("w" * begun + "r" * read + "w" * more + "r" * reads)
                assert there.copy.state is not None
                assert not answered or (there.copy.state.number, there.copy.log.end) == (1, end)
                met.add(answered)
    assert met == {True, False}
