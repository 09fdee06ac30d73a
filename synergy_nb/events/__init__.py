"""The events of a journal: declared values with a severity, grouped by their subject.

:mod:`~synergy_nb.events.requests` has those of composition, :mod:`~synergy_nb.events.applications` those of
applications, :mod:`~synergy_nb.events.hot_spots` those of hot spots and of migrations,
:mod:`~synergy_nb.events.replicas` those of the placement of replicas, :mod:`~synergy_nb.events.waits` those of
components that wait, and :mod:`~synergy_nb.events.peers` those of peers and links, among them the errors of peers.
Readers of a journal dispatch on the type (:class:`~synergy_nb.events.base.Handlers`).
"""

from __future__ import annotations

from synergy_nb.events import applications, base, hot_spots, peers, replicas, requests, waits
from synergy_nb.events.applications import *  # noqa: F403 - each of these modules has __all__
from synergy_nb.events.base import *  # noqa: F403
from synergy_nb.events.hot_spots import *  # noqa: F403
from synergy_nb.events.peers import *  # noqa: F403
from synergy_nb.events.replicas import *  # noqa: F403
from synergy_nb.events.requests import *  # noqa: F403
from synergy_nb.events.waits import *  # noqa: F403

__all__: list[str] = []
__all__ += base.__all__
__all__ += requests.__all__
__all__ += applications.__all__
__all__ += hot_spots.__all__
__all__ += replicas.__all__
__all__ += waits.__all__
__all__ += peers.__all__
