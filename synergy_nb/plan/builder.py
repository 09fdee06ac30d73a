"""Builder of plans in Python.

>>> packets = source("packets", seed=1, rate="1000 tuples/s")
>>> on_b = packets.filter("link = 'B'").project("source", "destination", "bytes")
>>> sums = on_b.aggregate(by=["source", "destination"], window="20 min", total="sum(bytes)")
>>> top = sums.sort("total desc").compare("total", "95 %", count=sums.count())
>>> query = top.sink(name="top pairs", delay="20 s", miss_rate="5 %")
>>> list(query.operators)
['source', 'filter', 'project', 'aggregate', 'sort', 'count', 'compare', 'sink']
>>> query.stream_name("filter")
"filter[link = 'B'](packets[seed=1])"

A :class:`Stream` only describes operators: ``sink`` makes a :class:`Plan` of it, which is validated, and whose error
lists all problems at once. :mod:`synergy_nb.plan.operators.catalogue` declares the kinds of operators and their
parameters; :mod:`synergy_nb.plan.operators.methods` is generated from it, and ``docs/plans.md`` describes them with
examples.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from textwrap import fill, indent
from typing import Any, Final, Self

from synergy_nb.errors import user_facing
from synergy_nb.plan.checks.requirements import EQUAL, QOS_FIELDS
from synergy_nb.plan.checks.validation import Operator, PlanError, Problem
from synergy_nb.plan.functions.declaring import OwnFunction
from synergy_nb.plan.operators.catalogue import KINDS, parameters_of
from synergy_nb.plan.operators.methods import Methods
from synergy_nb.plan.operators.profile_fields import PROFILE
from synergy_nb.plan.operators.sources import CONNECTORS, OWN
from synergy_nb.plan.operators.tables import LOOKUP
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.terms.qos import QoS
from synergy_nb.plan.terms.result_names import named_like_a_file
from synergy_nb.plan.terms.units import WrongValues, did_you_mean
from synergy_nb.plan.text.stream_ids import chosen, needed

__all__ = ["Stream", "plan", "source", "table_stated", "with_rows"]

#: Arguments of methods that are not parameters of the operator.
_PROFILE: Final = ("id", *PROFILE)


class Stream(Methods):
    """The stream of an operator in a plan under construction; its methods add operators that read it.

    All methods take ``id`` (unique in the plan; default: the kind, numbered if there are several), ``cost`` (profiled
    core-seconds per tuple, with unit), ``selectivity`` (profiled tuples out over tuples in), ``at`` (name of the peer
    that the operator is pinned to), ``engine`` (``peer``, ``spark`` or ``auto``, which decides by rates and windows)
    and ``availability`` (its replicas, ``"degree 2"`` or ``"active 3"``; default: those that the plan asks for).
    """

    __slots__ = ("_inputs", "_kind", "_params", "_profile", "_rows")

    @user_facing
    def __init__(
        self,
        kind: str,
        params: Mapping[str, Any],
        inputs: Sequence[Stream],
        profile: Mapping[str, Any],
        rows: Any = None,
    ):
        ports = KINDS[kind].ports if kind in KINDS and KINDS[kind].inputs == (1, 2) else ()
        valid = dict.fromkeys((*params, *ports, *(QOS_FIELDS if kind == "sink" else ()), *_PROFILE))
        # The file has names for what methods take by position, too: sort(by="total desc") is sort("total desc").
        named = {name: profile[name] for name in profile if name not in _PROFILE and params.get(name) in ([], ())}
        params = {**params, **{name: [it] if isinstance(it, str) else it for name, it in named.items()}}
        profile = {name: value for name, value in profile.items() if name not in named}
        for unknown in sorted(set(profile) - set(_PROFILE)):
            if unknown in params:
                raise TypeError(f"{kind}: {unknown}: {profile[unknown]!r}; expected it once, by position or by name")
            hint = did_you_mean(unknown, valid)
            raise TypeError(f"{kind}: unknown argument {unknown!r}; expected one of {', '.join(valid)}{hint}")
        for stream in inputs:
            if not isinstance(stream, Stream):
                raise TypeError(f"{kind}: input {stream!r}; expected a stream")
        if kind == LOOKUP.kind and "table" in params:
            params = {**params, "table": table_stated(params["table"])}
        if isinstance(own := params.get("function"), OwnFunction):
            params = own.parameters(kind, params)
        self._kind = kind
        self._params = {name: value for name, value in params.items() if value is not None}
        self._inputs = tuple(inputs)
        self._profile = dict(profile)
        self._rows = rows  # rows of a source that ``source(rows)`` made

    def operator(self, kind: str, *others: Self, id: str | None = None, **params: Any) -> Self:  # noqa: A002
        """Add an operator of any declared kind, including your own.

        Parameters
        ----------
        kind
            Kind of the operator.
        others
            Further streams that it reads.
        id
            Id of the operator in the plan.
        params
            Parameters of the operator by name, and ``cost``, ``selectivity``, ``at``, ``engine``, ``availability`` as
            for all operators.
        """
        own = KINDS[kind].parameters if kind in KINDS else {}
        profile = {name: params.pop(name) for name in PROFILE if name in params and name not in own}
        return self._then(kind, others, params, _not_none(id=id, **profile))

    def _then(self, kind: str, others: Sequence[Self], params: Mapping[str, Any], profile: Mapping[str, Any]) -> Self:
        return type(self)(kind, params, [self, *others], profile)

    def sink(
        self, name: str | None = None, *, to: Any = None, delay: Any = None,
        miss_rate: Any = None, throughput: Any = None, availability: Any = None, replica_distance: Any = None,
        memory: Any = None, scheduling: str | None = None, overdue: str | None = None, hotspots: str | None = None,
        on_death: str | None = None, **profile: Any,
    ) -> Plan:  # fmt: skip
        """Make a plan whose result is this stream.

        Parameters
        ----------
        name
            Name of the result, and of the plan. It writes no file: ``to`` does, or ``synergy run --out name.parquet``.
        to
            Destination to which the results are written while they arrive, each row once:
            :func:`~synergy_nb.parquet`, :func:`~synergy_nb.csv` or :func:`~synergy_nb.jsonl`. Default: they are only
            retained for their readers.
        delay
            Limit of the end-to-end delay, ``"2 s"``. Probes check it before anything runs, and sinks measure it.
        miss_rate
            Share of the tuples that may be later than ``delay``, ``"5 %"``; sinks measure it. Needs ``delay``.
        throughput
            Least throughput, ``"100 kB/s"`` or ``"1000 tuples/s"``; sinks measure it.
        availability
            Least availability as a share of the time, ``"99.9 %"``, or number of replicas of each component,
            ``"degree 2"``. Backups take over when a peer dies. With ``"active 3"`` three peers execute each operator,
            and readers use each tuple from the first of them: no result is late when a peer dies. With
            ``"synchronized 2"`` each component holds its output until its backup has it; with ``"ordered 2"`` two peers
            execute it in the same order, and one sends. Operators may have an ``availability`` of their own.
        replica_distance
            Round trip that two active replicas of an operator have to exceed, ``"30 ms"``, so that no failure of one
            site or network ends all of them. Where there is no such peer, an operator has fewer replicas. Default: any.
        memory
            Limit of the memory of each operator on its peer, such as ``"256 MB"``. If an operator needs more, it fails
            with its application.
        scheduling
            Order in which peers execute its tuples: ``"fcfs"``, ``"edf"`` (earliest deadline first) or
            ``"least_slack"``. Default: that of each peer. The last two need ``delay``.
        overdue
            Policy for a tuple that is later than ``delay`` before it is at the sink: ``"keep"``, or ``"drop"``, by
            which peers do not execute it but count it as missed. Default: it is kept.
        hotspots
            Mode of hot spots, where an operator has no time left until ``delay``: ``"on"``, operators leave the peer;
            ``"observe"``, the journal states what would leave, and nothing moves; ``"off"``, its operators cause no
            migration, and none of them moves. Default: the mode of each peer; a peer never does more than its own.
        on_death
            Effect of the death of a peer that executes an operator without a backup: ``"restart"``, the application is
            composed anew, and goes on from what its sources still have; or ``"fail"``. Default: ``"restart"`` in a
            durable cluster, where it goes on from its folder, else ``"fail"``.
        profile
            Options ``id``, ``cost``, ``selectivity``, ``at``, ``engine``, see :class:`Stream`.

        Raises
        ------
        PlanError
            If the plan is invalid; it holds all problems.
        """
        if notice := named_like_a_file(f"sink({name!r})", name):
            warnings.warn(notice, stacklevel=2)
        end = Stream("sink", {"name": name, "to": to}, [self], profile)
        qos = _not_none(
            delay=delay, miss_rate=miss_rate, throughput=throughput, availability=availability,
            replica_distance=replica_distance, memory=memory, scheduling=scheduling, overdue=overdue, hotspots=hotspots,
            on_death=on_death,
        )  # fmt: skip
        return _built([end], qos, name or "plan")

    def __repr__(self) -> str:
        return f"<Stream of {self._profile.get('id') or self._kind}>"


@user_facing
def source(connector: Any, **params: Any) -> Stream:
    """Make the stream of a source.

    Parameters
    ----------
    connector
        Rows of your own: a pandas, Polars or Arrow table, a :class:`~synergy_nb.runtime.client.feeds.Feed` to push rows
        into, or an iterable, asynchronous or not, of dictionaries or tables. Or the name of a connector: ``trace`` (a
        file is replayed), ``packets`` (packets are generated), ``peers`` (load and ping times of the peers) or
        ``python`` (rows that ``submit(..., feeds={name: rows})`` gives).
    params
        The connector's parameters, below, and ``id``, ``cost``, ``selectivity``, ``at`` as for all operators.

        .. parameters

    Raises
    ------
    ValueError
        If rows of your own have no event time, or a column has a type that tuples cannot have.

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
    if isinstance(connector, OwnFunction):
        return Stream("source", {"connector": OWN, "function": connector, **params}, [], profile)
    from synergy_nb.plan.data_frames import described  # noqa: PLC0415 - plans without rows need no Polars

    rows, params = described(connector, params)
    return Stream("source", {"connector": "python", **params}, [], profile, rows)


