"""Queries on real peers, of which one is killed and one hangs, whose links are cut and whose components move meanwhile.

What happens when is drawn from a seed, and is told by how many results have come; what is compared does not depend on
how fast anything is.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import polars as pl
import pytest
from distributed import Client, Worker

from synergy_nb import Application, Cluster, ClusterError, Plan, source
from synergy_nb.control.identity import endpoint_of
from synergy_nb.events import ComponentFailed, LinkBroken, OperatorFailed, PeerTrouble
from synergy_nb.plan.builder import Stream
from synergy_nb.runtime.process._plugin import runtime_of
from tests.waiting import DEADLINE

STAYING = ("peer-1", "peer-2", "peer-3")  # with all that has no replicas: sinks, sources, and what is shared
KILLED, HANGING = "peer-4", "peer-5"
RATE = 400.0
SECONDS = 4.0
UNDISTURBED, DISTURBED = 0.0, 0.02  # speeds of the sources
HURRIED = 1.0 / DISTURBED  # factor of their pace after the first move, which has all the time that it needs

#: Reasons of troubles that a peer has with others that die or are late, as one that hangs is, or all on a busy one.
LATE = re.compile(
    r"a (TLS )?handshake that was not .* within .*|a TLS handshake that failed: .*closed.*"
    r"|only neighbours in the ring hold the same entries"
)


def packets(seed: int, name: str, speed: float) -> Stream:
    return source("packets", seed=seed, rate=RATE, duration=f"{SECONDS} s", speed=speed, id=name, at="peer-2")


def chain(seed: int, speed: float, at: Callable[[], str]) -> Stream:
    large = packets(seed, "packets", speed).filter("bytes > 100", id="large", at=at())
    return large.aggregate(["source", "destination"], "200 ms", total="sum(bytes)", id="traffic", at=at()).filter(
        "total > 500", id="heavy", at=at()
    )


def diamond(seed: int, speed: float, at: Callable[[], str]) -> Stream:
    one = packets(seed, "one", speed).filter("bytes > 50", id="both", at=at())
    a = one.filter("link = 'A'", id="a", at=at())
    b = one.project("link", "bytes", id="b", at=at()).filter("bytes > 1000", id="b2", at=at())
    wide = a.project("link", "bytes", id="a2", at=at())
    return wide.union(b.project("link", "bytes", id="b3", at=at()), id="u", at=at())


def join(seed: int, speed: float, at: Callable[[], str]) -> Stream:
    left, right = packets(seed, "left", speed), packets(seed + 1000, "right", speed)
    return left.join(right, on="destination", within="50 ms", id="pairs", at=at()).filter(
        "bytes > 40", id="kept", at=at()
    )


def shared(seed: int, speed: float, by: str) -> Stream:
    stem = packets(seed + 2000, "stem", speed).filter("bytes > 60", id="large", at="peer-3")
    return stem.aggregate(by, "200 ms", n="count(*)", id=f"by_{by}", at="peer-2")


def plans(seed: int, speed: float, rng: random.Random) -> dict[str, Plan]:
    """Queries by name; those without replicas stay where nobody is killed or hangs."""

    def at() -> str:
        return rng.choice((KILLED, KILLED, HANGING))

    replicas = "degree 3" if speed else None
    found = {shape.__name__: shape(seed, speed, at) for shape in (chain, diamond, join)}
    plans = {name: stream.sink(name, id="out", availability=replicas) for name, stream in found.items()}
    return plans | {by: shared(seed, speed, by).sink(by, id="out") for by in ("destination", "source")}


def cut(dask_worker: Worker) -> int:
    """Close the sockets of a peer's links to other peers; it is told by nobody."""
    links: Any = runtime_of(dask_worker).links
    comms = [link.comm for to, link in links.by_address.items() if link.comm is not None and "://" in to]
    for comm in comms:
        comm.abort()
    return len(comms)


