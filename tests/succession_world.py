"""Whole simulated peers of which one leads an application and another has its sink: what they journal, who leads."""

from __future__ import annotations

import random
from typing import TypeVar

from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.events import Event
from synergy_nb.plan import Plan
from synergy_nb.simulator.scripted_faults import Faults
from tests.moving_schedules import World as MovingWorld
from tests.moving_schedules import packets

ORIGIN, SINK = "a", "b"


E = TypeVar("E", bound=Event)


def chain() -> Plan:
    counts = packets("s", 1).filter("bytes > 20", id="f").aggregate("link", "200 ms", n="count(*)", id="x")
    return counts.sink(id="out")


AT = {"s": "c", "f": "d", "x": "e", "out": SINK}


BACKUPS = {"f": ("g",), "x": ("f", "g")}


class World(MovingWorld):
    """Peers of which no two have different graphs of one epoch."""

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        super().__init__(seed, random.Random(seed))
        self.faults = self.links.faults = faults or Faults(delay=(0.002, 0.02), capture=0.005)
        self.graphs: dict[tuple[str, int], dict[str, str]] = {}

    def _deploy_at(self, address: str, deployment: Deployment) -> None:
        known = self.graphs.setdefault((deployment.application, deployment.version), {})
        for operator, assigned in deployment.assignments.items():
            found = known.setdefault(operator, assigned.active)
            assert found == assigned.active, f"{operator} at {found} and {assigned.active} in {deployment.version}"
        super()._deploy_at(address, deployment)

    def of(self, kind: type[E], application: str = "app") -> list[E]:
        return [each for each in self.control.journal.about(application) if isinstance(each, kind)]

    def leaders(self, application: str = "app") -> list[str]:
        """Peers that lead an application by their own account."""
        return [address for address, each in self.synergy.items() if application in each.session.led]

    def left(self) -> str:
        """What peers still hold."""
        for address, each in self.synergy.items():
            hosting, session = self.nodes[address].hosting, each.session
            for held in (
                each.ledger.requests,
                session.applications,
                session.led,
                hosting.components,
                hosting.roles.copies,
            ):
                if held:
                    return f"{address} still has {list(held)}"
            if session.succession.entrusted or session.succession.claims:
                return f"{address} still has a record of an application"
        return ""

    def settled(self) -> None:
        """Wait until nothing is left; leases of peers that counted as dead have to end first."""
        for _ in range(40):
            self.run(0.5)
            if not self.left():
                return
        raise AssertionError(self.left())
