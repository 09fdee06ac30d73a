"""Running aggregates of finer windows, of which the aggregates of coarser ones are made: with fewer rows to read.

Theory of operation
-------------------
An aggregate has a result for each window and group. Where a window consists of whole windows of a finer one, and a
group of whole groups, the result follows from the finer ones: a count is the sum of counts, a sum that of sums, the
least value is the least of the least ones. So an aggregate may read the stream of such a finer one, which runs, in
place of its own input. Peers state the aggregates that they offer in the directory, under the name of the stream whose
rows they aggregate (:func:`stated_windows`). The *finer* aggregate

* has all rows of the coarser one: the conditions of its rows are implied, and those that it does not imply compare
  columns by which it groups, so that they can be tested behind it;
* groups by all columns by which the coarser one groups;
* has tumbling windows that divide length and slide of the coarser ones, or the same windows: windows begin at multiples
  of their slide, so the coarser ones consist of whole finer ones;
* has the calls of which those of the coarser one are made, each as a column of its own.

The results are those of the whole, to the last digit, or the stream is not read: sums of floats depend on how they are
added up. An average is that of integers, from their sums and their numbers. A sum of integers that 64 bits do not hold
is NULL, and so is one of no values. So sums are combined only where a column tells the two apart, and if a finer sum is
too large, the coarser one is NULL, too (and an average of it). Sums of sums are added up in two halves for averages, as
an average is that of the exact sum.

The operator is rewritten, and has the stream of the same name: it states the work that names it
(:attr:`.Operator.makes`), so that others share it as before.

The first window of a reader has what came since it joined, as for each reader of a stream: here the finer windows that
ended since then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from synergy_nb.plan._stream_names import StreamForm, read_form, stream_form
from synergy_nb.plan.checks.validation import Operator, Problem, StreamWork, check_parameters
from synergy_nb.plan.derived.stream_containment import MOST, Container, StatedStream, read_before, what_is_left
from synergy_nb.plan.operators.schemas import ORDERED
from synergy_nb.plan.operators.sources import WITHOUT_NULL
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.sql import sql
from synergy_nb.plan.sql.conditions import columns_in, implies, joined, with_calls
from synergy_nb.plan.terms.column_types import column_type
from synergy_nb.plan.terms.units import format_duration

__all__ = ["WINDOWS", "FinerWindows", "finer_streams", "read_windows", "stated_windows"]

WINDOWS: Final = "windows"  #: Attribute with the offered aggregates of a stream's rows, as text.
_TIMES: Final = ("tumbling", "sliding")


class FinerWindows(msgspec.Struct, frozen=True, array_like=True):
    """What the directory states of an aggregate."""

    kind: str
    params: dict[str, Any]
    conditions: tuple[str, ...]  # of the rows of the base that it aggregates
    columns: dict[str, str]  # of its stream, with their types

    def form(self, base: str) -> StreamForm:
        """Form of its stream over a base."""
        return stream_form(Operator("", self.kind, self.params), [StreamForm(base, self.conditions)], ())


_decoder = msgspec.json.Decoder(list[FinerWindows])


class _Aggregate(NamedTuple):
    """An aggregate, and the rows that it aggregates."""

    kind: str
    params: Mapping[str, Any]
    base: str
    conditions: tuple[str, ...]

    @property
    def by(self) -> list[str]:
        """Columns by which it groups."""
        return list(self.params.get("by", ()))

    @property
    def values(self) -> dict[str, str]:
        """Columns of results, with their expressions."""
        return {self.params["name"]: "count(*)"} if self.kind == "count" else dict(self.params["values"])

    @property
    def window(self) -> dict[str, Any] | None:
        """Its own window; None: those of its input."""
        return self.params.get("window")


def _aggregate_of(kind: str, params: Mapping[str, Any], read: StreamForm) -> _Aggregate | None:
    """The aggregate that an operator computes of a stream; None if it does something else, or lets tuples age."""
    if kind not in ("aggregate", "count") or "half_life" in params:
        return None
    form = read_form(kind, params, read)
    if form.columns is not None:  # of what a projection computes
        form = StreamForm(form.name)
    return _Aggregate(kind, params, form.base, form.conditions)


def stated_windows(plan: Plan, operator: str) -> StatedStream | None:
    """What is stated of an aggregate's stream; None for others, and for one of which nothing coarser is made."""
    own = plan.operators[operator]
    made = own.makes
    if made is None:
        read = [plan.stream_form(up) for up in own.streams[:1]]
        made = StreamWork(own.kind, own.params, tuple(read))
    found = _aggregate_of(made.kind, made.params, StreamForm(*made.inputs[0])) if made.inputs else None
    if found is None or "having" in found.params or (found.window or {}).get("kind") not in (None, *_TIMES):
        return None
    stated = FinerWindows(found.kind, dict(found.params), found.conditions, plan.schema(operator))
    return StatedStream(found.base, WINDOWS, stated)


def read_windows(text: object) -> list[FinerWindows]:
    """Read what is stated of several aggregates; those that are invalid are left out."""
    try:
        return [each for each in _decoder.decode(str(text)) if _is_valid(each)]
    except msgspec.MsgspecError:
        return []


