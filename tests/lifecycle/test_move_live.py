"""Components move between real peers while their query runs, on request of a notebook."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterator

import polars as pl
import pytest

from synergy_nb import Application, Cluster, ClusterError, Feed, Plan, connect_cluster, source
from synergy_nb.plan.builder import Stream
from tests.peer_states import states_of
from tests.waiting import asked_until

EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - event times carry no zone


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=4, cores=1.0, spark=False) as started:
        yield started


def read(cluster: Cluster, application: Application, operator: str) -> int:
    """Tuples that the component of an operator has read."""
    states = states_of(cluster).values()
    found = [each for state in states for each in state.components if each["application"] == application.id]
    return next((int(each["tuples_in"]) for each in found if each["operator"] == operator), 0)


def sales(begin: int, rows: int) -> pl.DataFrame:
    """A tuple every 10 ms, from a number of it on."""
    numbers = range(begin, begin + rows)
    return pl.DataFrame(
        {
            "time": [EPOCH + dt.timedelta(milliseconds=10 * number) for number in numbers],
            "item": [f"k{number % 23}" for number in numbers],
            "amount": [float(number * 37 % 101) for number in numbers],
        },
        schema_overrides={"time": pl.Datetime("us")},
    )


def largest(stream: Stream) -> Plan:
    """The items with the largest totals of ten seconds."""
    large = stream.filter("amount > 3", id="large", at="peer-2")
    totals = large.aggregate("item", "10 s", total="sum(amount)", id="totals", at="peer-2")
    ranked = totals.sort("total desc", id="ranked", at="peer-3")
    top = ranked.compare("total", "70 %", count=totals.count(id="items", at="peer-3"), id="top", at="peer-3")
    return top.sink("largest", id="out")


def expected(table: pl.DataFrame) -> pl.DataFrame:
    """The same by Polars alone."""
    totals = (
        table.filter(pl.col("amount") > 3)
        .group_by(pl.col("time").dt.truncate("10s").alias("window_start"), "item")
        .agg(total=pl.col("amount").sum())
    )
    smaller = pl.col("total").rank("min").over("window_start") - 1
    top = totals.filter(smaller > 0.7 * pl.len().over("window_start"))
    return top.select("window_start", "item", "total").sort("window_start", "item")


@pytest.mark.slow
def test_a_running_query_moves_with_its_windows_half_full(cluster: Cluster) -> None:
    feed = Feed({"item": "str", "amount": "float"})
    application = cluster.submit(largest(source(feed, id="sales")), origin="peer-1")
    with feed:
        for number, (operator, to) in enumerate(
            [("totals", "peer-4"), ("large", "peer-3"), ("totals", "peer-2"), ("ranked", "peer-4"), ("top", "peer-1")]
        ):
            before = read(cluster, application, "large")
            feed.push(sales(1500 * number, 1500))  # one window and a half
            asked_until(lambda before=before: read(cluster, application, "large") > before)  # type: ignore[misc]
            cluster.move(application, operator, to)
            assert application.graph[operator] == to
    rows = application.results().select("window_start", "item", "total").sort("window_start", "item")
    assert rows.equals(expected(sales(0, 7500)))
    account = application.explain()
    assert account.peers == application.graph
    assert [told.partition(" in ")[0] for told in account.moves] == [
        "totals from peer-2 to peer-4",
        "large from peer-2 to peer-3",
        "totals from peer-4 to peer-2",
        "ranked from peer-3 to peer-4",
        "top from peer-3 to peer-1",
    ]
    lines = [" ".join(line.split()) for line in str(account).splitlines()]
    assert "totals peer-2: it was moved there from peer-4" in lines
    assert "top peer-1: it was moved there from peer-3" in lines
    assert not account.troubles


@pytest.mark.slow
def test_a_source_that_can_be_read_again_moves_with_results_that_nobody_has_collected(cluster: Cluster) -> None:
    def packets(speed: float, count: int | None = None) -> Plan:
        stream = source("packets", seed=5, rate=2000.0, count=count, speed=speed, id="packets", at="peer-2")
        return stream.filter("bytes > 100", id="large", at="peer-3").sink("out", id="out")

    def come() -> int:
        return int(application.qos().get("tuples", 0))

    application = cluster.submit(packets(1.0), origin="peer-1")
    for operator, to in (("packets", "peer-3"), ("large", "peer-4"), ("packets", "peer-1"), ("large", "peer-1")):
        before = come()
        asked_until(lambda before=before: come() > before)  # type: ignore[misc]
        cluster.move(application.id, operator, to)
    before = come()
    asked_until(lambda: come() > before)
    rows = application.head(before + 1)
    application.stop()
    undisturbed = cluster.submit(packets(0.0, 4 * rows.height)).results()
    assert rows.equals(undisturbed.head(rows.height))


@pytest.fixture(scope="module")
def running(cluster: Cluster) -> Iterator[Application]:
    feed = Feed({"item": "str", "amount": "float"})
    with feed:
        application = cluster.submit(largest(source(feed, id="sales")), origin="peer-1")
        yield application
        application.stop()


@pytest.mark.parametrize(
    ("operator", "to", "said"),
    [
        ("sales", "peer-2", r"operator: 'sales' is a source that cannot be read again \(python\)"),
        ("totls", "peer-3", "operator: 'totls'; expected one of sales, large, totals, ranked, items, top"),
        ("totals", "peer-2", "to: 'peer-2'; totals is there already; expected another peer"),
    ],
)
def test_a_move_that_cannot_be_is_refused_in_a_sentence(
    cluster: Cluster, running: Application, operator: str, to: str, said: str
) -> None:
    with pytest.raises(ClusterError, match=f"^{said}") as refused:
        cluster.move(running, operator, to)
    assert "://" not in str(refused.value)


def test_of_an_application_that_does_not_run_nothing_moves(cluster: Cluster, running: Application) -> None:
    with pytest.raises(ClusterError, match=f"application: 'nothing'; expected the id .* that runs: .*{running.id}"):
        cluster.move("nothing", "totals", "peer-3")
    ended = cluster.submit(source("packets", count=10, speed=0).sink("ended"))
    ended.results()
    with pytest.raises(ClusterError, match=rf"application: '{ended.id}' has ended already \(finished\)"):
        cluster.move(ended, "packets", "peer-3")


def test_coroutines_move_components(cluster: Cluster) -> None:
    async def main() -> tuple[str, str]:
        others = await connect_cluster(cluster.scheduler, spark=False)
        try:
            stream = source("packets", seed=1, rate=100.0, id="packets", at="peer-2").sink("all", id="out")
            application = await others.submit(stream, origin="peer-1")
            await others.move(application.id, "packets", "peer-4")
            moved = application.graph["packets"]
            await application.stop()
            return moved, application.last.status
        finally:
            await others.close()

    assert asyncio.run(main()) == ("peer-4", "stopped")
