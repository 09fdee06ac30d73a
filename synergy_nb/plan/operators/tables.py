"""The operator that looks up rows of a table: lookup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.plan.operators.declaration import Declaration, Parameter
from synergy_nb.plan.operators.parameter_types import NAME, ValueType, choice, listed
from synergy_nb.plan.operators.schemas import IMPLICIT, WINDOW_COLUMNS, Derivation, Schema, is_windowed
from synergy_nb.plan.terms.column_types import column_type
from synergy_nb.plan.terms.units import WrongValue, nearest

__all__ = ["INDEX_BYTES", "LOOKUP", "TABLE", "is_whole", "new_columns"]

#: Bytes of the index of a table, for each row.
INDEX_BYTES: Final = 24
_DIGITS: Final = 32  # hex digits of the hash of a table
_TEXTS: Final = ("path", "query")
_NUMBERS: Final = ("rows", "bytes")
_KEYS: Final = "a column, a list of columns, or a mapping of columns of the stream to those of the table"


def _table(value: Any) -> dict[str, Any]:
    """Parse a table to what a plan states of it; a table of which it does not state all is read."""
    if isinstance(value, Mapping) and is_whole(value):
        return {**value, "columns": dict(value["columns"])}
    from synergy_nb.plan.tables.lookup_tables import terms_of  # noqa: PLC0415 - peers read no table for this

    return terms_of(value)


def is_whole(value: Mapping[str, Any]) -> bool:
    """Whether these are the whole terms of a table, as a plan holds them."""
    columns, content = value.get("columns"), value.get("content")
    return (
        set(value) <= {*_TEXTS, *_NUMBERS, "columns", "content"}
        and isinstance(columns, Mapping)
        and bool(columns)
        and all(isinstance(name, str) and column_type(kind) == kind is not None for name, kind in columns.items())
        and all(isinstance(each := value.get(name), int) and each >= 0 for name in _NUMBERS)
        and all(isinstance(value.get(name, ""), str) for name in _TEXTS)
        and isinstance(content, str)
        and len(content) == _DIGITS
        and set(content) <= set("0123456789abcdef")
    )


def _keys(value: Any) -> dict[str, str]:
    """Parse the columns of the key: column of the stream to column of the table, sorted."""
    if isinstance(value, Mapping):
        if not value:
            raise WrongValue(dict(value), _KEYS)
        listed(list(value), _KEYS)
        listed(list(value.values()), _KEYS)
        return dict(sorted(value.items()))
    names = listed(value, _KEYS)
    if not names:
        raise WrongValue(value, "at least one column")
    return {name: name for name in sorted(names)}


def _written_keys(keys: Mapping[str, str]) -> list[str] | dict[str, str]:
    return list(keys) if all(ours == theirs for ours, theirs in keys.items()) else dict(keys)


TABLE: Final = ValueType("table", _table, text=lambda terms: terms["content"])
KEYS: Final = ValueType(
    "keys", _keys, _written_keys, annotation="str | Iterable[str] | Mapping[str, str]",
    text=lambda keys: "{" + ", ".join(f"{ours}: {theirs}" for ours, theirs in keys.items()) + "}",
)  # fmt: skip


def new_columns(params: Mapping[str, Any]) -> dict[str, str]:
    """Columns of the table that are added to the stream, each with its name there: all but those of the key."""
    keys, prefix = set(params["on"].values()), params.get("prefix", "")
    return {name: prefix + name for name in params["table"]["columns"] if name not in keys}


def _lookup(it: Derivation) -> Schema:
    windowed = is_windowed(it.input)
    columns = {name: kind for name, kind in it.input.items() if name not in IMPLICIT}
    if not {"table", "on"} <= it.params.keys():
        return it.output("on", columns, windowed=windowed)
    kinds: Mapping[str, str] = it.params["table"]["columns"]
    before = len(it.wrongs)
    for ours, theirs in it.params["on"].items():
        known = it.column("on", ours, it.input)
        if theirs not in kinds:
            it.wrong("on", theirs, f"a column of the table ({', '.join(kinds)})", nearest(theirs, kinds))
        elif known and it.input[ours] != kinds[theirs]:
            said = f"{theirs!r} of the table" if ours != theirs else "the column of the table"
            it.wrong(
                "on", ours, f"columns of one type; {ours!r} of the stream is {it.input[ours]}, {said} {kinds[theirs]}"
            )
    valid_from = it.params.get("valid_from")
    if valid_from is not None and kinds.get(valid_from) not in ("time", "date"):
        found = f"a column of the table of type time or date, not {kinds[valid_from]}" if valid_from in kinds else (
            f"a column of the table ({', '.join(kinds)})"
        )  # fmt: skip
        it.wrong("valid_from", valid_from, found, nearest(valid_from, kinds))
    elif valid_from in it.params["on"].values():
        it.wrong("valid_from", valid_from, "a column other than those of the key")
    if len(it.wrongs) > before:
        return it.output("on", columns, windowed=windowed)
    _check_rows(it)
    taken = {name.casefold(): name for name in (*it.input, "time", *WINDOW_COLUMNS)}
    for theirs, name in new_columns(it.params).items():
        if (other := taken.get(name.casefold())) is not None:
            hint = "; state a prefix of the columns of the table, such as prefix='table_'"
            field = "prefix" if "prefix" in it.params else "table"
            it.wrong(field, name, f"names that the stream does not have, as it has {other}{hint}")
            continue
        taken[name.casefold()] = name
        columns[name] = kinds[theirs]
    return it.output("table", columns, windowed=windowed)


def _check_rows(it: Derivation) -> None:
    """Report the first key that has several rows."""
    from synergy_nb.plan.tables.lookup_tables import first_fault  # noqa: PLC0415 - peers read no table for this

    valid_from = it.params.get("valid_from")
    fault = first_fault(it.params["table"], list(it.params["on"].values()), valid_from)
    if fault and valid_from is None:
        it.wrong("on", fault, "a row for each key, or valid_from, the column with the time from which a row is valid")
    elif fault:
        it.wrong("valid_from", fault, "a time in each row, and for each key and time one row")


def _brief(params: Mapping[str, Any]) -> str:
    path = str(params["table"].get("path", "")).rpartition("/")[2]
    return " ".join(filter(None, (path, "on", ", ".join(params["on"]))))


LOOKUP: Final = Declaration(
    kind="lookup",
    help="Adds the columns of a table to each tuple: those of the row whose key equals columns of the tuple. NULL "
    "equals nothing. The table is read where the plan is made, and its content is part of the name of the stream.",
    note="The table is a pandas, Polars or Arrow table, a file of CSV (`.csv`, `.tsv`) or Parquet (`.parquet`), or a "
    "query to a DuckDB file: `{path: shop.duckdb, query: SELECT * FROM items}`. A key has one row; with "
    "`valid_from` it has a row for each version, and that applies which is the latest at the `time` of the tuple. "
    "Types of the columns of a CSV file are inferred unless they are stated: `{path: zips.csv, columns: {zip: str, "
    "city: str}}`, and only the stated ones are read. Keys, types and names are checked where the plan is made. The "
    "plan holds a hash of the content: a file that has changed when the plan is submitted is an error. The table is "
    "kept in a folder of the machine, from which all its peers read it (`SYNERGY_TABLES` names another one), and is "
    "sent to other machines before the plan is submitted. A peer that joins later gets it from its neighbours.",
    python=(
        'hosts = {"host": ["10.0.0.1", "10.0.0.2"], "site": ["Bonn", "Oslo"]}  # or "hosts.csv"',
        'located = packets.lookup(hosts, on={"source": "host"}, how="left", prefix="source_")',
    ),
    yaml=("located: {kind: lookup, input: packets, table: hosts.csv, on: {source: host}, how: left, prefix: source_}",),
    parameters={
        "table": Parameter(TABLE, "table: a data frame, the path of a CSV or Parquet file, or DuckDB file and query"),
        "on": Parameter(
            KEYS, "columns of the key: one, several, or a mapping of columns of the stream to columns of the table"
        ),
        "how": Parameter(
            choice("inner", "left"),
            "`inner`: only tuples that have a row; `left`: all tuples, with NULL in the columns of the table",
            "inner",
            spelling="keyword",
        ),
        "valid_from": Parameter(
            NAME,
            "column of the table with the time from which on a row is valid, until the next one of its key",
            None,
            "none: a key has one row",
            spelling="keyword",
        ),
        "prefix": Parameter(
            NAME, "beginning of the names of the columns that are added", None, "none", spelling="keyword"
        ),
    },
    columns=_lookup,
    component="table",
    shipped=True,
    shaping=frozenset({"table", "on", "prefix"}),
    cost=2e-7,
    guessed=True,
    state="table",
    preserves_order=True,
    agrees="the columns and the time of a tuple alone decide which row of the table is its own",
    remedy="give it fewer columns or rows of the table",
    brief=_brief,
    off_spark="",
)
