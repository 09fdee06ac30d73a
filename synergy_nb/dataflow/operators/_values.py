"""The aggregate calls of an operator: reduce rows to partial results, merge these, and compute results from them.

Sums of integers do not wrap around: from when 64 bits might not hold one of them, their upper bits have a column of
their own, and a result beyond 64 bits is NULL. Sums of floats are partial results like others, or, for an operator with
active replicas, exact sums (:mod:`~synergy_nb.dataflow.operators._exact_sums`) in tables of their own: then their
rounding does not depend on the order of the rows and on the batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from synergy_nb.dataflow._expressions import compile_node
from synergy_nb.dataflow.operators import _exact_sums as exact_sums
from synergy_nb.dataflow.operators.base import WINDOW, computed
from synergy_nb.dataflow.tuples import TYPES
from synergy_nb.plan.sql import sql
from synergy_nb.plan.terms.naming import internal

MEMBER: Final = internal("member")
WEIGHT: Final = internal("weight")
TERM: Final = internal("term")
_UNIT: Final = 2**32  # value of one in the upper bits of sums
_ZERO: Final = pl.Series([0], dtype=pl.Int64)
_DECAYED: Final = internal("decayed ")  # beginning of the names of columns that decay


class Values:
    """The aggregate calls of one operator, in three steps: reduce rows, merge partial results, finish."""

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
        self._terms: dict[str, pl.Expr] = {}  # column of an exact sum to its terms
        self._decaying: list[str] = []  # columns of partial results that decay with time
        self._arguments: dict[str, pl.Expr] = {}  # column to what it holds; computed before grouping
        self._types: dict[str, str] = {}
        self._partials: dict[str, tuple[pl.Expr, pl.Expr, str]] = {}  # column: reduce, merge, type
        self._whole: dict[str, tuple[str, str]] = {}  # column to those of the sum of its integers: upper bits, the rest
        self._sets: dict[str, str] = {}  # output column of a count(distinct x) to the column that holds x
        self._finals: dict[bool, list[pl.Expr]] = {}  # by ``self._wide``
        for self._wide in (True, False):
            self._finals[self._wide] = [
                self._compile(name, sql.parse(text, schema, aggregate=True), schema)
                .alias(name)
                .cast(TYPES[kinds[name]], strict=False)  # NULL for an integer beyond 64 bits
                for name, text in values.items()
            ]
        self._reach = 0  # no sum of integers so far is larger
        if not self._partials:  # the groups alone, to which the sets are joined
            self._partial("len", "*", pl.len().cast(pl.Int64), pl.Expr.sum, "int")

    def _compile(self, name: str, node: Any, schema: Mapping[str, str]) -> pl.Expr:
        key = node.key
        if key == "count" and node.this.key == "star" and self._half_life is not None:
            return self._decayed("len", "*", pl.col(WEIGHT))
        if key == "count" and node.this.key == "star":
            return self._partial("len", "*", pl.len().cast(pl.Int64), pl.Expr.sum, "int")
        distinct = node.this.key == "distinct"
        column, kind = self._argument(node.this.expressions[0] if distinct else node.this, schema)
        if distinct:
            self._sets[name] = column
            return pl.col(internal(f"set {name}")).fill_null(0)
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
        total = self._sum("sum", column, value, kind)
        if key == "avg":
            return pl.when(number > 0).then(total.cast(pl.Float64) / number)
        return pl.when(number > 0).then(total)

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
        if not self._exact:
            return self._partial(what, column, terms.sum(), pl.Expr.sum, kind)
        name = internal(f"{what} {column}")
        self._terms[name] = terms
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

    def sets(self, schema: Mapping[str, str]) -> dict[str, str]:
        """Return, for each output column that is a count(distinct x), the type of x."""
        return {name: self._types.get(column) or schema[column] for name, column in self._sets.items()}

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
        return exact_sums.split(weighed.select(*keys, self._terms[name].cast(pl.Float64).alias(TERM)), TERM, keys)

    def rounded(
        self, limbs: pl.DataFrame, keys: Sequence[str], name: str, age: pl.Expr | None = None, parts: Sequence[str] = ()
    ) -> pl.LazyFrame:
        """Round an exact sum by ``keys``.

        If weights decay, the sum of each of the ``parts`` of a result is rounded, decays by its ``age``, and is added
        to the others exactly.
        """
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

    def members(self, prepared: pl.LazyFrame, keys: Sequence[str], name: str) -> pl.LazyFrame:
        """Return the set of the values of one count(distinct x) by ``keys``, in the column ``MEMBER``."""
        column = pl.col(self._sets[name])
        return prepared.filter(column.is_not_null()).select(*keys, column.alias(MEMBER)).unique()

    def finish(
        self,
        merged: pl.LazyFrame,
        sets: Mapping[str, pl.LazyFrame],
        sums: Iterable[pl.LazyFrame],
        keys: Sequence[str],
    ) -> pl.LazyFrame:
        """Compute results from merged partial results, sets of values and exact sums, all by ``keys``."""
        sizes = [
            members.group_by(keys).agg(pl.len().cast(pl.Int64).alias(internal(f"set {name}")))
            for name, members in sets.items()
        ]
        for each in (*sizes, *sums):
            merged = merged.join(each, on=list(keys), how="left", nulls_equal=True)
        return merged.with_columns(self._finals[self._wide])


def _greatest(integers: pl.Series) -> int:
    """Return the greatest absolute value of a column of integers; 0 if it has none."""
    least: Any = integers.min() or 0
    most: Any = integers.max() or 0
    return max(-int(least), int(most))
