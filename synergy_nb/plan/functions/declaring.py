"""How authors declare functions of their own, ``@function``, ``@aggregate`` and ``@keyed``, and sources, ``@reader``.

What they make is an :class:`OwnFunction`: the author's function or class, and what the platform has to know of it. It
can still be called as before. :meth:`~synergy_nb.plan.builder.Stream.apply` and its like take it; the plan then has
its reference (:mod:`synergy_nb.plan.terms.function_references`) and its columns, never its code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from synergy_nb.errors import user_facing
from synergy_nb.plan.functions import shipping
from synergy_nb.plan.functions.model_files import checksum
from synergy_nb.plan.operators.parameter_types import COLUMN_TYPES
from synergy_nb.plan.operators.schemas import IMPLICIT
from synergy_nb.plan.terms import known_functions
from synergy_nb.plan.terms.units import WrongValue, WrongValues, parse_duration

__all__ = ["FORMS", "Content", "OwnFunction", "Wake", "aggregate", "function", "keyed", "reader"]

#: What a function of ``@function`` gets and returns.
FORMS: Final = ("polars", "arrow", "row")
_BASE: Final = "synergy_nb.dataflow.sources"  # module of the base class of sources
_LONGEST_NAME: Final = 100
_DECLARED_BY: Final = {
    "apply": "a function that @function has declared",
    "apply_windows": "a function that @aggregate has declared",
    "apply_keyed": "a class that @keyed has declared",
    "source": "a class that @reader has declared",
}
#: Defaults of the operators.
_DETERMINISTIC: Final = {"apply": False, "apply_windows": True, "apply_keyed": False, "source": False}


class Wake(NamedTuple):
    """A timer in event time: when a keyed state yields it, ``on_time`` is called for the same key at that time.

    Parameters
    ----------
    time
        Event time, a ``datetime`` in UTC without a zone, as in the column ``time``.

    Examples
    --------
    >>> import datetime as dt
    >>> Wake(dt.datetime(2026, 1, 1) + dt.timedelta(seconds=5))
    Wake(time=datetime.datetime(2026, 1, 1, 0, 0, 5))
    """

    time: Any


class Content(msgspec.Struct, frozen=True):
    """All of a function that travels to the peers."""

    name: str
    kind: str  # kind of the operator that executes it: apply, apply_windows or apply_keyed
    form: str  # one of FORMS; "async" for a coroutine function; empty for other kinds
    call: Any  # the author's function or class
    columns: dict[str, str]
    needs: tuple[str, ...] = ()  # columns that it gets, beside time; none: all
    first_line: int = 1  # line of its file or cell at which its text begins
    source: str = ""  # its text, for errors
    concurrency: int = 1  # most calls of a coroutine function at a time
    retries: int = 0  # calls of a coroutine function after one that failed
    patience: float = 0.0  # seconds after which one call of a coroutine function has failed; 0: no limit
    expires: float = 0.0  # seconds of event time without rows after which the state of a key ends; 0: never
    load: Any = None  # function that makes what each call gets as its last argument
    file: str = ""  # path that `load` gets
    sha256: str = ""  # checksum of that file


class OwnFunction:
    """A function of one's own, as a plan can use it; calling it calls the author's function.

    Attributes
    ----------
    name
        Name of the function or class.
    columns
        Columns that it makes, with their types.
    deterministic
        Whether its author states that equal rows give equal results, whenever and wherever: replicas may execute it.
    reference
        Text by which plans name it: its name and the hash of its content.
    """

    def __init__(self, content: Content, *, deterministic: bool, **limits: Any) -> None:
        self.content = content
        self.deterministic = deterministic
        self.limits = {name: value for name, value in limits.items() if value is not None}  # of one call, and of memory
        self.name, self.columns = content.name, content.columns
        self.__name__, self.__doc__ = content.name, content.call.__doc__
        aside = {name: shipping.Place(getattr(content, name)) for name in ("first_line", "source")}
        travels: Any = msgspec.structs.replace(content, **aside)
        code, places = shipping.shipped(content.name, content.call, travels)
        payload = known_functions.Payload(code, content.file, content.sha256, places)
        self.payload = payload.encoded()
        self.reference = f"{content.name}@{payload.digest}"
        known_functions.add(self)

    def wrongs(self, params: Mapping[str, Any]) -> Iterator[WrongValue]:
        """Find what a source of this class cannot be made with."""
        if self.content.kind != "source":  # another function is refused as what it is
            return
        given = params.get("arguments", {})
        signature = inspect.signature(self.content.call)
        try:
            signature.bind(**given)
        except TypeError as error:
            yield WrongValue(dict(given), f"those of {self.name}{signature} ({error})", field="arguments")
        # that of the base class, which this room does not know, refuses
        divides = getattr(getattr(self.content.call, "split", None), "__module__", _BASE) != _BASE
        if params.get("readers") not in (None, 1) and not divides:
            expected = "1, or a class with split(self, reader, readers), which divides its partitions among them"
            yield WrongValue(params["readers"], expected, field="readers")

    def parameters(self, kind: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Complete the parameters of the operator that executes it.

        Raises ``TypeError`` if it is an operator of another kind.
        """
        if kind != self.content.kind:
            use = f"source({self.name})" if self.content.kind == "source" else f".{self.content.kind}(...)"
            raise TypeError(f"{kind}: function: {self.name!r}; expected {_DECLARED_BY[kind]}: use {use}")
        known: dict[str, Any] = {"columns": dict(self.columns)}
        known |= {"deterministic": self.deterministic} if self.deterministic != _DETERMINISTIC[kind] else {}
        known |= {"expires": self.content.expires} if self.content.expires else {}
        known |= {"needs": list(self.content.needs)} if self.content.needs else {}
        known |= {"repeats": True} if getattr(self.content.call, "repeats", False) and kind == "source" else {}
        known |= self.limits
        known |= {"timers": True} if hasattr(self.content.call, "on_time") else {}
        return {
            **known,
            **{name: value for name, value in params.items() if value is not None},
            "function": self.reference,
        }

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the author's function, or make an object of the class."""
        return self.content.call(*arguments, **named)

    def __repr__(self) -> str:
        return f"<{self.content.kind} {self.reference}>"


