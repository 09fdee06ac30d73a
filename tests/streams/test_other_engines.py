"""Components that another engine executes: what is kept for it, and how it goes on at another peer."""

from __future__ import annotations

import pytest

from synergy_nb.dataflow.deployments import FOLDER, Assignment
from synergy_nb.dataflow.streams.log.frames import ComponentState
from synergy_nb.dataflow.streams.log.log import Limits
from tests.streams.items import batch
from tests.streams.other_engine import READS, Elsewhere


def test_producers_retain_tuples_that_an_engine_has_not_committed() -> None:
    peers = Elsewhere()
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.later(0.2)
    assert peers.kept == 0
    peers.step()
    peers.later(0.2)
    assert peers.kept == 3
    peers.emit("n", batch(3, 3))
    peers.later(0.2)
    assert peers.kept == 3
    assert peers.rows == [0, 1, 2]


def test_without_copies_a_lagging_engine_delays_nobody() -> None:
    peers = Elsewhere(Limits(1000, 4000))
    peers.begin()
    for number in range(50):
        peers.emit("n", batch(10 * number, 10))
        peers.later(0.1)
    assert peers.hostings["s"].components["app", "n"].log.size < 4000
    assert sum(each.rows for each in peers.engines["x"].pending) == 500


def test_an_engine_continues_at_another_peer_from_its_last_commit() -> None:
    peers = Elsewhere()
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.step()
    peers.emit("n", batch(3, 2))  # is held by the engine
    peers.assign("u", Assignment("x", 0, (), "w", READS, external=True))
    peers.later(0.5)
    assert peers.said("copy_ready") == ["w app u"]
    assert ("app", "u") not in peers.hostings["w"].components, "nobody follows an engine"
    assert peers.engines["x"].waits
    peers.assign("u", Assignment("w", 1, (), "", READS, external=True))
    peers.emit("n", batch(5, 2))
    peers.later(0.5)
    assert [each.position for each in peers.engines["w"].pending] == [3, 5]
    peers.step("w")
    assert peers.rows == list(range(7))
    assert ("app", "u") not in peers.hostings["x"].components


@pytest.mark.parametrize("lost", [False, True])
def test_an_engine_continues_after_its_peer_died(lost: bool) -> None:
    peers = Elsewhere()
    peers.deployment.assignments["u"] = Assignment("x", 0, ("y",), "", READS, external=True)
    peers.begin()
    peers.emit("n", batch(0, 3))
    peers.step()
    peers.later(0.5)
    peers.emit("n", batch(3, 2))
    peers.lose = lambda frame: lost and isinstance(frame, ComponentState)
    peers.step()  # its results have been handed over, but nobody may know so
    peers.later(0.2)
    assert peers.engines["x"].released == (0 if lost else 1), "it commits what all copies know of"
    peers.dead.add("x")
    peers.lose = lambda _: False
    peers.assign("u", Assignment("y", 1, (), "", READS, external=True))
    peers.emit("n", batch(5, 1))
    peers.later(0.5)
    engine = peers.engines["y"]
    assert engine.step == (0 if lost else 1)
    assert [each.position for each in engine.pending] == ([3, 5] if lost else [5])
    peers.step("y")
    assert peers.rows == list(range(6))


def test_tuples_without_a_punctuation_are_not_retained_for_ever() -> None:
    """No promise covers it, and who makes the stream would wait before it makes one."""
    peers = Elsewhere(Limits(1000, 4000))
    peers.deployment.assignments["u"] = Assignment("x", 0, ("y",), "", READS, external=True)
    peers.begin()
    peers.later(0.5)
    engine = peers.engines["x"]
    waits = [engine.waits]
    engine.uncovered_bytes = 2001
    peers.emit("n", batch(0, 10))
    peers.later(0.2)
    assert peers.kept == 10
    waits.append(engine.waits)  # whoever took over now could not read what it would be asked for
    engine.uncovered_bytes = 0
    peers.step()
    peers.later(0.5)
    assert [*waits, engine.waits] == [True, False, True]
    assert engine.released == 0


def test_a_durable_folder_is_never_left_behind() -> None:
    """Spark would commit without it then, and nobody could make again what the folder lacks."""
    peers = Elsewhere(Limits(1000, 4000))
    peers.deployment.assignments["u"] = Assignment("x", 0, (FOLDER,), "", READS, external=True)
    peers.dead.add(FOLDER)  # it answers nothing
    peers.begin()
    engine = peers.engines["x"]
    engine.uncovered_bytes = 2001
    peers.emit("n", batch(0, 10))
    peers.later(0.2)
    peers.step()
    peers.later(0.2)
    assert (peers.kept, engine.waits, engine.released) == (0, True, -1)
