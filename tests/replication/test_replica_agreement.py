"""Active replicas agree: one contract over all operators, for inputs that arrive in other orders, cuts and promises."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any

import polars as pl
import pytest

from synergy_nb.dataflow.operators.base import create
from synergy_nb.dataflow.streams.replicas._sorted_input import SortedInput
from synergy_nb.dataflow.streams.replicas._tuple_words import canonical
from synergy_nb.dataflow.streams.replicas.duplicate_filter import DuplicateFilter
from synergy_nb.dataflow.tuples import Batch, Item
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.active_replicas import replicated
from synergy_nb.plan.derived.replica_agreement import stated_order
from synergy_nb.plan.operators.catalogue import KINDS
from tests import replica_schedules
from tests.feeding import Feed, drive, feed, fresh, micros
from tests.moving_schedules import packets
from tests.operator_cases import CASES, P, built
from tests.quick_cases import quick_of_each

SECOND = 1_000_000
REPLICAS = 4
FLOATS = (0.1, 0.2, 0.3, 1e16, -1e16, 0.0, -0.0, 5e-324, 1e-300, -2.5, 1e300, None)
ODD = (math.nan, math.inf, -math.inf, 1.7e308)
NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0123))[0]  # negative, with other bits than math.nan


def wild(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """The same tuples with floats whose sums depend on the order, and in some seconds NaN and infinities."""
    odd = {time // (20 * SECOND) for time in micros(table)[::60]}
    for name, kind in table.schema.items():
        if kind == pl.Float64:
            values = [
                rng.choice(ODD if time // (20 * SECOND) in odd and rng.random() < 0.05 else FLOATS)
                for time in micros(table)
            ]
            table = table.with_columns(pl.Series(name, values, dtype=pl.Float64))
    return table


def arrived(table: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """The same tuples in another order of arrival, with zeros of other signs and other NaNs."""
    late = rng.choice((2, 12)) * SECOND
    order = sorted(range(table.height), key=[time + rng.randint(0, late) for time in micros(table)].__getitem__)
    table = table.select(pl.all().gather(order))
    for name, kind in table.schema.items():
        if kind == pl.Float64:
            values = [
                rng.choice((0.0, -0.0)) if value == 0.0 else NAN if value is not None and math.isnan(value) else value
                for value in table[name]
            ]
            table = table.with_columns(pl.Series(name, values, dtype=pl.Float64))
    return table


def bits(row: Iterable[Any]) -> str:
    """A tuple by its bytes; 0.0 and -0.0 are one value to a duplicate filter, and so are all NaNs."""
    return repr([struct.pack("<d", each) if isinstance(each, float) else each for each in row])


def tuples(items: Iterable[Item]) -> list[str]:
    return sorted(bits(row) for item in items if isinstance(item, Batch) for row in canonical(item.table).rows())


class Replicas:
    """Replicas of an operator, each with an order of arrival, batches and punctuations of its own."""

    def __init__(self, plan: Plan, operator: str, tables: list[pl.DataFrame], seed: str = "") -> None:
        self.plan, self.operator = plan, operator
        self.feeds: list[Feed] = []
        rng = random.Random(seed or operator)
        for number in range(REPLICAS):
            mine = [arrived(table, rng) for table in tables]
            self.feeds.append(feed(mine, rng.randrange(10**9), (5, 40, 400, 60)[number]))
        self._outputs: dict[tuple[bool, bool], list[list[Item]]] = {}
        self.orders = {tuple(tuples_in_order(item for _, item in each)) for each in self.feeds}

    def outputs(self, sort: bool, exact: bool = True) -> list[list[Item]]:
        """What each of them emits, with or without sorted inputs; floats come as a duplicate filter passes them."""
        if (sort, exact) not in self._outputs:
            self._outputs[sort, exact] = list(self._run(sort, exact))
        return self._outputs[sort, exact]

    def _run(self, sort: bool, exact: bool) -> Iterator[list[Item]]:
        order = stated_order(self.plan, self.plan.operators[self.operator].inputs[0])
        for items in self.feeds:
            logic = fresh(self.plan, self.operator, exact=exact)
            held = [SortedInput(order) for _ in range(logic.ports)]
            given: list[Item] = []
            for port, item in items:
                passed = Batch(canonical(item.table), item.position, item.born) if isinstance(item, Batch) else item
                given += drive(logic, [(port, each) for each in (held[port].receive(passed) if sort else [passed])])
            yield given

    def results(self, sort: bool, exact: bool = True) -> list[list[str]]:
        """The tuples that each of them emits, in any order."""
        return [tuples(each) for each in self.outputs(sort, exact)]


def tuples_in_order(items: Iterable[Item]) -> list[str]:
    return [bits(row) for item in items if isinstance(item, Batch) for row in item.table.rows()]


@cache
def replicas(name: str) -> Replicas:
    it = built(name)
    rng = random.Random(name)
    return Replicas(it.plan, it.operator, [wild(table, rng) for table in it.tables], name)


def declared(name: str) -> tuple[bool, str]:
    operator = built(name).plan.operators[built(name).operator]
    return KINDS[operator.kind].replicas(operator.params)


def kind(name: str) -> str:
    """The kind of the operator of a case."""
    it = built(name)
    return it.plan.operators[it.operator].kind


@pytest.mark.parametrize("name", quick_of_each(CASES, kind))
def test_replicas_agree_and_those_that_are_to_sort_would_differ_without(name: str) -> None:
    agree, why = declared(name)
    assert not why.startswith("nothing states"), "it is declared"
    them = replicas(name)
    assert len(them.orders) == REPLICAS, "their inputs arrive in different orders"
    first, *others = them.results(sort=not agree)
    assert first, "there are results"
    assert all(each == first for each in others), why
    if not agree:
        assert len(set(map(tuple, them.results(sort=False)))) > 1, f"no sort is needed, although {why}"


@pytest.mark.parametrize("name", quick_of_each(CASES, kind))
def test_a_duplicate_filter_behind_the_replicas_passes_what_one_of_them_emits(name: str) -> None:
    outputs = replicas(name).outputs(sort=not declared(name)[0])
    wanted = tuples(outputs[0])
    merged = DuplicateFilter(map(str, range(REPLICAS)))
    rng = random.Random(name)
    passed: list[Item] = []
    left = [list(each) for each in outputs]
    while any(left):
        number = rng.choice([number for number, each in enumerate(left) if each])
        if (item := merged.receive(str(number), left[number].pop(0))) is not None:
            passed.append(item)
    assert tuples(passed) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aggregate tumbling", "aggregate of sessions", "aggregate that decays"])
def test_sums_of_floats_would_differ_if_they_were_not_exact(name: str) -> None:
    assert len(set(map(tuple, replicas(name).results(sort=False, exact=False)))) > 1


def test_the_logic_of_a_replica_sums_exactly_and_no_other_does() -> None:
    plan = source("python", name="s", columns={"x": "float"}).aggregate(window="1 s", total="sum(x)").sink()
    expanded = replicated(plan, 2)
    terms = [0.1, 0.2, 0.3, 1e16, -1e16]
    for order in (terms, terms[::-1]):
        table = pl.DataFrame({"time": range(5), "x": order}, schema_overrides={"time": pl.Datetime("us")})
        for replica in ("aggregate", "aggregate~1"):
            given = drive(create(expanded.operators[replica], expanded), feed([table], 0, 2))
            assert [item.table["total"].to_list() for item in given if isinstance(item, Batch)] == [[0.6]]
    assert not create(plan.operators["aggregate"], plan).context.exact


def test_both_kinds_are_among_the_cases() -> None:
    found = {KINDS[kind(name)].kind for name in CASES if not declared(name)[0]}
    assert found == {"aggregate", "sort", "distinct", "top", "percentile", "over", "sample", "encrypt"} | {
        "apply_windows",
        "apply_keyed",
    }
    assert all(any(declared(name)[0] for name in CASES if name.startswith(kind)) for kind in ("aggregate", "distinct"))


# -- the worked example of the paper -----------------------------------------------------------------------------------

UNION = {"first": [(0, "B", 80.0), (1, "B", 90.0), (0, "C", 50.0), (1, "C", 40.0)]}
UNION["second"] = [UNION["first"][at] for at in (2, 3, 0, 1)]


@pytest.mark.parametrize(("rows", "plain"), [(2, ([85.0, 45.0], [45.0, 85.0])), (3, ([220 / 3], [170 / 3]))])
def test_windows_of_rows_over_the_papers_union_agree_when_sorted(
    rows: int, plain: tuple[list[float], list[float]]
) -> None:
    """Replicas of figure 1's union emit in different orders; windows of rows then differ, and sorted ones do not."""
    columns = {"server": "str", "load": "float"}
    plan = (
        source("python", name="a", columns=columns)
        .union(source("python", name="b", columns=columns))
        .aggregate(window=f"{rows} rows", mean="avg(load)")
        .sink()
    )
    found: dict[bool, list[list[float]]] = {False: [], True: []}
    for order in UNION.values():
        kinds = {"time": pl.Int64(), "server": pl.String(), "load": pl.Float64()}
        table = pl.DataFrame(order, schema=kinds, orient="row").with_columns(pl.col("time").cast(pl.Datetime("us")))
        for sort in (False, True):
            logic, held = fresh(plan, "aggregate"), SortedInput()
            items: list[Item] = [item for _, item in feed([table], 1, 4)]
            given = drive(logic, [(0, each) for item in items for each in (held.receive(item) if sort else [item])])
            found[sort].append([mean for each in given if isinstance(each, Batch) for mean in each.table["mean"]])
    assert found[False] == [pytest.approx(each) for each in plain]
    assert found[True] == ([[65.0, 65.0]] * 2 if rows == 2 else [[pytest.approx(220 / 3)]] * 2)


