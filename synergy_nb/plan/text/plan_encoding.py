"""Plans as bytes: the MessagePack that peers send one another, validated when it is decoded."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from synergy_nb.plan.checks.requirements import check_qos
from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.checks.validation import (
    NO_TRANSITION,
    Checked,
    Operator,
    PlanError,
    Problem,
    StreamWork,
    Transition,
    check_graph,
    check_parameters,
    check_profile,
    check_replicas,
)
from synergy_nb.plan.operators.catalogue import KINDS, PART, TAP, parameters_of
from synergy_nb.plan.operators.parameter_types import SIGNATURE, TYPES
from synergy_nb.plan.operators.tables import TABLE, is_whole
from synergy_nb.plan.terms.column_types import column_type
from synergy_nb.plan.terms.qos import QoS
from synergy_nb.plan.terms.units import WrongValues

__all__ = ["FORMAT", "decode", "encode"]

#: Version of the format of plans, in YAML and in bytes.
FORMAT: Final = 1


class _Wire(msgspec.Struct, frozen=True, array_like=True):
    """Encoded form of a plan, with the schemas, so that a peer computes bandwidths without inferring SQL types."""

    format: int
    name: str
    qos: QoS
    operators: tuple[Operator, ...]
    schemas: dict[str, dict[str, str]]
    windows: dict[str, dict[str, Any] | None]
    stated: dict[str, tuple[str, ...]] = {}
    sizes: dict[str, SourceSize] = {}


class _ChangedWire(_Wire, frozen=True, array_like=True):
    """The same of a plan that takes, or has taken, the place of another one; others are as long as without."""

    transition: Transition = NO_TRANSITION


class _Tap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of an operator that stands for a running stream."""

    name: str
    rate: float
    providers: dict[str, tuple[str, str]]
    signature: list[tuple[float, float]] | None = None
    form: tuple[str, list[str], list[tuple[str, str]] | None, list[str]] | None = None  # a `StreamForm`


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_ChangedWire)


def encode(
    name: str,
    qos: QoS,
    checked: Checked,
    stated: Mapping[str, Collection[str]],
    sizes: Mapping[str, SourceSize],
    transition: Transition = NO_TRANSITION,
) -> bytes:
    """Encode a plan as MessagePack for :func:`decode`; equal plans that state and know the same have equal bytes.

    Of the fields ``stated`` by the author, by operator, those at their default are encoded: others are known to be.
    """
    operators = tuple(checked.operators.values())
    schemas = {each.id: checked.schemas[each.id] for each in operators}
    windows = {each.id: checked.windows[each.id] for each in operators}
    said = {each.id: fields for each in operators if (fields := _defaults(each, stated.get(each.id, ())))}
    wire = FORMAT, name, qos, operators, schemas, windows, said, dict(sizes)
    return _encoder.encode(_Wire(*wire) if transition == NO_TRANSITION else _ChangedWire(*wire, transition))


def _defaults(operator: Operator, stated: Collection[str]) -> tuple[str, ...]:
    """The stated fields of an operator that have their default, sorted."""
    if operator.kind not in KINDS:
        return ()
    own = parameters_of(operator.kind, operator.params)
    values = {name: (operator.params.get(name), each.default) for name, each in own.items()}
    values["engine"] = operator.engine, "auto"
    return tuple(sorted(name for name in stated if name in values and values[name][0] == values[name][1] is not None))


