"""Who reads the files of a component leaves a fence; who still writes them for an attempt that has ended stops."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from synergy_nb.dataflow.deployments import FOLDER, Assignment, Deployment, Role
from synergy_nb.dataflow.streams.component._copy_holders import CopyHolders
from synergy_nb.dataflow.streams.log.frames import Ack, Data, Frame, Subscribe
from synergy_nb.dataflow.streams.log.log import LIMITS
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, Output, Reader, chunks_of
from synergy_nb.durable.component_files import fence_name, is_fence
from synergy_nb.durable.disk import Disk
from synergy_nb.durable.folder import DurableFolder, KeptApplication
from synergy_nb.durable.restoring import Restored, restored
from synergy_nb.durable.writing import CarriedOut, carry_out, fence
from synergy_nb.events import FolderBroken
from synergy_nb.runtime.data import _durable_copies
from synergy_nb.runtime.data._durable_copies import DurableCopies
from tests.connectors.broken_disk import FailingDisk
from tests.durable.durable_world import MemoryFiles
from tests.durable.kept_component import Kept, piece_of
from tests.streams.items import batch
from tests.waiting import run_loop, until


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

    def fences(self) -> dict[str, int]:
        with self._step():
            return self._files.fences()

    def sync_checkpoints(self) -> None:
        self._files.sync_checkpoints()

    def remove(self, *names: str) -> None:
        for name in names:
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
    for begun in range(6, writes + 1, 2):
        for read in range(1, reads + 3):  # there is more to read while it is being written
            for more in (3, writes):
                answered, there, *_ = shared("w" * begun + "r" * read + "w" * more + "r" * 99)
                assert there.copy.state is not None
                assert not answered or (there.copy.state.number, there.copy.log.end) == (1, end)
                met.add(answered)
    assert met == {True, False}


class OnePeer:
    """A peer with a durable folder, and what that tells it; ``component``: its component ``f``, if it executes it."""

    def __init__(self, path: Path, disk: Disk | None = None, component: Any = None) -> None:
        self.folder = DurableFolder(path, disk)
        self.heard: list[Frame] = []
        self.outdated: list[tuple[str, str, int]] = []
        self.converged: list[Deployment] = []
        self.broken: list[Any] = []
        loop, refused = asyncio.get_running_loop(), lambda *_: pytest.fail("it could be read")
        components = {} if component is None else {("app", "f"): component}
        hosting: Any = SimpleNamespace(
            peer="a", components=components, limits=LIMITS, roles=SimpleNamespace(copy=lambda _key: None)
        )
        self.copies = DurableCopies(
            self.folder, hosting, loop, loop.time, lambda *event, **fields: self.broken.append((event[0], fields)),
            self.heard.append, self.converged.append, refused, lambda *found: self.outdated.append(found),
        )  # fmt: skip

    def acks(self) -> int:
        return sum(isinstance(each, Ack) for each in self.heard)


def kept_folder(path: Path) -> DurableFolder:
    folder = DurableFolder(path)
    folder.prepare()
    folder.keep(KeptApplication("app", b"", "composed", 0.0), {})
    return folder


def on_loop(scenario: Callable[[], Any]) -> None:
    run_loop(scenario())


def test_who_is_late_is_not_answered_and_writes_no_more(tmp_path: Path) -> None:
    files, output, reader = kept_folder(tmp_path).files("app"), Output("app", "f", 0), Reader("app", "f", COPY, FOLDER)
    component = SimpleNamespace(
        role=Role.ACTIVE, copies={FOLDER: 0}, failed=False, output=output, epoch=0, external=False,
        copy_holders=CopyHolders((FOLDER,), (FOLDER,)),
    )  # fmt: skip
    deployment = Deployment("app", 1, {"f": Assignment("a", 0, (FOLDER,))})

    async def scenario() -> None:
        peer = OnePeer(tmp_path, component=component)
        peer.copies.converged(deployment)
        peer.copies.take(Data(output, reader, ORIGIN, (), True))
        await until(lambda: peer.acks() == 1)
        fence(files, {"f": 0, "g": 9})  # of its own attempt, and of another component
        chunks = tuple(chunks_of([batch(0, 3)], ORIGIN))
        peer.copies.take(Data(output, reader, ORIGIN, chunks))
        await until(lambda: peer.acks() == 2)
        fence(files, {"f": 5})
        more = tuple(chunks_of([batch(3, 3)], chunks[-1].end))
        peer.copies.take(Data(output, reader, chunks[-1].end, more))
        await until(lambda: bool(peer.outdated))
        before = files.read("f@0.0")
        peer.copies.converged(deployment)  # such as one in which another component has moved
        peer.copies.take(Data(output, reader, more[-1].end, tuple(chunks_of([batch(6, 3)], more[-1].end))))
        await peer.copies.close()
        assert (peer.acks(), peer.outdated) == (2, [("app", "f", 5)])
        assert sum(isinstance(each, Subscribe) for each in peer.heard) == 1
        assert files.read("f@0.0") == before

    on_loop(scenario)


@pytest.mark.parametrize("failures", [0, 1])
def test_each_attempt_leaves_a_fence_before_it_reads_also_if_the_disk_is_full_at_first(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, read = kept_folder(tmp_path).files("app"), list[list[str]]()
    monkeypatch.setattr(_durable_copies, "restored", lambda *_: read.append(files.names()))
    first, second = (Deployment("app", each, {"f": Assignment("a", each, (FOLDER,))}) for each in (1, 2))

    async def scenario() -> None:
        peer = OnePeer(tmp_path, FailingDisk("write", OSError(28, "No space left on device"), failures))
        assert peer.copies.defers(first)
        assert peer.copies.defers(second)  # of the next attempt, before anything was read
        await until(lambda: bool(peer.converged))
        await peer.copies.close()
        assert peer.converged == [second]
        assert [each for each, _ in peer.broken] == [FolderBroken] * failures
        both = [fence_name("f", 1), fence_name("f", 2)]
        assert read == [both] if failures else read == [both[:1], both]

    on_loop(scenario)


def test_a_cluster_that_starts_has_nobody_to_keep_from_writing(tmp_path: Path) -> None:
    """And a plan that was never accepted has no file then, so that it is submitted as at first."""
    folder = kept_folder(tmp_path)
    fence(folder.files("app"), {"f": 1 << 10})
    assert list(filter(is_fence, folder.files("app").names()))
    folder.clean()
    assert folder.files("app").names() == []
    assert [each.id for each in folder.applications()] == ["app"]
