"""The aggregate calls of an operator: reduce rows to partial results, merge these, and compute results from them.

Sums of integers do not wrap around: from when 64 bits might not hold one of them, their upper bits have a column of
their own, and a result beyond 64 bits is NULL. Sums of floats are partial results like others, or, for an operator with
active replicas, exact sums (:mod:`~synergy_nb.dataflow.operators._exact_sums`) in tables of their own: then their
rounding does not depend on the order of the rows and on the batches. Variances are always made of exact sums, of values
and of their squares: their difference would otherwise have no right digit where the mean is large.

A value is an expression over calls: the calls are results of their own, and the expression is computed last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Any, Final, TypeAlias

import polars as pl

from synergy_nb.dataflow._expressions import compile_node
from synergy_nb.dataflow.operators import _exact_sums as exact_sums
from synergy_nb.dataflow.operators.base import WINDOW, computed
from synergy_nb.dataflow.operators.kept_values import (
    CountedValues,
    DifferentValues,
    EndValue,
    EstimatedNumber,
    JoinedTexts,
    KeptValues,
)
from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.sql import sql
from synergy_nb.plan.terms.column_types import sum_of
from synergy_nb.plan.terms.naming import internal

WEIGHT: Final = internal("weight")
TERM: Final = internal("term")
_UNIT: Final = 2**32  # value of one in the upper bits of sums
_ZERO: Final = pl.Series([0], dtype=pl.Int64)
_DECAYED: Final = internal("decayed ")  # beginning of the names of columns that decay
_Names: TypeAlias = tuple[tuple[str, str], ...]


def compiled_values(
    values: Mapping[str, str],
    schema: Mapping[str, str],
    kinds: Mapping[str, str],
    half_life: float | None = None,
    *,
    exact: bool = False,
) -> Values:
    """Return the calls of a new operator; what is compiled of them is shared by all operators that have the same."""
    return copy(_compiled(tuple(values.items()), tuple(schema.items()), tuple(kinds.items()), half_life, exact))


@lru_cache(maxsize=256)
def _compiled(values: _Names, schema: _Names, kinds: _Names, half_life: float | None, exact: bool) -> Values:
    return Values(dict(values), dict(schema), dict(kinds), half_life, exact=exact)


class Values:
    """The aggregate calls of one operator, in three steps: reduce rows, merge partial results, finish.

    Only how large its sums have become is an operator's own.
    """

    def __init__(
        self,
        values: Mapping[str, str],  # output column to aggregate call in SQL
        schema: Mapping[str, str],  # schema of the input
        kinds: Mapping[str, str],  # types of the output columns
        # microseconds after which the weight of a tuple in sums, counts and averages is halved; None: equal weights
        half_life: float | None = None,
        exact: bool = False,  # whether sums of floats are exact until they are rounded once
    ) -> None:
        self._half_life = half_life
        self._exact = exact
        self._terms: dict[str, list[pl.Expr]] = {}  # column of an exact sum to its terms
        self._decaying: list[str] = []  # columns of partial results that decay with time
        self._arguments: dict[str, pl.Expr] = {}  # column to what it holds; computed before grouping
        self._types: dict[str, str] = {}
        self._partials: dict[str, tuple[pl.Expr, pl.Expr, str]] = {}  # column: reduce, merge, type
        self._whole: dict[str, tuple[str, str]] = {}  # column to those of the sum of its integers: upper bits, the rest
        self.kept: dict[str, KeptValues] = {}  # other tables of the state, by name
        self._deviations: dict[str, tuple[str, str, str]] = {}  # result: number, exact sums of values, of squares
        self._finals: dict[bool, tuple[list[pl.Expr], list[pl.Expr]]] = {}  # calls, values; by ``self._wide``
        for self._wide in (True, False):
            called: dict[str, pl.Expr] = {}
            found: list[pl.Expr] = []
            for name, text in values.items():
                left, calls = sql.calls(sql.parse(text, schema, aggregate=True))
                types = sql.call_types(calls, schema, half_life=half_life is not None)
                for column, call in calls.items():  # NULL for an integer beyond 64 bits
                    value = self._compile(column, call, schema).alias(column)
                    called[column] = value.cast(TYPES[types[column]], strict=False)
                found.append(compile_node(left, types)[0].alias(name).cast(TYPES[kinds[name]], strict=False))
            self._finals[self._wide] = list(called.values()), found
        self._reach = 0  # no sum of integers so far is larger
        if not self._partials:  # the groups alone, to which the sets are joined
            self._partial("len", "*", pl.len().cast(pl.Int64), pl.Expr.sum, "int")

    def _compile(self, name: str, node: Any, schema: Mapping[str, str]) -> pl.Expr:
        key = node.key
        if key == "anonymous":
            return self._of_table(name, node, schema)
        if key == "count" and node.this.key == "star" and self._half_life is not None:
            return self._decayed("len", "*", pl.col(WEIGHT))
        if key == "count" and node.this.key == "star":
            return self._partial("len", "*", pl.len().cast(pl.Int64), pl.Expr.sum, "int")
        distinct = node.this.key == "distinct"
        column, kind = self._argument(node.this.expressions[0] if distinct else node.this, schema)
        if distinct:
            self._keep(f"set {column}", DifferentValues(column, kind)).count(name)
            return pl.col(name).fill_null(0)
        value = pl.col(column)
        if key == "min":
            return self._partial("min", column, value.min(), pl.Expr.min, kind)
        if key == "max":  # NaN is the greatest float, as in DuckDB and Spark
            most = pl.Expr.nan_max if kind == "float" else pl.Expr.max
            return self._partial("max", column, most(value), most, kind)
        number = self._partial("count", column, value.count().cast(pl.Int64), pl.Expr.sum, "int")
        if self._half_life is not None:
            weight = self._decayed("count", column, pl.when(value.is_not_null()).then(pl.col(WEIGHT)))
            if key == "count":
                return weight
            total = self._decayed("sum", column, value.cast(pl.Float64) * pl.col(WEIGHT))
            if key == "avg":  # tuples whose weight is zero have no average
                return pl.when(weight > 0.0).then(total / weight)
            return pl.when(number > 0).then(total)
        if key == "count":
            return number
        total = self._sum("sum", column, value, sum_of(kind))
        if key == "avg":
            return pl.when(number > 0).then(total.cast(pl.Float64) / number)
        return pl.when(number > 0).then(total)

    def _of_table(self, name: str, node: Any, schema: Mapping[str, str]) -> pl.Expr:
        """Return the result of a call of the table of calls over several rows."""
        call, (argument, *constants) = node.name, node.expressions
        column, kind = self._argument(argument, schema)
        if call in ("first", "last"):
            self._keep(f"{call} {column}", EndValue(column, kind, last=call == "last")).value(name)
        elif call == "string_agg":
            self._keep(f"texts {column}", JoinedTexts(column, kind)).joined(name, constants[0].name)
        elif call in ("quantile_cont", "quantile_disc"):
            between = call == "quantile_cont"
            self._keep(f"copies {column}", CountedValues(column, kind)).quantile(
                name, float(constants[0].name), between=between
            )
        elif call == "approx_count_distinct":
            self._keep(f"registers {column}", EstimatedNumber(column, kind)).estimate(name)
            return pl.col(name).fill_null(0)
        else:
            return self._variance(call, column)
        return pl.col(name)

    def _keep(self, name: str, kept: Any) -> Any:
        return self.kept.setdefault(name, kept)

    def _variance(self, call: str, column: str) -> pl.Expr:
        value = pl.col(column).cast(pl.Float64)
        number = self._partial("count", column, pl.col(column).count().cast(pl.Int64), pl.Expr.sum, "int")
        upper = value * exact_sums.SPLITTER - (value * exact_sums.SPLITTER - value)
        lower, square = value - upper, value * value
        rest = ((upper * upper - square) + 2.0 * upper * lower) + lower * lower  # what the square has lost
        total, squares = (internal(f"{what} {column}") for what in ("value", "square"))
        self._terms |= {total: [value], squares: [square, pl.when(square.is_finite()).then(rest)]}
        deviations = internal(f"deviations {column}")
        self._deviations[deviations] = (number.meta.output_name(), total, squares)
        fewer = 1 if call.endswith("_samp") else 0
        variance = pl.when(number > fewer).then(pl.col(deviations) / (number - fewer).cast(pl.Float64))
        return variance.sqrt() if call.startswith("stddev") else variance

    def _argument(self, node: Any, schema: Mapping[str, str]) -> tuple[str, str]:
        if node.key == "column" and node.name not in WINDOW:  # the bounds of new windows replace the old ones
            return node.name, schema[node.name]
        expression, kind = compile_node(node, schema)
        if kind == "null":
            expression, kind = pl.lit(None, dtype=pl.Int64), "int"
        column = internal(sql.canonical(node))
        self._arguments[column] = expression.alias(column)
        self._types[column] = kind
        return column, kind

    def _decayed(self, what: str, column: str, weighed: pl.Expr) -> pl.Expr:
        """Return the sum of the weights that tuples have at a moment; it decays from then on."""
        found = self._sum(f"decayed {what}", column, weighed, "float")
        if not self._exact:
            self._decaying = list(dict.fromkeys([*self._decaying, found.meta.output_name()]))
        return found

    def _sum(self, what: str, column: str, terms: pl.Expr, kind: str) -> pl.Expr:
        if kind == "int":
            return self._whole_sum(column, terms)
        if not self._exact or kind != "float":
            return self._partial(what, column, terms.sum(), pl.Expr.sum, kind)
        name = internal(f"{what} {column}")
        self._terms[name] = [terms]
        return pl.col(name).fill_null(0.0)

    def _whole_sum(self, column: str, terms: pl.Expr) -> pl.Expr:
        """Return the sum of integers, with 128 bits where 64 might not hold it."""
        high = self._partial("upper sum", column, (terms // _UNIT).sum(), pl.Expr.sum, "int")
        low = self._partial("sum", column, (terms % _UNIT).sum(), pl.Expr.sum, "int")
        self._whole[column] = (high.meta.output_name(), low.meta.output_name())
        return high.cast(pl.Int128) * pl.lit(_UNIT, dtype=pl.Int128) + low.cast(pl.Int128) if self._wide else low

    def _partial(self, what: str, column: str, reduce: pl.Expr, merge: Any, kind: str) -> pl.Expr:
        name = internal(f"{what} {column}")
        self._partials[name] = (reduce.alias(name), merge(pl.col(name)), kind)
        return pl.col(name)

    @property
    def wide(self) -> bool:
        """Whether partial results have columns for the upper bits of sums."""
        return self._wide

    @property
    def columns(self) -> dict[str, str]:
        """Columns of partial results, with their types."""
        left_out = self._left_out
        return {name: kind for name, (_, _, kind) in self._partials.items() if name not in left_out}

    @property
    def _left_out(self) -> frozenset[str]:
        """Columns that partial results lack because all their values are 0."""
        return frozenset() if self._wide else frozenset(high for high, _ in self._whole.values())

    @property
    def exact(self) -> tuple[str, ...]:
        """Columns of exact sums."""
        return tuple(self._terms)

    @property
    def exact_decay(self) -> int | None:
        """Width of the panes in which rows of decaying exact sums are reduced, µs: a half-life; None if none decay."""
        decays = any(name.startswith(_DECAYED) for name in self._terms)
        return max(1, round(self._half_life)) if decays and self._half_life is not None else None

    @property
    def ordered(self) -> bool:
        """Whether rows need their positions, in the column ``POSITION``."""
        return any(kept.ordered for kept in self.kept.values())

    def prepare(self, rows: pl.DataFrame) -> tuple[pl.LazyFrame, pl.DataFrame]:
        """Add the arguments of all calls to ``rows`` as columns; return this, and those rows that are computed."""
        if not self._arguments:
            return rows.lazy(), rows
        if self._whole.keys().isdisjoint(self._arguments):
            return rows.lazy().with_columns(*self._arguments.values()), rows
        made = rows.with_columns(*self._arguments.values())
        return made.lazy(), made

    def weighed(self, prepared: pl.LazyFrame, moment: pl.Expr) -> pl.LazyFrame:
        """Add the weights of rows at a ``moment`` in microseconds, if they decay."""
        if self._half_life is None:
            return prepared
        return prepared.with_columns(self._share(moment - pl.col("time").cast(pl.Int64)).alias(WEIGHT))

    def reduce(self, weighed: pl.LazyFrame, keys: Sequence[str], rows: pl.DataFrame) -> pl.LazyFrame:
        """Reduce rows to partial results by ``keys``; ``rows`` has the columns whose integers are added up."""
        if self._whole:
            self._reach += max(_greatest(rows.get_column(column)) for column in self._whole) * rows.height
            self._wide = self._wide or self._reach >= 2**63
        parts = {name: reduce for name, (reduce, _, _) in self._partials.items()}
        if not self._wide:
            parts |= {low: pl.col(column).sum().alias(low) for column, (_, low) in self._whole.items()}
        return self._grouped(weighed, keys, parts)

    def resume(self, partials: Iterable[pl.DataFrame]) -> None:
        """Go on with these partial results."""
        self._reach, self._wide = 0, False
        for table in partials:
            for high, low in self._whole.values():
                self._reach += _greatest(table.get_column(low)) * table.height
                self._wide = self._wide or high in table.columns
        self._wide = self._wide or self._reach >= 2**63

    def _grouped(self, rows: pl.LazyFrame, keys: Sequence[str], parts: Mapping[str, pl.Expr]) -> pl.LazyFrame:
        left_out = self._left_out
        return rows.group_by(keys).agg(part for name, part in parts.items() if name not in left_out)

    def completed(self, partials: pl.DataFrame) -> pl.DataFrame:
        """Return a table of partial results with the upper bits of sums."""
        partials = partials.clone()  # a snapshot may have the table as it was
        nothing = _ZERO.new_from_index(0, partials.height)
        first = partials.width - sum(name in partials.columns for name in self._partials)
        for place, name in enumerate(self._partials, first):
            if name not in partials.columns:
                partials.insert_column(place, nothing.alias(name))
        return partials

    def limbs(self, weighed: pl.DataFrame, keys: Sequence[str], name: str) -> pl.DataFrame:
        """Reduce rows to the limbs of an exact sum by ``keys``."""
        terms = [weighed.select(*keys, term.cast(pl.Float64).alias(TERM)) for term in self._terms[name]]
        return exact_sums.split(pl.concat(terms), TERM, keys)

    def _rounded(
        self, limbs: pl.DataFrame, keys: Sequence[str], name: str, age: pl.Expr | None, parts: Sequence[str]
    ) -> pl.LazyFrame:
        """Round an exact sum by ``keys``."""
        if parts and name.startswith(_DECAYED) and age is not None:
            each = exact_sums.rounded(limbs.lazy(), [*keys, *parts], name, limbs.height).lazy()
            aged = computed(each.select(*keys, (pl.col(name) * self._share(age)).alias(TERM)), limbs.height)
            limbs = exact_sums.split(aged, TERM, keys)
        return exact_sums.rounded(limbs.lazy(), keys, name, limbs.height).lazy()

    def aged(self, partials: pl.LazyFrame, age: pl.Expr) -> pl.LazyFrame:
        """Let partial results decay by ``age``, in microseconds."""
        if not self._decaying:
            return partials
        return partials.with_columns(pl.col(self._decaying) * self._share(age))

    def _share(self, age: pl.Expr) -> pl.Expr:
        """Return the weight of a tuple of an age in microseconds."""
        # not a division: Polars divides a single row exactly, but multiplies several rows by the reciprocal
        return pl.lit(2.0).pow(age.cast(pl.Float64) * (-1.0 / float(self._half_life or 1.0)))

    def merge(self, partials: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Merge the partial results of equal ``keys``."""
        if self._wide:
            carries = [pl.col(high) + pl.col(low) // _UNIT for high, low in self._whole.values()]
            partials = partials.with_columns(*carries, *(pl.col(low) % _UNIT for _, low in self._whole.values()))
        return self._grouped(partials, keys, {name: merge for name, (_, merge, _) in self._partials.items()})

    def finish(
        self,
        merged: pl.LazyFrame,
        kept: Mapping[str, pl.LazyFrame],
        limbs: Mapping[str, pl.DataFrame],
        keys: Sequence[str],
        rows: int,
        age: pl.Expr | None = None,
        parts: Sequence[str] = (),
    ) -> pl.LazyFrame:
        """Compute results from merged partial results, merged tables of ``kept``, and limbs, all by ``keys``.

        ``rows``: number of rows that the partial results are merged of.
        If weights decay, the exact sum of each of the ``parts`` of a result is rounded, decays by its ``age``, and is
        added to the others exactly.
        """
        powers = {each for _, *both in self._deviations.values() for each in both}
        found = [self.kept[name].finish(table, keys) for name, table in kept.items()]
        found += [self._rounded(limbs[name], keys, name, age, parts) for name in self._terms if name not in powers]
        if self._deviations:
            groups = computed(merged, rows)
            merged = groups.lazy()
            for name, (number, total, squares) in self._deviations.items():
                numbers = groups.select(*keys, number)
                found.append(exact_sums.deviations(numbers, number, limbs[total], limbs[squares], keys, name).lazy())
        for each in found:
            merged = merged.join(each, on=list(keys), how="left", nulls_equal=True)
        calls, values = self._finals[self._wide]
        return merged.with_columns(calls).with_columns(values)


def _greatest(integers: pl.Series) -> int:
    """Return the greatest absolute value of a column of integers; 0 if it has none."""
    least: Any = integers.min() or 0
    most: Any = integers.max() or 0
    return max(-int(least), int(most))
