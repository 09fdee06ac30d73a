"""Declarations of users' own functions: what has the same hash, what travels, and what is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from synergy_nb import Source, aggregate, function, keyed, reader, source
from synergy_nb.dataflow.functions.calls import unpacked
from synergy_nb.plan.functions.declaring import OwnFunction
from synergy_nb.plan.terms import known_functions
from synergy_nb.plan.terms.known_functions import Payload

LOCK = threading.Lock()
CODE = '''
import collections
import dataclasses
from typing import Generic, TypeVar
from synergy_nb import function, keyed

Number = TypeVar("Number")
LIMITS = {"small": 10, "large": {3, 1, 2}}
NAMES = frozenset(["ab", "cd", "ef", "gh"])


@dataclasses.dataclass
class Pair(Generic[Number]):
    first: Number
    kinds: set = dataclasses.field(default_factory=set)


def helped(value, *, by=2):
    return value * by if value not in {"x", "y", "z"} else 0


@function(columns={"v": "int"}, form="row")
def scaled(row):
    assert not isinstance(row, Pair)
    known = {"a", "b", "c"}
    return {"v": helped(row["bytes"]) + len(known & NAMES) + LIMITS["small"] + len(LIMITS["large"])}


@keyed(columns={"n": "int"})
class Counts:
    """Rows of a key."""

    def __init__(self):
        self.n = collections.Counter()

    def on_rows(self, key, rows):
        for row in rows:
            self.n[key] += 1
            yield {"n": self.n[key]}


print(scaled.reference, Counts.reference)
'''


def references(text: str, folder: Path, name: str, seed: str) -> list[str]:
    """References of a text in a process of its own."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_the_same_code_has_the_same_hash_in_other_processes_files_and_lines(tmp_path: Path) -> None:
    first = references(CODE, tmp_path, "one.py", "1")
    moved = "\n\n# moved\n" + CODE.replace("    known =", "    # explained\n    known =")
    assert first == references(moved, tmp_path, "other.py", "2")
    (changed, same) = references(CODE.replace("by=2", "by=3"), tmp_path, "third.py", "3")
    assert (changed != first[0], same) == (True, first[1])


def made(*, closed: int = 1, default: int = 2, columns: str = "int", **options: Any) -> OwnFunction:
    """A function with a variable that it closes over, and a default."""

    @function(columns={"v": columns}, form="row", **options)
    def valued(row: dict[str, Any], more: int = default) -> dict[str, Any]:
        return {"v": row["bytes"] + closed + more}

    return valued


def test_closures_defaults_columns_and_settings_belong_to_the_content() -> None:
    plain = made().reference
    assert made().reference == plain
    others = [
        made(closed=3), made(default=5), made(columns="float"), made(load=dict),
    ]  # fmt: skip
    assert len({plain, *(each.reference for each in others)}) == 5


def test_other_code_and_globals_are_other_content() -> None:
    text = "def call(row):\n    return {'v': row['bytes'] %s factor}\n"
    found = []
    for operator, factor in (("+", 1), ("+", 1), ("-", 1), ("+", 2)):
        names: dict[str, Any] = {"factor": factor, "__name__": "__main__"}
        exec(text % operator, names)
        found.append(function(columns={"v": "int"}, form="row")(names["call"]).reference)
    assert found[0] == found[1]
    assert len(set(found)) == 3


def test_what_travels_is_the_content_and_can_be_called_elsewhere() -> None:
    own = made(closed=7)
    content = unpacked(own.reference, own.payload)
    assert content.call({"bytes": 1}) == {"v": 10}
    assert (content.name, content.kind, content.form, content.columns) == ("valued", "apply", "row", {"v": "int"})
    assert known_functions.DECLARED[own.reference] is own
    assert own({"bytes": 1}) == {"v": 10}
    assert repr(own) == f"<apply {own.reference}>"


SEEN: set[int] = set()
EVEN = {"seen": SEEN, "kinds": frozenset({"a", "b"})}


def test_a_set_that_two_values_share_is_one_set_where_it_arrives() -> None:
    @function(columns={"n": "int"}, form="row")
    def counted(row: dict[str, Any]) -> dict[str, Any]:
        SEEN.add(row["bytes"])
        return {"n": len(EVEN["seen"])}

    content = unpacked(counted.reference, counted.payload)
    assert [content.call({"bytes": each})["n"] for each in (1, 2, 2)] == [1, 2, 2]
    assert not SEEN


