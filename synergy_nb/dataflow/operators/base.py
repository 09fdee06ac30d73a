"""One interface for all operators of the data path.

An :class:`OperatorLogic` is the part of a component that processes tuples. It takes items on numbered ports and returns
items; it reads no clock, starts no thread and knows no peer, so a real peer, a test and a notebook run the same object.
This base class does what is common to all operators:

* Tuples whose event time is below the last punctuation of their port are late: dropped and counted, as Spark does.
* Positions of output tuples are consecutive from 0, whatever the batches of the input were.
* The output's watermark is the least of the ports' watermarks; it never falls, and ``END`` is emitted when it has
  arrived on all ports. No output tuple is ever earlier than a punctuation emitted before it.
* ``born`` of an output is that of the input item that triggered it.
* It estimates the bytes of its state, and of the next item, so that its host can refuse in time. The output of an item
  is made piece by piece, as the host requests it: a sliding window or a join may multiply tuples.
* A new instance that restores a saved state continues exactly like the instance that saved it. Saving copies nothing:
  the state is a number of tables that never change, and two saves share the tables that are the same in both.

Each family of operators is one module; :func:`implements` names the declaration that a class is the logic of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakValueDictionary

import msgspec
import polars as pl

from synergy_nb.dataflow.logic import SavedState
from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation, concatenated, selected
from synergy_nb.plan.checks.replica_degrees import sums_exactly
from synergy_nb.plan.checks.validation import Switch
from synergy_nb.plan.operators.catalogue import KINDS

if TYPE_CHECKING:
    from synergy_nb.dataflow.functions.calls import Calls
    from synergy_nb.plan import Operator, Plan

__all__ = [
    "OUTPUT_ROWS",
    "PIECE_BYTES",
    "WINDOW",
    "Context",
    "OperatorLogic",
    "StateHead",
    "compacted",
    "computed",
    "create",
    "implements",
    "kinds",
    "positions",
    "retained_bytes",
    "value_bytes",
]

OUTPUT_ROWS: Final = 65_536  # most rows of an output batch, so that credits and queues stay fine-grained
PIECE_BYTES: Final = 16 << 20  # bytes of output that are made at a time, where an item has more
RUN_ROWS: Final = 32_768  # most rows of neighbouring tables that are merged when a state is saved
WINDOW: Final = ("window_start", "window_end")
#: What Polars does to a query on few rows: it simplifies expressions, and computes what occurs several times once.
_AS_WRITTEN: Final = pl.QueryOptFlags.none(simplify_expression=True, comm_subexpr_elim=True)
IN_MEMORY_ROWS: Final = 16_384  # rows up to which the in-memory engine of Polars is faster than its streaming engine
_VIEW: Final = 16  # bytes of a text value beside its characters
_MANY: Final = 32  # number of rows from which on the views of text take more than the overhead of a column
_COLUMN: Final = 600  # bytes that a column takes beside its values: most of a small table


class Context(msgspec.Struct, frozen=True):
    """The description of an operator from which its logic is created.

    Parameters
    ----------
    id, kind, params
        Id, kind and parameters of the operator in the plan; ``params`` in canonical form.
    inputs
        Schema of each port: column to type, as in ``tuples.TYPES``.
    output
        Schema of the output stream.
    stream
        Canonical name of the output stream.
    secrets
        Secrets by the name that plans use for them.
    wait
        Function that waits for the given seconds, for the operator ``delay``; the driver provides it.
    exact
        Whether sums of floats are exact until they are rounded once, so that active replicas agree in each bit.
    functions
        Function that makes what executes a function of one's own; None: it is executed in this process.
    switch
        Change of a sink from the rows of one plan to those of another one; None: there is none.
    """

    id: str
    kind: str
    params: Mapping[str, Any]
    inputs: tuple[Mapping[str, str], ...]
    output: Mapping[str, str]
    stream: str
    secrets: Mapping[str, bytes] = {}
    wait: Callable[[float], None] | None = None
    exact: bool = False
    functions: Callable[[Context], Calls] | None = None
    switch: Switch | None = None

    def __repr__(self) -> str:  # secrets are in no text
        return f"Context({self.id!r}, {self.kind!r}, {self.params!r})"

    def error(self, field: str, value: object, expected: str) -> ValueError:
        """Create an error that names operator, field, value and what was expected."""
        return ValueError(f"operator {self.id!r} ({self.kind}): {field}: {value!r}; expected {expected}")


class StateHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """The head of a saved state."""

    format: int
    kind: str
    position: int
    low: list[int]
    forwarded: int
    late: int
    tables: dict[str, list[int]]
    skipped: dict[int, int] = {}  # number of a table to the rows at its beginning that are not part of the state


class OperatorLogic(ABC):
    """Base of all operators.

    A subclass implements :meth:`process` and, where it keeps state, :meth:`close`, :meth:`state`, :meth:`load`,
    :attr:`state_rows`, :attr:`state_bytes`, :meth:`batch_needs` and :meth:`close_needs`.

    Attributes
    ----------
    late
        Tuples dropped so far because their event time was below the last punctuation of their port.
    piece_bytes
        Bytes of output made at a time, where the output of an item is larger.
    """

    piece_bytes = PIECE_BYTES

    def __init__(self, context: Context) -> None:
        self.context = context
        self.late = 0
        self._position = 0
        self._low = [START] * max(len(context.inputs), 1)
        self._closes = type(self).close_needs is not OperatorLogic.close_needs  # whether a promise may need memory
        self._texts = [sum(kind in ("str", "bytes") for kind in schema.values()) for schema in context.inputs] or [0]
        self._forwarded = START
        self._saved: WeakValueDictionary[int, pl.DataFrame] = WeakValueDictionary()  # tables by their numbers
        self._next_table = 0

    # -- for hosts -----------------------------------------------------------------------------------------------

    @property
    def ports(self) -> int:
        """Number of input ports."""
        return len(self._low)

    @property
    def position(self) -> int:
        """Position of the next output tuple."""
        return self._position

    @property
    def watermark(self) -> int:
        """Time of the last punctuation emitted, in microseconds; ``tuples.START`` before the first."""
        return self._forwarded

    @property
    def ended(self) -> bool:
        """Whether ``END`` was emitted."""
        return self._forwarded == END

    @property
    def state_rows(self) -> int:
        """Rows in the state; 0 once the stream has ended."""
        return 0

    @property
    def state_bytes(self) -> int:
        """Bytes of the state, as :func:`retained_bytes` counts them; in constant time."""
        return 0

    def needs(self, port: int, item: Item) -> float:
        """Estimate, in constant time, the bytes that processing ``item`` may need in addition to the present state."""
        if isinstance(item, Batch):
            return self.batch_needs(port, item)
        if not 0 <= port < len(self._low):
            raise self._no_port(port)
        if not self._closes or item.time <= self._low[port]:
            return 0
        return self.close_needs(min(item.time, *(low for each, low in enumerate(self._low) if each != port), END))

    def execute(self, port: int, item: Item) -> Iterator[Item]:
        """Process an item of a port (0 is the first input of the plan), and produce its output piece by piece.

        Processing starts with the request for the first piece; no other item may be passed before the last piece.

        Raises
        ------
        ValueError
            If the operator cannot process a value; the message names operator, column and value.
        """
        if not 0 <= port < len(self._low):
            raise self._no_port(port)
        low, rises = self._low[port], False
        if isinstance(item, Batch):
            table, kept = item.table, None
            if low != START and item.rows:
                table, kept = self._in_time(low, table)
            tables = self.process(port, table, item, kept) if table.height else ()
        elif item.time > low:
            self._low[port] = item.time
            low = min(self._low)
            tables, rises = self.close(low), True
        else:  # it promises nothing new
            return
        for made in tables:
            rows = made.height
            for piece in made.iter_slices(OUTPUT_ROWS) if rows > OUTPUT_ROWS else (made,) if rows else ():
                batch = Batch(piece, self._position, item.born)
                self._position += batch.rows
                yield batch
        if rises and low > self._forwarded:
            self._forwarded = low
            yield Punctuation(low, self._position, item.born)

    def on_batch(self, port: int, batch: Batch) -> list[Item]:
        """Return all output of a batch on a port, see :meth:`execute`."""
        return list(self.execute(port, batch))

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Item]:
        """Return all output of a punctuation on a port, see :meth:`execute`."""
        return list(self.execute(port, punctuation))

    def save(self) -> SavedState:
        """Return all that a new instance of the same operator needs to resume from here, without copying it."""
        tables, named = self._numbered(self.state())
        rows = self.skipped()
        skipped = {number: rows[id(table)] for number, table in tables.items() if id(table) in rows} if rows else {}
        kept = self._position, self._low, self._forwarded, self.late
        head = StateHead(3 if skipped else 2, self.context.kind, *kept, named, skipped)
        return SavedState(msgspec.msgpack.encode(head), tables)

    def _numbered(
        self, state: Mapping[str, Sequence[pl.DataFrame]]
    ) -> tuple[dict[int, pl.DataFrame], dict[str, list[int]]]:
        """Return the tables of a state by number, and the numbers of each; a table that was saved keeps its own."""
        numbers = {id(table): number for number, table in self._saved.items()}  # of the tables that still exist
        tables: dict[int, pl.DataFrame] = {}
        named: dict[str, list[int]] = {}
        for name, parts in state.items():
            named[name] = []
            for table in parts:
                number = numbers.get(id(table), self._next_table)
                self._next_table = max(self._next_table, number + 1)
                tables[number] = table
                named[name].append(number)
        self._saved = WeakValueDictionary(tables)
        return tables, named

    def restore(self, saved: SavedState) -> None:
        """Resume where the instance was that saved this state.

        Raises
        ------
        ValueError
            If it is not a state of this operator.
        """
        context = self.context
        try:
            head = msgspec.msgpack.decode(saved.head, type=StateHead)
            tables = {
                name: [saved.tables[number].slice(head.skipped.get(number, 0)) for number in numbers]
                for name, numbers in head.tables.items()
            }
        except msgspec.MsgspecError as error:
            raise context.error("saved state", saved.head[:16], f"one of this operator: {error}") from None
        except KeyError as error:
            raise context.error("saved state", sorted(saved.tables), f"table {error} among them") from None
        if head.format not in (2, 3) or (head.kind, len(head.low)) != (context.kind, self.ports):
            found = f"format {head.format}, {head.kind}, {len(head.low)} ports"
            raise context.error("saved state", found, f"format 2 or 3, {context.kind}, {self.ports} ports")
        schemas = self.state_schemas()
        for name, parts in tables.items():
            for table in parts:
                if table.schema not in schemas.get(name, ()):
                    raise context.error(f"saved state: table {name}", table.columns, "the columns of this operator's")
        if missing := [name for name in schemas if not tables.get(name)]:
            raise context.error("saved state", sorted(tables), f"a table {missing[0]!r} among them")
        self._position, self._low, self._forwarded = head.position, list(head.low), head.forwarded
        self.late = head.late
        self.load(tables)

    # -- for subclasses ------------------------------------------------------------------------------------------

    @abstractmethod
    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Return the output tables for the rows of ``batch`` that are not late.

        Parameters
        ----------
        port
            Input port of the batch.
        table
            The rows; at least one.
        batch
            Batch of the rows.
        kept
            Mask over the batch's rows that selects ``table``; None if no row was late.
        """

    def batch_needs(self, port: int, batch: Batch) -> float:
        """Estimate the bytes that :meth:`process` may need for ``batch``, in addition to the present state."""
        return 3.0 * (batch.nbytes + (_VIEW * batch.rows * self._texts[port] if batch.rows >= _MANY else 0))

    def close_needs(self, low: int) -> float:
        """Estimate the bytes that :meth:`close` may need, in addition to the present state."""
        return 0.0

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """Return the output that is final because no port will have a tuple earlier than ``low``.

        Called when any port's watermark rises, before the punctuation is emitted; drops state that is not needed.
        """
        return ()

    def state(self) -> dict[str, list[pl.DataFrame]]:
        """Return the state as named tables, each in one or more parts, one after another.

        The names are always the same, and the parts of a table have the same columns. A part that has not changed since
        the last call should be the same object, as it then need not be copied again.
        """
        return {}

    def skipped(self) -> Mapping[int, int]:
        """Return how many rows at the beginning of tables of :meth:`state` are not part of it, by table identity."""
        return {}

    def state_schemas(self) -> dict[str, list[pl.Schema]]:
        """Return the schemas that each table of a state may have."""
        return {name: [parts[0].schema] for name, parts in self.state().items()}

    def load(self, tables: Mapping[str, Sequence[pl.DataFrame]]) -> None:  # noqa: B027 - nothing to load without state
        """Replace the state by one that :meth:`state` returned."""

    # -- inside --------------------------------------------------------------------------------------------------

    def _no_port(self, port: int) -> ValueError:
        return self.context.error("port", port, f"0 to {len(self._low) - 1}")

    def _in_time(self, low: int, table: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series | None]:
        times = table.get_column("time").cast(pl.Int64)  # 2 µs a batch; to_physical() takes 100
        if times.min() >= low:  # type: ignore[operator]
            return table, None
        kept = times >= low
        table = selected(table, kept)
        self.late += kept.len() - table.height
        return table, kept


