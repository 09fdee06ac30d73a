"""Large snapshots: a copy asks for their pieces, what has not changed is not sent again, and nobody stands still."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.dataflow.streams.hosting._snapshots import REPEAT_S
from synergy_nb.dataflow.streams.hosting.copies import MOST_REQUESTED
from synergy_nb.dataflow.streams.hosting.effects import FactKind, Restore
from synergy_nb.dataflow.streams.log.frames import Ack, ComponentState, Frame, PieceReply, PieceRequest
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.state_pieces import Archive, decoded, encoded
from synergy_nb.dataflow.streams.log.values import COPY, Output, Reader
from synergy_nb.dataflow.tuples import END
from tests.streams.items import batch, promise
from tests.streams.peers import COUNTED, HEIR, Peers, once

PIECE = 2_000
Kind = TypeVar("Kind")


class Counting(Peers):
    """An application that keeps a row for each tuple, on ``x``, of which ``y`` keeps a copy; a log of what was said."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits=Limits(piece=PIECE) if limits is None else limits)
        self.plan = COUNTED
        self.said_by: list[tuple[str, Frame]] = []

    def say(self, sender: str, to: str, frame: Frame) -> None:
        self.said_by.append((sender, frame))
        super().say(sender, to, frame)

    def sent(self, kind: type[Kind]) -> list[Kind]:
        return [frame for _, frame in self.said_by if isinstance(frame, kind)]

    @property
    def piece_bytes(self) -> int:
        """Bytes of all pieces that were sent."""
        enclosed = [piece for frame in self.sent(ComponentState) for piece in frame.enclosed]
        supplied = [frame.piece for frame in self.sent(PieceReply)]
        return sum(len(piece.data) for piece in (*enclosed, *supplied))

    @property
    def number(self) -> int:
        """Number of the snapshot that the copy has."""
        state = self.hostings["y"].roles.copies["app", "u"].state
        return -1 if state is None else state.number

    def begin(self) -> Counting:
        super().begin()
        return self

    def take_over(self) -> None:
        """The active one dies, and the copy takes over."""
        self.dead.add("x")
        self.lose = lambda _: False
        self.assign("u", HEIR)
        self.later(2.0)

    def end(self, rows: int) -> None:
        """The stream ends after so many tuples: each has to be counted once."""
        self.emit("n", promise(END, rows))
        self.later(3.0)
        result = pl.concat(self.tables)
        assert sorted(result.get_column("v")) == list(range(rows))
        assert set(result.get_column("n")) == {1}
        assert self.said("component_failed") == []


def of_the_copy(frame: Frame) -> bool:
    return getattr(frame, "reader", Reader("", "", 0, "")).port == COPY


# -- pieces --------------------------------------------------------------------------------------------------------


def test_a_large_state_comes_in_pieces_of_which_few_are_under_way() -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 1000))
    asked, most = Counter[int](), 0

    def watch(frame: Frame) -> bool:
        nonlocal most
        if isinstance(frame, PieceRequest):
            asked.update(frame.pieces)
        if isinstance(frame, PieceReply):
            asked.pop(frame.piece.number)
        most = max(most, len(asked))
        return False

    peers.lose = watch
    peers.later(1.0)
    supplies = [frame.piece for frame in peers.sent(PieceReply)]
    assert len(supplies) > 10
    assert max(len(piece.data) for piece in supplies) <= 2 * PIECE + 2048
    assert most <= MOST_REQUESTED
    assert all(not frame.enclosed for frame in peers.sent(ComponentState) if len(frame.parts[0].pieces) > 1)
    peers.take_over()
    peers.end(1000)


def test_a_small_state_comes_with_its_announcement() -> None:
    peers = Counting(Limits()).begin()
    peers.emit("n", batch(0, 100))
    peers.later(1.0)
    assert peers.number > 0
    assert not peers.sent(PieceRequest)
    assert not peers.sent(PieceReply)
    peers.take_over()
    peers.end(100)


@pytest.mark.parametrize("kind", [ComponentState, PieceRequest, PieceReply, Ack])
def test_lost_pieces_of_a_snapshot_are_requested_again(kind: type) -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 500))
    peers.lose = once(kind, 5)
    peers.later(8.0)
    assert peers.number >= 1
    assert len(peers.hostings["s"].components["app", "n"].log) == 0, "the inputs of a snapshot are kept no longer"
    peers.take_over()
    peers.end(500)


