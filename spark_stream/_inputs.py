"""Inputs of a query on Spark: through the endpoint, or from files with the punctuations through the endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from spark_stream._staging import Files, Layout
from spark_stream._tables import MARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.types import StructType


class Port(NamedTuple):
    """What a query reads on one port."""

    number: int
    columns: Mapping[str, str]  # columns of the stream with their types
    files: Files | None  # files that Spark reads itself, or None
    layout: Layout  # layout of these files

    def frame(self, session: SparkSession, tap: int, options: Mapping[str, str]) -> DataFrame:
        """The stream as operators take it: rows and punctuations.

        ``session``: session that the inputs belong to; ``tap``: number of the reader; ``options``: options of source
        and sink, see :mod:`spark_stream._sources`.
        """
        from pyspark.sql.connect import functions as sf  # noqa: PLC0415 - imports Spark

        from spark_stream._expressions import quote  # noqa: PLC0415
        from spark_stream._sources import FORMAT  # noqa: PLC0415

        reader = session.readStream.format(FORMAT).options(**options, port=self.number, tap=tap)
        given = reader.schema(_struct({**self.columns, MARK: "bool"})).load()
        if self.files is None:
            return given
        stored = {self.layout.clock if name == "time" else name: kind for name, kind in self.columns.items()}
        schema = _struct(stored, self.layout.zoneless)
        rows = session.readStream.schema(schema).parquet(str(self.files.folders[tap]))
        chosen = [
            (sf.col(quote(column)).cast("timestamp") if kind == "time" else sf.col(quote(column))).alias(name)
            for (name, kind), column in zip(self.columns.items(), stored, strict=True)
        ]
        return rows.select(*chosen, sf.lit(False).alias(MARK)).union(given)


def _struct(columns: Mapping[str, str], zoneless: frozenset[str] = frozenset()) -> StructType:
    from pyspark.sql import types  # noqa: PLC0415 - imports Spark

    kinds = {
        "int": types.LongType(),
        "float": types.DoubleType(),
        "str": types.StringType(),
        "bool": types.BooleanType(),
        "time": types.TimestampType(),
        "bytes": types.BinaryType(),
    }
    return types.StructType(
        [
            types.StructField(name, types.TimestampNTZType() if name in zoneless else kinds[kind])
            for name, kind in columns.items()
        ]
    )
