"""Plans that are composed: a chain, and the query plan of figure 2.6."""

from __future__ import annotations

from synergy_nb.plan import Plan, source


def chain(rate: float = 1000.0, delay: str = "2 s", operators: int = 3, cost: str = "100 us") -> Plan:
    stream = source("python", name="numbers", columns={"v": "float"}, rate=rate)
    for number in range(operators):
        stream = stream.delay(cost, id=f"o{number}")
    return stream.sink("out", delay=delay)


def diamond() -> Plan:
    """The query plan of figure 2.6."""
    s2 = source("python", name="s1", columns={"v": "float"}, rate=100.0).delay("10 us", id="o1")
    upper = s2.delay("10 us", id="o2").delay("10 us", id="o4")
    lower = s2.delay("10 us", id="o3").delay("10 us", id="o5")
    return upper.union(lower, id="o6").sink("s8", delay="2 s")
