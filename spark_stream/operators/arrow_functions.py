"""Functions of Arrow arrays, which Spark's Python workers execute; those of the rows of windows get lists of rows.

A function that is sent to Spark is a nested one, which is sent as it is, and what it refers to is imported there. So it
must not refer to modules of this package, which import Spark's client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types
from pyspark.sql.connect import functions as sf
from pyspark.sql.connect.udf import _create_udf
from pyspark.util import PythonEvalType

from spark_stream._expressions import quote
from spark_stream._tables import from_lists, to_lists
from synergy_nb.plan.terms.column_types import digits_of

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import Column

__all__ = ["arrow_function", "of_rows", "spark_type"]

#: Class of Spark's type of each type of columns.
_SPARK_TYPES: Final = {
    "int": types.LongType,
    "float": types.DoubleType,
    "str": types.StringType,
    "bool": types.BooleanType,
    "time": types.TimestampType,
    "bytes": types.BinaryType,
    "date": types.DateType,
    "duration": types.LongType,
}


def spark_type(kind: str) -> types.DataType:
    """Spark's type of a type of columns."""
    return _SPARK_TYPES[kind]() if kind in _SPARK_TYPES else types.DecimalType(*digits_of(kind))


def arrow_function(function: Callable[..., Any], kind: str) -> Callable[..., Column]:
    """Make a function of Arrow arrays; ``arrow_udf`` of PySpark would need an active session in this process."""
    return _create_udf(function, spark_type(kind), PythonEvalType.SQL_SCALAR_ARROW_UDF)


def of_rows(
    # function that makes a function from a table, in which `group` tells lists apart, to one that has `group` and the
    # columns of `made`. It is called once by each worker, which executes both
    make: Callable[[], Callable[[pl.DataFrame], pl.DataFrame]],
    column: str,  # name of the column with lists of structs
    fields: Mapping[str, int],  # column of the table to the number of its field
    schema: Mapping[str, str],  # column of the table to its type
    made: Mapping[str, str],  # column that the function makes to its type
    group: str,
) -> Column:
    """Lists of structs with the fields c0, c1, ..., which a function makes from lists of structs."""

    found: list[Callable[[pl.DataFrame], pl.DataFrame]] = []

    def listed(lists: Any) -> Any:
        if not found:
            found.append(make())
        return to_lists(found[0](from_lists(lists, fields, schema, group)), len(lists), made, group)

    structs = [types.StructField(f"c{number}", spark_type(kind)) for number, kind in enumerate(made.values())]
    result = types.ArrayType(types.StructType(structs))
    function = _create_udf(listed, result, PythonEvalType.SQL_SCALAR_ARROW_UDF, deterministic=False)
    return function(sf.col(quote(column)))
