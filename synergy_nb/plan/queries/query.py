"""The text of a query as a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.plan.builder import Stream
from synergy_nb.plan.queries._grammar import parsed
from synergy_nb.plan.queries._query_text import QueryError, QueryText, Span
from synergy_nb.plan.queries._selection import relation_of
from synergy_nb.plan.queries._tables import FileReader, Tables

__all__ = ["QueryError", "stream_of"]

_LONGEST: Final = 100_000  # maximum number of characters of a query


def stream_of(text: str, streams: Mapping[str, Stream], tables: Mapping[str, Any], files: FileReader) -> Stream:
    """Make the stream that a query means.

    ``streams``: by the names that FROM may use; ``tables``: as ``lookup`` takes them, by the names that JOIN may use;
    ``files``: function that makes the source of a file, given its path and the parameters that the query states.

    Raises ``QueryError`` if the query is wrong, or holds what no operator does.
    """
    whole = QueryText(text)
    if len(text) > _LONGEST:
        whole.refuse(Span(0, 1), f"a query of at most {_LONGEST} characters", found=f"{len(text)} characters")
    relation = relation_of(whole, parsed(whole), Tables(whole, streams, tables, files)).numbered()
    if relation.assigned is not None:
        expected = "GROUP BY, DISTINCT, ORDER BY or row_number() of the windows that FROM assigns"
        whole.refuse(relation.assigned.span, expected)
    return relation.named("").stream
