"""Simulated peers on a line and in a ring, and plans that are placed on them."""

from __future__ import annotations

from typing import Any

from synergy_nb.assembly import PeerConfig
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from tests.placing import Placements

LOAD = "500 us"  # 0.05 cores at 100 tuples/s; a stream takes 1600 bytes/s


class Line:
    """Peers in a row, 10 ms from one to the next."""

    def delay(self, sender: str, to: str) -> float:
        return 0.01 * abs(int(sender.rpartition("-")[2]) - int(to.rpartition("-")[2]))


def begin(at: str | None = "peer-3", name: str = "source") -> Stream:
    return source("python", name=name, columns={"v": "float"}, rate=100.0, id=name, at=at)


def chain(components: int, at: str | None = "peer-3") -> Plan:
    stream = begin(at)
    for number in range(components):
        stream = stream.delay(LOAD, id=f"o{number}")
    return stream.sink("out")


def diamond(at: str = "peer-3") -> Plan:
    split = begin(at).delay(LOAD, id="a")
    upper = split.delay(LOAD, id="b")
    lower = split.delay(LOAD, id="c").delay(LOAD, id="c2")
    return upper.union(lower, id="u", cost=LOAD).delay(LOAD, id="z").sink("out")


def ring(peers: int = 10, seed: int = 1, network: Any = None, codec: bool = False, **each: Any) -> Placements:
    return Placements(
        peers,
        seed,
        config=lambda number: PeerConfig(
            name=f"peer-{number}",
            seed=seed * 100 + number,
            **{name: value(number) if callable(value) else value for name, value in each.items()},
        ),
        network=network or Line(),
        codec=codec,
    )
