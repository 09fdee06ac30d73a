"""Validation of plans before they start: operators are brought to normal form, and all problems found at once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from synergy_nb.errors import SynergyError
from synergy_nb.plan.operators.catalogue import KINDS, parameters_of
from synergy_nb.plan.operators.declaration import REQUIRED
from synergy_nb.plan.operators.engines import ENGINES, off_spark
from synergy_nb.plan.operators.profile_fields import PROFILE, own_replicas
from synergy_nb.plan.operators.schemas import Derivation, Schema
from synergy_nb.plan.operators.sources import CONNECTOR, DIVISIBLE
from synergy_nb.plan.terms.known_functions import known as known_function
from synergy_nb.plan.terms.naming import ID, is_id, suggested_id
from synergy_nb.plan.terms.units import WrongValue, WrongValues, nearest

__all__ = [
    "NO_TRANSITION",
    "Checked",
    "Operator",
    "PlanError",
    "Problem",
    "StreamWork",
    "Switch",
    "Transition",
    "check",
    "check_graph",
    "check_parameters",
    "check_profile",
    "check_replicas",
    "event_time_of",
]

#: Largest number of paths from a source to a sink: composition sends probes along each.
MOST_ROUTES: Final = 4096
_MOST_OPERATORS: Final = 1000
_LONGEST_SHOWN: Final = 200  # characters of an id that is none, by which errors name its operator
#: Fields of operators other than parameters; a misspelt parameter may be one of them.
_FIELDS: Final = ("input", "inputs", "cost", "selectivity", "engine", "availability")


class Problem(msgspec.Struct, frozen=True):
    """One problem of a plan.

    Parameters
    ----------
    operator
        Id of the operator; empty for a problem of the plan as a whole.
    field
        Parameter or part, such as ``where``, ``columns.total`` or ``inputs``.
    value
        Value in the plan, or the invalid part of it.
    expected
        Description of a valid value, in words.
    nearest
        Valid name with the most similar spelling, if there is one.
    """

    operator: str
    field: str
    value: Any
    expected: str
    nearest: str | None = None

    def __str__(self) -> str:
        field = _cut(self.field, _LONGEST_SHOWN)
        where = f"operator {_cut(self.operator, _LONGEST_SHOWN)!r}, {field}" if self.operator else field
        found = "missing" if self.value is None else _cut(repr(self.value), 120)
        hint = f"; did you mean {_cut(self.nearest, _LONGEST_SHOWN)!r}?" if self.nearest is not None else ""
        return " ".join(f"{where}: {found}; expected {_cut(self.expected, 4000)}{hint}".split())


def _cut(text: str, most: int) -> str:
    """Cut a text that a user may have made as long as he likes."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


SHOWN: Final = 50  # problems that the text of an error lists


