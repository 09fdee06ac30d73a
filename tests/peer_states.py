"""States of live peers, each of which is asked until it has answered.

``Cluster.states`` leaves out a peer that does not answer within a second, as a peer of a busy machine may not.
"""

from __future__ import annotations

from typing import Any

from synergy_nb.reporting.peer_states import PeerState
from tests.waiting import asked_until

__all__ = ["state_of", "states_of"]


def states_of(peers: Any) -> dict[str, PeerState]:
    """The states of all peers of a cluster or a simulation."""
    found: dict[str, PeerState] = {}

    def all_answer() -> bool:
        found.update({name: state for name, state in peers.states().items() if state is not None})
        return found.keys() >= set(peers.peers)

    asked_until(all_answer)
    return found


def state_of(peers: Any, name: str) -> PeerState:
    """The state of a peer by its name."""
    found: list[PeerState] = []

    def answers() -> bool:
        state = peers.states()[name]
        found.extend([] if state is None else [state])
        return bool(found)

    asked_until(answers)
    return found[0]