def _is_valid(stated: FinerWindows) -> bool:
    problems: list[Problem] = []
    aggregates = stated.kind in ("aggregate", "count")
    normal = aggregates and check_parameters(Operator("", stated.kind, stated.params), problems) == stated.params
    return normal and not problems and all(column_type(kind) == kind for kind in stated.columns.values())


def finer_streams(
    plan: Plan, stated: Mapping[str, Iterable[FinerWindows]]
) -> tuple[dict[str, tuple[Container, ...]], dict[str, tuple[str, str]]]:
    """Streams that may run and of which a plan's aggregates can be made, by aggregate, the nearest first.

    ``stated``: name of a base to the aggregates that are stated to run over it.

    Returns: also the aggregates for which windows and groups of a stream are fine enough, while its values do not
    suffice: aggregate to the name of the nearest such stream and the reason.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> seconds = source("packets").aggregate("link", "1 s", n="count(*)", total="sum(bytes)").sink()
    >>> minutes = source("packets").aggregate("link", "1 min", mean="avg(bytes)", n="count(*)").sink()
    >>> part = stated_windows(seconds, "aggregate")
    >>> finer_streams(minutes, {part.base: [part.value]})[0]["aggregate"][0].left
    'combines windows of 1 s: mean of n and total, n of n'
    """
    found: dict[str, tuple[Container, ...]] = {}
    unfit: dict[str, tuple[str, str]] = {}
    for name, operator in plan.operators.items():
        if not operator.inputs or operator.engine == "spark":
            continue
        own = _aggregate_of(operator.kind, operator.params, plan.stream_form(operator.inputs[0]))
        if own is None:
            continue
        known = {each.form(own.base).name: each for each in stated.get(own.base, ())}
        known.pop(plan.stream_name(name), None)
        several: list[Container] = []
        for stream in sorted(known, key=lambda each: (*_distance(known[each]), each)):
            made = _container(plan, name, own, known[stream])
            if isinstance(made, Container):
                several.append(made)
            elif made:
                unfit.setdefault(name, (stream, made))
        if several:
            found[name] = tuple(several[:MOST])
    return found, {name: why for name, why in unfit.items() if name not in found}


def _distance(stated: FinerWindows) -> tuple[float, int]:
    """The longest windows with the fewest groups are nearest."""
    return -float((stated.params.get("window") or {}).get("length", 0.0)), len(stated.params.get("by", ()))


def _container(plan: Plan, name: str, own: _Aggregate, stated: FinerWindows) -> Container | str:
    """Make an aggregate of a finer one; why its values do not suffice, or an empty text if it has other rows."""
    finer = _Aggregate(stated.kind, stated.params, own.base, stated.conditions)
    times = _times(finer.window, own.window)
    if not times or not set(own.by) <= set(finer.by) or not implies(own.conditions, finer.conditions):
        return ""
    rest = what_is_left(own.conditions, finer.conditions)
    before = read_before(plan, name, test=bool(rest))
    if before is None or not all(columns_in(each) <= set(map(sql.quoted, finer.by)) for each in rest):
        return ""
    operator, (tap, tested) = plan.operators[name], before
    single = own.window == finer.window and own.by == finer.by
    values = _Values(finer, stated.columns, _without_null(plan, operator.inputs[0]), single=single)
    params: dict[str, Any] = {"by": own.by}
    if own.window != finer.window:  # otherwise it has those of its input
        params["window"] = own.window
    params["values"] = {column: values.combined(column, text) for column, text in own.values.items()}
    if values.lacking:
        return values.lacking
    if "having" in own.params:
        params["having"] = own.params["having"]
    rewritten = {
        name: msgspec.structs.replace(
            operator,
            kind="aggregate",
            params=params,
            inputs=(tested or tap,),
            engine="peer",
            makes=StreamWork(operator.kind, operator.params, (plan.stream_form(operator.inputs[0]),)),
        )
    }
    length = finer.window["length"] if finer.window and params.get("window") else 0.0
    left = f"combines {f'windows of {format_duration(length)}' if length else 'groups'}: {values.words()}"
    if tested:
        where = joined(rest)
        filtering = msgspec.structs.replace(
            plan.operators[tested], params={"where": where}, inputs=(tap,), selectivity=1.0, engine="peer"
        )
        rewritten, left = {tested: filtering, **rewritten}, f"tests {where} and {left}"
    rate = min(plan.rate(name) * times, plan.input_rate(name))
    columns, window = stated.columns, finer.window or plan.window(name)
    return Container(stated.form(own.base), tap, rate, MappingProxyType(rewritten), left, columns, window)


def _times(finer: Mapping[str, Any] | None, own: Mapping[str, Any] | None) -> float:
    """Number of finer windows between the ends of two of its own; 0 if its own do not consist of finer ones."""
    if finer == own:
        return 1.0
    if finer is None or own is None or finer["kind"] != "tumbling" or own["kind"] not in _TIMES:
        return 0.0
    times = finer["length"], own["length"], own.get("slide", own["length"])
    unit, length, slide = (round(each * 1e6) for each in times)
    return 0.0 if length % unit or slide % unit else slide / unit


