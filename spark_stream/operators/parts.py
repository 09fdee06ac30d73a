"""Translation of a part of a plan to one streaming DataFrame, and the inputs that the part reads.

A part is a set of operators with one exit, whose stream is the result. It reads the streams of operators outside it,
and those of its own sources. A stream that two of its operators read is computed twice, from separate readings of its
inputs: Spark shares nothing between the branches of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from spark_stream.operators.frames import Work, enter, leave
from spark_stream.operators.ordered import counted_here
from spark_stream.operators.registry import APPLIED
from spark_stream.supported import supported
from synergy_nb.dataflow.operators.base import WINDOW
from synergy_nb.dataflow.operators.windows import microseconds
from synergy_nb.plan.catalogue import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from synergy_nb.plan import Operator, Plan

__all__ = ["apply", "build", "kinds", "lag", "numbered", "readings"]

_RECKONING: Final = 2000  # microseconds


def kinds() -> tuple[str, ...]:
    """The kinds that :func:`apply` knows."""
    return tuple(sorted(APPLIED))


def apply(
    operator: Operator,
    plan: Plan,
    inputs: Sequence[DataFrame],
    *,
    inside: Collection[str] = (),
    keys: Mapping[str, bytes] | None = None,
) -> DataFrame:
    """The stream of an operator.

    Parameters
    ----------
    operator
        An operator of ``plan``.
    plan
        Gives the schemas of its streams.
    inputs
        Input streams of the part, as :func:`~spark_stream.operators.enter` and this function return them.
    inside
        Operators of the plan that are executed in the same query.
    keys
        Secrets for ``encrypt`` and ``decrypt``, by the name that the plan uses.

    Raises
    ------
    ValueError
        If Spark cannot execute it, or a key is missing or unfit.
    """
    _check(operator, plan, inside)
    return APPLIED[operator.kind](Work(operator, plan, tuple(inputs), frozenset(inside), keys or {}))


def _check(operator: Operator, plan: Plan, inside: Collection[str]) -> None:
    reason = supported(operator, plan, inside)
    if reason or operator.kind not in APPLIED:
        raise ValueError(f"operator {operator.id!r} ({operator.kind}) on Spark: {reason or 'sources are read'}")


def build(
    plan: Plan,
    members: Collection[str],
    end: str,
    read: Callable[[str], DataFrame],
    *,
    keys: Mapping[str, bytes] | None = None,
    ordered: bool = False,
) -> DataFrame:
    """The result of a part of a plan.

    Parameters
    ----------
    plan
        The plan.
    members
        Ids of the operators of the part.
    end
        The one whose stream is the result.
    read
        Gives a new streaming DataFrame of a stream that the part reads, as :func:`~spark_stream.operators.enter` takes
        it, with positions if :func:`numbered` asks for them. It is called in the order of :func:`readings`.
    keys
        Secrets for ``encrypt`` and ``decrypt``, by the name that the plan uses.
    ordered
        Keep what :func:`~spark_stream.operators.arrange` needs.

    Raises
    ------
    ValueError
        If Spark cannot execute an operator, or a key is missing or unfit.
    """
    inside, positions = frozenset(members), numbered(plan, members, end)

    def stream(name: str) -> DataFrame:
        operator = plan.operators[name]
        if _is_read(operator, inside):
            return enter(read(name), plan.schema(name), numbered=name in positions)
        needed = _needed(operator, plan, inside)
        order: tuple[str, ...] = ()
        before = plan.operators[needed[0]]
        sorts = before.kind == "sort" and before.id in inside and "window" not in before.params
        if operator.kind == "compare" and sorts:
            # Only what the comparison keeps has to be sorted, and the rows of a window are collected once.
            needed, order = (*before.inputs, *needed[1:]), tuple(before.params["by"])
        return APPLIED[operator.kind](Work(operator, plan, tuple(map(stream, needed)), inside, keys or {}, order))

    for name in members:
        if not _is_read(plan.operators[name], inside):
            _check(plan.operators[name], plan, inside)
    return leave(stream(end), plan.schema(end), ordered=ordered)


def readings(plan: Plan, members: Collection[str], end: str) -> tuple[str, ...]:
    """Ids of the operators whose streams a part reads, each as often as it reads it."""
    inside = frozenset(members)

    def read(name: str) -> Iterator[str]:
        operator = plan.operators[name]
        if _is_read(operator, inside):
            yield name
            return
        for upstream in _needed(operator, plan, inside):
            yield from read(upstream)

    return tuple(read(end))


def numbered(plan: Plan, members: Collection[str], end: str) -> frozenset[str]:
    """Ids of the operators of whose streams a part has to know the positions of tuples.

    Positions determine which tuple is the first of several, which ones a sample draws, and in what order a result is.
    """
    inside = frozenset(members)

    def ordered_by(name: str) -> frozenset[str]:
        operator = plan.operators[name]
        if _is_read(operator, inside):
            return frozenset({name})
        return ordered_by(operator.inputs[0]) if KINDS[operator.kind].keeps_order else frozenset()

    found = ordered_by(end)
    for name in members:
        operator = plan.operators[name]
        if KINDS[operator.kind].needs_order:
            found |= ordered_by(operator.inputs[0])
    return found


def lag(plan: Plan, members: Collection[str], end: str) -> int:
    """Microseconds by which the results of a part may be behind the watermark of what it reads.

    What follows a join within a span of time waits for that span on Spark, which takes a pair to be as old as the older
    half might be, and for up to 2 ms of its reckoning. Pairs themselves come out at once.
    """
    inside = frozenset(members)

    def behind(name: str) -> tuple[int, int]:
        """Of the stream's watermark, and of its tuples."""
        operator = plan.operators[name]
        if _is_read(operator, inside):
            return 0, 0
        above = [behind(upstream) for upstream in _needed(operator, plan, inside)]
        watermark, tuples = (max(each) for each in zip(*above, strict=True))
        if KINDS[operator.kind].waits:
            tuples = max(tuples, watermark)
        if operator.params.get("how", "inner") != "inner":  # what has no partner waits for one
            tuples = max(tuples, watermark + _RECKONING)
        if KINDS[operator.kind].product and not set(WINDOW) <= set(operator.params["on"]):
            watermark += microseconds(KINDS[operator.kind].span(operator.params)) + _RECKONING
        return watermark, tuples

    return behind(end)[1]


def _is_read(operator: Operator, inside: frozenset[str]) -> bool:
    return operator.id not in inside or operator.kind == "source"


def _needed(operator: Operator, plan: Plan, inside: frozenset[str]) -> tuple[str, ...]:
    """The inputs that the operator looks at."""
    if operator.kind == "compare" and len(operator.inputs) == 2:
        work = Work(operator, plan, (), inside, {})
        return operator.inputs[:1] if counted_here(work) else operator.inputs
    return operator.inputs
