"""An origin that was cut off and its successor both lose an application, and set it up again: one of them leads it."""

from __future__ import annotations

import random

import pytest

from synergy_nb.events import ApplicationRestarted, OriginSucceeded, RestartBegun
from synergy_nb.lifecycle.records.attempts import SUCCEEDED
from synergy_nb.plan import Plan, source
from synergy_nb.simulator.simulation import Simulation

ORIGIN, SUCCESSOR = "peer-1", "peer-2"


class Split:
    """A network that is divided between an origin and all that its application has, and then is whole again.

    The origin gives the application up once it has waited for the sink; the successor, as a peer of its dies.
    """

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        packets = source("packets", rate="10 tuples/s", duration="20 s", seed=1, id="s")
        self.plan = packets.filter("bytes > 100", id="f").sink("out", on_death="restart", id="out", at=SUCCESSOR)
        self.simulation = simulation = Simulation(6, seed=seed, patience="6 s")
        self.application = simulation.submit(self.plan, spread=True, origin=ORIGIN)
        simulation.run("1 s")
        here = sorted(set(self.application.graph.values()))
        self.spare = sorted(set(simulation.peers).difference(here, {ORIGIN}))
        self.cuts = [(one, other) for one in (ORIGIN, *self.spare[:1]) for other in (*here, *self.spare[1:])]
        for one, other in self.cuts:
            simulation.cut(one, other)
        self.led: dict[int, set[str]] = {}  # attempt to the peers that have led it
        assert simulation.until(lambda: self.count(RestartBegun) == 1, "30 s")  # by the origin
        self.advance(rng.uniform(0.0, 0.5))
        victim = next(each for each in here if each != SUCCESSOR)
        simulation.kill(victim)
        self.advance(rng.uniform(0.0, 1.0))
        for one, other in self.cuts:
            if other != victim:
                simulation.mend(one, other)

    def count(self, kind: type) -> int:
        return sum(isinstance(each, kind) for each in self.simulation.journal.about(self.application.id))

    def advance(self, seconds: float) -> None:
        """Go on, and note at each moment who leads which attempt."""
        until = self.simulation.now + seconds
        while self.simulation.now < until:
            self.simulation.run(0.05)
            for address, peer in self.simulation.world.synergy.items():
                graph = peer.session.led_graph(self.application.id)
                if graph is not None:
                    self.led.setdefault(graph.attempt, set()).add(address)


def undisturbed(plan: Plan) -> list[tuple[object, ...]]:
    application = Simulation(3, seed=1).submit(plan, origin=ORIGIN)
    application.wait()
    return application.results().rows()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 70])  # 70: both begin the second attempt at the same moment
def test_no_two_peers_ever_lead_the_same_attempt_and_one_of_them_leads_to_the_end(seed: int) -> None:
    split = Split(seed)
    assert split.simulation.until(lambda: split.count(ApplicationRestarted) == 1, "20 s")
    split.advance(3.0)
    assert split.count(OriginSucceeded) == 1
    assert split.count(RestartBegun) == 2
    assert {attempt: len(who) for attempt, who in split.led.items()} == dict.fromkeys(split.led, 1)
    assert max(split.led) == SUCCEEDED, "the successor sets it up again"
    assert [peer for peer in split.simulation.world.synergy.values() if peer.session.led] == [
        split.simulation.world.synergy[SUCCESSOR]
    ]
    split.application.wait()
    assert split.application.results().rows() == undisturbed(split.plan)
