"""One interface for all operators of the data path.

An :class:`OperatorLogic` is the part of a component that works on tuples. It takes items on numbered ports and gives
items; it reads no clock, starts no thread and knows no peer, so the host of a real peer, a test and a notebook run
the same object. What holds for every operator is done here, once:

* Tuples whose event time is below the last punctuation of their port are late: dropped and counted, as Spark does.
* Positions of output tuples are consecutive from 0, whatever the batches of the input were.
* The output's watermark is the least of the ports' watermarks; it rises only, and ``END`` leaves when it has come on
  all ports. No output tuple is ever earlier than a punctuation that left before it.
* ``born`` of an output is that of the input item that triggered it.
* A snapshot is MessagePack around Arrow tables; a fresh instance that restores it goes on exactly as the old one.

A family of operators is one module; each class says by :func:`implements` which kind of ``plan.py``'s catalogue it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import polars as pl

from synergy_nb.dataflow.tuples import END, START, Batch, Item, Punctuation, decode_table, encode_table

if TYPE_CHECKING:
    from synergy_nb.plan import Operator, Plan

__all__ = [
    "OUTPUT_ROWS",
    "WINDOW",
    "Context",
    "OperatorLogic",
    "create",
    "implements",
    "kinds",
    "positions",
]

OUTPUT_ROWS: Final = 65_536  # rows of an output batch at most, so that credits and queues stay fine-grained
WINDOW: Final = ("window_start", "window_end")


class Context(msgspec.Struct, frozen=True):
    """What an operator's logic is made from.

    Parameters
    ----------
    id, kind, params
        As in the plan; ``params`` in canonical form.
    inputs
        Schema of each port: column to type, as in ``tuples.TYPES``.
    output
        Schema of the output stream.
    stream
        Canonical name of the output stream.
    keys
        Secrets by the name that plans use for them.
    wait
        Lets the given seconds pass; the driver's business, for the operator ``delay``.
    """

    id: str
    kind: str
    params: Mapping[str, Any]
    inputs: tuple[Mapping[str, str], ...]
    output: Mapping[str, str]
    stream: str
    keys: Mapping[str, bytes] = {}
    wait: Callable[[float], None] | None = None

    def __repr__(self) -> str:  # keys are secret
        return f"Context({self.id!r}, {self.kind!r}, {self.params!r})"

    def error(self, field: str, value: object, expected: str) -> ValueError:
        """An error that names operator, field, value and what was expected."""
        return ValueError(f"operator {self.id!r} ({self.kind}): {field}: {value!r}; expected {expected}")


class _Snapshot(msgspec.Struct, frozen=True):
    format: int
    kind: str
    position: int
    low: list[int]
    forwarded: int
    late: int
    tables: dict[str, bytes]


class OperatorLogic(ABC):
    """Base of all operators.

    A subclass implements :meth:`process` and, where it keeps state, :meth:`close`, :meth:`state`, :meth:`load` and
    :attr:`state_rows`.

    Attributes
    ----------
    late
        Tuples dropped so far because their event time was below the last punctuation of their port.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.late = 0
        self._position = 0
        self._low = [START] * max(len(context.inputs), 1)
        self._forwarded = START

    # -- for hosts -----------------------------------------------------------------------------------------------

    @property
    def ports(self) -> int:
        """Number of input ports."""
        return len(self._low)

    @property
    def position(self) -> int:
        """Position that the next output tuple gets."""
        return self._position

    @property
    def watermark(self) -> int:
        """Time of the last punctuation that left, in microseconds; ``tuples.START`` before the first."""
        return self._forwarded

    @property
    def ended(self) -> bool:
        """Whether ``END`` has left."""
        return self._forwarded == END

    @property
    def state_rows(self) -> int:
        """Rows kept between calls; 0 once the stream has ended."""
        return 0

    def on_batch(self, port: int, batch: Batch) -> list[Item]:
        """Take a batch on a port (0 is the first input of the plan).

        Raises
        ------
        ValueError
            If the operator cannot work on a value; the text names operator, column and value.
        """
        table, kept = self._in_time(self._watermark_of(port), batch.table)
        if table.height == 0:
            return []
        return self._outputs(self.process(port, table, batch, kept), batch.born)

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Item]:
        """Take a punctuation on a port; one that does not advance the port's watermark changes nothing."""
        if punctuation.time <= self._watermark_of(port):
            return []
        self._low[port] = punctuation.time
        low = min(self._low)
        items = self._outputs(self.close(low), punctuation.born)
        if low > self._forwarded:
            self._forwarded = low
            items.append(Punctuation(low, self._position, punctuation.born))
        return items

    def snapshot(self) -> bytes:
        """All that a fresh instance of the same operator needs to go on from here."""
        tables = {name: encode_table(table) for name, table in self.state().items()}
        return msgspec.msgpack.encode(
            _Snapshot(1, self.context.kind, self._position, self._low, self._forwarded, self.late, tables)
        )

    def restore(self, data: bytes) -> None:
        """Go on where the instance that wrote ``data`` was.

        Raises
        ------
        ValueError
            If ``data`` is no snapshot, or one of another operator.
        """
        context = self.context
        try:
            snapshot = msgspec.msgpack.decode(data, type=_Snapshot)
            tables = {name: decode_table(table) for name, table in snapshot.tables.items()}
        except (msgspec.MsgspecError, ValueError) as error:
            raise context.error("snapshot", data[:16], f"one of this operator: {error}") from None
        if (snapshot.format, snapshot.kind, len(snapshot.low)) != (1, context.kind, self.ports):
            found = f"format {snapshot.format}, {snapshot.kind}, {len(snapshot.low)} ports"
            raise context.error("snapshot", found, f"format 1, {context.kind}, {self.ports} ports")
        empty = self.state()
        for name, table in tables.items():
            if name not in empty or table.schema != empty[name].schema:
                raise context.error(f"snapshot: table {name}", table.columns, "the columns of this operator's state")
        self._position, self._low, self._forwarded = snapshot.position, list(snapshot.low), snapshot.forwarded
        self.late = snapshot.late
        self.load(tables)

    # -- for subclasses ------------------------------------------------------------------------------------------

    @abstractmethod
    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """Output tables for the rows of ``batch`` that are not late.

        Parameters
        ----------
        port
            Where they came in.
        table
            The rows; at least one.
        batch
            The batch that they came in.
        kept
            Mask over the batch's rows of those in ``table``; None when no row was late.
        """

    def close(self, low: int) -> Iterable[pl.DataFrame]:
        """Output tables for the state that is final now that no port gives a tuple earlier than ``low``.

        Called when any port's watermark rises, before the punctuation leaves; drops the state that is not needed.
        """
        return ()

    def state(self) -> dict[str, pl.DataFrame]:
        """The state as named tables; the same names and columns at all times, so that a snapshot can be checked."""
        return {}

    def load(self, tables: Mapping[str, pl.DataFrame]) -> None:  # noqa: B027 - nothing to load without state
        """Replace the state by what :meth:`state` gave."""

    # -- inside --------------------------------------------------------------------------------------------------

    def _watermark_of(self, port: int) -> int:
        if not 0 <= port < len(self._low):
            raise self.context.error("port", port, f"0 to {len(self._low) - 1}")
        return self._low[port]

    def _in_time(self, low: int, table: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series | None]:
        if low == START or table.height == 0:
            return table, None
        times = table.get_column("time").cast(pl.Int64)  # 2 µs a batch; to_physical() takes 100
        if times.min() >= low:  # type: ignore[operator]
            return table, None
        kept = times >= low
        table = table.filter(kept)
        self.late += kept.len() - table.height
        return table, kept

    def _outputs(self, tables: Iterable[pl.DataFrame], born: float) -> list[Item]:
        items: list[Item] = []
        for table in tables:
            rows = table.height
            if rows <= OUTPUT_ROWS:
                if rows:
                    items.append(Batch(table, self._position, born))
                    self._position += rows
                continue
            for piece in table.iter_slices(OUTPUT_ROWS):
                items.append(Batch(piece, self._position, born))
                self._position += piece.height
        return items


