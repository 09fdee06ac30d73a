"""Calls over several rows: aggregates of the rows of a group, and those over the rows of a key in order.

``count sum min max avg`` are sqlglot's own nodes. The others are anonymous functions whose arguments this table has.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["AGGREGATES", "NATIVE", "OF_ORDER", "OVER", "SeveralRows", "call_name"]


class SeveralRows(NamedTuple):
    """A call over several rows."""

    takes: str  # type of the first argument: number, ordered, plain, any, str; empty: it has no arguments
    result: str  # type of the result; empty: that of the argument
    written: str  # form of the call, for errors
    constant: str = ""  # second argument: fraction, text or rows
    optional: bool = False  # whether the second argument may be missing


#: Aggregates that are nodes of sqlglot.
NATIVE: Final = ("avg", "count", "max", "min", "sum")
_AGGREGATES: Final[dict[str, SeveralRows]] = {
    **{
        name: SeveralRows("number", "float", f"{name}(number)")
        for name in ("stddev_samp", "stddev_pop", "var_samp", "var_pop")
    },
    "quantile_cont": SeveralRows("number", "float", "quantile_cont(number, 0.95)", "fraction"),
    "quantile_disc": SeveralRows("ordered", "", "quantile_disc(x, 0.95)", "fraction"),
    "first": SeveralRows("any", "", "first(x)"),
    "last": SeveralRows("any", "", "last(x)"),
    "string_agg": SeveralRows("str", "str", "string_agg(text, ', ')", "text"),
    "approx_count_distinct": SeveralRows("plain", "int", "approx_count_distinct(x)"),
}
_IN_ORDER: Final[dict[str, SeveralRows]] = {
    **{name: SeveralRows("", "int", f"{name}()") for name in ("row_number", "rank", "dense_rank")},
    **{
        name: SeveralRows("any", "", f"{name}(x) or {name}(x, rows)", "rows", optional=True) for name in ("lag", "lead")
    },
}
#: All calls of the table.
TABLE: Final = {**_AGGREGATES, **_IN_ORDER}
#: Aggregates of the rows of a group.
AGGREGATES: Final = tuple(sorted((*NATIVE, *_AGGREGATES)))
#: Calls over the rows of a key in order: the aggregates among them are those of all rows up to the present one.
OVER: Final = tuple(sorted((*NATIVE, *_IN_ORDER)))
#: Aggregates whose result depends on the order of the rows.
OF_ORDER: Final = ("first", "last", "string_agg")


def call_name(node: Any) -> str:
    """Name of a call over several rows; empty for any other node."""
    if node.key in NATIVE:
        return str(node.key)
    return str(node.name) if node.key == "anonymous" and node.name in TABLE else ""
