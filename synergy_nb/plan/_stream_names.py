"""Canonical names of streams (section 2.2.1): equal work has equal names, and their keys place them on the ring.

Theory of operation
-------------------
A stream that filters and projections make of another one is named by a form that says what its rows are, and not which
operators make them one after another (:class:`StreamForm`): the *base*, the conditions that its rows satisfy, and the
columns that are computed of them. So two filters are named like one with both conditions, and a filter behind a
projection that passes its columns on like one before it. Names are ``project[...](filter[...](base))``, without the
parts that change nothing.

Inputs of a union that are unions themselves are replaced by their own. An aggregate reads no column that its parameters
do not name (:attr:`.Declaration.uses`), so a projection that passes these on is no part of its name.

What operators process one after another has the same rows at the same positions as what one operator does at once. What
depends on how it is done is the *profile* of an operator: its selectivity, and the time for each tuple. That has the
name of its work (:func:`work_name`): what the operator itself does, with the names of its inputs.

Expressions are canonical texts (:mod:`synergy_nb.plan.sql`), and are compared as texts: peers name streams, and do not
import a parser. A form that is not found by that only makes two names of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from synergy_nb.plan.checks.validation import Operator
from synergy_nb.plan.operators.catalogue import KINDS, parameters_of
from synergy_nb.plan.operators.declaration import Parameter
from synergy_nb.plan.operators.schemas import IMPLICIT
from synergy_nb.plan.sql import conditions, sql

_LONGEST: Final = 1000  # characters of an input's name within a name; a longer one is replaced by its key
_MOST_UNITED: Final = 64  # streams that a union names one by one within another: plans may double them at each step


def stream_key(name: str) -> str:
    """Key of a stream on the ring: the leading 32 hex digits of the SHA-1 of its name."""
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:32]


class StreamForm(NamedTuple):
    """What the rows of a stream are, by which it is named.

    Parameters
    ----------
    base
        Name of the stream of which filters and projections make this one; its own name if there are none.
    conditions
        Conditions that its rows satisfy, over the columns of the base.
    columns
        Columns with their expressions over those of the base; None: those of the base.
    united
        Names of the streams that it merges, if it is a union.
    """

    base: str
    conditions: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] | None = None
    united: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the stream."""
        return self.base if not self.conditions and self.columns is None else _name(self)

    def passed_on(self) -> dict[str, str]:
        """Columns of the stream that are columns of the base, as both are written in expressions."""
        same = {name: name for name in IMPLICIT}
        pairs = ((sql.quoted(name), text) for name, text in self.columns or ())
        return same | {name: text for name, text in pairs if conditions.columns_in(text) == {text}}


@lru_cache(maxsize=1024)
def _name(form: StreamForm) -> str:
    name = form.base
    if form.conditions:
        name = _applied(Operator("", "filter", {"where": conditions.joined(form.conditions)}), [name])
    if form.columns is not None:
        name = _applied(Operator("", "project", {"columns": dict(form.columns)}), [name])
    return name


def stream_form(operator: Operator, inputs: Sequence[StreamForm], columns: Iterable[str]) -> StreamForm:
    """Form of the stream of an operator, from those of its inputs and the columns of the first one."""
    if operator.makes is not None:
        work, inputs, columns = operator.makes, [StreamForm(*each) for each in operator.makes.inputs], ()
        operator = Operator("", work.kind, work.params)
    first = inputs[0] if inputs else None
    if first is None or operator.kind == "sink":
        return first or StreamForm(work_name(operator, []))
    found = None
    if operator.kind == "filter":
        found = _filtered(first, operator.params["where"])
    elif operator.kind == "project":
        found = _projected(first, operator.params["columns"], [name for name in columns if name not in IMPLICIT])
    elif operator.kind == "union":
        united = tuple(sorted(name for each in inputs for name in each.united or (each.name,)))
        found = StreamForm(_applied(operator, united), united=united if len(united) <= _MOST_UNITED else ())
    if found is not None:
        return found
    inputs = [read_form(operator.kind, operator.params, first), *inputs[1:]]
    having = operator.params.get("having")
    if having is None:
        return StreamForm(work_name(operator, [each.name for each in inputs]))
    params = {name: value for name, value in operator.params.items() if name != "having"}
    whole = Operator("", operator.kind, params)
    return _filtered(StreamForm(_applied(whole, [each.name for each in inputs])), having)


