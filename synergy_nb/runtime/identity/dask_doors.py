"""What each role may ask of Dask's own scheduler and workers, whose protocol runs code for whoever may speak it.

The owner and the scheduler may ask for all. Other peers and guests get what a link and the life of a worker need. So a
guest, or a peer that somebody else runs, executes no code by Dask, and nothing that it sends is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from synergy_nb.control.identity import OWNER, PEER, SCHEDULER, USER

__all__ = ["AT_SCHEDULER", "AT_WORKER", "Operations"]

Operations = Mapping[str, frozenset[str] | None]
"""Role to the operations of Dask that it may ask for; None: all."""

ENDS: Final = frozenset({"close", "close-stream", "stream-closed"})  # those that end a connection
LINK: Final = "synergy_link"  # handler of the worker that accepts links
ASKS: Final = ENDS | {"identity"}  # and which workers there are
#: What a worker reports of itself, once and then on its stream.
REPORTS: Final = frozenset(
    {
        *("register-worker", "heartbeat_worker", "unregister", "keep-alive", "worker-status-change", "log-event"),
        *("task-finished", "task-erred", "release-worker-data", "add-keys", "long-running", "reschedule"),
        *("request-refresh-who-has", "who_has", "identity"),
    }
)
AT_SCHEDULER: Final[Operations] = {OWNER: None, SCHEDULER: None, PEER: REPORTS | ASKS, USER: ASKS}
AT_WORKER: Final[Operations] = {OWNER: None, SCHEDULER: None, PEER: ENDS | {LINK, "get_data"}, USER: ENDS | {LINK}}