class PlanError(SynergyError, ValueError):
    """A plan is invalid; the text lists all of its problems.

    Parameters
    ----------
    problems
        Problems, causes first: form of the file, requirements, kinds and parameters in the order of the plan; then
        inputs; then operators without a path to a sink. Problems that only follow from another one are left out.

    Examples
    --------
    >>> from synergy_nb import PlanError, source
    >>> try:
    ...     source("packets").filter("byts > 1000").sink()
    ... except PlanError as error:
    ...     [(problem.field, problem.nearest) for problem in error.problems]
    [('where', 'bytes')]
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        number = len(self.problems)
        heading = "the plan has a problem:" if number == 1 else f"the plan has {number} problems:"
        more = [f"  - and {number - SHOWN} more"] if number > SHOWN else []
        super().__init__("\n".join([heading, *(f"  - {problem}" for problem in self.problems[:SHOWN]), *more]))

    def __reduce__(self) -> tuple[type[PlanError], tuple[tuple[Problem, ...]]]:
        return PlanError, (self.problems,)


Form: TypeAlias = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...] | None, tuple[str, ...]]
"""The fields of a :class:`~synergy_nb.plan._stream_names.StreamForm`."""


class StreamWork(msgspec.Struct, frozen=True):
    """What an operator does, with the streams that it does it with: that names a stream."""

    kind: str
    params: dict[str, Any]
    inputs: tuple[Form, ...]


class Operator(msgspec.Struct, frozen=True):
    """An operator o of a query plan.

    Parameters
    ----------
    id
        Id, unique in the plan.
    kind
        Kind of operator, as in the catalogue.
    params
        Parameters of the operator. In a plan in normal form: durations in seconds, SQL in its canonical text, lists
        sorted where order means nothing.
    inputs
        Ids of the operators whose streams it reads, by port.
    cost
        Profiled mean execution time of a tuple, seconds; None: the default of its kind.
    selectivity
        Profiled tuples out over tuples in; None: the default of its kind.
    at
        Name of the peer that it is pinned to.
    engine
        Engine that executes it: ``peer``, ``spark``, or ``auto``, which leaves the choice to the peer at which the plan
        is submitted.
    availability
        Replicas that it has, ``degree 2`` or ``active 3``; None: those that the plan asks for.
    ports
        Number of the port that each input belongs to, where active replicas of one operator feed a port together; empty
        where each input has a port of its own. Only :mod:`~synergy_nb.plan.derived.active_replicas` sets it.
    replica_of
        Id of the operator of which this is a further active replica; empty for every other operator.
    makes
        The work whose stream it makes, where it makes that stream in another way; None: its own work. Only
        :mod:`~synergy_nb.plan.derived.coarser_windows` sets it.
    """

    id: str
    kind: str
    params: dict[str, Any] = {}
    inputs: tuple[str, ...] = ()
    cost: float | None = None
    selectivity: float | None = None
    at: str | None = None
    engine: str = "auto"
    availability: str | None = None
    ports: tuple[int, ...] = ()
    replica_of: str = ""
    makes: StreamWork | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        """One input for each port: of active replicas, which make the same stream, the first.

        >>> Operator("join", "join", inputs=("a", "a~1", "b"), ports=(0, 0, 1)).streams
        ('a', 'b')
        """
        if not self.ports:
            return self.inputs
        return tuple(self.inputs[self.ports.index(port)] for port in range(max(self.ports) + 1))


class Switch(msgspec.Struct, frozen=True):
    """How a sink goes on from the rows of one plan to those of another one, which takes its place."""

    # number: number of the change of the application; inputs: number of each input, which no other stream that the sink
    # has ever read has: of the rows that it gives, and of those that come next. A single one: the change is done
    number: int
    inputs: tuple[int, ...]
    # stream, former: what the rows are, as their destination knows them, and what those before them were
    stream: str
    former: tuple[str, ...] = ()
    # settles, period: event time until rows of the new plan are complete, after it has joined its streams, and from one
    # end of windows of both plans to the next; seconds
    settles: float = 0.0
    period: float = 0.0

    def point(self, joined: Iterable[int]) -> int:
        """Return the event time up to which rows are of the old plan, microseconds.

        ``joined``: event times from which on the new plan has everything, but rows that are late, or up to which
        results were read, microseconds.
        """
        return event_time_of(self.settles, self.period, joined)


def event_time_of(settles: float, period: float, joined: Iterable[int]) -> int:
    """Return the event time up to which rows are of the old plan, see :class:`Switch`; microseconds.

    >>> event_time_of(2.0, 3.0, [5_500_000, 1_000_000])
    8999999
    """
    at, step = max(joined) + round(settles * 1e6), round(period * 1e6)
    return -(-(at + 1) // step) * step - 1 if step else at


class Transition(msgspec.Struct, frozen=True):
    """What a plan has of another one whose place it takes, in an application that goes on. Few plans have any of it."""

    switches: dict[str, Switch] = {}  # by sink
    # operators that have begun while their streams ran: they read these from where they are retained
    joined: tuple[str, ...] = ()


NO_TRANSITION: Final = Transition()


class Checked(msgspec.Struct, frozen=True):
    """Operators in normal form and topological order, with schema and window of each stream."""

    # operators, schemas, windows: operator, schema and window by operator id; a schema is empty if the operator is
    # wrong
    operators: dict[str, Operator]
    schemas: dict[str, Schema]
    windows: dict[str, dict[str, Any] | None]
    likely: dict[str, Schema] = {}  # columns of streams whose schema is empty, as far as they are known


def check(operators: Sequence[Operator], problems: list[Problem]) -> Checked:
    """Bring ``operators`` to normal form, and append all problems to ``problems``.

    Operators may hold values in any spelling that the catalogue reads.
    """
    before = len(problems)
    checked = _check(operators, problems)
    problems[before:] = sorted(problems[before:], key=_rank)
    return checked


def _rank(problem: Problem) -> int:
    """Rank of a problem: fields of operators first, then their connections, then consequences of these."""
    if problem.field == "inputs":
        return 1
    return 2 if problem.field == "output" or (not problem.operator and problem.field == "operators") else 0


def _check(operators: Sequence[Operator], problems: list[Problem]) -> Checked:
    graph = check_graph(operators, problems)
    if graph is None:
        return Checked({}, {}, {})
    given, inputs, order = graph
    result = Checked({}, {}, {}, {})
    known: dict[str, Schema | None] = {}
    for name in [*order, *(each for each in given if each not in set(order))]:
        operator = given[name]
        least, most = KINDS[operator.kind].inputs if operator.kind in KINDS else (0, None)
        number = len(inputs[name])
        complete = number == len(operator.inputs) and number >= least and (most is None or number <= most)
        complete = complete and all(up in known for up in inputs[name])
        streams = [known.get(up) for up in inputs[name]] if complete else [None]
        windows = [result.windows.get(up) for up in inputs[name]]
        checked, derived = _normal(operator, streams, windows, problems)
        known[name], likely, window = derived
        result.operators[name] = checked
        result.windows[name] = window
        result.schemas[name] = known[name] or {}
        if known[name] is None and likely:
            result.likely[name] = likely
    return result


def check_graph(
    operators: Sequence[Operator], problems: list[Problem], transition: Transition = NO_TRANSITION
) -> tuple[dict[str, Operator], dict[str, tuple[str, ...]], list[str]] | None:
    """Return operators by id, their existing inputs, and a topological order; append problems to ``problems``."""
    given = _unique(operators, problems)
    if len(given) > _MOST_OPERATORS:
        problems.append(Problem("", "operators", len(given), f"at most {_MOST_OPERATORS} operators"))
        return None
    reported = {problem.operator for problem in problems} - {""}  # a file may state an id and nothing else
    wanting: list[str | None] = []
    inputs = {
        operator.id: _inputs(operator, given, reported, wanting, problems, several=operator.id in transition.switches)
        for operator in given.values()
    }
    order = _ordered(inputs)
    if len(order) < len(given):
        _report_cycle(inputs, set(given) - set(order), problems)
    _report_unread(given, inputs, wanting, problems)
    if len(order) == len(given):
        routes: dict[str, int] = {}
        for name in order:
            routes[name] = sum(routes[up] for up in inputs[name]) or 1
        total = sum(routes[name] for name in order if given[name].kind == "sink")
        if total > MOST_ROUTES:
            problems.append(Problem("", "operators", total, f"at most {MOST_ROUTES} paths from sources to sinks"))
    return given, inputs, order


def _unique(operators: Sequence[Operator], problems: list[Problem]) -> dict[str, Operator]:
    given: dict[str, Operator] = {}
    ids = {operator.id for operator in operators if isinstance(operator.id, str)}
    for operator in operators:
        name = operator.id
        if not is_id(operator.replica_of or name):
            name = str(name)
            problems.append(Problem(name, "id", operator.id, ID, suggested_id(name, ids)))
        if name in given:
            problems.append(Problem(name, "id", name, "an id that no other operator has"))
            continue
        given[name] = operator
    return given


def _inputs(
    operator: Operator,
    given: Mapping[str, Operator],
    reported: set[str],
    wanting: list[str | None],
    problems: list[Problem],
    *,
    several: bool = False,
) -> tuple[str, ...]:
    """Return the existing inputs; record the others as problems, and the operators that may be meant in ``wanting``.

    ``several``: whether it may have any number of inputs.
    """
    name = operator.id
    found: list[str] = []
    for up in operator.inputs:
        others = [each for each in given if each != name and given[each].kind != "sink"]
        if not isinstance(up, str) or up not in given:
            near = nearest(up, others)
            wanting.append(near)
            if up not in reported:
                problems.append(Problem(name, "inputs", up, f"an operator of the plan ({', '.join(others)})", near))
        elif given[up].kind == "sink":
            wanting.append(None)
            problems.append(Problem(name, "inputs", up, "an operator other than a sink, which has no output"))
        elif up in found:
            wanting.append(None)
            problems.append(Problem(name, "inputs", up, "each input once; give one side a project of its own"))
        else:
            found.append(up)
    kind = operator.kind if operator.kind in KINDS else nearest(operator.kind, KINDS)
    least, most = KINDS[kind].inputs if kind is not None else (0, None)
    most = None if several else most
    number = len(operator.streams)
    wanting += [None] * (least - number)
    if operator.kind in KINDS and (number < least or (most is not None and number > most)):
        misspelt = any(
            field not in parameters_of(operator.kind, operator.params) and nearest(field, ("input", "inputs"))
            for field in operator.params
        )
        said = any(problem.operator == name and problem.field in ("input", "inputs") for problem in problems)
        count = str(least) if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        expected = "no input" if most == 0 else f"{count} input{'s' if count != '1' else ''}"
        if number or not (misspelt or said):
            problems.append(Problem(name, "inputs", list(operator.inputs) or None, expected))
    return tuple(found)


def _ordered(inputs: Mapping[str, Sequence[str]]) -> list[str]:
    """Topological order, in the order of the plan where it is free; without operators on a cycle or behind one."""
    waiting = {name: len(ups) for name, ups in inputs.items()}
    position = {name: index for index, name in enumerate(inputs)}
    followers: dict[str, list[str]] = {name: [] for name in inputs}
    for name, ups in inputs.items():
        for up in ups:
            followers[up].append(name)
    ready = [position[name] for name, number in waiting.items() if not number]
    names = list(inputs)
    order: list[str] = []
    while ready:
        name = names[heapq.heappop(ready)]
        order.append(name)
        for follower in followers[name]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, position[follower])
    return order


def _report_cycle(inputs: Mapping[str, Sequence[str]], rest: set[str], problems: list[Problem]) -> None:
    """Report every cycle that shares no operator with one already reported."""
    seen: set[str] = set()
    for start in sorted(rest):
        path: list[str] = []
        at = start
        while at not in path and at not in seen:
            path.append(at)
            at = min(up for up in inputs[at] if up in rest)  # each remaining operator has such an input
        if at in path:
            cycle = path[path.index(at) :]
            cycle = [*cycle, at][::-1]
            problems.append(Problem(at, "inputs", " -> ".join(cycle), "no cycle"))
        seen.update(path)


def _report_unread(
    given: Mapping[str, Operator],
    inputs: Mapping[str, Sequence[str]],
    wanting: Sequence[str | None],
    problems: list[Problem],
) -> None:
    """Report operators whose stream no operator reads, except those that invalid inputs may mean."""
    kinds = {name: each.kind if each.kind in KINDS else nearest(each.kind, KINDS) for name, each in given.items()}
    read = {up for ups in inputs.values() for up in ups}
    if not any(kind == "sink" or (kind is None and name not in read) for name, kind in kinds.items()):
        problems.append(Problem("", "operators", list(given), "at least one operator of kind sink"))
        return
    unread = [name for name, kind in kinds.items() if kind not in ("sink", None) and name not in read]
    guessed = [near for near in wanting if near in unread]
    rest = [name for name in unread if name not in guessed]
    if len(rest) > len(wanting) - len(guessed):
        problems.extend(Problem(name, "output", "read by nobody", "a path from it to a sink") for name in rest)


def _normal(
    operator: Operator,
    streams: Sequence[Schema | None],
    windows: Sequence[dict[str, Any] | None],
    problems: list[Problem],
) -> tuple[Operator, tuple[Schema | None, Schema, dict[str, Any] | None]]:
    """Return the operator in normal form; and schema (None if invalid), likely columns and window of its stream."""
    name = operator.id
    if operator.kind not in KINDS:
        known = ", ".join(KINDS)
        near = (
            nearest(operator.kind, KINDS)
            if operator.kind
            else next((each for each in operator.params if each in KINDS), None)
        )
        problems.append(Problem(name, "kind", operator.kind or None, f"one of {known}", near))
        if near is not None:  # its other problems, assuming that this kind is meant
            meant: list[Problem] = []
            check_parameters(msgspec.structs.replace(operator, kind=near), meant)
            problems.extend(each for each in meant if each.field in operator.params and each.nearest is not None)
        return operator, (None, {}, None)
    before = len(problems)
    params = check_parameters(operator, problems)
    parameters = parameters_of(operator.kind, operator.params)
    found = problems[before:]
    surplus = {each.field: each.nearest for each in found if each.field in {*operator.params} - {*parameters}}
    faulty = {each.field.partition(".")[0] for each in found} - {*surplus} | {near for near in surplus.values() if near}
    cost = check_profile(name, "cost", operator.cost, problems)
    selectivity = check_profile(name, "selectivity", operator.selectivity, problems)
    at = operator.at
    if at is not None and (not isinstance(at, str) or not at.strip() or not at.isprintable()):
        problems.append(Problem(name, "at", at, "the name of a peer"))
    engine = operator.engine
    if engine not in ENGINES:
        problems.append(Problem(name, "engine", engine, f"one of {', '.join(ENGINES)}", nearest(engine, ENGINES)))
    elif engine == "spark":
        refusal = off_spark(operator.kind, params)
        if refusal:
            problems.append(Problem(name, "engine", engine, f"peer or auto: {refusal}"))
    declaration = KINDS[operator.kind]
    cost = params.get(declaration.cost_from, cost)  # a parameter may state its cost
    wrongs: list[WrongValue] = []
    derivation = Derivation(params, streams, windows, wrongs, faulty)
    schema = declaration.schema(derivation, parameters)
    own = (
        known_function(params["function"])
        if operator.kind == "source" and "function" in params and not faulty
        else None
    )
    if own is not None:
        wrongs.extend(own.wrongs(params))
    problems.extend(Problem(name, wrong.field, wrong.value, wrong.expected, wrong.nearest) for wrong in wrongs)
    stated = tuple(operator.inputs), cost, selectivity, at, engine, check_replicas(operator, problems)
    params = derivation.params  # in the declared order: what followed from others is last there otherwise
    params = {each: params[each] for each in parameters if each in params} | params
    normal = Operator(name, operator.kind, params, *stated)
    return normal, (schema, derivation.likely, dict(derivation.window) if derivation.window else None)


def check_parameters(operator: Operator, problems: list[Problem]) -> dict[str, Any]:
    """Bring parameters of a known kind to normal form, except SQL; append problems to ``problems``."""
    name, given = operator.id, operator.params
    parameters = parameters_of(operator.kind, given)
    surplus = {field: nearest(field, (*parameters, *_FIELDS)) for field in given if field not in parameters}
    if operator.kind == "source" and len(parameters) == 1:  # its parameters depend on the connector, which is unknown
        meant = {field: "connector" if field == "source" else near for field, near in surplus.items()}
        surplus = {field: near for field, near in meant.items() if near == "connector" and near not in given}
    params: dict[str, Any] = {}
    for field, parameter in parameters.items():
        value = given.get(field)
        if value is None:
            if parameter.default is REQUIRED and field not in surplus.values():  # otherwise it is misspelt
                hint = f", {CONNECTOR}" if field == "connector" else ""
                expected = f"a value: {operator.kind} needs {field}{hint}"
                problems.append(Problem(name, field, None, expected))
            elif parameter.default is not REQUIRED and parameter.default is not None:
                params[field] = list(parameter.default) if isinstance(parameter.default, list) else parameter.default
            continue
        try:
            params[field] = parameter.parse(value)
        except WrongValues as error:
            problems.extend(
                Problem(name, field + wrong.field, wrong.value, wrong.expected, wrong.nearest) for wrong in error.wrongs
            )
    for field, near in surplus.items():
        own = ", ".join(parameters) or "none"
        kind = f"{operator.kind} of {given['connector']}" if "connector" in given else operator.kind
        expected = f"connector, {CONNECTOR}" if field == "source" and near else f"a parameter of {kind} ({own})"
        if operator.kind == "source" and field in ("readers", "share"):
            expected = f"no {field}: {kind} is read by one component; {', '.join(DIVISIBLE)} have partitions"
        problems.append(Problem(name, field, given[field], expected, near))
    return params


def check_replicas(operator: Operator, problems: list[Problem]) -> Any:
    """Parse the ``availability`` of an operator, or None; append a problem to ``problems``."""
    parse = partial(own_replicas, kind=operator.kind, at=operator.at)
    return _parsed(operator.id, "availability", operator.availability, parse, problems)


def check_profile(name: str, field: str, value: Any, problems: list[Problem]) -> Any:
    """Parse a profiled ``cost`` or ``selectivity``, or None; append a problem to ``problems``."""
    return _parsed(name, field, value, PROFILE[field].type.parse, problems)


def _parsed(name: str, field: str, value: Any, parse: Callable[[Any], Any], problems: list[Problem]) -> Any:
    try:
        return None if value is None else parse(value)
    except WrongValue as wrong:
        problems.append(Problem(name, field, wrong.value, wrong.expected, wrong.nearest))
        return None
