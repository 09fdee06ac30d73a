"""What is tested as a plan, its rows as items, and its execution: one operator after another, in this process."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import polars as pl

from synergy_nb.dataflow.functions.calls import LocalCalls, local
from synergy_nb.dataflow.operators.base import Context, OperatorLogic, create
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation, concatenated, empty, microseconds_of
from synergy_nb.errors import user_facing
from synergy_nb.plan import Plan, Stream, source
from synergy_nb.plan.data_frames import is_frame
from synergy_nb.plan.derived.named_secrets import secrets_of_plan
from synergy_nb.plan.functions.declaring import OwnFunction
from synergy_nb.plan.operators.sources import GENERATED, is_endless
from synergy_nb.testing._feeding import Feed, drive, micros
from synergy_nb.traces import read
from synergy_nb.traces.rows import RowReader, row_reader

__all__ = ["Tested", "run", "table_of"]

Subject: TypeAlias = Plan | Stream | OwnFunction | type[Any]  # to a type checker a class stays what it was


@user_facing
def run(what: Subject, rows: Any = None, **options: Any) -> Any:
    """Run a plan, a stream or a function over some rows, without peers and without a clock.

    Parameters
    ----------
    what
        Plan, stream, or what ``@function``, ``@aggregate`` or ``@keyed`` has declared.
    rows
        Rows of its source: a table, in the order of its times; or a list of dictionaries, in the order of their
        arrival. A ``datetime`` between the dictionaries promises that no earlier row follows. Of a plan with several
        sources, a dictionary of these by their ids. Sources of files, and of packets with a ``count`` or a
        ``duration``, need none; any source takes the rows that are given for it.
    options
        Parameters of the method that applies a function, for a function alone: ``window``, ``by``, ``key``,
        ``keep``, ``errors``.

    Returns
    -------
    polars.DataFrame or dict of str to polars.DataFrame
        Rows of the sink; of several sinks, by their names.

    Raises
    ------
    ValueError
        If the rows do not fit, or the function fails; the text names column, row and value.

    Examples
    --------
    >>> from synergy_nb import keyed
    >>> from synergy_nb.testing import run
    >>> @keyed(columns={"total": "int"})
    ... class Totals:
    ...     def __init__(self):
    ...         self.total = 0
    ...     def on_rows(self, key, rows):
    ...         for row in rows:
    ...             self.total += row["bytes"]
    ...             yield {"total": self.total}
    >>> rows = [{"time": 1, "link": "A", "bytes": 4}, {"time": 2, "link": "A", "bytes": 5}]
    >>> run(Totals, rows, key="link")["total"].to_list()
    [4, 9]
    """
    tested = Tested(what, rows, options)
    try:
        outputs = tested.outputs()
    finally:
        tested.close()
    plan = tested.plan
    found = {
        str(plan.operators[sink].params.get("name") or sink): table_of(outputs[sink], plan.schema(sink))
        for sink in plan.sinks
    }
    return next(iter(found.values())) if len(found) == 1 else found


class Tested:
    """A plan, the items of its sources, and logics of its operators, of which the functions end with it."""

    def __init__(self, what: Subject, rows: Any, options: Mapping[str, Any]) -> None:
        if isinstance(what, OwnFunction):
            what, rows = _alone(what, rows, options)
        elif options:
            raise TypeError(f"{', '.join(options)}: given; expected none but for a function alone")
        if isinstance(what, Stream):
            what = what.sink()
        if not isinstance(what, Plan):
            raise TypeError(f"{what!r}; expected a plan, a stream, or what @function, @aggregate or @keyed returns")
        self.plan = what
        self.sources = {name: _items(what, name, given) for name, given in _rows_by_source(what, rows).items()}
        self._calls: list[LocalCalls] = []

    @cached_property
    def order(self) -> list[str]:
        """Ids of all operators, inputs before their readers."""
        found: dict[str, None] = {}

        def visit(name: str) -> None:
            for upstream in self.plan.operators[name].inputs:
                visit(upstream)
            found.setdefault(name)

        for sink in self.plan.sinks:
            visit(sink)
        return list(found)

    def logic(self, operator: str, *, exact: bool | None = None) -> OperatorLogic:
        """Make a new logic of an operator; ``exact``: whether sums of floats do not depend on their order."""
        declared, secrets = self.plan.operators[operator], self._secrets
        return create(declared, self.plan, secrets=secrets, wait=_at_once, exact=exact, functions=self._local)

    def outputs(self) -> dict[str, list[Item]]:
        """What each operator emits."""
        found: dict[str, list[Item]] = dict(self.sources)
        for name in self.order:
            if name not in found:
                inputs = [found[upstream] for upstream in self.plan.operators[name].inputs]
                found[name] = drive(self.logic(name), _merged(inputs))
        return found

    def close(self) -> None:
        """End what the functions have started."""
        for each in self._calls:
            each.close()
        self._calls.clear()

    def _local(self, context: Context) -> LocalCalls:
        calls = local(context)
        self._calls.append(calls)
        return calls

    @cached_property
    def _secrets(self) -> dict[str, bytes]:
        """A secret for each name that the plan uses, the same in each run."""
        names = {named.name for _, named in secrets_of_plan(self.plan)}
        return {name: hashlib.sha256(name.encode()).digest() for name in names}


def table_of(items: Iterable[Item], schema: Mapping[str, str]) -> pl.DataFrame:
    """All rows of some items."""
    tables = [each.table for each in items if isinstance(each, Batch)]
    return concatenated(tables) if tables else empty(schema)


def _at_once(_: float) -> None:
    """Wait for no time."""


def _alone(own: OwnFunction, rows: Any, options: Mapping[str, Any]) -> tuple[Stream, Any]:
    """A stream of a function alone, and the rows of its source."""
    frame = rows
    if isinstance(rows, list | tuple):
        frame = [each for each in rows if not isinstance(each, dt.datetime)]
    if frame is None or (isinstance(frame, list) and not frame):
        raise ValueError(
            f"rows: {rows!r}; expected rows for {own.name!r}, or a table that has none, but columns with their types"
        )
    if own.content.kind == "apply_keyed" and "key" not in options:
        raise TypeError(f"key: not given; expected the columns of the key of {own.name!r}, as in key='user'")
    return getattr(source(frame, id="rows"), own.content.kind)(own, **options), {"rows": rows}


def _rows_by_source(plan: Plan, rows: Any) -> dict[str, Any]:
    """Rows that are given for each source, by its id; None where it is read as it is."""
    sources = {name: each for name, each in plan.operators.items() if each.kind == "source"}
    found: dict[str, Any] = {name: plan.rows.get(name) for name in sources}
    if rows is None:
        return found
    called = {str(each.params.get("name")): name for name, each in sources.items()} | {name: name for name in sources}
    if isinstance(rows, Mapping) and rows and called.keys() >= rows.keys():
        return found | {called[name]: given for name, given in rows.items()}
    if len(sources) > 1:
        raise ValueError(f"rows: not by source; expected a dictionary of rows by source: {', '.join(sources)}")
    return dict.fromkeys(sources, rows)


def _items(plan: Plan, name: str, rows: Any) -> list[Item]:
    """The items of a source."""
    params = plan.operators[name].params
    connector = params["connector"]
    if rows is None:
        endless = connector in GENERATED and is_endless(params)
        if endless or connector not in ("trace", *GENERATED):
            what = "an endless source" if endless else f"a source of connector {connector!r}"
            raise ValueError(f"operator {name!r}: {what}; expected rows for it")
        return list(read(params))
    reader = row_reader(plan, name) if connector == "python" else RowReader(name, plan.schema(name))
    if not isinstance(rows, list | tuple) and (is_frame(rows) or not isinstance(rows, Iterable)):
        parts: list[Any] = [reader.table(rows)]
    else:
        parts = _parts(rows, reader)
    items: list[Item] = []
    position, low = 0, START
    for part in parts:
        if isinstance(part, pl.DataFrame):
            items += [Batch(part, position, 0.0)] if part.height else []
            position += part.height
        elif part > low:
            low = part
            items.append(Punctuation(part, position, 0.0))
    return [*items, Punctuation(END, position, 0.0)]


def _parts(rows: Iterable[Any], reader: RowReader) -> list[pl.DataFrame | int]:
    """Tables, and times that are promised, microseconds."""
    parts: list[pl.DataFrame | int] = []
    waiting: list[Mapping[str, Any]] = []
    for each in [*rows, None]:
        if isinstance(each, Mapping) and not is_frame(each):
            waiting.append(each)
            continue
        if waiting:
            parts.append(reader.of_rows(waiting))
            waiting = []
        if isinstance(each, dt.datetime):
            parts.append(microseconds_of(each))
        elif each is not None:
            parts.append(reader.table(each))
    return parts


def _merged(inputs: Sequence[Sequence[Item]]) -> Feed:
    """The items of all ports, those of earlier times first."""

    def times(port: int, items: Sequence[Item]) -> list[tuple[int, int, int]]:
        latest, found = START, []
        for number, item in enumerate(items):
            latest = max(latest, max(micros(item.table)) if isinstance(item, Batch) else item.time)
            found.append((latest, port, number))
        return found

    order = sorted(each for port, items in enumerate(inputs) for each in times(port, items))
    return [(port, inputs[port][number]) for _, port, number in order]
