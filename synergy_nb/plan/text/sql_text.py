"""Plans as SQL: the text of a query that means the stream of a plan, with the clauses that ``sql()`` reads.

Each operator adds its clause to the query of its input, or selects from that query where SQL would apply the clause
earlier. A stream that several operators read is a common table expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any, Final, NoReturn

from synergy_nb.plan.checks.validation import Operator, PlanError, Problem
from synergy_nb.plan.operators.schemas import IMPLICIT, WINDOW_COLUMNS
from synergy_nb.plan.operators.sources import CONNECTORS
from synergy_nb.plan.operators.tables import new_columns
from synergy_nb.plan.sql.sql import (
    AGGREGATES,
    UNITS,
    call_name,
    calls,
    canonical,
    columns,
    literal_text,
    parse,
    quoted,
)
from synergy_nb.plan.terms.units import format_duration
from synergy_nb.plan.text.plan_file import written_parameters

__all__ = ["sql_text"]

_INDENT: Final = "    "
#: What a query already has: rows, WHERE, groups, HAVING, QUALIFY, SELECT, DISTINCT, ORDER BY.
_ROWS, _WHERE, _GROUPED, _HAVING, _QUALIFIED, _SELECTED, _DISTINCT, _ORDERED = range(8)
#: Parameters of operators that their clauses state.
_STATED: Final = {
    "filter": {"where"}, "project": {"columns"}, "aggregate": {"by", "window", "values", "half_life", "having"},
    "count": {"name", "window"}, "sort": {"by", "window"}, "top": {"k", "by", "per", "window"},
    "distinct": {"on", "window"}, "union": set(), "join": {"on", "within", "suffix", "how"},
    "asof": {"on", "within", "suffix", "how"}, "over": {"by", "window", "order", "values"},
    "lookup": {"table", "on", "how", "valid_from", "prefix"},
}  # fmt: skip
_FUNCTIONS: Final = {"tumbling": "TUMBLE", "sliding": "HOP", "session": "SESSION"}


def sql_text(operators: Mapping[str, Operator], schemas: Mapping[str, Mapping[str, str]]) -> str:
    """Write the query whose stream is that of the plan's only sink.

    ``operators``: operators in normal form, by id; ``schemas``: columns of their streams.

    Raises ``PlanError`` if SQL cannot say an operator, which it names.
    """
    return _Writer(operators, schemas).text()


@dataclass
class _Query:
    """A query, clause by clause."""

    rows: str  # what follows FROM
    stage: int = _ROWS
    items: list[str] = field(default_factory=lambda: ["*"])
    where: str = ""
    groups: list[str] = field(default_factory=list)
    having: str = ""
    qualify: str = ""
    distinct: str = ""
    order: str = ""
    limit: str = ""
    union: str = ""  # text of all queries, if there are several
    joined: bool = False  # whether the rows are those of two tables
    clashes: bool = False  # whether aggregates have names of columns that they read

    def text(self) -> str:
        """The text of the query."""
        if self.union:
            lines = [self.union]
        else:
            lines = [
                f"SELECT{' ' * bool(self.distinct)}{self.distinct.rstrip()}{_listed(self.items)}",
                f"FROM {self.rows}",
            ]
            lines += [f"WHERE {self.where}"] if self.where else []
            lines += [f"GROUP BY {', '.join(self.groups)}"] if self.groups else []
            lines += [f"HAVING {self.having}"] if self.having else []
            lines += [f"QUALIFY {self.qualify}"] if self.qualify else []
        lines += [f"ORDER BY {self.order}"] if self.order else []
        lines += [f"LIMIT {self.limit}"] if self.limit else []
        return "\n".join(lines)


class _Writer:
    """Writes the query of one plan."""

    def __init__(self, operators: Mapping[str, Operator], schemas: Mapping[str, Mapping[str, str]]) -> None:
        self._operators = operators
        self._schemas = schemas
        self._tables: dict[str, str] = {}  # common table expressions by the operators whose streams they are
        self._definitions: list[str] = []
        self._lookups: dict[str, tuple[str, Any]] = {}  # names and terms of tables by their content

    def text(self) -> str:
        sinks = [each for each in self._operators.values() if each.kind == "sink"]
        if len(sinks) != 1:
            names = ", ".join(each.id for each in sinks)
            raise PlanError([Problem("", "operators", names, "one sink: a query has one result")])
        self._check_profile(sinks[0])
        readers: dict[str, int] = {}
        for operator in self._operators.values():
            for up in operator.inputs:
                readers[up] = readers.get(up, 0) + 1
        queries: dict[str, _Query] = {}
        for name, operator in self._operators.items():
            if operator.kind == "sink":
                continue
            queries[name] = self._query(operator, [queries[up] for up in operator.inputs])
            if readers[name] > 1 and operator.kind != "source":
                table = self._table(name)
                self._definitions.append(f"{table} AS (\n{indent(queries[name].text(), _INDENT)}\n)")
                queries[name] = _Query(table)
        body = queries[sinks[0].inputs[0]].text()
        given = ", ".join(f"{name!r}: {_given(terms)}" for name, terms in self._lookups.values())
        head = f"-- to be read by sql(..., tables={{{given}}})\n" if given else ""
        head += f"WITH {', '.join(self._definitions)}\n" if self._definitions else ""
        return f"{head}{body}\n"

    def _table(self, name: str) -> str:
        """The name of a common table expression."""
        self._tables[name] = self._free(name)
        return quoted(self._tables[name])

    def _free(self, name: str) -> str:
        """A name that no table has."""
        taken = {*CONNECTORS, *self._tables.values(), *(each for each, _ in self._lookups.values())}
        while name in taken:
            name += "_"
        return name

    # -- operators -----------------------------------------------------------------------------------------------------

    def _query(self, operator: Operator, inputs: Sequence[_Query]) -> _Query:
        make = getattr(self, f"_{operator.kind}", None)
        if make is None:
            _refuse(operator, "kind", operator.kind, "an operator that SQL has; Python and YAML have this one")
        if operator.kind != "source":
            self._check_profile(operator)
            for name, value in written_parameters(operator, ()).items():
                if name not in _STATED[operator.kind]:
                    _refuse(operator, name, value, "the default, as SQL does not state it")
        if len(inputs) > 1:
            found: _Query = make(operator, inputs)
        else:
            found = make(operator, *(_copy(each) for each in inputs))
        return found

    def _check_profile(self, operator: Operator) -> None:
        """Refuse what is known of an operator's work, and where it runs, which SQL does not say."""
        for name in ("cost", "selectivity", "at", "availability"):
            value = getattr(operator, name)
            if value is not None:
                _refuse(operator, name, value, "no value, as SQL does not state it")
        if operator.engine != "auto":
            _refuse(operator, "engine", operator.engine, "auto, as SQL does not state it")

    def _source(self, operator: Operator) -> _Query:
        values = written_parameters(operator, ())
        name = values.pop("connector")
        if operator.cost is not None:
            values["cost"] = format_duration(operator.cost)
        for each in ("selectivity", "at", "availability"):
            if (value := getattr(operator, each)) is not None:
                values[each] = value
        if operator.engine != "auto":
            values["engine"] = operator.engine
        stated = ", ".join(f"{each} = {_literal(value)}" for each, value in values.items())
        return _Query(f"{name}({stated})" if stated else name)

    def _filter(self, operator: Operator, query: _Query) -> _Query:
        return _filtered(query, operator.params["where"])

    def _project(self, operator: Operator, query: _Query) -> _Query:
        if query.stage > _WHERE:
            query = _within(query)
        query.items = [_named(text, name) for name, text in operator.params["columns"].items()]
        query.stage = _SELECTED
        return query

    def _aggregate(self, operator: Operator, query: _Query) -> _Query:
        values: Mapping[str, str] = operator.params["values"]
        if operator.params.get("half_life") is not None:
            _refuse(operator, "half_life", operator.params["half_life"], "no half-life, as SQL has none")
        if len(set(values.values())) < len(values):
            _refuse(operator, "values", dict(values), "each aggregate once")
        if query.stage > _WHERE:
            query = _within(query)
        by = [quoted(name) for name in operator.params["by"]]
        query.items = [*by, *(_named(text, name) for name, text in values.items())]
        query.groups = [*by, _call(operator)]
        query.stage = _GROUPED
        query.clashes = not set(values).isdisjoint(self._schemas[operator.inputs[0]])
        having: str | None = operator.params.get("having")
        return query if having is None else _filtered(query, having)

    def _count(self, operator: Operator, query: _Query) -> _Query:
        if operator.params.get("window") is not None:
            expected = "an aggregate, which is the same: aggregate(window=..., n='count(*)')"
            _refuse(operator, "window", "a window of its own", expected)
        if query.stage > _WHERE:
            query = _within(query)
        query.items = [_named("count(*)", operator.params["name"])]
        query.groups, query.stage = list(WINDOW_COLUMNS), _GROUPED
        query.clashes = operator.params["name"] in self._schemas[operator.inputs[0]]
        return query

    def _sort(self, operator: Operator, query: _Query) -> _Query:
        for key in operator.params["by"]:
            if key.removesuffix(" desc") in IMPLICIT:
                _refuse(operator, "by", key, "other columns: SQL orders windows by their times")
        query = self._with_window(operator, query, _DISTINCT)
        query.order, query.stage = _keys(operator.params["by"]), _ORDERED
        return query

    def _top(self, operator: Operator, query: _Query) -> _Query:
        by, per, k = (operator.params[each] for each in ("by", "per", "k"))
        if not per and not {key.removesuffix(" desc") for key in by} & set(IMPLICIT):
            query = self._with_window(operator, query, _DISTINCT)
            query.order, query.limit, query.stage = _keys(by), str(k), _ORDERED
            return query
        query = self._with_window(operator, query, _HAVING)
        parts = ", ".join([*WINDOW_COLUMNS, *map(quoted, per)])
        query.qualify = f"row_number() OVER (PARTITION BY {parts} ORDER BY {_keys(by)}) <= {k}"
        query.stage = _QUALIFIED
        return query

    def _distinct(self, operator: Operator, query: _Query) -> _Query:
        on: Sequence[str] | None = operator.params.get("on")
        for name in on or ():
            if name in IMPLICIT:
                _refuse(operator, "on", name, "other columns: SQL has DISTINCT of each window")
        if query.stage in (_GROUPED, _HAVING, _QUALIFIED):
            query = _within(query)
        query = self._with_window(operator, query, _WHERE if on else _SELECTED)
        query.distinct = f"DISTINCT ON ({', '.join(map(quoted, on))}) " if on else "DISTINCT "
        query.stage = _DISTINCT
        return query

    def _with_window(self, operator: Operator, query: _Query, last: int) -> _Query:
        """Assign the operator's own window to rows, if it has one; ``last``: the last clause that may be there."""
        if query.stage > last or (query.union and last < _DISTINCT):
            query = _within(query)
        window = operator.params.get("window")
        if window is None:
            return query
        if query.stage not in (_ROWS, _WHERE, _SELECTED) or query.union or query.joined:
            query = _within(query)
        lengths = ", ".join(_interval(each) for each in _lengths(operator))
        query.rows = f"TABLE({_FUNCTIONS[window['kind']]}(TABLE {query.rows}, DESCRIPTOR(time), {lengths}))"
        return query

    def _union(self, operator: Operator, queries: Sequence[_Query]) -> _Query:
        del operator
        parts = [f"({each.text()})" if each.union or each.order else each.text() for each in queries]
        return _Query("", _SELECTED, union="\nUNION ALL\n".join(parts))

    def _asof(self, operator: Operator, queries: Sequence[_Query]) -> _Query:
        params = operator.params
        left, others = self._sides(operator)
        items = [f"l.{quoted(name)}" for name in left if name not in IMPLICIT]
        items += [_named(f"r.{quoted(name)}", other, name) for name, other in others.items()]
        between = f"l.time BETWEEN r.time AND r.time + {_interval(params['within'])}"
        conditions = [*(f"l.{quoted(name)} = r.{quoted(name)}" for name in params["on"]), between]
        kind = {"inner": "ASOF JOIN", "left": "ASOF LEFT JOIN"}[params["how"]]
        return _Query(f"{_sides_of(queries, kind)} ON {' AND '.join(conditions)}", _SELECTED, items, joined=True)

    def _sides(self, operator: Operator) -> tuple[Mapping[str, str], dict[str, str]]:
        """Columns of the left of a join, and those that the right adds, with their names in the result."""
        left, right = (self._schemas[up] for up in operator.inputs)
        suffix, on = operator.params["suffix"], operator.params["on"]
        taken = {name.casefold() for name in left}
        renamed: dict[str, str] = {}
        for name in right:
            if name not in IMPLICIT and name not in on:
                renamed[name] = name + suffix if name.casefold() in taken else name
                taken.add(renamed[name].casefold())
        if suffix != "_right" and all(name == other for name, other in renamed.items()):
            _refuse(operator, "suffix", suffix, "no suffix where no column needs one: SQL names each column")
        return left, renamed

    def _lookup(self, operator: Operator, query: _Query) -> _Query:
        params = operator.params
        terms, on, valid_from = params["table"], params["on"], params.get("valid_from")
        path = str(terms.get("path", "")).replace("\\", "/").rpartition("/")[2].partition(".")[0]
        content = str(terms["content"])
        if content not in self._lookups:
            self._lookups[content] = self._free(path or operator.id), terms
        left, prefix = self._schemas[operator.inputs[0]], params.get("prefix") or ""
        alias = prefix.removesuffix("_") or "r"
        added = new_columns(params)
        clash = {name.casefold() for name in added} & {name.casefold() for name in left}
        if prefix and (not clash or alias in (prefix, "l")):
            expected = "an alias with _, such as host_, where the stream has columns of these names, or else none"
            _refuse(operator, "prefix", prefix, expected)
        items = [f"l.{quoted(name)}" for name in left if name not in IMPLICIT]
        items += [_named(f"{quoted(alias)}.{quoted(name)}", own, name) for name, own in added.items()]
        conditions = [f"l.{quoted(ours)} = {quoted(alias)}.{quoted(theirs)}" for ours, theirs in on.items()]
        conditions += [f"l.time >= {quoted(alias)}.{quoted(valid_from)}"] if valid_from else []
        kind = f"{'ASOF ' if valid_from else ''}{'LEFT ' if params['how'] == 'left' else ''}JOIN"
        table = f"{quoted(self._lookups[content][0])} AS {quoted(alias)}"
        rows = f"{_table_of(query)} AS l {kind} {table} ON {' AND '.join(conditions)}"
        return _Query(rows, _SELECTED, items, joined=True)

    def _over(self, operator: Operator, query: _Query) -> _Query:
        params = operator.params
        by, order = (params.get(each) or () for each in ("by", "order"))
        query = self._with_window(operator, query, _ROWS)
        if query.stage != _ROWS or query.union:
            query = _within(query)
        key = f"PARTITION BY {', '.join([*WINDOW_COLUMNS, *map(quoted, by)])} ORDER BY {_keys([*order, 'time'])}"
        query.items = [quoted(name) for name in self._schemas[operator.inputs[0]] if name not in IMPLICIT]
        for name, text in params["values"].items():
            left, found = calls(parse(text, over=True))
            if not found and "time" not in columns(text):
                _refuse(operator, f"values.{name}", text, "a call over rows, or time: others are columns of a project")
            made = canonical(left)
            for place, call in found.items():
                frame = " ROWS UNBOUNDED PRECEDING" if call_name(call) in AGGREGATES else ""
                made = made.replace(quoted(place), f"{canonical(call)} OVER ({key}{frame})")
            query.items.append(_named(made, name))
        query.stage = _SELECTED
        return query

    def _join(self, operator: Operator, queries: Sequence[_Query]) -> _Query:
        params = operator.params
        on, within, how = (params[each] for each in ("on", "within", "how"))
        left, renamed = self._sides(operator)
        if set(on) & set(WINDOW_COLUMNS) and within:
            _refuse(operator, "within", within, "0 s, as the windows are equal")
        mine = [name for name in on if name not in IMPLICIT]
        mine += [name for name in left if name not in IMPLICIT and name not in on]
        items = [f"l.{quoted(name)}" for name in mine]
        if how != "anti":
            items += [_named(f"r.{quoted(name)}", other, name) for name, other in renamed.items()]
        conditions = [f"l.{quoted(name)} = r.{quoted(name)}" for name in on]
        span = _interval(within)
        between = f"l.time BETWEEN r.time - {span} AND r.time + {span}"
        conditions.append(between if within else "l.time = r.time")
        kind = {"inner": "JOIN", "left": "LEFT JOIN", "anti": "ANTI JOIN"}[how]
        return _Query(f"{_sides_of(queries, kind)} ON {' AND '.join(conditions)}", _SELECTED, items, joined=True)