@user_facing
def function(
    call: Callable[..., Any] | None = None,
    /,
    *,
    columns: Mapping[str, str] | None = None,
    needs: Sequence[str] = (),
    sample: Any = None,
    form: str | None = None,
    deterministic: bool = False,
    concurrency: int = 8,
    retries: int = 0,
    patience: Any = None,
    load: Callable[..., Any] | None = None,
    file: Any = None,
    timeout: Any = None,
    memory: Any = None,
) -> Callable[[Callable[..., Any]], OwnFunction]:
    """Declare a function of one's own for :meth:`Stream.apply <synergy_nb.plan.builder.Stream.apply>`.

    It gets the rows of a batch and returns rows; a coroutine function (``async def``) gets one row at a time. How a
    stream is cut into batches is not the author's choice, so the rows that it returns for a row must not depend on
    other rows; :func:`synergy_nb.testing.check` tries that.

    Parameters
    ----------
    columns
        Columns that it returns, with their types: ``{"score": "float"}``; without ``time``.
    needs
        Columns that it gets, beside ``time``; fewer are faster. By default all of its input.
    sample
        Rows (a table, or a dictionary of columns) to call it with now, to find ``columns`` by its result.
    form
        ``"polars"``, a table to a table, is the default and the fastest; ``"arrow"``, the same with Arrow's tables;
        ``"row"``, a dictionary to a dictionary, to a list of them, or to None for no row.
    deterministic
        Whether equal rows give equal results whenever and wherever; active replicas need that.
    concurrency
        Most rows of a coroutine function at a time; the order of the rows stays.
    retries
        Further calls for a row, if a coroutine function raises an exception or takes too long.
    patience
        Longest time of a call of a coroutine function, ``"2 s"``.
    load
        Function that makes, once for each component, what the function gets as its second argument, such as a model.
        That of a coroutine function is called on the loop of its calls, and may be one.
    file
        File of the model: ``load`` gets its path. It has to be at the same path, with the same content, on each peer.
    timeout, memory
        Longest time of one call, ``"10 s"`` (default: 1 min), and most memory of its process, ``"2 GB"`` (default:
        1 GB, or what the operator may use if that is less), unless the operator states its own.

    Raises
    ------
    TypeError
        If the function cannot travel to the peers; the text names the variable that cannot.
    ValueError
        If a parameter has a wrong value.

    Examples
    --------
    >>> import polars as pl
    >>> from synergy_nb import function, source
    >>> @function(columns={"kB": "float"})
    ... def kilobytes(batch):
    ...     return batch.select("time", kB=pl.col("bytes") / 1000)
    >>> source("packets").apply(kilobytes).sink().schema("apply")
    {'time': 'time', 'kB': 'float'}
    """
    waits = parse_duration(patience) if patience is not None else 0.0

    def declared(made: Callable[..., Any]) -> OwnFunction:
        is_async = inspect.iscoroutinefunction(made)
        if form is not None and (form not in FORMS or is_async):
            expected = "none, as a coroutine function gets a row" if is_async else f"one of {', '.join(FORMS)}"
            raise ValueError(f"function {_name(made)!r}: form: {form!r}; expected {expected}")
        for name, value, least in (("concurrency", concurrency, 1), ("retries", retries, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(
                    f"function {_name(made)!r}: {name}: {value!r}; expected an integer of at least {least}"
                )
        content = _content(
            made, "apply", "async" if is_async else form or "polars", columns, concurrency=concurrency,
            retries=retries, patience=waits, load=load, file=file, needs=needs, known=sample is not None,
        )  # fmt: skip
        if sample is not None and columns is None:
            content = msgspec.structs.replace(content, columns=_sampled(content, sample))
        return OwnFunction(content, deterministic=deterministic, timeout=timeout, memory=memory)

    if call is not None:  # a decorator without parentheses
        declared(call)
    return declared


@user_facing
def aggregate(
    *,
    columns: Mapping[str, str],
    needs: Sequence[str] = (),
    deterministic: bool = True,
    load: Callable[..., Any] | None = None,
    file: Any = None,
    timeout: Any = None,
    memory: Any = None,
) -> Callable[[Callable[..., Any]], OwnFunction]:
    """Declare a function of the rows of one window and group, for :meth:`Stream.apply_windows`.

    The function gets a Polars table with the rows, in the order of their times, and returns a dictionary of the
    ``columns`` (one row), a list of these, a table, or None for no row.

    Parameters
    ----------
    columns
        Columns that it returns, with their types; those of the group and of the window come by themselves.
    needs
        Columns that it gets, beside ``time`` and those of the group; by default all.
    deterministic
        Whether equal rows give equal results; active replicas need that.
    load, file, timeout, memory
        See :func:`function`.

    Examples
    --------
    >>> from synergy_nb import aggregate, source
    >>> @aggregate(columns={"spread": "int"})
    ... def spread(rows):
    ...     return {"spread": rows["bytes"].max() - rows["bytes"].min()}
    >>> source("packets").apply_windows(spread, window="10 s", by="link").sink().schema("apply_windows")
    {'time': 'time', 'window_start': 'time', 'window_end': 'time', 'link': 'str', 'spread': 'int'}
    """

    def declared(made: Callable[..., Any]) -> OwnFunction:
        content = _content(made, "apply_windows", "", columns, load=load, file=file, needs=needs)
        return OwnFunction(content, deterministic=deterministic, timeout=timeout, memory=memory)

    return declared


@user_facing
def keyed(
    *,
    columns: Mapping[str, str],
    needs: Sequence[str] = (),
    expires: Any = None,
    deterministic: bool = False,
    load: Callable[..., Any] | None = None,
    file: Any = None,
    timeout: Any = None,
    memory: Any = None,
) -> Callable[[type], OwnFunction]:
    """Declare a class whose objects are the state of one key each, for :meth:`Stream.apply_keyed`.

    The class has a constructor without arguments (with ``load``, it gets what that makes), and the methods

    - ``on_rows(self, key, rows)``, a generator: the next rows of the key, each a dictionary. What it yields after a
      row belongs to that row: dictionaries of ``columns`` (with ``time``, if it is not that of the row), and
      :class:`Wake`. It must not depend on how many rows come at once.
    - ``on_time(self, key, time)``, if there are timers; a generator, if it yields rows. Rows then wait for the
      watermark, and come in the order of their times; timers come between them.

    The attributes of an object are its state. Numbers, text, times, lists, tuples, sets, dictionaries, tables and
    arrays are saved by themselves; for others write ``snapshot(self)``, which returns such values, and
    ``restore(self, saved)``.

    Parameters
    ----------
    columns
        Columns that it yields, with their types; those of the key come by themselves.
    needs
        Columns that rows have, beside ``time`` and those of the key; by default all. Fewer are faster.
    expires
        Event time without rows after which the state of a key ends, ``"1 h"``; by default it ends with the stream.
    deterministic
        Whether equal rows give equal results whenever and wherever; active replicas need that.
    load, file
        See :func:`function`. All objects have the same model; one that learns is made by the constructor.
    timeout, memory
        See :func:`function`.

    Examples
    --------
    >>> from synergy_nb import keyed, source
    >>> @keyed(columns={"total": "int"})
    ... class Totals:
    ...     def __init__(self):
    ...         self.total = 0
    ...     def on_rows(self, key, rows):
    ...         for row in rows:
    ...             self.total += row["bytes"]
    ...             yield {"total": self.total}
    >>> source("packets").apply_keyed(Totals, key="link").sink().schema("apply_keyed")
    {'time': 'time', 'link': 'str', 'total': 'int'}
    """
    kept = parse_duration(expires) if expires is not None else 0.0

    def declared(made: type) -> OwnFunction:
        if not inspect.isclass(made) or not callable(getattr(made, "on_rows", None)):
            raise ValueError(f"keyed: {_name(made)}; expected a class with the method on_rows(self, key, rows)")
        if not inspect.isgeneratorfunction(made.on_rows):  # type: ignore[attr-defined]
            raise ValueError(f"class {made.__name__!r}: on_rows; expected a generator: a method that yields rows")
        if not callable(getattr(made, "on_time", len)):
            raise ValueError(f"class {made.__name__!r}: on_time; expected a method, on_time(self, key, time)")
        for one, other in (("snapshot", "restore"), ("restore", "snapshot")):
            if hasattr(made, one) and not hasattr(made, other):
                raise ValueError(f"class {made.__name__!r}: {one} without {other}; expected both or none")
        content = _content(made, "apply_keyed", "", columns, expires=kept, needs=needs, load=load, file=file)
        return OwnFunction(content, deterministic=deterministic, timeout=timeout, memory=memory)

    return declared


@user_facing
def reader(
    *, columns: Mapping[str, str], time: str | None = None, timeout: Any = None, memory: Any = None
) -> Callable[[type[Any]], OwnFunction]:
    """Declare a class of sources of one's own, which a peer executes: ``source(MySource, arguments={...})``.

    The class derives from :class:`~synergy_nb.Source`. Its code travels as that of functions does, and runs in a
    process of its own at the peer that reads. If that peer dies and the source has backups, or the source moves,
    another instance is opened at the last position.

    Parameters
    ----------
    columns
        Columns of its rows, with their types: ``{"watt": "float"}``; without ``time``.
    time
        Column of its rows with the event time, by default ``time``.
    timeout, memory
        See :func:`function`: of a call of ``open``, ``poll`` or ``close``, and of its process.

    Raises
    ------
    TypeError
        If the class cannot travel to the peers; the text names the variable that cannot.
    ValueError
        If it is no class of sources, or a parameter has a wrong value.

    Examples
    --------
    >>> from synergy_nb import Polled, Source, reader, source
    >>> @reader(columns={"n": "int"})
    ... class Numbers(Source):
    ...     repeats = True
    ...
    ...     def __init__(self, upto):
    ...         self.upto = upto
    ...
    ...     def open(self, position):
    ...         self.next = position or 0
    ...
    ...     def poll(self, seconds):
    ...         if self.next == self.upto:
    ...             return Polled(position=self.next, ends=True)
    ...         self.next += 1
    ...         return Polled([{"time": self.next, "n": self.next}], position=self.next)
    >>> plan = source(Numbers, arguments={"upto": 3}, ends=True).sink("numbers")
    >>> plan.schema("source")
    {'time': 'time', 'n': 'int'}
    >>> from synergy_nb import Simulation
    >>> Simulation(peers=2).submit(plan).results()["n"].to_list()
    [1, 2, 3]
    """

    def declared(made: type[Any]) -> OwnFunction:
        if not inspect.isclass(made) or not all(callable(getattr(made, each, None)) for each in ("open", "poll")):
            raise ValueError(f"reader: {_name(made)}; expected a class that derives from Source, with open and poll")
        content = _content(made, "source", "", columns)
        return OwnFunction(content, deterministic=False, time=time, timeout=timeout, memory=memory)

    return declared


def _name(made: Any) -> str:
    return str(getattr(made, "__name__", type(made).__name__))


def _content(
    made: Any, kind: str, form: str, columns: Mapping[str, str] | None, *, load: Any = None, file: Any = None,
    known: bool = False, needs: Sequence[str] = (), **options: Any,
) -> Content:  # fmt: skip
    """What travels of a function; ``known``: whether its columns are found by a sample."""
    name = _name(made)
    if not callable(made):
        raise ValueError(f"function: {made!r}; expected a function")
    if not name.isidentifier() or len(name) > _LONGEST_NAME:
        raise ValueError(f"function: {name!r}; expected a function that has a name of its own, defined with def")
    outside = made.__qualname__.rpartition(".")[0] if inspect.isfunction(made) else ""
    if outside and not outside.endswith("<locals>"):
        raise ValueError(f"function {name!r}: a method of {outside}; expected a function outside of a class")
    if columns is None and not known:
        raise ValueError(
            f"function {name!r}: columns: not given; expected column to type, or sample=, rows to try it with"
        )
    kinds: dict[str, str] = {}
    if columns is not None:
        try:
            kinds = COLUMN_TYPES.parse({each: kind for each, kind in dict(columns).items() if each not in IMPLICIT})
        except WrongValues as error:
            wrong = error.wrongs[0]
            raise ValueError(
                f"function {name!r}: columns{wrong.field}: {wrong.value!r}; expected {wrong.expected}"
            ) from None
    named = [needs] if isinstance(needs, str) else list(needs)
    if wrong_name := next((each for each in named if not isinstance(each, str)), None):
        raise ValueError(f"function {name!r}: needs: {wrong_name!r}; expected names of columns")
    sha256 = ""
    if file is not None:
        if load is None:
            raise ValueError(
                f"function {name!r}: file: {str(file)!r}; expected load= as well, the function that reads it"
            )
        try:
            sha256 = checksum(file)
        except OSError as error:
            raise ValueError(
                f"function {name!r}: file: {str(file)!r}; expected a file that can be read: {error}"
            ) from None
    try:
        lines, first = inspect.getsourcelines(made)
    except (OSError, TypeError):
        lines, first = [], 1
    return Content(
        name, kind, form, made, kinds, tuple(named), max(first, 1), "".join(lines), load=load,
        file="" if file is None else str(Path(file).absolute()), sha256=sha256, **options,
    )  # fmt: skip


def _sampled(content: Content, sample: Any) -> dict[str, str]:
    """Columns of a function by its result for some rows.

    Raises ``ValueError`` if it fails, or returns no table.
    """
    from synergy_nb.plan.data_frames import column_kinds, normal  # noqa: PLC0415 - only samples need an engine

    if content.form == "async":
        raise ValueError(f"function {content.name!r}: sample: given; expected columns= for a coroutine function")
    rows: Any = normal(sample)
    loaded = () if content.load is None else (content.load(content.file) if content.file else content.load(),)
    try:
        if content.form == "row":
            made = [content.call(row, *loaded) for row in rows.to_dicts()]
            flat = [each if isinstance(each, list) else [each] for each in made]
            made = [row for rows in flat for row in rows if row is not None]
        else:
            made = content.call(rows.to_arrow() if content.form == "arrow" else rows, *loaded)
        found: Any = normal(made)
        return {name: kind for name, kind in column_kinds(found).items() if name not in IMPLICIT}
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"function {content.name!r}: sample: {reason}; expected rows that it accepts") from error
