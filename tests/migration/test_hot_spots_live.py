"""Hot spots on real peers: only rates rise, and nobody but the peers themselves moves a component.

Traces are replayed at the pace of their event times, so a rate that rises is written in the trace. Components of known
cost wait, whatever else the machine does; their work exceeds what their peer can do on a machine of any speed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl
import pytest

from synergy_experiments.demo import _oracle as oracle
from synergy_nb import Application, Cluster, Plan, source
from synergy_nb.events import (
    ComponentMoved,
    HotSpotDetected,
    MigrationAnswered,
    MigrationDecided,
    MigrationEnded,
)
from synergy_nb.plan.builder import Stream
from tests.migration.rising_rates import (
    COST,
    LIMIT,
    ORIGIN,
    RISING,
    STEADY,
    away,
    check_rows,
    journaled,
    load,
    observe,
    replayed,
    until_moved,
    written,
)
from tests.waiting import DEADLINE, asked_until

pytestmark = pytest.mark.slow

FLOOD: Final = [(5.0, 100.0), (115.0, 600.0)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=5, cores=1.0, spark=False) as started:
        yield started


def sharing(cluster: Cluster, plan: Plan, operator: str, owner: Application) -> Application:
    """Submit a plan that reads a stream of another application, as soon as the directory knows where that is."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        found = cluster.submit(plan, origin=ORIGIN)
        if found.explain().shared == {operator: (owner.id, operator)}:
            return found
        found.stop()
    pytest.fail(f"{operator} is not shared")


def moved_components(cluster: Cluster, application: Application) -> list[ComponentMoved]:
    return [event for event in journaled(cluster, ComponentMoved) if event.subject == application.id]


def check_moved_by_prediction(cluster: Cluster, application: Application, operator: str, hot: str) -> None:
    """The journal has the whole cause of the move: slack lost, a decision, a target that accepts, and its end."""
    (ended, *_) = [each for each in journaled(cluster, MigrationEnded) if each.subject == application.id]
    assert (ended.operator, ended.failure) == (operator, "")
    decided = next(each for each in journaled(cluster, MigrationDecided) if each.subject == application.id)
    assert decided.act
    assert f"{application.id}/{operator}" in decided.selected
    assert decided.remaining_rate < decided.rate
    cause = [each for each in journaled(cluster, HotSpotDetected) if (each.subject, each.operator) == decided.cause]
    detected = cause[0]
    assert detected.peer == decided.peer == ended.peer == cluster.peers[hot]
    assert detected.slack <= 0.0
    assert detected.slack == pytest.approx(detected.departure_limit - detected.age - detected.predicted)
    (answer, *_) = [
        each for each in journaled(cluster, MigrationAnswered) if each.subject == application.id and each.accepted
    ]
    assert (answer.operator, answer.target) == (operator, ended.target)
    assert ended.target in decided.candidates
    moved = next(each for each in moved_components(cluster, application) if each.to == ended.target)
    assert (moved.operator, moved.at) == (operator, ended.peer)


def test_a_rising_rate_alone_has_a_component_moved_and_both_keep_their_rows(cluster: Cluster, tmp_path: Path) -> None:
    even, risen = tmp_path / "even.parquet", tmp_path / "risen.parquet"
    wanted = written(even, STEADY), written(risen, RISING)
    first = cluster.submit(
        replayed(even, STEADY).delay(COST, id="slow").sink("even", delay=LIMIT, id="out"), origin=ORIGIN
    )
    hot = away(cluster, first, "slow")
    second = cluster.submit(load(risen, RISING, hot, LIMIT), origin=ORIGIN)
    until_moved(cluster, first)
    assert first.graph["slow"] != hot
    assert second.graph["slow"] == hot, "its plan places it there"
    for application, table in zip((first, second), wanted, strict=True):
        check_rows(application, table)
    check_moved_by_prediction(cluster, first, "slow", hot)
    assert not moved_components(cluster, second)
    text = str(first.explain())
    assert f"slow leaves {hot}" in text
    assert "hot spot after" in text


