"""Reports of a peer about copies of components: those that it holds, and those that others hold of its components.

A copy of a part on Spark needs more than a snapshot, as the part may be on another server than that of this peer. A
task on this peer's server finds out whether it can read the part's checkpoint, as soon as a snapshot states where that
is. Then the server rehearses the part, as many things take seconds the first time; the session of this peer is open in
any case. A rehearsal on the part's own server was measured, too: the take-over was no faster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from synergy_nb.control.driver_messages import CopiesLagging, CopyReady, CopyUnusable
from synergy_nb.control.peer import DriverMessage
from synergy_nb.dataflow.deployments import Assignment
from synergy_nb.dataflow.streams.hosting.effects import Fact, FactKind
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.plan import Plan
from synergy_nb.runtime.data._spark_part import part_to_execute
from synergy_nb.runtime.data.spark_servers import SparkHost, resumption_of

__all__ = ["CopyReports"]


class CopyReports:
    """Reports the copies of components to the peer's sessions."""

    def __init__(
        self,
        # function that sends a message of the driver to the peer, on a separate turn of the loop
        report: Callable[[DriverMessage], None],
        loop: asyncio.AbstractEventLoop,
        spark: SparkHost,
        secrets: Mapping[str, bytes],  # by the name that plans use for them
    ) -> None:
        self._report = report
        self._loop = loop
        self._spark = spark
        self._secrets = secrets
        self.looking: set[asyncio.Task[None]] = set()

    def handle(self, fact: Fact, hosting: Hosting) -> None:
        """Handle a fact of hosting about copies."""
        key = fact.application, fact.operator
        assignment, copy = hosting.assignment(*key), hosting.roles.copies.get(key)
        if fact.kind is FactKind.COPIES_BEHIND:
            self._report(CopiesLagging(*key, dict.fromkeys(fact.peers, fact.reason)))
        elif assignment is None or not assignment.external or copy is None or copy.state is None:
            self._report(CopyReady(*key))
        else:
            task = self._loop.create_task(self._look(fact, hosting, assignment, copy.state.head))
            self.looking.add(task)
            task.add_done_callback(self.looking.discard)

    async def _look(self, fact: Fact, hosting: Hosting, assignment: Assignment, head: bytes) -> None:
        key = fact.application, fact.operator
        resumption = resumption_of(head)
        reason = await asyncio.to_thread(self._spark.unreachable, key[0], resumption)
        deployment = hosting.deployments.get(key[0])
        if deployment is not None and not reason and resumption.server != self._spark.server:
            operator = Plan.from_bytes(deployment.plan).operators[key[1]]
            await asyncio.to_thread(self._spark.rehearse, part_to_execute(key[0], operator), self._secrets)
        now = hosting.assignment(*key)
        if now is None or now.epoch != assignment.epoch:
            return  # the copy has been replaced; its own snapshot will be reported
        if reason:
            self._report(CopyUnusable(*key, reason))
        else:
            self._report(CopyReady(*key))

    def close(self) -> None:
        """Stop all tasks."""
        for task in self.looking:
            task.cancel()