@pytest.mark.parametrize("seed", range(10))
def test_pieces_that_come_twice_late_or_in_another_order_make_the_same_state(seed: int) -> None:
    rng = random.Random(seed)
    peers = Counting().begin()
    position = 0
    for _ in range(6):
        peers.emit("n", batch(position, 150), deliver=False)
        position += 150
        for _ in range(30):
            peers.now += 0.05
            for peer, hosting in peers.hostings.items():
                peers.do(peer, hosting.tick(peers.now))
            held = [entry for entry in peers.frames if of_the_copy(entry[2]) and rng.random() < 0.3]
            now = [entry for entry in peers.frames if entry not in held]
            peers.frames.clear()
            shuffled = [entry for entry in now if of_the_copy(entry[2])]
            rng.shuffle(shuffled)
            peers.frames.extend([entry for entry in now if not of_the_copy(entry[2])] + shuffled)
            peers.frames.extend(entry for entry in shuffled if rng.random() < 0.3)
            while peers.frames:
                peers.say(*peers.frames.popleft())
            peers.frames.extend(held)
    peers.deliver()
    peers.take_over()
    peers.end(position)


def test_a_copy_that_begins_anew_during_a_transfer_gets_all_pieces() -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 1000))
    peers.lose = lambda frame: isinstance(frame, PieceReply) and frame.piece.number > 5
    peers.later(0.6)
    assert peers.number < 1
    assignment = peers.deployment.assignments["u"]
    for backups in ((), ("y",)):
        peers.assign(
            "u", msgspec.structs.replace(assignment, backups=backups), "y"
        )  # whoever is copied hears nothing of it
    assert not peers.hostings["y"].roles.copies["app", "u"].pieces
    peers.lose = lambda _: False
    peers.later(3.0)
    peers.take_over()
    peers.end(1000)


def test_a_new_copy_gets_tables_that_others_have_already() -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 1000))
    peers.later(2.0)
    assignment = peers.deployment.assignments["u"]
    peers.assign("u", msgspec.structs.replace(assignment, backups=("y", "w")))
    peers.later(1.0)
    assert "w app u" in peers.said("copy_ready")
    peers.dead.add("y")
    peers.dead.add("x")
    peers.assign("u", msgspec.structs.replace(HEIR, active="w"))
    peers.later(1.0)
    peers.end(1000)


def test_a_successor_of_a_peer_that_died_during_a_transfer_uses_the_last_whole_snapshot() -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 600))
    peers.later(1.0)
    whole = peers.number
    peers.lose = lambda frame: isinstance(frame, PieceReply) and frame.piece.number % 3 == 1
    peers.emit("n", batch(600, 600))
    peers.later(0.6)
    assert peers.number == whole >= 1
    assert peers.hostings["y"].roles.copies["app", "u"].next_request_time is not None, (
        "it lacks some pieces of the next"
    )
    peers.take_over()
    peers.emit("n", batch(1200, 10))
    peers.end(1210)


def test_a_piece_for_nobody_is_ignored() -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 300))
    peers.later(1.0)
    (supply, *_) = peers.sent(PieceReply)
    for changed in (
        supply,
        msgspec.structs.replace(supply, piece=supply.piece._replace(number=10**6)),
        msgspec.structs.replace(supply, output=Output("app", "u", 7)),
        msgspec.structs.replace(supply, output=Output("app", "other")),
    ):
        before = peers.hostings["y"].roles.copies["app", "u"].pieces
        peers.say("x", "y", changed)
        assert peers.hostings["y"].roles.copies["app", "u"].pieces == before


# -- increments ------------------------------------------------------------------------------------------------------


def test_unchanged_tables_are_not_sent_again() -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 40_000))  # more than are gathered: partial results of their own
    peers.later(3.0)
    whole = peers.piece_bytes
    numbers = peers.number
    for position in range(40_000, 40_050, 10):
        peers.emit("n", batch(position, 10))
        peers.later(0.5)
    assert peers.number >= numbers + 5
    assert peers.piece_bytes - whole < whole / 20
    peers.take_over()
    peers.end(40_050)