def value_bytes(table: pl.DataFrame) -> int:
    """Return the bytes of a table's values: Polars' estimate, and the views of text, which Polars leaves out."""
    size = int(table.estimated_size())
    if table.height >= _MANY:
        size += _VIEW * table.height * sum(kind in (pl.String, pl.Binary) for kind in table.dtypes)
    return size


def retained_bytes(table: pl.DataFrame) -> int:
    """Return the bytes of a table: those of its values, and the overhead of each of its pieces."""
    return value_bytes(table) + _COLUMN * table.width * table.n_chunks()


def computed(query: pl.LazyFrame, rows: int) -> pl.DataFrame:
    """Execute a query, with the engine of Polars that is faster for the size of its input.

    The streaming engine, which Polars selects by itself, takes 0.1 to 0.3 ms to start: several times as long as most
    queries on a batch take. A faster plan of a query on few rows is not looked for either: that took a seventh of the
    time of windows over batches of 1,000 tuples.

    Parameters
    ----------
    query
        Query to execute.
    rows
        Number of rows of its input.
    """
    if rows <= IN_MEMORY_ROWS:
        return query.collect(engine="in-memory", optimizations=_AS_WRITTEN)
    return query.collect(engine="streaming")


def compacted(tables: Iterable[pl.DataFrame], most: int = RUN_ROWS) -> list[pl.DataFrame]:
    """Merge small neighbouring tables; a table that is not merged remains the same object.

    A row is copied a logarithmic number of times, however often a growing list is compacted.

    Parameters
    ----------
    tables
        Tables of the same columns.
    most
        Most rows of a merged table.
    """
    groups: list[tuple[list[pl.DataFrame], int]] = []
    for table in tables:
        group, rows = [table], table.height
        while groups and groups[-1][1] <= 2 * rows and groups[-1][1] + rows <= most:
            before, more = groups.pop()
            group, rows = before + group, more + rows
        if rows:
            groups.append((group, rows))
    return [group[0] if len(group) == 1 else concatenated(group) for group, _ in groups]


