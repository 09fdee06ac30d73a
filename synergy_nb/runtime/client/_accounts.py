"""Accounts of an application from the journals of its peers: its explanation, and its replay."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from synergy_nb.events import Event
from synergy_nb.events.peer_names import readable
from synergy_nb.events.table import Events
from synergy_nb.models.delay_matrix import Matrix
from synergy_nb.plan import Plan
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.runtime.process.requests import ApplicationState

if TYPE_CHECKING:
    from synergy_nb.recording.moments import Replay


class Journals(Protocol):
    """The part of a cluster that knows the journals of its peers."""

    async def events(self, subject: str = "") -> Events:
        """Return the events in the peers' journals."""

    async def account(self, application: str) -> list[Event]:
        """Return the events about an application in the peers' journals, and all errors since the first of them."""

    @property
    def names(self) -> Mapping[str, str]:
        """Peer address to name."""

    async def recorded(self) -> str:
        """Return the file to which the peers record, after all have written their records; empty if they do not."""

    def delays(self) -> tuple[Sequence[str], Matrix] | None:
        """Return addresses of peers, and the delays imposed between them in seconds; None without these."""


async def explained(journals: Journals, state: ApplicationState) -> Explanation:
    """Return the explanation of an application.

    ``state``: state of the application, as its origin knows it.
    """
    found = await journals.account(state.application)
    return Explanation(state.application, found, journals.names, (state.status, state.reason), time.time())


async def replayed(journals: Journals, state: ApplicationState, plan: Plan, origin: str) -> Replay:
    """Return the replay of an application: from the recording, if the cluster records; else from the journals.

    ``state``, ``plan``, ``origin``: state of the application, its plan, and the address of its origin.
    """
    from synergy_nb.recording.stage import RING_EVENTS, replay_events, replay_file  # noqa: PLC0415 - few need replays

    application = state.application
    file = await journals.recorded()
    if file:
        try:
            return await asyncio.to_thread(replay_file, file, application, delays=journals.delays())
        except ValueError:
            pass  # the file was moved, or could not be written to the end of this request
    found = await journals.events()
    own = [event for event in found if event.subject == application or isinstance(event, RING_EVENTS)]
    names = journals.names
    replay = replay_events(application, plan, own, names=names, delays=journals.delays())
    outcome = f"{state.status}: {state.reason}" if state.reason else state.status
    return replay.completed(names.get(origin, origin), readable(outcome, names))