def _refuse(operator: Operator, name: str, value: Any, expected: str) -> NoReturn:
    raise PlanError([Problem(operator.id, name, value, expected)])


def _filtered(query: _Query, condition: str) -> _Query:
    """A query with a condition over its columns."""
    if query.stage == _GROUPED and not query.clashes and "time" not in columns(condition):
        query.having, query.stage = condition, _HAVING
        return query
    if query.stage != _ROWS:
        query = _within(query)
    query.where, query.stage = condition, _WHERE
    return query


def _copy(query: _Query) -> _Query:
    return _Query(**{**vars(query), "items": list(query.items), "groups": list(query.groups)})


def _within(query: _Query) -> _Query:
    """A query that selects from a query."""
    return _Query(_table_of(query))


def _table_of(query: _Query) -> str:
    """A query as a table of FROM."""
    if query.stage == _ROWS and not query.union:
        return query.rows
    return f"(\n{indent(query.text(), _INDENT)}\n)"


def _sides_of(queries: Sequence[_Query], kind: str) -> str:
    """Both sides of a join, as the tables l and r."""
    left, right = (f"{_table_of(each)} AS {alias}" for each, alias in zip(queries, "lr", strict=True))
    return f"{left} {kind} {right}"


def _listed(items: Sequence[str]) -> str:
    line = ", ".join(items)
    return f" {line}" if len(line) < 100 else "\n" + ",\n".join(f"{_INDENT}{each}" for each in items)


