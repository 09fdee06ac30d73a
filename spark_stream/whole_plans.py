"""A plan over files that Spark executes wholly, as one batch job, without peers in between.

Theory of operation
-------------------
The operators are those of parts on Spark (:func:`spark_stream.operators.build`): where the inputs are finite, the same
functions make a batch query of them. The sources are read as those of a part: Parquet files by Spark itself, others
after conversion by the readers of peers, while the server starts. Behind such a source, operators that process each
tuple alone are executed by the code of peers as it is converted, so that Spark gets what is left. The results are put
into the order of peers, and come here as Arrow. A destination is written by the writer that peers have for it. So
nothing is translated, read or written by a second piece of code, and the rows are those of peers.

Spark gives the rows of a scan in the order of the file, as ``collect`` does: it numbers the pieces of a file as they
follow one another, and the server sends their rows piece by piece. So where nothing but conditions and projections is
between a file and a frame, the rows come in the order of the file, and need no positions. What is converted is one file
in the order of its stream, as Spark reads several in the order of their sizes.

Spark and gRPC are imported in functions only, as what checks a plan needs neither.
"""

from __future__ import annotations

import contextlib
import math
import secrets as randomness
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from spark_stream._opened_sessions import OpenedSession, is_here
from spark_stream._settings import SHARED_CLASSES
from spark_stream._staging import GROUP_ROWS, Layout, direct, totals_of, write_whole
from spark_stream._tables import POSITION, from_spark
from spark_stream.server import Endpoint
from spark_stream.spark_errors import cause, has_no_room, is_lost
from spark_stream.supported import supported, supported_source
from synergy_nb import traces
from synergy_nb.connectors import connected
from synergy_nb.connectors.patient_polls import items_to_end
from synergy_nb.connectors.secret_values import given_secrets
from synergy_nb.connectors.sink_writers import writer_of
from synergy_nb.dataflow.operators import OperatorLogic, create
from synergy_nb.dataflow.sinks.writing import SinkReader
from synergy_nb.dataflow.streams.log.values import ORIGIN, chunks_of
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation, conform, empty
from synergy_nb.errors import SynergyError
from synergy_nb.events import SkippedLines
from synergy_nb.plan import Operator, Plan, PlanError, Problem
from synergy_nb.plan.checks.source_sizes import tuples_within
from synergy_nb.plan.derived.named_secrets import secrets_of_plan
from synergy_nb.plan.operators.destinations import place_of
from synergy_nb.plan.operators.schemas import is_windowed
from synergy_nb.plan.operators.sources import is_endless
from synergy_nb.plan.terms.units import counted
from synergy_nb.plan.text.operator_texts import brief
from synergy_nb.traces.rows import RowReader
from synergy_nb.traces.trace_sizes import size_of_trace

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.connect.session import SparkSession

__all__ = ["SparkJobFailed", "SparkRun", "ahead", "check_on_spark", "run_on_spark", "stream_of"]

_ROWS: Final = "rows.parquet"  # name of the file with the rows of a source
_FOLDER: Final = "directory"  # connector of folders, which a peer polls
# A file is divided into as many equal parts as there are cores. By Spark's default, 4 MB are added to its size first:
# of the two tasks of a file of 10 MB one gets 7
_HALVES: Final = {"spark.sql.files.openCostInBytes": "262144"}
# Messages with rows have 3 MB; by Spark's default, 10,000 rows at most, of .4 MB
_LARGE_BATCHES: Final = {"spark.sql.execution.arrow.maxRecordsPerBatch": "100000"}
_SHORT: Final = 5_000_000  # most tuples of the sources of a job for which Java compiles only quickly
_ALONE: Final = ("filter", "project")  # operators that process each tuple alone, and keep their order


class SparkJobFailed(SynergyError, RuntimeError):
    """A plan that was one batch job on Spark has failed there, or Spark was lost."""


