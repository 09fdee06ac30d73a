"""Columns of streams: the schema of an operator's stream, derived from its inputs, and the problems found.

A schema is a dictionary of column to type. Every stream has ``time``; a windowed one also ``window_start`` and
``window_end``. Operators with a ``window`` produce windowed streams; the others preserve the windows of their input. A
join preserves windows only if both inputs are windowed and it joins on ``window_start`` and ``window_end``; otherwise
it drops the window columns of both.

Each declaration (:mod:`synergy_nb.plan.operators`) has its own rule, which works on a :class:`Derivation`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from synergy_nb.plan.sql import sql
from synergy_nb.plan.terms.column_types import PLAIN, family
from synergy_nb.plan.terms.naming import NO_PATTERN, is_pattern
from synergy_nb.plan.terms.units import WrongValue, nearest

__all__ = [
    "IMPLICIT",
    "ORDERED",
    "UNKNOWN",
    "WINDOW_COLUMNS",
    "Derivation",
    "Schema",
    "equal_windows",
    "grouping_columns",
    "is_windowed",
    "own_window",
    "with_windows",
]

Schema = dict[str, str]
#: Columns that a windowed stream has in addition to ``time``.
WINDOW_COLUMNS: Final = ("window_start", "window_end")
#: Columns that every stream has without stating them.
IMPLICIT: Final = ("time", *WINDOW_COLUMNS)
#: Type of a column whose expression is wrong.
UNKNOWN: Final = "unknown"
#: Types with an order.
ORDERED: Final = ("int", "float", "decimal", "str", "time", "date", "duration")


class Derivation:
    """Derivation of the schema of one operator's stream, with the problems found."""

    def __init__(
        self,
        # parameters of the operator, parsed by the catalogue; expressions become canonical here
        params: dict[str, Any],
        # inputs, windows: schema and window of each input; None where they are unknown because something before them is
        # wrong
        inputs: Sequence[Schema | None],
        windows: Sequence[Mapping[str, Any] | None],
        wrongs: list[WrongValue],  # problems found, each with its field
        # names of required parameters that are missing, or cannot be parsed; `params` lacks them
        faulty: Collection[str] = (),
    ) -> None:
        self.params = params
        self.inputs = inputs
        self.windows = windows
        self.wrongs = wrongs
        self.faulty = faulty
        self.window: Mapping[str, Any] | None = windows[0] if windows else None
        # columns of the stream as far as they are known, also if some are wrong: for people who write the operator, not
        # for the operators that read it
        self.likely: Schema = {}

    def wrong(self, field: str, value: Any, expected: str, near: str | None = None) -> None:
        """Record one problem."""
        self.wrongs.append(WrongValue(value, expected, near, field))

    def rewrite(self, field: str, texts: Mapping[str, str]) -> None:
        """Replace the expressions of a parameter, if it can be parsed, by their canonical texts."""
        if field in self.params:
            self.params[field] = dict(texts)

    @property
    def input(self) -> Schema:
        """Schema of the first input, which must be known."""
        first = self.inputs[0]
        assert first is not None
        return first

    def column(self, field: str, name: str, schema: Schema, kinds: Sequence[str] | None = PLAIN) -> bool:
        """Whether ``name`` is a column of ``schema``, of one of the families ``kinds``; record a problem if not."""
        if name not in schema:
            self.wrong(field, name, f"a column of its input ({', '.join(schema)})", nearest(name, schema))
        elif kinds is not None and family(schema[name]) not in kinds and schema[name] != UNKNOWN:
            self.wrong(field, name, f"a column of type {' or '.join(kinds)}, not {schema[name]}")
        else:
            return True
        return False

    def expression(
        self, field: str, text: str, *, aggregate: bool = False, over: bool = False, schema: Schema | None = None
    ) -> tuple[str, str] | None:
        """Canonical text and type of an expression over a schema, or else over the input; None if it is invalid."""
        schema = schema or (self.inputs[0] if self.inputs else None)
        try:
            tree = sql.parse(text, schema, aggregate=aggregate, over=over)
            return sql.canonical(tree), sql.infer_type(tree, schema) if schema is not None else "any"
        except sql.SqlError as error:
            for wrong in error.wrongs:
                self.wrong(field, wrong.value, wrong.expected, wrong.nearest)
            return None

    def output(self, field: str, columns: Mapping[str, str], *, windowed: bool) -> Schema:
        """Return the implicit columns and ``columns``, whose names must be new and differ by more than their case."""
        schema = dict.fromkeys(IMPLICIT if windowed else ("time",), "time")
        folded = {name.casefold(): name for name in IMPLICIT}
        for name, kind in columns.items():
            if is_pattern(name):
                self.wrong(field, name, NO_PATTERN)
                continue
            other = folded.get(name.casefold())
            if other is not None:
                because = "which every stream has without stating it" if other in IMPLICIT else "not even by case"
                self.wrong(field, name, f"a name other than {other}, {because}")
                continue
            folded[name.casefold()] = name
            schema[name] = kind
        return schema


def is_windowed(schema: Mapping[str, str]) -> bool:
    """Whether a stream has windows."""
    return WINDOW_COLUMNS[0] in schema and WINDOW_COLUMNS[1] in schema


def equal_windows(it: Derivation) -> None:
    """Record a problem if known windows of the inputs differ; one that cannot be parsed may be equal."""
    known = [
        window
        for schema, window in zip(it.inputs, it.windows, strict=True)
        if window is not None or not is_windowed(schema or {})
    ]
    if any(window != known[0] for window in known):
        it.wrong("inputs", [dict(window or {}) for window in it.windows], "inputs with equal windows")


def own_window(it: Derivation) -> None:
    """Record problems with the window of an operator that uses those of its input, or else its own ``window``."""
    if is_windowed(it.input):
        if "window" in it.params:
            it.wrong("window", it.params["window"], "no window: its input has windows already")
    elif "window" not in it.params and "window" not in it.faulty:
        it.wrong("window", None, "a window such as '20 min': its input has none")
    else:
        it.window = it.params.get("window")


def grouping_columns(it: Derivation) -> dict[str, str]:
    """Return the columns of ``by`` with their types, and record problems with them."""
    columns = {}
    for name in it.params.get("by", ()):
        if name in IMPLICIT:
            it.wrong("by", name, "a column other than time and the bounds of windows, which group by themselves")
        elif it.column("by", name, it.input):
            columns[name] = it.input[name]
    return columns


def with_windows(it: Derivation) -> Schema:
    """Return the columns of the input, and those of windows."""
    return it.output("inputs", {name: kind for name, kind in it.input.items() if name not in IMPLICIT}, windowed=True)