def test_where_code_was_written_travels_beside_the_content_and_is_not_hashed() -> None:
    own = made(closed=7)
    sent = known_functions.checked(own.reference, own.payload)
    content = unpacked(own.reference, own.payload)
    code = content.call.__code__
    assert (code.co_filename, code.co_firstlineno, content.first_line) == (
        __file__,
        content.first_line,
        content.first_line,
    )
    assert content.source.splitlines()[2].strip() == 'return {"v": row["bytes"] + closed + more}'
    assert __file__ in sent.places
    assert __file__.encode() not in sent.code
    elsewhere = Payload(sent.code, places=[0 if isinstance(each, int) else each for each in sent.places])
    assert elsewhere.digest == sent.digest == own.reference.partition("@")[2]
    for other in (Payload(sent.code + b"."), Payload(sent.code, file="/model", sha256="0")):
        with pytest.raises(
            ValueError, match=f"function: '{own.reference}': what has come is other code, with the hash"
        ):
            known_functions.receive(own.reference, other.encoded())
    with pytest.raises(pickle.UnpicklingError):
        unpacked(own.reference, Payload(sent.code, places=[[]] * len(sent.places)).encoded())


def test_a_function_that_calls_itself_means_itself_however_often_its_cell_runs() -> None:
    text = "def steps(row):\n    n = row['n']\n    return {'v': 0 if n < 1 else 1 + steps({'n': n - 1})['v']}\n"
    names: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for _ in range(2):
        exec(text, names)
        names["steps"] = function(columns={"v": "int"}, form="row")(names["steps"])
        found.append(names["steps"])
    assert found[0].reference == found[1].reference
    assert unpacked(found[1].reference, found[1].payload).call({"n": 5}) == {"v": 5}


def with_closure() -> Callable[..., Any]:
    held = threading.Lock()

    def locked(row: dict[str, Any]) -> dict[str, Any]:
        with held:
            return row

    return locked


def with_global() -> Callable[..., Any]:
    def locked(row: dict[str, Any]) -> dict[str, Any]:
        with LOCK:
            return row

    return locked


def with_default() -> Callable[..., Any]:
    def locked(row: dict[str, Any], _held: Any = threading.Lock()) -> dict[str, Any]:  # noqa: B008 - it is refused
        return row

    return locked


@pytest.mark.parametrize(
    ("make", "variable"), [(with_closure, "held"), (with_global, "LOCK"), (with_default, "locked's default")]
)
def test_what_cannot_travel_is_refused_by_the_name_of_the_variable(make: Callable[[], Any], variable: str) -> None:
    with pytest.raises(TypeError, match=f"function 'locked': {variable}: _thread.lock; expected a value that can be"):
        function(columns={"v": "int"}, form="row")(make())


