"""What a successor makes of the graphs that the members of an application know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.messages import Claimed, End, Graph, Sharer
from synergy_nb.lifecycle.sessions.deploying import EPOCHS

__all__ = ["TERM", "ending", "first_graph", "known_sharers", "not_executed"]

TERM: Final = EPOCHS // 2  # epoch of the first graph of a successor; no origin makes so many


def first_graph(
    latest: Graph,
    placed: Mapping[str, Sequence[str]],
    answers: Mapping[str, Claimed],
    is_dead: Callable[[str], bool],
) -> Graph:
    """The first graph of a successor: without moves and rebuilds that nobody has carried out yet.

    A follower at the peer of a backup that was ``placed`` is a backup again. That of a component which died is one,
    too, if it is ready and there is no other one.
    """
    roles = latest.roles
    backups = dict(roles.backups)
    for operator, to in roles.followers.items():
        alone = all(is_dead(peer) for peer in backups.get(operator, ()))
        if is_dead(roles.peers[operator]) and alone and to in answers and operator in answers[to].ready:
            backups[operator] = (to,)
        elif to in placed.get(operator, ()) and to != roles.peers[operator]:
            backups[operator] = (*backups.get(operator, ()), to)
    for replica, (_, to) in roles.rebuilds.items():
        if roles.peers[replica] != to:
            roles = roles.released(replica)
    roles = msgspec.structs.replace(roles, backups=backups, followers={})
    return msgspec.structs.replace(latest, roles=roles, epoch=max(latest.epoch + 1, TERM))


def not_executed(
    graph: Graph, answers: Mapping[str, Claimed], is_dead: Callable[[str], bool]
) -> tuple[set[str], set[str]]:
    """Operators that living peers of a graph do not execute: those that backups there could take over, and all others.

    The first were being taken over when the origin died.
    """
    coming, lost = set[str](), set[str]()
    for operator, peer in graph.roles.peers.items():
        answer = answers.get(peer)
        if not peer or operator in graph.shared or is_dead(peer) or answer is None or operator in answer.executes:
            continue
        known = answer.graph
        (coming if known is not None and peer in known.roles.backups.get(operator, ()) else lost).add(operator)
    return coming, lost


def ending(ends: Iterable[End | None], origin: str, *, sinks_ended: bool) -> tuple[State, str]:
    """The state and the reason of the end of an application that its origin has ended.

    ``ends``: ends of which its members were told, or None; the first that says a status counts; ``sinks_ended``:
    whether all streams have ended at this peer's sinks: then it has finished.
    """
    told = next((end for end in ends if end is not None and end.status), None)
    if sinks_ended:
        return State.FINISHED, ""
    if told is None:
        return State.STOPPED, f"its origin {origin} had ended it"
    return State(told.status), "" if told.reason == told.status else told.reason


def known_sharers(answers: Iterable[Claimed]) -> dict[str, Sharer]:
    """The sharers that members know, each by its last graph."""
    found: dict[str, Sharer] = {}
    for answer in answers:
        for name, sharer in answer.sharers:
            known = found.get(name)
            if known is None or (known.attempt, known.epoch) < (sharer.attempt, sharer.epoch):
                found[name] = sharer
    return found
