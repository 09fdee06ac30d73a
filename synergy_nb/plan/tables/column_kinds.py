"""The types of columns of streams, as Polars has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import polars as pl

from synergy_nb.plan.terms.column_types import (
    decimal_type,
    digits_of,
    element_of,
    family,
    fields_of,
    list_type,
    struct_type,
)

__all__ = ["DTYPES", "column_kind", "exact_kind"]


class _Dtypes(dict[str, pl.DataType]):
    """Types of Polars by those of columns; types with parts are made when they are asked for."""

    def __missing__(self, kind: str) -> pl.DataType:
        match family(kind):
            case "decimal":
                made: pl.DataType = pl.Decimal(*digits_of(kind))
            case "list":
                made = pl.List(self[element_of(kind)])
            case "struct":
                made = pl.Struct({name: self[of] for name, of in fields_of(kind).items()})
            case _:
                raise KeyError(kind)
        self[kind] = made
        return made


#: Type of a stream's column to that of the column of a Polars table.
DTYPES: Final[Mapping[str, pl.DataType]] = _Dtypes(
    {
        "int": pl.Int64(),
        "float": pl.Float64(),
        "str": pl.String(),
        "bool": pl.Boolean(),
        "time": pl.Datetime("us"),
        "bytes": pl.Binary(),
        "date": pl.Date(),
        "duration": pl.Duration("us"),
    }
)
_FAMILIES: Final = (
    ((pl.String, pl.Categorical, pl.Enum), "str"),
    ((pl.Boolean,), "bool"),
    ((pl.Datetime,), "time"),
    ((pl.Date,), "date"),
    ((pl.Duration,), "duration"),
    ((pl.Binary,), "bytes"),
)


def column_kind(dtype: pl.DataType) -> str | None:
    """Type of a stream's column for the type of a table's column; None if tuples have no such values.

    Decimals without digits behind the point are integers, as DuckDB's sums of them are.

    >>> column_kind(pl.UInt8()), column_kind(pl.Decimal(9, 2)), column_kind(pl.Object())
    ('int', 'decimal(9, 2)', None)
    """
    if isinstance(dtype, pl.Decimal):
        return decimal_type(dtype.precision, dtype.scale) if dtype.scale else "int"
    if isinstance(dtype, pl.List | pl.Array):
        element = column_kind(dtype.inner)  # type: ignore[arg-type]
        return None if element is None else list_type(element)
    if isinstance(dtype, pl.Struct):
        kinds = {field.name: column_kind(field.dtype) for field in dtype.fields}  # type: ignore[arg-type]
        found = {name: kind for name, kind in kinds.items() if kind is not None and name}
        return struct_type(found) if found and len(found) == len(kinds) else None
    if dtype.is_integer() or isinstance(dtype, pl.Null):
        return "int"
    if dtype.is_float():
        return "float"
    return next((kind for kinds, kind in _FAMILIES if isinstance(dtype, kinds)), None)


@lru_cache(maxsize=1024)
def exact_kind(dtype: Any) -> str | None:
    """Type of a stream's column that is held as exactly this type; None if there is none.

    >>> exact_kind(pl.Int64()), exact_kind(pl.UInt8()), exact_kind(pl.Duration("ms"))
    ('int', None, None)
    """
    kind = decimal_type(dtype.precision, dtype.scale) if isinstance(dtype, pl.Decimal) else column_kind(dtype)
    return kind if kind is not None and DTYPES[kind] == dtype else None
