"""The work that a driver gets for a component: parcels to execute, and parcels to send."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from synergy_nb.dataflow.channels import Inlet, Parcel
from synergy_nb.dataflow.components import Component

__all__ = ["TOGETHER_BORN", "TOGETHER_ROWS", "TOGETHER_WORK", "Delivery", "Work", "contemporary", "deadline"]

TOGETHER_ROWS: Final = 16_384  # tuples that go together at most: beyond them, what an item costs besides is nothing
TOGETHER_BORN: Final = 0.2  # seconds, see contemporary()
TOGETHER_WORK: Final = 0.2  # seconds that an execution of several parcels may be expected to take


def contemporary(one: float, other: float) -> bool:
    """Whether items born at these times may become one, which is as old as the older of them.

    They may if both times lie between the same two multiples of 0.2 s. However often a stream is merged on its way, no
    delay is measured as longer by more than that.
    """
    return math.floor(one / TOGETHER_BORN) == math.floor(other / TOGETHER_BORN)


class Delivery(NamedTuple):
    """A parcel that the driver has to send on ``channel``."""

    channel: str
    parcel: Parcel


class Work(NamedTuple):
    """One execution: hand ``parcel``, and then those of ``rest``, to ``port`` of ``component``.

    They have ``fresh`` tuples that are no duplicates and take ``size`` bytes of the window. What was ``resumed`` has
    taken ``spent`` seconds so far, and goes on where it was put off.
    """

    component: Component
    inlet: Inlet
    parcel: Parcel
    arrived: float
    fresh: int
    size: int
    rest: tuple[Parcel, ...] = ()
    resumed: bool = False
    spent: float = 0.0

    @property
    def parcels(self) -> tuple[Parcel, ...]:
        """All of them, in their order."""
        return (self.parcel, *self.rest)

    @property
    def port(self) -> int:
        """Port of the component that the parcel came in at."""
        return self.inlet.port


def deadline(component: Component, parcel: Parcel, *, slack: bool) -> float:
    """When a parcel's result should be at the sink or, with ``slack``, when it should begin to be made, in seconds."""
    due = parcel.born + component.limit
    return due - (component.tuple_s.moving + component.remaining) * parcel.fresh if slack else due
