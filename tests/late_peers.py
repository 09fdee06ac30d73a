"""An application of simulated peers of which some are late, cut off or end."""

from __future__ import annotations

import random
from collections.abc import Mapping

from synergy_nb.events import ApplicationFailed, PeerDeclaredDead
from tests.moving_schedules import PEERS, table, undisturbed
from tests.succession_world import AT, BACKUPS, ORIGIN, World, chain

OWN = AT | {"out": ORIGIN}  # the origin has the sink, so it has no successor


class Late:
    """A query of which a peer is late."""

    def __init__(self, at: Mapping[str, str], *, backups: bool, rows: int = 400, seed: int = 1) -> None:
        self.world = world = World(seed)
        world.pace = 0.2
        self.plan = chain()
        self.inputs = {"s": table(random.Random(seed), rows)}
        world.deploy("app", self.plan, at, self.inputs, backups=BACKUPS if backups else {}, origin=ORIGIN)
        assert world.until(lambda: world.status("app") == "running")
        world.run(1.0)

    def hang(self, peer: str, seconds: float) -> None:
        self.world.hang(peer, seconds)

    def cut(self, peer: str, seconds: float) -> None:
        """Cut a peer off from all others."""
        self.divide({peer}, seconds)

    def divide(self, group: set[str], seconds: float) -> None:
        """Cut these peers off from all others."""
        for one in sorted(group):
            for other in sorted(set(PEERS) - group):
                self.world.cut(one, other, seconds)

    def ends(self) -> None:
        """All rows arrive as in an undisturbed run; one peer leads, and nothing is left when it is stopped."""
        world, results = self.world, self.world.results["app", "out"]
        assert world.until(lambda: results.ended, 200.0), f"it stands still: {world.failures()}"
        assert results.rows.rows() == undisturbed(self.plan, self.inputs).rows()
        assert not world.of(ApplicationFailed)
        assert world.until(lambda: len(world.leaders()) == 1, 90.0), world.leaders()
        world.stop("app")
        world.settled()

    def declared(self, peer: str) -> bool:
        """Whether another peer has declared it dead."""
        return any(each.subject == peer for each in self.world.control.journal if isinstance(each, PeerDeclaredDead))
