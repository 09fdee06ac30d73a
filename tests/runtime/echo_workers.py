"""Peers on Dask workers of this process: their factory, and waiting for an event."""

from __future__ import annotations

import asyncio

from synergy_nb.events import Event
from synergy_nb.runtime.process._peer_driver import PeerRuntime
from tests.waiting import DEADLINE

FACTORY = "tests.runtime.echo_peer:make"


async def event(runtime: PeerRuntime, kind: str, number: int = 1) -> Event:
    """The ``number``-th event of a kind, once it is there. The deadline only ends a test that fails."""
    async with asyncio.timeout(DEADLINE):
        while True:
            found = [event for event in runtime.journal if event.kind == kind]
            if len(found) >= number:
                return found[number - 1]
            await journaled(runtime)


async def journaled(runtime: PeerRuntime) -> None:
    """Wait until the next event is appended."""
    appended = asyncio.get_running_loop().create_future()
    append = runtime.journal.append

    def note(event: Event) -> Event:
        if not appended.done():
            appended.set_result(None)
        return append(event)

    runtime.journal.append = note  # type: ignore[method-assign]
    try:
        await appended
    finally:
        runtime.journal.append = append  # type: ignore[method-assign]
