"""Single operators: refusals, and properties beyond the contract of all."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.operators import create
from synergy_nb.dataflow.operators.base import OUTPUT_ROWS, WINDOW, OperatorLogic
from synergy_nb.dataflow.operators.rows import Filter
from synergy_nb.dataflow.operators.windows import TimeWindows
from synergy_nb.dataflow.tuples import END, START, TYPES, Batch, Punctuation
from synergy_nb.plan import Plan, Stream, source
from tests.feeding import fresh

COLUMNS = {"host": "str", "n": "int"}


def hosts() -> Stream:
    return source("python", name="hosts", columns=COLUMNS)


def rows(*given: tuple[int, str | None, int | None]) -> pl.DataFrame:
    """Rows of (seconds, host, n)."""
    table = pl.DataFrame(list(given), schema={"time": pl.Int64(), "host": pl.String(), "n": pl.Int64()}, orient="row")
    return table.with_columns((pl.col("time") * 1_000_000).cast(TYPES["time"]))


def batch(*given: tuple[int, str | None, int | None], position: int = 0, born: float = 1.0) -> Batch:
    return Batch(rows(*given), position, born)


def only(stream: Stream, **options: Any) -> tuple[OperatorLogic, Plan, str]:
    """The operator at the end of ``stream``."""
    plan = stream.sink(name="result")
    operator = plan.upstream(plan.sinks[0])[0]
    return create(plan.operators[operator], plan, **options), plan, operator


KEYS = {"alpha": b"a secret of 32 bytes, not printed", "beta": b"another secret, also not printed"}


def test_a_source_has_no_logic() -> None:
    plan = hosts().sink()
    with pytest.raises(ValueError, match=r"operator 'source': kind: 'source'; expected one of aggregate, .*union"):
        create(plan.operators["source"], plan)


def test_delay_needs_a_way_to_wait_and_waits_its_cost_a_tuple() -> None:
    stream = hosts().delay("2 ms")
    with pytest.raises(ValueError, match=r"operator 'delay' \(delay\): wait: None; expected a function"):
        only(stream)
    waits: list[float] = []
    logic, _, _ = only(stream, wait=waits.append)
    logic.on_batch(0, batch((1, "a", 1), (2, "b", 2), (3, "c", 3)))
    logic.on_punctuation(0, Punctuation(END, 3, 2.0))
    assert waits == [pytest.approx(0.006)]


def test_an_unknown_port_is_refused() -> None:
    logic, _, _ = only(hosts().filter("n > 1"))
    for port in (1, -1):
        with pytest.raises(ValueError, match=rf"operator 'filter' \(filter\): port: {port}; expected 0 to 0"):
            logic.on_batch(port, batch((1, "a", 1)))


def test_lists_are_unnested_piece_by_piece() -> None:
    """A batch of long lists is many times as large as its rows; its output is never there as a whole."""
    lists = [list(range(start, start + number)) for start, number in ((0, 10), (10, 0), (10, 40), (50, 1), (51, 49))]
    table = rows(*((second, "a", 1) for second in range(len(lists)))).select("time", "host", n=pl.Series(lists))
    logic, _, _ = only(source("python", name="lists", columns={"host": "str", "n": "int[]"}).unnest("n"))
    sizes = []
    for logic.piece_bytes in (10**6, 1000, 1):
        items = logic.on_batch(0, Batch(table, 0, 1.0))
        tables = [item.table for item in items if isinstance(item, Batch)]
        assert pl.concat(tables)["n"].to_list() == list(range(100))
        sizes.append([each.height for each in tables])
    assert sizes[0] == [100]
    assert 1 < len(sizes[1]) <= 4
    assert sizes[2] == [10, 40, 1, 49], "a row is not divided"


@pytest.mark.parametrize("data", [b"", b"\xff\x00", b"\x80", b"garbage"])
def test_a_snapshot_that_is_none_is_refused(data: bytes) -> None:
    logic, _, _ = only(hosts().aggregate(window="10 s", n="count(*)"))
    with pytest.raises(ValueError, match=r"operator 'aggregate' \(aggregate\): saved state: .*; expected one of this"):
        logic.restore(SavedState(data, {}))


def test_a_snapshot_of_another_operator_is_refused() -> None:
    one, _, _ = only(hosts().aggregate(window="10 s", total="sum(n)"))
    other, _, _ = only(hosts().sort("n", window="10 s"))
    third, _, _ = only(hosts().aggregate(by=["host"], window="10 s", total="sum(n)"))
    one.on_batch(0, batch((1, "a", 1)))
    with pytest.raises(
        ValueError, match=r"sort\): saved state: 'format 2, aggregate, 1 ports'; expected format 2 or 3, sort"
    ):
        other.restore(one.save())
    with pytest.raises(ValueError, match=r"saved state: table partials: .*; expected the columns of this operator's"):
        third.restore(one.save())


def test_a_table_that_takes_the_memory_of_another_has_a_number_of_its_own() -> None:
    """Seen in a campaign: tables were put together while a state was saved, and the new one was taken for an old."""

    class Replacing(Filter):
        def state(self) -> dict[str, list[pl.DataFrame]]:
            self.kept: pl.DataFrame | None = None
            self.kept = rows((1, "a", 1))
            return {"kept": [self.kept]}

    logic = Replacing(only(hosts().filter("n > 1"))[0].context)
    numbers = [number for _ in range(100) for number in logic.save().tables]
    assert numbers == list(range(100))


def test_an_empty_batch_gives_nothing() -> None:
    for stream in (
        hosts().filter("n > 1"),
        hosts().aggregate(window="3 rows", n="count(*)"),
        hosts().sort("n", window="1 s"),
    ):
        logic, _, _ = only(stream)
        assert logic.on_batch(0, Batch(rows(), 0, 0.0)) == []


def test_a_union_forwards_the_least_punctuation_and_ends_with_the_last_input() -> None:
    left = hosts()
    logic, _, _ = only(left.union(left.filter("n > 1"), left.filter("n > 2")))
    punctuations = [(0, 5), (1, 3), (2, 4), (1, 9), (0, END), (2, END), (1, 8), (1, END), (1, END)]
    passed = [
        [getattr(item, "time", None) for item in logic.on_punctuation(port, Punctuation(time, 0, 0.0))]
        for port, time in punctuations
    ]
    assert passed == [[], [], [3], [4], [], [9], [], [END], []]
    assert logic.ended


def test_a_batch_after_the_end_is_late() -> None:
    logic, _, _ = only(hosts().filter("n > 0"))
    logic.on_punctuation(0, Punctuation(END, 0, 0.0))
    assert logic.on_batch(0, batch((1, "a", 1), (2, "b", 1))) == []
    assert logic.late == 2


def test_large_results_leave_in_several_batches() -> None:
    logic, _, _ = only(hosts().sort("n", window="1 h"))
    many = OUTPUT_ROWS + 10
    table = pl.DataFrame({"time": [0] * many, "host": ["a"] * many, "n": range(many)})
    logic.on_batch(0, Batch(table.with_columns(pl.col("time").cast(TYPES["time"])), 0, 0.0))
    items = logic.on_punctuation(0, Punctuation(END, many, 3.0))
    assert [(item.position, item.rows) for item in items if isinstance(item, Batch)] == [
        (0, OUTPUT_ROWS),
        (OUTPUT_ROWS, 10),
    ]


def test_a_join_keeps_only_rows_that_can_still_meet_a_partner() -> None:
    left, right = hosts(), hosts()
    logic, _, _ = only(left.join(left.filter("n > 0"), on=["host"], within="5 s"))
    del right
    logic.on_batch(0, batch((10, "a", 1), (20, "a", 2), (30, None, 3)))
    logic.on_punctuation(1, Punctuation(16_000_000, 0, 0.0))
    assert logic.state_rows == 2, "10 s + 5 s is before 16 s"
    (pair,) = logic.on_batch(1, batch((24, "a", 7), (25, "b", 8), (31, None, 9), (12, "a", 9)))
    assert isinstance(pair, Batch)
    assert pair.table.select("host", "n", "n_right").rows() == [("a", 2, 7)]
    assert pair.table["time"].cast(pl.Int64).to_list() == [24_000_000]
    assert logic.late == 1
    logic.on_punctuation(1, Punctuation(END, 0, 0.0))
    assert logic.state_rows == 3, "the left may still give partners to the right"
    logic.on_batch(0, batch((26, "a", 5), position=3))
    assert logic.state_rows == 3, "what can meet nobody is not kept"


@pytest.mark.parametrize(("within", "bound"), [("20 s", ["bz"]), ("19.999999 s", [])])
def test_the_span_of_a_join_includes_its_bound_and_a_microsecond_less_gives_the_pairs_of_hwang(
    within: str, bound: list[str]
) -> None:
    left = hosts()
    logic, _, _ = only(left.join(left.filter("n > 0"), on=["host"], within=within))
    names = "abcdxyzv"
    logic.on_batch(0, batch((10, "k", 1), (25, "k", 2), (40, "m", 3), (30, "k", 4)))
    pairs = taken(logic, 1, batch((29, "k", 5), (9, "k", 6), (45, "k", 7), (30, "m", 8)))
    found = {names[one - 1] + names[other - 1]: time for time, _, one, other in pairs}
    hwang = {"ax": 29, "bx": 29, "dx": 30, "ay": 10, "by": 25, "dz": 45, "cv": 40}
    assert found == {**hwang, **dict.fromkeys(bound, 45)}
    assert len(pairs) == len(found)


@pytest.mark.slow
@given(
    st.integers(1, 40), st.integers(1, 40), st.lists(st.integers(-100, 100), min_size=1, max_size=8),
    st.none() | st.integers(-90, 90), st.none() | st.integers(-90, 90),
)  # fmt: skip
def test_windows_equal_those_of_a_loop_over_all_tuples(
    one: int, two: int, times: list[int], previous: int | None, low: int | None
) -> None:
    length, slide = max(one, two), min(one, two)
    windows = TimeWindows(length, slide)
    before, until = START if previous is None else previous, END if low is None else max(low, previous or low)
    all_windows = [(start, start + length) for start in range(-(300 // slide) * slide, 300, slide)]
    table = pl.DataFrame({"time": times, "row": range(len(times))})
    literal = [
        (time, row, *window) for row, time in enumerate(times) for window in all_windows
        if window[0] <= time < window[1] and before < window[1] <= until
    ]  # fmt: skip
    if length == slide:  # rows of closed tumbling windows have left the state, so there is nothing to leave out
        literal = [
            (time, row, *window) for row, time in enumerate(times) for window in all_windows
            if window[0] <= time < window[1] <= until
        ]  # fmt: skip
    assign = windows.assign(table, "time", before, until).collect()
    assert assign.with_columns(pl.col(WINDOW).cast(pl.Int64)).rows() == literal
    ends = [end for time in times for start, end in all_windows if start <= time < end]
    assert windows.first_end(table, "time") == min(ends)
    kept = [] if until == END else [
        row for row, time in enumerate(times) if any(s <= time < e and e > until for s, e in all_windows)
    ]  # fmt: skip
    assert windows.retained_rows(table, "time", until)["row"].to_list() == kept
    if until != END:
        assert windows.next_end(until) == min(end for _, end in all_windows if end > until)


def taken(logic: OperatorLogic, port: int, item: Batch | Punctuation) -> list[tuple[Any, ...]]:
    """Rows that leave with an item, with times in seconds."""
    given = logic.on_batch(port, item) if isinstance(item, Batch) else logic.on_punctuation(port, item)
    seconds = pl.col("time").cast(pl.Int64) / 1e6
    return [row for each in given if isinstance(each, Batch) for row in each.table.with_columns(seconds).rows()]


def test_a_left_row_without_a_partner_leaves_when_none_can_come_and_one_with_a_partner_does_not() -> None:
    left = hosts()
    logic, _, _ = only(left.join(left.filter("n > 0"), on=["host"], within="5 s", how="left"))
    assert taken(logic, 0, batch((10, "a", 1), (11, "b", 2), (12, None, 3))) == []
    assert taken(logic, 1, batch((13, "a", 7))) == [(13.0, "a", 1, 7)]
    assert taken(logic, 0, Punctuation(30_000_000, 3, 0.0)) == [], "the right may still be as early as it likes"
    assert taken(logic, 1, Punctuation(16_000_000, 1, 0.0)) == [], "one at 16 s would be near enough to 11 s"
    assert taken(logic, 1, Punctuation(16_000_001, 1, 0.0)) == [(16.0, "b", 2, None)]
    assert taken(logic, 1, Punctuation(END, 1, 0.0)) == [(17.0, None, 3, None)]
    assert taken(logic, 0, batch((31, "a", 4), position=3)) == [(36.0, "a", 4, None)], "none can come any more"
    assert taken(logic, 0, Punctuation(END, 4, 0.0)) == []
    assert logic.state_rows == 0


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.none() | st.integers(-5, 5)), min_size=1, max_size=30),
    st.floats(0.5, 100.0), st.sampled_from(["20 s", "20 s every 5 s", "7 s gap"]),
)  # fmt: skip
def test_tuples_count_for_less_the_older_they_are(
    given: list[tuple[int, int | None]], half_life: float, window: str
) -> None:
    """As a loop over the rows of each window has it, whatever panes these are put together from."""
    stream = hosts().aggregate(
        window=window, half_life=half_life, n="count(*)", k="count(n)", total="sum(n)", mean="avg(n)", most="max(n)"
    )
    logic, plan, operator = only(stream)
    same, _, _ = only(hosts().sort("n", window=window))
    table = rows(*((time, "a", n) for time, n in sorted(given, key=lambda each: each[0])))
    end = Punctuation(END, table.height, 0.0)
    results = [each.table for each in [*logic.on_batch(0, Batch(table, 0, 0.0)), *logic.on_punctuation(0, end)]
               if isinstance(each, Batch)]  # fmt: skip
    numbered = table.with_columns(n=pl.int_range(pl.len()))
    inside = [each.table for each in [*same.on_batch(0, Batch(numbered, 0, 0.0)), *same.on_punctuation(0, end)]
              if isinstance(each, Batch)]  # fmt: skip
    members = {key: rows["n"].to_list() for key, rows in pl.concat(inside).group_by("time", *WINDOW)}
    times, values = table["time"].to_list(), table["n"].to_list()
    for time, start, until, *got in pl.concat(results).rows():
        share = {
            row: 0.5 ** ((time - times[row]).total_seconds() / half_life) for row in members.pop((time, start, until))
        }
        known = [row for row in share if values[row] is not None]
        total, weight = sum(share[row] * values[row] for row in known), sum(share[row] for row in known)
        exact = [sum(share.values()), weight, total, total / weight] if known else [sum(share.values()), 0.0]
        assert got[: len(exact)] == pytest.approx(exact, rel=1e-9, abs=1e-12)
        assert got[len(exact) :] == ([max(values[row] for row in known)] if known else [None, None, None])
    assert not members
    assert dict(plan.schema(operator)) | {"n": "float", "k": "float", "total": "float"} == plan.schema(operator)


def test_an_average_of_tuples_that_are_too_old_to_count_is_null() -> None:
    logic, _, _ = only(hosts().aggregate(window="1 h", half_life="1 s", mean="avg(n)", total="sum(n)"))
    logic.on_batch(0, batch((1, "a", 5)))
    (result, _) = logic.on_punctuation(0, Punctuation(END, 1, 0.0))
    assert isinstance(result, Batch)
    assert result.table.select("mean", "total").rows() == [(None, 0.0)]


# -- encrypt and decrypt ---------------------------------------------------------------------------------------------


def sealed(
    stream: Stream, *given: tuple[int, str | None, int | None], position: int = 0, keys: Any = KEYS
) -> pl.DataFrame:
    logic, _, _ = only(stream, secrets=keys)
    (item,) = logic.on_batch(0, batch(*given, position=position))
    assert isinstance(item, Batch)
    return item.table


def secret(key: str = "alpha") -> Stream:
    return hosts().encrypt("host", "n", key=key)


GIVEN = ((1, "pluto", 5), (2, "pluto", 5), (3, None, None), (4, "a longer name than that", -1))


def opened(table: pl.DataFrame, stream: Stream, keys: Any = KEYS) -> pl.DataFrame:
    logic, _, _ = only(stream, secrets=keys)
    (item,) = logic.on_batch(0, Batch(table, 0, 0.0))
    assert isinstance(item, Batch)
    return item.table


def test_values_are_unreadable_and_come_back() -> None:
    table = sealed(secret(), *GIVEN)
    assert b"pluto" not in b"".join(table["host"].to_list())
    assert table["host"].null_count() == 0, "not even NULL can be told"
    assert len(set(table["host"].to_list())) == 4, "equal values do not look equal"
    back = opened(table, secret().decrypt({"host": "str", "n": "int"}, key="alpha"))
    assert back.rows() == rows(*GIVEN).rows()


def test_a_replay_gives_the_same_bytes_and_another_stream_or_value_another_nonce() -> None:
    first = sealed(secret(), *GIVEN)
    assert sealed(secret(), *GIVEN).equals(first)
    assert sealed(secret(), *GIVEN[2:], position=2).equals(first.slice(2)), "however the stream is cut"
    nonces = {value[:12] for name in ("host", "n") for value in first[name].to_list()}
    assert len(nonces) == 8
    others = [
        sealed(secret(), (1, "other", 6)),  # another value at the same position
        sealed(hosts().filter("n > 0").encrypt("host", "n", key="alpha"), *GIVEN[:1]),  # another stream
        sealed(secret("beta"), *GIVEN[:1]),  # another key
    ]
    for table in others:
        assert not nonces & {value[:12] for name in ("host", "n") for value in table[name].to_list()}


def test_a_wrong_key_or_a_changed_value_is_one_clear_error_without_the_secret() -> None:
    table = sealed(secret(), *GIVEN)
    read = secret().decrypt({"host": "str"}, key="alpha")
    expected = (
        r"operator 'decrypt' \(decrypt\): column 'host': cannot decrypt a value: key 'alpha' is wrong, or the value"
    )
    bad = bytearray(table["host"][1])
    bad[-1] ^= 1
    changed = table.with_columns(
        pl.Series("host", [table["host"][0], bytes(bad), *table["host"][2:]], dtype=pl.Binary())
    )
    for wrong, keys in ((table, {"alpha": KEYS["beta"]}), (changed, KEYS)):
        with pytest.raises(ValueError, match=expected) as error:
            opened(wrong, read, keys)
        assert "secret" not in str(error.value)
    short = table.with_columns(pl.Series("host", [b"x", None, b"", b"12 bytes long"], dtype=pl.Binary()))
    with pytest.raises(ValueError, match="column 'host': cannot decrypt a value: the value is not encrypted"):
        opened(short, read)


def test_decrypting_as_another_type_is_refused() -> None:
    table = sealed(secret(), *GIVEN)
    with pytest.raises(ValueError, match="column 'n': cannot decrypt a value: its type is int; expected str"):
        opened(table, secret().decrypt({"n": "str"}, key="alpha"))


def test_keys_are_checked_when_the_operator_is_made_and_never_shown() -> None:
    with pytest.raises(
        ValueError, match=r"operator 'encrypt' \(encrypt\): key: 'gamma'; expected a secret .*\(alpha, beta\)"
    ):
        only(secret("gamma"), secrets=KEYS)
    with pytest.raises(ValueError, match=r"key: 'alpha'; expected a secret that this peer has \(none\)"):
        only(secret())
    with pytest.raises(ValueError, match="a secret of at least 16 bytes") as error:
        only(secret(), secrets={"alpha": b"too short"})
    assert "too short" not in str(error.value)
    logic, _, _ = only(secret(), secrets=KEYS)
    assert not re.search("secret", repr(logic.context) + repr(vars(logic)))
    assert b"secret" not in logic.save().head
    assert fresh(secret().sink(), "encrypt").late == 0


def test_sums_have_upper_bits_only_from_when_they_need_them() -> None:
    """They cost a column of every snapshot; snapshots from before stay as they were, and are continued."""
    stream = hosts().aggregate(by=["host"], window="10 s", total="sum(n)", mean="avg(n)")
    small, large = batch((1, "a", 5), (1, "b", 7)), batch((2, "a", 2**62), (2, "a", 2**62), (2, "b", 1), position=2)
    logic, plan, operator = only(stream)
    logic.on_batch(0, small)
    before = logic.save()
    held = [table.columns for table in before.tables.values()]
    assert all("upper" not in column for columns in held for column in columns)
    resumed = create(plan.operators[operator], plan)
    resumed.restore(before)
    found = []
    for each in (logic, resumed):
        each.on_batch(0, large)
        assert any("upper" in column for table in each.save().tables.values() for column in table.columns)
        final = create(plan.operators[operator], plan)
        final.restore(each.save())
        for one in (each, final):
            end = one.on_punctuation(0, Punctuation(END, 5, 2.0))
            found += [row[-3:] for item in end if isinstance(item, Batch) for row in item.table.iter_rows()]
    assert found == [("a", None, (2**63 + 5) / 3), ("b", 8, 4.0)] * 4
    assert [table.columns for table in before.tables.values()] == held
