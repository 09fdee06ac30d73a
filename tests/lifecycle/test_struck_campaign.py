"""Campaign of whole peers that are struck while something goes on: 10,000 schedules, each from its seed."""

from __future__ import annotations

from typing import Final

import pytest

from tests.campaigns import ALL, blocks
from tests.lifecycle.struck_schedules import SOMETIMES, SkewedPeer, run

SCHEDULES: Final = 10_000
BLOCK: Final = 1000  # schedules of which each block has to reach all that a campaign is about
FEW: Final = (0, 9, 15, 22, 26)  # schedules of the suite: short ones that meet much
APART: Final = 26  # one of them, with clocks that are apart
REACHED: Final = {
    "a death of the origin during a move",
    "the new peer of a move died",
    "a death during a take-over",
    "a partition that heals during a take-over",
    "a move waited for a take-over",
    "a death of the origin while a replica is rebuilt",
    "a partition that heals during a move",
}


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks(SCHEDULES // BLOCK, SCHEDULES // BLOCK))
def test_no_row_differs_though_peers_die_while_something_goes_on(block: int) -> None:
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
    schedule = run(APART)
    assert run(APART).digest == schedule.digest
    peers = [each.peer for each in schedule.world.synergy.values()]
    assert len({peer.ahead for peer in peers if isinstance(peer, SkewedPeer)}) > 1
