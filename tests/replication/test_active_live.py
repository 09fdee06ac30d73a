"""Applications with active replicas on real peers, which are killed and stopped, and rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import duckdb
import polars as pl
import pytest

from synergy_nb import Cluster, ClusterError, Feed, Plan, source
from synergy_nb.runtime.process import starting
from tests.waiting import DEADLINE

ROWS_AT_ONCE, ROUNDS = 40, 12
COLUMNS = ["k", "n", "total"]


def query(feed: Feed, availability: str = "active 3") -> Plan:
    readings = source(feed, id="readings", at="peer-1")
    large = readings.filter("v > 2", id="large")
    sums = large.aggregate("k", "1 s", n="count(*)", total="sum(v)", id="sums")
    return sums.filter("n > 0", id="several").sink("out", availability=availability)


def rows(of: Iterable[int]) -> list[dict[str, float]]:
    """Twenty readings for each second of event time."""
    return [{"time": number / 20, "k": number % 3, "v": number * 7 % 11} for number in of]


def expected(rounds: int) -> list[tuple[Any, ...]]:
    """The results of so many rounds of rows, by DuckDB."""
    everything = duckdb.from_arrow(pl.DataFrame(rows(range(rounds * ROWS_AT_ONCE))).to_arrow())
    wanted = everything.query(
        "readings",
        "select k, count(*) as n, sum(v)::bigint as total from readings where v > 2 group by floor(time), k",
    )
    assert wanted is not None
    found: pl.DataFrame = wanted.pl()
    return found.sort(COLUMNS).rows()


@pytest.mark.slow
def test_results_continue_before_any_peer_knows_that_two_of_three_replicas_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(starting, "_pings", lambda peers: 600.0)  # the failure detector finds nothing
    feed = Feed({"k": "int", "v": "int"})
    with Cluster(6, cores=1.0, spark=False) as cluster:
        with pytest.raises(ClusterError, match=r"qos\.availability: 'active 9'; expected at most 6"):
            cluster.submit(query(feed, "active 9"))
        application = cluster.submit(query(feed), origin="peer-1")
        where = application.graph
        replicas = [where[name] for name in ("sums", "sums~1", "sums~2")]
        assert len({*replicas, "peer-1"}) == 4, "replicas are apart, and not where all depends on one peer anyway"
        killed, stopped = replicas[:2]
        results = iter(application)
        tables: list[pl.DataFrame] = []

        def advance(done: Callable[[int], bool]) -> None:
            """Push rows round by round, each of which closes windows, and wait for the results of each."""
            for number in range(ROUNDS):
                if done(number):
                    feed.push(rows(range(number * ROWS_AT_ONCE, (number + 1) * ROWS_AT_ONCE)))
                    while number and sum(table.height for table in tables) < 3 * number:
                        tables.append(next(results))

        advance(lambda number: number < 4)
        try:
            cluster.kill(killed)
            advance(lambda number: 4 <= number < 8)
            cluster.suspend(stopped)
            advance(lambda number: number >= 8)
            feed.close()
            tables.extend(results)
            assert application.graph == where, "nobody knows of a death"
        finally:
            cluster.resume(stopped)
        assert pl.concat(tables).select(COLUMNS).sort(COLUMNS).rows() == expected(ROUNDS)
        assert application.wait(DEADLINE) == "finished"
        assert not application.explain().replicas_lost


@pytest.mark.slow
def test_a_lost_replica_is_rebuilt_and_then_the_other_one_is_killed() -> None:
    feed = Feed({"k": "int", "v": "int"})
    with Cluster(5, cores=1.0, spark=False) as cluster:
        application = cluster.submit(query(feed, "active 2"), origin="peer-1")
        where, results = application.graph, iter(application)
        tables: list[pl.DataFrame] = []
        pushed = 0

        def advance() -> None:
            """Push a round of rows, which closes windows, and wait for the results of the round before."""
            nonlocal pushed
            feed.push(rows(range(pushed * ROWS_AT_ONCE, (pushed + 1) * ROWS_AT_ONCE)))
            while pushed and sum(table.height for table in tables) < 3 * pushed:
                tables.append(next(results))
            pushed += 1

        advance()
        advance()
        first, other = where["sums"], where["sums~1"]
        lost = {name for name, peer in where.items() if peer == first}
        cluster.kill(first)
        while not lost <= application.explain().rebuilt.keys():
            advance()
        now = application.graph
        assert now.keys() == where.keys()
        assert first not in now.values()
        cluster.kill(other)
        for _ in range(4):
            advance()
        feed.close()
        tables.extend(results)
        assert expected(pushed) == pl.concat(tables).select(COLUMNS).sort(COLUMNS).rows()
        assert application.wait(DEADLINE) == "finished"


@pytest.mark.slow
def test_a_backup_between_active_replicas_takes_over_although_its_primary_dies_with_one_of_them() -> None:
    feed = Feed({"k": "int", "v": "int"})
    large = source(feed, id="readings", at="peer-1").filter("v > 2", id="large")
    sums = large.aggregate("k", "1 s", n="count(*)", total="sum(v)", id="sums", availability="degree 2")
    plan = sums.filter("n > 0", id="several").sink("out", availability="active 2")
    with Cluster(5, cores=1.0, spark=False) as cluster:
        tried = cluster.check(plan)
        assert "large to sums 2 streams" in str(tried)
        assert "sums to backups of sums 1 stream" in str(tried)
        application = cluster.submit(plan, origin="peer-1")
        before, (backup,) = application.graph, application.backups["sums"]
        assert before["sums"] not in ("peer-1", backup)
        assert "Replicas cover large, sums, several. The application ends when peer-1" in application.notices[0]
        results, tables = iter(application), list[pl.DataFrame]()
        for number in range(8):
            feed.push(rows(range(number * ROWS_AT_ONCE, (number + 1) * ROWS_AT_ONCE)))
            while number and sum(table.height for table in tables) < 3 * number:
                tables.append(next(results))
            if number == 3:
                cluster.kill(before["sums"])
        feed.close()
        tables.extend(results)
        assert expected(8) == pl.concat(tables).select(COLUMNS).sort(COLUMNS).rows()
        assert application.wait(DEADLINE) == "finished"
        assert application.graph["sums"] == backup
