"""The same requests composed and executed by real peers: Dask workers in two processes, with artificial link delays.

The peers, their components and their positions in the network are those of the simulated scenario, and so are the
requests, their origins and their arrival times. Operators with a processing time block the one thread of their peer for
that time without using the processor, so that 88 peers of one core each fit on a machine with two. Sources are packets
in bursts, as the generator makes them. Delays are measured by the wall clock and include the work of the machine: each
message and each tuple costs processor time, which a loaded machine lacks.

The delay from the point where a stream is shared (``own_delay``) is not measured, and loads are committed loads.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any, Final

from synergy_experiments.flows.workload import Workload
from synergy_experiments.worlds.scenario import Outcome, Scenario, Served
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.process.requests import ClusterError, NotAdmitted
from synergy_nb.runtime.process.starting import start_cluster
from synergy_nb.runtime.transport.wide_area import WideArea
from synergy_nb.simulator.network import Topology

__all__ = ["live", "run_live"]

PROCESSES: Final = 2
JOINING: Final = 120.0  # time limit for all peers to join one ring, seconds
STABILISING: Final = 0.1  # wait per peer after all have joined, seconds
QUIET: Final = 3.0  # seconds between the last decision and the first tuple that is counted
PATIENCE: Final = 60.0  # time limit for the decision on a request, seconds
TRIES: Final = 5


def live(given: Scenario, seed: int) -> dict[str, float]:
    """Measure the metrics of a scenario on real peers."""
    return {name: value for name, value in run_live(given, seed).metrics().items() if not math.isnan(value)}


def run_live(given: Scenario, seed: int) -> Outcome:
    """Compose and execute the requests of a scenario on real peers."""
    return asyncio.run(_lived(given, seed))


async def _lived(given: Scenario, seed: int) -> Outcome:
    topology, workload = given.world(seed)
    cluster = await start_cluster(
        len(topology),
        cores=1.0,
        wide_area=WideArea(topology.delays() * 2e3, topology.bandwidths()),
        composition=given.config(),
        seed=seed,
        spark=False,
        per_process=-(-len(topology) // PROCESSES),
        of=_parts(topology, workload, given.pings),
        joining=JOINING,
    )
    try:
        await asyncio.sleep(STABILISING * len(topology))
        return await _serve(cluster, given, workload)
    finally:
        await cluster.close()


def _parts(topology: Topology, workload: Workload, pings: float) -> dict[str, dict[str, Any]]:
    """Return the settings of each peer: components, capacity and interval of pings."""
    return {
        peer: {"components": list(workload.offers(peer)), "cores": cores, "pings": pings}
        for peer, cores in topology.cores.items()
    }


async def _serve(cluster: AsyncCluster, given: Scenario, workload: Workload) -> Outcome:
    loop = asyncio.get_running_loop()
    before = await _messages(cluster)
    began = loop.time()
    running: dict[str, AsyncApplication] = {}
    served = {request.name: Served(request) for request in workload.requests}

    async def submit(each: Served) -> None:
        request = each.request
        await asyncio.sleep(began + request.arrival - loop.time())
        for tries in range(1, TRIES + 1):
            try:
                found = await cluster.submit(workload.plan(request), origin=request.origin, timeout=PATIENCE)
            except NotAdmitted as refused:
                each.status, each.reason = "rejected", str(refused)
            except ClusterError:  # so busy that the origin has not even answered a ping
                if tries == TRIES:
                    raise
                continue
            else:
                running[request.name] = found
                each.status, each.peers, each.setup = "running", found.graph, found.last.setup
            return

    await asyncio.gather(*(submit(each) for each in served.values()))
    elapsed = loop.time() - began
    sent = await _messages(cluster) - before
    await asyncio.sleep(QUIET)
    first = await _delays(running)
    await asyncio.sleep(given.window)
    last = await _delays(running)
    for name, each in served.items():
        if name in running:
            _count(each, first[name], last[name])
    identity = {application.id: name for name, application in running.items()}
    for event in await cluster.events():
        if event.subject in identity:
            served[identity[event.subject]].note(event)
    states = [state for state in (await cluster.states()).values() if state is not None]
    return Outcome(
        served=list(served.values()),
        probes=sum(state.probes for state in states),
        messages=sent,
        events=0,
        component_tuples=sum(int(part["tuples_in"]) for state in states for part in state.components),
        loads=[state.load for state in states],
        virtual=elapsed,
    )


async def _messages(cluster: AsyncCluster) -> int:
    return sum(state.messages for state in (await cluster.states()).values() if state is not None)


async def _delays(running: Mapping[str, AsyncApplication]) -> dict[str, tuple[int, float, float]]:
    """Return the number of tuples, the sum of their delays in seconds, and the number of late ones, by application."""

    async def one(application: AsyncApplication) -> tuple[int, float, float]:
        tuples, total, late = 0, 0.0, 0.0
        for record in (await application.state()).qos.values():
            count = int(record["tuples"])
            tuples += count
            total += count * (record["delay_mean_s"] or 0.0)
            late += count * (record["miss_rate"] or 0.0)
        return tuples, total, late

    found = await asyncio.gather(*(one(application) for application in running.values()))
    return dict(zip(running, found, strict=True))


def _count(each: Served, first: tuple[int, float, float], last: tuple[int, float, float]) -> None:
    """Store the counts between two readings."""
    each.tuples = last[0] - first[0]
    each.late = round(last[2] - first[2])
    if each.tuples:
        each.delay = (last[1] - first[1]) / each.tuples
