"""What an ``availability`` asks for: a share of the time, or a number of replicas and what they do."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from synergy_nb.plan.terms.units import FRACTION_EXPECTED, WrongValue, parse_fraction

__all__ = ["Availability", "parse_availability", "parse_replicas"]

_REPLICAS: Final = "'degree 2', 'active 3', 'synchronized 2' or 'ordered 2'"


class Availability(NamedTuple):
    """What an ``availability`` asks for: one of the fields, and all others are None."""

    share: float | None = None  # fraction of the time
    degree: int | None = None  # number of replicas, of which one executes and the others are backups
    active: int | None = None  # number of active replicas
    # number of replicas, of which one executes and holds its output until the others, its backups, have it
    synchronized: int | None = None
    # number of replicas that all execute in the same order, and of which one sends its output
    ordered: int | None = None

    def __str__(self) -> str:
        """Return the number of replicas in canonical text."""
        return next(f"{name} {number}" for name, number in self._asdict().items() if number is not None)


def parse_availability(value: Any) -> Availability:
    """Parse ``'99.9 %'``, ``'degree 2'``, ``'active 3'``, ``'synchronized 2'`` or ``'ordered 2'``.

    Raises ``WrongValue`` if the value has another form.
    """
    names = "|".join(Availability._fields[1:])
    match = re.fullmatch(rf"\s*({names})\s+(\d+)\s*", value) if isinstance(value, str) else None
    if match is not None and int(match[2]) >= 1:
        found = Availability(**{match[1]: int(match[2])})
        if found.degree is None and found.active is None and int(match[2]) == 1:
            raise WrongValue(value, f"'{match[1]} 2' or more: one replica alone is 'degree 1'")
        return found
    try:
        return Availability(parse_fraction(value))
    except WrongValue:
        expected = f"{FRACTION_EXPECTED}, or a number of replicas such as {_REPLICAS}"
        raise WrongValue(value, expected) from None


def parse_replicas(value: Any) -> str:
    """Parse the availability of one operator to its canonical text.

    >>> parse_replicas(" active  3 ")
    'active 3'

    Raises ``WrongValue`` if the value has another form, such as a share of the time: that is a property of a plan.
    """
    try:
        found = parse_availability(value)
    except WrongValue as wrong:
        if not wrong.expected.startswith(FRACTION_EXPECTED):
            raise
        found = Availability(share=1.0)
    if found.share is not None:
        expected = f"a number of replicas such as {_REPLICAS}; a share of the time is asked of a plan"
        raise WrongValue(value, expected)
    return str(found)
