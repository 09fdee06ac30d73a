"""Migration: the components that leave a hot spot, and their new peers (chapter 3 of [1]_).

===============  ====================================================================================================
selection        the component executions that leave a peer so that all others keep their limits (section 3.4.1)
candidates       the order in which peers are asked, and the projection of one that is asked (sections 3.4.2, 3.4.4)
move_history     recent moves, against moves to and fro (the ping-pong phenomenon of section 3.4.4)
slack_monitor    predicted times along the graphs of a peer's applications, by the reports of all peers (3.3.1)
hot_spots        the protocol: who acts, the search for a target, and the request to the origin (section 3.4)
target           the protocol at a peer that is asked to take a component: projection, reservation and reply
relocations      the protocol at the origin, which has components moved
relief           the state of a peer that relieves itself
messages         the messages between the peer with a hot spot, the peers that it asks, and the origin
===============  ====================================================================================================

The first three modules only compute: from measurements and predictions to a choice with its numbers. Slack and
execution times are in :mod:`synergy_nb.models.slack` and :mod:`synergy_nb.models.execution_times`.

References
----------
.. [1] T. Repantis, "Synergy: Quality of Service Support for Distributed Stream Processing Systems", dissertation,
   University of California, Riverside, 2008.
"""

from __future__ import annotations

from synergy_nb.algorithms.migration._candidates import (
    Candidate,
    Projection,
    Reservations,
    allowed_at,
    least_loaded,
    project,
)
from synergy_nb.algorithms.migration._hot_spots import HotSpots
from synergy_nb.algorithms.migration._move_history import MoveHistory
from synergy_nb.algorithms.migration._relief import Rest
from synergy_nb.algorithms.migration._selection import Execution, Selection, fewest, largest_first, slacks

__all__ = [
    "Candidate",
    "Execution",
    "HotSpots",
    "MoveHistory",
    "Projection",
    "Reservations",
    "Rest",
    "Selection",
    "allowed_at",
    "fewest",
    "largest_first",
    "least_loaded",
    "project",
    "slacks",
]
