"""Copies: which of several snapshots a copy has, as its output arrives, and from which its peer could resume."""

from __future__ import annotations

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed, Role
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.hosting._expected_readers import expect_readers
from synergy_nb.dataflow.streams.hosting.copies import Copy
from synergy_nb.dataflow.streams.log.frames import ComponentState, Data
from synergy_nb.dataflow.streams.log.state_pieces import Part, Piece
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, Chunk, Output, Point, Reader, chunks_of
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic
from synergy_nb.dataflow.tuples import START
from tests.streams.items import batch
from tests.streams.peers import UNION

OUTPUT = Output("app", "u")
READER = Reader("app", "u", COPY, "y")


def at(position: int) -> Point:
    return Point(position, START)


def state(
    number: int, end: int, *, inputs: dict[int, Point] | None = None, pieces: tuple[int, ...] = ()
) -> ComponentState:
    parts = (Part(0, pieces),) if pieces else ()
    return ComponentState(OUTPUT, READER, number, inputs or {}, at(end), ORIGIN, b"", parts)


class Held:
    """A copy whose output arrives by hand."""

    def __init__(self) -> None:
        self.copy = Copy(OUTPUT)
        self.copy.receive(Data(OUTPUT, READER, ORIGIN, (), began=True), 0.0)

    def arrives(self, rows: int) -> None:
        start = self.copy.merge.received
        chunks: list[Chunk] = chunks_of([batch(start.position, rows)], start)
        fresh, gap = self.copy.receive(Data(OUTPUT, READER, start, tuple(chunks)), 0.0)
        assert (fresh, gap) == (chunks, False)
        self.copy.append(fresh, ORIGIN)


def test_a_copy_has_a_snapshot_once_all_output_before_it_has_arrived_and_never_an_older_one_again() -> None:
    held = Held()
    held.copy.snapshot(state(0, 2), None)
    held.copy.snapshot(state(1, 4), None)
    assert held.copy.number(None) == -1
    held.arrives(2)
    assert held.copy.number(None) == 0
    held.arrives(2)
    assert held.copy.number(None) == 1
    held.copy.snapshot(state(2, 9), None)
    assert held.copy.number(None) == 1
    held.copy.snapshot(state(1, 4), None)
    held.copy.snapshot(state(3, 10), None)
    assert held.copy.number(None) == 1
    held.arrives(6)
    assert held.copy.number(None) == 3


def test_a_snapshot_with_pieces_counts_once_they_are_all_there() -> None:
    held = Held()
    held.copy.snapshot(state(0, 0, pieces=(5, 6)), None)
    assert not held.copy.receive_piece(Piece(5, b"five", 0), None, 0.0)
    assert held.copy.number(None) == -1
    assert held.copy.receive_piece(Piece(6, b"six", 0), None, 0.0)
    assert (held.copy.number(None), held.copy.pieces) == (0, {5: b"five", 6: b"six"})
    held.copy.snapshot(state(1, 0, pieces=(6,)), None)
    assert (held.copy.number(None), held.copy.pieces) == (1, {6: b"six"}), "it has that one"


def test_a_follower_has_a_snapshot_once_it_has_executed_what_that_covers_without_a_frame_about_it() -> None:
    held, feeds = Held(), (InputFeed("app", "n"), InputFeed("app", "m"))
    component = Component(
        "app", "u", "y", Assignment("x", inputs=feeds), Role.FOLLOWER, create(UNION.operators["u"], UNION)
    )
    held.copy.snapshot(state(0, 3, inputs={0: at(2), 1: at(1)}), component)
    assert held.copy.number(component) == -1
    component.ports[0].overtake(at(2))
    assert held.copy.number(component) == -1
    component.ports[1].overtake(at(1))
    assert held.copy.number(component) == 0


def test_a_follower_that_is_there_from_the_beginning_may_start_from_the_first_snapshot() -> None:
    feeds = (InputFeed("app", "n"), InputFeed("app", "m"))
    assignment = Assignment("x", follower="y", inputs=feeds)
    logic = MergedLogic(create(UNION.operators["u"], UNION), {0: 0, 1: 1}, [(), ()])
    component = Component("app", "u", "x", assignment, Role.ACTIVE, logic)
    assert component.alignment.suits("y", 0)
    assert component.alignment.suits("w", 0)
    component.alignment.set_follower("w")
    assert not component.alignment.suits("w", component.cuts.number)
    assert component.alignment.suits("w", component.cuts.number + 1)


def test_output_that_only_a_reader_needed_that_is_gone_is_trimmed_with_the_deployment() -> None:
    component = Component("app", "u", "x", Assignment("x"), Role.ACTIVE, create(UNION.operators["u"], UNION))
    reads = Assignment("z", inputs=(InputFeed("app", "u"),))
    deployment = Deployment("app", 1, {"u": Assignment("x"), "one": reads, "two": reads})
    expect_readers(component, deployment, 1 << 20)
    component.log.append(chunks_of([batch(0, 3)], ORIGIN))
    component.log.acknowledge(Reader("app", "one", 0, "z"), at(3), at(3), at(3), now=1.0)
    assert (component.log.start, component.log.end) == (ORIGIN, at(3))
    expect_readers(component, Deployment("app", 2, {"u": Assignment("x"), "one": reads}), 1 << 20)
    assert component.log.start == at(3)
