"""Which work of a peer comes next, how much of it goes together, and what is measured of it: deterministic and pure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.dataflow.deployments import Assignment, Deployment, Role
from synergy_nb.dataflow.memory_shares import Memory
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.component_metrics import RESOLUTION
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome
from synergy_nb.dataflow.streams.hosting._exchange import ACK_S
from synergy_nb.dataflow.streams.log.chunking import mergeable
from synergy_nb.dataflow.streams.log.frames import Ack
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.values import Chunk
from tests.stream_bench import Bench, made, work_of


def small(window: int) -> Limits:
    """So many bytes for everything."""
    return Limits(window, window, window)


# -- room ------------------------------------------------------------------------------------------------------------


def test_a_component_without_room_waits_and_its_log_holds_one_execution_more() -> None:
    bench = Bench({"o": ["s"]}, {"o": ["t"]}, limits=small(400))
    for _ in range(4):
        bench.offer("o")
    while (work := bench.hosting.next(0.0)) is not None:
        bench.done(work, [(1, 150), (1, 150)])
    component = bench["o"]
    assert bench.delivered() == [("t", 0), ("t", 1)]
    assert (component.log.size, component.ports[0].queued) == (600, 200)
    bench.consumed("t", "o", 1)
    assert bench.delivered() == [("t", 2)]
    bench.consumed("t", "o", 1)
    assert bench.delivered() == [], "old news"
    assert bench.hosting.next(0.0) is None
    bench.consumed("t", "o", 3)
    assert bench.delivered() == [("t", 3)]
    assert bench.hosting.next(0.0) is not None


def test_a_split_is_as_slow_as_its_slowest_reader_and_each_gets_all() -> None:
    bench = Bench({"s": []}, {"s": ["fast", "slow"]}, limits=small(200))
    position = 0
    while bench.hosting.may_emit("a", "s"):
        bench.do(bench.hosting.emit("a", "s", [made(bench["s"].log.end, 1, 100, 0.0)], 0.0))
        position += 1
        bench.consumed("fast", "s", position)
    assert bench.delivered() == [("fast", 0), ("slow", 0), ("fast", 1), ("slow", 1)]
    bench.consumed("slow", "s", 1)
    assert bench.hosting.may_emit("a", "s")
    bench.do(bench.hosting.emit("a", "s", [made(bench["s"].log.end, 1, 100, 0.0)], 0.0))
    assert bench.delivered() == [("fast", 2), ("slow", 2)]


def test_consumption_is_acknowledged_every_quarter_of_a_window_and_after_a_time() -> None:
    bench = Bench({"o": ["s"]}, limits=small(800))
    bench.said(Ack)
    told = []
    for _ in range(5):
        bench.offer("o")
        bench.done(work_of(bench.hosting))
        told.append([ack.consumed.position for ack in bench.said(Ack)])
    assert told == [[], [2], [], [4], []]
    bench.do(bench.hosting.tick(ACK_S))
    assert [ack.consumed.position for ack in bench.said(Ack)] == [5]
    bench.do(bench.hosting.tick(10 * ACK_S))
    assert bench.said(Ack) == []


def test_readers_on_the_same_peer_obey_the_same_windows() -> None:
    bench = Bench({"s": [], "o": ["s"]}, limits=small(200))
    while bench.hosting.may_emit("a", "s"):
        bench.do(bench.hosting.emit("a", "s", [made(bench["s"].log.end, 1, 100, 0.0)], 0.0))
    assert bench["s"].log.end.position == 2
    bench.done(work_of(bench.hosting))
    assert bench.hosting.may_emit("a", "s")
    assert bench.sent == [], "nobody else has to know"


def test_removal_leaves_no_state_and_discards_the_result_of_running_work() -> None:
    bench = Bench({"o": ["s"]}, {"o": ["t"]})
    bench.offer("o")
    bench.offer("o")
    work = work_of(bench.hosting)
    hosting = bench.hosting
    bench.do(hosting.converge(Deployment("a", 2), 0.0))
    bench.sent.clear()
    bench.done(work, [(1, 100)], 0.0, 1.0)
    assert bench.sent == []
    assert (hosting.next(2.0), hosting.next_timer, hosting.components, hosting.deployments) == (None, None, {}, {})
    bench.consumed("t", "o", 1)
    assert bench.sent == []


# -- disciplines -----------------------------------------------------------------------------------------------------


def test_least_slack_counts_the_time_that_the_component_itself_has_been_taking() -> None:
    bench = Bench({"quick": ["one"], "slow": ["other"]}, discipline="least_slack", delays={"quick": 10.0, "slow": 10.0})
    for name, seconds in (("quick", 0.1), ("slow", 3.0)):
        bench.offer(name)
        bench.done(work_of(bench.hosting), (), 0.0, seconds)
    bench.offer("quick", born=0.0, now=5.0)
    bench.offer("slow", born=1.0, now=5.0)
    assert bench.hosting.next(5.0, lambda component, _: component.operator == "none") is None
    work = work_of(bench.hosting, 5.0)
    assert work.component.operator == "slow"
    bench.hosting.discipline = "edf"
    assert work_of(bench.hosting, 5.0).component.operator == "quick"


def test_next_returns_only_work_that_the_driver_can_execute() -> None:
    bench = Bench({"heavy": ["h"], "light": ["l"]})
    bench.offer("heavy", 1000)
    bench.offer("light", 1)
    work = bench.hosting.next(0.0, lambda _, chunk: chunk.rows < 64)
    assert work is not None
    assert work.component.operator == "light"
    assert bench.hosting.next(0.0, lambda _, chunk: chunk.rows < 64) is None
    assert work_of(bench.hosting).component.operator == "heavy"


def test_a_component_that_is_paused_takes_nothing_until_it_goes_on() -> None:
    bench = Bench({"o": ["s"]})
    bench.offer("o")
    bench.do(bench.hosting.pause(bench["o"], True, 0.0))
    assert bench.hosting.next(0.0) is None
    bench.do(bench.hosting.pause(bench["o"], False, 0.0))
    assert work_of(bench.hosting).component is bench["o"]


# -- what waits goes together ----------------------------------------------------------------------------------------


def positions(chunks: list[Chunk]) -> list[int]:
    return [chunk.start.position for chunk in chunks]


def test_items_that_wait_at_one_input_are_executed_together_within_limits() -> None:
    bench = Bench({"o": ["s", "other"]}, limits=small(4000))
    for number in range(5):
        bench.offer("o", born=1.0 + number / 100)
        bench.offer("o", port=1)
    bench.promise("o", 7)
    work = work_of(bench.hosting, together=4)
    assert positions(work.chunks) == [0, 1, 2, 3], "of one input, and no more tuples than that"
    assert len(work.items) == 1
    assert bench.hosting.next(0.0, together=4) is None, "it is running"
    bench.done(work, (), 0.0, 1.0)
    assert [port.consumed.position for port in bench["o"].ports.values()] == [4, 0]
    assert bench["o"].tuple_s.mean == 0.25
    work = work_of(bench.hosting, together=100)
    assert len(work.chunks) == 1, "more than one of a quarter of a second would take too long"


def test_items_of_distant_entry_times_or_large_ones_are_executed_alone() -> None:
    bench = Bench({"o": ["s"]}, limits=small(1000))
    for born, size in [(0.0, 100), (0.1, 100), (0.3, 100), (0.3, 401)]:
        bench.offer("o", size=size, born=born)
    taken = []
    while (work := bench.hosting.next(0.0, together=100)) is not None:
        taken.append(positions(work.chunks))
        bench.done(work)
    assert taken == [[0, 1], [2], [3]]


@pytest.mark.slow
@given(st.lists(st.floats(0, 5), min_size=2, max_size=20))
def test_repeated_merging_does_not_make_items_older(births: list[float]) -> None:
    merged = births[0]
    for born in births[1:]:
        if mergeable(merged, born):
            assert abs(born - merged) <= 0.2 + 1e-9
            merged = min(merged, born)
    assert mergeable(merged, births[0])


# -- work that is put off --------------------------------------------------------------------------------------------


def test_deferred_work_waits_for_room_and_precedes_later_items() -> None:
    bench = Bench({"much": ["m"], "other": ["n"]}, {"much": ["out"]}, limits=small(1000))
    much = bench["much"]
    bench.offer("much", 5)
    first = work_of(bench.hosting)
    bench.offer("much")
    bench.offer("other")
    bench.done(first, [(1, 900)], 0.0, 1.0, unfinished=True)
    again = work_of(bench.hosting)
    assert (again.resumed, again.component, again.port) == (True, much, 0)
    other = work_of(bench.hosting)
    assert other.component.operator == "other"
    bench.done(again, [(1, 900)], 2.0, 4.0, unfinished=True)
    bench.done(other)
    assert bench.hosting.next(0.0) is None, "there is no room, and what came behind has to wait"
    assert much.ports[0].queued == 100
    bench.consumed("out", "much", 2, 5.0)
    assert bench.hosting.next(0.0, lambda _component, _chunk: True) is None, "what was begun is nothing light"
    last = work_of(bench.hosting)
    much.left = None
    outcome = ExecutionOutcome(5.0, 6.0, [(5, 4.0)])
    bench.do(bench.hosting.finished(last, outcome, 6.0))
    assert much.spent_s == 4.0
    assert much.tuple_s.mean == pytest.approx(4.0 / 5)
    assert positions(work_of(bench.hosting).chunks) == [5]


def test_deferred_work_is_removed_with_its_component() -> None:
    bench = Bench({"much": ["m"]})
    bench.offer("much")
    bench.done(work_of(bench.hosting), unfinished=True)
    bench.do(bench.hosting.converge(Deployment("a", 2), 0.0))
    assert bench.hosting.next(0.0) is None


# -- measurements ----------------------------------------------------------------------------------------------------


def test_a_component_measures_rates_costs_and_late_rows() -> None:
    bench = Bench({"o": ["s"]}, {"o": ["t"]})
    for step in range(200):
        now = step / 10
        bench.offer("o", 10, size=240, now=now)
        work = work_of(bench.hosting, now + 0.02)
        bench.done(work, [(4, 96)], now + 0.02, now + 0.07, late=int(step >= 3))
        bench.consumed("t", "o", 4 * (step + 1), now)
    bench.offer("o", 5, size=120, now=20.0)
    stats = bench["o"].stats(20.0)
    assert stats["rate"] == pytest.approx(100, rel=0.03)
    assert stats["output_rate"] == pytest.approx(40, rel=0.03)
    assert stats["load"] == pytest.approx(0.5, rel=0.03)
    assert stats["processing_s"] == pytest.approx(0.005)
    assert stats["batch_s"] == pytest.approx(0.05)
    assert stats["queueing_s"] == pytest.approx(0.02)
    assert stats["selectivity"] == pytest.approx(800 / 2005)
    assert (stats["application"], stats["operator"]) == ("a", "o")
    assert (stats["tuples_in"], stats["tuples_out"]) == (2005, 800)
    assert (stats["bytes_in"], stats["bytes_out"]) == (48120, 19200)
    assert (stats["late"], stats["queue_bytes"], stats["queue_tuples"]) == (1, 120, 5)


def test_the_cost_of_a_tuple_includes_that_of_punctuations() -> None:
    bench = Bench({"o": ["s"]})
    component = bench["o"]
    assert component.stats(0.0)["cost"] is None
    bench.offer("o", 10)
    bench.done(work_of(bench.hosting), (), 0.0, 1.0)
    assert component.stats(2.0)["cost"] is None  # a call on a few tuples tells what a call costs
    for number in range(8):
        bench.offer("o", 20, now=1.0)
        # one was held up by something else
        bench.done(work_of(bench.hosting, 1.0), (), 1.0, 3.0 if number else 100.0)
    bench.promise("o", 1, now=1.0)
    bench.done(work_of(bench.hosting, 1.0), (), 1.0, 18.0)
    assert component.stats(2.0)["cost"] == pytest.approx(0.1 + 17.0 / 170)
    component.hand_over()
    assert component.stats(2.0)["cost"] is None


def test_a_load_that_comes_and_goes_has_a_signature() -> None:
    """Five seconds at 20 tuples/s, five at 200, of 2 ms each: two segments; at one rate there is nothing to tell."""
    share = Memory().share("a", "o")
    component = Component("a", "o", "p", Assignment("p"), Role.ACTIVE, None, share=share, measure_s=1.0)
    component.agree(component.terms, planned_s=0.002)
    component.executed(1, 0.1, 0.0)  # what a call took that was held up is not what a tuple costs
    for number in range(1, 101):
        component.arrived(1, number / 20)
    assert len(component.segments(5.0)) == 1
    for number in range(1, 1001):
        component.arrived(1, 5.0 + number / 200)
    found = component.segments(10.0)
    assert [round(segment.load, 1) for segment in found] == [0.0, 0.4]
    assert abs(found[1].start - 5.0) <= 2 * RESOLUTION


def test_a_signature_begins_with_the_first_tuples() -> None:
    """The clock of a peer is that of the wall, and nothing came before the component was there."""
    component = Component(
        "a", "o", "p", Assignment("p"), Role.ACTIVE, None, share=Memory().share("a", "o"), measure_s=1.0
    )
    assert component.stream_segments(1e9) == ()
    for number in range(101):
        component.departed(1, 1e9 + number / 20)
    (segment,) = component.stream_segments(1e9 + 5.0)
    assert segment.start == 1e9
    assert segment.rate == pytest.approx(20.0, rel=0.01)


def test_an_output_has_a_signature_of_its_own() -> None:
    component = Component(
        "a", "o", "p", Assignment("p"), Role.ACTIVE, None, share=Memory().share("a", "o"), measure_s=1.0
    )
    for number in range(1, 101):
        component.departed(1, number / 20)
    for number in range(1, 1001):
        component.departed(1, 5.0 + number / 200)
    assert [round(segment.rate, -1) for segment in component.stream_segments(10.0)] == [20.0, 200.0]
    assert component.departures.per_second(10.0) == pytest.approx(200.0, rel=0.02)