class SparkRun:
    """A plan that has run as one batch job on Spark.

    Attributes
    ----------
    plan
        The plan.
    rows
        Sink to the number of its results.
    seconds
        Time from the call to the end of the job, seconds.
    waited
        Part of it in which there was nothing to do but wait for the start of Spark, seconds.
    notices
        Sentences about lines of sources that were left out.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rows: dict[str, int] = {}
        self.seconds = 0.0
        self.waited = 0.0
        self.notices: list[str] = []
        self._tables: dict[str, pl.DataFrame] = {}

    def results(self, sink: str | None = None) -> pl.DataFrame:
        """Return the results of a sink without destination, in the order in which peers give them.

        Parameters
        ----------
        sink
            Name or operator id of the sink. None: the only one.

        Raises
        ------
        ValueError
            If there is no such sink, or its results are at its destination.
        """
        names = {self.plan.operators[each].params["name"]: each for each in self.plan.sinks}
        found = names.get(sink, sink) if sink is not None else self.plan.sinks[0] if len(self.plan.sinks) == 1 else None
        if found not in self.plan.sinks:
            raise ValueError(f"sink: {sink!r}; expected one of {', '.join(names)}")
        if found not in self._tables:
            to = self.plan.operators[found].params.get("to")
            where = "went to a function" if to is None else f"are in {place_of(to)}"
            raise ValueError(f"sink: {sink!r}; expected one without a destination, as its results {where}")
        return self._tables[found]

    def __repr__(self) -> str:
        lines = [f"{self.plan.name}: one batch job on Spark, {self.seconds:.1f} s"]
        for sink, rows in self.rows.items():
            params = self.plan.operators[sink].params
            to = f" in {place_of(params['to'])}" if params.get("to") is not None else ""
            lines.append(f"  {params['name']}: {counted(rows, 'row')}{to}")
        return "\n".join([*lines, *(f"  {notice}" for notice in self.notices)])


def check_on_spark(plan: Plan, *, spark: str | Endpoint | SparkSession | None = None) -> str:
    """Say what a plan is as one batch job on Spark, or why it cannot be one; nothing is started.

    Parameters
    ----------
    plan
        Query plan.
    spark
        Server that would execute it, as of :func:`run_on_spark`.

    Returns
    -------
    str
        One sentence.

    Raises
    ------
    PlanError
        If it cannot be one job; the text has a sentence for each source, operator and requirement that prevents it.

    Examples
    --------
    >>> from synergy_nb import PlanError, check_on_spark, source
    >>> packets = source("packets", count=1000, speed=0)
    >>> check_on_spark(packets.aggregate("link", "1 min", n="count(*)").sink("counts"))
    'one batch job on Spark: it reads packets and executes aggregate; counts is a frame'
    >>> try:
    ...     check_on_spark(packets.filter("bytes > 9").sink(delay="1 s"))
    ... except PlanError as error:
    ...     print(error)
    the plan has a problem:
      - delay: 1.0; expected none: a batch job on Spark gives its results at its end
    """
    problems = list(_obstacles(plan, here=is_here(spark)))
    if problems:
        raise PlanError(problems)
    kinds = {name: operator.kind for name, operator in plan.operators.items()}
    executed = [name for name, kind in kinds.items() if kind not in ("source", "sink")]
    does = f" and executes {', '.join(executed)}" if executed else ""
    sinks = []
    for sink in plan.sinks:
        params = plan.operators[sink].params
        sinks.append(f"{params['name']} is {'a frame' if params.get('to') is None else 'in ' + place_of(params['to'])}")
    reads = ", ".join(brief(plan.operators[name]) for name in plan.sources)
    return f"one batch job on Spark: it reads {reads}{does}; {', '.join(sinks)}"


def run_on_spark(
    plan: Plan,
    *,
    spark: str | Endpoint | SparkSession | None = None,
    secrets: Mapping[str, bytes | str] | None = None,
    into: Mapping[str, Callable[[pl.DataFrame], object]] | None = None,
) -> SparkRun:
    """Execute a plan over files as one batch job on Spark, without peers; the rows are those that peers give.

    Parameters
    ----------
    plan
        Query plan whose sources are files, or are generated up to an end, and whose operators Spark executes.
    spark
        URL of a Spark Connect server on this machine, or a session on one, such as that of
        ``cluster.spark_session()``. None: a server for this call, which starts while the sources are read.
    secrets
        Secrets that the plan names, by name, as those of a cluster.
    into
        Operator id of a sink without destination to a function that is called with its rows, some at a time, in the
        order of peers. ``results()`` does not have them then, so they need not fit into memory.

    Returns
    -------
    SparkRun
        Results of the sinks without destination, and numbers of rows.

    Raises
    ------
    PlanError
        If the plan cannot be one job; the text says which source, operator or requirement prevents it.
    ValueError
        If a source cannot be read, a destination cannot be written, or ``into`` names no sink without destination. It
        is raised before Spark starts, but for what is wrong within a file.
    SparkUnavailable
        If no server can be started or reached.
    SparkJobFailed
        If Spark fails, or was lost. A destination has no row twice if the call is repeated.

    Examples
    --------
    Write ``run_on_spark(plan).results()``. What prevents it is said before anything starts:

    >>> from synergy_nb import PlanError, run_on_spark, source
    >>> try:
    ...     run_on_spark(source("tail", path="access.log", format="ncsa").filter("status = 404").sink("lost"))
    ... except PlanError as error:
    ...     print(error)
    the plan has a problem:
      - operator 'source', connector: 'tail'; expected files that end: tuples of connector tail come from peers
    """
    began = time.monotonic()
    check_on_spark(plan, spark=spark)
    known = given_secrets(secrets)
    lacking = [Problem(name, each.field, each.name, "the name of a secret that is given") for name, each in
               secrets_of_plan(plan) if each.name not in known]  # fmt: skip
    if lacking:
        raise PlanError(lacking)
    free = [sink for sink in plan.sinks if plan.operators[sink].params.get("to") is None]
    takers = dict(into or {})
    if (wrong := next((sink for sink in takers if sink not in free), None)) is not None:
        raise ValueError(
            f"into: {wrong!r}; expected sinks without a destination, of {', '.join(free) or 'which none is'}"
        )
    run = SparkRun(plan)
    with contextlib.ExitStack() as ends:
        readers = {sink: _opened(plan, sink, known, ends) for sink in plan.sinks}
        found = ends.enter_context(OpenedSession(spark, brief=spark is None and _is_short(plan)))
        found.start()
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="synergy-")))
        stored = _Sources(plan, folder, known, run.notices, [sink for sink in free if sink not in takers])
        waiting = time.monotonic()
        session = found.session()
        run.waited = time.monotonic() - waiting
        ends.enter_context(_settings(session, ours=found.is_ours, as_read=stored.as_read.issuperset(plan.sinks)))
        for sink, reader in readers.items():
            frame = stored.frame(session, sink)
            with _explained(session, plan):
                if reader is not None:
                    run.rows[sink] = _put(session, frame, plan.schema(sink), reader)
                elif sink in takers:
                    run.rows[sink] = 0
                    for table in _in_order(session, frame, plan.schema(sink)):
                        takers[sink](table)
                        run.rows[sink] += table.height
                else:
                    how = {"as_read": sink in stored.as_read, "sorts": sink in stored.unsorted}
                    run._tables[sink] = _collected(session, frame, plan.schema(sink), **how)
                    run.rows[sink] = run._tables[sink].height
    run.seconds = time.monotonic() - began
    return run


# -- what can be one job -----------------------------------------------------------------------------------------------


def _obstacles(plan: Plan, *, here: bool) -> Iterator[Problem]:
    """Yield what prevents that a plan is one job."""
    inside = [name for name, operator in plan.operators.items() if operator.kind != "sink"]
    for name, operator in plan.operators.items():
        params = operator.params
        if operator.kind == "source":
            if why := _no_file(operator, local=here):
                yield Problem(name, "connector", params["connector"], f"files that end: {why}")
            else:
                yield from _unreadable(operator)
        elif operator.kind != "sink" and (why := supported(operator, plan, inside)):
            yield Problem(name, "kind", operator.kind, f"an operator that Spark executes: {why}")
        if operator.engine == "peer":
            yield Problem(name, "engine", operator.engine, "spark or auto: the whole plan is one job on Spark")
        if operator.at is not None:
            yield Problem(name, "at", operator.at, "no peer: the whole plan is one job on Spark")
        if operator.availability is not None:
            yield Problem(name, "availability", operator.availability, "none: a job on Spark has no replicas")
    for field in plan.qos.__struct_fields__:
        if (value := getattr(plan.qos, field)) is not None:
            yield Problem("", field, value, "none: a batch job on Spark gives its results at its end")


def _no_file(operator: Operator, *, local: bool) -> str:
    """Why Spark does not have all rows of a source before it begins; empty if it has."""
    params = operator.params
    if params["connector"] != _FOLDER:
        return supported_source(operator, local)
    if is_endless(params):
        return "the folder is read for ever; a plan with ends=True reads the files that are there"
    return "" if local else "the folder is on this machine, and Spark is on another"


def _unreadable(operator: Operator) -> Iterator[Problem]:
    """Yield why the beginning of a file cannot be read."""
    if operator.params["connector"] != "trace":
        return
    try:
        traces.open_trace(operator.params)
    except ValueError as error:
        found, _, expected = str(error).partition("; expected ")
        yield Problem(operator.id, "path", found, expected or "a trace that can be read")


def _is_short(plan: Plan) -> bool:
    """Whether the sources of a plan are known to have few tuples."""
    tuples = 0.0
    for name in plan.sources:
        params = plan.operators[name].params
        size = size_of_trace(params) if params["connector"] == "trace" else None
        tuples += tuples_within(params, size, math.inf).tuples
    return tuples <= _SHORT


# -- sources -----------------------------------------------------------------------------------------------------------


class _Stored(NamedTuple):
    """The rows of a source in files that Spark reads."""

    folder: Path
    layout: Layout
    counted: bool  # whether the position of a row is its number in the only file, rather than a column


class _Sources:
    """The sources of a plan, in files, with what is done of the plan as they are written.

    ``frames``: sinks whose results come here as a whole.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        secrets: Mapping[str, bytes],
        notices: list[str],
        frames: Collection[str],
    ) -> None:
        self._plan = plan
        self._secrets = secrets
        self._inside = [name for name, operator in plan.operators.items() if operator.kind != "sink"]
        # Sinks whose rows come in the order of a file, without positions
        self.as_read = frozenset(sink for sink in frames if _origin(plan, sink) in plan.sources)
        numbered = self._with_positions()
        as_they_are = {}
        for name in plan.sources:
            found = direct(plan.operators[name], plan.schema(name), most=float("inf"), ordered=name in numbered)
            if found is not None:
                as_they_are[name] = found
        #: Of these, sinks whose rows come in the order of a file that may not be that of time
        self.unsorted = frozenset(sink for sink in self.as_read if _origin(plan, sink) in as_they_are)
        chains = {name: [] if name in as_they_are else ahead(plan, name) for name in plan.sources}
        done = {operator.id for chain in chains.values() for operator in chain}
        self._inside = [name for name in self._inside if name not in done]
        self._numbered = self._with_positions()
        self._found: dict[str, _Stored] = {}  # by the stream that Spark reads
        self._totals: dict[str, dict[str, int]] = {}  # likewise: column to the greatest size of a sum of its values
        for number, (name, chain) in enumerate(chains.items()):
            own = folder / f"source-{number}"
            own.mkdir()
            if name in as_they_are:
                staged, layout = as_they_are[name]
                (own / _ROWS).symlink_to(staged.path)
                self._found[name] = _Stored(own, layout, counted=name in self._numbered)
                integers = [each for each, kind in plan.schema(name).items() if kind == "int"]
                self._totals[name] = totals_of(staged.path, integers)
            else:
                end = chain[-1].id if chain else name
                self._convert(plan.operators[name], chain, own, notices, numbered=end in self._numbered)
                self._found[end] = _Stored(own, Layout(), counted=False)

    def _with_positions(self) -> frozenset[str]:
        """Streams that Spark reads with the positions of their rows."""
        from spark_stream import operators  # noqa: PLC0415 - imports Spark

        plan, inside = self._plan, self._inside
        each = (
            operators.numbered(plan, inside, plan.upstream(sink)[0], ordered=sink not in self.as_read)
            for sink in plan.sinks
        )
        return frozenset().union(*each)

    def _convert(
        self, operator: Operator, chain: list[Operator], folder: Path, notices: list[str], *, numbered: bool
    ) -> None:
        """Write what the last of a chain of operators behind a source gives into a file."""
        params = {**operator.params, "batch": GROUP_ROWS}
        end = chain[-1].id if chain else operator.id

        def skipped(lines: SkippedLines) -> None:
            notices.append(f"source {operator.id!r}: skipped {lines}")

        def write(tables: Iterator[pl.DataFrame]) -> None:
            for each in chain:
                tables = _passed(tables, create(each, self._plan, secrets=self._secrets))
            try:
                self._totals[end] = write_whole(tables, folder / _ROWS, self._plan.schema(end), numbered=numbered)
            except OSError as error:
                if not has_no_room(error):
                    raise
                raise SparkJobFailed(f"{self._plan.name}: no space left on the disk") from None

        if params["connector"] == "trace" and traces.read_once(params, write, skipped):
            return
        items = self._polled(operator, notices) if params["connector"] == _FOLDER else traces.read(params, skipped)
        write(item.table for item in items if isinstance(item, Batch))

    def _polled(self, operator: Operator, notices: list[str]) -> Iterator[Item]:
        late = 0

        def dropped(rows: int) -> None:
            nonlocal late
            late = rows

        schema, params = self._plan.schema(operator.id), operator.params
        source = connected(params, schema, self._secrets)
        yield from items_to_end(source, RowReader(operator.id, schema), params.get("lateness"), dropped)
        if late:
            notices.append(f"source {operator.id!r}: {counted(late, 'row')} came too late")

    def frame(self, session: SparkSession, sink: str) -> DataFrame:
        """The stream that a sink reads, as a batch query."""
        from spark_stream import operators  # noqa: PLC0415 - imports Spark

        return operators.build(
            self._plan,
            self._inside,
            self._plan.upstream(sink)[0],
            partial(self._read, session),
            secrets=self._secrets,
            ordered=sink not in self.as_read,
            finite=True,
            totals=self._totals,
        )

    def _read(self, session: SparkSession, name: str) -> DataFrame:
        from spark_stream._inputs import stored_as  # noqa: PLC0415 - imports Spark

        found, columns = self._found[name], dict(self._plan.schema(name))
        numbered = name in self._numbered
        if numbered and not found.counted:
            columns[POSITION] = "int"
        schema, chosen = stored_as(columns, found.layout)
        rows: DataFrame = session.read.schema(schema).parquet(f"file://{found.folder}")
        if numbered and found.counted:
            chosen.append(rows.metadataColumn("_metadata").getField("row_index").alias(POSITION))
        elif schema.names == list(columns):
            return rows
        return rows.select(*chosen)


