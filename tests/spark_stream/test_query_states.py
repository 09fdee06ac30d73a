"""The life of a query on Spark, without Spark: who ends it first decides, and only what is listed follows."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from spark_stream import query as query_module
from spark_stream._query_states import QUERY_FOLLOWS, QueryLife, QueryState
from spark_stream._runs import ExchangeState, Runs
from spark_stream._sources import PeerSource, register
from spark_stream.callbacks import QueryCallbacks
from spark_stream.java import SparkUnavailable
from spark_stream.part import Part
from spark_stream.peer_endpoint import PeerEndpoint
from spark_stream.query import RAN, RETURNS, TRIES, PartQuery, SparkAccess
from spark_stream.results import ExchangeRefused
from spark_stream.spark_errors import SparkQueryEnded
from synergy_nb.plan import source

WITHIN = 60.0  # seconds that anything may take on a busy machine
ENDS = (QueryState.DONE, QueryState.FAILED, QueryState.STOPPED, QueryState.LEFT)

#: What leads to a state, and what that returns if it does nothing.
STEPS: dict[QueryState, Callable[[QueryLife], bool | None]] = {
    QueryState.STARTING: lambda it: it.start(threading.Thread(target=lambda: None)),
    QueryState.READY: QueryLife.become_ready,
    QueryState.DONE: QueryLife.finish,
    QueryState.FAILED: QueryLife.fail,
    QueryState.STOPPED: QueryLife.stop,
    QueryState.LEFT: QueryLife.leave,
}


def life(state: QueryState) -> QueryLife:
    """The life of a query that has come to a state."""
    found = QueryLife("q")
    way = {QueryState.NEW: [], QueryState.STARTING: [QueryState.STARTING], QueryState.STOPPED: [QueryState.STOPPED]}
    for step in way.get(state, [QueryState.STARTING, state]):
        STEPS[step](found)
    assert found.state is state
    return found


@pytest.mark.parametrize("before", ENDS)
def test_who_ends_a_query_first_decides(before: QueryState) -> None:
    for after, step in STEPS.items():
        found = life(before)
        assert not step(found)
        left = after is QueryState.LEFT and after in QUERY_FOLLOWS[before]
        assert found.state is (QueryState.LEFT if left else before)
        assert found.ended()
        assert found.left == (left or before is QueryState.LEFT)


def test_a_query_is_ready_once_and_fails_once() -> None:
    found = life(QueryState.STARTING)
    assert [found.become_ready(), found.become_ready(), found.ended()] == [True, False, False]
    assert [found.fail(), found.fail(), found.become_ready(), found.ended()] == [True, False, False, True]


def test_a_query_that_was_stopped_before_its_start_has_no_thread() -> None:
    thread = threading.Thread(target=lambda: None)
    found = life(QueryState.STOPPED)
    found.start(thread)
    assert thread.ident is None


def test_who_waits_hears_of_the_end() -> None:
    found, waiting = life(QueryState.STARTING), threading.Event()

    def wait() -> None:
        waiting.set()
        found.pause(WITHIN)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(WITHIN)
    found.stop()
    thread.join(WITHIN)
    assert not thread.is_alive()


def part_query(callbacks: QueryCallbacks, connect: Callable[[], None]) -> PartQuery:
    plan = source("packets", id="s").filter("bytes > 0", id="f").sink()
    spark = SparkAccess(connect, PeerEndpoint(), lambda _: None)  # type: ignore[arg-type]
    return PartQuery(Part("app", "f", plan, ("f",), ("s",)), spark, callbacks, secrets={})


def test_a_query_that_cannot_connect_fails_by_its_reason_and_one_that_is_stopped_does_not() -> None:
    reasons: list[str] = []
    failed, connecting, over = threading.Event(), threading.Event(), threading.Event()

    def fail(reason: str) -> None:
        reasons.append(reason)
        failed.set()

    def refuse() -> None:
        raise ValueError("no such server")

    def hang() -> None:
        connecting.set()
        assert over.wait(WITHIN)
        refuse()

    query = part_query(QueryCallbacks(on_failed=fail), refuse)
    query.start()
    query.start()
    assert failed.wait(WITHIN)
    assert reasons == ["no such server"]
    query.stop()
    query = part_query(QueryCallbacks(on_failed=fail), hang)
    query.start()
    assert connecting.wait(WITHIN)
    query.abandon(left=False)
    over.set()
    query.stop()
    assert reasons == ["no such server"]


def failed(monkeypatch: pytest.MonkeyPatch, execute: Callable[[PartQuery, object], None]) -> tuple[PartQuery, str]:
    """A query whose starts are ``execute``, after it has failed, and the reason."""
    reasons: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr(PartQuery, "_execute", execute)
    query = part_query(QueryCallbacks(on_failed=reasons.put), lambda: None)
    monkeypatch.setattr(query, "_session", object)
    query.start()
    reason = reasons.get(timeout=WITHIN)
    query.stop()
    return query, reason


@pytest.mark.parametrize(
    ("error", "starts"),
    [
        (SparkUnavailable("no Spark server answered"), RETURNS),
        (SparkQueryEnded("query q was stopped by another program"), RETURNS),
        (RuntimeError("Python worker failed to connect back."), TRIES),
        (RuntimeError("it is wrong"), 1),
    ],
)
def test_a_query_that_never_gets_further_fails_after_some_starts(
    error: Exception, starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that was lost, or a query that was ended, began again for ever: its application never failed."""
    begun: list[object] = []

    def execute(_: PartQuery, session: object) -> None:
        begun.append(session)
        raise error

    _, reason = failed(monkeypatch, execute)
    assert str(error).removesuffix(".") in reason
    assert len(begun) == starts


