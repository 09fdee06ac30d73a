"""Running streams that contain what a filter selects: it reads such a stream, and filters the rest.

Theory of operation
-------------------
A filter selects those rows of a *base* that satisfy its conditions, and so does each running stream that peers state in
the directory under the name of that base (:class:`.StreamForm`). If the conditions of the filter imply those of the
running stream, that stream has all rows of the filter. The filter then reads it, in place of its input, and tests what
the running stream does not imply: the *rest*. Its own stream keeps its name, as both conditions together are its own.
Projections before the filter stay, and read that stream.

Who is nearest comes first: a stream whose conditions imply those of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from synergy_nb.plan._stream_names import StreamForm
from synergy_nb.plan.checks.validation import Operator
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.sql.conditions import conjunction, implies, joined, renamed

__all__ = [
    "MOST",
    "PARTS",
    "Container",
    "StatedStream",
    "containers",
    "read_before",
    "read_parts",
    "stated_part",
    "what_is_left",
    "write_parts",
]

PARTS: Final = "parts"  #: Attribute with the conditions of the offered streams that are some rows of a stream, as text.
MOST: Final = 4  #: Streams that are looked up for one operator.
_NEVER: Final = ("FALSE",)

_decoder = msgspec.json.Decoder(list[list[str]])


class StatedStream(NamedTuple):
    """What the directory states of a stream under the name of another one, from which its rows follow."""

    base: str  # name of that other stream
    attribute: str  # attribute of its entry
    value: Any  # one of the values in it, as JSON has them


class Container(NamedTuple):
    """A running stream from which an operator can make its own."""

    form: StreamForm
    tap: str  # operator in whose place the stream is read: the input of the operator, or one before that
    rate: float  # rate of the stream, tuples/s, where nobody has measured it
    rewritten: Mapping[str, Operator]  # operators that do other work on that stream, the operator itself among them
    left: str  # what they still do, in words
    columns: Mapping[str, str] | None = None  # of the running stream; None: those of the operator that it replaces
    window: dict[str, Any] | None = None  # of the running stream, if `columns` are stated


def stated_part(plan: Plan, operator: str) -> StatedStream | None:
    """What is stated of a filter's stream: its conditions; None for any other, and for one that has no rows."""
    form = plan.stream_form(operator)
    return (
        StatedStream(form.base, PARTS, form.conditions) if _selects(plan, operator) and form.columns is None else None
    )


def _selects(plan: Plan, operator: str) -> bool:
    """Whether an operator is a filter that some rows may pass, and some not."""
    return plan.operators[operator].kind == "filter" and plan.stream_form(operator).conditions not in ((), _NEVER)


def write_parts(parts: Iterable[Any]) -> str:
    """Write what is stated of several streams as a text of the directory."""
    return msgspec.json.encode(list(parts)).decode()


def read_parts(text: object) -> list[tuple[str, ...]]:
    """Read the conditions of several streams; none if the text is invalid.

    >>> read_parts(write_parts([("bytes > 9",), ("bytes > 9", "link = 'A'")])), read_parts(3)
    ([('bytes > 9',), ('bytes > 9', "link = 'A'")], [])
    """
    try:
        return [conjunction(each) for each in _decoder.decode(str(text))]
    except msgspec.MsgspecError:
        return []


def containers(plan: Plan, parts: Mapping[str, Iterable[tuple[str, ...]]]) -> dict[str, tuple[Container, ...]]:
    """Streams that may run and contain those of a plan's filters, by filter, the nearest first.

    ``parts``: name of a base to the conditions of the streams that are stated to run over it.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> plan = source("packets").filter("bytes > 9 AND link = 'A'").sink()
    >>> found = containers(plan, {"packets": [("bytes > 3",), ("bytes > 5",), ("link = 'B'",)]})
    >>> [each.form.name for each in found["filter"]], found["filter"][0].left
    (['filter[bytes > 5](packets)', 'filter[bytes > 3](packets)'], "tests bytes > 9 AND link = 'A'")
    """
    found: dict[str, tuple[Container, ...]] = {}
    for name, operator in plan.operators.items():
        tap = _tap(plan, operator.inputs[0]) if _selects(plan, name) else ""
        if not tap:
            continue
        own, before = plan.stream_form(name), plan.stream_form(tap)
        known = {each for each in parts.get(own.base, ()) if each and each != own.conditions}
        known = {each for each in known if implies(own.conditions, each)}
        known.discard(before.conditions if before.base == own.base else ())  # that is the plan's own input
        nearest = sorted(known, key=lambda each: (-sum(implies(each, other) for other in known), each))
        several = (_container(plan, name, tap, StreamForm(own.base, each)) for each in nearest[:MOST])
        whole = tuple(each for each in several if each is not None)
        if whole:
            found[name] = whole
    return found


def _tap(plan: Plan, operator: str) -> str:
    """Operator before all projections that end a stream; empty if another branch needs one of their streams."""
    while len(plan.downstream(operator)) == 1:
        if plan.operators[operator].kind != "project":
            return operator
        operator = plan.upstream(operator)[0]
    return ""


def _container(plan: Plan, name: str, tap: str, form: StreamForm) -> Container | None:
    own = plan.stream_form(name)
    conditions = own.conditions
    rates = (plan.rate(each) for each in plan.operators if plan.stream_name(each) == form.base)
    most = next(rates, plan.input_rate(name))
    share = plan.rate(name) / most if most else 1.0
    given = len(form.conditions) / max(len(conditions), len(form.conditions) + 1)
    rest: str | None = joined(what_is_left(conditions, form.conditions))
    if own.columns is not None:
        rest = renamed(rest or "", {text: column for column, text in own.passed_on().items()})
    if not rest:
        return None
    rewritten = msgspec.structs.replace(plan.operators[name], params={"where": rest})
    return Container(form, tap, most * min(share, 1.0) ** given, MappingProxyType({name: rewritten}), f"tests {rest}")


def what_is_left(conditions: tuple[str, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    """Conditions that are left to test where others are given that they imply."""
    rest = tuple(each for each in conditions if not implies(given, [each]))
    return rest if conjunction([*given, *rest]) == conditions else conditions


def read_before(plan: Plan, name: str, *, test: bool) -> tuple[str, str] | None:
    """Operator in whose place another one can read a stream, and the filter between them that can test its rows.

    The filter is empty if there is nothing to ``test``. None if another branch needs one of their streams.
    """
    before = plan.operators[name].inputs[0]
    while len(plan.downstream(before)) == 1:
        if not test:
            return before, ""
        kind, inputs = plan.operators[before].kind, plan.operators[before].inputs
        if kind == "filter":
            return (inputs[0], before) if len(plan.downstream(inputs[0])) == 1 else None
        if kind != "project":
            return None
        before = inputs[0]
    return None
