"""Chains: consecutive operators of one peer execute in one go, so that tuples do not pass the event loop in between.

A chain continues from a component to its only reader if nobody else needs the output at the moment: no copy, no sharer,
no client, no other peer. Both logs, and all points in them, are then maintained as if each component had executed by
itself: when the execution has ended, the output of the first component is appended and delivered, and at the same time
counts as consumed by the second. A component that waits for
another process is in none. Only components with one input are chained: they make the same tuples again at the
same positions, on whichever peer they are executed. So a chain is safe even if the first component has moved to another
peer meanwhile and its output is not appended: the reader knows which tuples it has executed, and discards them when
they arrive again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from synergy_nb.dataflow.deployments import Role
from synergy_nb.dataflow.streams.component.execution import Link
from synergy_nb.dataflow.streams.log.log import EXPECTED
from synergy_nb.dataflow.streams.log.merge import SUBSCRIBED
from synergy_nb.dataflow.streams.log.values import COPY, OnLag

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.component.component import Component
    from synergy_nb.dataflow.streams.component.execution import Encode


def chain(
    components: Mapping[tuple[str, str], Component],  # all components of the peer, by application and operator
    first: Component,  # component that is going to execute
    peer: str,  # address of the peer
    encoder: Callable[[Component], Encode | None],  # function that returns the encoder of a component's chunks
) -> tuple[Link, ...]:
    """Return the components that execute at once what a component makes, one after another."""
    found: list[Link] = []
    known = {first}
    while True:
        following = _only_reader(components, first, peer)
        if following is None or following in known:
            return tuple(found)
        known.add(following)
        found.append(Link(following, following.log.end, encoder(following)))
        first = following


def _only_reader(components: Mapping[tuple[str, str], Component], made_by: Component, peer: str) -> Component | None:
    """Return the component that executes at once what another one makes; None if there is none."""
    if made_by.role is not Role.ACTIVE or made_by.external or made_by.copy_holders.numbers or len(made_by.ports) != 1:
        return None
    if len(made_by.log.cursors) != 1:
        return None
    (cursor,) = made_by.log.cursors.values()
    reader = cursor.reader
    if reader.peer != peer or reader.port <= COPY or cursor.on_lag is not OnLag.BLOCK or cursor.state is EXPECTED:
        return None
    component = components.get((reader.application, reader.operator))
    if (
        component is None
        or component.apart
        or made_by.apart
        or reader.port not in component.ports
        or (component.peer, component.epoch) != (reader.peer, reader.epoch)
        or not component.idle
    ):
        return None
    (port,) = component.ports.values()
    end = made_by.log.end
    up_to_date = port.state is SUBSCRIBED and port.epoch == made_by.epoch and port.received == end == cursor.sent
    return component if up_to_date else None