def test_a_new_epoch_sends_all_tables_again() -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 500))
    peers.later(1.0)
    peers.dead.add("x")
    peers.assign("u", msgspec.structs.replace(HEIR, backups=("w",)))
    peers.later(1.0)
    peers.emit("n", batch(500, 500))
    peers.later(1.0)
    peers.dead.add("y")
    peers.assign("u", msgspec.structs.replace(HEIR, active="w", epoch=2))
    peers.later(1.0)
    peers.end(1000)


def test_a_follower_receives_snapshots_and_may_fall_back_on_them() -> None:
    peers = Counting().begin()
    assignment = peers.deployment.assignments["u"]
    peers.emit("n", batch(0, 500))
    peers.later(1.0)
    peers.assign("u", msgspec.structs.replace(assignment, backups=(), follower="y"))
    peers.later(1.0)
    peers.emit("n", batch(500, 500))
    peers.later(1.5)
    follower = peers.hostings["y"].components["app", "u"]
    assert follower.ports[0].consumed.position == 1000
    assert peers.number >= 2
    peers.assign("u", assignment)
    assert ("app", "u") not in peers.hostings["y"].components
    peers.emit("n", batch(1000, 10))
    peers.later(1.0)
    peers.take_over()
    peers.end(1010)


# -- pace ------------------------------------------------------------------------------------------------------------


def made(peers: Counting, seconds: float = 0.0) -> None:
    """Make the snapshots that have begun, in so many seconds."""
    assert peers.captures is not None
    captures, peers.captures = peers.captures, []
    for capture in captures:
        done = capture.encode(capture.save())
        peers.do("x", peers.hostings["x"].captured(capture, done, peers.now, seconds))
    peers.deliver()


def test_a_component_goes_on_while_its_snapshot_is_encoded() -> None:
    peers = Counting().begin()
    peers.captures = []
    peers.emit("n", batch(0, 100))
    peers.later(0.5)
    (capture,) = peers.captures
    component = peers.hostings["x"].components["app", "u"]
    peers.emit("n", batch(100, 100))
    assert component.ports[0].consumed.position == 100, "nothing is executed before its state is saved"
    saved = capture.save()
    peers.do("x", peers.hostings["x"].saved(capture, peers.now))
    peers.emit("n", batch(200, 100))
    assert component.ports[0].consumed.position == 300
    peers.later(3.0)
    assert len(peers.captures) == 1, "one at a time"
    peers.do("x", peers.hostings["x"].captured(capture, capture.encode(saved), peers.now))
    peers.deliver()
    state = peers.hostings["y"].roles.copies["app", "u"].state
    assert state is not None
    assert state.inputs[0].position == 100
    peers.captures = None
    peers.later(0.2)
    peers.take_over()
    peers.end(300)


def test_the_next_snapshot_waits_while_copies_request_pieces_of_the_last() -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 500))
    peers.lose = once(PieceReply, 10**9)
    peers.later(0.6)
    first = len(peers.sent(ComponentState))
    for position in range(500, 1000, 100):
        peers.emit("n", batch(position, 100))
        peers.later(0.15)
    assert len(peers.sent(ComponentState)) == first
    peers.lose = lambda _: False
    peers.later(2.0)
    assert len(peers.sent(ComponentState)) > first
    assert peers.number >= 2


def test_a_copy_that_requests_no_pieces_gets_another_snapshot() -> None:
    peers = Counting().begin()
    peers.lose = lambda frame: isinstance(frame, PieceRequest)
    peers.emit("n", batch(0, 500))
    peers.later(0.5)
    first = len(peers.sent(ComponentState))
    peers.later(REPEAT_S + 1.0)
    assert len(peers.sent(ComponentState)) > first


@pytest.mark.parametrize(("retain", "soon"), [(16 << 20, False), (4_000, True)])
def test_snapshots_take_a_twentieth_of_the_time_unless_their_inputs_wait_for_one(retain: int, soon: bool) -> None:
    peers = Counting(Limits(retain=retain)).begin()
    peers.captures = []
    peers.emit("n", batch(0, 10))
    peers.later(1.0)
    made(peers, seconds=1.0)
    position = 10
    for _ in range(18):
        peers.emit("n", batch(position, 100))
        position += 100
        peers.later(1.0)
        if soon:
            assert len(peers.captures) == 1
            made(peers, seconds=1.0)
        assert not peers.captures
    peers.later(3.0)
    assert bool(peers.captures) is not soon


