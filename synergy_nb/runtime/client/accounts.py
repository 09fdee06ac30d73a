"""Accounts of an application from the journals of its peers: its explanation, and its replay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from synergy_nb.events import Event
from synergy_nb.events.table import Events
from synergy_nb.models.delay_matrix import Matrix
from synergy_nb.plan import Plan
from synergy_nb.recording.moments import Replay
from synergy_nb.recording.stage import RING_EVENTS, replay_events
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.runtime.process.requests import ApplicationState

__all__ = ["Journals", "explained", "replayed"]


class Journals(Protocol):
    """The part of a cluster that knows the journals of its peers."""

    async def events(self, subject: str = "") -> Events:
        """Return the events in the peers' journals."""

    async def troubles(self, since: float) -> list[Event]:
        """Return the errors in the journals of the peers since a time in seconds."""

    @property
    def names(self) -> Mapping[str, str]:
        """Peer address to name."""

    def delays(self) -> tuple[Sequence[str], Matrix] | None:
        """Return addresses of peers, and the delays imposed between them in seconds; None without these."""


async def explained(journals: Journals, state: ApplicationState) -> Explanation:
    """Return the explanation of an application.

    Parameters
    ----------
    journals
        Cluster whose peers have journals of it.
    state
        State of the application, as its origin knows it.
    """
    events = await journals.events(state.application)
    since = min((event.time for event in events), default=-math.inf)
    found = [*events, *await journals.troubles(since)]
    return Explanation(state.application, found, journals.names, (state.status, state.reason))


async def replayed(journals: Journals, application: str, plan: Plan) -> Replay:
    """Return the replay of an application from the journals, with what became of peers.

    Parameters
    ----------
    journals
        Cluster whose peers have journals of it.
    application, plan
        Id of the application, and its plan.
    """
    found = await journals.events()
    own = [event for event in found if event.subject == application or isinstance(event, RING_EVENTS)]
    return replay_events(application, plan, own, names=journals.names, delays=journals.delays())
