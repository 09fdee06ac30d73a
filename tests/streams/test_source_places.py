"""The place of a source: chunks carry it to copies, snapshots to those that come later, and a successor opens there."""

from __future__ import annotations

import msgspec
import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import OfferComponents
from synergy_nb.dataflow.deployments import Assignment, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.frames import Data
from synergy_nb.dataflow.streams.log.log import StreamLog
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, Chunk, Output, Point, Reader, SourcePlace, chunks_of
from synergy_nb.dataflow.streams.log.wire import decode, encode
from synergy_nb.plan import source
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.streams.items import batch, promise
from tests.streams.peers import Peers

TABLE = batch(0, 5).table.rename({"v": "n"})
COPYING, READING = Reader("app", "n", COPY, "y"), Reader("app", "u", 0, "x")


def placed(first: int, rows: int) -> list[Chunk]:
    """A batch and its promise, of which the latter carries the place after both."""
    end = first + rows
    chunks = chunks_of(
        [batch(first, rows), promise(10 * end, end)], Point(first, 10 * first if first else ORIGIN.until)
    )
    chunks[-1].place = SourcePlace(end, 10 * end, b"%d" % end)
    return chunks


def sent(reader: Reader, chunks: list[Chunk]) -> list[SourcePlace | None]:
    """Places that arrive at a reader."""
    frame = decode(encode(Data(Output("app", "n"), reader, ORIGIN, tuple(chunks))))
    assert isinstance(frame, Data)
    return [chunk.place for chunk in frame.chunks]


def test_only_copies_are_sent_places() -> None:
    chunks = placed(0, 3)
    assert sent(COPYING, chunks) == [None, SourcePlace(3, 30, b"3")]
    assert sent(READING, chunks) == [None, None]
    chunks[0].place = SourcePlace(4, 0, b"")
    with pytest.raises(ValueError, match="place at position 4 of a chunk; expected at most 3, where it ends"):
        sent(COPYING, chunks)


def test_a_log_has_no_place_beyond_its_end() -> None:
    log = StreamLog(retains_all=True)
    log.append(placed(0, 3))
    log.append(placed(3, 3))
    log.trim(log.end)
    assert log.place == SourcePlace(6, 60, b"6")
    log.know_place(SourcePlace(3, 30, b"3"))
    assert log.place == SourcePlace(6, 60, b"6"), "a later one is known"
    (whole, _) = placed(0, 4)
    whole.place = SourcePlace(4, 40, b"4")
    assert whole.before(3).place is None
    assert whole.since(2).place is whole.place
    log.restart(Point(5, 0))
    assert log.place is None


def source_of(peers: Peers, peer: str) -> SourcePlace | None:
    return peers.hostings[peer].components["app", "n"].log.place


def emit(peers: Peers, first: int, rows: int) -> None:
    peers.do("s", peers.hostings["s"].emit("app", "n", placed(first, rows), peers.now))
    peers.deliver()


@pytest.mark.parametrize("late", [False, True])
def test_who_takes_over_has_the_place_of_the_last_chunk_that_it_has(late: bool) -> None:
    peers = Peers()
    known = peers.deployment.assignments
    known["n"] = msgspec.structs.replace(known["n"], backups=() if late else ("w",))
    peers.begin()
    emit(peers, 0, 3)
    peers.later(0.5)
    if late:  # the chunk is discarded, as all readers have it
        peers.assign("n", msgspec.structs.replace(peers.deployment.assignments["n"], backups=("w",)))
        peers.later(2.0)
    else:
        emit(peers, 3, 2)
        peers.later(0.5)
    number = 3 if late else 5
    peers.dead.add("s")
    peers.assign("n", msgspec.structs.replace(peers.deployment.assignments["n"], active="w", epoch=1, backups=()))
    peers.later(0.5)
    assert peers.opened[-1][0] == "w"
    assert peers.opened[-1][1].since.position == number
    assert source_of(peers, "w") == SourcePlace(number, 10 * number, b"%d" % number)


def test_a_snapshot_has_the_place_where_it_was_made_though_the_source_goes_on_while_it_is_saved() -> None:
    component = Component("app", "n", "s", Assignment("s", 0, ("w",), "", (), ()), Role.ACTIVE, None)
    component.emit(placed(0, 3), 0.0)
    component.capture()
    component.emit(placed(3, 2), 0.0)
    head = component.saving().head
    successor = Component("app", "n", "w", Assignment("w", 1, (), "", (), ()), Role.ACTIVE, None)
    successor.adopt_log(StreamLog(component.cuts.of(0).end))
    successor.go_on(head)
    assert successor.log.place == SourcePlace(3, 30, b"3")


def test_a_source_of_which_another_reading_may_differ_waits_for_its_copies() -> None:
    own = PeerConfig(components=ALL_COMPONENTS, cores=16.0, placement=None)
    world = PeerWorld(0, "abc", Faults(delay=(0.002, 0.02)), config=own)
    for peer in "abc":
        world.control.report(peer, OfferComponents())
    world.run(2.0)
    for name, path in {"directory": "folder/*.csv", "tail": "rows.csv"}.items():
        rows = source(name, path=path, format="csv", columns={"n": "int", "time": "time"}, id="rows")
        plan = rows.filter("n > 0", id="kept").sink("out", id="out")
        world.deploy(name, plan, {"rows": "a", "kept": "c", "out": "c"}, {"rows": TABLE}, backups={"rows": ("b",)})
        assert world.until(lambda name=name: world.status(name) == "running")  # type: ignore[misc]
        waited = world.nodes["a"].hosting.deployments[name].assignments["rows"].synchronized
        assert waited == (("b",) if name == "directory" else ())
