"""Columns of streams: what an operator's stream has, given those of its inputs, and what does not fit.

A schema is a dictionary of column to type. Every stream has ``time``; a windowed one also ``window_start`` and
``window_end``. Operators that make windows (those with a ``window``) give windowed streams; the others keep the windows
of their input. A join keeps windows only if both inputs are windowed and it joins on ``window_start`` and
``window_end``; otherwise it leaves out the window columns of both.

Each declaration (:mod:`synergy_nb.plan.operators`) has its own rule, which works on a :class:`Derivation`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from synergy_nb.plan import sql
from synergy_nb.plan.units import WrongValue, nearest

__all__ = [
    "IMPLICIT",
    "ORDERED",
    "WINDOW_COLUMNS",
    "Derivation",
    "Schema",
    "equal_windows",
    "is_windowed",
    "own_window",
    "with_windows",
]

Schema = dict[str, str]
#: Columns that a windowed stream has beside ``time``.
WINDOW_COLUMNS: Final = ("window_start", "window_end")
#: Columns that streams keep by themselves.
IMPLICIT: Final = ("time", *WINDOW_COLUMNS)
#: Types of which one value may be less than another.
ORDERED: Final = ("int", "float", "str", "time")


class Derivation:
    """The stream of one operator, and everything that is wrong on the way to it.

    Parameters
    ----------
    params
        Parameters of the operator, parsed by the catalogue; expressions become canonical here.
    inputs, windows
        Schema and window of each input; None where they are unknown because something before them is wrong.
    wrongs
        Receives what is wrong, each with its field.
    faulty
        Names of parameters that are missing although they are needed, or cannot be read; ``params`` lacks them.
    """

    def __init__(
        self,
        params: dict[str, Any],
        inputs: Sequence[Schema | None],
        windows: Sequence[Mapping[str, Any] | None],
        wrongs: list[WrongValue],
        faulty: Collection[str] = (),
    ) -> None:
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
        schema = dict.fromkeys(IMPLICIT if windowed else ("time",), "time")
        folded = {name.casefold(): name for name in IMPLICIT}
        for name, kind in columns.items():
            other = folded.get(name.casefold())
            if other is not None:
                because = "which every stream keeps by itself" if other in IMPLICIT else "not even by case"
                self.wrong(field, name, f"a name other than {other}, {because}")
                continue
            folded[name.casefold()] = name
            schema[name] = kind
        return schema


def is_windowed(schema: Mapping[str, str]) -> bool:
    """Whether a stream has windows."""
    return WINDOW_COLUMNS[0] in schema and WINDOW_COLUMNS[1] in schema


def equal_windows(it: Derivation) -> None:
    """Note windows of inputs that differ, as far as they are known: one that cannot be read may be right."""
    known = [
        window
        for schema, window in zip(it.inputs, it.windows, strict=True)
        if window is not None or not is_windowed(schema or {})
    ]
    if any(window != known[0] for window in known):
        it.wrong("inputs", [dict(window or {}) for window in it.windows], "inputs with equal windows")


def own_window(it: Derivation) -> None:
    """Note what is wrong with the windows of an operator that has those of its input, or else its own ``window``."""
    if is_windowed(it.input):
        if "window" in it.params:
            it.wrong("window", it.params["window"], "no window: its input has windows already")
    elif "window" not in it.params and "window" not in it.faulty:
        it.wrong("window", None, "a window such as '20 min': its input has none")
    else:
        it.window = it.params.get("window")


def with_windows(it: Derivation) -> Schema:
    """The columns of the input, and those of windows."""
    return it.output("inputs", {name: kind for name, kind in it.input.items() if name not in IMPLICIT}, windowed=True)
