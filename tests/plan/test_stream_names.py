"""Equal work has equal names: what analysts write in different ways, and what only looks alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import polars as pl
import pytest

from synergy_nb.dataflow._expressions import compile_expression
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.derived.stream_sharing import reduced
from synergy_nb.plan.sql import conditions, sql
from tests.moving_schedules import table, undisturbed

PACKETS = source("packets", id="p")
OTHERS = source("packets", seed=1, id="q")
MORE = source("packets", seed=2, id="r")

#: Streams with the same rows: each of a group has the name of the first.
SAME: Mapping[str, tuple[Stream, ...]] = {
    "two filters": (
        PACKETS.filter("bytes > 100 AND link = 'B'"),
        PACKETS.filter("bytes > 100").filter("link = 'B'"),
        PACKETS.filter("link = 'B'").filter("bytes > 100"),
        PACKETS.filter("bytes > 100").filter("bytes > 100 AND link = 'B'"),
    ),
    "three filters": (
        PACKETS.filter("bytes > 100 AND link = 'B' AND source_port < 9"),
        PACKETS.filter("source_port < 9").filter("bytes > 100").filter("link = 'B'"),
        PACKETS.filter("source_port < 9 AND link = 'B'").filter("bytes > 100"),
    ),
    "a condition with OR": (
        PACKETS.filter("(bytes > 100 OR link = 'B') AND source_port < 9"),
        PACKETS.filter("link = 'B' OR bytes > 100").filter("source_port < 9"),
    ),
    "a bound within another": (
        PACKETS.filter("bytes > 100"),
        PACKETS.filter("bytes > 3").filter("bytes > 100"),
        PACKETS.filter("bytes > 100 AND bytes >= 50"),
        PACKETS.filter("bytes > 100 AND bytes <> 7"),
    ),
    "between": (
        PACKETS.filter("bytes BETWEEN 40 AND 100"),
        PACKETS.filter("bytes >= 40").filter("bytes <= 100"),
        PACKETS.filter("NOT (bytes < 40 OR bytes > 100)"),
    ),
    "one value": (
        PACKETS.filter("bytes = 40"),
        PACKETS.filter("bytes IN (40)"),
        PACKETS.filter("bytes >= 40").filter("bytes <= 40"),
        PACKETS.filter("bytes IN (40, 50)").filter("bytes IN (30, 40)"),
        PACKETS.filter("bytes IN (40, 50)").filter("bytes < 45"),
        PACKETS.filter("bytes IN (40, 50) AND bytes <> 50"),
    ),
    "one of several": (
        PACKETS.filter("link IN ('A', 'B')"),
        PACKETS.filter("link = 'A' OR link = 'B'"),
        PACKETS.filter("link IN ('B', 'C', 'A')").filter("link <> 'C'"),
    ),
    "none of several": (
        PACKETS.filter("link NOT IN ('A', 'B')"),
        PACKETS.filter("link <> 'A'").filter("link <> 'B'"),
        PACKETS.filter("link <> 'B' AND link <> 'A'"),
    ),
    "always true": (PACKETS, PACKETS.filter("TRUE"), PACKETS.filter("TRUE OR TRUE").filter("true")),
    "true beside another": (PACKETS.filter("bytes > 9"), PACKETS.filter("bytes > 9 AND TRUE")),
    "never true": (
        PACKETS.filter("FALSE"),
        PACKETS.filter("NULL"),
        PACKETS.filter("bytes > 9").filter("bytes < 5"),
        PACKETS.filter("link = 'A'").filter("link = 'B'"),
        PACKETS.filter("bytes > 9 AND bytes <= 9"),
    ),
    "a filter behind a projection": (
        PACKETS.filter("bytes > 100").project("link", "bytes"),
        PACKETS.project("link", "bytes").filter("bytes > 100"),
        PACKETS.filter("bytes > 3").project("link", "bytes").filter("bytes > 100"),
    ),
    "a filter by another name of a column": (
        PACKETS.filter("bytes > 100").project(size="bytes"),
        PACKETS.project(size="bytes").filter("size > 100"),
        PACKETS.project("link", size="bytes").filter("100 < size").project("size"),
    ),
    "a filter by time": (
        PACKETS.filter("time > TIMESTAMP '2026-01-01'").project("link"),
        PACKETS.project("link").filter("time > TIMESTAMP '2026-01-01'"),
    ),
    "two projections": (
        PACKETS.project("link"),
        PACKETS.project("link", "bytes").project("link"),
        PACKETS.project("bytes", "link").project("link"),
        PACKETS.project("link", kB="bytes / 1000").project("link"),
    ),
    "renamed twice": (
        PACKETS.project(size="bytes"),
        PACKETS.project(n="bytes").project(size="n"),
    ),
    "computed of what was selected": (
        PACKETS.project(kB="bytes / 1000"),
        PACKETS.project("link", "bytes").project(kB="bytes / 1000"),
        PACKETS.project(n="bytes").project(kB="n / 1000"),
    ),
    "a projection that changes nothing": (
        PACKETS,
        PACKETS.project("link", "source", "destination", "source_port", "destination_port", "bytes"),
    ),
    "unions of unions": (
        PACKETS.union(OTHERS, MORE),
        PACKETS.union(OTHERS).union(MORE),
        MORE.union(PACKETS.union(OTHERS)),
        PACKETS.union(MORE).filter("TRUE").union(OTHERS),
    ),
    "an aggregate behind a projection": (
        PACKETS.filter("bytes > 9").aggregate("link", "1 s", n="sum(bytes)"),
        PACKETS.filter("bytes > 9").project("link", "bytes").aggregate("link", "1 s", n="sum(bytes)"),
        PACKETS.project("bytes", "link", kB="0.5").filter("bytes > 9").aggregate("link", "1 s", n="sum(bytes)"),
    ),
    "a count behind a projection": (
        PACKETS.count(window="1 s"),
        PACKETS.project("link").count(window="1 s"),
    ),
    "having": (
        PACKETS.aggregate("link", "1 s", n="count(*)").filter("n > 3 AND n < 9"),
        PACKETS.aggregate("link", "1 s", n="count(*)").filter("n > 3").filter("n < 9"),
    ),
}  # fmt: skip

#: Streams with other rows than all others.
OTHER: tuple[Stream, ...] = (
    PACKETS.filter("bytes > 100").filter("link = 'A'"),
    PACKETS.filter("bytes > 100 OR link = 'A'"),
    PACKETS.filter("bytes > 100").project("bytes", "link"),
    PACKETS.project(bytes="source_port").filter("bytes > 100"),
    PACKETS.project(bytes="bytes + 1").filter("bytes > 100"),
    PACKETS.project(bytes="bytes + 1").project(bytes="bytes + 1"),
    PACKETS.project(a="bytes", bytes="source_port").project(bytes="a", a="bytes"),
    PACKETS.project(a="source_port", bytes="bytes").project(bytes="a", a="bytes"),
    PACKETS.filter("link = 'bytes > 9 AND link'"),
    PACKETS.filter("bytes > 9").sample("50 %"),
    PACKETS.sample("50 %").filter("bytes > 9"),
    PACKETS.distinct("link", window="1 s").filter("bytes > 9"),
    PACKETS.filter("bytes > 9").distinct("link", window="1 s"),
    PACKETS.project("link", "bytes").distinct(window="1 s"),
    PACKETS.union(OTHERS),
    PACKETS.union(OTHERS, OTHERS.filter("TRUE", id="again")),
    PACKETS.union(OTHERS).filter("bytes > 9").union(OTHERS),
    PACKETS.filter("bytes > 9").union(OTHERS),
    PACKETS.project("link", bytes="bytes + 1").aggregate("link", "1 s", n="sum(bytes)"),
    PACKETS.project(link="destination", bytes="bytes").aggregate("link", "1 s", n="sum(bytes)"),
    PACKETS.aggregate("link", "1 s", n="count(*)").filter("n > 3"),
    PACKETS.filter("bytes > 3").aggregate("link", "1 s", n="count(*)"),
)


def name(stream: Stream) -> str:
    return stream.sink(id="out").stream_name("out")


@pytest.mark.parametrize("why", SAME)
def test_what_has_the_same_rows_has_the_same_name(why: str) -> None:
    assert {name(stream) for stream in SAME[why]} == {name(SAME[why][0])}


def test_what_has_other_rows_has_another_name() -> None:
    names = [*map(name, OTHER), *{name(streams[0]) for streams in SAME.values()}]
    assert len(set(names)) == len(names), sorted(each for each in names if names.count(each) > 1)


@pytest.mark.slow
@pytest.mark.parametrize("why", SAME)
def test_what_has_the_same_name_has_the_same_rows(why: str) -> None:
    rng = random.Random(why)
    inputs = {each: table(rng) for each in "pqr"}

    def rows(stream: Stream) -> tuple[list[str], list[tuple[object, ...]]]:
        plan = stream.sink(id="out")
        made = undisturbed(plan, {each: inputs[each] for each in plan.sources})
        return list(plan.schema("out")), sorted(made.rows())

    first, *others = map(rows, SAME[why])
    assert all(each == first for each in others)


def test_the_name_is_that_of_a_projection_of_a_filter() -> None:
    stream = PACKETS.project("link", size="bytes").filter("size > 3").filter("size < 9 OR link = 'A'")
    condition = "bytes < 9 OR link = 'A'"
    assert name(stream) == f"project[columns={{link, size: bytes}}](filter[({condition}) AND bytes > 3](packets))"


def test_what_an_operator_itself_does_has_a_name_for_its_profile() -> None:
    """Of two filters the second has another selectivity than one filter with both conditions."""
    plan = PACKETS.filter("bytes > 100", id="large").filter("link = 'B'", id="here").sink(id="out")
    assert plan.stream_name("here") == "filter[bytes > 100 AND link = 'B'](packets)"
    assert plan.work_name("here") == "filter[link = 'B'](filter[bytes > 100](packets))"
    assert [plan.work_name(each) for each in ("p", "large", "out")] == [
        plan.stream_name(each) for each in ("p", "large", "out")
    ]


BEHIND: Mapping[str, Callable[[Stream], Stream]] = {
    "filter": lambda stream: stream.filter("bytes > 9"),
    "projection": lambda stream: stream.project("link"),
    "union": lambda stream: stream.union(OTHERS.project("link", "bytes")),
    "aggregate": lambda stream: stream.aggregate("link", "1 s", n="sum(bytes)"),
}


@pytest.mark.parametrize("why", BEHIND)
def test_what_is_made_of_a_running_stream_has_the_name_that_it_has_in_the_whole_plan(why: str) -> None:
    before = PACKETS.filter("bytes > 3", id="f").project("link", "bytes", id="here")
    plan = BEHIND[why](before).sink(id="out")
    left = reduced(plan, {"here": {"peer-1": ("a", "x")}})
    for known in (left, Plan.from_bytes(left.to_bytes())):
        assert "f" not in known.operators
        assert all(known.stream_name(each) == plan.stream_name(each) for each in known.operators)


# -- conjunctions ------------------------------------------------------------------------------------------------------

SCHEMA = {"a": "int", "b": "int", "x": "float", "s": "str", "t": "time", "ok": "bool"}
ATOMS = (
    "a > 1", "a >= 2", "a < 4", "a <= 3", "a = 2", "a IN (1, 2, 3)", "a <> 2", "a NOT IN (1, 3)", "a > 2.5", "a = b",
    "x > 1.5", "x <= 1.5", "x = 1.5", "x <> 1", "x < -1", "s = 'p'", "s IN ('p', 'q')", "s <> 'p'", "s > 'o'",
    "s LIKE 'p%'", "s = 'a AND b'", "ok", "NOT ok", "a IS NULL", "a IS NOT NULL", "a > 1 OR s = 'p'",
    "a IN (1, NULL)", "a NOT IN (1, NULL)", "(a < 2 OR ok) AND x > 0", "CASE WHEN a > 1 AND ok THEN x ELSE 2.0 END > 1",
    "a + b > 3", "abs(a - 3) < 2", "b % 2 = 0", "t > TIMESTAMP '1970-01-01 00:00:01'", "TRUE", "FALSE", "NULL",
)  # fmt: skip


def rows() -> pl.DataFrame:
    rng = random.Random(3)
    ints: list[int | None] = [None, -5, 0, 1, 2, 3, 4, 5]
    floats = [None, float("nan"), float("inf"), -2.0, 0.0, 1.0, 1.5, 2.0]
    return pl.DataFrame(
        {
            "a": pl.Series([rng.choice(ints) for _ in range(400)], dtype=pl.Int64),
            "b": pl.Series([rng.choice(ints) for _ in range(400)], dtype=pl.Int64),
            "x": pl.Series([rng.choice(floats) for _ in range(400)], dtype=pl.Float64),
            "s": [rng.choice([None, "", "p", "pp", "q", "a AND b"]) for _ in range(400)],
            "t": pl.Series([rng.choice([None, 1, 2_000_000]) for _ in range(400)], dtype=pl.Datetime("us")),
            "ok": [rng.choice([None, True, False]) for _ in range(400)],
        }
    )


def passing(table: pl.DataFrame, text: str) -> list[int]:
    kept = table.with_columns(compile_expression(text, SCHEMA).alias("kept")).get_column("kept")
    return [number for number, each in enumerate(kept.to_list()) if each]


@pytest.mark.slow
def test_a_conjunction_keeps_the_tuples_that_all_its_conditions_keep_and_implications_hold() -> None:
    rng, known = random.Random(7), rows()
    texts = [sql.canonical(each, SCHEMA) for each in ATOMS]
    kept = {each: set(passing(known, each)) for each in texts}
    implied = 0
    for _ in range(400):
        several = [rng.choice(texts) for _ in range(rng.randint(1, 4))]
        form = conditions.conjunction(several)
        wanted = set(range(known.height)).intersection(*(kept[each] for each in several))
        assert set(passing(known, conditions.joined(form))) == wanted, (several, form)
        assert conditions.conjunction([conditions.joined(form)]) == form == conditions.conjunction(reversed(several))
        other = conditions.conjunction(rng.sample(texts, rng.randint(1, 2)))
        if conditions.implies(form, other):
            implied += 1
            assert wanted <= set(passing(known, conditions.joined(other))), (form, other)
    assert implied > 20


def test_what_a_parser_makes_of_a_conjunction_is_the_conjunction() -> None:
    rng = random.Random(11)
    for _ in range(60):
        several = [rng.choice(ATOMS) for _ in range(rng.randint(1, 3))]
        together = sql.canonical(" AND ".join(f"({each})" for each in several), SCHEMA)
        form = conditions.conjunction(sql.canonical(each, SCHEMA) for each in several)
        assert conditions.conjunction([together]) == form
        assert sql.canonical(conditions.joined(form), SCHEMA) == conditions.joined(form)


@pytest.mark.parametrize(
    ("given", "wanted", "holds"),
    [
        ("a > 5", "a > 3", True),
        ("a > 5", "a >= 5", True),
        ("a >= 5", "a > 5", False),
        ("a = 1", "a IN (1, 2)", True),
        ("a IN (1, 2)", "a = 1", False),
        ("a = 4", "a > 3 AND a < 9", True),
        ("a > 5 AND s = 'p'", "s IN ('p', 'q')", True),
        ("a > 5", "a > 5 AND s = 'p'", False),
        ("a = 1", "a <> 2", True),
        ("a > 5", "b > 3", False),
        ("x > 2.5", "x > 2", True),
        ("FALSE", "a > 3", True),
        ("a > 3", "TRUE", True),
        ("a > 9007199254740993", "a > 9007199254740992", False),  # not known: floats do not tell them apart
    ],
)
def test_what_implies_what(given: str, wanted: str, *, holds: bool) -> None:
    assert conditions.implies([sql.canonical(given, SCHEMA)], [sql.canonical(wanted, SCHEMA)]) is holds


def test_having_names_the_stream_as_a_filter_behind_the_aggregate_does() -> None:
    packets = source("packets", seed=1)
    whole = packets.aggregate("link", "1 s", n="count(*)")
    having = packets.aggregate("link", "1 s", n="count(*)", having="10 < n").sink()
    assert having.stream_name("sink") == whole.filter("n > 10").sink().stream_name("sink")
    assert having.stream_name("sink") != whole.sink().stream_name("sink")