def positions(batch: Batch, kept: pl.Series | None) -> pl.Series:
    """Return the positions in their stream of the rows of ``batch`` that the mask ``kept`` selects; None: of all."""
    numbers = pl.int_range(batch.position, batch.end_position, dtype=pl.Int64, eager=True).alias("position")
    return numbers if kept is None else numbers.filter(kept)


_Factory = TypeVar("_Factory", bound=Callable[[Context], OperatorLogic])
REGISTRY: dict[str, Callable[[Context], OperatorLogic]] = {}


def implements(kind: str) -> Callable[[_Factory], _Factory]:
    """Register a class, or a function that chooses one, as the logic of the operators declared as ``kind``.

    Raises
    ------
    ValueError
        If no operator is declared as ``kind``, or it already has a logic.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is not declared; expected one of {', '.join(KINDS)}")

    def register(factory: _Factory) -> _Factory:
        if kind in REGISTRY:
            raise ValueError(f"kind: {kind!r} has a logic already; expected one logic for each kind")
        REGISTRY[kind] = factory
        return factory

    return register


def kinds() -> tuple[str, ...]:
    """Return the kinds that :func:`create` supports: all of the catalogue but ``source``, which a driver reads."""
    return tuple(sorted(REGISTRY))


def create(
    operator: Operator,
    plan: Plan,
    *,
    secrets: Mapping[str, bytes] | None = None,
    wait: Callable[[float], None] | None = None,
    exact: bool | None = None,
    functions: Callable[[Context], Calls] | None = None,
) -> OperatorLogic:
    """Create the logic of one operator of a plan.

    Parameters
    ----------
    operator
        An operator of ``plan``.
    plan
        Plan that has the schemas of its inputs and the name of its stream.
    secrets
        Secrets by the name that plans use for them.
    wait
        Function that waits for the given seconds, for ``delay``; ``time.sleep`` on a real peer.
    exact
        Whether sums of floats do not depend on the order of their terms, as active replicas require; None: if the plan
        has any that would differ otherwise. A state that an instance with exact sums saved can only be restored by
        another one.
    functions
        Function that makes what executes a function of one's own; None: it is executed in this process.

    Raises
    ------
    ValueError
        If the kind has no logic, a secret is missing or too short, or ``delay`` has no ``wait``.
    """
    factory = REGISTRY.get(operator.kind)
    if factory is None:
        raise ValueError(f"operator {operator.id!r}: kind: {operator.kind!r}; expected one of {', '.join(kinds())}")
    context = Context(
        id=operator.id,
        kind=operator.kind,
        params=operator.params,
        inputs=tuple(plan.schema(upstream) for upstream in operator.streams),
        output=plan.schema(operator.id),
        stream=plan.stream_name(operator.id),
        secrets=secrets or {},
        wait=wait,
        exact=sums_exactly(operator, plan.operators.values(), plan.qos) if exact is None else exact,
        functions=functions,
        switch=plan.transition.switches.get(operator.id),
    )
    return factory(context)
