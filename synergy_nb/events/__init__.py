"""The events that a journal holds: declared values with a severity, by what they are about.

:mod:`~synergy_nb.events.requests` has those of composition, :mod:`~synergy_nb.events.applications` those of what runs,
:mod:`~synergy_nb.events.replicas` those of the placement of replicas, and :mod:`~synergy_nb.events.peers` those of
peers and links, among them the errors of peers. Whoever reads a journal dispatches on the type
(:class:`~synergy_nb.events.base.Handlers`).
"""

from __future__ import annotations

from synergy_nb.events import applications, base, peers, replicas, requests
from synergy_nb.events.applications import *  # noqa: F403 - each of these modules lists what it offers
from synergy_nb.events.base import *  # noqa: F403
from synergy_nb.events.peers import *  # noqa: F403
from synergy_nb.events.replicas import *  # noqa: F403
from synergy_nb.events.requests import *  # noqa: F403

__all__: list[str] = []
__all__ += base.__all__
__all__ += requests.__all__
__all__ += applications.__all__
__all__ += replicas.__all__
__all__ += peers.__all__