def test_parts_that_share_a_session_register_their_format_once() -> None:
    """Of two that registered it at once, Spark refused one: it said that the format exists, and the part failed."""
    begun, again = threading.Barrier(4), threading.Event()
    asked: list[object] = []

    class Session:
        """A session that takes a while to register a format."""

        def __init__(self) -> None:
            self.dataSource = self

        def register(self, what: object) -> None:
            asked.append(what)
            if len(asked) > 1:
                again.set()
            again.wait(0.2)

    session: Any = Session()

    def begin(_: int) -> None:
        begun.wait(WITHIN)
        register(session)

    with ThreadPoolExecutor(4) as parts:
        list(parts.map(begin, range(4)))
    assert asked == [PeerSource]


def test_a_query_that_gets_further_each_time_begins_again_as_often_as_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = iter(range(2 * RETURNS))

    def execute(query: PartQuery, _: object) -> None:
        for number in batches:
            monkeypatch.setattr(query, "_last", number)
            break
        raise SparkQueryEnded("query q was stopped by another program")

    query, _ = failed(monkeypatch, execute)
    assert query.restarts == 2 * RETURNS + RETURNS - 2


def test_a_quiet_query_that_ran_for_a_while_each_time_begins_again_as_often_as_it_must(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It makes no micro-batch, and its server may die now and then."""
    seconds = itertools.chain(itertools.repeat(RAN + 1.0, 2 * 2 * RETURNS), itertools.repeat(0.0))
    clock = itertools.accumulate(seconds)
    monkeypatch.setattr(query_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    def execute(_: PartQuery, session: object) -> None:
        raise SparkQueryEnded("query q was stopped by another program")

    query, _ = failed(monkeypatch, execute)
    assert query.restarts > 2 * RETURNS


def test_a_run_that_is_not_the_last_is_refused_by_number_and_a_closed_query_by_name() -> None:
    runs = Runs("q", ended=False)
    first, second = runs.begin(7), runs.begin(9)
    assert (runs.accepts(first), runs.accepts(second), runs.end_time) == (False, True, 9)
    with pytest.raises(ExchangeRefused, match="query q: run 1; expected 2, the query has been restarted"):
        runs.check(first)
    runs.close()
    with pytest.raises(ExchangeRefused, match="query q has been stopped"):
        runs.check(second)


def test_spark_wakes_an_exchange_once_and_what_has_ended_stays_so_although_it_is_closed() -> None:
    runs = Runs("q", ended=False)
    assert [runs.wake(), runs.wake()] == [True, False]
    runs.end()
    runs.close()
    runs.wake()
    assert runs.state is ExchangeState.ENDED
    assert Runs("q", ended=True).state is ExchangeState.ENDED
