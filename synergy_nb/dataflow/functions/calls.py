"""What an operator asks of a function of one's own, and how it is executed in the present process.

Theory of operation
-------------------
An operator asks by :meth:`Calls.call`: what, a table, and the time that its stream has promised. The answer is a table
that has the columns of the operator's stream. So asking through a pipe is the same call (the process at the other end
has a :class:`LocalCalls`), and nothing in an operator depends on where its function runs.

Everything that the author's code returns is checked here, next to it: the column, the row and the value are in the
error. A function of batches that raises an exception is called again with halves of its rows until the row is found.
"""

from __future__ import annotations

import importlib
import linecache
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import polars as pl
import pyarrow as pa

from synergy_nb.dataflow.functions._coroutines import Coroutines
from synergy_nb.dataflow.functions._results import FunctionError, brief, dictionaries, fitted, of_rows
from synergy_nb.dataflow.functions.keyed_states import KeyedStates
from synergy_nb.dataflow.logic import ANYTHING
from synergy_nb.dataflow.tuples import empty
from synergy_nb.plan.functions.declaring import Content, OwnFunction
from synergy_nb.plan.functions.model_files import wrong_file
from synergy_nb.plan.functions.shipping import Shipped
from synergy_nb.plan.operators.own import ERROR
from synergy_nb.plan.operators.schemas import IMPLICIT
from synergy_nb.plan.terms.function_references import is_installed, name_of
from synergy_nb.plan.terms.known_functions import DECLARED, Payload

__all__ = [
    "Calls",
    "FunctionAnswer",
    "FunctionError",
    "FunctionTask",
    "LocalCalls",
    "brief",
    "columns_needed",
    "found",
    "imported",
    "line_of",
    "local",
    "task_of",
    "unpacked",
]


class Described(Protocol):
    """What describes an operator, see :class:`synergy_nb.dataflow.operators.base.Context`."""

    @property
    def id(self) -> str:
        """Id of the operator."""

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the operator."""

    @property
    def inputs(self) -> tuple[Mapping[str, str], ...]:
        """Columns of its inputs, with their types."""

    @property
    def output(self) -> Mapping[str, str]:
        """Columns of its stream, with their types."""


class FunctionTask(NamedTuple):
    """What the execution of a function has to know of its operator: plain values, which pass a pipe."""

    operator: str  # id of the operator
    function: str  # reference of the function
    params: Mapping[str, Any]
    input: Mapping[str, str]  # columns of its input, with their types
    output: Mapping[str, str]  # columns of its stream, with their types


class FunctionAnswer(NamedTuple):
    """The answer to a call."""

    table: pl.DataFrame
    keys: int = 0  # keys that have a state
    size: int = 0  # bytes of all their states, estimated


class Calls(Protocol):
    """A function of one's own that an operator can ask."""

    @property
    def used(self) -> int:
        """Bytes that it uses beside the memory of its peer; 0 where it runs in the process of that."""

    def call(self, what: str, table: pl.DataFrame, low: int) -> FunctionAnswer:
        """Return the answer to a question.

        ``what``: ``batch``, ``windows``, ``rows``, ``advance``, ``save``, ``changed``, ``load``, see
        :class:`LocalCalls`; ``low``: time before which no result may be, microseconds since 1970.

        Raises ``FunctionError`` if the function fails; the text names it, the row and the line.
        """


def task_of(context: Described) -> FunctionTask:
    """What the execution of the function of an operator has to know."""
    return FunctionTask(context.id, context.params["function"], context.params, context.inputs[0], context.output)


def columns_needed(params: Mapping[str, Any], given: Mapping[str, str]) -> list[str] | None:
    """Columns of its input that a function gets, in order; None: all.

    ``params``: parameters of its operator; ``given``: columns of the input.
    """
    if not params.get("needs"):
        return None
    wanted = {*IMPLICIT, *params["needs"], *params.get("by", ()), *params.get("key", ())}
    return [name for name in given if name in wanted]


def local(context: Described) -> LocalCalls:
    """Execute the function of an operator in this process.

    Raises ``ValueError`` if it is not known here.
    """
    return LocalCalls(found(context.params["function"]), task_of(context))


def found(reference: str) -> Content:
    """Find a function by its reference, among those that this process has declared or can import.

    Raises ``ValueError`` if it is not there.
    """
    if reference in DECLARED:
        # what travels, as peers get it: a global that has changed since the declaration is no other function here
        return unpacked(reference, DECLARED[reference].payload)
    if is_installed(reference):
        return imported(reference)
    raise ValueError(
        f"function: {reference!r}; expected a function that this program has declared: execute its declaration first"
    )


