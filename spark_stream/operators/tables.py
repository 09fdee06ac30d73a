"""Rows of a table, added to a stream: a join with a table that is sent to all workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql.connect import functions as sf

from spark_stream._expressions import quote
from spark_stream._tables import table_to_spark
from spark_stream.operators._registry import implements
from spark_stream.operators.frames import CLOCK, ORDER, Work, named
from synergy_nb.plan.operators.tables import new_columns
from synergy_nb.plan.tables.lookup_tables import table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["lookup"]

_SINCE = " since"
_UNTIL = " until"  # when the next version of a key begins; NULL for the last


@implements("lookup")
def lookup(work: Work) -> DataFrame:
    """Each tuple with the columns of the row whose key is its own (NULL equals nothing), at its time."""
    params, frame = work.params, work.inputs[0]
    table, keys, kinds = table_of(params["table"]), params["on"], params["table"]["columns"]
    own = {theirs: f" key {theirs}" for theirs in keys.values()}
    added = {theirs: f" value {theirs}" for theirs in new_columns(params)}
    types = {name: kinds[theirs] for theirs, name in {**own, **added}.items()}
    same = [f"{quote(ours)} = {quote(own[theirs])}" for ours, theirs in keys.items()]
    found = [table.get_column(theirs).alias(name) for theirs, name in {**own, **added}.items()]
    rows = pl.DataFrame(found).filter(pl.all_horizontal(pl.col(list(own.values())).is_not_null()))
    if (valid_from := params.get("valid_from")) is not None:
        since = pl.col(added[valid_from]).cast(pl.Datetime("us"))  # dates are versions from their beginnings on
        rows = rows.sort(*own.values(), since)
        rows = rows.with_columns(since.alias(_SINCE), since.shift(-1).over(list(own.values())).alias(_UNTIL))
        types |= {_SINCE: "time", _UNTIL: "time"}
        same += [f"`time` >= {quote(_SINCE)}", f"({quote(_UNTIL)} IS NULL OR `time` < {quote(_UNTIL)})"]
    if not rows.height:
        rows = rows.clear(1)  # Spark makes no table without rows: one of NULLs, which nothing equals
    static = frame.sparkSession.createDataFrame(table_to_spark(rows, types))
    how = "inner" if params["how"] == "inner" else "leftOuter"
    joined = frame.join(sf.broadcast(static), sf.expr(" AND ".join(same)), how)
    names = {new: added[theirs] for theirs, new in new_columns(params).items()}
    output = [named(quote(names.get(name, name)), name) for name in work.output]
    return joined.select(*output, sf.col(CLOCK), sf.col(ORDER))
