"""Campaign of late, cut off and killed peers over whole simulated peers: 2,500 schedules, each drawn from its seed."""

from __future__ import annotations

import random
from typing import Final

import pytest

from synergy_nb.control.cuts import Cut
from synergy_nb.overlay.gossip import SUSPECT
from tests.campaigns import ALL, blocks
from tests.late_peers import OWN, Late
from tests.lifecycle.late_schedules import SHARED, SOMETIMES, run
from tests.succession_world import AT

SCHEDULES: Final = 2500
BLOCK: Final = 500  # schedules of which each block has to reach all that a campaign is about
#: Schedules of the suite: those that have found a fault.
FOUND: Final = (6, 12, 28, 108, 172, 177, 258, 337)
SHARES: Final = 2016  # a schedule in which a stream is shared
RETURNS: Final = 10  # seeds in a block of peers that come back


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(SCHEDULES // BLOCK, SCHEDULES // BLOCK))
def test_no_application_ends_because_peers_are_late(block: int) -> None:
    reached: set[str] = set()
    failed: list[str] = []
    for seed in range(BLOCK * block, BLOCK * (block + 1)) if ALL else (*FOUND, SHARES):
        try:
            reached |= run(seed).reached
        except AssertionError as error:
            failed.append(str(error))
    assert not failed, "\n\n".join(failed)
    wanted = set(SOMETIMES) if ALL else {"a wrongly buried peer rejoined", "a confirmed silence"}
    wanted |= {"a shared stream"} if BLOCK * block >= SHARED or not ALL else set()
    assert not wanted - reached, f"never reached: {sorted(wanted - reached)}"


def comes_back(seed: int) -> None:
    rng = random.Random(seed)
    run = Late(rng.choice((OWN, AT)), backups=True, seed=seed)
    world, peer = run.world, rng.choice("cdefgh")
    others = [each for each in world.synergy if each != peer]
    for other in others:
        world.cut(peer, other, rng.uniform(4.0, 8.0), Cut.DELAY)
    assert world.until(lambda: any(world.synergy[each].membership.status(peer) == SUSPECT for each in others), 4.0)
    run.ends()


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(3, 3))
def test_old_verdicts_of_a_peer_that_comes_back_end_nothing(block: int) -> None:
    """A peer was cut off, and TCP had queued that it is suspected; then it spreads what it has believed meanwhile."""
    for seed in range(RETURNS * block, RETURNS * block + (RETURNS if ALL else 2)):
        comes_back(seed)
