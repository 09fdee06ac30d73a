"""An application of three active replicas on real peers, of which one is killed and one is stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable

import duckdb
import polars as pl
import pytest

from synergy_nb import Cluster, ClusterError, Feed, Plan, source
from synergy_nb.runtime.process import starting

ROWS_AT_ONCE, ROUNDS = 40, 12


def query(feed: Feed, availability: str = "active 3") -> Plan:
    readings = source(feed, id="readings", at="peer-1")
    large = readings.filter("v > 2", id="large")
    sums = large.aggregate("k", "1 s", n="count(*)", total="sum(v)", id="sums")
    return sums.filter("n > 0", id="several").sink("out", availability=availability)


def rows(of: Iterable[int]) -> list[dict[str, float]]:
    """Twenty readings for each second of event time."""
    return [{"time": number / 20, "k": number % 3, "v": number * 7 % 11} for number in of]


@pytest.mark.slow
def test_results_continue_before_any_peer_knows_that_two_of_three_replicas_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(starting, "_pings", lambda peers: 600.0)  # the failure detector finds nothing
    feed = Feed({"k": "int", "v": "int"})
    with Cluster(6, spark=False) as cluster:
        with pytest.raises(ClusterError, match=r"qos\.availability: 'active 9'; expected at most 6"):
            cluster.submit(query(feed, "active 9"))
        application = cluster.submit(query(feed), origin="peer-1")
        where = application.graph
        replicas = [where[name] for name in ("sums", "sums~1", "sums~2")]
        assert len({*replicas, "peer-1"}) == 4, "replicas are apart, and not where all depends on one peer anyway"
        states = cluster.states()
        killed, stopped = (state.pid for peer in replicas[:2] if (state := states[peer]) is not None)
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
            os.kill(killed, signal.SIGKILL)
            advance(lambda number: 4 <= number < 8)
            os.kill(stopped, signal.SIGSTOP)
            advance(lambda number: number >= 8)
            feed.close()
            tables.extend(results)
            assert application.graph == where, "nobody knows of a death"
        finally:
            os.kill(stopped, signal.SIGCONT)
        found = pl.concat(tables)
        everything = duckdb.from_arrow(pl.DataFrame(rows(range(ROUNDS * ROWS_AT_ONCE))).to_arrow())
        wanted = everything.query(
            "readings",
            "select k, count(*) as n, sum(v)::bigint as total from readings where v > 2 group by floor(time), k",
        )
        assert wanted is not None
        columns = ["k", "n", "total"]
        assert found.select(columns).sort(columns).rows() == wanted.pl().sort(columns).rows()
        assert application.status == "finished"
        assert not application.explain().replicas_lost
