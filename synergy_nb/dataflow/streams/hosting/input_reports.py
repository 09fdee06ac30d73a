"""Reports about the inputs of active replicas and of their readers, from which utilities of streams are computed.

Weights and tuples are counted since the component began at this peer; the receiver of the reports computes differences.
So the counters are never reset, and an execution in another thread need not be interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from synergy_nb.dataflow.deployments import Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.merge import CLOSED
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic

__all__ = ["InputReport", "InputReports", "InputsMeasured", "StreamsMeasured", "first_counts"]

INTERVAL_S: Final = 1.0  # seconds between two reports


class InputReport(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What has arrived on an input."""

    producer: str  # operator that emits the stream
    port: int  # port of the reading operator that the stream feeds
    weight: float  # weight by order of arrival, since the component began
    tuples: int  # number of tuples of the stream up to the last one that has arrived
    promise: int  # event time of the last promise, µs
    # whether the stream has every tuple that has not passed the filter yet, so that neither the component nor a copy
    # that takes over needs the others
    complete: bool = True
    # intervals in which most streams of the port had other tuples, and in which there was no majority
    minority: int = 0
    doubtful: int = 0


class StreamsMeasured(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What has arrived on the inputs of a component, which is an active replica or reads some; by number of input."""

    application: str
    operator: str
    inputs: dict[int, InputReport]


class InputsMeasured(msgspec.Struct, frozen=True):
    """A report to the control side: what has arrived on the inputs of active replicas and of their readers."""

    components: tuple[StreamsMeasured, ...]


class InputReports:
    """Reports of the components of a peer, once a second while there are any."""

    def __init__(self, components: Mapping[tuple[str, str], Component]) -> None:
        self._components = components
        self.due = math.inf  # time of the next report, seconds; infinite while there is nothing to report
        # component to its complete inputs, each with the number of its last snapshot when that was seen first
        self._complete: WeakKeyDictionary[Component, dict[int, int]] = WeakKeyDictionary()

    def note(self, component: Component, now: float) -> None:
        """Have reports begin if a component needs them."""
        if self.due == math.inf and isinstance(component.logic, MergedLogic):
            self.due = now + INTERVAL_S

    def tick(self, now: float) -> list[InputsMeasured]:
        """Return the report of all components if it is due."""
        if now < self.due:
            return []
        found = [each for each in self._components.values() if isinstance(each.logic, MergedLogic)]
        self.due = now + INTERVAL_S if found else math.inf
        reports = tuple(
            _measured(each, self._complete_for_all(each))
            for each in found
            if each.role is Role.ACTIVE and not each.failed
        )
        return [InputsMeasured(reports)] if reports else []

    def _complete_for_all(self, component: Component) -> frozenset[int]:
        """Inputs of a component that are complete; if it has copies, those complete in a snapshot on all of them."""
        logic, holders = component.logic, component.copy_holders
        complete = logic.complete if isinstance(logic, MergedLogic) else frozenset()
        if not holders.waited:
            return complete
        seen, covered = self._complete.setdefault(component, {}), holders.number
        for number in complete:
            seen.setdefault(number, component.cuts.number)
        return frozenset(number for number in complete if covered is not None and covered > seen[number])


def _measured(component: Component, complete: frozenset[int]) -> StreamsMeasured:
    logic = component.logic
    weights = logic.weights if isinstance(logic, MergedLogic) else {}
    differing = logic.differing if isinstance(logic, MergedLogic) else {}
    inputs: dict[int, InputReport] = {}
    for number, port in component.ports.items():
        feed = component.feeds[number]
        if feed.operator and port.state is not CLOSED:
            weight, received = weights.get(number, 0.0), port.received
            read_by = component.feed_ports.get(number, number)
            inputs[number] = InputReport(
                feed.operator, read_by, weight, received.position, received.until, number in complete,
                *differing.get(number, ()),
            )  # fmt: skip
    return StreamsMeasured(component.application, component.operator, inputs)


def first_counts(component: Component) -> dict[str, int]:
    """Return the producers of stream replicas, with the number of tuples that each delivered first."""
    found: dict[str, int] = {}
    logic = component.logic
    if isinstance(logic, MergedLogic) and component.feed_ports:
        ports = list(component.feed_ports.values())
        for number, count in logic.firsts.items():
            producer = component.feeds[number].operator if number in component.feeds else ""
            if producer and ports.count(component.feed_ports[number]) > 1:
                found[producer] = found.get(producer, 0) + count
    return found
