"""Exact sums of floats, held to fractions."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction

import polars as pl
import pytest

from synergy_nb.dataflow.operators import _exact_sums as exact_sums
from synergy_nb.dataflow.operators import exact_code
from synergy_nb.dataflow.operators._exact_sums import COLUMNS, merged_limbs, rounded, split
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.active_replicas import replicated

INF, NAN = math.inf, math.nan
LEAST = 5e-324
MOST = 1.7976931348623157e308


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact sums by compiled code, and as while it is being loaded."""
    if request.param == "plain":
        monkeypatch.setattr(exact_sums, "sum_code", lambda: exact_code.PLAIN)


def table_of(groups: list[list[float]]) -> pl.DataFrame:
    rows = [(group, term) for group, terms in enumerate(groups) for term in terms]
    return pl.DataFrame(rows, schema={"group": pl.Int64(), "term": pl.Float64()}, orient="row")


def sums(groups: list[list[float]], parts: int = 1) -> list[float]:
    """The sum of each group, of which each part is reduced alone."""
    table = table_of(groups)
    limbs = [split(table[part::parts], "term", ["group"]) for part in range(parts)]
    merged = merged_limbs(pl.concat(limbs).lazy(), ["group"]).collect()
    found = dict(rounded(merged.lazy(), ["group"], "sum", merged.height).rows())
    assert found == dict(rounded(pl.concat(limbs).lazy(), ["group"], "sum", 0).rows()) or any(
        map(math.isnan, found.values())
    )
    return [found[group] for group in range(len(groups))]


def literally(terms: list[float]) -> float:
    total = sum(map(Fraction, terms))
    try:
        return float(total)
    except OverflowError:
        return math.copysign(INF, total)


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        ([0.1, 0.2, 0.3, 1e16, -1e16], 0.6),
        ([1e308, 1e308, -1e308], 1e308),
        ([MOST, MOST], INF),
        ([-MOST, -MOST], -INF),
        ([MOST, 2.0**969], MOST),
        ([MOST, 2.0**970], INF),
        ([INF, 1.0], INF),
        ([-INF, MOST], -INF),
        ([INF, -INF], NAN),
        ([NAN, 1.0, INF], NAN),
        ([LEAST] * 3, 1.5e-323),
        ([2.0**-1022, -LEAST], 2.0**-1022 - LEAST),
        ([1.0, 2.0**-53], 1.0),
        ([1.0, 2.0**-53, LEAST], 1.0 + 2.0**-52),
        ([1.0 + 2.0**-52, 2.0**-53], 1.0 + 2.0**-51),
        ([-0.0, -0.0], 0.0),
        ([3.0, -3.0], 0.0),
    ],
)
def test_sums_of_hard_terms_in_every_order(terms: list[float], total: float) -> None:
    rng = random.Random(0)
    for parts in (1, 2, 5):
        (found,) = sums([rng.sample(terms, len(terms))], parts)
        assert struct.pack("<d", found) == struct.pack("<d", total)


def a_float(rng: random.Random) -> float:
    choice = rng.random()
    if choice < 0.3:
        return rng.uniform(-1, 1) * 10.0 ** rng.randint(-5, 5)
    if choice < 0.6:
        bits = rng.getrandbits(64)
        return float(struct.unpack("<d", struct.pack("<Q", bits if bits >> 52 & 0x7FF != 0x7FF else 0))[0])
    if choice < 0.8:
        return rng.choice([LEAST, -LEAST, 2.0**-1022, 1.0, 2.0**53, 1e16, -1e16, 2.0**-53, -(2.0**-54), 1 + 2.0**-52])
    return float(rng.randint(-10, 10)) * 2.0 ** rng.randint(-1074, 1010)


@pytest.mark.slow
def test_random_sums_equal_fractions_rounded_once_however_they_are_divided() -> None:
    rng = random.Random(1)
    groups = [[a_float(rng) for _ in range(rng.randint(1, 20))] for _ in range(3000)]
    wanted = list(map(literally, groups))
    for parts in (1, 3, 17):
        assert sums(groups, parts) == wanted
    assert [math.fsum(terms) for terms in groups[:200] if max(map(abs, terms)) < 1e300] == [
        total for terms, total in zip(groups[:200], wanted, strict=False) if max(map(abs, terms)) < 1e300
    ]


def test_a_group_has_a_row_for_each_scale_that_occurs() -> None:
    limbs = split(table_of([[0.001, 0.1, 1000.0, 99999.0], [1e-300, 1.0, 1e300, INF], []]), "term", ["group"])
    assert dict(limbs.group_by("group").len().rows()) == {0: 1, 1: 4}
    assert limbs.columns == ["group", *COLUMNS]


def test_limbs_do_not_overflow_however_often_they_are_merged() -> None:
    """Sums double 42 times: four times 2**42 terms, of which the limbs of 2**31 fit without a carry."""
    terms = [0.1, -3.7, 1e-9, 123456.789]
    limbs = split(table_of([terms]), "term", ["group"])
    for _ in range(42):
        limbs = merged_limbs(pl.concat([limbs, limbs]).lazy(), ["group"]).collect()
    (found,) = rounded(limbs.lazy(), ["group"], "sum", limbs.height)["sum"]
    assert found == float(sum(map(Fraction, terms)) * 2**42)


def test_groups_may_have_null_and_nan_keys() -> None:
    keys = [None, NAN, None, NAN, 0.0, -0.0]
    table = pl.DataFrame({"key": keys, "term": [1.0, 2.0, 0.5, 0.25, 4.0, 8.0]})
    found = rounded(split(table, "term", ["key"]).lazy(), ["key"], "sum", 6)
    assert sorted(found["sum"].to_list()) == [1.5, 2.25, 12.0]


def test_a_sum_skips_nulls_and_a_group_of_nulls_alone_has_none() -> None:
    table = pl.DataFrame({"key": [1, 1, 2], "term": [None, 1.5, None]}, schema={"key": pl.Int64, "term": pl.Float64})
    assert rounded(split(table, "term", ["key"]).lazy(), ["key"], "sum", 1).rows() == [(1, 1.5)]


@pytest.mark.parametrize(
    ("values", "half_life", "factor"),
    [
        ({"n": "count(*)", "total": "sum(bytes)", "most": "max(share)"}, None, 1.0),
        ({"total": "sum(share)"}, None, 1.94),
        ({"total": "sum(share)", "mean": "avg(share)", "half": "sum(bytes / 2)"}, None, 3.14),
        ({"n": "count(*)"}, "5 s", 3.4),
    ],
)
def test_admission_counts_what_exact_sums_cost(values: dict[str, str], half_life: str | None, factor: float) -> None:
    def plan(availability: str | None, cost: str | None = None) -> Plan:
        shares = source("packets", seed=1, rate="100 tuples/s").project("link", "bytes", share="bytes / 1500.0", id="p")
        sums = shares.aggregate("link", "1 s", id="x", values=values, cost=cost, half_life=half_life)
        return sums.sink("out", availability=availability)

    alone, active = plan(None), plan("active 2")
    assert active.processing_time("x") == pytest.approx(factor * alone.processing_time("x"))
    assert active.load("x") == pytest.approx(factor * alone.load("x"))
    assert replicated(active, 2).load("x~1") == pytest.approx(active.load("x"))
    assert active.load("p") == alone.load("p")
    assert plan("active 2", "1 ms").processing_time("x") == plan(None, "1 ms").processing_time("x") == 1e-3