def _origin(plan: Plan, sink: str) -> str:
    """The stream from which the rows of a sink come one by one."""
    stream = plan.upstream(sink)[0]
    while plan.operators[stream].kind in _ALONE:
        (stream,) = plan.operators[stream].inputs
    return stream


def ahead(plan: Plan, source: str) -> list[Operator]:
    """The operators behind a source that process each tuple alone, of streams that nobody else reads."""
    found: list[Operator] = []
    stream = source
    while True:
        readers = [each for each in plan.operators.values() if stream in each.inputs]
        if len(readers) != 1 or readers[0].kind not in _ALONE or readers[0].engine == "spark":
            return found
        found.append(readers[0])
        stream = readers[0].id


def _passed(tables: Iterator[pl.DataFrame], through: OperatorLogic) -> Iterator[pl.DataFrame]:
    """Yield what an operator that processes each tuple alone makes of the rows of a stream."""
    position = 0
    for table in tables:
        yield from (made.table for made in through.execute(0, Batch(table, position, 0.0)) if isinstance(made, Batch))
        position += table.height


# -- results -----------------------------------------------------------------------------------------------------------


def stream_of(plan: Plan, sink: str) -> str:
    """What the results of a sink are, for who writes them: another call goes on if it is the same."""
    stream = f"{plan.stream_name(sink)} in one job on Spark"
    if any(operator.params.get("deterministic") is False for operator in plan.operators.values()):
        return f"{stream}, {randomness.token_hex(8)}"  # another call makes other rows
    return stream


