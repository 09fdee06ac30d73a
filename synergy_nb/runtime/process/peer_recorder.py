"""Records what one live peer gets, to the file that the peers of a cluster share."""

from __future__ import annotations

import asyncio
from typing import Final

from synergy_nb.control.peer import Peer
from synergy_nb.events import RecordingStopped
from synergy_nb.recording.construction import Construction
from synergy_nb.recording.recorder import RecordedPeer
from synergy_nb.recording.recording_file import ChunkWriter, beginning_of
from synergy_nb.runtime.process.peer_driver import PeerRuntime

__all__ = ["PeerRecorder"]

FLUSHED: Final = 0.1  # seconds after which a record is written at the latest: as much a peer that is killed loses


class PeerRecorder:
    """Makes the kernel of a recorded peer, and writes what it records.

    Parameters
    ----------
    runtime
        Runs the peer.
    path
        File of the recording.
    construction
        Values that the peer is made from.
    """

    def __init__(self, runtime: PeerRuntime, path: str, construction: Construction) -> None:
        self._runtime = runtime
        self._beginning = beginning_of(construction)
        self._timer: asyncio.TimerHandle | None = None
        life = f"{runtime.address} {runtime.now:.6f}"
        self._writer = ChunkWriter(path, life, self._waiting, self._failed)

    def kernel(self, address: str, seed: int) -> Peer:
        """The kernel of the peer."""
        return RecordedPeer(address, seed, self._beginning, self._writer.add)

    def _waiting(self) -> None:
        self._cancel()
        self._timer = self._runtime.loop.call_later(FLUSHED, self._writer.flush)

    def _failed(self, reason: str) -> None:
        self._runtime.record(RecordingStopped, self._runtime.address, reason=reason)

    async def flush(self, _payload: bytes) -> bytes:
        """Write what is recorded so far, for a client that asks for it."""
        self._writer.flush()
        return b""

    def close(self) -> None:
        """Write what waits, and record nothing more."""
        self._cancel()
        self._writer.close()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