def positions(batch: Batch, kept: pl.Series | None) -> pl.Series:
    """Positions in their stream of the rows of ``batch`` that ``kept`` lets through (all, when None)."""
    numbers = pl.int_range(batch.position, batch.end_position, dtype=pl.Int64, eager=True).alias("position")
    return numbers if kept is None else numbers.filter(kept)


_Factory = TypeVar("_Factory", bound=Callable[[Context], OperatorLogic])
_REGISTRY: dict[str, Callable[[Context], OperatorLogic]] = {}


def implements(kind: str) -> Callable[[_Factory], _Factory]:
    """Decorator of a class, or of a function that chooses one: this is the operator ``kind`` of the catalogue."""

    def register(factory: _Factory) -> _Factory:
        if kind in _REGISTRY:
            raise ValueError(f"operator kind {kind!r} is implemented twice")
        _REGISTRY[kind] = factory
        return factory

    return register


def kinds() -> tuple[str, ...]:
    """The kinds that :func:`create` makes: all of the catalogue but ``source``, whose tuples are read elsewhere."""
    return tuple(sorted(_REGISTRY))


def create(
    operator: Operator,
    plan: Plan,
    *,
    keys: Mapping[str, bytes] | None = None,
    wait: Callable[[float], None] | None = None,
) -> OperatorLogic:
    """The logic of one operator of a plan.

    Parameters
    ----------
    operator
        An operator of ``plan``.
    plan
        Gives the schemas of its inputs and the name of its stream.
    keys
        Secrets for ``encrypt`` and ``decrypt``, by the name that the plan uses.
    wait
        Lets the given seconds pass, for ``delay``; ``time.sleep`` on a real peer.

    Raises
    ------
    ValueError
        If the kind has no logic, a key is missing or unfit, or ``delay`` was given no ``wait``.
    """
    factory = _REGISTRY.get(operator.kind)
    if factory is None:
        raise ValueError(f"operator {operator.id!r}: kind: {operator.kind!r}; expected one of {', '.join(kinds())}")
    context = Context(
        id=operator.id,
        kind=operator.kind,
        params=operator.params,
        inputs=tuple(plan.schema(upstream) for upstream in operator.inputs),
        output=plan.schema(operator.id),
        stream=plan.stream_name(operator.id),
        keys=keys or {},
        wait=wait,
    )
    return factory(context)