def imported(reference: str) -> Content:
    """Import an installed function.

    Raises ``ValueError`` if there is none of this name, or it was not declared.
    """
    module, _, name = reference.partition(":")
    try:
        made = getattr(importlib.import_module(module), name, None)
    except ANYTHING as error:
        raise ValueError(f"function: {reference!r}; expected a module that can be imported: {brief(error)}") from error
    if not isinstance(made, OwnFunction):
        what = "nothing" if made is None else type(made).__name__
        raise ValueError(
            f"function: {reference!r} is {what}; expected what @function, @aggregate, @keyed or @reader returns"
        )
    return made.content


def unpacked(reference: str, payload: bytes) -> Content:
    """Read what travels of a function; only in a process that is there for this function.

    ``payload``: nothing for one that is installed, which is imported.

    Raises ``FunctionError`` if it needs a module that is not installed here, ``ValueError`` as :func:`imported` does.
    """
    if not payload:
        return imported(reference)
    try:
        sent = Payload.decoded(payload)
        content: Content = Shipped(sent.code, sent.places).load()  # the process is for nothing else
    except ModuleNotFoundError as error:
        expected = "a module that is installed where it is executed, or a function without it"
        what = f"function {name_of(reference)!r}: it needs the module {error.name!r}"
        raise FunctionError(f"{what}; expected {expected}") from None
    return content


