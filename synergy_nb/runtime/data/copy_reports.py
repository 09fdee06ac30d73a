"""What a peer says of copies of components: those that it keeps itself, and those that others keep of its own.

A copy of a part on Spark needs more than a snapshot: the part may be on another server than that of this peer. Whether
this one could go on with its checkpoint is found out by a task on it, as soon as a snapshot tells where that is. Then
the server rehearses the part, as much of what it does for the first time takes seconds; and the session of this peer is
open in any case. A rehearsal on the part's own server was measured, too: what follows was no faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from synergy_nb.control.driver_messages import CopiesLagging, CopyReady, CopyUnusable
from synergy_nb.control.peer import DriverMessage
from synergy_nb.dataflow.streams.deployments import Place
from synergy_nb.dataflow.streams.effects import Fact, FactKind
from synergy_nb.dataflow.streams.hosting import Hosting
from synergy_nb.plan import Plan
from synergy_nb.runtime.data.spark_part import asked_of, resumption_of
from synergy_nb.runtime.data.spark_servers import SparkHost

__all__ = ["CopyReports"]


class CopyReports:
    """Tells a peer's session of the copies of components.

    Parameters
    ----------
    report
        Sends a message of the driver to the peer, on a turn of the loop of its own.
    loop
        Event loop of the peer.
    spark
        Spark servers and parts of the peer.
    keys
        Secrets of ``encrypt`` and ``decrypt`` by name.
    """

    def __init__(
        self,
        report: Callable[[DriverMessage], None],
        loop: asyncio.AbstractEventLoop,
        spark: SparkHost,
        keys: Mapping[str, bytes],
    ) -> None:
        self._report = report
        self._loop = loop
        self._spark = spark
        self._keys = keys
        self._looking: set[asyncio.Task[None]] = set()

    def heard(self, fact: Fact, hosting: Hosting) -> None:
        """Take a fact about copies, when hosting has said it."""
        key = fact.application, fact.operator
        place, copy = hosting.place(*key), hosting.roles.copies.get(key)
        if fact.kind is FactKind.COPIES_BEHIND:
            self._report(CopiesLagging(*key, dict.fromkeys(fact.peers, fact.reason)))
        elif place is None or not place.elsewhere or copy is None or copy.state is None:
            self._report(CopyReady(*key))
        else:
            task = self._loop.create_task(self._look(fact, hosting, place, copy.state.head))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def _look(self, fact: Fact, hosting: Hosting, place: Place, head: bytes) -> None:
        key = fact.application, fact.operator
        resumption = resumption_of(head)
        reason = await asyncio.to_thread(self._spark.unreachable, resumption)
        deployment = hosting.deployments.get(key[0])
        if deployment is not None and not reason and resumption.server != self._spark.server:
            operator = Plan.from_bytes(deployment.plan).operators[key[1]]
            await asyncio.to_thread(self._spark.rehearse, asked_of(key[0], operator), self._keys)
        now = hosting.place(*key)
        if now is None or now.epoch != place.epoch:
            return  # it is another one by now, of which a snapshot will tell
        if reason:
            self._report(CopyUnusable(*key, reason))
        else:
            self._report(CopyReady(*key))

    def close(self) -> None:
        """Find out nothing more."""
        for task in self._looking:
            task.cancel()
