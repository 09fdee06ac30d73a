"""Tables that streams look up: a Polars table, a CSV or Parquet file, or a query to a DuckDB file.

Theory of operation
-------------------
A table is read once, where its plan is made: there its columns, its types and its keys are checked, and its content is
hashed. The plan holds these terms only. The table itself is kept by this machine under its hash (:mod:`._table_store`),
and a peer's process takes it from there. A peer on another machine has the file under the same path, or is given the
folder of tables; it compares the content, and refuses another one.

The hash does not depend on the order of the rows, since no look-up does: a query need not order them. It covers names,
types and values of all columns.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import polars as pl
import pyarrow as pa

from synergy_nb.plan.tables._table_store import is_file, keep_table, kept_file, kept_table
from synergy_nb.plan.tables.column_kinds import DTYPES, column_kind, exact_kind
from synergy_nb.plan.terms.column_types import EXAMPLES, PLAIN, column_type, digits_of, family
from synergy_nb.plan.terms.units import WrongValue, did_you_mean, type_of

__all__ = [
    "changed",
    "first_fault",
    "is_here",
    "is_kept",
    "keep_encoded",
    "keep_longer",
    "piece_of",
    "read_again",
    "table_of",
    "terms_of",
]

EXPECTED: Final = (
    "a pandas, Polars or Arrow table, the path of a file of CSV or Parquet, or the path of a DuckDB file and a query, "
    "such as {'path': 'shop.duckdb', 'query': 'SELECT * FROM items'}"
)
#: What a plan states of a table: its ``columns`` with their types, its ``rows``, its size in ``bytes``, a hash of its
#: ``content``, and the ``path`` and ``query`` that it comes from, if it is no frame of the notebook.
FIELDS: Final = ("path", "query", "columns", "rows", "bytes", "content")
_CSV: Final = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_PARQUET: Final = (".parquet", ".pq")
_DUCKDB: Final = (".duckdb", ".ddb", ".db")
_DIGITS: Final = 32  # hex digits of a hash
_FAULTS: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, OverflowError)

_loaded: WeakValueDictionary[str, pl.DataFrame] = WeakValueDictionary()  # by content: components share one table


def terms_of(value: Any) -> dict[str, Any]:
    """Read a table and return its terms.

    ``value``: Polars table, path, or a mapping with ``path`` and, if need be, ``query``, ``columns`` (column to type:
    only these are read) and ``content`` (the hash that is expected).

    Raises ``WrongValue`` if there is no such table, or a column has values that tuples cannot have.
    """
    if isinstance(value, pl.LazyFrame):
        try:
            value = value.collect()
        except _FAULTS as error:
            raise WrongValue(type_of(value), f"a table that can be collected: {_first_line(error)}") from None
    if isinstance(value, pl.DataFrame):
        return _terms(_typed(value, None, type_of(value)))
    if isinstance(value, str | os.PathLike):
        value = {"path": os.fspath(value)}
    if not isinstance(value, Mapping):
        raise WrongValue(type_of(value), EXPECTED)
    if unknown := [field for field in value if field not in FIELDS]:
        raise WrongValue(unknown[0], f"a field of a table ({', '.join(FIELDS)}){did_you_mean(unknown[0], FIELDS)}")
    path, query, columns = value.get("path"), value.get("query"), value.get("columns")
    if not isinstance(path, str) or not path.strip():
        raise WrongValue(path if "path" in value else dict(value), EXPECTED)
    if query is not None and not isinstance(query, str):
        raise WrongValue(query, "a query in SQL, as text", None, ".query")
    if columns is not None and not (isinstance(columns, Mapping) and all(map(column_type, columns.values()))):
        raise WrongValue(columns, f"columns with their types ({', '.join(EXAMPLES)})", None, ".columns")
    if columns is not None:
        columns = {name: column_type(kind) or kind for name, kind in columns.items()}
    found = {"path": path, **({"query": query} if query is not None else {}), **_terms_of_file(path, query, columns)}
    if value.get("content") not in (None, found["content"]):
        raise WrongValue(path, f"the content that the plan states: {_changes()}", None, ".content")
    return found


def table_of(terms: Mapping[str, Any]) -> pl.DataFrame:
    """Return the table with these terms: that which this machine keeps, or else that of the file.

    Raises ``ValueError`` if neither is there, or the file has changed since the plan was made.
    """
    content = terms["content"]
    table = _loaded.get(content)
    if table is None:
        table = kept_table(content)
    if table is None and "path" not in terms:
        raise ValueError(
            f"table {content[:8]} of a notebook is not on this machine; expected SYNERGY_TABLES to name a folder that "
            "all machines share, or the path of a file that all of them can read"
        )
    if table is None:
        table = _read(terms["path"], terms.get("query"), terms["columns"])
        if _hash(table) != content:
            raise ValueError(f"{terms['path']}: {_changes()}")
        keep_table(content, table)
    _loaded[content] = table
    return table


def read_again(terms: Mapping[str, Any]) -> pl.DataFrame:
    """Return what the file of a table has now.

    Raises ``WrongValue`` if it cannot be read, or has not these columns and types.
    """
    return _read(terms["path"], terms.get("query"), terms["columns"])


def is_here(content: str, terms: Mapping[str, Any] | None = None) -> bool:
    """Whether this machine keeps the table with that content, or can read it from the file of its terms."""
    if kept_file(content) is not None:
        return True
    if terms is None or "path" not in terms or terms["content"] != content:
        return False
    try:
        table_of(terms)
    except _FAULTS:  # its file is not here, or has another content
        return False
    return True


def is_kept(content: str) -> bool:
    """Whether this machine keeps the table with that content; that is no use of it."""
    return is_file(content)


def keep_longer(content: str) -> None:
    """Note that the table with that content is used: others go first."""
    kept_file(content)


def piece_of(content: str, start: int, most: int) -> tuple[int, bytes] | None:
    """Return a part of the table with that content, for another machine; None if this one has none.

    ``start``: bytes before the part; ``most``: largest number of bytes of it. Returns the bytes of the whole, and those
    of the part.
    """
    file = kept_file(content)
    if file is None:
        return None
    with file.open("rb") as opened:
        opened.seek(start)
        return file.stat().st_size, opened.read(most)


def keep_encoded(content: str, data: bytes) -> None:
    """Keep a table that another machine has sent.

    Raises ``ValueError`` if it has another content.
    """
    try:
        table = pl.read_ipc(io.BytesIO(data))
        found = _hash(table)
    except _FAULTS as error:
        raise ValueError(f"table {content[:8]}: {_first_line(error)}; expected an Arrow file") from None
    if found != content:
        raise ValueError(f"table {content[:8]}: its content is {found[:8]}; expected the one that was announced")
    keep_table(content, table)


def changed(terms: Mapping[str, Any]) -> str:
    """Say how the file of a table differs from what its plan states; empty if it does not, or there is no file."""
    if "path" not in terms:
        return ""
    try:
        found = _terms_of_file(terms["path"], terms.get("query"), terms["columns"])
    except WrongValue as wrong:
        return str(wrong)
    return "" if found["content"] == terms["content"] else f"{terms['path']!r}; {_changes()}"


def first_fault(terms: Mapping[str, Any], keys: Sequence[str], valid_from: str | None) -> str:
    """Say which key several rows of a table have, or which row has no time; empty if there is none.

    ``keys``: columns of the key; ``valid_from``: column with the time from which on a row is valid; None: a key has one
    row.
    """
    try:
        return _first_fault(terms["content"], tuple(keys), valid_from)
    except LookupError:  # another machine has checked it
        return ""


@lru_cache(maxsize=256)
def _first_fault(content: str, keys: tuple[str, ...], valid_from: str | None) -> str:
    table = _loaded.get(content)
    table = kept_table(content) if table is None else table
    if table is None:
        raise LookupError(content)
    numbered = table.select([*dict.fromkeys((*keys, *([valid_from] if valid_from else [])))]).with_row_index(" row")
    if valid_from is not None:
        missing = numbered.filter(pl.col(valid_from).is_null())
        if missing.height:
            return f"no time in row {missing.item(0, ' row')}"
    numbered = numbered.drop_nulls(keys)
    by = [*keys, *([valid_from] if valid_from is not None and valid_from not in keys else [])]
    double = numbered.filter(~pl.struct(by).is_first_distinct()).head(1)
    if not double.height:
        return ""
    same = numbered.join(double.select(by), on=by, how="semi", maintain_order="left").head(2)
    rows = same.get_column(" row").to_list()
    found = ", ".join(f"{name} {same.item(0, name)!r}" for name in by)
    return f"{found} in rows {rows[0]} and {rows[1]}"


def _terms(table: pl.DataFrame) -> dict[str, Any]:
    """Hash a table and keep it; return its terms."""
    content = _hash(table)
    if content not in _loaded:
        try:
            keep_table(content, table)
        except OSError as error:
            expected = "room for the table in a folder of this machine: SYNERGY_TABLES names another one"
            raise WrongValue(_first_line(error), expected) from None
        _loaded[content] = table
    size = int(table.estimated_size())
    kinds = {name: exact_kind(dtype) for name, dtype in table.schema.items()}
    return {"columns": kinds, "rows": table.height, "bytes": size, "content": content}


_known: dict[tuple[Any, ...], dict[str, Any]] = {}  # terms of files, by what says that a file has not changed


def _terms_of_file(path: str, query: str | None, columns: Mapping[str, str] | None) -> dict[str, Any]:
    """Terms of the table in a file; it is read once, until it changes."""
    try:
        state = Path(path).stat()
    except (OSError, ValueError):
        raise WrongValue(path, f"a file that is there{_looked(path)}") from None
    stated = None if columns is None else tuple(columns.items())
    key = (str(Path(path).absolute()), state.st_mtime_ns, state.st_size, state.st_ino, query, stated)
    found = _known.get(key)
    if found is None:
        found = _terms(_read(path, query, columns))
        while len(_known) >= 256:
            _known.pop(next(iter(_known)))
        _known[key] = found
    return dict(found)


def _read(path: str, query: str | None, columns: Mapping[str, str] | None) -> pl.DataFrame:
    """Read the table in a file; with ``columns`` these only, in their types."""
    name = path.lower()
    try:
        if query is not None or name.endswith(_DUCKDB):
            if query is None:
                raise WrongValue(path, "a query to this DuckDB file, such as 'SELECT * FROM items'", None, ".query")
            table = _queried(path, query)
        elif name.endswith(_PARQUET):
            table = pl.read_parquet(path, glob=False)
        elif name.endswith(_CSV):
            texts = {each: pl.String() for each, kind in (columns or {}).items() if kind == "str"}
            tabs = ".tsv" in name
            table = pl.read_csv(
                path, separator="\t" if tabs else ",", infer_schema_length=None, try_parse_dates=True,
                schema_overrides=texts, glob=False,
            )  # fmt: skip
        else:
            raise WrongValue(path, f"a file whose name ends in {', '.join((*_CSV[:3], *_PARQUET[:1], *_DUCKDB[:1]))}")
    except _FAULTS as error:
        if isinstance(error, WrongValue):
            raise
        raise WrongValue(path, f"a file that can be read: {_first_line(error)}") from None
    return _typed(table, columns, path)


def _queried(path: str, query: str) -> pl.DataFrame:
    """The rows of a query to a DuckDB file."""
    import duckdb  # noqa: PLC0415 - only such a table needs it

    try:
        with duckdb.connect(path, read_only=True) as connection:
            found = connection.sql(query)
            table: pl.DataFrame | None = None if found is None else found.pl()
    except duckdb.Error as error:
        raise WrongValue(query, f"a query that {path} can answer: {_first_line(error)}", None, ".query") from None
    if table is None:
        raise WrongValue(query, "a query that has rows, such as 'SELECT * FROM items'", None, ".query")
    return table


def _typed(table: pl.DataFrame, columns: Mapping[str, str] | None, whose: str) -> pl.DataFrame:
    """Convert the columns of a table to those that streams have."""
    if not table.columns:
        raise WrongValue(whose, "a table with columns")
    made = []
    for name in table.columns if columns is None else columns:
        if name not in table.columns:
            hint = did_you_mean(name, table.columns)
            raise WrongValue(
                name, f"a column of the table ({', '.join(table.columns)}){hint}", None, f".columns.{name}"
            )
        column = table.get_column(name)
        kind = column_kind(column.dtype) if columns is None else columns[name]
        if kind is None or family(kind) not in PLAIN or not name.isprintable() or name != name.strip() or not name:
            raise WrongValue(
                f"{name!r} of type {column.dtype}", "a column of numbers, text, truth values, times, dates, "
                "durations or bytes with a printable name: convert the column, or omit it",
            )  # fmt: skip
        made.append(_converted(column, kind))
    return pl.DataFrame(made).rechunk()


_MORE: Final = {
    "int": "a number with a fraction", "date": "a time within a day", "decimal": "a number of more than {1} decimals",
}  # fmt: skip


def _converted(column: pl.Series, kind: str) -> pl.Series:
    dtype = DTYPES[kind]
    if column.dtype == dtype:
        return column
    try:
        if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        if isinstance(column.dtype, pl.Categorical | pl.Enum):
            column = column.cast(pl.String())
        if kind == "time" and isinstance(column.dtype, pl.String):
            return column.str.to_datetime(time_unit="us")
        if kind == "date" and isinstance(column.dtype, pl.String):
            return column.str.to_date("%Y-%m-%d")
        made = column.cast(dtype)
        whole = kind in ("int", "date") or family(kind) == "decimal"
        if (
            whole
            and (column.dtype.is_float() or isinstance(column.dtype, pl.Decimal | pl.Datetime))
            and not (made.cast(column.dtype) == column).fill_null(value=True).all()
        ):
            raise pl.exceptions.InvalidOperationError(_MORE[family(kind)].format(*digits_of(kind)))
        return made
    except _FAULTS as error:
        raise WrongValue(
            column.name, f"values of type {kind}: {_first_line(error)}", None, f".columns.{column.name}"
        ) from None


def _hash(table: pl.DataFrame) -> str:
    """Hash of names, types and values, whatever the order of the rows."""
    digest = hashlib.sha256()
    for each in table.sort(table.columns, nulls_last=True).rechunk() if table.height > 1 else table:
        column = each.cast(pl.String()) if isinstance(each.dtype, pl.Decimal) else each  # NumPy has no 128 bits
        digest.update(f"{column.name}\0{exact_kind(each.dtype)}\0{len(column)}\0".encode())
        digest.update(np.packbits(column.is_null().to_numpy()).tobytes())
        if column.dtype in (pl.String, pl.Binary):
            values = column.cast(pl.Binary()).fill_null(b"").to_arrow().cast(pa.large_binary())
            offsets = np.frombuffer(values.buffers()[1], dtype=np.int64)[
                values.offset : values.offset + len(values) + 1
            ]
            digest.update(np.diff(offsets).tobytes())
            data = values.buffers()[2]
            if data is not None and len(values):
                digest.update(memoryview(data)[int(offsets[0]) : int(offsets[-1])])
        else:
            whole = column.to_physical().fill_null(value=False if column.dtype == pl.Boolean else 0)
            digest.update(np.ascontiguousarray(whole.to_numpy()).tobytes())
    return digest.hexdigest()[:_DIGITS]


def _changes() -> str:
    return "it has changed since the plan was made: make the plan again, without the old 'content' of the table"


def _looked(path: str) -> str:
    missing = Path(path)
    looked = "" if missing.is_absolute() else f"; looked in {Path.cwd()}"
    try:
        beside = [each.name for each in missing.absolute().parent.glob("*")]
    except (OSError, ValueError):
        beside = []
    return looked + did_you_mean(missing.name, beside)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
