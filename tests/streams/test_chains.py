"""Chains: operators of one peer that execute in one go, and what happens meanwhile."""

from __future__ import annotations

from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.dataflow.streams.log.frames import Ack, Data
from synergy_nb.dataflow.streams.log.values import Output, Point
from synergy_nb.dataflow.tuples import START
from tests.stream_bench import BEFORE, BEHIND, HERE, Bench, made, work_of

CHAIN = {"a": ["source"], "b": ["a"], "c": ["b"]}


def executed(work: Work, rows: int) -> ExecutionOutcome:
    """The outcome of a chain of which each component makes so many tuples."""
    first = outcome = ExecutionOutcome(0.0, 0.0, [(work.rows, 0.0)], [made(work.end, rows, 100, 0.0)])
    for number, link in enumerate(work.then):
        following = Work(link.component, 0, outcome.chunks, [], link.end, None, work.then[number + 1 :])
        made_of_it = ExecutionOutcome(0.0, 0.0, [(rows, 0.0)], [made(link.end, rows, 100, 0.0)])
        outcome.then = following, made_of_it
        outcome = made_of_it
    return first


def chained(bench: Bench) -> list[str]:
    return [link.component.operator for link in bench.hosting.chained(work_of(bench.hosting)).then]


def test_a_chain_ends_as_if_each_had_executed_for_itself() -> None:
    bench = Bench(CHAIN, {"c": ["reader"]})
    bench.offer("a", 5)
    work = bench.hosting.chained(work_of(bench.hosting))
    assert [link.component.operator for link in work.then] == ["b", "c"]
    assert bench.hosting.next(0.0) is None, "all of them are executing"
    bench.do(bench.hosting.finished(work, executed(work, 4), 0.0))
    assert bench.delivered() == [("reader", 0)]
    for name in ("b", "c"):
        port = bench[name].ports[0]
        assert port.received == port.consumed == Point(4, START)
        assert not port.queue
        assert bench[name].tuples_in == 4
    assert bench["c"].log.end == Point(4, START)
    bench.offer("a", 1)
    assert work_of(bench.hosting).component is bench["a"], "it goes on"


def test_components_with_other_readers_or_waiting_items_are_not_chained() -> None:
    bench = Bench({**CHAIN, "d": ["b"]}, {"c": ["reader"], "d": ["other"]})
    bench.offer("a")
    assert chained(bench) == ["b"], "b has two readers"
    bench = Bench(CHAIN, {"b": ["elsewhere"], "c": ["reader"]})
    bench.offer("a")
    assert chained(bench) == ["b"], "b has a reader on another peer"
    bench = Bench(CHAIN, {"c": ["reader"]})
    bench.do(bench.hosting.pause(bench["b"], True, 0.0))
    bench.offer("a")
    assert chained(bench) == []
    bench = Bench(CHAIN, {"c": ["reader"]})
    bench.offer("a", 2)
    bench.done(work_of(bench.hosting), [(2, 100)])  # waits for b
    bench.offer("a", 1)
    bench.do(bench.hosting.pause(bench["b"], True, 0.0))
    work = work_of(bench.hosting)
    bench.do(bench.hosting.pause(bench["b"], False, 0.0))
    assert bench.hosting.chained(work).then == (), "what came before has to be executed first"


def test_unexecuted_components_of_a_chain_are_executed_later() -> None:
    bench = Bench(CHAIN, {"c": ["reader"]})
    bench.offer("a", 5)
    work = bench.hosting.chained(work_of(bench.hosting))
    bench.do(bench.hosting.finished(work, ExecutionOutcome(0.0, 0.0, [(5, 0.0)]), 0.0))  # all tuples were left out
    bench.offer("a", 2)
    bench.done(work_of(bench.hosting), [(2, 100)])
    assert work_of(bench.hosting).component is bench["b"]


def test_an_error_fails_only_its_own_component_of_a_chain() -> None:
    bench = Bench(CHAIN, {"c": ["reader"]})
    bench.offer("a", 5)
    work = bench.hosting.chained(work_of(bench.hosting))
    outcome = executed(work, 5)
    assert outcome.then is not None
    _, second = outcome.then
    second.error, second.then, second.chunks = ValueError("no"), None, []
    bench.do(bench.hosting.finished(work, outcome, 0.0))
    assert not bench["a"].failed
    assert "no" in bench["b"].failed
    assert not bench["c"].failed
    assert not bench["c"].running


def test_results_of_a_component_that_moved_during_a_chain_are_not_emitted_twice() -> None:
    bench = Bench({"a": ["source"], "b": ["a"]}, {"b": ["reader"]})
    bench.offer("a", 5)
    work = bench.hosting.chained(work_of(bench.hosting))
    moved = {
        "source": Assignment(BEFORE),
        "a": Assignment(BEHIND, epoch=1, inputs=(InputFeed("a", "source"),)),
        "b": Assignment(HERE, inputs=(InputFeed("a", "a"),)),
        "reader": Assignment(BEHIND, inputs=(InputFeed("a", "b"),)),
    }
    bench.do(bench.hosting.converge(Deployment("a", 2, moved), 0.0))
    assert ("a", "a") not in bench.hosting.components
    bench.do(bench.hosting.finished(work, executed(work, 5), 0.0))
    assert bench.delivered() == [("reader", 0)]
    again = Data(Output("a", "a", 1), bench["b"].reader(0), Point(0, START), (made(Point(0, START), 7, 100, 0.0),))
    bench.do(bench.hosting.receive(BEHIND, again, 0.0))
    work = work_of(bench.hosting)
    assert [(chunk.start.position, chunk.end.position) for chunk in work.chunks] == [(5, 7)]
    assert not [frame for frame in bench.said(Ack) if frame.received.position > 7]
