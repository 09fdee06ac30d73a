"""Recorded runs of simulated peers, all of whose inputs are messages."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.assembly.placement_by_rod import decided
from synergy_nb.control.driver_messages import (
    DelayMeasured,
    JoinRing,
    LinkFailed,
    OverheadsMeasured,
    PlacementDecided,
    StopApplication,
    SubmitPlan,
)
from synergy_nb.control.graph import Report, ResilientPlacementRequest
from synergy_nb.control.peer import Peer
from synergy_nb.plan import Plan, source
from synergy_nb.recording.construction import Construction, construct
from synergy_nb.recording.recorder import RecordedPeer
from synergy_nb.recording.recording_file import ChunkWriter, beginning_of, create
from synergy_nb.simulator.kernel import SimulatedPeers, Uniform


class RecordedRing:
    """Peers that join a ring, each recorded to one file."""

    def __init__(self, path: Path, peers: int = 4, seed: int = 1, *, record: bool = True) -> None:
        self.path = create(path)
        self.record = record
        self.simulation = SimulatedPeers(seed, Uniform(0.005, 0.02, seed), codec=True)
        self.simulation.on_instruction.append(self._carry_out)
        self.peers: dict[str, SynergyPeer] = {}
        self.writers: dict[str, ChunkWriter] = {}
        self.reports: dict[str, list[Report]] = {}
        self.seed = seed
        for number in range(1, peers + 1):
            self.start(number)

    def start(self, number: int) -> None:
        """Have one more peer join, or an earlier one anew."""
        address = f"sim://{number}"
        config = PeerConfig(name=f"peer-{number}", cores=1.0, seed=self.seed * 100 + number)
        construction = Construction(address, config, server=1.0, together=0.02)
        writer = ChunkWriter(self.path, f"{address} {self.simulation.now:.6f}")
        beginning = beginning_of(construction)

        def kernel(address: str, seed: int) -> Peer:
            return RecordedPeer(address, seed, beginning, writer.add) if self.record else Peer(address, seed)

        self.peers[address] = peer = construct(construction, kernel)
        self.writers[address] = writer
        contact = next((each for each in self.simulation.peers if each != address), None)
        self.simulation.restart(peer.peer)
        self.simulation.report(address, JoinRing(contact))
        measured = dict.fromkeys(("filter", "source", "hop", "sink"), (0.0005, 1e-08))
        self.simulation.report(address, OverheadsMeasured(measured, {}))
        self.run(2.0)

    def _carry_out(self, address: str, instruction: msgspec.Struct) -> None:
        match instruction:
            case Report():
                self.reports.setdefault(instruction.application, []).append(instruction)
            case ResilientPlacementRequest():
                answer = decided(instruction)
                assert isinstance(answer, PlacementDecided)
                self.simulation.report(address, answer)

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.simulation.run(until=self.simulation.now + seconds)

    def crash(self, number: int) -> None:
        """End a peer without warning: what it had not written is lost."""
        address = f"sim://{number}"
        self.simulation.crash(address)
        self.writers.pop(address).flush()
        for other in self.simulation.peers:
            self.simulation.report(other, LinkFailed(address))

    def submit(self, at: int, name: str, plan: Plan, placement: str = "composed") -> None:
        """Submit a plan at a peer."""
        self.simulation.report(f"sim://{at}", SubmitPlan(name, plan.to_bytes(), placement))

    def close(self) -> Path:
        """End the recording; gives its file."""
        for writer in self.writers.values():
            writer.close()
        return self.path


def plan(name: str = "large packets", **qos: str) -> Plan:
    """A plan that four peers can run."""
    stream = source("packets", rate=100.0, seed=3).filter("bytes > 1000", cost="200 us")
    return stream.sink(name, **(qos or {"delay": "3 s"}))


def recorded(path: Path, seed: int = 1) -> Path:
    """A run with a plan that runs, one that is stopped, one that is refused, and a peer that dies; as a file."""
    ring = RecordedRing(path, seed=seed)
    rng = random.Random(seed)
    ring.run(10.0)
    ring.submit(1, "runs", plan())
    ring.run(1.0)
    ring.submit(2, "refused", plan("impossible", delay="1 ms"))
    ring.submit(3, "resilient", plan("robust"), "resilient")
    ring.run(5.0)
    ring.simulation.report("sim://1", DelayMeasured("runs", 0.05))
    ring.submit(2, "stopped", plan("short"))
    ring.run(3.0)
    ring.simulation.report("sim://2", StopApplication("stopped"))
    ring.simulation.loss = ring.simulation.duplication = ring.simulation.reordering = 0.1
    ring.run(3.0)
    ring.crash(4)
    ring.run(rng.uniform(5.0, 20.0))
    ring.start(4)
    ring.run(5.0)
    return ring.close()
