"""The flow simulator again, slow and obvious: a heap of calls in virtual time, an object a component."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Callable
from typing import Any

from synergy_experiments.flows.flow_applications import Application, Arrivals, Component

MASK = (1 << 64) - 1


OUTSIDE = Component()


def chain(name: str, rate: Arrivals | float, *components: Component, limit: float = math.inf) -> Application:
    """Components in a row, fed from outside; each reads the one before it."""
    parts: dict[str, Component] = {"feed": OUTSIDE}
    last = "feed"
    for number, component in enumerate(components):
        parts[f"c{number}"] = Component(
            component.peer, component.service, [last], component.selectivity, component.random, False, component.size
        )
        last = f"c{number}"
    arrivals = rate if isinstance(rate, Arrivals) else Arrivals.poisson(rate)
    return Application(name, parts, {"feed": arrivals}, limit=limit)


class Chance:
    """Random numbers of one component: splitmix64."""

    def __init__(self, seed: int, application: str, operator: str) -> None:
        name = f"{seed}\0{application}\0{operator}".encode()
        self.state = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")

    def uniform(self) -> float:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        mixed = self.state
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & MASK
        return ((mixed ^ (mixed >> 31)) >> 11) / 2**53

    def exponential(self, mean: float) -> float:
        return -math.log(1.0 - self.uniform()) * mean


class Running:
    """A component that runs."""

    def __init__(self, component: Component, chance: Chance, sink_of: str | None) -> None:
        self.component = component
        self.chance = chance
        self.sink_of = sink_of
        self.readers: list[tuple[Running, int]] = []  # and the port at which they read
        self.credit = 0.0
        self.served = self.lost = 0
        self.waited = 0.0
        self.brought = [0] * len(component.inputs)
        self.partners: dict[int, list[float]] = {}

    def taken(self, speed: float) -> float:
        service = self.component.service
        if service.kind == "exponential":
            return self.chance.exponential(service.mean / speed)
        if service.kind == "drawn":
            return service.times[self.served % len(service.times)] * (1.0 / speed)
        return service.mean / speed

    def outputs(self) -> int:
        selectivity = self.component.selectivity
        if selectivity == 1.0:
            return 1
        if self.component.random:
            whole = math.floor(selectivity)
            return whole + (self.chance.uniform() < selectivity - whole)
        self.credit += selectivity
        whole = math.floor(self.credit)
        self.credit -= whole
        return whole


class SlowFlow:
    """What :class:`synergy_experiments.flows.flow.Flow` does, as one would say it."""

    def __init__(
        self,
        delay: Callable[[str, str], float] = lambda sender, to: 0.0,
        bandwidth: Callable[[str, str], float] = lambda sender, to: math.inf,
        speeds: dict[str, float] | None = None,
        seed: int = 0,
        backlog: float = 60.0,
    ) -> None:
        self.delay = delay
        self.bandwidth = bandwidth
        self.speeds = speeds or {}
        self.seed = seed
        self.backlog = backlog
        self.now = 0.0
        self.plan: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.planned = 0
        self.running: dict[tuple[str, str], Running] = {}
        self.peer_free: dict[str, float] = {}
        self.link_free: dict[tuple[str, str], float] = {}
        self.delivered: dict[str, list[tuple[float, float]]] = {}  # application to (born, delay)

    def at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        self.planned += 1
        heapq.heappush(self.plan, (when, self.planned, call, arguments))

    def add(self, application: Application, at: float = 0.0) -> None:
        name = application.name
        self.delivered[name] = []
        for operator, component in application.components.items():
            sink_of = name if operator in application.sinks else None
            running = Running(component, Chance(self.seed, name, operator), sink_of)
            self.running[name, operator] = running
            for port, each in enumerate(component.inputs):
                upstream = self.running[(name, each) if isinstance(each, str) else each]
                upstream.readers.append((running, port))
        for operator, arrivals in application.sources.items():
            self.at(at, self.begin, self.running[name, operator], arrivals, at)

    def begin(self, source: Running, arrivals: Arrivals, start: float) -> None:
        self.feed(source, arrivals, self.times(source, arrivals, start), first=True)

    def feed(self, source: Running, arrivals: Arrivals, times: Any, first: bool = False) -> None:
        following = next(times, None)
        if following is not None:
            self.at(following, self.feed, source, arrivals, times)
        if not first:
            self.execute(source, self.now)

    @staticmethod
    def times(source: Running, arrivals: Arrivals, start: float) -> Any:
        chance, when = source.chance, start
        high = True
        turn = start
        if arrivals.kind == "on_off":
            turn += chance.exponential(arrivals.on) if arrivals.random else arrivals.on
        for number in range(min(arrivals.tuples, len(arrivals.times) if arrivals.kind == "trace" else arrivals.tuples)):
            if arrivals.kind == "poisson":
                when += chance.exponential(1.0 / arrivals.high)
            elif arrivals.kind == "periodic":
                when += 1.0 / arrivals.high
            elif arrivals.kind == "trace":
                when = start + arrivals.times[number]
            else:
                while True:
                    rate = arrivals.high if high else arrivals.low
                    after = when + chance.exponential(1.0 / rate) if rate else math.inf
                    if after <= turn:
                        when = after
                        break
                    when = turn
                    if when > start + arrivals.duration:
                        return
                    high = not high
                    length = arrivals.on if high else arrivals.off
                    turn += chance.exponential(length) if arrivals.random else length
            if when > start + arrivals.duration:
                return
            yield when

    def arrive(self, running: Running, port: int, born: float) -> None:
        if running.component.match:
            number = running.brought[port]
            running.brought[port] += 1
            births = running.partners.setdefault(number, [])
            births.append(born)
            if len(births) < len(running.brought):
                return
            born = min(running.partners.pop(number))
        self.execute(running, born)

    def execute(self, running: Running, born: float) -> None:
        peer = running.component.peer
        begin = self.now if peer is None else max(self.now, self.peer_free.get(peer, 0.0))
        if begin - self.now > self.backlog:
            running.lost += 1
            return
        done = begin + running.taken(1.0 if peer is None else self.speeds.get(peer, 1.0))
        if peer is not None:
            self.peer_free[peer] = done
        running.served += 1
        running.waited += begin - self.now
        if running.sink_of is not None:
            self.delivered[running.sink_of].append((born, done - born))
        if running.readers:
            for _ in range(running.outputs()):
                for reader, port in running.readers:
                    self.at(self.carried(running, reader, done), self.arrive, reader, port, born)

    def carried(self, running: Running, reader: Running, done: float) -> float:
        sender, to = running.component.peer, reader.component.peer
        if sender is None or to is None or sender == to:
            return done
        bandwidth = self.bandwidth(sender, to)
        if bandwidth < math.inf:
            done = max(done, self.link_free.get((sender, to), 0.0)) + running.component.size / bandwidth
            self.link_free[sender, to] = done
        return done + self.delay(sender, to)

    def run(self, until: float = math.inf) -> None:
        while self.plan and self.plan[0][0] <= until:
            self.now, _, call, arguments = heapq.heappop(self.plan)
            call(*arguments)
