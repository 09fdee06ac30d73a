"""What clients wait for at a peer: answers of commands are tested with live clusters; here the peer's own states."""

from __future__ import annotations

import asyncio
from functools import partial

from synergy_nb.runtime.process.peer_commands import Commands
from tests.waiting import turns, until


async def test_a_state_is_waited_for_until_the_peer_reports_a_change_after_which_it_holds() -> None:
    commands, reached, looked = Commands(lambda _: None, asyncio.get_running_loop()), set[str](), list[str]()

    def holds(state: str) -> bool:
        looked.append(state)
        return state in reached

    reached.add("known")
    await commands.until(partial(holds, "known"), 0.0)  # no change is needed, and no time

    waits = [asyncio.create_task(commands.until(partial(holds, name), 60.0)) for name in ("one", "two")]
    await until(lambda: "two" in looked)
    looked.clear()
    commands.look()
    reached.add("one")  # the peer has not finished when it reports
    commands.look()
    assert not looked
    await waits[0]
    assert sorted(looked) == ["one", "two"]  # once for both reports
    assert not waits[1].done()
    waits[1].cancel()
    await asyncio.gather(*waits, return_exceptions=True)
    looked.clear()
    commands.look()
    await turns(2)
    assert not looked  # nobody waits any more


async def test_a_wait_for_a_state_ends_in_time() -> None:
    await Commands(lambda _: None, asyncio.get_running_loop()).until(lambda: False, 0.001)
