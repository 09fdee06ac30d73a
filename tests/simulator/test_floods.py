"""One peer floods the others with what it may send: they shed it by name, and the others keep what they have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from synergy_nb.algorithms.composition.messages import Probe, ProbedRequest, encode_request
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.graph import Hop
from synergy_nb.control.peer import Message
from synergy_nb.control.shedding import REPORTED_S
from synergy_nb.events import FloodShed
from synergy_nb.overlay.directory_messages import Pull
from synergy_nb.overlay.gossip import PingFor
from tests.composition.plans import chain
from tests.simulated import OFFERED, Ring

PEERS = 8
FLOOD = f"peer-{PEERS - 1}"
STEP = 0.25  # virtual seconds between two bursts of the flood
BURSTS = 100
EVERY = 4  # bursts between two requests of the other peers, in turn
FIRST = 12.0  # virtual seconds until the first of them: in the first ones a flood has what a burst may have


def ring() -> Ring:
    return Ring(PEERS, seed=1, config=lambda n: PeerConfig(f"peer-{n}", OFFERED, seed=n))


def taking_all(number: int) -> list[Message]:
    """A probe for nine tenths of a core, of a request of its own, which is never confirmed."""
    plan = chain(rate=1000.0, operators=1, cost="900 us", delay="1 h")
    candidates = {"source": (FLOOD,), "o0": (), "sink": (FLOOD,)}
    request = ProbedRequest(
        f"flood-{number}", 1, FLOOD, plan.to_bytes(), candidates, 0.1, 2, "balanced", deploy=("o0",)
    )
    path = (Hop("source", FLOOD, 1.0, 1e9, 0.0, 0.0),)
    return [Probe(encode_request(request), "o0", path, 1, 1, 0.0)]


def pulling(number: int) -> list[Message]:
    """Questions for all entries of the directory."""
    return [Pull(number)] * 10


def having_pinged(number: int) -> list[Message]:
    """Wishes that a peer that is not there be pinged."""
    return [PingFor(10 * number + each, f"nobody-{each}", ()) for each in range(40)]


def composed(it: Ring, flood: Callable[[int], list[Message]] | None) -> list[str]:
    """What becomes of the requests of the other peers, while one peer floods all of them."""
    began, others = it.simulation.now, [each for each in it.synergy if each != FLOOD]
    for burst in range(BURSTS):
        for number, to in enumerate(others if flood is not None else ()):
            for message in [] if flood is None else flood(burst * PEERS + number):
                it.simulation.call(FLOOD, it.synergy[FLOOD].peer.send, to, message)
        if burst % EVERY == 0 and it.simulation.now >= began + FIRST:
            it.submit(others[burst % len(others)], f"honest-{burst}", chain(rate=1000.0, operators=2, cost="150 us"))
        it.simulation.run(until=it.simulation.now + STEP)
    it.simulation.run(until=it.simulation.now + 10.0)
    return [it.status(request) for request in it.reports if request.startswith("honest")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flood", "what"),
    [(None, ""), (taking_all, "reservations"), (pulling, "messages Pull"), (having_pinged, "pings for others")],
    ids=["none", "reservations", "pulls", "pings"],
)
def test_a_flooding_peer_is_shed_by_name_and_the_others_are_admitted(
    flood: Callable[[int], list[Message]] | None, what: str
) -> None:
    """Without a bound of what one sender may hold, four of the thirteen requests were refused."""
    it = ring()
    assert composed(it, flood) == ["running"] * 13
    told = [event for event in it.simulation.journal if isinstance(event, FloodShed)]
    assert {(event.subject, event.what) for event in told} == ({(FLOOD, what)} if what else set())
    shed = sum(each.peer.sheds.counts.get(what, 0) for each in it.synergy.values())
    assert sum(event.shed for event in told) <= shed
    assert len(told) <= len(it.synergy) * (BURSTS * STEP / REPORTED_S + 1)
    assert not it.overbooked()
