"""Translation of a part of a plan, or of a whole one, to one DataFrame, and the inputs that the part reads.

A part is a set of operators with one exit, whose stream is the result. It reads the streams of operators outside it,
and those of its own sources. A stream that two of its operators read is computed twice, from separate readings of its
inputs: Spark shares nothing between the branches of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from spark_stream.operators import patterns
from spark_stream.operators._registry import APPLIED
from spark_stream.operators.frames import Work, enter, leave
from spark_stream.operators.ordered import counted_here
from spark_stream.supported import supported, translations
from synergy_nb.dataflow.operators.base import WINDOW
from synergy_nb.dataflow.operators.windows import microseconds
from synergy_nb.plan.checks.memory_estimates import span_of
from synergy_nb.plan.operators.catalogue import KINDS
from synergy_nb.plan.sql import sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from synergy_nb.plan import Operator, Plan

_STORE: Final = "spark.sql.streaming.stateStore"
#: ``transformWithState`` needs RocksDB, which writes what has changed in a micro-batch rather than all files.
_KEYED: Final = {
    f"{_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}
_RECKONING: Final = 2000  # rounding of Spark's watermark behind a join, microseconds


def kinds() -> tuple[str, ...]:
    """Return the kinds of operators that Spark executes."""
    return tuple(sorted(APPLIED))


def _check(operator: Operator, plan: Plan, inside: Collection[str]) -> None:
    reason = supported(operator, plan, inside)
    if reason or operator.kind not in APPLIED:
        raise ValueError(f"operator {operator.id!r} ({operator.kind}) on Spark: {reason or 'sources are read'}")


def build(
    plan: Plan,
    members: Collection[str],  # ids of the operators of the part
    end: str,  # id of the operator whose stream is the result
    # function that returns a new streaming DataFrame of a stream that the part reads, in the format of the input of
    # `enter`, with positions if the stream is in `numbered`. It is called in the order of `readings`
    read: Callable[[str], DataFrame],
    *,
    secrets: Mapping[str, bytes] | None = None,  # by the name that the plan uses for them
    ordered: bool = False,  # whether to retain the columns that `arrange` needs
    # whether `read` returns all rows of a stream that ends, without punctuations: then the result is a batch query
    finite: bool = False,
    # by the stream that `read` returns: column to the greatest size that a sum of its values can have, where known
    totals: Mapping[str, Mapping[str, int]] | None = None,
) -> DataFrame:
    """Translate a part of a plan to the DataFrame of its result, a streaming one unless its streams are finite.

    Raises ``ValueError`` if Spark cannot execute an operator, or a secret is missing or too short.
    """
    inside, positions = frozenset(members), numbered(plan, members, end, ordered=ordered)
    prepared: list[SparkSession] = []  # the session, once it has the functions that expressions call

    def stream(name: str) -> DataFrame:
        operator = plan.operators[name]
        if _is_read(operator, inside):
            source = read(name)
            if matches and not prepared:
                prepared.append(source.sparkSession)
                patterns.register(source.sparkSession)
            return enter(source, plan.schema(name), numbered=name in positions, finite=finite)
        needed = _needed(operator, plan, inside)
        order: tuple[str, ...] = ()
        before = plan.operators[needed[0]]
        sorts = before.kind == "sort" and before.id in inside and "window" not in before.params
        if operator.kind == "compare" and sorts:
            # The comparison sorts only the tuples that remain, and collects the rows of a window once.
            needed, order = (*before.inputs, *needed[1:]), tuple(before.params["by"])
        inputs = tuple(map(stream, needed))
        held = _totals(plan, needed[0], inside, totals or {}) if operator.kind == "aggregate" else None
        return APPLIED[operator.kind](Work(operator, plan, inputs, inside, secrets or {}, order, finite, held))

    executed = [plan.operators[name] for name in members if not _is_read(plan.operators[name], inside)]
    for operator in executed:
        _check(operator, plan, inside)
    texts = [text for operator in executed for text in translations(operator, plan)]
    matches = any(name in text for text in texts for name in patterns.FUNCTIONS)
    return leave(stream(end), plan.schema(end), ordered=ordered)


def _totals(
    plan: Plan, stream: str, inside: Collection[str], read: Mapping[str, Mapping[str, int]]
) -> Mapping[str, int]:
    """Columns of a stream to the greatest size that a sum of their values can have, where that is known."""
    operator = plan.operators[stream]
    if _is_read(operator, inside):
        return read.get(stream, {})
    if operator.kind not in ("filter", "project"):
        return {}
    above = _totals(plan, operator.inputs[0], inside, read)
    if operator.kind == "filter":
        return above
    schema = plan.schema(operator.inputs[0])
    made = {name: sql.parse(text, schema) for name, text in operator.params["columns"].items()}
    return {name: above[tree.name] for name, tree in made.items() if tree.key == "column" and tree.name in above}


def readings(plan: Plan, members: Collection[str], end: str) -> tuple[str, ...]:
    """Ids of the operators whose streams a part reads; an id is repeated for each reading."""
    inside = frozenset(members)

    def read(name: str) -> Iterator[str]:
        operator = plan.operators[name]
        if _is_read(operator, inside):
            yield name
            return
        for upstream in _needed(operator, plan, inside):
            yield from read(upstream)

    return tuple(read(end))


def numbered(plan: Plan, members: Collection[str], end: str, *, ordered: bool = True) -> frozenset[str]:
    """Ids of the operators whose streams a part reads with positions.

    Positions determine which tuple is the first of several, which ones a sample draws, and in what order a result is.

    ``ordered``: whether the result is to be put in order by them.
    """
    inside = frozenset(members)

    def ordered_by(name: str) -> frozenset[str]:
        operator = plan.operators[name]
        if _is_read(operator, inside):
            return frozenset({name})
        return ordered_by(operator.inputs[0]) if KINDS[operator.kind].preserves_order else frozenset()

    found = ordered_by(end) if ordered else frozenset()
    for name in members:
        operator = plan.operators[name]
        declared = KINDS[operator.kind]
        if declared.needs_order and not declared.needs_no_order(operator.params):
            found |= ordered_by(operator.inputs[0])
    return found


def settings(plan: Plan, members: Collection[str]) -> Mapping[str, str]:
    """Settings that a query over a part needs beside those of all queries."""
    return _KEYED if any(plan.operators[name].kind == "apply_keyed" for name in members) else {}


def lag(plan: Plan, members: Collection[str], end: str) -> int:
    """Largest lag of the results of a part behind the watermark of its inputs, microseconds.

    Spark delays the watermark behind a join by the span of the join, since a pair may be as old as its older half, and
    by up to 2 ms from rounding. The pairs themselves are emitted at once.
    """
    inside = frozenset(members)

    def behind(name: str) -> tuple[int, int]:
        """Lags of the watermark and of the tuples of a stream, microseconds."""
        operator = plan.operators[name]
        if _is_read(operator, inside):
            return 0, 0
        above = [behind(upstream) for upstream in _needed(operator, plan, inside)]
        watermark, tuples = (max(each) for each in zip(*above, strict=True))
        if KINDS[operator.kind].waits:
            tuples = max(tuples, watermark)
        product = KINDS[operator.kind].product
        if product and operator.params["how"] != "inner":  # a tuple without a partner waits for one
            tuples = max(tuples, watermark + _RECKONING)
        if product and not set(WINDOW) <= set(operator.params["on"]):
            watermark += microseconds(span_of(plan, name)) + _RECKONING
        return watermark, tuples

    return behind(end)[1]


def _is_read(operator: Operator, inside: Collection[str]) -> bool:
    return operator.id not in inside or operator.kind == "source"


def _needed(operator: Operator, plan: Plan, inside: frozenset[str]) -> tuple[str, ...]:
    """Inputs that the operator reads."""
    if operator.kind == "compare" and len(operator.inputs) == 2:
        work = Work(operator, plan, (), inside, {})
        return operator.inputs[:1] if counted_here(work) else operator.inputs
    return operator.inputs
