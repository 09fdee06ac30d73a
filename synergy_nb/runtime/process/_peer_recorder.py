"""Records the inputs of one live peer, to the file that the peers of a cluster share."""

from __future__ import annotations

import asyncio
from typing import Final

from synergy_nb.control.peer import Peer
from synergy_nb.events import RecordingStopped
from synergy_nb.recording.construction import Construction
from synergy_nb.recording.recorder import RecordedPeer
from synergy_nb.recording.recording_file import ChunkWriter, beginning_of
from synergy_nb.runtime.process._peer_driver import PeerRuntime

FLUSHED: Final = 0.1  # seconds until a record is written: a killed peer loses at most these


class PeerRecorder:
    """Creates the kernel of a recorded peer, and writes its records.

    ``construction``: values that the peer is created from.
    """

    def __init__(self, runtime: PeerRuntime, path: str, construction: Construction) -> None:
        self._runtime = runtime
        self._beginning = beginning_of(construction)
        self._timer: asyncio.TimerHandle | None = None
        life = f"{runtime.address} {runtime.now:.6f}"
        self._writer = ChunkWriter(path, life, self._waiting, self._failed)

    def kernel(self, address: str, seed: int) -> Peer:
        """Create the kernel of the peer."""
        return RecordedPeer(address, seed, self._beginning, self._writer.add)

    def _waiting(self) -> None:
        self._cancel()
        self._timer = self._runtime.loop.call_later(FLUSHED, self._writer.flush)

    def _failed(self, reason: str) -> None:
        self._runtime.record(RecordingStopped, self._runtime.address, reason=reason)

    async def flush(self, _payload: bytes) -> bytes:
        """Write all records so far, on a client's request."""
        self._writer.flush()
        return b""

    def close(self) -> None:
        """Write the waiting records, and stop recording."""
        self._cancel()
        self._writer.close()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
