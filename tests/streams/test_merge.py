"""The reading end of an input, driven by hand: what is new, what is missing, and what a prescribed order takes out."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.dataflow.streams.log.merge import ASKING, SUBSCRIBED, InOrder, Port, Receipt
from synergy_nb.dataflow.streams.log.values import (
    ORIGIN,
    OVERHEAD,
    Chunk,
    ComponentStream,
    Determinant,
    Point,
    chunks_of,
)
from synergy_nb.dataflow.tuples import START, Batch, Item
from tests.streams.items import batch, promise, values


def chunk(item: Item, until: int = START) -> Chunk:
    """The chunk of an item that comes after a promise."""
    (made,) = chunks_of([item], Point(item.position, until))
    return made


def waiting(merge: InOrder) -> list[object]:
    return values([entry.chunk for entry in merge.queue])


def taken_out(merge: InOrder, upto: Point | None, most: int) -> list[Chunk]:
    """What is executed next: up to a place, or together at most so many tuples."""
    return merge.first(lambda chunk, rows, _: rows + chunk.rows <= most) if upto is None else merge.run(upto)


# -- what arrives --------------------------------------------------------------------------------------------------


def test_tuples_that_were_received_before_are_cut_off() -> None:
    merge = InOrder(ORIGIN)
    assert merge.receive(0, chunk(batch(0, 4))) is Receipt.NEW
    assert merge.receive(0, chunk(batch(2, 4))) is Receipt.NEW
    assert merge.receive(0, chunk(batch(1, 4))) is Receipt.OLD
    assert waiting(merge) == [[0, 1, 2, 3], [4, 5]]
    assert merge.received == Point(6, START)
    assert [entry.chunk.start.position for entry in merge.queue] == [0, 4]


def test_the_promise_from_when_a_late_stream_is_complete_is_executed_alone_and_before_its_tuples() -> None:
    """What is executed together has its promises after its tuples."""
    late = InOrder(None, late=True)
    assert late.begin(Point(4, START), latest=90)
    assert late.receive(0, chunk(batch(4, 2))) is Receipt.NEW
    beginning, alone = [late.beginning], taken_out(late, None, 9)
    assert values(alone) == [91]
    late.consume(alone)
    assert [*beginning, late.beginning] == [True, False]
    assert values(taken_out(late, None, 9)) == [[4, 5]]


def test_a_chunk_beyond_the_expected_point_is_a_gap_and_changes_nothing() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 2)))
    assert merge.receive(0, chunk(batch(3, 2))) is Receipt.GAP
    assert merge.received.position == 2
    assert waiting(merge) == [[0, 1]]


def test_a_missing_promise_is_a_gap_as_it_may_carry_an_order() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 2)))
    assert merge.receive(0, chunk(batch(2, 2), until=5)) is Receipt.GAP
    assert merge.receive(0, chunk(promise(9, 2), until=5)) is Receipt.GAP
    assert merge.received == Point(2, START)
    assert merge.receive(0, chunk(promise(5, 2))) is Receipt.NEW
    assert merge.receive(0, chunk(batch(2, 2), until=5)) is Receipt.NEW
    assert waiting(merge) == [[0, 1], 5, [2, 3]]


def test_a_promise_at_another_position_in_a_later_epoch_is_received_once() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 4)))
    merge.receive(0, chunk(promise(15, 4)))
    merge.epoch = 1  # whose promise stood behind two tuples
    assert merge.receive(1, chunk(batch(2, 4), until=15)) is Receipt.NEW
    assert waiting(merge) == [[0, 1, 2, 3], 15, [4, 5]]
    assert merge.received == Point(6, 15)


def test_a_promise_before_received_tuples_is_applied_behind_them() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 4)))
    merge.epoch = 1
    assert merge.receive(1, chunk(batch(2, 3), until=15)) is Receipt.NEW  # a promise at 2 is true at 4, too
    assert waiting(merge) == [[0, 1, 2, 3], 15, [4]]
    assert merge.receive(1, chunk(batch(2, 3), until=15)) is Receipt.OLD


def test_a_promise_that_is_not_greater_is_dropped() -> None:
    merge = InOrder(Point(3, 20))
    assert merge.receive(0, chunk(promise(20, 3), until=10)) is Receipt.OLD
    assert merge.receive(0, chunk(promise(15, 3))) is Receipt.OLD
    assert waiting(merge) == []
    assert merge.received == Point(3, 20)


@pytest.mark.parametrize("epoch", [0, 2])
def test_another_epoch_is_refused(epoch: int) -> None:
    merge = InOrder(ORIGIN, epoch=1)
    assert merge.receive(epoch, chunk(batch(0, 4))) is Receipt.STALE
    assert not merge.queue
    assert merge.state is ASKING


def test_a_chunk_in_order_confirms_the_subscription() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 4)))
    assert merge.state is SUBSCRIBED


def test_a_reader_that_joins_begins_at_the_point_that_the_producer_states() -> None:
    merge = InOrder(None)
    assert merge.since is None
    assert merge.receive(0, chunk(batch(9, 4))) is Receipt.GAP
    assert merge.since is None
    assert merge.begin(Point(5, 40))
    assert waiting(merge) == [40]
    assert merge.received == Point(5, 40)
    assert merge.receive(0, chunk(batch(9, 4), until=40)) is Receipt.GAP
    assert merge.receive(0, chunk(batch(5, 4), until=40)) is Receipt.NEW


def test_a_producer_that_begins_after_the_expected_point_is_asked_again() -> None:
    merge = InOrder(Point(5, 40))
    assert not merge.begin(Point(6, 40))
    assert merge.state is ASKING
    assert merge.received == Point(5, 40)
    assert (merge.begin(Point(3, 50)), merge.received) == (True, Point(5, 50))
    assert waiting(merge) == [50]  # the log has let go of that promise's chunk


def test_waiting_and_consumed_bytes_are_counted() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 4)))
    merge.receive(0, chunk(promise(5, 4)))
    sizes = [entry.chunk.size for entry in merge.queue]
    assert merge.queued == sum(sizes)
    merge.consume(taken_out(merge, None, 0))
    assert merge.queued == sizes[1]
    assert merge.unacknowledged == sizes[0]
    assert merge.consumed == Point(4, START)


# -- what is taken out ---------------------------------------------------------------------------------------------


def test_chunks_go_one_by_one_or_together_up_to_a_number_of_tuples() -> None:
    merge = InOrder(ORIGIN)
    for first in (0, 2, 4, 6):
        merge.receive(0, chunk(batch(first, 2)))
    assert values(taken_out(merge, None, 0)) == [[0, 1]]
    assert values(taken_out(merge, None, 4)) == [[2, 3], [4, 5]]
    assert values(taken_out(merge, None, 4)) == [[6, 7]]


def test_a_prescribed_run_splits_a_chunk() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 4)))
    taken = taken_out(merge, Point(3, START), 0)
    assert values(taken) == [[0, 1, 2]]
    assert taken[0].end == Point(3, START)
    merge.consume(taken)
    assert waiting(merge) == [[3]]
    assert merge.queue[0].chunk.start == Point(3, START)
    assert merge.queued == merge.queue[0].chunk.size


def test_a_prescribed_run_of_which_a_part_is_missing_is_read_in_parts() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 2)))
    merge.receive(0, chunk(promise(12, 2)))
    taken = taken_out(merge, Point(4, 12), 0)
    assert values(taken) == [[0, 1]]
    merge.consume(taken)
    assert merge.consumed == Point(2, START)
    assert waiting(merge) == [12]
    merge.receive(0, chunk(batch(2, 3), until=12))
    assert values(taken_out(merge, Point(4, 12), 0)) == [[2, 3], 12]
    assert waiting(merge) == [[4]]


def test_promises_that_a_prescribed_order_lacks_are_withheld_until_its_end() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 2)))
    merge.receive(0, chunk(promise(12, 2)))
    merge.receive(0, chunk(batch(2, 2), until=12))
    taken = taken_out(merge, Point(3, START), 0)
    assert values(taken) == [[0, 1], [2]]
    assert [each.end for each in taken] == [Point(2, START), Point(3, START)]
    merge.consume(taken)
    assert merge.consumed == Point(3, START)
    assert waiting(merge) == [12, [3]]
    assert values(taken_out(merge, Point(4, 12), 0)) == [[3], 12]


def test_a_prescribed_promise_is_made_whatever_promises_came_since() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 2)))
    merge.receive(0, chunk(promise(14, 2)))
    taken = taken_out(merge, Point(2, 10), 0)
    assert values(taken) == [[0, 1], 10]
    assert taken[-1].end == Point(2, 10)
    merge.consume(taken)
    assert waiting(merge) == [14]


def test_a_promise_that_a_run_contains_does_not_come_again() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(batch(0, 2)))
    merge.receive(0, chunk(promise(10, 2)))
    merge.receive(0, chunk(promise(12, 2), until=10))
    assert values(taken_out(merge, Point(2, 12), 0)) == [[0, 1], 12]
    assert waiting(merge) == []


def test_of_several_withheld_promises_the_last_is_kept() -> None:
    merge = InOrder(ORIGIN)
    merge.receive(0, chunk(promise(1, 0)))
    merge.receive(0, chunk(batch(0, 1), until=1))
    merge.receive(0, chunk(promise(8, 1), until=1))
    merge.receive(0, chunk(batch(1, 2), until=8))
    assert values(taken_out(merge, Point(2, START), 0)) == [[0], [1]]
    assert waiting(merge) == [8, [2]]


# -- properties ----------------------------------------------------------------------------------------------------

TUPLES = 12


@st.composite
def epochs(draw: st.DrawFn) -> list[list[Chunk]]:
    """The same tuples of a few epochs, each cut in its own way, with promises where each of them likes."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        cuts = sorted({0, TUPLES, *draw(st.lists(st.integers(0, TUPLES), max_size=6))})
        items: list[Item] = []
        until = START
        for first, last in itertools.pairwise(cuts):
            items.append(batch(first, last - first))
            for offset in draw(st.lists(st.integers(0, 9), max_size=2)):  # true: the next tuple is at 10 * last
                until = max(until, 10 * last - offset)
                items.append(promise(until, last))
        found.append(chunks_of(items, ORIGIN))
    return found


