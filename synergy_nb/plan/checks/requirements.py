"""Validation of a plan's QoS requirement, and of its combination with the operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from synergy_nb.plan.checks.replica_degrees import (
    OWN_PEER,
    Technique,
    asks_for_active,
    degrees,
    read_twice_problem,
    technique,
)
from synergy_nb.plan.checks.validation import Checked, Operator, Problem
from synergy_nb.plan.operators.parameter_types import DURATION, FRACTION, ValueType, choice, parse_number
from synergy_nb.plan.terms.availability import Availability, parse_availability
from synergy_nb.plan.terms.qos import QoS
from synergy_nb.plan.terms.units import (
    WrongValue,
    format_duration,
    format_size,
    nearest,
    parse_duration,
    parse_size,
    parse_throughput,
)

__all__ = [
    "DISCIPLINES",
    "EQUAL",
    "HOTSPOTS",
    "LEAST_MEMORY",
    "ON_DEATH",
    "OVERDUE",
    "QOS_FIELDS",
    "QOS_TYPES",
    "check_discipline",
    "check_hotspots",
    "check_qos",
    "check_together",
]

#: Scheduling disciplines, see :mod:`synergy_nb.dataflow.streams.hosting._disciplines`.
DISCIPLINES: Final = ("fcfs", "edf", "least_slack")
#: Policies for tuples whose deadline has passed when they would be executed.
OVERDUE: Final = ("keep", "drop")
#: What peers may do about hot spots: predict and migrate, predict and journal only, or nothing.
HOTSPOTS: Final = ("on", "observe", "off")
#: What the death of a peer means to an application that has no backup of what it executed.
ON_DEATH: Final = ("restart", "fail")
#: Fields for which no value is the strictest: they must be equal where plans are combined.
EQUAL: Final = ("scheduling", "overdue", "hotspots", "on_death")
#: Fields that need a delay limit: the value that needs none, and the reason why the others do.
_NEEDS_DELAY: Final[Mapping[str, tuple[str | None, str]]] = {
    "miss_rate": (None, "misses are the tuples that are later than the delay limit"),
    "scheduling": ("fcfs", "deadlines follow from the delay limit"),
    "overdue": ("keep", "a tuple is overdue when it is later than the delay limit"),
}
#: Least memory of an operator, bytes: one without state needs several copies of a batch, which is up to 2 MiB.
LEAST_MEMORY: Final = 16_000_000


def _delay(value: Any) -> float:
    seconds = parse_duration(value)
    if not seconds:
        raise WrongValue(value, "a delay above 0")
    return seconds


def _memory(value: Any) -> float:
    size = parse_size(value)
    if size < LEAST_MEMORY:
        raise WrongValue(value, "at least 16 MB, which operators without state need for their batches")
    return size


#: Fields of a QoS requirement in plans, with the types of their values.
QOS_TYPES: Final[Mapping[str, ValueType]] = {
    "delay": ValueType("duration", _delay, format_duration, "s", least=0.0),
    "miss_rate": FRACTION,
    "throughput": ValueType("throughput", parse_throughput, unit="bytes/s or tuples/s"),
    "availability": ValueType("availability", parse_availability),
    "replica_distance": DURATION,
    "memory": ValueType("size", _memory, format_size, "bytes", least=float(LEAST_MEMORY)),
    "scheduling": choice(*DISCIPLINES),
    "overdue": choice(*OVERDUE),
    "hotspots": choice(*HOTSPOTS),
    "on_death": choice(*ON_DEATH),
}
QOS_FIELDS: Final = tuple(QOS_TYPES)


def check_qos(given: Mapping[str, Any], problems: list[Problem]) -> QoS:
    """Parse a QoS requirement from values with units; append problems to ``problems`` under ``qos``."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in QoS.__struct_fields__:
            expected = f"one of the fields {', '.join(QOS_FIELDS)}"
            problems.append(Problem("", f"qos.{name}", value, expected, nearest(name, QOS_FIELDS)))
            continue
        if value is None:
            continue
        try:
            if name == "throughput":
                found["throughput"], tuples = parse_throughput(value)
                found["throughput_tuples"] = tuples if tuples is not None else found.get("throughput_tuples")
            elif name == "throughput_tuples":
                found[name] = parse_number(value, "a number of tuples/s")
            elif name == "availability" or name in Availability._fields:
                asked = parse_availability(value if name == "availability" else f"{name} {value}")
                if asked.share == 1.0:
                    raise WrongValue(value, "less than 1, as all replicas may fail")
                chosen = {
                    "availability" if field == "share" else field: each for field, each in asked._asdict().items()
                }
                found.update({field: each for field, each in chosen.items() if each is not None})
            else:
                found[name] = QOS_TYPES[name].parse(value)
        except WrongValue as wrong:
            problems.append(Problem("", f"qos.{name}", wrong.value, wrong.expected, wrong.nearest))
    passive: list[str] = [name for name in ("degree", "availability") if given.get(name) is not None and name in found]
    for name in ("active", "synchronized", "ordered"):
        if found.get(name) is not None and given.get(name) is not None and passive:
            what = "active replicas" if name == "active" else f"{name} {found[name]}"
            expected = f"either {what} or {passive[0]} {given[passive[0]]}, which places backups"
            problems.append(Problem("", "qos.availability", f"{name} {found[name]}", expected))
        elif found.get(name) is not None and given.get(name) is not None:
            passive = [name]
    needing = {name: why for name, (without, why) in _NEEDS_DELAY.items() if found.get(name) not in (None, without)}
    if needing and not any(value is not None and nearest(name, QOS_FIELDS) == "delay" for name, value in given.items()):
        for name, why in needing.items():
            problems.append(Problem("", f"qos.{name}", given[name], f"a delay as well: {why}"))
    return QoS(**found)