def decode(data: bytes) -> tuple[str, QoS, Checked, dict[str, tuple[str, ...]], dict[str, SourceSize], Transition]:
    """Decode name, QoS requirement, operators, stated fields at their default, sizes of sources, and a transition.

    Raises ``PlanError`` if ``data`` is not a valid plan.
    """
    try:
        wire = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError([Problem("", "bytes", f"{len(data)} bytes", f"a plan ({error})")]) from None
    problems: list[Problem] = []
    if wire.format != FORMAT:
        problems.append(Problem("", "format", wire.format, f"{FORMAT}, the version that this program reads"))
    check_qos(msgspec.structs.asdict(wire.qos), problems)
    graph = check_graph(wire.operators, problems, wire.transition)
    operators = {} if graph is None else graph[0]
    if graph is not None and list(operators) != graph[2]:
        problems.append(Problem("", "operators", list(operators), "inputs before their readers"))
    if set(wire.windows) != set(operators) or set(wire.schemas) != set(operators):
        problems.append(Problem("", "schemas", sorted(wire.schemas), "one schema and window an operator"))
    for name, operator in operators.items():
        if operator.kind == PART:
            _check_part(operator, problems)
            continue
        if operator.kind == TAP:
            _check_tap(operator, problems)
            continue
        if operator.kind not in KINDS:
            problems.append(Problem(name, "kind", operator.kind, f"one of {', '.join(KINDS)}"))
            continue
        if not (_says_all(operator) and (operator.makes is None or _says_all(operator.makes))):
            problems.append(Problem(name, "table", "some of its terms", "all of them: a peer reads no table for them"))
            continue
        if check_parameters(operator, problems) != operator.params:
            problems.append(Problem(name, "params", operator.params, "parameters in normal form"))
        if operator.makes is not None:
            made = Operator(name, operator.makes.kind, operator.makes.params)
            known = made.kind in KINDS and len(operator.makes.inputs) == len(operator.streams) > 0
            if not known or check_parameters(made, problems) != made.params:
                problems.append(Problem(name, "makes", made.kind, "the work of an operator that names its stream"))
        check_profile(name, "cost", operator.cost, problems)
        check_profile(name, "selectivity", operator.selectivity, problems)
        check_replicas(operator, problems)
    kinds = {kind for schema in wire.schemas.values() for kind in schema.values()}
    if any(column_type(kind) != kind for kind in kinds):
        problems.append(Problem("", "schemas", sorted(kinds), f"types among {', '.join(TYPES)}"))
    for name, size in wire.sizes.items():
        if name not in operators or not size.is_valid():
            problems.append(Problem(name, "sizes", str(size), "sizes of its sources: finite numbers of at least 0"))
    for name, switch in wire.transition.switches.items():
        reader = operators.get(name)
        if reader is None or reader.kind != "sink" or len(reader.inputs) != len({*switch.inputs}):
            problems.append(Problem(name, "switch", list(switch.inputs), "a sink with a number for each of its inputs"))
    if strange := sorted({*wire.transition.joined} - set(operators)):
        problems.append(Problem("", "joined", strange, "operators of the plan"))
    if problems:
        raise PlanError(problems)
    checked = Checked(operators, wire.schemas, wire.windows)
    return wire.name, wire.qos, checked, wire.stated, wire.sizes, wire.transition


def _says_all(work: Operator | StreamWork) -> bool:
    """Whether received parameters state all of each table: one of which they do not would be read from its file."""
    parameters = parameters_of(work.kind, work.params) if work.kind in KINDS else {}
    tables = (work.params.get(name) for name, parameter in parameters.items() if parameter.type is TABLE)
    return all(table is None or (isinstance(table, Mapping) and is_whole(table)) for table in tables)


def _check_part(operator: Operator, problems: list[Problem]) -> None:
    """Validate a received part on Spark."""
    params = operator.params
    load = params.get("load")
    whole = set(params) == {"plan", "members", "load", "batches"} and params["batches"] in (1, 2)
    if not whole or not isinstance(load, float) or not 0.0 <= load < 1e9:
        expected = "plan, members, load and batches of a part on Spark"
        problems.append(Problem(operator.id, "params", sorted(params), expected))
        return
    try:
        planned, members = decode(params["plan"])[2].operators, tuple(params["members"])
    except (PlanError, TypeError) as error:
        problems.append(Problem(operator.id, "plan", "bytes", f"the plan that the part belongs to ({error})"))
        return
    if operator.id not in members or not set(members) <= set(planned):
        problems.append(Problem(operator.id, "members", list(members), "operators of its plan, its exit among them"))


def _check_tap(operator: Operator, problems: list[Problem]) -> None:
    """Validate a received tap."""
    try:
        tap = msgspec.convert(operator.params, _Tap)
    except msgspec.ValidationError as error:
        problems.append(Problem(operator.id, "params", sorted(operator.params), f"name, rate and providers ({error})"))
        return
    if tap.signature is not None:
        try:
            SIGNATURE.parse(tap.signature)
        except WrongValues as wrong:
            problems.append(Problem(operator.id, "signature", tap.signature, str(wrong)))
    if operator.inputs or not tap.providers or not 0.0 <= tap.rate < 1e12:
        problems.append(Problem(operator.id, "providers", sorted(tap.providers), "peers with the stream, no inputs"))
