"""One contract over all operators of the data path; their meaning is held to SQL in DuckDB."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from synergy_nb.dataflow.operators import kinds
from synergy_nb.dataflow.tuples import END, Punctuation, encode
from synergy_nb.plan import source
from tests.feeding import accepted, drive, feed, fresh, micros, rows_of, through
from tests.operator_cases import CASES, SECOND, built, expected, http_requests, numbered, results, top_pairs

SEEDS = (0, 1)


def test_every_kind_of_operator_is_under_contract() -> None:
    covered = {built(name).plan.operators[built(name).operator].kind for name in CASES}
    assert covered == set(kinds())


@pytest.mark.parametrize("name", CASES)
def test_rows_equal_those_of_duckdb_however_the_input_is_cut(name: str) -> None:
    it = built(name)
    wanted = expected(it, [numbered(table) for table in it.tables])
    assert wanted, "the case gives rows, or it would show nothing"
    for seed, batch in ((0, 40), (1, 40), (2, 5000), (3, 1)):
        items = feed(it.tables, seed, batch)
        logic = fresh(it.plan, it.operator)
        assert results(it, drive(logic, items)) == wanted
        assert logic.late == 0
        assert logic.ended
        assert logic.state_rows == 0, "nothing is kept after the end"


@pytest.mark.parametrize("name", CASES)
def test_late_tuples_are_dropped_and_counted(name: str) -> None:
    it = built(name)
    for seed in SEEDS:
        items = feed(it.tables, seed, 20, eager=0.4)
        tables, late = accepted(it.tables, items)
        logic = fresh(it.plan, it.operator)
        assert results(it, drive(logic, items)) == expected(it, tables)
        assert logic.late == late > 0


@pytest.mark.parametrize("name", CASES)
def test_a_restored_instance_goes_on_exactly(name: str) -> None:
    it = built(name)
    items = feed(it.tables, 4, 30, eager=0.1)
    whole = [encode(item) for item in drive(fresh(it.plan, it.operator), items)]
    rng = random.Random(name)
    for cut in (0, len(items), *rng.sample(range(1, len(items)), 2)):
        first, second = fresh(it.plan, it.operator), fresh(it.plan, it.operator)
        given = drive(first, items[:cut])
        snapshot = first.snapshot()
        second.restore(snapshot)
        assert (second.late, second.position, second.watermark) == (first.late, first.position, first.watermark)
        assert second.state_rows == first.state_rows
        assert second.snapshot() == snapshot
        rest = drive(second, items[cut:])
        assert [encode(item) for item in given + rest] == whole
        assert [encode(item) for item in given + drive(first, items[cut:])] == whole, "a snapshot changes nothing"


@pytest.mark.parametrize("name", CASES)
def test_the_same_feed_gives_the_same_bytes(name: str) -> None:
    it = built(name)
    items = feed(it.tables, 5, 30)
    runs = [[encode(item) for item in drive(fresh(it.plan, it.operator), items)] for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("name", CASES)
def test_state_goes_with_the_windows_that_need_it(name: str) -> None:
    it = built(name)
    logic = fresh(it.plan, it.operator)
    items = feed(it.tables, 6, 50)
    drive(logic, [(port, item) for port, item in items if getattr(item, "time", 0) != END])
    if "of rows" in name:  # rows of an unfinished count window wait for the next
        assert logic.state_rows < 40
        return
    after = max(max(micros(table)) for table in it.tables) + 60 * SECOND
    kept = logic.state_rows
    for port in range(logic.ports):
        logic.on_punctuation(port, Punctuation(after, 10**6, 0.0))
    assert (kept > 0) == it.case.stateful
    assert logic.state_rows == 0


# -- real rows -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def http(real_data: Path) -> pl.DataFrame:
    """Real requests of a web server."""
    return http_requests(real_data)


def test_top_pairs_of_real_requests_equal_those_of_duckdb(http: pl.DataFrame) -> None:
    plan, wanted = top_pairs(http)
    assert through(plan, "compare", {"source": http}).rows() == wanted
    assert len(wanted) > 100


def test_real_requests_are_aggregated_equally_however_they_are_cut(http: pl.DataFrame) -> None:
    requests = source("trace", path="sdsc-http.txt.gz", format="http")
    plan = requests.aggregate(by=["directory"], window="10 min", n="count(*)", hosts="count(distinct host)").sink()
    whole = through(plan, "aggregate", {"source": http}).rows()
    for seed, batch in ((0, 100), (1, 3000)):
        logic = fresh(plan, "aggregate")
        assert rows_of(drive(logic, feed([http], seed, batch)), plan.schema("aggregate")) == whole
