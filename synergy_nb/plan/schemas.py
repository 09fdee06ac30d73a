"""Schema rules: which columns the stream of an operator has, given those of its inputs, and what does not fit.

A schema is a dictionary of column to type. Every stream has ``time``; a windowed one also ``window_start`` and
``window_end``. Operators that make windows (aggregate, and sort, count and distinct with a ``window``) give windowed
streams; the others keep the windows of their input. A join keeps windows only if both inputs are windowed and it joins
on ``window_start`` and ``window_end``; otherwise it leaves out the window columns of both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from synergy_nb.plan import sql
from synergy_nb.plan.catalogue import TRACE_SCHEMAS, TYPES
from synergy_nb.plan.units import WrongValue, nearest

__all__ = ["WINDOW_COLUMNS", "Derivation", "Schema", "derive"]

Schema = dict[str, str]
#: Columns that a windowed stream has beside ``time``.
WINDOW_COLUMNS: Final = ("window_start", "window_end")
_IMPLICIT: Final = ("time", *WINDOW_COLUMNS)
_TIME_NAMES: Final = ("time", "timestamp", "ts", "datetime", "date")
_ORDERED: Final = ("int", "float", "str", "time")


class Derivation:
    """The stream of one operator, and everything that is wrong on the way to it.

    Parameters
    ----------
    kind
        Kind of the operator.
    params
        Its parameters, each parsed by the catalogue; expressions become canonical here.
    inputs, windows
        Schema and window of each input; None where they are unknown because something before them is wrong.
    wrongs
        Receives what is wrong, each with its field.
    faulty
        Names of parameters that are missing although they are needed, or cannot be read; ``params`` lacks them.
    """

    def __init__(
        self,
        kind: str,
        params: dict[str, Any],
        inputs: Sequence[Schema | None],
        windows: Sequence[Mapping[str, Any] | None],
        wrongs: list[WrongValue],
        faulty: Collection[str] = (),
    ) -> None:
        self.kind = kind
        self.params = params
        self.inputs = inputs
        self.windows = windows
        self.wrongs = wrongs
        self.faulty = faulty
        self.window: Mapping[str, Any] | None = windows[0] if windows else None

    def wrong(self, field: str, value: Any, expected: str, near: str | None = None) -> None:
        """Note one fault."""
        self.wrongs.append(WrongValue(value, expected, near, field))

    def rewrite(self, field: str, texts: Mapping[str, str]) -> None:
        """Replace the expressions of a parameter, if it can be read, by their canonical texts."""
        if field in self.params:
            self.params[field] = dict(texts)

    @property
    def input(self) -> Schema:
        """Schema of the first input; only where it is known."""
        first = self.inputs[0]
        assert first is not None
        return first

    def column(self, field: str, name: str, schema: Schema, kinds: Sequence[str] | None = None) -> bool:
        """Whether ``name`` is a column of ``schema`` (and of one of ``kinds``); notes it if not."""
        if name not in schema:
            self.wrong(field, name, f"a column of its input ({', '.join(schema)})", nearest(name, schema))
        elif kinds is not None and schema[name] not in kinds:
            self.wrong(field, name, f"a column of type {' or '.join(kinds)}, not {schema[name]}")
        else:
            return True
        return False

    def expression(self, field: str, text: str, *, aggregate: bool = False) -> tuple[str, str] | None:
        """Canonical text and type of an expression over the input; None if something is wrong with it."""
        schema = self.inputs[0] if self.inputs else None
        try:
            tree = sql.parse(text, schema, aggregate=aggregate)
            return sql.canonical(tree), sql.infer_type(tree, schema) if schema is not None else "any"
        except sql.SqlError as error:
            for wrong in error.wrongs:
                self.wrong(field, wrong.value, wrong.expected, wrong.nearest)
            return None

    def output(self, field: str, columns: Mapping[str, str], *, windowed: bool) -> Schema:
        """Implicit columns followed by ``columns``, whose names must be free and differ by more than their case."""
        schema = dict.fromkeys(_IMPLICIT if windowed else ("time",), "time")
        folded = {name.casefold(): name for name in _IMPLICIT}
        for name, kind in columns.items():
            other = folded.get(name.casefold())
            if other is not None:
                because = "which every stream keeps by itself" if other in _IMPLICIT else "not even by case"
                self.wrong(field, name, f"a name other than {other}, {because}")
                continue
            folded[name.casefold()] = name
            schema[name] = kind
        return schema


def derive(derivation: Derivation) -> Schema | None:
    """The schema of the operator's stream; None if it cannot be said.

    ``derivation.params`` gets canonical expressions, ``derivation.window`` the window of the stream, and
    ``derivation.wrongs`` what is wrong. A mistake that leaves the columns as they are, such as one in a condition, does
    not hide them from what follows; nor does a mistake in one parameter hide those in others.
    """
    if any(schema is None for schema in derivation.inputs) or (derivation.kind != "source" and not derivation.inputs):
        _syntax(derivation)
        return None
    before = len(derivation.wrongs)
    schema = _RULES.get(derivation.kind, _same)(derivation)
    wrong = {each.field.partition(".")[0] for each in derivation.wrongs[before:]} | set(derivation.faulty)
    return None if wrong & _SHAPING.get(derivation.kind, set()) else schema


def _syntax(it: Derivation) -> None:
    """Without the columns, look at least at the syntax of expressions."""
    it.inputs = ()
    if it.kind == "filter" and "where" in it.params:
        it.expression("where", it.params["where"])
    field = {"project": "columns", "aggregate": "values"}.get(it.kind)
    for name, text in it.params.get(field, {}).items() if field else ():
        it.expression(f"{field}.{name}", text, aggregate=it.kind == "aggregate")


def _same(it: Derivation) -> Schema:
    return dict(it.input)


def _source(it: Derivation) -> Schema | None:
    params = it.params
    if _SHAPING["source"] & set(it.faulty):
        return None
    connector: str = params["connector"]
    if connector in ("packets", "peers"):
        return dict(TRACE_SCHEMAS[connector])
    if connector == "python":
        columns = {name: kind for name, kind in params["columns"].items() if (name, kind) != ("time", "time")}
        clock: str = params["time"]
        if clock != "time" and columns.pop(clock, "time") == "bytes":
            it.wrong("time", clock, "a column of type time, int, float or str, not bytes")
        return it.output("columns", columns, windowed=False)
    trace_format: str = params["format"]
    if trace_format in TRACE_SCHEMAS:
        for field in ("columns", "time"):
            if field in params:
                it.wrong(field, params[field], f"no {field}: the columns of format {trace_format} are fixed")
        return dict(TRACE_SCHEMAS[trace_format])
    if "columns" not in params:
        example = 'columns={"user": "str", "amount": "float"}'
        it.wrong(
            "columns",
            None,
            f"columns with their types ({', '.join(TYPES)}), which format {trace_format} needs, as in {example}",
        )
        return None
    columns = dict(params["columns"])
    clock = params.setdefault("time", next((name for name in _TIME_NAMES if name in columns), "time"))
    if columns.pop(clock, "time") not in ("time", "int", "float"):
        it.wrong("time", clock, f"a column of type time, int or float, not {params['columns'][clock]}")
    return it.output("columns", columns, windowed=False)


def _filter(it: Derivation) -> Schema:
    found = it.expression("where", it.params["where"]) if "where" in it.params else None
    if found is not None:
        it.params["where"], kind = found
        if kind not in ("bool", "null"):
            it.wrong("where", it.params["where"], f"a condition, not {kind}")
    return dict(it.input)


def _project(it: Derivation) -> Schema:
    kinds: dict[str, str] = {}
    texts: dict[str, str] = {}
    for name, text in it.params.get("columns", {}).items():
        found = it.expression(f"columns.{name}", text)
        if found is None:
            continue
        texts[name], kinds[name] = found
        if kinds[name] == "null":
            it.wrong(f"columns.{name}", text, "a value with a type, such as CAST(NULL AS int)")
    it.rewrite("columns", texts)
    return it.output("columns", kinds, windowed=_windowed(it.input))


def _union(it: Derivation) -> Schema:
    first, *others = [list(schema.items()) for schema in it.inputs if schema is not None]
    for other in others:
        if other != first:
            written = ", ".join(f"{name} {kind}" for name, kind in other)
            wanted = ", ".join(f"{name} {kind}" for name, kind in first)
            it.wrong("inputs", written, f"the columns of the first input in their order ({wanted})")
    _equal_windows(it)
    return dict(first)


def _aggregate(it: Derivation) -> Schema:
    columns: dict[str, str] = {}
    for name in it.params.get("by", ()):
        if name in _IMPLICIT:
            it.wrong("by", name, "a column other than time and the bounds of windows, which group by themselves")
        elif it.column("by", name, it.input):
            columns[name] = it.input[name]
    texts: dict[str, str] = {}
    for name, text in it.params.get("values", {}).items():
        if name in columns:
            it.wrong(f"values.{name}", name, "a name that is not in 'by'")
        found = it.expression(f"values.{name}", text, aggregate=True)
        if found is not None:
            texts[name], columns[name] = found
            if columns[name] == "null":
                it.wrong(f"values.{name}", text, "a value with a type, such as CAST(NULL AS int)")
    it.rewrite("values", texts)
    it.window = it.params.get("window")
    return it.output("values", columns, windowed=True)


def _windowed(schema: Schema) -> bool:
    return WINDOW_COLUMNS[0] in schema and WINDOW_COLUMNS[1] in schema


def _equal_windows(it: Derivation) -> None:
    """Note windows of inputs that differ, as far as they are known: one that cannot be read may be right."""
    known = [
        window
        for schema, window in zip(it.inputs, it.windows, strict=True)
        if window is not None or not _windowed(schema or {})
    ]
    if any(window != known[0] for window in known):
        it.wrong("inputs", [dict(window or {}) for window in it.windows], "inputs with equal windows")


def _own_window(it: Derivation) -> None:
    """An operator on windows: those of its input, or else its own ``window``."""
    if _windowed(it.input):
        if "window" in it.params:
            it.wrong("window", it.params["window"], "no window: its input has windows already")
    elif "window" not in it.params and "window" not in it.faulty:
        it.wrong("window", None, "a window such as '20 min': its input has none")
    else:
        it.window = it.params.get("window")


def _sort(it: Derivation) -> Schema:
    _own_window(it)
    for key in it.params.get("by", ()):
        name = key.removesuffix(" desc") if key not in it.input else key
        it.column("by", name, it.input)
    return _with_windows(it)


def _distinct(it: Derivation) -> Schema:
    _own_window(it)
    for name in it.params.get("on", ()):
        it.column("on", name, it.input)
    return _with_windows(it)


def _with_windows(it: Derivation) -> Schema:
    return it.output("inputs", {name: kind for name, kind in it.input.items() if name not in _IMPLICIT}, windowed=True)


def _count(it: Derivation) -> Schema:
    _own_window(it)
    return it.output("name", {it.params["name"]: "int"} if "name" in it.params else {}, windowed=True)


def _compare(it: Derivation) -> Schema:
    by = it.params.get("by", ())
    if "value" in it.params:
        it.column("value", it.params["value"], it.input, _ORDERED)
    for name in by:
        it.column("by", name, it.input)
    if not _windowed(it.input):
        it.wrong("inputs", "an input without windows", "an input with windows, such as that of aggregate or sort")
    if len(it.inputs) == 2:
        if by:
            it.wrong("by", by, "no columns: a count gives the rows of the whole window")
        counts = dict(it.inputs[1] or {})
        counted = [name for name in counts if name not in _IMPLICIT]
        if not _windowed(counts) or [counts[name] for name in counted] != ["int"]:
            it.wrong("inputs", ", ".join(counts), "a count (time, window_start, window_end and one int) as input 2")
        else:
            _equal_windows(it)
    return dict(it.input)


def _join(it: Derivation) -> Schema:
    left, right = (dict(schema or {}) for schema in it.inputs)
    on = it.params.get("on", ())
    suffix = it.params.get("suffix", "")
    for name in on:
        if name == "time":
            it.wrong("on", name, "columns other than time, which 'within' compares")
        elif it.column("on", name, left) and it.column("on", name, right) and left[name] != right[name]:
            it.wrong("on", name, f"a column of equal type on both sides, not {left[name]} and {right[name]}")
    windowed = set(WINDOW_COLUMNS) <= set(on)
    if not windowed:
        it.window = None
    columns = {name: left[name] for name in on if name in left and name not in _IMPLICIT}
    columns.update({name: kind for name, kind in left.items() if name not in _IMPLICIT})
    for name, kind in right.items():
        if name in _IMPLICIT or name in on:
            continue
        taken = {column.casefold() for column in columns}
        written = name if name.casefold() not in taken else name + suffix
        if written.casefold() in taken and "suffix" in it.params:
            it.wrong("suffix", suffix, f"a suffix that makes {name} unlike all columns of the left input")
        columns[written] = kind
    return it.output("suffix", columns, windowed=windowed)


def _encrypt(it: Derivation) -> Schema:
    return _recoded(it, dict.fromkeys(it.params.get("columns", ()), "bytes"), None)


def _decrypt(it: Derivation) -> Schema:
    return _recoded(it, it.params.get("columns", {}), ("bytes",))


def _recoded(it: Derivation, kinds: Mapping[str, str], needed: Sequence[str] | None) -> Schema:
    schema = dict(it.input)
    for name, kind in kinds.items():
        if name in _IMPLICIT:
            it.wrong("columns", name, "a column other than time and the bounds of windows, which stay readable")
        elif it.column("columns", name, schema, needed):
            schema[name] = kind
    return schema


#: Parameters on which the columns of the stream depend, and inputs that have to fit each other; without an entry, none.
_SHAPING: Final[Mapping[str, set[str]]] = {
    "source": {"connector", "format", "columns", "time"},
    "project": {"columns"},
    "union": {"inputs"},
    "aggregate": {"by", "values"},
    "count": {"name"},
    "join": {"on", "suffix"},
    "encrypt": {"columns"},
    "decrypt": {"columns"},
}
_RULES: Final[Mapping[str, Callable[[Derivation], Schema | None]]] = {
    "source": _source,
    "filter": _filter,
    "project": _project,
    "union": _union,
    "aggregate": _aggregate,
    "sort": _sort,
    "count": _count,
    "compare": _compare,
    "join": _join,
    "distinct": _distinct,
    "encrypt": _encrypt,
    "decrypt": _decrypt,
}
