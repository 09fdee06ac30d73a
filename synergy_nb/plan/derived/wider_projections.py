"""Running projections with more columns than a projection needs: it reads such a stream in place of its input.

A projection computes columns of a base (:class:`.StreamForm`), and so does each running one that peers state in the
directory under the name of that base. If each column of the former is one of the latter, or an expression of columns
that the latter passes on, and the conditions of its rows are implied, the former follows from the latter: a stream with
fewer columns than its input, and perhaps fewer rows. Conditions that are left are tested before the projection, by a
filter of the plan. A stream that is wider than what the plan reads is left, as it would cost more. As for coarser
windows (:mod:`.coarser_windows`), the operator states the work that names its stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from synergy_nb.plan._stream_names import StreamForm
from synergy_nb.plan.checks.validation import StreamWork
from synergy_nb.plan.derived.stream_containment import MOST, Container, StatedStream, read_before, what_is_left
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.sql import sql
from synergy_nb.plan.sql.conditions import implies, joined, renamed
from synergy_nb.plan.terms.column_types import column_bytes, column_type

__all__ = ["COLUMNS", "WiderProjection", "read_columns", "stated_columns", "wider_streams"]

COLUMNS: Final = "columns"  #: Attribute with the offered projections of a stream, as text.


class WiderProjection(msgspec.Struct, frozen=True, array_like=True):
    """What the directory states of a projection."""

    conditions: tuple[str, ...]  # of the rows of the base that it has
    columns: tuple[tuple[str, str], ...]  # with their expressions over those of the base
    kinds: dict[str, str]  # columns of its stream, with their types


_decoder = msgspec.json.Decoder(list[WiderProjection])


def stated_columns(plan: Plan, operator: str) -> StatedStream | None:
    """What is stated of a projection's stream; None for any other."""
    form = plan.stream_form(operator)
    if plan.operators[operator].kind != "project" or form.columns is None:
        return None
    return StatedStream(form.base, COLUMNS, WiderProjection(form.conditions, form.columns, plan.schema(operator)))


def read_columns(text: object) -> list[WiderProjection]:
    """Read what is stated of several projections; those that are invalid are left out."""
    try:
        return [
            each
            for each in _decoder.decode(str(text))
            if all(column_type(kind) == kind for kind in each.kinds.values())
        ]
    except msgspec.MsgspecError:
        return []


def wider_streams(plan: Plan, stated: Mapping[str, Iterable[WiderProjection]]) -> dict[str, tuple[Container, ...]]:
    """Streams that may run and have all columns of a plan's projections, by projection, the narrowest first.

    ``stated``: name of a base to the projections that are stated to run over it.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> wide = source("packets").project("link", "bytes", "source").sink()
    >>> plan = source("packets").filter("link = 'A'").project(kb="bytes / 1000").sink()
    >>> part = stated_columns(wide, "project")
    >>> wider_streams(plan, {part.base: [part.value]})["project"][0].left
    "tests link = 'A' and projects kb"
    """
    found: dict[str, tuple[Container, ...]] = {}
    for name, operator in plan.operators.items():
        own = plan.stream_form(name)
        if operator.kind != "project" or own.columns is None or operator.engine == "spark":
            continue
        known = {StreamForm(own.base, each.conditions, each.columns): each for each in stated.get(own.base, ())}
        for each in (own, plan.stream_form(operator.inputs[0])):  # these are found by their names
            known.pop(each, None)
        nearest = sorted(known, key=lambda form: (-len(form.conditions), len(form.columns or ()), form))
        made = (_container(plan, name, own, form, known[form].kinds) for form in nearest)
        several = [each for each in made if each is not None]
        if several:
            found[name] = tuple(several[:MOST])
    return found


def _container(plan: Plan, name: str, own: StreamForm, form: StreamForm, kinds: Mapping[str, str]) -> Container | None:
    """Make a projection of a wider one; None if that lacks columns or rows."""
    if not implies(own.conditions, form.conditions):
        return None
    passed = {text: column for column, text in form.passed_on().items()}
    computed = {text: sql.quoted(column) for column, text in form.columns or ()}
    columns = {column: computed.get(text) or renamed(text, passed) for column, text in own.columns or ()}
    rest = [renamed(each, passed) for each in what_is_left(own.conditions, form.conditions)]
    before = read_before(plan, name, test=bool(rest))
    if before is None or None in columns.values() or None in rest:
        return None
    operator, (tap, tested) = plan.operators[name], before
    if _width(kinds) > _width(plan.schema(tap)):
        return None
    work = StreamWork(operator.kind, operator.params, (plan.stream_form(operator.inputs[0]),))
    rewritten = {
        name: msgspec.structs.replace(
            operator, params={"columns": columns}, inputs=(tested or tap,), engine="peer", makes=work
        )
    }
    left = f"projects {', '.join(columns)}"
    if tested:
        where = joined([each for each in rest if each is not None])
        filtering = msgspec.structs.replace(
            plan.operators[tested], params={"where": where}, inputs=(tap,), selectivity=1.0, engine="peer"
        )
        rewritten, left = {tested: filtering, **rewritten}, f"tests {where} and {left}"
    rate = plan.rate(tap if tested else name)
    return Container(form, tap, rate, MappingProxyType(rewritten), left, kinds, plan.window(name))


def _width(kinds: Mapping[str, str]) -> float:
    """Mean bytes of a tuple, by the types of its columns."""
    return sum(map(column_bytes, kinds.values()))
