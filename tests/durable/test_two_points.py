"""What memory lets go of, and what the folder does: two points, where nothing but the folder has a copy of a reader."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from synergy_nb.dataflow.deployments import FOLDER, Assignment, Deployment, InputFeed
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting._snapshots import RARE_S, SHARE, WRITTEN, _rarely_saved
from synergy_nb.dataflow.streams.log.frames import ComponentState, Data, Frame, Subscribe
from synergy_nb.dataflow.streams.log.values import OnLag, Point
from synergy_nb.durable.folder_copy import FolderCopy
from tests.streams.items import batch
from tests.streams.peers import Peers


class KeptPeers(Peers):
    """A source on ``s``, a filter on ``x`` and a sink on ``z``, of which a folder alone has copies."""

    def __init__(self, *waited: str, backups: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.told: list[Frame] = []
        self.copies: dict[str, FolderCopy] = {}
        known = self.deployment.assignments
        self.deployment = msgspec.structs.replace(
            self.deployment, assignments={name: kept(each, name, waited, backups) for name, each in known.items()}
        )

    def begin(self) -> KeptPeers:
        self.tell(self.deployment)
        for name, each in self.deployment.assignments.items():
            waited = FOLDER in each.synchronized
            output = self.component(name).output
            self.copies[name] = FolderCopy(output, unsaved=None if waited else lambda: 0)
            self.do(each.active, self.hostings[each.active].receive(FOLDER, self.copies[name].begin(), self.now))
        self.later(0.2)
        return self

    def component(self, operator: str) -> Component:
        return self.hostings[self.deployment.assignments[operator].active].components["app", operator]

    def say(self, sender: str, to: str, frame: Frame) -> None:
        if to != FOLDER:
            super().say(sender, to, frame)
            return
        self.told.append(frame)
        for answer in self.copies[frame.output.operator].take(frame, self.now).answers:  # type: ignore[union-attr]
            self.do(sender, self.hostings[sender].receive(FOLDER, answer, self.now))

    def forgotten(self, operator: str) -> Point:
        """Point before which the folder lets go of the output of a component."""
        frames = [each for each in self.told if isinstance(each, Data) and each.output.operator == operator]
        return frames[-1].trimmed


def kept(assignment: Assignment, name: str, waited: tuple[str, ...], backups: tuple[str, ...]) -> Assignment:
    synchronized = (FOLDER,) if name == "out" or name in waited else ()
    peers = backups if name == "u" else ()
    return msgspec.structs.replace(assignment, backups=(*peers, FOLDER), synchronized=synchronized)


def test_what_a_reader_has_executed_leaves_memory_and_the_folder_keeps_it_until_the_reader_is_saved() -> None:
    peers = KeptPeers().begin()
    peers.later(2.0)
    for number in range(3):
        peers.emit("n", batch(20 * number, 20))
        peers.later(0.1)
    log = peers.component("n").log
    (reader,) = [each for each in log.cursors.values() if each.reader.operator == "u"]
    assert reader.durable == log.end
    assert log.saved < log.end
    assert peers.forgotten("n") < log.end
    peers.later(2.5)
    assert peers.forgotten("n") == log.end


@pytest.mark.parametrize("peers", [KeptPeers("n"), KeptPeers(backups=("y",))])
def test_memory_keeps_what_is_not_made_again_and_what_a_backup_may_need(peers: KeptPeers) -> None:
    peers.begin()
    peers.later(2.0)
    for number in range(3):
        peers.emit("n", batch(20 * number, 20))
        peers.later(0.1)
    assert len(peers.component("n").log) > 1
    peers.later(2.5)
    assert len(peers.component("n").log) == 0


def test_a_snapshot_that_began_before_a_follower_came_is_not_sent_to_it() -> None:
    peers = KeptPeers().begin()
    peers.emit("n", batch(0, 20))
    peers.captures = []
    peers.later(1.5)
    (early,) = [each for each in peers.captures if each.component.operator == "u"]
    saved = early.save()
    peers.do("x", peers.hostings["x"].saved(early, peers.now))
    peers.emit("n", batch(20, 20))  # what the snapshot lacks, and the source lets go of
    sent: list[ComponentState] = []

    def watch(frame: Frame) -> bool:
        if isinstance(frame, ComponentState):
            sent.append(frame)
        return isinstance(frame, Subscribe) and frame.on_lag is OnLag.RESYNC and frame.reader.port >= 0

    peers.lose = watch
    peers.assign("u", msgspec.structs.replace(peers.deployment.assignments["u"], follower="y"))
    peers.captures = None
    peers.do("x", peers.hostings["x"].captured(early, early.encode(saved), peers.now))
    peers.later(1.5)
    numbers = [each.number for each in sent if each.reader.peer == "y"]
    assert numbers
    assert min(numbers) > early.number


def test_who_is_saved_rarely_repeats_all_that_it_reads_and_nobody_waits_for_it() -> None:
    alone = {"backups": (FOLDER,)}
    deployment = Deployment(
        "app",
        1,
        {
            "n": Assignment("a", **alone),  # type: ignore[arg-type]
            "f": Assignment("a", inputs=(InputFeed("app", "n"),), **alone),  # type: ignore[arg-type]
            "m": Assignment("a", synchronized=(FOLDER,), **alone),  # type: ignore[arg-type]
            "g": Assignment("a", inputs=(InputFeed("app", "m"),), **alone),  # type: ignore[arg-type]
            "b": Assignment("a", backups=("y", FOLDER), inputs=(InputFeed("app", "n"),)),
            "h": Assignment("a", inputs=(InputFeed("app", "b"),), **alone),  # type: ignore[arg-type]
        },
    )
    assert _rarely_saved(deployment) == {"n", "f"}


def test_a_component_is_saved_as_rarely_as_the_processor_time_of_that_asks_but_every_minute() -> None:
    peers = KeptPeers().begin()
    hosting, times = peers.hostings["x"], list[float]()
    for number in range(280):
        peers.captures = []
        peers.emit("n", batch(number, 1))
        peers.later(0.5)
        for capture in peers.captures:
            if capture.component.operator == "u" and peers.now > 1.0:
                times.append(peers.now)
            at = capture.component.peer
            seconds = 0.1 if peers.now < 40.0 else 100.0
            made = capture.encode(capture.save())
            peers.do(at, peers.hostings[at].captured(capture, made, peers.now, seconds))
    assert hosting.components["app", "u"].alone
    gaps = [after - before for before, after in pairwise(times)]
    assert min(gaps) >= WRITTEN * 0.1 / SHARE - 1e-6
    assert max(*gaps, peers.now - times[-1]) <= RARE_S + 1.0


@pytest.mark.parametrize("state", [10, 2 << 20, 6 << 20])
def test_a_state_that_has_grown_is_saved_later_as_it_takes_more_time(
    state: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = KeptPeers().begin()
    component, times = peers.hostings["x"].components["app", "u"], list[float]()
    monkeypatch.setattr(component.share, "use", lambda _size: None)
    for number in range(140):
        peers.captures = []
        peers.emit("n", batch(number, 1))
        peers.later(0.5)
        for capture in peers.captures:
            at, made = capture.component.peer, capture.encode(capture.save())
            if capture.component is component and peers.now > 1.0:
                times.append(peers.now)
                component.share.used = state  # after a snapshot of little
            peers.do(at, peers.hostings[at].captured(capture, made, peers.now, 0.1))
    grown = max(1, state >> 20)
    assert times[1] - times[0] == pytest.approx(grown * WRITTEN * 0.1 / SHARE, abs=0.6)
    assert times[2] - times[1] == pytest.approx(WRITTEN * 0.1 / SHARE, abs=0.6)
