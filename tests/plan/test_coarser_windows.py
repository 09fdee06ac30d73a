"""Aggregates of coarser windows are made of finer ones that run: of which, and with the same rows."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.tuples import TYPES, Item
from synergy_nb.plan import Plan, PlanError, plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.plan.checks.validation import Checked
from synergy_nb.plan.derived.coarser_windows import FinerWindows, finer_streams, read_windows, stated_windows
from synergy_nb.plan.derived.stream_containment import Container, write_parts
from synergy_nb.plan.derived.stream_sharing import reduced
from synergy_nb.plan.operators.sources import NEXMARK, WITHOUT_NULL
from synergy_nb.testing import drive, feed, run
from synergy_nb.testing._running import table_of

PACKETS = source("packets", id="p")
COLUMNS = {"link": "str", "port": "int", "bytes": "int", "weight": "float"}
ROWS = source("python", name="rows", columns=COLUMNS, id="p")  # any of its values may be NULL
CALLS = ("count(*)", "count(bytes)", "sum(bytes)", "min(bytes)", "max(weight)", "max(link)", "min(time)")


def stated(stream: Stream) -> dict[str, list[FinerWindows]]:
    plan = stream.sink()
    part = stated_windows(plan, plan.upstream("sink")[0])
    return {} if part is None else {part.base: read_windows(write_parts([part.value]))}


def of(coarse: Stream, finer: Stream) -> tuple[Container, ...]:
    found, _ = finer_streams(coarse.sink(), stated(finer))
    return next(iter(found.values()), ())


def why_not(coarse: Stream, finer: Stream) -> str:
    found, unfit = finer_streams(coarse.sink(), stated(finer))
    assert not found
    return next((why for _, why in unfit.values()), "")


def fine(by: Any = ("link",), window: Any = "1 s", over: Stream = PACKETS, **values: str) -> Stream:
    return over.aggregate(by, window, values=values or {"n": "count(*)", "total": "sum(bytes)"}, id="fine")


def coarse(
    by: Any = (), window: Any = "5 s", over: Stream = PACKETS, having: str | None = None, **values: str
) -> Stream:
    return over.aggregate(by, window, values=values or {"n": "count(*)"}, having=having, id="coarse")


@pytest.mark.parametrize(
    ("window", "left"),
    [
        ("5 s", "combines windows of 1 s: n of n"),
        ("10 s every 5 s", "combines windows of 1 s: n of n"),
        ("1 s", "combines groups: n of n"),
    ],
)
def test_a_window_of_whole_finer_ones_is_made_of_them(window: str, left: str) -> None:
    assert [each.left for each in of(coarse(window=window), fine())] == [left]


@pytest.mark.parametrize(
    ("finer", "own"),
    [
        (fine(window="2 s"), coarse()),
        (fine(window="2 s"), coarse(window="4 s every 1 s")),
        (fine(window="2 s every 1 s"), coarse(window="10 s")),
        (fine(), coarse(window="1500 ms")),
        (fine(), coarse(window="2 s gap")),
        (fine(), coarse(window="20 rows")),
        (fine(window="5 rows"), coarse(window="20 rows")),
        (fine(window="2 s gap"), coarse(window="2 s gap")),
        (fine(), coarse(by="source")),
        (fine(), coarse(over=source("packets", seed=1))),
        (fine(over=PACKETS.filter("bytes > 9")), coarse()),
        (fine(), coarse(over=PACKETS.filter("bytes > 9"))),
        (PACKETS.aggregate("link", "1 s", n="count(*)", having="n > 3"), coarse()),
        (PACKETS.aggregate("link", "1 s", n="count(*)", half_life="1 s"), coarse()),
        (fine(), PACKETS.aggregate((), "5 s", n="count(*)", half_life="1 s")),
        (fine(), fine()),
    ],
)
def test_other_windows_groups_or_rows_are_made_of_the_input(finer: Stream, own: Stream) -> None:
    assert not of(own, finer)
    assert not why_not(own, finer), "the stream is none that a user would expect it to read"


@pytest.mark.parametrize(
    ("call", "values", "why"),
    [
        ("avg(bytes)", {"mean": "avg(bytes)"}, "avg(bytes) needs sum(bytes) and count(bytes) among its values"),
        ("sum(bytes)", {"n": "count(*)"}, "sum(bytes) is not among its values"),
        ("count(DISTINCT source)", {"k": "count(DISTINCT source)"},
         "count(DISTINCT source) of a whole does not follow from those of its parts"),
        ("stddev_samp(bytes)", {"k": "stddev_samp(bytes)"},
         "stddev_samp(bytes) of a whole does not follow from those of its parts"),
    ],
)  # fmt: skip
def test_values_that_do_not_suffice_are_told(call: str, values: dict[str, str], why: str) -> None:
    assert why_not(coarse(k=call), fine(over=PACKETS, **values)) == why


def test_sums_of_floats_and_sums_that_may_be_of_nothing_are_told() -> None:
    of_floats = fine(over=ROWS, w="sum(weight)", n="count(weight)")
    digits = "the last digits of sum(weight) depend on how floats are added up"
    assert why_not(coarse(over=ROWS, w="sum(weight)"), of_floats) == digits
    assert "depend on how floats" in why_not(coarse(over=ROWS, w="avg(weight)"), of_floats)
    needs = "sum(bytes) needs count(bytes), as a sum is NULL without values and beyond 64 bits"
    assert why_not(coarse(over=ROWS, k="sum(bytes)"), fine(over=ROWS)) == needs
    for witness in ("count(bytes)", "min(bytes)", "avg(bytes)"):
        assert of(coarse(over=ROWS, k="sum(bytes)"), fine(over=ROWS, total="sum(bytes)", some=witness))
    assert of(coarse(k="sum(bytes)"), fine(total="sum(bytes)")), "packets have no NULL"


@pytest.mark.parametrize(
    "every",
    [
        source("packets", count=500, flags=True, id="p"),
        *(source("nexmark", table=table, count=1000, id="p") for table in NEXMARK),
    ],
)
def test_sources_that_are_said_to_have_no_null_have_none(every: Stream) -> None:
    assert every.sink().operators["p"].params["connector"] in WITHOUT_NULL
    assert not sum(run(every).null_count().row(0))


def test_whatever_has_one_finer_result_takes_it_as_it_is() -> None:
    finer = fine(over=ROWS, w="sum(weight)", mean="avg(bytes)", d="count(DISTINCT port)")
    (found,) = of(fine(over=ROWS, x="sum(weight) / avg(bytes)", d="count(DISTINCT port)"), finer)
    assert found.rewritten["fine"].params["values"] == {"x": "max(w) / max(mean)", "d": "max(d)"}


def test_what_is_asked_of_a_group_column_needs_no_value() -> None:
    (found,) = of(coarse(k="count(DISTINCT link)", last="max(link)"), fine(n="count(*)"))
    assert found.rewritten["coarse"].params["values"] == {"k": "count(DISTINCT link)", "last": "max(link)"}


def test_the_nearest_comes_first() -> None:
    known = [fine(("link", "source"), "1 s"), fine("link", "5 s"), fine(("link", "source"), "5 s"), fine("link", "2 s")]
    parts = [part for each in known for several in stated(each).values() for part in several]
    found, _ = finer_streams(coarse(window="10 s").sink(), {"packets": parts})
    windows = [(each.window or {})["length"] for each in found["coarse"]]
    assert windows == [5.0, 5.0, 2.0, 1.0]
    assert "by=[link]," in found["coarse"][0].form.name


def test_a_condition_on_a_group_is_tested_behind_the_finer_windows() -> None:
    own = coarse(over=PACKETS.filter("link = 'A'", id="a").project("bytes", "link", id="q"))
    plan = own.sink(id="out")
    (found,) = of(own, fine())
    assert found.left == "tests link = 'A' and combines windows of 1 s: n of n"
    left = reduced(plan, {"p": {"peer-1": ("x", "fine")}}, {"coarse": found})
    assert list(left.operators) == ["p", "a", "coarse", "out"]
    assert left.stream_name("coarse") == plan.stream_name("coarse")
    wider = PACKETS.filter("bytes > 9", id="a")
    (found,) = of(coarse(over=wider.filter("link = 'A'", id="b")), fine(over=wider))
    assert found.left.startswith("tests link = 'A' and")


def test_a_stream_that_another_branch_needs_is_not_replaced() -> None:
    some = PACKETS.project("link", "bytes", id="q")
    both = plan(coarse(over=some).sink("all"), fine("source", over=some.project("bytes", source="link")).sink("others"))
    assert finer_streams(both, stated(fine()))[0] == {}


def test_the_names_and_what_is_stated_are_those_of_the_whole_plan() -> None:
    own = coarse(by="link", having="n > 3").filter("n < 9", id="some").count("k", id="n")
    plan = own.sink(id="out")
    (found,) = finer_streams(plan, stated(fine()))[0]["coarse"]
    left = reduced(plan, {"p": {"peer-1": ("x", "fine")}}, {"coarse": found})
    for known in (left, Plan.from_bytes(left.to_bytes())):
        assert known.schema("p") == fine().sink().schema("fine")
        assert known.window("p") == {"kind": "tumbling", "length": 1.0}
        assert all(known.stream_name(each) == plan.stream_name(each) for each in ("coarse", "some", "n", "out"))
        assert known.work_name("coarse") != plan.work_name("coarse"), "its cost is not that of the whole"
        assert known.schema("coarse") == plan.schema("coarse")
    whole = coarse(by="link").sink()
    (found,) = finer_streams(whole, stated(fine()))[0]["coarse"]
    left = reduced(whole, {"p": {"peer-1": ("x", "fine")}}, {"coarse": found})
    assert stated_windows(left, "coarse") == stated_windows(whole, "coarse"), "still coarser ones may be made of it"


def test_what_the_directory_has_may_be_invalid() -> None:
    (known,) = stated(fine())["packets"]
    assert read_windows(write_parts([known])) == [known]
    untyped = msgspec.structs.replace(known, columns={"n": "number"})
    for text in ("", "[", "[3]", 3, '[["aggregate", {}, [], {}]]', '[["join", {}, [], {}]]', write_parts([untyped])):
        assert read_windows(text) == []


def test_a_plan_with_work_that_is_none_is_refused() -> None:
    own = coarse(by="link")
    (found,) = of(own, fine())
    left = reduced(own.sink(), {"p": {"peer-1": ("x", "fine")}}, {"coarse": found})
    work = left.operators["coarse"].makes
    assert work is not None
    for wrong in ({"kind": "nothing"}, {"params": {"by": 3}}, {"inputs": ()}):
        changed = msgspec.structs.replace(left.operators["coarse"], makes=msgspec.structs.replace(work, **wrong))
        schemas = {name: left.schema(name) for name in left.operators}
        windows = {name: left.window(name) for name in left.operators}
        plan = Plan.composed("plan", left.qos, Checked({**left.operators, "coarse": changed}, schemas, windows))
        with pytest.raises(PlanError, match="makes"):
            Plan.from_bytes(plan.to_bytes())


def test_windows_that_the_input_has_are_the_same() -> None:
    over = PACKETS.aggregate(("link", "source"), "2 s every 1 s", m="max(bytes)", id="a")
    assert [each.left for each in of(over.count("k"), over.aggregate("link", n="count(*)", id="b"))] == [
        "combines groups: k of n"
    ]


def test_columns_and_texts_may_look_like_calls() -> None:
    odd = ROWS.project({"link": "link", "sum(bytes)": "bytes", "count": "port"})
    names = {"max(link)": "count(*)", 'a "b"': "max(count)", "c": "count(CASE WHEN link = 'sum(bytes)' THEN 1 END)"}
    finer = odd.aggregate("link", "1 s", values=names, id="fine")
    own = odd.aggregate((), "2 s", values={"sum": names["c"], "k": "max(count)", "n": "count(*)"}, id="coarse")
    (found,) = of(own, finer)
    assert found.rewritten["coarse"].params["values"] == {
        "sum": "sum(c)",
        "k": 'max("a ""b""")',
        "n": 'sum("max(link)")',
    }


