"""Chains: consecutive operators of one peer that execute in one go, so that tuples do not pass the event loop between.

A chain goes on from a component to its only reader if nobody else needs its output at the moment: no copy, no sharer,
no client, no peer elsewhere. Both logs, and all places in them, are then kept as if each had executed for itself: what
the first has made is appended and delivered when the execution has ended, and is at the same time what the second has
consumed. Only components of one input take part: they make the same tuples again at the same positions, wherever they
are executed. So it does no harm if the first of two has been moved away meanwhile, and what it made is not appended:
its reader knows that it has executed these tuples, and cuts them off when they come again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from synergy_nb.dataflow.streams.deployments import Role
from synergy_nb.dataflow.streams.execution import Link
from synergy_nb.dataflow.streams.values import COPY, OnLag

if TYPE_CHECKING:
    from synergy_nb.dataflow.streams.component import Component
    from synergy_nb.dataflow.streams.execution import Encode

__all__ = ["chain"]


def chain(
    components: Mapping[tuple[str, str], Component],
    first: Component,
    peer: str,
    encoder: Callable[[Component], Encode | None],
) -> tuple[Link, ...]:
    """Components that may execute at once what a component makes, one after another.

    Parameters
    ----------
    components
        All components of the peer, by application and operator.
    first
        Component that is going to execute.
    peer
        Address of the peer.
    encoder
        Gives what makes the encoded form of the chunks of a component.
    """
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
    """The component that executes at once what another one makes, or None."""
    if made_by.role is not Role.ACTIVE or made_by.elsewhere or made_by.copies or len(made_by.ports) != 1:
        return None
    if len(made_by.log.cursors) != 1:
        return None
    (cursor,) = made_by.log.cursors.values()
    reader = cursor.reader
    if reader.peer != peer or reader.port <= COPY or cursor.on_lag is not OnLag.BLOCK or not cursor.subscribed:
        return None
    component = components.get((reader.application, reader.operator))
    if component is None or component.reader(reader.port) != reader or not component.idle:
        return None
    port, end = component.ports[0], made_by.log.end
    up_to_date = port.subscribed and port.epoch == made_by.epoch and port.received == end == cursor.sent
    return component if up_to_date else None
