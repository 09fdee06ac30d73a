"""Synchronization and deterministic order on real peers, of which the one that executes is killed."""

from __future__ import annotations

import polars as pl
import pytest

from synergy_nb import Cluster, Feed, source
from synergy_nb.events import TakenOver
from tests.peer_states import state_of
from tests.waiting import DEADLINE

ROUNDS, ROWS = 8, 20
COLUMNS = {"side": "str", "v": "int"}


@pytest.mark.slow
@pytest.mark.parametrize("technique", ["synchronized", "ordered"])
def test_a_backup_takes_over_from_a_killed_peer_and_every_row_is_there_once(technique: str) -> None:
    feeds = {side: Feed(COLUMNS) for side in ("left", "right")}
    left, right = (source(feed, id=side, at="peer-1") for side, feed in feeds.items())
    plan = left.union(right, id="u").filter("v >= 0", id="f").sink("out", availability=f"{technique} 2")
    tables: list[pl.DataFrame] = []
    with Cluster(4, cores=1.0, spark=False) as cluster:
        application = cluster.submit(plan, origin="peer-1")
        results = iter(application)

        def advance(number: int) -> None:
            """Push a round of rows, and wait for those that no technique has to hold back: all before its last time."""
            for side, feed in feeds.items():
                times = range(number * ROWS, (number + 1) * ROWS)
                feed.push([{"time": time / 100, "side": side, "v": time} for time in times])
            while sum(table.height for table in tables) < 2 * ((number + 1) * ROWS - 1):
                tables.append(next(results))

        for number in range(ROUNDS // 2):
            advance(number)
        primary, (backup,) = application.graph["u"], application.backups["u"]
        assert len({primary, backup, "peer-1"}) == 3, "what is killed has neither sources nor the sink"
        executed = {str(part["operator"]) for part in state_of(cluster, backup).components}
        assert ("u" in executed) == (technique == "ordered"), "only a backup in deterministic order executes"
        cluster.kill(primary)
        for number in range(ROUNDS // 2, ROUNDS):
            advance(number)
        for feed in feeds.values():
            feed.close()
        tables.extend(results)
        assert application.wait(DEADLINE) == "finished"
        assert application.graph["u"] == backup
        assert any(isinstance(event, TakenOver) for event in application.events())
    rows = pl.concat(tables).select("side", "v").sort("side", "v").rows()
    assert rows == [(side, number) for side in ("left", "right") for number in range(ROUNDS * ROWS)]
