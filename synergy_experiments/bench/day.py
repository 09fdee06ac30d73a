"""``day``: a day in virtual time, in which applications come and go: what do the peers hold at its end?

An application comes every four minutes and stays for one. At each hour all that is reachable from the peers and their
data paths is counted (:func:`~synergy_experiments.bench.held.held`). The line through the hours after the first third
must not rise by more than its bound; else the measurement fails, and says what grew.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection
from typing import Any, Final

import psutil

from synergy_experiments.bench.held import held
from synergy_experiments.bench.measurements import machine_load, measurement
from synergy_experiments.bench.soak import growth_of
from synergy_nb.plan import Plan, source
from synergy_nb.simulator.simulation import Simulation

__all__ = ["DURATION", "FILLING", "KINDS", "application_plan", "day", "of_peers"]

DURATION: Final = "5 minutes"
HOURS: Final = 24
HOUR: Final = 3600.0
PEERS: Final = 6
EACH: Final = 240.0  # virtual seconds from one application to the next one
STAY: Final = 60.0  # virtual seconds for which an application runs
#: Memories of what was, each with a bound at which it is full after thousands of applications (`soak.BOUNDED`).
FILLING: Final = frozenset({
    "Allowances._full",
    "ClientLeases._requests",
    "Directory._mine",
    "Directory.known_roots",
    "Latest._values",
    "PairedMoments._xs",
    "PairedMoments._ys",
    "Recent._new",
    "Recent._old",
    "Requests._requests",
})  # fmt: skip
KINDS: Final = 5


def application_plan(number: int, *, rate: float = 1.0, window: float = 10.0) -> Plan:
    """An application of each kind in turn: filtered, grouped, backed up, replicated, and one that ends by itself.

    Each has names, conditions and windows of its own. ``rate``: of its source, tuples/s; ``window``: of its aggregates,
    seconds; the last kind ends after two of these.
    """
    kind, each = number % KINDS, f"{window} s"
    packets = source("packets", seed=number, rate=rate, duration=f"{2 * window} s" if kind == 4 else "1 h")
    if kind == 0:
        stream = packets.filter(f"bytes > {number}")
    elif kind == 1:
        stream = packets.aggregate(by="link", window=each, total="sum(bytes)").sort("total desc")
    elif kind == 2:
        return packets.aggregate(window=each, total="sum(bytes)").sink(f"day {number}", availability="degree 2")
    elif kind == 3:
        return packets.count(window=each).sink(f"day {number}", availability="active 2")
    else:
        stream = packets.count(window=f"{round(window * 100) + number} ms")
    return stream.sink(f"day {number}", delay="1 h")


def of_peers(simulation: Simulation, left_out: Collection[str] = FILLING) -> dict[str, int]:
    """What simulated peers and their data paths hold, by name, without what is ``left_out``."""
    world = simulation.world
    # what simulated peers are given is no part of them: their world, its network, and the steps for replays
    beyond = (world, world.noted, world.topology, simulation.journal, world.control)
    gc.collect()
    return held([*world.synergy.values(), *(node.hosting for node in world.nodes.values())], beyond, left_out)


def day(*, small: bool = False, progress: Callable[[float], None] | None = None) -> dict[str, Any]:
    """How much more peers hold at the end of a day, of what they held after its first third, at most."""
    before = machine_load()
    hours, hour = (3, 2 * EACH) if small else (HOURS, HOUR)
    simulation = Simulation(PEERS, network="local", cores=2.0, seed=1)
    series: dict[str, list[float]] = {}
    wall: list[float] = []
    number = 0
    for passed in range(1, hours + 1):
        began = time.process_time()
        end = simulation.now + hour
        while simulation.now < end - EACH / 2:
            number += 1
            application = simulation.submit(application_plan(number))
            simulation.run(STAY)
            application.stop()
            simulation.run(EACH - STAY)
        wall.append(round(time.process_time() - began, 2))
        found = {**of_peers(simulation), "memory_mb": psutil.Process().memory_full_info().uss / 1e6}
        for name in found.keys() | series.keys():
            series.setdefault(name, [0.0] * (passed - 1)).append(float(found.get(name, 0)))
        if progress is not None:
            progress(passed / hours)
    held_s = {name: line for name, line in series.items() if name != "memory_mb"}
    applications = number - number // 3
    # what each application of one kind leaves behind is so many more at the end
    wrong = [
        f"{name}: +{grown:.4g}"
        for name, line in sorted(held_s.items())
        if (grown := growth_of(line)) >= applications / KINDS
    ]
    total = [sum(line[at] for name, line in held_s.items() if name.startswith("objects")) for at in range(hours)]
    detail = {
        "way": "applications come and go, one every four minutes; items of all containers and objects of all classes "
        "that are reachable from six simulated peers, once an hour",
        "virtual_hours": round(hours * hour / HOUR, 2),
        "applications": number,
        "growing": wrong,
        "names": len(held_s),
        "objects": total,
        "memory_mb": [round(each, 1) for each in series["memory_mb"]],
        "cpu_s_an_hour": wall,
        "load": {"before": before, "after": machine_load()},
    }
    if wrong and not small:
        raise RuntimeError(f"it grows: {'; '.join(wrong)}")
    return measurement("day", round(growth_of(total) / total[hours // 3], 4), "of what peers held", detail)