def test_a_method_with_an_open_file_is_refused_by_its_name(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:

        class Logs:
            def on_rows(self, _key: Any, rows: Iterator[Any]) -> Iterator[Any]:
                for row in rows:
                    log.write(str(row))
                    yield {"v": 1}

        with pytest.raises(TypeError, match=r"function 'Logs': log: _io.TextIOWrapper; expected a value that can be"):
            keyed(columns={"v": "int"})(Logs)


def test_parameters_are_checked_when_a_function_is_declared(tmp_path: Path) -> None:
    def plain(row: Any) -> Any:
        return row

    async def waiting(row: Any) -> Any:
        return row

    def rows(_self: Any, _key: Any, rows: Any) -> Iterator[Any]:
        yield from rows

    wrong: list[tuple[Any, Any, str]] = [
        (function(), plain, "columns: not given; expected column to type, or sample="),
        (function(columns={"v": "number"}), plain, "'number'; expected"),
        (function(columns={"v": "int"}, form="pandas"), plain, "form: 'pandas'; expected one of polars, arrow, row"),
        (function(columns={"v": "int"}, form="row"), waiting, "form: 'row'; expected none, as a coroutine function"),
        (function(columns={"v": "int"}, concurrency=0), waiting, "concurrency: 0; expected an integer of at least 1"),
        (function(columns={"v": "int"}, retries=True), waiting, "retries: True; expected an integer of at least 0"),
        (function(columns={"v": "int"}), lambda row: row, "expected a function that has a name of its own"),
        (function(columns={"v": "int"}, file="m"), plain, "file: 'm'; expected load= as well"),
        (function(columns={"v": "int"}, load=len, file=tmp_path / "none"), plain, "expected a file that can be read"),
        (function(sample={"bytes": [1]}), waiting, "sample: given; expected columns= for a coroutine function"),
        (function(sample={"bytes": [1]}), lambda: 1, "expected a function that has a name of its own"),
        (aggregate(columns={"v": "text"}), plain, "'text'; expected"),
        (keyed(columns={"v": "int"}), plain, r"expected a class with the method on_rows\(self, key, rows\)"),
        (keyed(columns={"v": "int"}), type("C", (), {"on_rows": len}), "on_rows; expected a generator"),
        (keyed(columns={"v": "int"}), type("C", (), {"on_rows": rows, "on_time": 1}), "on_time; expected a method"),
    ]
    for declare, what, text in wrong:
        with pytest.raises(ValueError, match=text):
            declare(what)


def test_a_function_of_a_window_is_deterministic_and_others_are_not_unless_they_say_so() -> None:
    @function(columns={"n": "int"})
    async def looked_up(row: Any) -> Any:
        return row

    @aggregate(columns={"n": "int"})
    def counted(batch: Any) -> Any:
        return {"n": batch.height}

    @keyed(columns={"n": "int"})
    class Rows:
        def on_rows(self, _key: Any, rows: Iterator[Any]) -> Iterator[Any]:
            yield from rows

    declared: list[Any] = [looked_up, counted, Rows]
    assert [each.deterministic for each in declared] == [False, True, False]
    assert looked_up.content.concurrency == 8


def test_arguments_of_a_source_are_those_of_its_class() -> None:
    @reader(columns={"v": "int"})
    class Numbers(Source):
        def __init__(self, first: int = 0) -> None:
            self.first = first

        def open(self, position: Any) -> None:
            """Begin."""

        def poll(self, _seconds: float) -> None:
            """Give nothing."""

    @function(columns={"v": "int"}, form="row")
    def plain(row: Any) -> Any:
        return row

    numbers, other = cast("OwnFunction", Numbers), plain
    assert not [
        *numbers.wrongs({"arguments": {"first": 1}}),
        *numbers.wrongs({}),
        *other.wrongs({"arguments": {"b": 1}}),
    ]
    (wrong,) = numbers.wrongs({"arguments": {"last": 1}})
    assert (wrong.field, wrong.value) == ("arguments", {"last": 1})
    assert wrong.expected.startswith("those of Numbers(first")


def test_a_class_is_known_where_it_was_declared_or_its_module_imported() -> None:
    @reader(columns={"v": "int"})
    class Some(Source):
        def open(self, position: Any) -> None:
            """Begin."""

        def poll(self, _seconds: float) -> None:
            """Give nothing."""

    own = cast("OwnFunction", Some)
    assert known_functions.known(own.reference) is own
    assert known_functions.known(f"Some@{'0' * 32}") is None
    assert known_functions.known("tests.connectors.never_imported:Some") is None


def test_nothing_travels_of_an_installed_function() -> None:
    assert known_functions.payload_of("fares.models:predicted") == b""
    with pytest.raises(ValueError, match="expected one that this peer has"):
        known_functions.payload_of(f"predicted@{'0' * 32}")


def test_a_method_is_refused_and_limits_are_those_of_the_declaration() -> None:
    with pytest.raises(
        ValueError, match=r"function 'scored': a method of .*Holder; expected a function outside of a class"
    ):

        class Holder:
            @function(columns={"n": "int"}, form="row")
            def scored(self, row: dict[str, Any]) -> dict[str, Any]:
                return row

    @function(columns={"n": "int"}, timeout="5 s", memory="2 GB")
    def limited(batch: Any) -> Any:
        return batch

    packets = source("packets")
    params = packets.apply(limited).sink().operators["apply"].params
    assert (params["timeout"], params["memory"]) == (5.0, 2e9)
    assert packets.apply(limited, timeout="1 s").sink().operators["apply"].params["timeout"] == 1.0


def test_a_class_has_both_of_snapshot_and_restore_or_none() -> None:
    class Half:
        def on_rows(self, _key: Any, rows: Iterator[Any]) -> Iterator[Any]:
            yield from rows

        def snapshot(self) -> int:
            return 1

    with pytest.raises(ValueError, match="class 'Half': snapshot without restore; expected both or none"):
        keyed(columns={"v": "int"})(Half)


def test_columns_are_found_by_a_sample() -> None:
    @function(sample=[{"time": 1, "bytes": 5}], form="row")
    def several(row: dict[str, Any]) -> dict[str, Any]:
        return {"kB": row["bytes"] / 1000, "large": row["bytes"] > 3, "time": row["time"]}

    assert several.columns == {"kB": "float", "large": "bool"}

    with pytest.raises(ValueError, match="function 'failing': sample: KeyError: 'none'; expected rows that it accepts"):

        @function(sample=[{"bytes": 5}], form="row")
        def failing(row: dict[str, Any]) -> Any:
            return row["none"]


def test_each_kind_goes_with_its_method() -> None:
    own = made()
    with pytest.raises(TypeError, match=r"'valued'; expected a function that @aggregate has declared: use .apply"):
        source("packets").apply_windows(own, window="1 s")
