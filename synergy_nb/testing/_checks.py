"""Whether the rows of operators depend on nothing but the rows that go in: each operator by itself, four questions.

An operator gets the rows of its inputs as one batch each; what it gives for these is expected. Then it gets them again,
cut and punctuated, in other orders, and with its state moved to a new instance. So a failure is about one operator, and
its input can be made smaller for as long as it fails.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl

from synergy_nb.dataflow.logic import ANYTHING, SavedState, error_reason
from synergy_nb.dataflow.operators.base import OperatorLogic
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, decode_table, encode_table
from synergy_nb.errors import user_facing
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.terms.function_references import name_of
from synergy_nb.testing._feeding import Feed, accepted, drive, feed, micros
from synergy_nb.testing._running import Subject, Tested, table_of

__all__ = ["check"]

Rows: TypeAlias = list[tuple[Any, ...]]
_BATCHES: Final = 200  # most batches into which an input is cut
_TRIES: Final = 300  # executions to find a smaller example
_LAST_DIGITS: Final = (
    "it says deterministic=True, and only the last digits of floats differ: Polars divides a column by a number in "
    "another way in a batch of one row, so multiply by its reciprocal, or round the result"
)
_SHOWN: Final = 8  # rows of a table in a message


class _Difference(NamedTuple):
    """What was found in place of what was expected, and how."""

    expected: Rows
    found: Rows
    how: str  # what was done: "found, ..."


class _Operator:
    """One operator under test."""

    def __init__(self, tested: Tested, name: str, seed: int) -> None:
        self.tested, self.name, self.seed = tested, name, seed
        self.node = tested.plan.operators[name]
        self.columns = list(tested.plan.schema(name))
        # readers of replicas tell rows apart by each bit; of others the last digits of floats may differ
        self.exact = bool(self.node.params.get("deterministic", "function" not in self.node.params))

    def new(self) -> OperatorLogic:
        """A new instance, whose sums of floats do not depend on their order."""
        return self.tested.logic(self.name, exact=True)

    def rows(self, make: Callable[[], Sequence[Item]]) -> Rows:
        """The rows of what is made; the reason, if it fails."""
        try:
            return [row for item in make() if isinstance(item, Batch) for row in item.table.rows()]
        except (*ANYTHING, AssertionError) as error:
            return [(error_reason(error),)]
        finally:
            self.tested.close()

    def whole(self, tables: Sequence[pl.DataFrame]) -> Rows:
        """The rows that it gives for its inputs, each as one batch."""
        return self.rows(lambda: drive(self.new(), _whole(tables)))

    # -- the questions: each yields what differs ---------------------------------------------------------------------

    def twice(self, tables: Sequence[pl.DataFrame]) -> Iterator[_Difference]:
        """Whether it gives other rows when it is executed again."""
        expected = self.whole(tables)
        for _ in range(3):
            yield _Difference(expected, self.whole(tables), "found, executed again")

    def cut(self, tables: Sequence[pl.DataFrame]) -> Iterator[_Difference]:
        """Whether batches and punctuations make a difference."""
        expected = self.whole(tables)
        most = max((table.height for table in tables), default=0)
        for number, size in enumerate(dict.fromkeys((1, 2, 5, most // 3, most))):
            items = feed(tables, self.seed + number, max(size, most // _BATCHES, 1))
            sizes = [str(item.rows) for _, item in items if isinstance(item, Batch)]
            how = f"found, in batches of {', '.join(sizes[:12])}{', ...' if len(sizes) > 12 else ''} rows"
            yield _Difference(expected, self.rows(lambda items=items: drive(self.new(), items)), how)  # type: ignore[misc]

    def order(self, tables: Sequence[pl.DataFrame]) -> Iterator[_Difference]:
        """Whether the order of arrival makes a difference, where replicas that read in other orders are to agree."""
        if not KINDS[self.node.kind].replicas(self.node.params)[0]:
            return
        expected = self.whole(tables)
        for number in range(4):
            rng = random.Random(self.seed + number)
            orders = [_order(table, rng, number) for table in tables]
            items = feed([table[order] for table, order in zip(tables, orders, strict=True)], self.seed + number)
            shown = "; ".join(", ".join(map(str, order[:12])) for order in orders)
            how = f"found, if a replica reads its rows in the order {shown}"
            yield _Difference(expected, self.rows(lambda items=items: drive(self.new(), items)), how)  # type: ignore[misc]

    def snapshot(self, tables: Sequence[pl.DataFrame]) -> Iterator[_Difference]:
        """Whether it goes on otherwise where a new instance is restored from a snapshot."""
        most = max((table.height for table in tables), default=0)
        for size in (1, 5):
            items = feed(tables, self.seed, max(size, most // _BATCHES))
            expected = self.rows(lambda items=items: drive(self.new(), items))  # type: ignore[misc]
            how = "found, with a snapshot and a restore between any two items"
            yield _Difference(expected, self.rows(lambda items=items: self._moved(items)), how)  # type: ignore[misc]
            for place in sorted(random.Random(self.seed).sample(range(len(items)), min(4, len(items)))):
                how = f"found, with a snapshot after each item, and a restore before item {place}"
                moved = self.rows(lambda items=items, place=place: self._moved(items, place))  # type: ignore[misc]
                yield _Difference(expected, moved, how)

    def _moved(self, items: Feed, only: int | None = None) -> list[Item]:
        """What it emits if it is saved before each item, and restored in a new instance each time, or at one place."""
        logic, given = self.new(), list[Item]()
        for number, (port, item) in enumerate(items):
            saved = logic.save()
            if only is None or number == only:
                logic = self.new()
                tables = {number: decode_table(encode_table(table)) for number, table in saved.tables.items()}
                logic.restore(SavedState(saved.head, tables))
            given += drive(logic, [(port, item)])
        return given


_Question: TypeAlias = Callable[[_Operator, Sequence[pl.DataFrame]], Iterator[_Difference]]
_QUESTIONS: Final[Sequence[tuple[_Question, str]]] = (
    (_Operator.twice, "its rows are others when it is executed again"),
    (_Operator.cut, "its rows depend on how its input is cut into batches, or where the punctuations are"),
    (_Operator.order, "its rows depend on the order in which its input is read, but it says that replicas agree"),
    (_Operator.snapshot, "its rows depend on whether its state is saved and restored"),
)


@user_facing
def check(what: Subject, rows: Any = None, *, seed: int = 0, **options: Any) -> None:
    """Assert that rows do not depend on how and where they are computed.

    Each operator has to give the same rows when it is executed again; however its input is cut into batches, and
    wherever the punctuations are; in whichever order it reads its input, if it says that replicas agree; and if its
    state is saved and restored in a new instance between any two items. The order of the rows does not matter.

    Parameters
    ----------
    what, rows, options
        See :func:`run`. The more kinds of rows there are, such as several of a key, the more is found.
    seed
        Seed of cuts and orders: the same seed tries the same.

    Raises
    ------
    AssertionError
        If rows differ: it says which operator, by what they differ, and the smallest input that was found.
    ValueError
        If the rows do not fit, or the function fails whatever is done.

    Examples
    --------
    >>> import polars as pl
    >>> from synergy_nb import function
    >>> from synergy_nb.testing import check
    >>> @function(columns={"above": "float"})
    ... def above_mean(batch):
    ...     return batch.select(above=pl.col("bytes") - pl.col("bytes").mean())
    >>> check(above_mean, {"time": [1, 2, 3], "bytes": [4, 4, 7]})
    Traceback (most recent call last):
    AssertionError: function 'above_mean' (operator 'apply'): its rows depend on how its input is cut into batches, ...
    """
    tested = Tested(what, rows, options)
    plan = tested.plan
    inputs: dict[str, pl.DataFrame] = {}
    for name in tested.order:
        if name in tested.sources:
            items = tested.sources[name]
            table = table_of(items, plan.schema(name))
            inputs[name] = accepted([table], [(0, item) for item in items])[0][0].drop("pos")
            continue
        tables = [inputs[upstream] for upstream in plan.operators[name].inputs]
        try:
            inputs[name] = table_of(drive(tested.logic(name, exact=True), _whole(tables)), plan.schema(name))
        finally:
            tested.close()
        operator = _Operator(tested, name, seed)
        for question, words in _QUESTIONS:
            _answer(operator, question, words, tables)


def _answer(operator: _Operator, question: _Question, words: str, tables: Sequence[pl.DataFrame]) -> None:
    """Raise ``AssertionError`` about the first difference, with an example as small as is found."""

    def first(of: Sequence[pl.DataFrame]) -> _Difference | None:
        exact = operator.exact
        return next((each for each in question(operator, of) if not _same(each.expected, each.found, exact)), None)

    difference = first(tables)
    if difference is None:
        return
    smallest = list(tables)
    for port in range(len(tables)):
        smallest[port] = _smaller(smallest, port, lambda of: first(of) is not None)
    difference = first(smallest) or difference
    params = operator.node.params
    who = f"function {name_of(params['function'])!r} (operator" if "function" in params else f"({operator.node.kind}"
    who = f"{who} {operator.name!r})"
    if question is _Operator.twice and params.get("deterministic") is False:
        words += "; nothing else can be checked, so give it a stand-in for what it asks"
    elif question is _Operator.twice and params.get("deterministic"):
        words += ", but it says deterministic=True"
    if _same(difference.expected, difference.found, exact=False):
        words += f"; {_LAST_DIGITS}"
    missing, more = (Counter(map(_key, each)) for each in (difference.expected, difference.found))
    expected = [row for row in difference.expected if more[_key(row)] < missing[_key(row)]]
    found = [row for row in difference.found if missing[_key(row)] < more[_key(row)]]
    lines = [f"{who}: {words}"]
    for number, table in enumerate(smallest):
        lines += [f"input{f' {number}' if len(smallest) > 1 else ''}:", *_shown(table.rows(), table.columns)]
    lines += ["expected, among others:" if len(expected) < len(difference.expected) else "expected:"]
    lines += _shown(expected, operator.columns)
    lines += [f"{difference.how}:", *_shown(found, operator.columns)]
    raise AssertionError("\n".join(lines))


def _smaller(
    tables: Sequence[pl.DataFrame], port: int, fails: Callable[[Sequence[pl.DataFrame]], bool]
) -> pl.DataFrame:
    """A table of a port with fewer rows that fails still: without a half, a quarter, ... and single rows."""
    table = tables[port]
    size, tries = table.height // 2, 0
    while size and tries < _TRIES:
        at = 0
        while at < table.height and tries < _TRIES:
            less = pl.concat([table.slice(0, at), table.slice(at + size)])
            tries += 1
            if fails([less if number == port else each for number, each in enumerate(tables)]):
                table = less
            else:
                at += size
        size = min(size, table.height) // 2
    return table


def _whole(tables: Sequence[pl.DataFrame]) -> Feed:
    """Each input as one batch, and its end."""
    items: Feed = [(port, Batch(table, 0, 0.0)) for port, table in enumerate(tables) if table.height]
    return items + [(port, Punctuation(END, table.height, 0.0)) for port, table in enumerate(tables)]


def _order(table: pl.DataFrame, rng: random.Random, number: int) -> list[int]:
    """An order of arrival: rows of equal times change places, then also others, the more the greater the number."""
    times = micros(table)
    delay = (max(times) - min(times)) * number // 3 if times else 0
    arrivals = [(time + rng.randint(0, delay), rng.random()) for time in times]
    return sorted(range(len(times)), key=arrivals.__getitem__)


def _key(row: tuple[Any, ...]) -> str:
    """A row as text, by which rows are equal: 0.0 and -0.0 are, and all NaNs."""
    return repr([each + 0.0 if type(each) is float else each for each in row])


def _same(one: Rows, other: Rows, exact: bool) -> bool:
    """Whether rows are equal in any order; if not ``exact``, but for the last digits of floats."""
    if Counter(map(_key, one)) == Counter(map(_key, other)):
        return True
    if exact or len(one) != len(other):
        return False
    pairs = zip(sorted(one, key=_rank), sorted(other, key=_rank), strict=True)
    return all(len(a) == len(b) and all(map(_close, a, b)) for a, b in pairs)


def _rank(row: tuple[Any, ...]) -> tuple[list[str], list[float]]:
    """A place in an order in which rows that differ by the last digits of floats are next to each other."""
    floats = [each for each in row if type(each) is float]
    return [repr(each) for each in row if type(each) is not float], [
        math.inf if math.isnan(each) else each for each in floats
    ]


def _close(one: Any, other: Any) -> bool:
    if type(one) is float and type(other) is float:
        return math.isclose(one, other, rel_tol=1e-12) or (math.isnan(one) and math.isnan(other))
    return repr(one) == repr(other)


def _shown(rows: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> list[str]:
    """Lines of some rows."""
    lines = [
        "    " + (", ".join(f"{name}={_text(value)}" for name, value in zip(columns, row, strict=True))
                  if len(row) == len(columns) and len(columns) > 1 else str(row[0]))
        for row in rows[:_SHOWN]
    ]  # fmt: skip
    return lines + ([f"    and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []) or ["    no rows"]


def _text(value: Any) -> str:
    return str(value) if hasattr(value, "isoformat") else repr(value)
