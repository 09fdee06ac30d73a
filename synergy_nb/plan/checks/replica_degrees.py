"""How many replicas each operator of a plan is to have: its own ``availability``, or else that of the plan."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from synergy_nb.plan.checks.validation import Operator
from synergy_nb.plan.operators.catalogue import PART, TAP
from synergy_nb.plan.operators.sources import OWN
from synergy_nb.plan.terms.availability import Availability, parse_availability
from synergy_nb.plan.terms.qos import QoS

__all__ = [
    "OWN_PEER",
    "UNREPEATABLE",
    "Degrees",
    "Technique",
    "asks_for_active",
    "asks_for_replicas",
    "degrees",
    "is_replicable",
    "is_taken_over",
    "read_twice_problem",
    "sums_exactly",
    "technique",
]

OWN_PEER: Final = "peers"  # connector of sources whose rows are about the peer that makes them
UNREPEATABLE: Final = (
    "python",
    OWN_PEER,
    "mqtt",
    "socket",
    "sse",
    "websocket",
)  # connectors of sources that no other peer can read again
#: Connectors of sources that several peers cannot read alike, with the reason.
_READ_ONCE: Final[Mapping[str, str]] = {
    OWN_PEER: "its rows are measurements of the peer itself",
    "python": "a program sends each of its rows to one peer",
    "mqtt": "a broker sends each client what comes while that one is connected",
    "http": "a page has other rows when another peer asks for it",
    **dict.fromkeys(("socket", "sse", "websocket"), "a server sends what it sends once, to whoever is connected"),
    OWN: "nothing is known of the order in which another instance of its class gives its rows",
}


class Technique(enum.Enum):
    """What the backups of an operator do until they take over; the values are the words of an ``availability``."""

    PASSIVE = "degree"  #: They retain output and snapshots; the component waits for nobody.
    SYNCHRONIZED = "synchronized"  #: The same, and the component holds its output until all of them have it.
    ORDERED = "ordered"  #: They execute it, too: it reads its inputs in the order of event times, and so do they.


class Degrees(NamedTuple):
    """The replicas that an operator is to have."""

    active: int = 1  # number of active replicas, all of which execute it
    passive: int = 1  # number of replicas of which one executes it and the others are backups


def is_replicable(operator: Operator) -> bool:
    """Whether an operator can have active replicas: sinks and operators pinned to a peer cannot.

    A source can if it asks for them itself; :func:`read_twice_problem` has refused all others of which two readings
    may differ.

    >>> [is_replicable(Operator("s", "source", availability=asked)) for asked in (None, "degree 2", "active 3")]
    [False, False, True]
    """
    if operator.kind in ("sink", TAP, PART) or operator.at is not None:
        return False
    return operator.kind != "source" or _asks_itself(operator)


def _asks_itself(operator: Operator) -> bool:
    """Whether an operator states that it is to have active replicas."""
    return operator.availability is not None and parse_availability(operator.availability).active is not None


def read_twice_problem(params: Mapping[str, Any]) -> str:
    """Say why several peers cannot read a source with these parameters alike; empty if they can.

    Replicas of a source are the entry points of section II-B in Hwang et al. (ICDE 2008). There entry points stamp what
    external sources send. Here event times and order follow from what is read, and from nothing else: so each row has
    one stamp, whoever reads it.

    >>> read_twice_problem({"connector": "packets"}), read_twice_problem({"connector": "socket"})
    ('', 'a server sends what it sends once, to whoever is connected')
    """
    connector = params["connector"]
    if connector == "kafka" and params.get("start") == "latest":
        return "readers that begin at the ends of partitions begin at different messages"
    return _READ_ONCE.get(connector, "")


def is_taken_over(operator: Operator) -> bool:
    """Whether backups of an operator could take over: not of a sink whose results its peer alone retains."""
    return operator.kind != TAP and (operator.kind != "sink" or "to" in operator.params)


def degrees(operator: Operator, qos: QoS) -> Degrees:
    """Return the replicas that an operator of a plan with this requirement is to have.

    A source has backups only if it asks for them itself, and a sink only if it writes its results to the outside. Where
    a plan asks for a share of the time, the number of replicas follows from the peers, and is 1 here.

    Examples
    --------
    >>> own = Operator("sort", "sort", availability="degree 2")
    >>> degrees(own, QoS(active=3)), degrees(Operator("filter", "filter"), QoS(active=3))
    (Degrees(active=1, passive=2), Degrees(active=3, passive=1))
    """
    if not is_taken_over(operator) or (operator.kind == "source" and operator.availability is None):
        return Degrees()
    asked = _asked(operator, qos)
    passive, active = asked.degree or asked.synchronized or asked.ordered, asked.active
    if active is not None and not is_replicable(operator):
        active = None
    return Degrees(active or 1, passive or 1)


def technique(operator: Operator, qos: QoS) -> Technique:
    """Return what the backups of an operator do, if it is to have any.

    Those of a sink retain its results, and nothing is written that they do not have, whatever the plan asks for.

    Examples
    --------
    >>> technique(Operator("join", "join"), QoS(synchronized=2)), technique(Operator("join", "join"), QoS())
    (<Technique.SYNCHRONIZED: 'synchronized'>, <Technique.PASSIVE: 'degree'>)
    """
    if operator.kind == "sink" or degrees(operator, qos).passive == 1:
        return Technique.PASSIVE
    asked = _asked(operator, qos)
    if asked.synchronized is not None:
        return Technique.SYNCHRONIZED
    return Technique.PASSIVE if asked.ordered is None else Technique.ORDERED


def _asked(operator: Operator, qos: QoS) -> Availability:
    """What an operator asks for itself; if nothing, what the plan asks for."""
    if operator.availability is not None:
        return parse_availability(operator.availability)
    return Availability(None, qos.degree, qos.active, qos.synchronized, qos.ordered)


def asks_for_replicas(operator: Operator, qos: QoS) -> bool:
    """Whether an operator of a plan is to have replicas, as many as a share of the time asks for or a stated number.

    >>> asked = QoS(availability=0.99)
    >>> [asks_for_replicas(Operator(kind, kind), asked) for kind in ("source", "filter", "sink")]
    [False, True, False]
    """
    own = operator.availability is not None
    by_share = qos.availability is not None and not own and operator.kind != "source" and is_taken_over(operator)
    return by_share or max(degrees(operator, qos)) > 1


def sums_exactly(operator: Operator, operators: Iterable[Operator], qos: QoS) -> bool:
    """Whether an operator of a plan sums floats exactly.

    All operators do whose peer may change, where any has active replicas or replicas in the same order: these would
    otherwise get tuples that differ in their last digits, and take them for different tuples.
    """
    if not operator.inputs or (operator.at is not None and degrees(operator, qos).passive == 1):
        return False
    return any(
        each.replica_of or degrees(each, qos).active > 1 or technique(each, qos) is Technique.ORDERED
        for each in operators
    )


def asks_for_active(operators: Iterable[Operator], qos: QoS) -> bool:
    """Whether a plan asks for active replicas, of all its operators or of some."""
    return qos.active is not None or any(degrees(each, qos).active > 1 for each in operators)