def heard(chunks: list[Chunk]) -> list[int]:
    """The tuples; that no promise is false, and that places follow one another, is checked on the way."""
    tuples: list[int] = []
    until = START
    for each in chunks:
        if isinstance(each.item, Batch):
            assert each.item.position == len(tuples) == each.start.position
            now = each.item.table.get_column("v").to_list()
            assert all(10 * value >= until for value in now), "a promise was false"
            tuples += now
            assert each.end.position == len(tuples)
        else:
            assert each.item.position == len(tuples) == each.end.position
            assert each.item.time > until
            until = each.item.time
    return tuples


@pytest.mark.slow
@given(epochs(), st.data())
def test_cut_doubled_and_overtaken_chunks_give_the_same_tuples_and_true_promises(
    cut: list[list[Chunk]], data: st.DataObject
) -> None:
    merge = InOrder(ORIGIN)
    taken: list[Chunk] = []
    for epoch, sent in enumerate(cut):
        merge.epoch = epoch
        last = epoch == len(cut) - 1
        arrivals = data.draw(st.lists(st.integers(0, len(sent) - 1), max_size=2 * len(sent)))
        for index in [*arrivals, *range(len(sent) if last else 0)]:
            before = merge.received
            if merge.receive(epoch, sent[index]) is Receipt.GAP:
                assert merge.received == before
            assert merge.received >= before
            if len(merge.queue) > 0 and data.draw(st.booleans()):
                upto = None
                if data.draw(st.booleans()):  # a prescribed run
                    upto = Point(data.draw(st.integers(merge.consumed.position, merge.received.position)), START)
                    upto = upto._replace(until=merge.consumed.until)
                out = taken_out(merge, upto, data.draw(st.integers(0, 6)))
                merge.consume(out)
                taken += out
    taken += [entry.chunk for entry in merge.queue]
    assert heard(taken) == list(range(TUPLES))
    promised = max((each.end.until for each in cut[-1]), default=START)
    assert merge.received.covers(Point(TUPLES, promised))
    assert taken[-1].end.until == merge.received.until, "a promise was dropped"


