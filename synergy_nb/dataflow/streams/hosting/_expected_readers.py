"""The readers that a component expects by the deployment of its application. No IO, no clock."""

from __future__ import annotations

from synergy_nb.dataflow.deployments import FOLDER, Deployment
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.log.values import CLIENT, COPY, OnLag, Reader


def expect_readers(component: Component, deployment: Deployment, results: int) -> None:
    """Expect exactly the readers of a component that a deployment names.

    ``component``: component that makes the stream; ``deployment``: deployment of its application; ``results``: bytes
    that may wait for the client of a sink.
    """
    log, assignment = component.log, deployment.assignments[component.operator]
    wanted: dict[Reader, OnLag] = {}
    groups: dict[Reader, tuple[str, int]] = {}
    following: set[tuple[str, int, str]] = set()
    for operator, port in deployment.readers(component.operator):
        there = deployment.assignments[operator]
        reader = Reader(component.application, operator, port, there.active, there.epoch)
        wanted[reader] = OnLag.GROUP if there.replica_of else OnLag.BLOCK
        groups[reader] = there.replica_of, there.port(port)
        following |= {(operator, port, peer) for peer in there.followers}
    for shared in assignment.shared_readers:
        wanted[Reader(shared.application, shared.operator, shared.port, shared.peer, shared.epoch)] = OnLag.FAIL
    if assignment.sink:
        wanted[Reader(component.application, component.operator, CLIENT, component.peer)] = OnLag.BLOCK
    joins = component.know_readers()  # a later sharer reads from the present end
    for reader, on_lag in wanted.items():
        since = log.end if joins and on_lag is OnLag.FAIL and not reader.epoch else None
        cursor = log.expect(reader, since, on_lag, groups.get(reader, ("", 0)))
        if reader.port == CLIENT:
            cursor.collect(results)
    for peer in assignment.copies:
        # after the death of all peers, only a folder knows what was emitted: so nothing is trimmed that it lacks
        on_lag = OnLag.BLOCK if peer == FOLDER else OnLag.RESYNC
        log.expect(Reader(component.application, component.operator, COPY, peer), None, on_lag)
    for reader in tuple(log.cursors):
        copies = reader.port == COPY and reader.peer in assignment.copies
        ahead = any(reader.replaces(known) for known in wanted)  # its deployment has not arrived here yet
        if reader not in wanted and not copies and not ahead and reader[1:4] not in following:
            log.unsubscribe(reader)
    log.trim()
