"""A run of active replicas on simulated peers, which are rebuilt when their peers die."""

from __future__ import annotations

import random
from typing import TypeVar

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import OfferComponents
from synergy_nb.events import Event, RebuildImpossible, ReplicaRebuilt
from synergy_nb.models.replication_config import ReplicationConfig
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import replicas_of, replicated
from synergy_nb.plan.operators.catalogue import ALL_COMPONENTS
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests.moving_schedules import packets, table
from tests.replica_schedules import ideal

PEERS = tuple("abcdefg")


E = TypeVar("E", bound=Event)


def query(degree: int = 2, distance: str | None = None) -> Plan:
    merged = packets("s", 1).union(packets("t", 2), id="u").filter("bytes > 100", id="f")
    counts = merged.aggregate("link", "200 ms", n="count(*)", total="sum(bytes)", id="x")
    return counts.sink("out", id="out", availability=f"active {degree}", replica_distance=distance)


class Run:
    """A query with columns of replicas, at peers that offer all components."""

    def __init__(
        self, degree: int = 2, config: ReplicationConfig | None = None, peers: tuple[str, ...] = PEERS
    ) -> None:
        seed, rng, replication = 1, random.Random(1), config or ReplicationConfig()
        own = PeerConfig(components=ALL_COMPONENTS, cores=16.0, placement=None, replication=replication)
        self.world = world = PeerWorld(seed, peers, Faults(delay=(0.002, 0.02)), config=own)
        for peer in peers:
            world.control.report(peer, OfferComponents())
        world.run(2.0)
        world.pace = 0.4
        self.plan = query(degree)
        self.inputs = {name: table(rng, 300) for name in self.plan.sources}
        expanded = replicated(self.plan, degree)
        where = dict.fromkeys(expanded.operators, peers[0])
        for several in replicas_of(expanded).values():
            where.update(zip(several, peers[1:], strict=False))
        world.deploy("app", expanded, where, self.inputs)
        assert world.until(lambda: world.status("app") == "running")
        world.run(1.0)

    def of(self, kind: type[E]) -> list[E]:
        return [each for each in self.world.control.journal.about("app") if isinstance(each, kind)]

    def begins(self) -> tuple[str, str]:
        """Advance until a rebuild has begun; return the peer of the source, and the new one."""
        world = self.world
        assert world.until(lambda: bool(world.graph("app").roles.rebuilds), 30.0), self.of(RebuildImpossible)
        ((source, to),) = world.graph("app").roles.rebuilds.values()
        return world.where("app")[source], to

    def rebuilt(self, count: int = 3) -> list[ReplicaRebuilt]:
        """Advance until so many replicas have been rebuilt."""
        assert self.world.until(lambda: len(self.of(ReplicaRebuilt)) >= count), self.of(RebuildImpossible)
        return self.of(ReplicaRebuilt)

    def account(self) -> Explanation:
        return Explanation("app", self.world.control.journal.about("app"), {})

    def ends(self) -> None:
        """Run to the end; the rows at the sink are those of a run without replicas."""
        results = self.world.results["app", "out"]
        assert self.world.until(lambda: results.ended, 600.0), f"it stands still: {self.world.failures()}"
        assert sorted(results.rows.rows(), key=repr) == ideal(self.plan, self.inputs)
