"""Ways to compose a request: with streams that run already, or from components alone (section 2.3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from synergy_nb.graph import Use
from synergy_nb.overlay.entries import Entry
from synergy_nb.plan import Plan
from synergy_nb.plan.sharing import Provider, is_live, reduced, sharable_points

__all__ = ["Way", "sharing_way"]

_uses = msgspec.json.Decoder(tuple[Use, ...])


class Way(NamedTuple):
    """A plan that gives what was asked for.

    Parameters
    ----------
    plan
        Query plan that is to be composed.
    shared
        For each of its taps, by the address of a peer that gives the stream: the components that it is made by.
    """

    plan: Plan
    shared: Mapping[str, Mapping[str, tuple[Use, ...]]] = {}


def sharing_way(
    plan: Plan, found: Mapping[str, tuple[Entry, ...]], is_dead: Callable[[str], bool], *, everything: bool
) -> Way | None:
    """The plan from its maximum sharable points on; None if no stream that it needs can be shared.

    Parameters
    ----------
    plan
        Query plan ξ.
    found
        Entries of the directory by the names of streams.
    is_dead
        Whether a peer is known to have died.
    everything
        Whether streams are shared that a later reader gets without their beginning.
    """
    providers: dict[str, dict[str, Provider]] = {}
    shared: dict[str, dict[str, tuple[Use, ...]]] = {}

    def runs(operator: str) -> bool:
        if not _may_share(plan, operator, everything=everything):
            return False
        for entry in found.get(plan.stream_name(operator), ()):
            made_by = _made_by(entry)
            if made_by and not any(is_dead(peer) for use in made_by for peer in _needed(use)):
                at = str(entry.attributes["application"]), str(entry.attributes["operator"])
                providers.setdefault(operator, {})[entry.host] = at
                shared.setdefault(operator, {})[entry.host] = made_by
        return operator in providers

    points = sharable_points(plan, runs)
    if not points:
        return None
    way = reduced(plan, {point: providers[point] for point in points})
    return Way(way, {point: shared[point] for point in points if point in way.operators})


def _needed(use: Use) -> tuple[str, ...]:
    """Peers that have to agree that a component is used."""
    return (use.peer, *use.copies, *((use.origin,) if use.origin else ()))


def _may_share(plan: Plan, operator: str, *, everything: bool) -> bool:
    """Whether a stream is the same whoever asks for it; what a notebook pushes into its own source is not."""
    if is_live(plan, operator):
        return True
    return everything and "python" not in _connectors(plan, operator)


def _connectors(plan: Plan, operator: str) -> set[str]:
    asked = plan.operators[operator]
    own = {str(asked.params.get("connector"))} if asked.kind == "source" else set()
    return own.union(*(_connectors(plan, up) for up in plan.upstream(operator)))


def _made_by(entry: Entry) -> tuple[Use, ...]:
    """The components that a stream is made by; empty if the entry does not offer it."""
    if not {"application", "operator", "uses"} <= entry.attributes.keys():
        return ()
    try:
        return _uses.decode(str(entry.attributes["uses"]))
    except msgspec.MsgspecError:
        return ()