def _filtered(form: StreamForm, where: str) -> StreamForm:
    """Form of a stream of which a filter keeps what satisfies a condition."""
    over = where if form.columns is None else conditions.renamed(where, form.passed_on())
    if over is None:  # it compares what a projection computes
        return StreamForm(form.name, conditions.conjunction([where]))
    united = form.united if conditions.conjunction([where]) == () else ()
    return form._replace(conditions=conditions.conjunction([*form.conditions, over]), united=united)


def _projected(form: StreamForm, columns: Mapping[str, str], given: Sequence[str]) -> StreamForm:
    """Form of a stream of which a projection makes other columns."""
    if list(columns.items()) == [(name, sql.quoted(name)) for name in given]:
        return form
    if form.columns is None:
        return form._replace(columns=tuple(columns.items()), united=())
    computed = {sql.quoted(name): text for name, text in form.columns} | {name: name for name in IMPLICIT}
    known = form.passed_on()
    texts = {name: computed.get(text) or conditions.renamed(text, known) for name, text in columns.items()}
    found = tuple((name, text) for name, text in texts.items() if text is not None)
    if len(found) < len(texts):  # it computes of what another projection computes
        return StreamForm(form.name, columns=tuple(columns.items()))
    return form._replace(columns=found, united=())


def read_form(kind: str, params: Mapping[str, Any], form: StreamForm) -> StreamForm:
    """Form of the stream that an operator reads, without a last projection that passes on what the operator uses."""
    uses = KINDS[kind].uses
    if form.columns is None or uses is None:
        return form
    known = form.passed_on()
    same = {name for name, text in known.items() if name == text}
    return form._replace(columns=None) if all(conditions.columns_in(text) <= same for text in uses(params)) else form


def work_name(operator: Operator, inputs: Sequence[str]) -> str:
    """Name of what an operator itself does, from the names of its inputs; a sink does nothing."""
    if operator.kind == "sink":
        return inputs[0]
    return _applied(operator, inputs)


def _applied(operator: Operator, inputs: Sequence[str]) -> str:
    own = own_name(operator)
    if not inputs:
        return own
    # otherwise a plan of repeated splits and joins would have names of exponential length
    arguments = [name if len(name) <= _LONGEST else f"~{stream_key(name)}" for name in inputs]
    return f"{own}({', '.join(sorted(arguments) if KINDS[operator.kind].commutative else arguments)})"


def own_name(operator: Operator) -> str:
    """Kind and parameters; for a source connector, parameters, and the peer if its data depend on the peer."""
    declaration = KINDS[operator.kind]
    if declaration.bare:
        return f"{operator.kind}[{operator.params[declaration.bare]}]"
    parts = []
    for name, parameter in sorted(parameters_of(operator.kind, operator.params).items()):
        value = operator.params.get(name)
        if value is None or value == parameter.default or not parameter.named or name == "connector":
            continue
        parts.append(f"{name}={_value_text(value, parameter)}")
    kind: str = operator.params["connector"] if operator.kind == "source" else operator.kind
    place = f"@{sql.quoted(operator.at)}" if kind in ("trace", "python") and operator.at is not None else ""
    return f"{kind}[{', '.join(parts)}]{place}" if parts else kind + place


def _value_text(value: Any, parameter: Parameter) -> str:
    if parameter.type.text is not None:
        return parameter.type.text(value)
    if parameter.write is not None:
        return str(parameter.write(value))
    if isinstance(value, list):
        return f"[{', '.join(map(sql.quoted, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(_column_text(name, text) for name, text in value.items()) + "}"
    return sql.literal_text(value) if isinstance(value, str) else repr(value)


def _column_text(name: str, text: str) -> str:
    column = sql.quoted(name)
    return column if text == column else f"{column}: {text}"
