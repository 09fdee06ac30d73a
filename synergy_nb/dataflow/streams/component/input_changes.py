"""Changes of the inputs of a component that executes: streams of active replicas are added, and left. No IO, no clock.

Each stream that a component ever reads has a number of its own. A frame, an order of inputs or a snapshot that names an
input is therefore never mistaken for one about a later stream, however late it comes. An input that is left is closed;
what has arrived on it is still executed. It is forgotten, with the counters of its stream, when nothing refers to it
any more; so a component whose producers are rebuilt for weeks has as many inputs as at first, and one more.
"""

from __future__ import annotations

from typing import NamedTuple

from synergy_nb.dataflow.deployments import Assignment, InputFeed, Role
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.merge import CLOSED, Port
from synergy_nb.dataflow.streams.log.values import Output
from synergy_nb.dataflow.streams.replicas.stream_merging import MergedLogic

__all__ = ["InputChanges", "change_inputs", "has_others", "output_of"]


class InputChanges(NamedTuple):
    """Inputs that changed."""

    left: dict[int, Output]  # number of each input that is not read any more to the output that it read
    # added, forgotten: numbers of new inputs, and of those that there are no longer
    added: list[int]
    forgotten: list[int]


def output_of(component: Component, number: int) -> Output:
    """Return the output that an input reads."""
    feed = component.feeds[number]
    return Output(feed.application, feed.operator, component.ports[number].epoch)


def has_others(component: Component, number: int) -> bool:
    """Return whether other stream replicas feed the port of an input."""
    ports = component.feed_ports
    return bool(ports) and any(
        ports.get(other) == ports[number]
        and other != number
        and feed.operator
        and component.ports[other].state is not CLOSED
        for other, feed in component.feeds.items()
    )


def change_inputs(component: Component, assignment: Assignment) -> InputChanges:
    """Have a component read the inputs of its present assignment, and no others."""
    wanted, none = assignment.feeds, InputFeed(component.application, "")
    left = {
        number: output_of(component, number)
        for number, feed in component.feeds.items()
        if feed != wanted.get(number, none)
    }
    for number in left:
        component.feeds[number] = wanted.get(number, none)
        component.ports[number].close()
    added = [number for number in wanted if number not in component.feeds]
    for number in added:
        closed = not wanted[number].operator
        component.feeds[number], component.ports[number] = wanted[number], Port(None, late=True, closed=closed)
    component.feed_ports |= assignment.feed_ports
    forgotten = sorted(_unused(component) - wanted.keys())
    for number in forgotten:
        del component.feeds[number], component.ports[number]
        component.feed_ports.pop(number, None)
    if (added or forgotten) and isinstance(component.logic, MergedLogic):
        component.logic.set_ports(component.feed_ports or {number: number for number in component.feeds})
    return InputChanges(left, added, forgotten)


def _unused(component: Component) -> set[int]:
    """Return the numbers of closed inputs to which neither an execution nor an order of inputs refers any more.

    While there are copies that need the order of inputs, the orders that they have may refer to any input.
    """
    if component.role is not Role.ACTIVE or (component.copy_holders.numbers and component.ordered):
        return set()
    used = {run.port for run in (*component.reading.runs, *component.reading.prescribed)}
    closed = {number for number, port in component.ports.items() if port.state is CLOSED and not port.queue}
    return closed - used - component.executing