def test_bytes_that_all_copies_have_are_released() -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 500))
    peers.later(2.0)
    state = peers.sent(ComponentState)[-1]
    pieces = state.parts[0].pieces
    before = len(peers.sent(PieceReply))
    peers.say("y", "x", PieceRequest(state.output, state.reader, state.number - 1, pieces))
    peers.deliver()
    assert len(peers.sent(PieceReply)) == before, "an old question is ignored"
    peers.say("y", "x", PieceRequest(state.output, state.reader, state.number, pieces[:1]))
    peers.later(1.0)
    assert len(peers.sent(PieceReply)) == before
    assert peers.number > state.number, "whoever asked gets another snapshot"
    again = peers.sent(ComponentState)[-1]
    assert again.parts[0].pieces == pieces, "encoded again, it is the same"


# -- what cannot be restored -----------------------------------------------------------------------------------------


def test_a_state_that_cannot_be_restored_fails_the_component_by_name() -> None:
    peers = Counting().begin()
    peers.emit("n", batch(0, 10))
    peers.later(0.6)
    copy = peers.hostings["y"].roles.copies["app", "u"]
    copy.pieces = dict.fromkeys(copy.pieces, b"garbage")
    peers.dead.add("x")

    def carry_out(peer: str, effects: Iterable[object]) -> None:
        for effect in effects:
            if isinstance(effect, Restore):
                with pytest.raises(ValueError, match="no Arrow IPC stream") as error:
                    effect.make()
                do(peer, peers.hostings[peer].restored(effect, error.value, peers.now))
            else:
                do(peer, [effect])  # type: ignore[list-item]

    do, peers.do = peers.do, carry_out  # type: ignore[method-assign]
    peers.assign("u", HEIR)
    assert peers.said("component_failed") == ["y app u"]
    (reason,) = [fact.reason for _, fact in peers.facts if fact.kind is FactKind.COMPONENT_FAILED]
    assert reason.startswith("its state could not be restored: table: no Arrow IPC stream")


# -- tables as pieces ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    rows=st.lists(st.tuples(st.integers(-5, 5), st.text(max_size=300) | st.none()), max_size=60),
    most=st.integers(1, 3000),
)
def test_a_table_that_was_cut_is_whole_again(rows: list[tuple[int, str | None]], most: int) -> None:
    table = pl.DataFrame(rows, schema={"v": pl.Int64(), "text": pl.String()}, orient="row")
    pieces = encoded(table, most)
    found = decoded([piece.data for piece in pieces])
    assert found.equals(table)
    assert found.schema == table.schema
    assert len(pieces) <= max(table.height, 1)


def test_pieces_of_rows_of_very_different_sizes_are_not_much_larger_than_asked_for() -> None:
    table = pl.DataFrame({"text": ["x" * 10_000] * 20 + ["y"] * 20_000})
    assert max(len(piece.data) for piece in encoded(table, 20_000)) < 50_000


def test_pieces_of_several_tables_are_refused() -> None:
    one, other = (encoded(pl.DataFrame({name: [1]}), 100)[0].data for name in "ab")
    with pytest.raises(ValueError, match="expected those of one table"):
        decoded([one, other])


def test_an_archive_retains_the_tables_that_a_copy_lacks() -> None:
    archive = Archive()
    table = pl.DataFrame({"v": range(100)})
    (part,) = archive.file(0, {7: encoded(table, 300)})
    assert len(part.pieces) > 1
    numbers, size = archive.lacking("y")
    assert tuple(numbers) == part.pieces
    assert size == sum(len(piece.data) for piece in map(archive.get, numbers) if piece is not None)
    archive.acknowledged("y", 0)
    archive.release(["y", "w"])
    assert archive.get(numbers[0]) is not None
    assert archive.known(["y", "w"]) == {7: part.pieces}
    archive.release(["y"])
    assert archive.get(numbers[0]) is None
    assert archive.known(["y"]) == {7: part.pieces}
    assert archive.known(["y", "w"]) == {}
    assert archive.file(1, {7: None}) == (part,)
    assert archive.lacking("y") == ([], 0)
    assert archive.file(2, {7: encoded(table, 300)}) == (part,)
    (longer,) = archive.file(3, {7: encoded(table.vstack(table), 300)})
    assert not set(longer.pieces) & set(part.pieces), "a number stands for the same bytes for ever"