def _parameter_help() -> str:
    """List the parameters of all connectors, for the docstring of :func:`source`."""
    lines: list[str] = []
    for connector, parameters in CONNECTORS.items():
        lines += [f"Of ``{connector}``:", ""]
        lines += [f"- ``{name}``: {each.help} (default: {each.default_text})" for name, each in parameters.items()]
        lines.append("")
    wrapped = (fill(line, 108, subsequent_indent="  " * line.startswith("-")) for line in lines)
    return indent("\n".join(wrapped), " " * 8).replace("`", "``").replace("````", "``")


source.__doc__ = (source.__doc__ or "").replace("        .. parameters\n", _parameter_help())


@user_facing
def plan(*plans: Plan, name: str | None = None, order: Sequence[str] | None = None, **qos: Any) -> Plan:
    """Combine plans to one with several sinks: ``plan(a.sink("x"), b.sink("y"), delay="2 s")``.

    It contains common streams once. For fields that ``qos`` omits, the strictest requirement of ``plans`` applies;
    their ``scheduling``, ``overdue``, ``hotspots`` and ``on_death`` must be equal.

    Parameters
    ----------
    plans
        Plans to combine.
    name
        Name of the plan. Default: those of ``plans``.
    order
        Ids of all operators in the order in which files and views list them, inputs before their readers. Default:
        depth first from the sinks.
    qos
        Fields of the QoS requirement, as for :meth:`Stream.sink`.

    Raises
    ------
    PlanError
        If the plan is invalid; it holds all problems.
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
        if field in EQUAL and field not in qos and len(set(wanted)) > 1:
            expected = f"the same of all plans, or one for all of them: plan(..., {field}={wanted[0]!r})"
            raise PlanError([Problem("", f"qos.{field}", " and ".join(dict.fromkeys(wanted)), expected)])
        if wanted:
            combined[field] = min(wanted) if field in ("delay", "miss_rate", "memory") else max(wanted)
    title = name or (" and ".join(dict.fromkeys(each.name for each in plans))[:200] if plans else "plan")
    return _built(ends, {**combined, **qos}, title, order)


def _not_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def table_stated(value: Any) -> Any:
    """What a plan states of a data frame; a path, and what states it already, unchanged.

    Raises ``DataFrameError`` if it is a data frame that cannot be looked up.
    """
    if isinstance(value, str | PathLike) or (
        isinstance(value, Mapping) and isinstance(value.get("content", value.get("path")), str)
    ):
        return value
    from synergy_nb.plan.data_frames import DataFrameError, is_frame, normal, single_use  # noqa: PLC0415 - as above
    from synergy_nb.plan.tables.lookup_tables import terms_of  # noqa: PLC0415 - as above

    rows = isinstance(value, list | tuple) and bool(value) and all(isinstance(row, Mapping) for row in value)
    if not rows and not is_frame(value):
        return value
    try:
        return terms_of(normal(value.read_all() if single_use(value) else value))
    except WrongValues as wrong:
        raise DataFrameError(f"lookup: table: {wrong}") from None


def _built(ends: Sequence[Stream], qos: Mapping[str, Any], name: str, listed: Sequence[str] | None = None) -> Plan:
    """Build the plan of all streams that ``ends`` need, in the order of ``listed`` ids or else depth first."""
    streams = {id(stream): stream for stream in needed(ends, lambda stream: stream._inputs, id)}
    names = chosen({key: (stream._kind, stream._profile.get("id")) for key, stream in streams.items()})
    order = list(streams.values())
    if listed is not None:
        if sorted(listed) != sorted(names.values()):
            expected = f"the ids of all operators, each once ({', '.join(names.values())})"
            raise PlanError([Problem("", "order", list(listed), expected)])
        order.sort(key=lambda stream: listed.index(names[id(stream)]))
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
    built = Plan(operators, qos, name).stating(
        {names[id(stream)]: {*stream._params, *stream._profile} for stream in order}
    )
    object.__setattr__(built, "_drafts", tuple(ends))
    given = {names[id(stream)]: stream._rows for stream in order if stream._rows is not None}
    object.__setattr__(built, "_rows", given)
    return built


def with_rows(built: Plan, rows: Mapping[str, Any]) -> Plan:
    """Give the sources of a plan their rows, by the name of the source.

    ``built``: plan without rows; ``rows``: name of a source of connector ``python`` to its rows, as ``source(rows)``
    takes them.
    """
    given = {
        name: rows[operator.params["name"]]
        for name, operator in built.operators.items()
        if operator.params.get("connector") == "python" and operator.params["name"] in rows
    }
    if given:
        object.__setattr__(built, "_rows", given)
    return built


def _drafts_of(built: Plan) -> list[Stream]:
    """Streams at the sinks of a plan that was decoded, not built."""
    streams: dict[str, Stream] = {}
    for name, operator in built.operators.items():
        stated = built._stated.get(name, ())
        profile: dict[str, Any] = {"id": name}
        profile |= {"engine": operator.engine} if operator.engine != "auto" or "engine" in stated else {}
        profile |= _not_none(selectivity=operator.selectivity, at=operator.at, availability=operator.availability)
        if operator.cost is not None and not KINDS[operator.kind].cost_from:
            profile["cost"] = operator.cost
        own = parameters_of(operator.kind, operator.params)
        params = {each: it for each, it in operator.params.items() if each in stated or it != own[each].default}
        streams[name] = Stream(operator.kind, params, [streams[up] for up in operator.inputs], profile)
    drafts = [streams[sink] for sink in built.sinks]
    object.__setattr__(built, "_drafts", tuple(drafts))
    return drafts
