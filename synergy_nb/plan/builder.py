"""How a plan is written down in Python.

>>> packets = source("packets", seed=1, rate="1000 tuples/s")
>>> on_b = packets.filter("link = 'B'").project("source", "destination", "bytes")
>>> sums = on_b.aggregate(by=["source", "destination"], window="20 min", total="sum(bytes)")
>>> top = sums.sort("total desc").compare("total", "95 %", count=sums.count())
>>> query = top.sink(name="top pairs", delay="20 s", miss_rate="5 %")
>>> list(query.operators)
['source', 'filter', 'project', 'aggregate', 'sort', 'count', 'compare', 'sink']
>>> query.stream_name("filter")
"filter[link = 'B'](packets[seed=1])"

A :class:`Stream` is a promise: nothing is checked until a sink makes a :class:`Plan` of it, which then names all that
is wrong at once. The kinds of operators and their parameters are in :mod:`synergy_nb.plan.catalogue`, and told with
examples in ``docs/plans.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from synergy_nb.errors import door
from synergy_nb.plan.checking import Operator, QoS
from synergy_nb.plan.queryplan import Plan
from synergy_nb.plan.units import nearest

__all__ = ["Stream", "plan", "source"]

_PROFILE: Final = ("id", "cost", "selectivity", "at", "engine")
#: Arguments of methods that are no parameters of the operator.
_BESIDE: Final = {"compare": ("count",), "sink": ("delay", "miss_rate", "throughput", "availability", "memory")}


class Stream:
    """The stream of an operator that is being drawn up; its methods add operators that read it.

    All methods take ``id`` (unique in the plan; default: the kind, numbered if there are several), ``cost`` (profiled
    seconds a tuple, with unit), ``selectivity`` (profiled tuples out over tuples in), ``at`` (name of the peer that
    the operator is pinned to) and ``engine`` (``peer``, ``spark`` or ``auto``, which decides by rates and windows).
    """

    __slots__ = ("_inputs", "_kind", "_params", "_profile", "_rows")

    @door
    def __init__(
        self,
        kind: str,
        params: Mapping[str, Any],
        inputs: Sequence[Stream],
        profile: Mapping[str, Any],
        rows: Any = None,
    ):
        valid = (*params, *_BESIDE.get(kind, ()), *_PROFILE)
        for unknown in sorted(set(profile) - set(_PROFILE)):
            near = nearest(unknown, valid)
            hint = f"; did you mean {near!r}?" if near is not None else ""
            raise TypeError(f"{kind}: unknown argument {unknown!r}; expected one of {', '.join(valid)}{hint}")
        for stream in inputs:
            if not isinstance(stream, Stream):
                raise TypeError(f"{kind}: input {stream!r}; expected a stream")
        self._kind = kind
        self._params = {name: value for name, value in params.items() if value is not None}
        self._inputs = tuple(inputs)
        self._profile = dict(profile)
        self._rows = rows  # of a source: what it is fed with

    def filter(self, where: str, **profile: Any) -> Stream:
        """Keep the tuples for which a condition is true.

        Parameters
        ----------
        where
            SQL of the subset in ``docs/plans.md``; text in single quotes: ``"link = 'B' AND bytes > 1000"``.
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.
        """
        return Stream("filter", {"where": where}, [self], profile)

    def project(
        self, *columns: str | Mapping[str, str], id: str | None = None, cost: Any = None,  # noqa: A002 - as everywhere
        selectivity: float | None = None, at: str | None = None, engine: str | None = None, **named: str,
    ) -> Stream:  # fmt: skip
        """New columns from SQL expressions; ``time`` and the bounds of windows are kept by themselves.

        Parameters
        ----------
        columns
            Names of columns to keep, or mappings of new column to expression (for names that are no Python names).
        named
            New column to expression, as in ``project("source", kB="bytes / 1000")``.
        id, cost, selectivity, at, engine
            See :class:`Stream`.
        """
        profile = _given(id=id, cost=cost, selectivity=selectivity, at=at, engine=engine)
        return Stream("project", {"columns": _columns(columns, named)}, [self], profile)

    def union(self, *others: Stream, **profile: Any) -> Stream:
        """All tuples of this and other streams.

        Parameters
        ----------
        others
            At least one; with the same columns, in the same order, and equal windows.
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.
        """
        return Stream("union", {}, [self, *others], profile)

    def aggregate(
        self, by: str | Iterable[str] = (), window: Any = None, values: Mapping[str, str] | None = None, *,
        id: str | None = None, cost: Any = None, selectivity: float | None = None,  # noqa: A002 - as everywhere
        at: str | None = None, engine: str | None = None, **named: str,
    ) -> Stream:  # fmt: skip
        """One tuple a group and window.

        Parameters
        ----------
        by
            Columns to group by, in any order: they come out in alphabetical order. Default: one group.
        window
            ``"20 min"``, ``"20 min every 5 min"``, ``"2 min gap"`` (sessions) or ``"1000 rows"``; needed.
        values, named
            New column to aggregate call, as in ``total="sum(bytes)"``: count(*), count(x), count(distinct x), sum(x),
            min(x), max(x) or avg(x).
        id, cost, selectivity, at, engine
            See :class:`Stream`.
        """
        columns = [by] if isinstance(by, str) else list(by)
        params = {"by": columns, "window": window, "values": {**(values or {}), **named}}
        profile = _given(id=id, cost=cost, selectivity=selectivity, at=at, engine=engine)
        return Stream("aggregate", params, [self], profile)

    def sort(self, *by: str, window: Any = None, **profile: Any) -> Stream:
        """Order the tuples of each window, as in ``sort("total desc", "source")``.

        Parameters
        ----------
        by
            Columns, each alone or with ``desc``; the remaining columns break ties.
        window
            Needed where this stream has no windows yet, refused where it has.
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.
        """
        return Stream("sort", {"by": list(by), "window": window}, [self], profile)

    def count(self, name: str = "n", window: Any = None, **profile: Any) -> Stream:
        """The number of tuples of each window, as one tuple.

        Parameters
        ----------
        name
            Column of the number.
        window
            Needed where this stream has no windows yet, refused where it has.
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.
        """
        return Stream("count", {"name": name, "window": window}, [self], profile)

    def compare(
        self, value: str, fraction: Any, *, by: str | Iterable[str] | None = None, count: Stream | None = None,
        **profile: Any,
    ) -> Stream:  # fmt: skip
        """Keep the tuples whose ``value`` is larger than that of more than ``fraction`` of their window's tuples.

        Parameters
        ----------
        value
            A column of type int, float, str or time. This stream needs windows.
        fraction
            ``"95 %"`` or 0.95.
        by
            Compare within groups of equal values of these columns.
        count
            A count of the same windows, if one is at hand; not with ``by``.
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.
        """
        columns = [by] if isinstance(by, str) else None if by is None else list(by)
        params = {"value": value, "fraction": fraction, "by": columns}
        return Stream("compare", params, [self] if count is None else [self, count], profile)

    def join(self, other: Stream, on: str | Iterable[str], within: Any, suffix: str | None = None, **profile: Any
             ) -> Stream:  # fmt: skip
        """Pairs of tuples of this and another stream with equal columns and times that are close.

        Parameters
        ----------
        other
            The right stream.
        on
            Columns that are equal on both sides.
        within
            Times are at most this far apart: ``"5 s"``.
        suffix
            Added to a right column whose name is taken; default ``_right``.
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.
        """
        params = {"on": [on] if isinstance(on, str) else list(on), "within": within, "suffix": suffix}
        return Stream("join", params, [self, other], profile)

    def distinct(self, *on: str, window: Any = None, **profile: Any) -> Stream:
        """The first tuple of each window for each combination of values of some columns.

        Parameters
        ----------
        on
            Columns; default: all but time.
        window
            Needed where this stream has no windows yet, refused where it has.
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.
        """
        return Stream("distinct", {"on": list(on) or None, "window": window}, [self], profile)

    def sample(self, fraction: Any, seed: int = 0, **profile: Any) -> Stream:
        """A deterministic sample of the tuples.

        Parameters
        ----------
        fraction
            About this share of them: ``"10 %"`` or 0.1.
        seed
            Another seed, another sample.
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.
        """
        return Stream("sample", {"fraction": fraction, "seed": seed}, [self], profile)

    def encrypt(self, *columns: str, key: str, **profile: Any) -> Stream:
        """Encrypt columns; they become of type bytes.

        Parameters
        ----------
        columns
            At least one.
        key
            Name of the key; the key itself is never part of a plan (``Cluster(keys=...)``, ``synergy run --key``).
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.
        """
        return Stream("encrypt", {"columns": list(columns), "key": key}, [self], profile)

    def decrypt(self, columns: Mapping[str, str], *, key: str, **profile: Any) -> Stream:
        """Decrypt columns.

        Parameters
        ----------
        columns
            Column to the type that it had before it was encrypted.
        key
            Name of the key that it was encrypted with.
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.
        """
        return Stream("decrypt", {"columns": columns, "key": key}, [self], profile)

    def delay(self, cost: Any, component: str | None = None, **profile: Any) -> Stream:
        """Pass every tuple on unchanged, late, for experiments.

        Parameters
        ----------
        cost
            Time that each tuple takes: ``"10 us"``.
        component
            Name of one of many components that stand for different work: only peers that offer ``delay:NAME`` execute
            it, and its stream is another one than that of other names.
        profile
            ``id``, ``selectivity``, ``at``, see :class:`Stream`.
        """
        return Stream("delay", {"cost": cost, "component": component}, [self], profile)

    def sink(
        self, name: str | None = None, *, delay: Any = None, miss_rate: Any = None, throughput: Any = None,
        availability: Any = None, memory: Any = None, **profile: Any,
    ) -> Plan:  # fmt: skip
        """Make a plan that hands this stream over.

        Parameters
        ----------
        name
            Of the result, and of the plan.
        delay
            Limit of the end-to-end delay, ``"2 s"``: checked by the probes before anything runs, and measured.
        miss_rate
            Share of the tuples that may be later than ``delay``, ``"5 %"``: measured. Needs ``delay``.
        throughput
            At least this at the sink, ``"100 kB/s"`` or ``"1000 tuples/s"``: measured.
        availability
            Share of the time, ``"99.9 %"``, or replicas of each component, ``"degree 2"``, of which backups go on when
            a peer dies.
        memory
            Greatest memory that each operator may take on its peer, such as ``"256 MB"``. An operator that needs more
            fails with its application.
        profile
            ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.

        Raises
        ------
        PlanError
            Holding everything that is wrong.
        """
        end = Stream("sink", {"name": name}, [self], profile)
        qos = _given(delay=delay, miss_rate=miss_rate, throughput=throughput, availability=availability, memory=memory)
        return _built([end], qos, name or "plan")

    def __repr__(self) -> str:
        return f"<Stream of {self._profile.get('id') or self._kind}>"


@door
def source(connector: Any, **params: Any) -> Stream:
    """The stream of a source.

    Parameters
    ----------
    connector
        Rows of your own: a pandas, Polars or Arrow table, a :class:`~synergy_nb.runtime.feeds.Feed` to push rows into,
        or an iterable, asynchronous or not, of dictionaries or tables. Or the name of a connector: ``trace`` (a file
        is replayed), ``packets`` (packets are generated), ``peers`` (load and ping times of the peers) or ``python``
        (rows that ``submit(..., feeds={name: rows})`` gives).
    params
        The connector's parameters, below, and ``id``, ``cost``, ``selectivity``, ``at`` as for all operators.

        Of ``trace``:

        - ``path``: of the file; a relative one counts from the current directory
        - ``format``: csv, parquet, http, ncsa or tcp; all but parquet may be gzipped
        - ``columns``: of csv and parquet, and needed there: column to type (int, float, str, bool, time, bytes)
        - ``time``: of csv and parquet: the column that holds the event time and becomes ``time``; numbers are seconds
          since 1970. Default: the first of time, timestamp, ts, datetime, date among ``columns``
        - ``speed``: 1 replays in real time, 10 ten times as fast, 0 (default) as fast as possible
        - ``strict``: refuse any malformed line (default false)
        - ``tolerance``: share of malformed lines that are skipped (default 1 %); more are an error
        - ``lateness``: keep the order of the file, which is at most this much out of order; default: sort by time
        - ``rate``: tuples/s that are to be expected, for admission (default 1000)

        Of ``packets``:

        - ``seed`` (0), ``rate`` (1000 tuples/s), ``sources`` (64 ON/OFF sources), ``hosts`` (500), ``links`` (2, or
          names), ``alpha`` (1.4; tail index), ``zipf`` (1.0; popularity of hosts), ``start`` (0; seconds since 1970)
        - ``duration``, ``count``: end after so much event time, after so many packets; default: never
        - ``speed``: as above, but 1 by default

        Of ``peers``: ``interval`` between samples (1 s), ``rate`` (default: 10 tuples an interval).

        Parameters for rows of your own, and for the connector ``python``:

        - ``columns``: column to type; required for rows, and by default the columns of a table
        - ``time``: the column with the event time, which is called ``time`` in the stream. Default: of a table, the
          first of time, timestamp, ts, datetime, date that it has, or else its only column of times; otherwise ``time``
        - ``lateness``: rows may be this much older than rows before them; what is older still is dropped and counted.
          Default: rows that are out of order end the application (those of one table are put in order)
        - ``name``: the name by which ``submit(..., feeds={name: rows})`` feeds it; default: the id of the source
        - ``rate``: tuples/s that are to be expected, for admission (default 1000)

    Raises
    ------
    ValueError
        If rows of your own have no event time, or a column of a type that tuples do not have.

    Examples
    --------
    >>> source({"when": ["2026-01-01", "2026-01-02"], "amount": [1.5, 2.0]}, time="when").sink("sales").schema("source")
    {'time': 'time', 'amount': 'float'}
    >>> source("trace", path="sales.csv", format="csv", columns={"time": "time", "user": "str", "amount": "float"})
    <Stream of source>
    """
    profile: dict[str, Any] = {name: params.pop(name) for name in _PROFILE if name in params}
    if isinstance(connector, str):
        return Stream("source", {"connector": connector, **params}, [], profile)
    from synergy_nb.plan.frames import described  # noqa: PLC0415 - plans without rows need no Polars

    rows, params = described(connector, params)
    return Stream("source", {"connector": "python", **params}, [], profile, rows)


@door
def plan(*plans: Plan, name: str | None = None, **qos: Any) -> Plan:
    """One plan of several sinks: ``plan(a.sink("x"), b.sink("y"), delay="2 s")``.

    Streams that the sinks have in common are in it once. Where ``qos`` says nothing, the strictest requirement among
    ``plans`` holds.

    Raises
    ------
    PlanError
        Holding everything that is wrong.
    """
    ends: list[Stream] = []
    for each in plans:
        if not isinstance(each, Plan):
            raise TypeError(f"plan: {each!r}; expected plans, as .sink() makes them")
        for end in each._drafts or _drafts_of(each):
            if end not in ends:
                ends.append(end)
    combined: dict[str, Any] = {}
    for field in QoS.__struct_fields__:
        wanted = [value for each in plans if (value := getattr(each.qos, field)) is not None]
        if wanted:
            combined[field] = min(wanted) if field in ("delay", "miss_rate", "memory") else max(wanted)
    title = name or (" and ".join(dict.fromkeys(each.name for each in plans))[:200] if plans else "plan")
    return _built(ends, {**combined, **qos}, title)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _columns(columns: Sequence[str | Mapping[str, str]], named: Mapping[str, str]) -> dict[str, Any]:
    from synergy_nb.plan.sql import quoted  # noqa: PLC0415 - kept beside its only use

    result: dict[str, Any] = {}
    for each in columns:
        if isinstance(each, Mapping):
            result.update(each)
        else:
            result[each] = quoted(each) if isinstance(each, str) else each
    return {**result, **named}


def _built(ends: Sequence[Stream], qos: Mapping[str, Any], name: str) -> Plan:
    """The plan of all streams that ``ends`` need."""
    order: list[Stream] = []
    waiting = [(end, False) for end in reversed(ends)]
    seen: set[int] = set()
    while waiting:  # depth first, inputs before the operator
        stream, done = waiting.pop()
        if done:
            order.append(stream)
        elif id(stream) not in seen:
            seen.add(id(stream))
            waiting.append((stream, True))
            waiting += [(up, False) for up in reversed(stream._inputs)]
    names: dict[int, str] = {id(stream): stream._profile["id"] for stream in order if stream._profile.get("id")}
    taken = set(names.values())
    for stream in order:
        if id(stream) not in names:
            number = 1
            while (own := stream._kind if number == 1 else f"{stream._kind}_{number}") in taken:
                number += 1
            taken.add(own)
            names[id(stream)] = own
    operators = [
        Operator(
            names[id(stream)],
            stream._kind,
            stream._params if stream._rows is None else {"name": names[id(stream)], **stream._params},
            tuple(names[id(up)] for up in stream._inputs),
            **{field: value for field, value in stream._profile.items() if field != "id"},
        )
        for stream in order
    ]
    built = Plan(operators, qos, name)
    object.__setattr__(built, "_drafts", tuple(ends))
    given = {names[id(stream)]: stream._rows for stream in order if stream._rows is not None}
    object.__setattr__(built, "_rows", given)
    return built


def _drafts_of(built: Plan) -> list[Stream]:
    """The streams at the ends of a plan that was read, not built."""
    streams: dict[str, Stream] = {}
    for name, operator in built.operators.items():
        profile = {"id": name, "engine": operator.engine, **_given(selectivity=operator.selectivity, at=operator.at)}
        if operator.cost is not None and operator.kind != "delay":
            profile["cost"] = operator.cost
        streams[name] = Stream(operator.kind, operator.params, [streams[up] for up in operator.inputs], profile)
    drafts = [streams[sink] for sink in built.sinks]
    object.__setattr__(built, "_drafts", tuple(drafts))
    return drafts