@pytest.mark.parametrize(("rows", "by", "passed"), [(2, "", 2), (3, "", 2), (2, "server", 2)])
def test_a_filter_behind_the_papers_union_passes_too_many_windows_of_unsorted_replicas(
    rows: int, by: str, passed: int
) -> None:
    """Windows of two rows are equal as multisets, so two pass; of three there is one. By server nothing differs."""
    columns = {"server": "str", "load": "float"}
    one, other = (source("python", name=name, columns=columns) for name in "ab")
    plan = one.union(other).aggregate(by or [], window=f"{rows} rows", mean="avg(load)").sink()
    kinds = {"time": pl.Int64(), "server": pl.String(), "load": pl.Float64()}
    merged, found = DuplicateFilter(UNION), list[str]()
    for name, order in UNION.items():
        table = pl.DataFrame(order, schema=kinds, orient="row").with_columns(pl.col("time").cast(pl.Datetime("us")))
        for each in drive(fresh(plan, "aggregate"), feed([table], 1, 4)):
            item = merged.receive(name, each) if isinstance(each, Batch) else None
            found += tuples([] if item is None else [item])
    assert len(found) == passed


def jittered(rng: random.Random, delay: float) -> pl.DataFrame:
    """The union of two sources of 20 tuples, one a second each, as one replica receives it: each tuple is delayed."""
    rows = [(second * SECOND, name, second % 7 + (name == "b") / 2) for name in "ab" for second in range(20)]
    arrivals = [row[0] / SECOND + (rng.expovariate(1 / delay) if delay else 0.0) for row in rows]
    in_order = [row for _, row in sorted(zip(arrivals, rows, strict=True))]
    table = pl.DataFrame(
        in_order, schema={"time": pl.Int64(), "source": pl.String(), "load": pl.Float64()}, orient="row"
    )
    return table.with_columns(pl.col("time").cast(pl.Datetime("us")))