def _opened(plan: Plan, sink: str, secrets: Mapping[str, bytes], ends: contextlib.ExitStack) -> SinkReader | None:
    """Open the destination of a sink; None: it has none."""
    to = plan.operators[sink].params.get("to")
    if to is None:
        return None
    writer = writer_of(to, plan.schema(sink), stream_of(plan, sink), secrets=secrets)
    reader = SinkReader(writer, place_of(to), to["every"])
    ends.callback(reader.close)
    reader.open(ORIGIN)
    return reader


def _collected(
    session: SparkSession, frame: DataFrame, schema: Mapping[str, str], *, as_read: bool, sorts: bool
) -> pl.DataFrame:
    """All rows, in the order of peers.

    ``as_read``: whether they come in the order of a file; ``sorts``: whether it may be that peers sort these by time.
    """
    from spark_stream import operators  # noqa: PLC0415 - imports Spark

    batches = [batch for table in _arrow_tables(session, frame) for batch in table.to_batches()]
    if not batches:
        return empty(schema)
    rows = from_spark(batches, schema)
    if not as_read:
        return conform(operators.arrange(rows), schema)
    if sorts and not rows.get_column("time").is_sorted():
        rows = rows.sort("time", maintain_order=True)
    return conform(rows, schema)


def _in_order(session: SparkSession, frame: DataFrame, schema: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """Yield all rows in the order of peers, some at a time."""
    from pyspark.sql.connect import functions as sf  # noqa: PLC0415 - imports Spark

    from spark_stream._expressions import quote  # noqa: PLC0415
    from spark_stream.operators.frames import ORDER  # noqa: PLC0415

    ahead = ["time", "window_start"] if is_windowed(schema) else []
    keys = [*ahead, ORDER, *(name for name in schema if name not in ahead)]
    frame = frame.orderBy(*(sf.col(quote(name)).asc_nulls_last() for name in keys))
    frame = frame.select(*(sf.col(quote(name)) for name in schema))
    for table in _arrow_tables(session, frame):
        yield conform(from_spark(table.to_batches(), schema), schema)


def _put(session: SparkSession, frame: DataFrame, schema: Mapping[str, str], reader: SinkReader) -> int:
    """Have all rows written in the order of peers, some of them at a time; return their number."""
    at = ORIGIN
    for rows in _in_order(session, frame, schema):
        chunks = chunks_of([Batch(rows, at.position, 0.0)], at)
        while chunks:
            reader.write(chunks, time.monotonic())
            if reader.must_commit(time.monotonic()):
                reader.commit()
            chunks = [each for each in chunks if each.end > reader.read_to]
        at = reader.read_to
    reader.write(chunks_of([Punctuation(END, at.position, 0.0)], at), time.monotonic())
    reader.commit()
    return at.position


def _arrow_tables(session: SparkSession, frame: DataFrame) -> Iterator[pa.Table]:
    """Rows of a frame in their order, as they come."""
    import pyarrow as pa  # noqa: PLC0415

    plan: Any = frame._plan  # Spark has no public way but for pandas
    query = plan.to_proto(session.client)
    found = session.client.to_table_as_iterator(query, {})
    yield from (each for each in found if isinstance(each, pa.Table) and each.num_rows)


@contextlib.contextmanager
def _settings(session: SparkSession, *, ours: bool, as_read: bool) -> Iterator[None]:
    """Give a session the settings of a job, and a session of others its own back.

    ``as_read``: whether all results are rows of files, so that there are many, and no lists.
    """
    from pyspark.sql.connect.proto.base_pb2 import ConfigRequest, KeyValue  # noqa: PLC0415 - imports Spark

    from spark_stream._expressions import MEANING  # noqa: PLC0415

    def put(pairs: Iterable[tuple[str, str]]) -> None:
        listed = [KeyValue(key=name, value=value) for name, value in pairs]
        session.client.config(ConfigRequest.Operation(set=ConfigRequest.Set(pairs=listed)))

    needed = {**MEANING, **_HALVES, **(_LARGE_BATCHES if as_read else {}), **(SHARED_CLASSES if ours else {})}
    before: list[tuple[str, str | None]] = []
    if not ours:
        asked = ConfigRequest.Operation(get_option=ConfigRequest.GetOption(keys=list(needed)))
        before = session.client.config(asked).pairs
    put(needed.items())
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # the server may have gone
            if before:
                put((name, value) for name, value in before if value is not None)


@contextlib.contextmanager
def _explained(session: SparkSession, plan: Plan) -> Iterator[None]:
    """Say what an error of Spark means; if the call is interrupted, end what it has begun."""
    tag = f"synergy-{randomness.token_hex(8)}"
    session.addTag(tag)
    try:
        yield
    except SynergyError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and not is_lost(error):
            raise
        if has_no_room(error):
            raise SparkJobFailed(f"{plan.name}: no space left on the disk") from None
        why = "Spark was lost" if is_lost(error) else f"Spark failed: {cause(error)}"
        raise SparkJobFailed(f"{plan.name}: {why}") from None
    except BaseException:
        with contextlib.suppress(Exception):
            session.interruptTag(tag)
        raise
    finally:
        session.removeTag(tag)
