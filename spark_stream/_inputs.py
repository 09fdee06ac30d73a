"""Inputs of a query on Spark: through the endpoint, or from files with the punctuations through the endpoint."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from spark_stream._spool import Inlet, Offset, Spool
from spark_stream._staging import Files, Layout, Staged, convert, direct
from spark_stream._tables import MARK, POSITION, arrow_schema
from spark_stream.supported import supported_source
from synergy_nb.plan.terms.column_types import digits_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.types import DataType, StructType

    from spark_stream._exchange import Exchange
    from spark_stream.part import Part
    from synergy_nb.dataflow.streams.log.values import Point
    from synergy_nb.events import SkippedLines
    from synergy_nb.plan import Operator

ANYTHING: Final = (Exception, pl.exceptions.PanicException)  # exceptions of any kind: a panic of Polars is no Exception


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

        from spark_stream._sources import FORMAT  # noqa: PLC0415

        reader = session.readStream.format(FORMAT).options(**options, port=self.number, tap=tap)
        given = reader.schema(_struct({**self.columns, MARK: "bool"})).load()
        if self.files is None:
            return given
        schema, chosen = stored_as(self.columns, self.layout)
        rows = session.readStream.schema(schema).parquet(str(self.files.folders[tap]))
        return rows.select(*chosen, sf.lit(False).alias(MARK)).union(given)


class QueryPorts:
    """What a query reads, by the operator that makes it, and the threads that stage what Spark reads itself."""

    def __init__(
        self,
        part: Part,
        name: str,  # name of the query, for its threads
        on_skipped: Callable[[str, SkippedLines], None],  # callback for malformed lines, with the source of these
        fail: Callable[[BaseException], None],  # callback for the failure of a source
    ) -> None:
        self._part = part
        self._name = name
        self._on_skipped = on_skipped
        self._fail = fail
        self._found: dict[str, Port] = {}
        self._staging: list[tuple[str, int, Iterator[Staged]]] = []  # operator, port and files of each source
        self._threads: list[threading.Thread] = []

    def attach(
        self,
        exchange: Exchange,
        committed: tuple[tuple[Offset, Point], ...],
        folder: Path | None,
        *,
        continues: bool = False,
    ) -> None:
        """Attach all inputs of the part to the exchange of the query.

        ``committed``: for each input from peers, the offset from which it is read, and the position there; ``folder``:
        folder of the query on this machine; None if Spark is on another one; ``continues``: whether Spark has planned
        micro-batches for another peer.
        """
        from spark_stream import operators  # noqa: PLC0415 - imports Spark

        self._staging.clear()
        part, plan = self._part, self._part.plan
        readings = Counter(operators.readings(plan, part.members, part.operator))
        numbered = operators.numbered(plan, part.members, part.operator)
        for name, (start, point) in zip(part.inputs, committed, strict=True):
            inlet = Spool(
                taps=max(readings[name], 1),
                numbered=name in numbered,
                start=start,
                point=point,
                continues=continues,
            )
            self._attach(exchange, name, inlet, Layout(), readings[name], numbered=name in numbered)
        for name in part.members:
            operator = plan.operators[name]
            if operator.kind == "source" and readings[name]:
                self._attach_source(exchange, operator, readings[name], folder, numbered=name in numbered)

    def _attach_source(
        self, exchange: Exchange, operator: Operator, taps: int, own: Path | None, *, numbered: bool
    ) -> None:
        """Attach a source which Spark reads itself."""
        why = supported_source(operator, own is not None)
        if why or own is None:
            raise ValueError(f"operator {operator.id!r}: {why}")
        folder, columns = own / f"source-{len(self._found)}", self._part.plan.schema(operator.id)
        files = Files(folder, taps=taps)
        found = None if numbered else direct(operator, columns)
        skipped = partial(self._on_skipped, operator.id)
        staged = iter([found[0]]) if found is not None else convert(operator, folder, skipped, numbered=numbered)
        layout = Layout() if found is None else found[1]
        port = self._attach(exchange, operator.id, files, layout, taps, numbered=numbered)
        self._staging.append((operator.id, port, staged))

    def _attach(self, exchange: Exchange, name: str, inlet: Inlet, layout: Layout, taps: int, *, numbered: bool) -> int:
        columns = dict(self._part.plan.schema(name))
        port = exchange.attach(inlet, arrow_schema(columns, numbered=numbered), taps)
        if numbered:
            columns[POSITION] = "int"
        self._found[name] = Port(port, columns, inlet if isinstance(inlet, Files) else None, layout)
        return port

    def stage(self, exchange: Exchange) -> None:
        """Start the threads that stage the sources."""
        for operator, port, files in self._staging:
            name = f"spark {self._name} {operator}"
            thread = threading.Thread(target=self._stage, args=(exchange, port, files), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _stage(self, exchange: Exchange, port: int, files: Iterator[Staged]) -> None:
        try:
            for file in files:
                if not exchange.stage(port, file):
                    return
        except ANYTHING as error:
            self._fail(error)

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end of each of these threads, or for so many seconds."""
        for thread in tuple(self._threads):
            if thread is not threading.current_thread():
                thread.join(seconds)

    def frames(self, session: SparkSession, options: Mapping[str, str]) -> Callable[[str], DataFrame]:
        """Return the function by which operators take the streams that they read, each time on another tap."""
        taps = {name: count() for name in self._found}
        return lambda name: self._found[name].frame(session, next(taps[name]), options)


def stored_as(columns: Mapping[str, str], layout: Layout) -> tuple[StructType, list[Column]]:
    """The schema of files that have the rows of a stream, and the stream's columns as made of theirs."""
    from pyspark.sql.connect import functions as sf  # noqa: PLC0415 - imports Spark

    from spark_stream._expressions import quote  # noqa: PLC0415

    stored = {layout.clock if name == "time" else name: kind for name, kind in columns.items()}
    # Times without a zone are read as such of UTC: as TIMESTAMP_NTZ, each would be converted, in .1 us and more
    return _struct(stored), [sf.col(quote(column)).alias(name) for name, column in zip(columns, stored, strict=True)]


def _struct(columns: Mapping[str, str]) -> StructType:
    from pyspark.sql import types  # noqa: PLC0415 - imports Spark

    kinds = {
        "int": types.LongType(),
        "float": types.DoubleType(),
        "str": types.StringType(),
        "bool": types.BooleanType(),
        "time": types.TimestampType(),
        "bytes": types.BinaryType(),
        "date": types.DateType(),
        "duration": types.LongType(),
    }
    found: dict[str, DataType] = {
        name: kinds[kind] if kind in kinds else types.DecimalType(*digits_of(kind)) for name, kind in columns.items()
    }
    return types.StructType([types.StructField(name, kind) for name, kind in found.items()])