class LocalCalls:
    """A function of one's own, executed in this process."""

    used = 0  # beside the memory of its peer, see `Calls`

    def __init__(
        self,
        content: Content,
        task: FunctionTask,
        progressed: Callable[[], None] = lambda: None,  # callback after each call of the author's code
    ) -> None:
        self._content, self._task, self._progressed = content, task, progressed
        self._new = {name: task.output[name] for name in task.params["columns"]}
        self._loaded: tuple[Any, ...] | None = () if content.load is None else None
        self._coroutines = Coroutines(content, progressed) if content.form == "async" else None
        self._gets = columns_needed(task.params, task.input) or list(task.input)
        self._keep = bool(task.params.get("keep"))
        self._forgives = task.params.get("errors") == "keep"
        self._apply: dict[str, Callable[[pl.DataFrame, int], pl.DataFrame]] = {
            "polars": partial(self._whole, lambda table: table, pl.DataFrame),
            "arrow": partial(self._whole, lambda table: table.to_arrow(), pa.Table | pa.RecordBatch),
            "row": self._rows,
            "async": self._rows,
        }
        self._states = (
            KeyedStates(content, task, self._explained, progressed, lambda: self._loaded_values)
            if content.kind == "apply_keyed"
            else None
        )
        self._questions: dict[str, Callable[[pl.DataFrame, int], pl.DataFrame]] = {
            "batch": self._batch,
            "windows": self._windows,
        }
        if self._states is not None:
            states = self._states
            self._questions |= {
                "rows": states.rows,
                "advance": states.advance,
                "save": lambda _, __: states.save(),
                "changed": lambda _, __: states.changed(),
                "load": lambda table, _: states.load(table),
            }

    def call(self, what: str, table: pl.DataFrame, low: int) -> FunctionAnswer:
        """See :class:`Calls`.

        ``batch``: apply it to a batch. ``windows``: apply it to each group of a table whose columns before those of the
        input tell the groups apart. ``rows``: pass on the next rows of keyed states. ``advance``: rows in the order of
        their times, and timers between them, up to ``low``. ``save``, ``changed``: the states of all keys, or of those
        that have changed since the last save. ``load``: replace all states.
        """
        if self._loaded is None:
            self._loaded = (self._load(),)
        try:
            made = self._questions[what](table, low)
        except SystemExit as error:
            raise self._explained(error) from None
        return FunctionAnswer(made) if self._states is None else FunctionAnswer(made, *self._states.measure())

    @property
    def name(self) -> str:
        """Name of the function."""
        return self._content.name

    def close(self) -> None:
        """End the loop of a coroutine function."""
        if self._coroutines is not None:
            self._coroutines.close()

    # -- what @function declares -----------------------------------------------------------------------------------

    def _batch(self, table: pl.DataFrame, low: int) -> pl.DataFrame:
        made = self._attempt(table, low)
        if self._forgives and ERROR not in made.columns:
            made = made.with_columns(pl.lit(None, dtype=pl.String).alias(ERROR))
        return made.select(*self._task.output, *self._carried(table))

    def _carried(self, table: pl.DataFrame) -> list[str]:
        """Columns of a batch that are no columns of the input: each result has those of its row, if that is known."""
        return [name for name in table.columns if name not in self._task.input]

    def _given(self, table: pl.DataFrame) -> pl.DataFrame:
        """The columns that the function gets."""
        return table if table.columns == self._gets else table.select(self._gets)

    def _attempt(self, table: pl.DataFrame, low: int) -> pl.DataFrame:
        """Apply the function to rows; where it fails, to halves of them, until the row is found."""
        try:
            return self._apply[self._content.form](table, low)
        except (FunctionError, MemoryError):  # what it has returned is wrong, or it needs too much: no fault of a row
            raise
        except ANYTHING as error:
            if table.height == 1 and self._forgives:
                return self._failed(table, self._explained(error))
            if table.height == 1:
                raise self._explained(error, table) from None
            if not self._forgives and self._fails_alike(table, low, error):
                raise self._explained(error, None, "the first and the last row alike: ") from None
            middle = table.height // 2
            halves = [self._attempt(each, low) for each in (table.slice(0, middle), table.slice(middle))]
            if not self._forgives:  # neither half fails alone
                raise self._explained(error, None, f"{table.height} rows together (not one of them alone): ") from None
            return pl.concat([_with_error(each) for each in halves])

    def _fails_alike(self, table: pl.DataFrame, low: int, error: BaseException) -> bool:
        """Whether the first and the last of some rows fail alone, as all of them did: then it is not for one row."""
        for row in (table.head(1), table.tail(1)):
            try:
                self._apply[self._content.form](row, low)
            except ANYTHING as own:
                if brief(own) != brief(error):
                    return False
            else:
                return False
        return True

    def _failed(self, table: pl.DataFrame, error: FunctionError) -> pl.DataFrame:
        """The row of a failed row: NULL in all columns of the function, and the reason."""
        kept = [*(name for name in IMPLICIT if name in self._task.output), *(self._kept if self._keep else ())]
        kept += self._carried(table)
        nothing = empty(self._new).clear(table.height)
        reason = pl.Series(ERROR, [str(error)], dtype=pl.String)
        return pl.concat([table.select(kept), nothing, reason.to_frame()], how="horizontal")

    @property
    def _kept(self) -> list[str]:
        return [name for name in self._task.input if name not in IMPLICIT]

    def _whole(self, convert: Callable[[pl.DataFrame], Any], kinds: Any, table: pl.DataFrame, low: int) -> pl.DataFrame:
        """Apply a function of tables."""
        made = self._content.call(convert(self._given(table)), *self._loaded_values)
        self._progressed()
        if isinstance(made, pl.LazyFrame):
            made = made.collect()
        if not isinstance(made, kinds):
            wanted = "a Polars table" if kinds is pl.DataFrame else "an Arrow table"
            if made is None or isinstance(made, dict):
                wanted += ", or form='row' in its declaration, for a function of one row"
            raise FunctionError(f"function {self._name}: {_kind_of(made)} is returned; expected {wanted}")
        result = made if isinstance(made, pl.DataFrame) else pl.DataFrame(made)
        return fitted(self._name, result, table, self._task, self._new, low)

    @property
    def _loaded_values(self) -> tuple[Any, ...]:
        return self._loaded or ()

    @property
    def _name(self) -> str:
        return repr(self._content.name)

    def _rows(self, table: pl.DataFrame, low: int) -> pl.DataFrame:
        """Apply a function of a row to each."""
        rows = dictionaries(self._given(table))
        loaded = self._loaded_values
        made: list[Any]
        if self._coroutines is not None:
            made = self._coroutines.results(rows, loaded, to_the_end=self._forgives)
        else:
            made = []
            for row in rows:
                try:
                    made.append(self._content.call(row, *loaded))
                except MemoryError:
                    raise
                except ANYTHING as error:
                    made.append(error)
                    if not self._forgives:
                        break
                self._progressed()
        places: list[int] = []
        values: list[Any] = []
        reasons: list[str | None] = []
        for place, each in enumerate(made):
            if isinstance(each, MemoryError):
                raise each
            if isinstance(each, Exception):
                explained = self._explained(each, table.slice(place, 1))
                if not self._forgives:
                    raise explained from None
                places, values, reasons = (
                    [*places, place],
                    [*values, dict.fromkeys(self._new)],
                    [*reasons, str(explained)],
                )
                continue
            for one in each if isinstance(each, list) else () if each is None else (each,):
                places.append(place)
                values.append(one)
                reasons.append(None)
        result = of_rows(self._name, values, self._new, rows, places)
        source = table[places] if places else table.clear()
        result = fitted(self._name, result, source, self._task, self._new, low)
        return result.with_columns(pl.Series(ERROR, reasons, dtype=pl.String)) if self._forgives else result

    # -- what @aggregate declares ----------------------------------------------------------------------------------

    def _windows(self, table: pl.DataFrame, low: int) -> pl.DataFrame:
        """Apply the function to the rows of each group, by the columns that the input does not have."""
        own = self._gets
        groups = [name for name in table.columns if name not in self._task.input]
        parts: list[pl.DataFrame] = []
        for rows in table.partition_by(groups, maintain_order=True):
            try:
                made = self._content.call(rows.select(own), *self._loaded_values)
            except ANYTHING as error:
                raise self._explained(error, rows) from None
            self._progressed()
            if made is None:
                continue
            if not isinstance(made, pl.DataFrame):
                made = of_rows(self._name, made if isinstance(made, list) else [made], self._new, rows.to_dicts(), None)
            first = rows.head(1).select(groups)
            made = fitted(self._name, made, None, self._task, self._new, low)
            parts.append(
                pl.concat([first[[0] * made.height] if made.height else first.clear(), made], how="horizontal")
            )
        return (
            pl.concat(parts) if parts else pl.concat([table.clear().select(groups), empty(self._new)], how="horizontal")
        )

    # -- what it was loaded with, and why it failed -------------------------------------------------------------------

    def _load(self) -> Any:
        """What ``load`` makes.

        Raises ``FunctionError`` if it fails, or the file is not there, or is another one.
        """
        file, load = self._content.file, self._content.load
        if file:
            if wrong := wrong_file(file, self._content.sha256):
                raise FunctionError(f"function {self._name}: {wrong}")
            load = partial(load, file)
        try:
            return load() if self._coroutines is None else self._coroutines.loaded(load)
        except MemoryError:
            raise
        except ANYTHING as error:
            raise FunctionError(f"function {self._name}: load: {brief(error)}") from error

    def _explained(self, error: BaseException, rows: pl.DataFrame | None = None, row: str = "") -> FunctionError:
        """An error that names the function, the row and the line.

        Raises ``MemoryError`` if it is one: the limit of the process is the reason, and no row.
        """
        if isinstance(error, MemoryError):
            raise error
        if isinstance(error, FunctionError):
            return error
        if rows is not None and rows.height and self._content.kind == "apply":
            row = f"row {_row_text(self._given(rows).row(0, named=True))}: "
        elif rows is not None and rows.height:
            row = f"{rows.height} rows from {rows.row(0, named=True)['time']} on: "
        return FunctionError(f"function {self._name}: {row}{brief(error)}{line_of(error, self._content)}")


_LONGEST_ROW: Final = 200


def _kind_of(value: Any) -> str:
    """Class of a value, with the package of one that is not Python's own: a DataFrame may be that of pandas."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"


def _row_text(row: Mapping[str, Any]) -> str:
    text = ", ".join(
        f"{name}={value!r}" if not hasattr(value, "isoformat") else f"{name}={value}" for name, value in row.items()
    )
    return text if len(text) <= _LONGEST_ROW else f"{text[:_LONGEST_ROW]}..."


def line_of(error: BaseException, content: Content) -> str:
    """The line of the author's code at which an exception was raised."""
    code = getattr(content.call, "__code__", None)
    file = code.co_filename if code is not None else None
    lines = content.source.splitlines()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        number = (frame.lineno or 0) - content.first_line
        if file is not None and frame.filename != file:
            continue
        if 0 <= number < len(lines):
            return f" (line {number + 1}: {lines[number].strip()})"
        if file is not None and (text := linecache.getline(frame.filename, frame.lineno or 0).strip()):
            return f" ({text})"
    return ""


def _with_error(table: pl.DataFrame) -> pl.DataFrame:
    if ERROR in table.columns:
        return table
    return table.with_columns(pl.lit(None, dtype=pl.String).alias(ERROR))