SPEED: Final = 75.0  # 20 minutes take 16 s


def pairs_of(application: Application) -> list[oracle.Row]:
    """Rows of a top-k that have come."""
    table = application.results(wait=False)
    return table.select("window_start", "window_end", "source", "destination", "total").rows() if table.height else []


def test_the_windows_of_a_top_k_leave_a_hot_spot_half_full_and_its_rows_are_those_of_duckdb(
    cluster: Cluster, tmp_path: Path
) -> None:
    rates = [(120.0, 300.0)]
    trace, other = tmp_path / "trace.parquet", tmp_path / "other.parquet"
    written(trace, rates, SPEED)
    written(other, FLOOD)
    packets = replayed(trace, rates, SPEED).filter("link = 'B'", at=ORIGIN)
    pairs = packets.project("source", "destination", "bytes", at=ORIGIN)
    sums = pairs.aggregate(["source", "destination"], "20 min", total="sum(bytes)", id="sums")
    number = sums.count(id="number", at=ORIGIN)
    top = sums.sort("total desc", id="ranked", at=ORIGIN).compare("total", "95 %", count=number, at=ORIGIN)
    first = cluster.submit(top.sink("top pairs", delay=LIMIT, id="out"), origin=ORIGIN)
    hot = away(cluster, first, "sums")
    second = cluster.submit(load(other, FLOOD, hot), origin=ORIGIN)
    until_moved(cluster, first)
    assert first.graph["sums"] != hot
    wanted = oracle.expected(
        path=str(trace), format="parquet", pair=("source", "destination"), where="link = 'B'", value="sum(bytes)",
        window=1200, fraction=0.95,
    )  # fmt: skip
    starts = sorted({row[0] for row in wanted})
    windows = len({row[0] for row in pairs_of(first)})
    least = sum(row[0] <= starts[windows] for row in wanted)  # with the window that was half full when it moved
    asked_until(lambda: len(pairs_of(first)) >= least)
    found = pairs_of(first)
    first.stop()
    check = oracle.compare(found, wanted[: len(found)])
    assert check.equal, check.difference
    second.stop()
    check_moved_by_prediction(cluster, first, "sums", hot)


def packets() -> Stream:
    """An endless stream, as only those are shared; its component of known cost may be anywhere."""
    return source("packets", seed=5, rate=200.0, id="packets", at=ORIGIN).delay("1 ms", id="slow")


def test_a_stream_of_two_applications_leaves_a_hot_spot_and_both_read_all_rows(
    cluster: Cluster, tmp_path: Path
) -> None:
    other = tmp_path / "other.parquet"
    written(other, FLOOD)
    first = cluster.submit(packets().sink("all", delay=LIMIT, id="out"), origin=ORIGIN)
    hot = away(cluster, first, "slow")
    first.head(1)
    large = packets().filter("bytes > 100", id="large", at=ORIGIN).sink("large", delay=LIMIT)
    second = sharing(cluster, large, "slow", first)
    third = cluster.submit(load(other, FLOOD, hot), origin=ORIGIN)
    until_moved(cluster, first)
    assert first.graph["slow"] == second.graph["slow"] != hot
    came = [int(each.qos()["tuples"]) for each in (first, second)]
    rows, read = first.head(came[0] + 500), second.head(came[1] + 100)
    for application in (second, first, third):
        application.stop()
    undisturbed = source("packets", seed=5, rate=200.0, speed=0.0, count=rows.height).sink("undisturbed")
    assert rows.equals(cluster.submit(undisturbed).results())
    passed = rows.filter((pl.col("bytes") > 100) & (pl.col("time") >= read["time"][0]))
    common = min(passed.height, read.height)
    assert common > came[1], "of them some came after the move"
    assert read.head(common).equals(passed.head(common))
    check_moved_by_prediction(cluster, first, "slow", hot)


def test_observing_peers_move_nothing(tmp_path: Path) -> None:
    with Cluster(peers=3, cores=1.0, spark=False, hotspots="observe") as cluster:
        observe(cluster, "observe", tmp_path, asked_until)