@pytest.mark.slow
@pytest.mark.parametrize(("delay", "least", "most"), [(0.0, 0, 0), (0.1, 1, 19), (0.3, 18, 20), (1.0, 20, 20)])
def test_windows_of_rows_over_jittered_sources_differ_without_a_sort(delay: float, least: int, most: int) -> None:
    """Toy 1 of the oracle: input that never differs. With delays of .3 s replicas differ in nearly all of 20 runs."""
    columns = {"source": "str", "load": "float"}
    plan = source("python", name="s", columns=columns).aggregate(window="5 rows", mean="avg(load)").sink()
    differ = {False: 0, True: 0}
    for seed in range(20):
        rng = random.Random(seed)
        tables = [jittered(rng, delay) for _ in range(2)]
        for sort in differ:
            found = []
            for table in tables:
                logic, held = fresh(plan, "aggregate", exact=True), SortedInput()
                items = [item for _, item in feed([table], seed, 15)]
                given = [(0, each) for item in items for each in (held.receive(item) if sort else [item])]
                found.append(tuples(drive(logic, given)))
            differ[sort] += found[0] != found[1]
    assert least <= differ[False] <= most
    assert differ[True] == 0


# -- plans -------------------------------------------------------------------------------------------------------------


def test_the_first_of_a_sorted_window_is_still_the_first() -> None:
    """As without replicas, ``distinct`` behind a sort selects the greatest of each group."""
    plan = P().sort("bytes desc", window="20 s").distinct("link").sink()
    it = built("sort").tables[0]
    them = Replicas(plan, "distinct", [alone(plan, "sort", [it])], "first")
    assert [tuples(alone_items(plan, [it]))] * REPLICAS == them.results(sort=True)


def alone(plan: Plan, operator: str, tables: list[pl.DataFrame]) -> pl.DataFrame:
    given = drive(fresh(plan, operator), feed(tables, 0))
    return pl.concat([item.table for item in given if isinstance(item, Batch)])


def alone_items(plan: Plan, tables: list[pl.DataFrame]) -> list[Item]:
    return drive(fresh(plan, "distinct"), feed([alone(plan, "sort", tables)], 0))


# -- on peers ----------------------------------------------------------------------------------------------------------


def floats(rng: random.Random) -> Plan:
    """An aggregate of floats over the union of two sources."""
    one = packets("s0", 0).union(packets("s1", 1), id="u")
    one = one.project("link", tenth="bytes * 0.1", share="1000.0 / (bytes + 1)", id="p")
    decay = rng.choice((None, "70 ms"))
    window = rng.choice(("200 ms every 50 ms", "15 ms gap", "9 rows"))
    return one.aggregate("link", window, mean="avg(tenth)", total="sum(share)", half_life=decay, id="x").sink(
        "out", id="out"
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_peers_whose_streams_and_replicas_fail_sum_floats_to_the_last_bit(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_schedules, "query", floats)
    monkeypatch.setattr(replica_schedules, "create", partial(create, exact=True))  # for the rows that are expected
    replica_schedules.run(seed)
