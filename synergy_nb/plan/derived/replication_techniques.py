"""What synchronization and deterministic order do to the operators of a plan, in words."""

from __future__ import annotations

from synergy_nb.plan.checks.replica_degrees import Technique, degrees, technique
from synergy_nb.plan.query_plan import Plan
from synergy_nb.plan.terms.units import counted

__all__ = ["technique_sentences"]


def technique_sentences(plan: Plan) -> dict[str, str]:
    """Return a sentence for each operator whose backups do more than to retain what they are sent.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> columns = {"v": "int"}
    >>> a, b = (source("python", name=name, columns=columns, rate=1.0, id=name) for name in "ab")
    >>> plan = a.union(b).filter("v > 2", availability="degree 2").sink("out", availability="ordered 2")
    >>> technique_sentences(plan)
    {'union': 'union: 2 peers execute it in the order of event times, which waits for the punctuations of all inputs'}
    """
    found: dict[str, str] = {}
    for name, node in plan.operators.items():
        number = degrees(node, plan.qos).passive
        match technique(node, plan.qos):
            case Technique.SYNCHRONIZED:
                backups = "its backup has" if number == 2 else f"its {number - 1} backups have"
                found[name] = f"{name}: holds its output until {backups} it"
            case Technique.ORDERED:
                waits = ", which waits for the punctuations of all inputs" if len(node.inputs) > 1 else ""
                found[name] = f"{name}: {counted(number, 'peer')} execute it in the order of event times{waits}"
    return found