class Disturbed:
    """What happens to a cluster while queries run.

    Parameters
    ----------
    cluster, client
        The peers, and a client of the same Dask cluster.
    applications
        Applications by name.
    pool
        Threads that wait for moves.
    rng
        Draws what happens.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        applications: dict[str, Application],
        pool: ThreadPoolExecutor,
        rng: random.Random,
    ) -> None:
        self.cluster = cluster
        self.client = client
        self.applications = applications
        self.pool = pool
        self.rng = rng
        self.moves: list[Future[None]] = []
        self.resumed: list[threading.Timer] = []
        self.lost: set[str] = set()

    def move(self) -> None:
        """Begin to move an operator; it may be refused, or be given up, while peers die."""
        name = self.rng.choice(list(self.applications))
        application = self.applications[name]
        operator = self.rng.choice([each for each in application.plan.operators if each != "out"])
        replicated = operator in application.backups
        peers = list(self.cluster.peers) if replicated else list(STAYING)  # a source has no replicas
        may = [peer for peer in peers if peer not in self.lost and peer != application.graph.get(operator)]
        self.moves.append(self.pool.submit(self._move, application, operator, self.rng.choice(may)))

    def _move(self, application: Application, operator: str, to: str) -> None:
        with suppress(ClusterError):
            self.cluster.move(application, operator, to)

    def cut(self) -> None:
        """Cut all links of a peer that lives; something moves meanwhile."""
        self.move()
        peer = self.rng.choice([each for each in self.cluster.peers if each not in self.lost])
        self.client.run(cut, workers=[endpoint_of(self.cluster.peers[peer])])

    def hang(self) -> None:
        """Have a peer hang for a second."""
        self.cluster.suspend(HANGING)
        self.lost.add(HANGING)
        going_on = threading.Timer(1.0, self.cluster.resume, [HANGING])
        self.resumed.append(going_on)
        going_on.start()

    def kill(self) -> None:
        """Kill a peer; something moves meanwhile."""
        self.move()
        self.lost.add(KILLED)
        self.cluster.kill(KILLED)


def collected(application: Application) -> pl.DataFrame:
    tables = list(application)
    return pl.concat(tables) if tables else application.results(wait=False)


def ordered(table: pl.DataFrame) -> pl.DataFrame:
    return table.sort(table.columns, nulls_last=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_whatever_happens_to_peers_and_links_each_query_gives_the_rows_of_the_undisturbed_run(seed: int) -> None:
    rng = random.Random(seed)
    with (
        Cluster(7, cores=1.0, spark=False) as cluster,
        Client(cluster.scheduler, security=cluster.security) as client,  # type: ignore[no-untyped-call]
    ):
        undisturbed = {name: cluster.submit(plan) for name, plan in plans(seed, UNDISTURBED, rng).items()}
        expected = {name: ordered(application.results()) for name, application in undisturbed.items()}
        assert all(table.height > 100 for table in expected.values())

        asked = plans(seed, DISTURBED, rng)
        running = {name: cluster.submit(plan, origin="peer-1") for name, plan in asked.items()}
        cluster.move(running["chain"], "traffic", "peer-6")  # while all is well
        for application in running.values():
            for each in application.plan.sources:
                if each in application.graph:  # else it reads a stream of another application
                    cluster.pace(application, each, HURRIED)
        with ThreadPoolExecutor(20) as pool:
            disturbed = Disturbed(cluster, client, running, pool, rng)
            faults = [disturbed.hang, disturbed.kill, *[disturbed.cut] * 3, *[disturbed.move] * 5]
            rng.shuffle(faults)
            total = expected["chain"].height
            due = [total * (number + 1.5) / (len(faults) + 2) for number in range(len(faults))]
            others: dict[str, Future[pl.DataFrame]] = {
                name: pool.submit(collected, application) for name, application in running.items() if name != "chain"
            }
            tables: list[pl.DataFrame] = []
            for table in running["chain"]:
                tables.append(table)
                while faults and sum(each.height for each in tables) >= due[0]:
                    due.pop(0)
                    faults.pop(0)()
            found = {"chain": pl.concat(tables)} | {name: future.result(DEADLINE) for name, future in others.items()}
            assert all(move.result(DEADLINE) is None for move in disturbed.moves)
        for going_on in disturbed.resumed:
            going_on.join()
        assert not faults, "all of it has happened"
        for name, table in found.items():
            assert ordered(table).equals(expected[name]), name
            assert running[name].wait(DEADLINE) == "finished"
        events = cluster.events()
        wrong = [event for event in events if isinstance(event, OperatorFailed | ComponentFailed | PeerTrouble)]
        wrong = [event for event in wrong if not isinstance(event, LinkBroken)]
        assert not [event for event in wrong if not LATE.fullmatch(getattr(event, "reason", ""))]
