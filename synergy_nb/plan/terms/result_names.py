"""Names of results that look like names of files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["named_like_a_file"]

#: Suffix of a file to what writes such a file.
_WRITERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "parquet": "results().write_parquet({!r})",
        "csv": "results().write_csv({!r})",
        "tsv": "results().write_csv({!r}, separator='\\t')",
        "json": "results().write_json({!r})",
        "jsonl": "results().write_ndjson({!r})",
        "ndjson": "results().write_ndjson({!r})",
        "xlsx": "results().write_excel({!r})",
    }
)


def named_like_a_file(sink: str, name: object) -> str:
    """Say that the name of a result writes no file, and what does; empty for a name that is not like that of a file.

    ``sink``: text of the sink, as it is in Python or in a file.

    Examples
    --------
    >>> named_like_a_file("operator 'result'", "pairs")
    ''
    """
    writer = _WRITERS.get(name.lower().rpartition(".")[2]) if isinstance(name, str) and "." in name else None
    if writer is None:
        return ""
    return (
        f"{sink} names the result, and writes no file; {writer.format(name)} writes one, and so does "
        "`synergy run PLAN.yaml --out FILE`"
    )