# -- rows --------------------------------------------------------------------------------------------------------------


def outputs(plan: Plan, given_items: dict[str, list[Item]]) -> dict[str, list[Item]]:
    """What each operator of a chain emits."""
    found = dict(given_items)
    for name, operator in plan.operators.items():
        if name not in found:
            found[name] = drive(create(operator, plan), [(0, item) for item in found[operator.inputs[0]]])
    return found


CHOICES: dict[str, list[Any]] = {
    "link": ["A", "B", None],
    "port": [1, 2, None],
    "bytes": [0, 1, -7, 2**53 + 1, 2**61, 2**61 - 5, None],
    "weight": [0.5, -1.0, float("nan"), float("inf"), None],
}


def frame(seed: int, rows: int) -> pl.DataFrame:
    rng = random.Random(seed)
    table = [
        {"time": 250_000 * rng.randrange(48), **{name: rng.choice(each) for name, each in CHOICES.items()}}
        for _ in range(rows)
    ]
    kinds: dict[str, Any] = {"time": pl.Int64, **{name: TYPES[kind] for name, kind in COLUMNS.items()}}
    return pl.DataFrame(table, schema=kinds).with_columns(pl.col("time").cast(TYPES["time"]))


asked = st.sampled_from(
    [*CALLS, "avg(bytes)", "avg(bytes) / count(*)", "coalesce(sum(bytes), 0) - min(bytes)", "count(DISTINCT link)"]
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    rows=st.sampled_from([0, 1, 12, 40, 40]),
    finer_by=st.sampled_from([("link",), ("port", "link"), ()]),
    unit=st.sampled_from([250, 500, 1000]),
    times=st.sampled_from([(1, 1), (4, 4), (6, 2), (5, 3)]),
    calls=st.lists(asked, min_size=1, max_size=3, unique=True),
    data=st.data(),
)
def test_the_rows_are_those_of_the_aggregate_alone(
    seed: int,
    rows: int,
    finer_by: tuple[str, ...],
    unit: int,
    times: tuple[int, int],
    calls: list[str],
    data: st.DataObject,
) -> None:
    by = data.draw(st.lists(st.sampled_from(finer_by), unique=True) if finer_by else st.just([]))
    selected = data.draw(st.sampled_from(["", "link = 'A'", "port = 1 AND link IN ('A', 'B')"]))
    common = data.draw(st.sampled_from(["", "bytes <> 1"]))
    having = data.draw(st.sampled_from([None, "c0 IS NOT NULL"]))
    if "port" in selected:
        finer_by = ("link", "port")
    elif selected:
        finer_by = tuple({"link": None, **dict.fromkeys(finer_by)})
    base = ROWS.filter(common, id="common") if common else ROWS
    finer = fine(finer_by, f"{unit} ms", base, **{f"v{n}": call for n, call in enumerate(CALLS)}).sink(id="out")
    over = base.filter(selected, id="selected") if selected else base
    length, slide = (f"{unit * each} ms" for each in times)
    values = {f"c{number}": call for number, call in enumerate(calls)}
    if "count(DISTINCT link)" in calls:
        assume("link" in finer_by)
    plan = coarse(by, length if length == slide else f"{length} every {slide}", over, having, **values).sink(id="out")
    part = stated_windows(finer, "fine")
    assert part is not None
    given_rows = frame(seed, rows)
    items = [item for _, item in feed([given_rows], seed, batch=20)]
    made = outputs(finer, {"p": items})["fine"]
    results = table_of(made, finer.schema("fine"))
    assume(results.filter(pl.col("v2").is_null() & (pl.col("v1") > 0)).is_empty())  # a finer sum beyond 64 bits
    wanted = table_of(outputs(plan, {"p": items})["out"], plan.schema("out"))
    if plan.stream_name("coarse") == finer.stream_name("fine"):
        return
    (found,) = finer_streams(plan, {part.base: [part.value]})[0]["coarse"]
    left = reduced(plan, {found.tap: {"peer-1": ("x", "fine")}}, {"coarse": found})
    found_rows = table_of(outputs(left, {found.tap: made})["out"], left.schema("out"))
    assert found_rows.equals(wanted, null_equal=True), (found_rows, wanted)


