"""One contract over all operators of the data path; their meaning is held to SQL in DuckDB."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl
import pytest

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.memory_shares import Memory, MemoryExceeded
from synergy_nb.dataflow.operators import aggregates, kinds
from synergy_nb.dataflow.operators.base import OperatorLogic
from synergy_nb.dataflow.tuples import END, Batch, Punctuation, decode_table, encode, encode_table
from synergy_nb.plan import source
from synergy_nb.plan.operators.catalogue import KINDS
from tests.feeding import accepted, drive, feed, fresh, micros, rows_of, through
from tests.operator_cases import CASES, EXACT, SECOND, built, expected, http_requests, results, top_pairs, wanted
from tests.quick_cases import quick_of_each

SEEDS = (0, 1)


def kind(name: str) -> str:
    """The kind of the operator of a case."""
    it = built(name)
    return it.plan.operators[it.operator].kind


NAMES = [*CASES, *EXACT]
ALL = quick_of_each(NAMES, kind)


def test_every_kind_of_operator_is_under_contract() -> None:
    covered = {kind(name) for name in CASES}
    assert covered == set(kinds()) == KINDS.keys() - {"source"}, "each has a declaration, a logic and a case"


@pytest.mark.parametrize("name", ALL)
def test_rows_equal_those_of_duckdb_however_the_input_is_cut(name: str) -> None:
    it = built(name)
    for seed, batch in ((0, 40), (2, 5000), (3, 1)):
        items = feed(it.tables, seed, batch)
        logic = it.fresh()
        assert results(it, drive(logic, items)) == wanted(name)
        assert logic.late == 0
        assert logic.ended
        assert logic.state_rows == 0, "nothing is kept after the end"


@pytest.mark.parametrize("name", ALL)
def test_late_tuples_are_dropped_and_counted(name: str) -> None:
    it = built(name)
    for seed in SEEDS:
        items = feed(it.tables, seed, 20, eager=0.4)
        tables, late = accepted(it.tables, items)
        logic = it.fresh()
        assert results(it, drive(logic, items)) == expected(it, tables)
        assert logic.late == late > 0


@pytest.mark.parametrize("name", ALL)
def test_a_restored_instance_goes_on_exactly(name: str) -> None:
    it = built(name)
    items = feed(it.tables, 4, 30, eager=0.1)
    first, given = it.fresh(), []
    at, wholes = 0, []
    for cut in (0, *sorted(random.Random(name).sample(range(1, len(items)), 2)), len(items)):
        given += [encode(item) for item in drive(first, items[at:cut])]
        at = cut
        second = it.fresh()
        second.restore(first.save())
        assert (second.late, second.position, second.watermark) == (first.late, first.position, first.watermark)
        assert second.state_rows == first.state_rows
        assert whole_tables(second) == whole_tables(first)
        wholes.append(given + [encode(item) for item in drive(second, items[cut:])])
    # the first has been restored from nothing, and was never saved
    assert all(whole == given for whole in wholes), "snapshots change nothing, and the same feed gives the same bytes"


def whole_tables(logic: OperatorLogic) -> dict[str, list[tuple[object, ...]]]:
    """The rows of the tables of a state, in their order."""
    return {name: pl.concat(parts).rows() for name, parts in logic.state().items()}


@pytest.mark.parametrize("name", ALL)
def test_tables_that_are_carried_over_between_saves_make_the_same_state(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps a copy takes only tables of numbers that it does not know, and goes on from them exactly."""
    monkeypatch.setattr(aggregates, "GATHERED", 20)  # rows come to partial results in many runs
    it = built(name)
    items = feed(it.tables, 7, 6, eager=0.1)
    whole = [encode(item) for item in drive(it.fresh(), items)]
    logic, given = it.fresh(), []
    kept: dict[int, bytes] = {}
    rng = random.Random(name)
    for number, item in enumerate(items):
        given += drive(logic, [item])
        if rng.random() < 0.5:
            continue
        saved = logic.save()
        kept = {number: kept.get(number) or encode_table(table) for number, table in saved.tables.items()}
        if rng.random() < 0.05:
            second = it.fresh()
            second.restore(SavedState(saved.head, {number: decode_table(data) for number, data in kept.items()}))
            rest = drive(second, items[number + 1 :])
            assert [encode(item) for item in given + rest] == whole
    assert [encode(item) for item in given] == whole, "saving changes nothing"


