"""A disk that takes its time: whose rows wait for it is said within five seconds."""

from __future__ import annotations

import random
from typing import Any

from synergy_nb.events import Event, WaitBegun, WaitEnded, Why
from synergy_nb.reporting.stalls import OpenWaits, stalls
from tests.durable.durable_world import DurableWorld
from tests.stream_schedules import inputs_of, stream


def test_what_waits_for_a_slow_disk_is_named_and_what_would_help() -> None:
    plan = stream("n").filter("v >= 0", id="f").sink("out", id="out")
    world = DurableWorld(1, "ab", slow=0.0)
    world.pace = 0.2
    world.deploy("app", plan, {"n": "a", "f": "a", "out": "b"}, inputs_of(random.Random(1), plan, rows=600))
    journal: list[Event] = []

    def recorder(peer: str) -> Any:
        return lambda kind, subject, **fields: journal.append(kind(world.now, peer, subject, **fields))

    def look(seconds: int) -> None:
        for _ in range(seconds):
            world.run(1.0)
            for peer, node in world.nodes.items():
                node.hosting.waits.look(world.now, recorder(peer), lambda _: False, lambda _: "")

    look(2)
    assert not [each for each in journal if isinstance(each, WaitBegun) and each.why is Why.FOLDER]
    world.slow = 1e6
    look(5)
    waits = OpenWaits()
    for event in journal:
        waits.add(event)
    said = [str(each) for each in stalls(waits, world.now)]
    assert any("out at peer b has rows that the durable folder has not taken for" in each for each in said), said
    assert any(each.endswith("see what slows its disk down, and whether it has space") for each in said)
    world.slow = 0.0
    look(2)
    assert "out" in {each.operator for each in journal if isinstance(each, WaitEnded)}