@pytest.mark.parametrize(
    ("each", "wanted"),
    [
        ((2**62, 2**62 + 1, 2**62 + 3), (None, float(2**62), 3)),  # an average is that of the exact sum
        ((-(2**62), None, -(2**62) - 9), (None, -float(2**62), 2)),
        ((2**53, 1, 1), (2**53 + 2, (2**53 + 2) / 3, 3)),
        ((None, None, None), (None, None, 0)),
    ],
)
def test_sums_of_sums_are_as_exact_as_sums(each: tuple[int | None, ...], wanted: tuple[Any, ...]) -> None:
    table = pl.DataFrame(
        {"time": [0, 1_000_000, 2_000_000], "bytes": each, "link": "A", "port": 1, "weight": 0.0},
        schema_overrides={"time": TYPES["time"], "bytes": pl.Int64},
    )
    calls = {"total": "sum(bytes)", "mean": "avg(bytes)", "k": "count(bytes)"}
    assert combined(table, {"k": "count(bytes)", "total": "sum(bytes)"}, calls) == [wanted]
    plan = coarse(over=ROWS, **calls).sink(id="out")
    alone = outputs(plan, {"p": [item for _, item in feed([table.select("time", *COLUMNS)], 1)]})["out"]
    assert table_of(alone, plan.schema("out")).select(list(calls)).rows() == [wanted]


