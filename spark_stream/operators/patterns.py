r"""Regular expressions on Spark: functions of Arrow arrays, by RE2.

Java, on which Spark's own functions run, backtracks: ``a*a*a*b`` keeps it busy for minutes with a thousand letters, and
``((a+)+)+b`` with thirty. RE2, which Arrow has, finds a match in time in proportion to the text, and is what DuckDB
has. The functions get text and, as constant columns, a pattern and what belongs to it;
:mod:`spark_stream._expressions` writes the calls. They need nothing but pyarrow in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spark_stream._expressions import EXTRACTED, MATCHED, REPLACED, REPLACED_FIRST
from spark_stream.operators.arrow_functions import arrow_function

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

__all__ = ["FUNCTIONS", "register"]


def _matched() -> Callable[..., Any]:
    def matched(text: Any, patterns: Any) -> Any:
        """Whether a pattern matches somewhere."""
        import pyarrow as pa  # noqa: PLC0415 - within Spark
        import pyarrow.compute as pc  # noqa: PLC0415

        return pc.match_substring_regex(text, patterns[0].as_py()) if len(text) else pa.array([], pa.bool_())

    return matched


def _extracted() -> Callable[..., Any]:
    def extracted(text: Any, patterns: Any) -> Any:
        """The only named group of the first match; empty if there is none."""
        import pyarrow.compute as pc  # noqa: PLC0415 - within Spark

        if not len(text):
            return text
        found = pc.struct_field(pc.extract_regex(text, patterns[0].as_py()), [0])
        return pc.if_else(text.is_valid(), pc.fill_null(found, ""), text)

    return extracted


def _replaced() -> Callable[..., Any]:
    def replaced(text: Any, patterns: Any, replacements: Any) -> Any:
        """The text with all matches replaced."""
        import pyarrow.compute as pc  # noqa: PLC0415 - within Spark

        if not len(text):
            return text
        return pc.replace_substring_regex(text, patterns[0].as_py(), replacements[0].as_py())

    return replaced


def _replaced_first() -> Callable[..., Any]:
    def replaced_first(text: Any, patterns: Any, pieces: Any) -> Any:
        """The text with pieces, in JSON, in place of the first match: texts, and names of groups in lists."""
        import json  # noqa: PLC0415 - within Spark

        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        if not len(text):
            return text
        groups = pc.extract_regex(text, patterns[0].as_py())  # NULL without a match
        written = [
            pc.struct_field(groups, each[0]) if isinstance(each, list) else pa.scalar(each, text.type)
            for each in json.loads(pieces[0].as_py())
        ]
        return pc.coalesce(pc.binary_join_element_wise(*written, pa.scalar("", text.type)), text)

    return replaced_first


#: The functions by their names in Spark SQL, each with the type of its values.
FUNCTIONS: Final = {
    MATCHED: (_matched(), "bool"),
    EXTRACTED: (_extracted(), "str"),
    REPLACED: (_replaced(), "str"),
    REPLACED_FIRST: (_replaced_first(), "str"),
}


def register(session: SparkSession | ConnectSession) -> None:
    """Register the functions with a session."""
    for name, (function, kind) in FUNCTIONS.items():
        session.udf.register(name, arrow_function(function, kind))
