"""Keyed states: an object of the author's class for each key, its timers, and its end.

Theory of operation
-------------------
An operator's output has to be the same however its input was cut into batches. So what ``on_rows`` yields belongs to
the row that it has taken last, and all results of a batch are ordered by their rows. With timers, results depend on
what comes first, a row or a timer: rows then wait until the watermark has passed them, and come in the order of their
times; a timer comes before the rows of its own time and later ones. Keys do not see each other, so each key's rows and
timers are taken in one go, and all results ordered afterwards.
"""

from __future__ import annotations

import bisect
import datetime as dt
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from synergy_nb.dataflow.functions import _state_values
from synergy_nb.dataflow.functions._results import FunctionError, dictionaries, fitted, moment, of_rows
from synergy_nb.dataflow.logic import ANYTHING
from synergy_nb.dataflow.tuples import END, EPOCH, START, TYPES, empty
from synergy_nb.plan.functions.declaring import Content, Wake
from synergy_nb.plan.terms.naming import internal

if TYPE_CHECKING:
    from synergy_nb.dataflow.functions.calls import FunctionTask

__all__ = ["PLACES", "SAVED", "KeyedStates"]

#: Columns of saved states: a key, its state (NULL: it has ended), the time of its last row, and its timers.
SAVED: Final = pl.Schema({"key": pl.Binary, "state": pl.Binary, "last": pl.Int64, "timers": pl.Binary})
_OF_KEY: Final = internal("places")
_NAN: Final = float("nan")
#: Columns that say where a result belongs among those of other keys, for who executes keys apart and has them among the
#: columns of the stream: time of its row or timer (microseconds), whether that was a row, its key (with timers), place
#: of the row in its table (-1: a timer), and number of the result among those of its key, or of all without timers.
PLACES: Final[Mapping[str, str]] = {
    internal("cause"): "int",
    internal("is row"): "int",
    internal("of key"): "bytes",
    internal("row"): "int",
    internal("number"): "int",
}
_GUESSED: Final = 400  # bytes of a state that was never saved


def _same(key: Any) -> Any:
    """A key that equals itself: NaN is one object here."""
    if isinstance(key, tuple):
        return tuple(map(_same, key))
    return _NAN if key != key else key  # noqa: PLR0124 - only NaN differs from itself


class _State:
    """The state of one key."""

    __slots__ = ("last", "object", "timers")

    def __init__(self, made: Any, last: int = START, timers: list[int] | None = None) -> None:
        self.object = made
        self.last = last  # time of its latest row, microseconds
        self.timers = [] if timers is None else timers  # microseconds, in order


class _Walk:
    """The rows that ``on_rows`` takes; it knows the last one taken, and ends where a timer or an end is due."""

    __slots__ = ("_expires", "_places", "_rows", "_times", "at", "next", "state", "until")

    def __init__(
        self,
        rows: Sequence[Any],
        times: Sequence[int],  # time of each row, microseconds
        places: Sequence[int],  # rows of the key
        start: int,
        until: int,
        state: _State | None = None,  # whose timers and end are waited for; None: neither is
        expires: int = 0,  # microseconds without rows after which the state ends; 0: never
    ) -> None:
        self._rows, self._times, self._places, self.state, self._expires = rows, times, places, state, expires
        self.next, self.until = start, until  # of the places: the next one, and the end
        self.at = -1  # the row that was taken last

    def __iter__(self) -> Iterator[Any]:
        rows, places = self._rows, self._places
        if self.state is None:
            for place in places[self.next : self.until]:
                self.at = place
                yield rows[place]
            self.next = self.until
            return
        while self.next < self.until:
            place, state = places[self.next], self.state
            time = self._times[place]
            if state.timers and state.timers[0] <= time:
                return
            if self._expires and state.last != START and time >= state.last + self._expires:
                return
            state.last = max(state.last, time)
            self.at = place
            self.next += 1
            yield rows[place]