def _named(text: str, name: str, own: str = "") -> str:
    """An expression with its name, unless it is the column of that name."""
    return text if (own or text) == (name if own else quoted(name)) else f"{text} AS {quoted(name)}"


def _given(terms: Mapping[str, Any]) -> str:
    """A table as an argument of Python; of one in memory nothing but that it is to be given."""
    if "path" not in terms:
        return "..."
    return repr({"path": terms["path"], "query": terms["query"]} if "query" in terms else terms["path"])


def _keys(by: Iterable[str]) -> str:
    return ", ".join(quoted(key.removesuffix(" desc")) + " DESC" * key.endswith(" desc") for key in by)


def _lengths(operator: Operator) -> list[float]:
    """Lengths of an operator's window, in the order of SQL, in seconds."""
    window = operator.params["window"]
    if window["kind"] not in _FUNCTIONS:
        _refuse(operator, "window", f"{window['rows']} rows", "a window of time: SQL has none of a number of rows")
    if window["kind"] == "sliding":
        return [float(window["slide"]), float(window["length"])]
    return [float(window.get("length", window.get("gap")))]


def _call(operator: Operator) -> str:
    """The window of an operator as a function of GROUP BY."""
    lengths = ", ".join(_interval(each) for each in _lengths(operator))
    return f"{_FUNCTIONS[operator.params['window']['kind']]}(time, {lengths})"


def _interval(seconds: float) -> str:
    number = round(seconds * 1e6)
    sizes = {name: size for name, size in UNITS.items() if size and name != "week"}
    unit, size = next((name, size) for name, size in reversed(sizes.items()) if number % size == 0 or size == 1)
    number //= size
    return f"INTERVAL '{number} {unit}{'s' * (number != 1)}'"


def _literal(value: Any) -> str:
    """A value of a parameter in SQL."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return literal_text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal_text(name)}: {_literal(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return repr(value)