@pytest.mark.parametrize("name", quick_of_each((name for name in NAMES if built(name).case.stateful), kind))
def test_a_row_of_a_growing_state_is_saved_a_few_times_however_often_that_is_saved(name: str) -> None:
    it = built(name)
    logic = it.fresh()
    items = [(port, item) for port, item in feed(it.tables, 8, 6) if isinstance(item, Batch)]
    before: set[int] = set()
    saved_rows, rows = 0, 0
    for port, item in items:
        drive(logic, [(port, item)])
        rows += item.rows
        tables = logic.save().tables
        saved_rows += sum(table.height for number, table in tables.items() if number not in before)
        before = set(tables)
    assert saved_rows <= 5 * rows * len(logic.state())


@pytest.mark.parametrize("name", ALL)
def test_large_outputs_are_emitted_piece_by_piece(name: str) -> None:
    it = built(name)
    items = feed(it.tables, 1, 40)
    logic = it.fresh()
    logic.piece_bytes = 400
    assert results(it, drive(logic, items)) == wanted(name)


@pytest.mark.parametrize("name", ALL)
def test_bytes_of_the_state_are_those_of_its_tables(name: str) -> None:
    it = built(name)
    logic = it.fresh()
    for port, item in feed(it.tables, 6, 100):
        drive(logic, [(port, item)])
        tables = [table for parts in logic.state().values() for table in parts if table.height]
        literal = sum(table.estimated_size() for table in tables)
        text = sum(16 * table.height for table in tables for kind in table.dtypes if kind in (pl.String, pl.Binary))
        pieces = sum(table.width * table.n_chunks() for table in tables)
        assert literal <= logic.state_bytes <= literal + text + 1000 * pieces
        assert (logic.state_bytes > 0) == (logic.state_rows > 0)
    assert logic.state_bytes == 0, "nothing is kept after the end"


@pytest.mark.parametrize("name", ALL)
def test_rows_that_wait_to_be_reduced_count(name: str) -> None:
    it = built(name)
    logic = it.fresh()
    table = it.tables[0]
    drive(logic, [(0, Batch(table, 0, 0.0))])
    if "of rows" not in name and not it.case.lasting:
        assert (logic.state_bytes >= table.estimated_size()) == it.case.stateful
    twin = it.fresh()
    twin.restore(logic.save())
    assert 0.5 * logic.state_bytes <= twin.state_bytes <= 2.0 * logic.state_bytes


@pytest.mark.parametrize("name", ALL)
def test_no_item_needs_more_memory_than_estimated(name: str) -> None:
    it = built(name)
    logic = it.fresh()
    for port, item in feed(it.tables, 2, 100):
        before, needs = logic.state_bytes, logic.needs(port, item)
        made = [each.nbytes for each in drive(logic, [(port, item)]) if isinstance(each, Batch)]
        beside = 20_000  # what tables cost beside their values
        assert max(made, default=0) + max(logic.state_bytes - before, 0) <= needs + beside


@pytest.mark.parametrize("name", ALL)
def test_a_tiny_share_is_exceeded_by_name_and_a_large_one_is_not(name: str) -> None:
    it = built(name)
    kind = it.plan.operators[it.operator].kind
    for limit, fails in ((4_000, True), (100e6, False)):
        logic = it.fresh()
        share = Memory(limit).share("app", it.operator)
        share.kind = kind
        failure = ""
        try:
            for port, item in feed(it.tables, 6, 300):
                share.admit(logic.needs(port, item))
                drive(logic, [(port, item)])
                share.use(logic.state_bytes)
        except MemoryExceeded as error:
            failure = str(error)
        assert failure.startswith(f"out of memory: operator '{it.operator}' ({kind}) of application 'app'") == fails
        assert ("its share is 4 kB" in failure) == fails


@pytest.mark.parametrize("name", ALL)
def test_state_goes_with_the_windows_that_need_it(name: str) -> None:
    it = built(name)
    logic = it.fresh()
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
    assert (logic.state_rows > 0) == it.case.lasting


# -- real rows -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def http(real_data: Path) -> pl.DataFrame:
    """Real requests of a web server."""
    return http_requests(real_data)


def test_top_pairs_of_real_requests_equal_those_of_duckdb(http: pl.DataFrame) -> None:
    plan, answer = top_pairs(http)
    assert through(plan, "compare", {"source": http}).rows() == answer
    assert len(answer) > 100


@pytest.mark.slow
def test_real_requests_are_aggregated_equally_however_they_are_cut(http: pl.DataFrame) -> None:
    requests = source("trace", path="sdsc-http.txt.gz", format="http")
    plan = requests.aggregate(by=["directory"], window="10 min", n="count(*)", hosts="count(distinct host)").sink()
    whole = through(plan, "aggregate", {"source": http}).rows()
    for seed, batch in ((0, 100), (1, 3000)):
        logic = fresh(plan, "aggregate")
        assert rows_of(drive(logic, feed([http], seed, batch)), plan.schema("aggregate")) == whole