def _without_null(plan: Plan, operator: str) -> frozenset[str]:
    """Columns of a stream that have a value in each tuple, as they are written in expressions."""
    made = plan.operators[operator]
    if made.kind == "source":
        known = plan.schema(operator) if made.params["connector"] in WITHOUT_NULL else ["time"]
        return frozenset(map(sql.quoted, known))
    if made.kind in ("aggregate", "count"):
        values = {made.params["name"]: "count(*)"} if made.kind == "count" else made.params["values"]
        return frozenset(sql.quoted(name) for name, text in values.items() if text == "count(*)")
    if made.kind == "filter":
        return _without_null(plan, made.inputs[0])
    if made.kind == "project":
        before = _without_null(plan, made.inputs[0])
        return frozenset(sql.quoted(name) for name, text in made.params["columns"].items() if text in before)
    return frozenset()


class _Values:
    """Expressions over the results of finer windows that have the values of coarser ones."""

    def __init__(
        self,
        finer: _Aggregate,
        kinds: Mapping[str, str],  # types of the columns of the finer stream
        without_null: Collection[str],  # columns that are aggregated and have a value in each tuple
        *,
        single: bool,  # whether each window of a group has a single finer result
    ) -> None:
        self._columns = {text: sql.quoted(name) for name, text in finer.values.items()}
        self._kinds = {sql.quoted(name): kind for name, kind in kinds.items()}
        self._groups = set(map(sql.quoted, finer.by))
        self._without_null = without_null
        self._single = single
        self._of: dict[str, set[str]] = {}  # column to those of which it is made
        self.lacking = ""  # why a value cannot be made of them

    def combined(self, column: str, text: str) -> str:
        """Write the expression of a column over the columns of the finer stream."""
        return with_calls(text, sql.AGGREGATES, lambda call: self._call(self._of.setdefault(column, set()), call))

    def words(self) -> str:
        """Tell of which columns each is made."""
        return ", ".join(f"{name} of {' and '.join(sorted(several))}" for name, several in self._of.items() if several)

    def _call(self, used: set[str], call: str) -> str:
        name, argument = call[:-1].split("(", 1)
        column = self._columns.get(call)
        if column is not None and self._single and self._kinds.get(column) in ORDERED:
            used.add(column)
            return f"max({column})"  # the only one
        group = argument.removeprefix("DISTINCT ") if name == "count" else argument
        if group in self._groups and (name in ("min", "max") or group != argument):
            used.add(group)
            return call
        if name == "avg":
            return self._average(used, call, argument)
        if name not in ("count", "sum", "min", "max") or argument.startswith("DISTINCT "):
            return self._lacks(f"{call} of a whole does not follow from those of its parts")
        if column is None:
            return self._lacks(f"{call} is not among its values")
        used.add(column)
        if name in ("min", "max"):
            return f"{name}({column})"
        return f"sum({column})" if name == "count" else self._sum(used, call, argument, f"sum({column})")

    def _average(self, used: set[str], call: str, argument: str) -> str:
        total, number = self._columns.get(f"sum({argument})"), self._columns.get(f"count({argument})")
        if number is None and argument in self._without_null:
            number = self._columns.get("count(*)")
        if total is None or number is None:
            return self._lacks(f"{call} needs sum({argument}) and count({argument}) among its values")
        used |= {total, number}
        # the exact sum may need more than 64 bits: each half is a number that a float holds exactly
        upper, lower = f"sum({total} // 4294967296)", f"sum({total} % 4294967296)"
        whole = f"(CAST({upper} AS DOUBLE) * 4294967296.0 + {lower}) / sum({number})"
        return self._sum(used, call, argument, whole)

    def _sum(self, used: set[str], call: str, argument: str, combined: str) -> str:
        """Write what is made of sums, NULL if one of them is NULL although there are values."""
        column = self._columns[f"sum({argument})"]
        if self._kinds.get(column) != "int":
            return self._lacks(f"the last digits of {call} depend on how floats are added up")
        some = self._some(used, argument)
        if not some:
            return self._lacks(f"{call} needs count({argument}), as a sum is NULL without values and beyond 64 bits")
        return f"CASE WHEN count({column}) = {some} THEN {combined} END"

    def _some(self, used: set[str], argument: str) -> str:
        """Write the number of finer results with values; empty if no column tells it."""
        if argument in self._without_null:
            return "count(*)"
        number = self._columns.get(f"count({argument})")
        if number is not None:
            used.add(number)
            return f"count(CASE WHEN {number} = 0 THEN NULL ELSE {number} END)"
        found = (self._columns.get(f"{name}({argument})") for name in ("min", "max", "avg"))
        column = next((each for each in found if each is not None), None)
        if column is None:
            return ""
        used.add(column)
        return f"count({column})"

    def _lacks(self, why: str) -> str:
        self.lacking = self.lacking or why
        return ""