class KeyedStates:
    """The states of all keys of one component."""

    def __init__(
        self,
        content: Content,
        task: FunctionTask,
        explained: Callable[..., FunctionError],  # function that makes an error that names the line of an exception
        progressed: Callable[[], None],  # callback after the rows of each key
        loaded: Callable[[], tuple[Any, ...]],  # function that returns the arguments of constructors
    ) -> None:
        self._content, self._task, self._explained, self._progressed = content, task, explained, progressed
        self._loaded = loaded
        self._name = repr(content.name)
        self._key = list(task.params["key"])
        self._new = {name: task.output[name] for name in task.params["columns"]}
        self._timers = bool(task.params.get("timers"))
        self._expires = round(float(task.params.get("expires") or 0.0) * 1e6)
        self._states: dict[Any, _State] = {}
        self._dirty: set[Any] = set()
        self._tried = False  # whether a state was encoded, so that its author knows at once if it cannot be
        self._size = _GUESSED  # bytes of a state, as the last save has found
        self._swept = START

    # -- rows and timers ---------------------------------------------------------------------------------------------

    def rows(self, table: pl.DataFrame, low: int) -> pl.DataFrame:
        """Pass on the next rows, in the order of arrival."""
        return self._passed(table, low, START)

    def advance(self, table: pl.DataFrame, low: int) -> pl.DataFrame:
        """Pass on rows in the order of their times, and timers between them and up to ``low``; end old states."""
        made = self._passed(table, START, low) if self._timers else empty(self._task.output)
        if low == END:
            self._dirty.update(self._states)
            self._states.clear()
        elif self._expires and low - self._swept > self._expires // 4:
            self._swept = low
            for key in [
                key for key, each in self._states.items() if each.last + self._expires <= low and not each.timers
            ]:
                del self._states[key]
                self._dirty.add(key)
        return made

    def _passed(self, table: pl.DataFrame, low: int, until: int) -> pl.DataFrame:
        rows, times = dictionaries(table), table.get_column("time").cast(pl.Int64).to_list()
        groups = self._groups(table)
        results: list[tuple[tuple[Any, ...], Any, Any]] = []  # place, see `PLACES`, result, key
        found: Iterable[tuple[Any, ...]]
        if self._timers:
            for key, state in self._states.items():
                if state.timers and state.timers[0] <= until:
                    groups.setdefault(key, [])
            # What a timer sets must not depend on where the punctuations were: at the end it holds if a row came later.
            known = (each.last for each in self._states.values())
            latest = max((*times, *known), default=START) if until == END else END
            for key, places in groups.items():
                self._key_with_timers(key, rows, times, places, until, latest, results)
                self._progressed()
            results.sort(key=lambda each: each[0])
            made = [each[1] for each in results]
            causes, found = [each[0][0] for each in results], (each[0] for each in results)
            source = self._of_keys([each[2] for each in results])
        else:
            made, at = [], list[int]()
            for key, places in groups.items():
                self._key_without(key, rows, times, places, made, at)
                self._progressed()
            order = sorted(range(len(at)), key=at.__getitem__)  # one key's results are in order, and stay so
            made, taken = [made[each] for each in order], [at[each] for each in order]
            causes = [times[each] for each in taken]
            found = ((times[each], 1, b"", each, number) for number, each in enumerate(taken))
            source = table.select(self._key)[taken] if taken else table.clear().select(self._key)
        self._dirty.update(groups)
        if not self._tried and groups:
            self._tried = True
            self._encoded(self._states[next(iter(groups))])
        return self._table(made, causes, found, source, low)

    def _groups(self, table: pl.DataFrame) -> dict[Any, list[int]]:
        """The places of the rows of each key."""
        places = pl.int_range(pl.len()).alias(_OF_KEY)
        found = table.select(*self._key, places).group_by(self._key, maintain_order=True).agg(_OF_KEY)
        keys = found.get_column(self._key[0]).to_list() if len(self._key) == 1 else found.select(self._key).rows()
        return dict(zip(map(_same, keys), found.get_column(_OF_KEY).to_list(), strict=True))

    def _key_without(
        self, key: Any, rows: Sequence[Any], times: Sequence[int], places: Sequence[int], made: list[Any], at: list[int]
    ) -> None:
        """Pass the rows of a key on, in one go; where its state has ended meanwhile, to a new one."""
        start, state = 0, self._state(key)
        while start < len(places):
            end = len(places)
            if self._expires:
                for number in range(start, end):
                    time = times[places[number]]
                    if state.last != START and time >= state.last + self._expires:
                        if number == start:
                            state = self._states[key] = _State(self._made())
                        else:
                            end = number
                            break
                    state.last = max(state.last, time)
            walk = _Walk(rows, times, places, start, end)
            try:
                for each in state.object.on_rows(key, walk):
                    if type(each) is Wake:
                        raise FunctionError(f"class {self._name}: a timer; expected a method on_time(self, key, time)")
                    made.append(each)
                    at.append(walk.at)
                if at and at[-1] < 0:
                    raise FunctionError(f"class {self._name}: on_rows yields before it has taken a row; expected after")
            except ANYTHING as error:
                raise self._explained(error) from None
            start = end

    def _key_with_timers(
        self,
        key: Any,
        rows: Sequence[Any],
        times: Sequence[int],
        places: Sequence[int],
        until: int,
        latest: int,  # time up to which timers may set others
        results: list[Any],
    ) -> None:
        state = self._state(key)
        name = _state_values.encoded(key) if not isinstance(key, bytes) else key
        walk = _Walk(rows, times, places, 0, len(places), state, self._expires)
        number = 0
        while True:
            upto = times[places[walk.next]] if walk.next < len(places) else until
            if state.timers and state.timers[0] <= upto:
                due = state.timers.pop(0)
                at = EPOCH + dt.timedelta(microseconds=due)
                for made in self._stepped(state.object.on_time, key, at):
                    number += 1
                    if isinstance(made, Wake):
                        if due <= latest:
                            self._set(state, made, due)
                    else:
                        results.append(((due, 0, name, -1, number), made, key))
                continue
            if walk.next >= len(places):
                return
            begins = times[places[walk.next]]
            if self._expires and state.last != START and begins >= state.last + self._expires:
                state = self._states[key] = _State(self._made())
                walk.state = state
            before = walk.next
            for made in self._stepped(state.object.on_rows, key, walk):
                if walk.at < 0:
                    raise FunctionError(f"class {self._name}: on_rows yields before it has taken a row; expected after")
                number += 1
                if isinstance(made, Wake):
                    self._set(state, made, times[walk.at])
                else:
                    results.append(((times[walk.at], 1, name, walk.at, number), made, key))
            if walk.next == before:  # it takes no row: the others are nothing to it
                walk.next = len(places)

    def _stepped(self, method: Callable[[Any, Any], Iterator[Any] | None], key: Any, what: Any) -> Iterator[Any]:
        try:
            made = method(key, what)
            if inspect.isgenerator(made):
                yield from made
            elif made is not None:
                what = f"on_time returns {type(made).__name__}; expected None, or a generator: yield its rows"
                raise FunctionError(f"class {self._name}: {what}")
        except ANYTHING as error:
            raise self._explained(error) from None

    def _set(self, state: _State, timer: Wake, now: int) -> None:
        at = moment(timer.time)
        if at is None:
            raise FunctionError(f"class {self._name}: Wake({timer.time!r}); expected a datetime")
        at = max(at, now)
        place = bisect.bisect_left(state.timers, at)
        if place == len(state.timers) or state.timers[place] != at:
            state.timers.insert(place, at)

    def _state(self, key: Any) -> _State:
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(self._made())
        return state

    def _made(self) -> Any:
        try:
            return self._content.call(*self._loaded())
        except ANYTHING as error:
            raise self._explained(error) from None

    def _of_keys(self, keys: Sequence[Any]) -> pl.DataFrame:
        """The columns of keys."""
        kinds = {name: TYPES[self._task.input[name]] for name in self._key}
        rows = [(key,) for key in keys] if len(self._key) == 1 else keys
        return pl.DataFrame(rows, schema=kinds, orient="row")

    def _table(
        self,
        made: Sequence[Any],
        causes: Sequence[int],  # time of the row or timer of each, microseconds
        places: Iterable[tuple[Any, ...]],  # of each, the values of `PLACES`
        keys: pl.DataFrame,
        low: int,
    ) -> pl.DataFrame:
        """The table of all results, in order."""
        if not made:
            return empty(self._task.output)
        table = of_rows(self._name, made, self._new, (), None)
        source = pl.DataFrame({"time": pl.Series(causes, dtype=pl.Int64).cast(pl.Datetime("us"))})
        table = fitted(self._name, table, source, self._task, self._new, low)
        if PLACES.keys() <= self._task.output.keys():
            schema = {name: TYPES[kind] for name, kind in PLACES.items()}
            table = table.with_columns(pl.DataFrame(list(places), schema=schema, orient="row"))
        return table.with_columns(
            each for each in keys if each.name in self._task.output and each.name != "time"
        ).select(list(self._task.output))

    # -- saved states ------------------------------------------------------------------------------------------------

    def measure(self) -> tuple[int, int]:
        """Number of keys, and bytes of their states, estimated."""
        return len(self._states), len(self._states) * self._size

    def save(self) -> pl.DataFrame:
        """All states."""
        self._dirty.clear()
        return self._saved(self._states)

    def changed(self) -> pl.DataFrame:
        """The states that have changed since the last call of this or of :meth:`save`; NULL for one that has ended."""
        changed = {key: self._states.get(key) for key in self._dirty}
        self._dirty.clear()
        return self._saved(changed)

    def load(self, table: pl.DataFrame) -> pl.DataFrame:
        """Replace all states by saved ones; of several of a key the last holds."""
        self._states.clear()
        self._dirty.clear()
        for name, data, last, timers in table.iter_rows():
            key = _same(_state_values.decoded(name))
            if data is None:
                self._states.pop(key, None)
                continue
            made = self._made()
            saved = _state_values.decoded(data)
            if hasattr(made, "restore"):
                made.restore(saved)
            else:
                made.__dict__.clear()
                made.__dict__.update(saved)
            self._states[key] = _State(made, last, _state_values.decoded(timers))
        return table.clear()

    def _saved(self, states: Mapping[Any, _State | None]) -> pl.DataFrame:
        columns: dict[str, list[Any]] = {name: [] for name in SAVED}
        size = 0
        for key, state in states.items():
            columns["key"].append(_state_values.encoded(key))
            columns["state"].append(None if state is None else self._encoded(state))
            columns["last"].append(START if state is None else state.last)
            columns["timers"].append(_state_values.encoded([] if state is None else state.timers))
            size += len(columns["key"][-1]) + len(columns["state"][-1] or b"") + 300
        if states:
            self._size = max(size // len(states), 1)
        return pl.DataFrame(columns, schema=SAVED)

    def _encoded(self, state: _State) -> bytes:
        made = state.object
        own = hasattr(made, "snapshot")
        try:
            if own:
                return _state_values.encoded(made.snapshot())
            return _state_values.encoded(dict(vars(made)))
        except TypeError as error:
            if not own:
                for name, value in vars(made).items():
                    try:
                        _state_values.encoded(value)
                    except TypeError as reason:
                        what = f"class {self._name}: state {name!r}: {reason}"
                        expected = f"{_state_values.EXPECTED}, or methods snapshot() and restore(saved)"
                        raise FunctionError(f"{what}; expected {expected}") from None
            raise FunctionError(f"class {self._name}: snapshot(): {error}; expected {_state_values.EXPECTED}") from None
