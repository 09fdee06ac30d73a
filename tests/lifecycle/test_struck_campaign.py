"""Campaign of whole simulated peers that die while components with state move: 1,000 schedules, each from its seed."""

from __future__ import annotations

from typing import Final

import pytest

from tests.campaigns import ALL, blocks
from tests.lifecycle.struck_schedules import SOMETIMES, SkewedPeer, run

SCHEDULES: Final = 1000
BLOCK: Final = 250  # schedules of which each block has to reach all that a campaign is about
FEW: Final = (3, 8)  # schedules of the suite: deaths in moves, and clocks that are apart
REACHED: Final = {"a component moved", "the new peer of a move died", "clocks are apart", "keyed", "join"}


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(SCHEDULES // BLOCK, SCHEDULES // BLOCK))
def test_no_row_differs_though_peers_die_while_components_move(block: int) -> None:
    reached: set[str] = set()
    failed: list[str] = []
    for seed in range(BLOCK * block, BLOCK * (block + 1)) if ALL else FEW:
        try:
            reached |= run(seed).reached
        except AssertionError as error:
            failed.append(str(error))
    assert not failed, "\n\n".join(failed)
    wanted = set(SOMETIMES) if ALL else REACHED
    assert not wanted - reached, f"never reached: {sorted(wanted - reached)}"


@pytest.mark.slow
def test_a_seed_gives_the_same_run_with_clocks_of_its_own() -> None:
    schedule = run(3)
    assert run(3).digest == schedule.digest
    peers = [each.peer for each in schedule.world.synergy.values()]
    assert len({peer.ahead for peer in peers if isinstance(peer, SkewedPeer)}) > 1
