"""Events as a Polars table with a row for each event, to filter, join and write to a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_type_hints

import msgspec
import polars as pl

from synergy_nb.events.base import BASE, Event, Severity, kinds_of
from synergy_nb.events.peer_names import readable, readable_value

__all__ = ["Events"]

E = TypeVar("E", bound=Event)
TIME: Final = pl.Datetime("us")
SEVERITY: Final = pl.Enum([severity.name.lower() for severity in Severity])
COLUMNS: Final[dict[Any, Any]] = {
    float: pl.Float64,
    int: pl.Int64,
    str: pl.String,
    bool: pl.Boolean,
    Sequence[str]: pl.List(pl.String),
}


class Events(list[Event]):
    """A list of events in order of time, which can be converted to a table.

    ``events``: the events; they name peers by their addresses.

    Examples
    --------
    >>> from synergy_nb.events import ApplicationStopped, SourceStarted
    >>> events = Events([SourceStarted(0.5, "tcp:a", "app-1", "packets"), ApplicationStopped(2.0, "tcp:a", "app-1")])
    >>> [event.operator for event in events.of(SourceStarted)]
    ['packets']
    >>> events.table()["kind", "detail"].rows()
    [('source_started', '{"operator": "packets"}'), ('application_stopped', '{"reason": ""}')]
    >>> Events(events, {"tcp:a": "peer-1"}).table(SourceStarted)["peer", "subject", "operator"].rows()
    [('peer-1', 'app-1', 'packets')]
    """

    def __init__(self, events: Iterable[Event] = (), names: Mapping[str, str] | None = None) -> None:
        super().__init__(events)
        self._names = dict(names or {})  # peer address to name, for tables

    def of(self, kind: type[E]) -> list[E]:
        """Select the events of one type, or of the types below a base class.

        Raises ``TypeError`` if ``kind`` is no type of events.
        """
        if not (isinstance(kind, type) and issubclass(kind, Event)):
            raise TypeError(f"kind: {kind!r}; expected a type of events: one of synergy_nb.events, without quotes")
        return [event for event in self if isinstance(event, kind)]

    def table(self, kind: type[Event] = Event) -> pl.DataFrame:
        """Convert the events to a Polars table, which ``write_parquet`` writes to a file.

        The table names peers by their short names, as all views do, also within texts.

        ``kind``: type of the events to select, or a base class of several types.

        Returns: table with a row for each event and the columns ``time`` (UTC), ``peer``, ``kind``, ``severity``,
        ``subject`` and ``sequence``. For events of one type, each field is a column: numbers, texts and lists of texts
        unchanged, all others as JSON. For several types, ``detail`` holds all fields of an event as JSON.
        """
        wanted = self.of(kind)
        columns: dict[str, pl.Series] = {
            "time": pl.Series([round(event.time * 1e6) for event in wanted], dtype=pl.Int64).cast(TIME),
            "peer": self._texts(event.peer for event in wanted),
            "kind": _texts(event.kind for event in wanted),
            "severity": pl.Series([event.severity.name.lower() for event in wanted], dtype=SEVERITY),
            "subject": self._texts(event.subject for event in wanted),
        }
        if kinds_of(kind) == (kind,):
            for name, given in get_type_hints(kind).items():
                if name in kind.__struct_fields__ and name not in BASE:
                    columns[name] = self._column(given, [getattr(event, name) for event in wanted])
        else:
            columns["detail"] = _texts(map(self._json, (event.detail for event in wanted)))
        columns["sequence"] = pl.Series([event.sequence for event in wanted], dtype=pl.Int64)
        return pl.DataFrame(columns)

    def _column(self, given: Any, values: list[Any]) -> pl.Series:
        """Make a column from the values of a field, with the declared type of the field."""
        plain = [each for each in get_args(given) if each is not NoneType]
        dtype = COLUMNS.get(plain[0] if len(plain) == 1 and NoneType in get_args(given) else given)
        if dtype is None:
            return _texts(map(self._json, values))
        return pl.Series(list(map(self._plain, values)), dtype=dtype)

    def _texts(self, values: Iterable[str]) -> pl.Series:
        return _texts(readable(each, self._names) for each in values)

    def _json(self, value: Any) -> str:
        return json.dumps(self._plain(value), ensure_ascii=False)

    def _plain(self, value: Any) -> Any:
        """Return a value of plain types, in which peers have their names."""
        return readable_value(msgspec.to_builtins(value), self._names)


def _texts(values: Iterable[str]) -> pl.Series:
    return pl.Series(list(values), dtype=pl.String)