@pytest.mark.slow
@given(epochs(), st.data())
def test_every_received_determinant_is_passed_on(cut: list[list[Chunk]], data: st.DataObject) -> None:
    sent = cut[0]
    stream = ComponentStream("app", "upper")
    for each in sent:
        each.determinants = (Determinant(stream, each.start, each.end, (), ORIGIN),)
    merge = InOrder(ORIGIN)
    taken: list[Chunk] = []
    for each in sent:
        assert merge.receive(0, each) is Receipt.NEW
        while len(merge.queue) > 0 and data.draw(st.booleans()):
            upto = None
            if data.draw(st.booleans()):
                position = data.draw(st.integers(merge.consumed.position, merge.received.position))
                upto = Point(position, max(merge.consumed.until, 10 * position - data.draw(st.integers(0, 9))))
                if merge.consumed.covers(upto):
                    continue
            out = taken_out(merge, upto, 0)
            assert out
            merge.consume(out)
            taken += out
    taken += [entry.chunk for entry in merge.queue]
    assert {one.end for each in taken for one in each.determinants} == {each.end for each in sent}


@pytest.mark.slow
@given(epochs())
def test_a_chunk_equals_its_two_halves(cut: list[list[Chunk]]) -> None:
    for each in cut[0]:
        for position in range(each.start.position + 1, each.end.position):
            first, rest = each.before(position), each.since(position)
            assert (first.start, first.end.position, rest.start.position, rest.end) == (
                each.start,
                position,
                position,
                each.end,
            )
            assert values([first])[0] + values([rest])[0] == values([each])[0]  # type: ignore[operator]
            assert first.size == first.item.nbytes + OVERHEAD  # type: ignore[union-attr]
            assert rest.size == rest.item.nbytes + OVERHEAD  # type: ignore[union-attr]
        assert each.since(each.start.position) is each
        assert each.before(each.end.position) is each
        assert msgspec.structs.asdict(each)["end"] == each.end


def test_an_input_asks_its_producer_at_once_soon_again_and_then_less_and_less_often() -> None:
    port = Port()
    port.read_from("x", 0, 1.0)
    times = []
    for _ in range(7):
        assert port.asks_at is not None
        times.append(port.asks_at)
        port.asked(port.asks_at)
    assert times == pytest.approx([1.0, 1.05, 1.15, 1.35, 1.75, 2.55, 3.35])
    port.ask_again(5.0)
    port.asked(5.0)
    assert port.asks_at == pytest.approx(5.05), "after something has changed it begins anew"
