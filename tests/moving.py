"""Simulated peers that move components of a running application, and what is asked of them."""

from __future__ import annotations

import math

from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.graph import ComponentGraph, Hop
from synergy_nb.control.peer import Message
from synergy_nb.dataflow.deployments import Deployment, Role
from synergy_nb.plan import Plan, source
from tests.simulated import Ring

PEERS = {"source": "peer-1", "o0": "peer-2", "o1": "peer-3", "sink": "peer-0"}


class Movers(Ring):
    """Peers whose drivers say after ``takes`` seconds that a copy could take over, or a kept snapshot after a move."""

    def __init__(self, peers: int, seed: int, *, takes: float = 0.3, **settings: object) -> None:
        self.takes = takes
        super().__init__(peers, seed, **settings)  # type: ignore[arg-type]

    def _carry_out(self, address: str, instruction: object) -> None:
        before = self._copies(address, instruction)
        super()._carry_out(address, instruction)
        for operator in self._copies(address, instruction) - before:
            assert isinstance(instruction, Deployment)
            each = self.synergy[address]
            each.peer.after(self.takes, each.session.copies.ready, instruction.application, operator)

    def _copies(self, address: str, instruction: object) -> set[str]:
        """Operators of the application of which a peer has a copy, or keeps a snapshot."""
        application = instruction.application if isinstance(instruction, Deployment) else ""
        known = self.deployments.get((address, application))
        assignments = {} if known is None else known.assignments
        return {name for name, where in assignments.items() if address in where.copies or where.keeps}


def plan() -> Plan:
    stream = source("packets", rate=100.0, at="peer-1", id="source")
    return stream.filter("bytes > 0", cost="1 ms", id="o0").filter("bytes > 1", cost="1 ms", id="o1").sink(id="sink")


def running(ring: Ring, backups: dict[str, tuple[str, ...]] | None = None, asked: Plan | None = None) -> None:
    """An application ``r`` of peer 0 runs."""
    asked = asked or plan()
    hops = {name: Hop(name, PEERS.get(name, "peer-2"), 1.0, 1e8, 0.001, 0.01) for name in asked.operators}
    edges = [(up, name) for name in asked.operators for up in asked.upstream(name)]
    chosen = ComponentGraph(hops, dict.fromkeys(edges, (math.inf, 0.01)))
    answers = ring.establish("peer-0", "r", asked, chosen, backups)
    ring.run(3.0)
    assert answers == [""]


def move(ring: Ring, operator: str, to: str, application: str = "r", at: str = "peer-0") -> list[str]:
    """Ask for a move; what comes of it will be in the list."""
    outcome: list[str] = []
    ring.simulation.call(at, ring.synergy[at].session.moves.move, application, operator, to, outcome.append)
    return outcome


def where(ring: Ring) -> dict[str, str]:
    """Where each operator is executed; each at one place."""
    found = {operator: address for address, _, operator in ring.deployed}
    assert len(found) == len(ring.deployed)
    return found


def roles(ring: Ring, operator: str) -> dict[str, Role]:
    """What each peer does for an operator, as it was told itself."""
    found = {address: known.role(operator, address) for (address, _), known in ring.deployments.items()}
    return {address: role for address, role in found.items() if role is not None}


def stopped(ring: Ring) -> None:
    """Nothing is left of it."""
    ring.simulation.report("peer-0", StopApplication("r"))
    ring.run(12.0)
    assert not any(each.ledger.requests or each.session.applications for each in ring.synergy.values())
    assert not ring.deployments
    for each in ring.synergy.values():
        assert not each.membership.watched


class lost:  # noqa: N801 - reads as what it is
    """Messages of some kinds do not arrive."""

    def __init__(self, ring: Ring, *kinds: type[Message], to: str = "") -> None:
        self.simulation, self.kinds, self.to = ring.simulation, kinds, to

    def __enter__(self) -> None:
        self.push = self.simulation.put

        def push(when: float, address: str, sender: str, message: Message | None) -> None:
            if not isinstance(message, self.kinds) or (self.to and address != self.to):
                self.push(when, address, sender, message)

        self.simulation.put = push  # type: ignore[method-assign]
        self.before, self.simulation.duplication = self.simulation.duplication, 1e-12  # all pass here

    def __exit__(self, *_: object) -> None:
        self.simulation.put = self.push  # type: ignore[method-assign]
        self.simulation.duplication = self.before
