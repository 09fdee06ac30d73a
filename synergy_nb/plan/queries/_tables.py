"""What follows FROM: streams by their names, sources with parameters, and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from synergy_nb.plan.builder import Stream, source, table_stated
from synergy_nb.plan.checks.validation import PlanError
from synergy_nb.plan.operators.catalogue import parameters_of
from synergy_nb.plan.operators.profile_fields import PROFILE
from synergy_nb.plan.operators.sources import CONNECTORS, NEXMARK
from synergy_nb.plan.queries._grammar import WINDOWED, NameAt, TableFunction, TextFile
from synergy_nb.plan.queries._query_text import QueryText, Span
from synergy_nb.plan.queries._relations import Column, Relation
from synergy_nb.plan.sql.sql import TYPE_OF_NAME
from synergy_nb.plan.terms.column_types import column_type
from synergy_nb.plan.terms.units import WrongValues

#: Makes the source of a file: its path, and parameters that the query states.
FileReader = Callable[[str, Mapping[str, Any]], Stream]
#: Functions that read files, as in DuckDB, and the format of theirs.
READERS: Final = {"read_csv": "csv", "read_csv_auto": "csv", "read_parquet": "parquet"}
#: Sources that need no parameters: their connector, and their parameters.
_ALONE: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "packets": ("packets", {}),
    "peers": ("peers", {}),
    **{table: ("nexmark", {"table": table}) for table in NEXMARK},
}


class Tables:
    """The streams that a query may name; each source is made once, so that its readers share it."""

    def __init__(
        self,
        text: QueryText,
        given: Mapping[str, Stream],
        lookups: Mapping[str, Any],  # tables of which streams look up rows
        files: FileReader,
    ) -> None:
        self._text = text
        self._given = given
        self._lookups = lookups
        self._files = files
        self._common: dict[str, Relation] = {}
        self._made: dict[str, Stream] = {}

    def define(self, name: NameAt, relation: Relation) -> None:
        """Add a common table expression."""
        if name.name in self._common:
            self._text.refuse(name.span, "a name that no other common table expression has")
        self._common[name.name] = relation

    def within(self) -> Tables:
        """The tables of a subquery, which may define further ones."""
        inner = Tables(self._text, self._given, self._lookups, self._files)
        inner._common = dict(self._common)
        inner._made = self._made
        return inner

    def named(self, name: NameAt) -> Relation:
        """The stream of a name."""
        if name.name in self._common:
            return self._common[name.name]
        if name.name in self._given:
            return Relation.of(self._text, self._given[name.name], name.span)
        if name.name in _ALONE:
            connector, params = _ALONE[name.name]
            return self._source(connector, params, {}, name.span)
        if name.name in self._lookups:
            self._text.refuse(name.span, "a stream before it: rows of this table are looked up by JOIN")
        known = [*self._common, *self._given, *(each for each in _ALONE if each not in self._given)]
        expected = f"a stream ({', '.join(known)}), a file in single quotes, or a stream given as sources={{name: ...}}"
        return self._text.refuse(name.span, expected, known)

    def looked_up(self, name: NameAt, alias: str) -> tuple[Relation, Mapping[str, Any]] | None:
        """The columns of a table of which rows are looked up, and its terms; None if the name is another one."""
        if name.name in self._common or name.name in self._given or name.name not in self._lookups:
            return None
        from synergy_nb.plan.tables.lookup_tables import terms_of  # noqa: PLC0415 - others need no Polars

        try:
            given = table_stated(self._lookups[name.name])
            terms = given if isinstance(given, Mapping) and "content" in given else terms_of(given)
        except WrongValues as error:
            wrong = error.wrongs[0]
            self._text.refuse(name.span, wrong.expected, near=wrong.nearest, found=repr(wrong.value))
        columns = [Column(alias, each, each) for each in terms["columns"]]
        return Relation(self._text, source("packets"), terms["columns"], None, columns), terms

    def function(self, call: TableFunction) -> Relation:
        """The source that a function makes."""
        name = call.name.name
        reader = name.lower() in READERS
        if not reader and name not in CONNECTORS:
            known = [*CONNECTORS, *READERS, *WINDOWED]
            self._text.refuse(call.name.span, f"one of {', '.join(known)}", known)
        values: dict[str, Any] = {}
        places: dict[str, Span] = {}
        for argument in call.arguments:
            field = argument.name or ("path" if reader and not values else "")
            if not field:
                self._text.refuse(argument.span, "a parameter with its name, such as seed = 1")
            known = [*parameters_of("source", {"connector": "trace" if reader else name}), *PROFILE]
            if field not in known:
                self._text.refuse(argument.span, f"a parameter ({', '.join(known)})", known, found=repr(field))
            values[field] = self._value(self._text.tree(argument.span), argument.span)
            if field == "columns" and isinstance(values[field], dict):
                values[field] = {each: _type(kind) for each, kind in values[field].items()}
            places[field] = argument.span
        if not reader:
            return self._source(name, values, places, call.name.span)
        if not isinstance(values.get("path"), str):
            self._text.refuse(call.name.span, "the path of a file in single quotes")
        return self._file(values.pop("path"), {"format": READERS[name.lower()], **values}, call.name.span)

    def file(self, file: TextFile) -> Relation:
        """The source of a file."""
        return self._file(file.path, {}, file.span)

    def _file(self, path: str, params: Mapping[str, Any], span: Span) -> Relation:
        try:
            return self._once(f"{path} {params!r}", lambda: self._files(path, params), span)
        except (ValueError, OSError) as error:
            reason = str(error) or type(error).__name__
            return self._text.refuse(span, f"a file that can be read ({reason})")

    def _source(self, name: str, params: Mapping[str, Any], places: Mapping[str, Span], span: Span) -> Relation:
        made = source(name, **params)
        try:
            made.sink()
        except PlanError as error:
            problem = error.problems[0]
            place = places.get(problem.field.partition(".")[0], span)
            self._text.refuse(place, problem.expected, near=problem.nearest)
        return self._once(f"{name} {dict(params)!r}", lambda: made, span)

    def _once(self, key: str, make: Callable[[], Stream], span: Span) -> Relation:
        if key not in self._made:
            self._made[key] = make()
        return Relation.of(self._text, self._made[key], span)

    def _value(self, node: Any, span: Span) -> Any:
        """The value of a parameter: a literal, or a list or mapping of these."""
        if node.key == "literal":
            if node.is_string:
                return node.name
            return int(node.name) if node.name.isdigit() else float(node.name)
        if node.key == "neg" and node.this.key == "literal" and not node.this.is_string:
            return -self._value(node.this, span)
        if node.key == "boolean":
            return bool(node.this)
        if node.key == "interval":
            return f"{node.this.name} {node.args['unit'].name.lower()}"
        if node.key in ("array", "tuple"):
            return [self._value(each, span) for each in node.expressions]
        if node.key == "struct":
            return {each.this.name: self._value(each.expression, span) for each in node.expressions}
        return self._text.refuse(span, "a literal: a number, text in single quotes, TRUE, [...] or {'name': ...}")


def _type(kind: Any) -> Any:
    """A type of columns, which may have the name of a type of SQL."""
    return TYPE_OF_NAME.get(kind.upper()) or column_type(kind) or kind if isinstance(kind, str) else kind
