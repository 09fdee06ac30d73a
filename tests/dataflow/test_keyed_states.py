"""Keyed states: their values are saved with their types, they end, and timers come in event time."""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from synergy_nb import Wake, keyed
from synergy_nb.dataflow.functions._state_values import decoded, encoded
from synergy_nb.dataflow.functions.calls import FunctionError
from synergy_nb.testing import check, run

SECOND = dt.timedelta(seconds=1)
VALUES: list[Any] = [
    None, True, 5, 2**63, -(2**70), 1.5, float("inf"), "text", b"bytes", [1, [2]], (1, (2, [3])), {1, 2},
    frozenset({"a"}), {"a": 1, (1, 2): {3: "b"}}, deque([1, 2], 5), OrderedDict(b=1, a=2), Counter("aab"),
    dt.datetime(2026, 1, 1, 5, tzinfo=dt.UTC), dt.datetime(2026, 1, 1), dt.date(2026, 1, 2),  # noqa: DTZ001
    dt.timedelta(days=-1, microseconds=3), [], (), {}, set(),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back_with_their_types(value: Any) -> None:
    found = decoded(encoded(value))
    assert (found, type(found)) == (value, type(value))
    if isinstance(value, deque):
        assert found.maxlen == value.maxlen
    if isinstance(value, OrderedDict):
        assert list(found) == list(value)


def test_tables_and_arrays_come_back() -> None:
    table = pl.DataFrame({"a": [1, None], "b": ["x", "y"], "c": [[1], [2, 3]]})
    assert decoded(encoded({"kept": table}))["kept"].equals(table)
    arrow = pa.table({"a": [1, 2]})
    assert decoded(encoded(arrow)).to_pydict() == arrow.to_pydict()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = decoded(encoded([array]))[0]
    assert (found.dtype, found.tolist()) == (array.dtype, array.tolist())
    assert decoded(encoded(np.float64(2.5))) == 2.5


@pytest.mark.parametrize(
    ("value", "name"),
    [(threading.Lock(), "_thread.lock"), ({"a": [object()]}, "object"), (defaultdict(int), "defaultdict"),
     (np.array([None]), "an array of objects"), (range(3), "range")],
)  # fmt: skip
def test_what_cannot_be_saved_is_named(value: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name}$"):
        encoded(value)


def rows(*times: float, key: str = "a") -> list[dict[str, Any]]:
    return [{"time": time, "key": key, "v": number} for number, time in enumerate(times)]


@keyed(columns={"n": "int"}, expires="5 s")
class Brief:
    """Rows of a key without a pause of five seconds."""

    def __init__(self) -> None:
        self.n = 0

    def on_rows(self, _key: Any, rows: Iterator[Any]) -> Iterator[Any]:
        """The number so far."""
        for _ in rows:
            self.n += 1
            yield {"n": self.n}


@keyed(columns={"n": "int"})
class Timed:
    """A timer two seconds after each row, and one more a second after the first of these."""

    def __init__(self) -> None:
        self.n, self.more = 0, True

    def on_rows(self, _key: Any, rows: Iterator[Any]) -> Iterator[Any]:
        """Set it."""
        for row in rows:
            self.n += 1
            yield Wake(row["time"] + 2 * SECOND)

    def on_time(self, _key: Any, time: dt.datetime) -> Iterator[Any]:
        """The number of rows so far."""
        yield {"n": self.n}
        if self.more:
            self.more = False
            yield Wake(time + SECOND)


@keyed(columns={"n": "int"}, expires="3 s")
class TimedBrief(Timed.content.call):  # type: ignore[misc, name-defined]
    """Its state ends after three seconds."""


def test_a_state_ends_after_so_much_event_time_without_rows() -> None:
    assert run(Brief, rows(0, 4, 8.9, 14, 18), key="key")["n"].to_list() == [1, 2, 3, 1, 2]
    both = [*rows(0, 1), *rows(2, key="b"), *rows(9), *rows(9, key="b")]
    assert run(Brief, both, key="key").select("key", "n").rows() == [("a", 1), ("a", 2), ("b", 1), ("a", 1), ("b", 1)]
    check(Brief, both, key="key")


def test_timers_come_before_rows_of_their_time_and_all_of_them_at_the_end() -> None:
    found = run(Timed, rows(0, 1, 2, 2.5), key="key")
    seconds = [round(each.timestamp() % 60, 1) for each in found["time"].dt.replace_time_zone("UTC")]
    assert list(zip(seconds, found["n"], strict=True)) == [(2.0, 2), (3.0, 4), (4.0, 4), (4.5, 4)]
    check(Timed, rows(0, 1, 2, 2.5), key="key")


def test_a_timer_that_is_set_by_one_after_the_last_row_is_not_called() -> None:
    assert run(Timed, rows(0), key="key")["n"].to_list() == [1]
    assert run(Timed, [*rows(0), *rows(2, key="b")], key="key").select("key", "n").rows() == [
        ("a", 1),
        ("a", 1),
        ("b", 1),
    ]
    check(Timed, [*rows(0), *rows(3, key="b"), *rows(1, key="c")], key="key")


def test_a_state_with_timers_ends_also_between_rows_that_come_together() -> None:
    found = run(TimedBrief, rows(0, 1, 4, 9), key="key")
    assert found["n"].to_list() == [2, 2, 1, 1, 1]
    check(TimedBrief, rows(0, 1, 4, 9), key="key")


def test_nan_and_null_are_keys_as_any_other() -> None:
    @keyed(columns={"n": "int"}, deterministic=True)
    class Numbers:
        def __init__(self) -> None:
            self.n = 0

        def on_rows(self, _key: Any, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
            for _ in rows:
                self.n += 1
                yield {"n": self.n}

    nan = float("nan")
    rows = {"time": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "x": [nan, None, nan, -0.0, 0.0, None], "y": [1, 1, 1, 1, 1, 1]}
    for key in ("x", ["x", "y"]):
        assert run(Numbers, rows, key=key)["n"].to_list() == [1, 1, 2, 1, 2, 2]
        check(Numbers, rows, key=key)


def test_rows_that_a_class_does_not_take_are_nothing_to_it() -> None:
    @keyed(columns={"v": "int"})
    class First:
        def on_rows(self, _key: Any, rows: Iterator[Any]) -> Iterator[Any]:
            yield {"v": next(rows)["v"]} if hasattr(rows, "__next__") else {"v": next(iter(rows))["v"]}

    assert run(First, rows(0, 1, 2), key="key")["v"].to_list() == [0]


def test_a_timer_needs_to_yield_nothing() -> None:
    @keyed(columns={"due": "int"})
    class Counted:
        def __init__(self) -> None:
            self.due = 0

        def on_rows(self, _key: Any, rows: Iterator[Any]) -> Iterator[Any]:
            for row in rows:
                yield Wake(row["time"] + SECOND)
                yield {"due": self.due}

        def on_time(self, _key: Any, _time: dt.datetime) -> None:
            self.due += 1

    assert run(Counted, rows(0, 0.5, 1, 3), key="key")["due"].to_list() == [0, 0, 1, 3]
    check(Counted, rows(0, 0.5, 1, 3), key="key")


def test_all_objects_of_a_class_are_made_with_the_same_model(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_text("50", encoding="utf-8")

    def load(path: str) -> list[int]:
        return [int(Path(path).read_text(encoding="utf-8"))]

    @keyed(columns={"model": "int", "n": "int"}, load=load, file=file)
    class Above:
        def __init__(self, model: list[int]) -> None:
            self.model, self.n = model, 0

        def on_rows(self, _key: Any, rows: Iterator[Any]) -> Iterator[Any]:
            for row in rows:
                self.n += row["v"] + self.model[0]
                yield {"model": id(self.model), "n": self.n}

        def snapshot(self) -> int:
            return self.n

        def restore(self, saved: int) -> None:
            self.n = saved

    both = [*rows(0, 1), *rows(2, key="b")]
    found = run(Above, both, key="key")
    assert found["n"].to_list() == [50, 101, 50]
    assert found["model"].n_unique() == 1


def failing(*, columns: str = "int", **methods: Any) -> Any:
    return keyed(columns={"n": columns})(type("Own", (), methods))


def test_wrong_classes_are_refused_by_name() -> None:
    def early(_self: Any, _key: Any, _rows: Any) -> Iterator[Any]:
        yield {"n": 1}

    def waking(_self: Any, _key: Any, rows: Any) -> Iterator[Any]:
        for _ in rows:
            yield Wake("noon")

    def raising(_self: Any, _key: Any, rows: Any) -> Iterator[Any]:
        for row in rows:
            yield {"n": 1 // row["v"]}

    def on_time(_self: Any, _key: Any, _time: Any) -> Iterator[Any]:
        yield {"n": 1}

    def returning(_self: Any, _key: Any, _time: Any) -> Any:
        return [{"n": 1}]

    def timed(_self: Any, _key: Any, rows: Any) -> Iterator[Any]:
        for row in rows:
            yield Wake(row["time"])

    wrong = [
        (failing(on_rows=early), "on_rows yields before it has taken a row"),
        (failing(on_rows=early, on_time=on_time), "on_rows yields before it has taken a row"),
        (failing(on_rows=waking), r"a timer; expected a method on_time\(self, key, time\)"),
        (failing(on_rows=waking, on_time=on_time), r"Wake\('noon'\); expected a datetime"),
        (failing(on_rows=raising), "ZeroDivisionError"),
        (failing(on_rows=timed, on_time=returning), "on_time returns list; expected None, or a generator"),
    ]
    for own, text in wrong:
        with pytest.raises(FunctionError, match=f"'Own': .*{text}"):
            run(own, rows(0, 1), key="key")


def test_a_state_that_cannot_be_saved_is_refused_by_name_at_the_first_row() -> None:
    @keyed(columns={"n": "int"})
    class Held:
        def __init__(self) -> None:
            self.kept, self.held = 1, threading.Lock()

        def on_rows(self, _key: Any, rows: Iterator[Any]) -> Iterator[Any]:
            for _ in rows:
                yield {"n": self.kept}

    text = (
        r"class 'Held': state 'held': _thread.lock; expected numbers, .*, or methods snapshot\(\) and restore\(saved\)"
    )
    with pytest.raises(FunctionError, match=text):
        run(Held, rows(0), key="key")
    assert run(Held, pl.DataFrame(rows(0)).clear(), key="key").is_empty()


@pytest.mark.slow
def test_states_of_many_keys_are_saved_in_parts() -> None:
    many = [{"time": number, "key": f"k{number * 7 % 40}", "v": number} for number in range(60)]
    check(Brief, many, key="key")
    check(Timed, many[:40], key="key")
