"""Operators that process one tuple at a time, and union."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql.connect import functions as sf

from spark_stream._expressions import literal, quote, scattered, signed, translate
from spark_stream.operators._registry import implements
from spark_stream.operators.frames import CLOCK, ORDER, UNORDERED, Work, named
from synergy_nb.dataflow.operators.rows import splitmix64

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["project", "sample", "union", "where"]


@implements("filter")
def where(work: Work) -> DataFrame:
    """The tuples for which the condition is TRUE."""
    return work.inputs[0].filter(translate(work.params["where"], work.schemas[0], "bool"))


@implements("project")
def project(work: Work) -> DataFrame:
    """The new columns, with ``time`` and the bounds of windows."""
    given, schema = work.params["columns"], work.schemas[0]
    columns = [
        named(translate(given[name], schema, kind) if name in given else quote(name), name)
        for name, kind in work.output.items()
    ]
    return work.inputs[0].select(*columns, sf.col(CLOCK), sf.col(ORDER))


@implements("union")
def union(work: Work) -> DataFrame:
    """All tuples of all inputs, without an order."""
    columns = [*(sf.col(quote(name)) for name in work.output), sf.col(CLOCK), named(UNORDERED, ORDER)]
    return reduce(lambda left, right: left.union(right), [frame.select(*columns) for frame in work.inputs])


@implements("sample")
def sample(work: Work) -> DataFrame:
    """The same tuples that peers draw: those whose position, hashed with the seed, is below a bound."""
    fraction = float(work.params["fraction"])
    if fraction >= 1.0:
        return work.inputs[0]
    seed = int(splitmix64(np.array([int(work.params.get("seed") or 0) % 2**64], dtype=np.uint64))[0])
    missing = f"operator {work.operator.id!r} (sample): the positions of the tuples of its input are missing"
    position = f"coalesce({quote(ORDER)}, raise_error({literal(missing)}))"
    drawn = scattered(f"({position} ^ {signed(seed)})")
    below = min(int(fraction * 2.0**64), 2**64 - 1)
    # Both sides are unsigned numbers; with the highest bit inverted, signed numbers have the same order.
    return work.inputs[0].filter(f"(({drawn}) ^ {signed(2**63)}) < {signed(below ^ 2**63)}")