def check_discipline(field: str, value: object) -> str:
    """Validate the name of a scheduling discipline.

    Raises ``ValueError`` if there is no discipline of this name; the text names the field.
    """
    try:
        return str(QOS_TYPES["scheduling"].parse(value))
    except WrongValue as wrong:
        raise ValueError(f"{field}: {wrong}") from None


def check_hotspots(field: str, value: object) -> str:
    """Validate the mode of hot spots, as :func:`check_discipline` a discipline."""
    try:
        return str(QOS_TYPES["hotspots"].parse(value))
    except WrongValue as wrong:
        raise ValueError(f"{field}: {wrong}") from None


def check_together(checked: Checked, qos: QoS, problems: list[Problem]) -> None:
    """Find operators and requirements that are valid alone but not together; append them to ``problems``."""
    fed: dict[str, str] = {}
    active = asks_for_active(checked.operators.values(), qos)
    on_spark = [each for each in checked.operators.values() if each.engine == "spark"]
    _check_techniques(checked, qos, active=active, problems=problems)
    backed_up = qos.degree is not None or qos.availability is not None
    backed_up = backed_up or any(degrees(each, qos).passive > 1 for each in on_spark)
    if qos.replica_distance is not None and not active:
        expected = "availability such as 'active 3' as well: only active replicas are kept apart"
        problems.append(Problem("", "qos.replica_distance", format_duration(qos.replica_distance), expected))
    if qos.overdue == "drop" and active:
        expected = "keep beside active replicas: each would drop other tuples, and emit other results"
        problems.append(Problem("", "qos.overdue", "drop", expected))
    for name, operator in checked.operators.items():
        given = operator.params.get("name") if operator.params.get("connector") == "python" else None
        if given in fed:
            expected = f"a name of its own: rows for {given!r} would be those of operator {fed[given]!r}"
            problems.append(Problem(name, "name", given, expected))
        elif given is not None:
            fed[given] = name
        if active and operator.engine == "spark":
            expected = "peer or auto in a plan with availability 'active ...': Spark executes no active replicas"
            problems.append(Problem(name, "engine", "spark", expected))
        twice = degrees(operator, qos).active > 1 or technique(operator, qos) is Technique.ORDERED
        if twice and operator.params.get("deterministic") is False:
            expected = "true beside replicas that execute: those of a function that is not would differ"
            problems.append(Problem(name, "deterministic", False, expected))
        if qos.availability is not None and operator.availability is not None:
            expected = "none beside a share of the time in qos.availability, which is that of all operators together"
            problems.append(Problem(name, "availability", operator.availability, expected))
        if operator.kind == "source" and operator.availability is not None:
            _check_replicated_source(name, operator, active=active, problems=problems)
        if backed_up and operator.engine == "spark" and operator.kind == "source":
            expected = "peer or auto with availability: no other peer can continue a source that Spark reads itself"
            problems.append(Problem(name, "engine", "spark", expected))


def _check_techniques(checked: Checked, qos: QoS, *, active: bool, problems: list[Problem]) -> None:
    """Refuse what synchronization and deterministic order cannot be combined with."""
    used = {name: technique(each, qos) for name, each in checked.operators.items()}
    used = {name: each for name, each in used.items() if each is not Technique.PASSIVE}
    for name, each in used.items():
        own = checked.operators[name].availability
        where, field = (name, "availability") if own is not None else ("", "qos.availability")
        asked = own if own is not None else f"{each.value} {degrees(checked.operators[name], qos).passive}"
        if active:
            expected = f"either active replicas or {asked} in one plan: readers of active replicas wait for nobody"
            problems.append(Problem(where, field, asked, expected))
            break
    for name, operator in checked.operators.items() if used else ():
        if operator.engine == "spark":
            asked = min(each.value for each in used.values())
            expected = f"peer or auto in a plan with availability '{asked} ...': Spark repeats results by checkpoints"
            problems.append(Problem(name, "engine", "spark", expected))
    if qos.overdue == "drop" and Technique.ORDERED in used.values():
        expected = "keep beside availability 'ordered ...': each replica would drop other tuples, and emit others"
        problems.append(Problem("", "qos.overdue", "drop", expected))


def _check_replicated_source(name: str, operator: Operator, *, active: bool, problems: list[Problem]) -> None:
    """Check whether another peer could go on with a source that asks for backups, or read it as well."""
    connector = operator.params.get("connector")
    once = read_twice_problem(operator.params) if connector is not None and degrees(operator, QoS()).active > 1 else ""
    if connector == OWN_PEER:
        expected = f"none: rows of connector {connector!r} are measurements of the peer itself"
    elif once:
        expected = f"'degree ...', of which one peer reads it at a time: {once}"
    elif not active:
        expected = "none, or availability such as 'active 3' of other operators as well"
    else:
        return
    problems.append(Problem(name, "availability", operator.availability, expected))
