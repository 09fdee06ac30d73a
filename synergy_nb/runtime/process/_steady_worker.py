"""A worker that outlives its connection to the scheduler; Dask's ends with it, and a peer with its worker.

Peers need no scheduler once they run, so one connection that is reset must not be the death of a peer. Such a worker
registers once more, as the scheduler has removed it. It ends as Dask's does where the scheduler has ended, or has
retired it, or where it has tasks of Dask's own, which no other worker may have. It ends, too, and says why in one line,
where the scheduler refuses it, as its certificate was revoked.

It sends few heartbeats: peers watch one another, and only Dask's dashboard reads what heartbeats say of a worker. At
the rate that Dask asks for, twice a second, they took a fifth of the processor time of peers without applications.
"""

# mypy: disable-error-code="no-untyped-call,misc,override"
# (of distributed, which is typed only here and there)

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from distributed import Worker
from distributed.batched import BatchedSend
from distributed.comm.core import connect
from distributed.core import Status, send_recv

from synergy_nb.runtime.transport.listening import REFUSED

__all__ = ["SteadyWorker"]

FORGOTTEN: Final = "worker-heartbeat-missing"  # why Dask closes a worker whose connection the scheduler has lost first
LOG: Final = logging.getLogger(__name__)
AGAIN_S: Final = 0.2  # seconds between two attempts
HEARTBEAT_S: Final = 5.0  # seconds between two heartbeats; Dask takes a worker for dead after 300 s without one
WITHIN_S: Final = 10.0  # seconds until the scheduler, which listens, has registered it
ENDED: Final = 3  # attempts in a row at which nobody listens, after which the scheduler has ended


class SteadyWorker(Worker):
    """A worker that registers anew when its connection to the scheduler breaks."""

    async def handle_scheduler(self, comm: Any) -> None:
        """Do what the scheduler says, until the connection ends for good."""
        try:
            await self.handle_stream(comm)
        finally:
            if not await self._registered_anew():
                await self.close(reason="worker-handle-scheduler-connection-broken")

    async def heartbeat(self) -> None:
        """Send the scheduler a heartbeat, and the next one later than its answer asks for."""
        await super().heartbeat()
        self.periodic_callbacks["heartbeat"].callback_time = HEARTBEAT_S * 1000.0

    async def close(self, *arguments: Any, reason: str = "worker-close", **options: Any) -> str | None:
        """Close the worker, but not where the scheduler only does not know it any more."""
        if reason == FORGOTTEN and self.status == Status.running:
            self.batched_stream.abort()  # a new connection follows
            return None
        closed: str | None = await super().close(*arguments, reason=reason, **options)
        return closed

    async def plugin_add(self, plugin: Any, name: str | None = None, catch_errors: bool = True) -> Any:
        """Add a plugin; one that is there goes on, as the peer does that it holds."""
        if name in self.plugins:
            return {"status": "OK"}
        return await super().plugin_add(plugin=plugin, name=name, catch_errors=catch_errors)

    async def _registered_anew(self) -> bool:
        """Register once more as soon as the scheduler answers; return whether this worker goes on."""
        refused = 0
        while self.status == Status.running and not self.data and not self.state.tasks:
            try:
                asked = await connect(self.scheduler.address, **self.connection_args)
                answer = await send_recv(asked, op="identity", n_workers=0)
                asked.abort()
                if REFUSED in answer:
                    LOG.critical("%s ends: the scheduler has refused %s", self.name, answer[REFUSED])
                    return False
                self.batched_stream.abort()
                self.batched_stream = BatchedSend(interval="2ms", loop=self.loop)
                async with asyncio.timeout(WITHIN_S):
                    await self._register_with_scheduler()
            except (OSError, TimeoutError, ValueError) as error:  # it has not noticed yet, or is out of reach
                refused = refused + 1 if _refused(error) else 0
                if refused == ENDED:
                    return False
                await asyncio.sleep(AGAIN_S)
            else:
                return True
        return False


def _refused(error: BaseException | None) -> bool:
    """Whether nobody listens at an address, by an error or one of its causes."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return True
        error = error.__cause__ or error.__context__
    return False
