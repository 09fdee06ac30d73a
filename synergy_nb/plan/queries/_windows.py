"""Windows in a query: functions of windows, and intervals."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from synergy_nb.plan.queries._grammar import Windowed
from synergy_nb.plan.queries._query_text import QueryText, Span
from synergy_nb.plan.queries._relations import Assigned, Relation
from synergy_nb.plan.sql.sql import UNITS

#: Functions of GROUP BY that mean a window; their arguments in words.
WINDOW_CALLS: Final = {
    "tumble": "TUMBLE(time, INTERVAL '10 seconds')",
    "hop": "HOP(time, INTERVAL '2 seconds', INTERVAL '10 seconds'), with the slide first",
    "session": "SESSION(time, INTERVAL '10 seconds')",
    "time_bucket": "time_bucket(INTERVAL '10 seconds', time)",
    "date_trunc": "date_trunc('minute', time)",
}
#: Functions of SELECT that mean a bound of the window.
BOUND_CALLS: Final = {
    f"{kind}_{end}": column
    for kind in ("tumble", "hop", "session")
    for end, column in (("start", "window_start"), ("end", "window_end"), ("rowtime", "time"))
}
_DAY: Final = 86_400 * 10**6
_BUCKETS: Final = dt.datetime(2000, 1, 3)  # noqa: DTZ001 - where DuckDB aligns time_bucket, in UTC
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - where windows are aligned, in UTC


def is_window_call(node: Any) -> bool:
    """Whether a node is a function of windows, which may be one of times as well."""
    return node.key == "anonymous" and node.name.lower() in WINDOW_CALLS


def microseconds(text: QueryText, node: Any, within: Span) -> int:
    """Length of an interval of fixed length."""
    if node.key != "interval":
        text.refuse(within, "an interval, such as INTERVAL '10 seconds'")
    unit = UNITS.get(node.args["unit"].name.lower())
    if unit is None:
        text.refuse(within, "an interval of a fixed length: months and years have none")
    return int(node.this.name) * unit


def window_of(relation: Relation, node: Any, within: Span) -> dict[str, Any]:
    """The window that a function of windows means."""
    text, kind, parts = relation.text, node.name.lower(), node.expressions
    if kind in ("time_bucket", "date_trunc"):
        return _aligned(relation, node, within)
    if len(parts) != (3 if kind == "hop" else 2):
        text.refuse(within, WINDOW_CALLS[kind])
    _check_time(relation, parts[0], within)
    return _of_lengths(text, kind, [microseconds(text, each, within) for each in parts[1:]], within)


def _aligned(relation: Relation, node: Any, within: Span) -> dict[str, Any]:
    """The window of a function that cuts times off, where its bounds are those of windows."""
    text, kind, parts = relation.text, node.name.lower(), node.expressions
    if len(parts) not in ((2, 3) if kind == "time_bucket" else (2,)):
        text.refuse(within, WINDOW_CALLS[kind])
    _check_time(relation, parts[1], within)
    if kind == "date_trunc":
        unit = parts[0].name.lower() if parts[0].key == "literal" else ""
        length = UNITS.get(unit) or 0
        if not length or unit == "week":
            fixed = ", ".join(name for name, size in UNITS.items() if size and name != "week")
            text.refuse(within, f"a unit of a window ({fixed}): windows are aligned to 1970", UNITS)
        return _of_lengths(text, "tumble", [length], within)
    length = microseconds(text, parts[0], within)
    origin = _BUCKETS
    if len(parts) == 3:
        value = parts[2].this if parts[2].key == "cast" else parts[2]
        try:
            origin = dt.datetime.fromisoformat(value.name)
        except (ValueError, AttributeError):
            text.refuse(within, "an origin such as TIMESTAMP '1970-01-01'")
    if length <= 0 or (origin - _EPOCH) // dt.timedelta(microseconds=1) % length:
        text.refuse(
            within,
            "TUMBLE(time, INTERVAL ...), or the origin TIMESTAMP '1970-01-01' as a third argument: windows are "
            "aligned to 1970, and these buckets are not",
        )
    return _of_lengths(text, "tumble", [length], within)


def _of_lengths(text: QueryText, kind: str, lengths: Sequence[int], within: Span) -> dict[str, Any]:
    if min(lengths) <= 0:
        text.refuse(within, "intervals above 0")
    seconds = [each / 1e6 for each in lengths]
    if kind == "session":
        return {"kind": "session", "gap": seconds[0]}
    if kind == "hop" and seconds[0] > seconds[1]:
        text.refuse(within, f"a slide up to the length: {WINDOW_CALLS['hop']}")
    if kind == "hop" and seconds[0] < seconds[1]:
        return {"kind": "sliding", "length": seconds[1], "slide": seconds[0]}
    return {"kind": "tumbling", "length": seconds[-1]}


def _check_time(relation: Relation, node: Any, within: Span) -> None:
    """Refuse a window of anything but the time of the stream."""
    if node.key == "column" and relation.own(node, within) == "time":
        return
    relation.text.refuse(
        relation.text.place(node, within), "the event time of the stream, its column time", found=repr(node.sql())
    )


def assigned(relation: Relation, given: Windowed) -> Relation:
    """Assign windows to the rows of a table, as a function in FROM does."""
    text, kind = relation.text, given.kind.name.lower()
    needed = 2 if kind == "hop" else 1
    if len(given.lengths) != needed:
        expected = f"{kind.upper()}(TABLE t, DESCRIPTOR(time), {', '.join(['INTERVAL ...'] * needed)})"
        text.refuse(given.kind.span, expected)
    if relation.assigned is not None:
        text.refuse(given.kind.span, "one function of windows")
    if relation.find("", given.time.name, given.time.span).own != "time":
        text.refuse(given.time.span, "the event time of the stream, its column time", ["time"])
    if given.partition and kind != "session":
        text.refuse(given.partition[0].span, "GROUP BY for its columns: only sessions depend on them")
    lengths = [microseconds(text, text.tree(each), each) for each in given.lengths]
    window = _of_lengths(text, kind, lengths, given.kind.span)
    keys = tuple(relation.find("", each.name, each.span).own or "" for each in given.partition)
    return relation.copy(assigned=Assigned(window, tuple(sorted(keys)), given.kind.span)).named("")


def same_window(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two windows are equal; both known."""
    return one is not None and other is not None and dict(one) == dict(other)


def refuse_unwindowed(text: QueryText, span: Span, clause: str) -> NoReturn:
    """Refuse a clause that needs windows, on a stream that has none."""
    text.refuse(
        span,
        f"windows for {clause}, as a stream has no end: group by TUMBLE(time, INTERVAL '10 seconds'), or select from "
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), INTERVAL '10 seconds'))",
    )