def test_where_a_finer_sum_needs_more_than_64_bits_there_is_no_coarser_one() -> None:
    table = pl.DataFrame(
        {"time": [0, 1, 1_000_000], "bytes": [2**62, 2**62, 5], "link": "A", "port": 1, "weight": 0.0},
        schema_overrides={"time": TYPES["time"]},
    )
    finer = {"k": "count(bytes)", "total": "sum(bytes)"}
    assert combined(table, finer, {"total": "sum(bytes)", "mean": "avg(bytes)"}) == [(None, None)]


def combined(table: pl.DataFrame, finer: dict[str, str], own: dict[str, str]) -> list[tuple[Any, ...]]:
    """Rows of an aggregate of all rows that is made of a finer one."""
    below, plan = fine(over=ROWS, **finer).sink(), coarse(over=ROWS, **own).sink(id="out")
    part = stated_windows(below, "fine")
    assert part is not None
    (found,) = finer_streams(plan, {part.base: [part.value]})[0]["coarse"]
    left = reduced(plan, {found.tap: {"peer-1": ("x", "fine")}}, {"coarse": found})
    items = [item for _, item in feed([table.select("time", *COLUMNS)], 1)]
    made = outputs(left, {found.tap: outputs(below, {"p": items})["fine"]})["out"]
    return table_of(made, left.schema("out")).select(list(own)).rows()
