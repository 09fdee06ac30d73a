"""Tables of states: which state of a thing may follow which.

Whatever has a life of several phases says so by a state of its own and a table, rather than by flags of which most
combinations mean nothing. A change that its table does not list raises :class:`IllegalTransition`, so every test and
every campaign holds that no other change happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias, TypeVar

from synergy_nb.errors import SynergyError

__all__ = ["IllegalTransition", "StateTable", "check"]

S = TypeVar("S", bound=StrEnum)

StateTable: TypeAlias = Mapping[S, frozenset[S]]
"""State to the states that may follow it."""


class IllegalTransition(SynergyError, RuntimeError):
    """Something cannot change from its state to the new one: a bug in the peer, not in the request."""


def check(thing: str, follows: StateTable[S], before: S, after: S) -> None:
    """Raise :class:`IllegalTransition` unless a table lets one state of a thing follow another.

    ``thing``: kind and name of the thing, for the message; ``before``, ``after``: present state and the next one.
    """
    if after not in follows[before]:
        expected = " or ".join(sorted(follows[before])) or "no change"
        raise IllegalTransition(f"{thing}: {after} after {before}; expected {expected}")
