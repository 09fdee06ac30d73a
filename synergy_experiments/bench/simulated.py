"""``dht`` and ``kernel``: number of messages of the protocols, and speed of the simulator."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

from synergy_experiments.bench.measurements import machine_load, measurement, quantile, spread
from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control.peer import Effect, Message, Peer, Protocol
from synergy_nb.overlay.directory import Directory, Entry
from synergy_nb.overlay.directory_messages import Found, Lookup
from synergy_nb.overlay.membership import Membership
from synergy_nb.overlay.pastry import Pastry
from synergy_nb.overlay.prebuilt_ring import assemble
from synergy_nb.overlay.routing import Routed
from synergy_nb.simulator.kernel import SimulatedPeers, Uniform

__all__ = ["dht", "kernel"]

STABLE = 12.0  # virtual seconds after which all registrations have arrived


class _Watched(Peer):
    """A peer that counts the look-up messages that it receives."""

    __slots__ = ("counts", "furthest")

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(address, seed)
        self.counts: Counter[str] = Counter()
        self.furthest: Counter[tuple[str, int]] = Counter()

    def receive(self, sender: str, message: Message, now: float) -> list[Effect]:
        """Count, then receive."""
        if isinstance(message, Routed) and isinstance(message.payload, Lookup):
            self.counts["routed"] += 1
            self.furthest[message.origin, message.ident] = message.hops
        elif isinstance(message, Lookup | Found):
            self.counts[type(message).__name__.lower()] += 1
        return super().receive(sender, message, now)


def _ring(count: int, seed: int) -> tuple[SimulatedPeers, list[_Watched], list[Directory]]:
    simulation = SimulatedPeers(seed, Uniform(0.01, 0.1, seed))
    peers, rings, directories = [], [], []
    for number in range(count):
        peer = _Watched(f"peer-{number}", seed=seed * 100_003 + number)
        pastry = Pastry(peer)
        membership = Membership(peer, pastry)
        directory = Directory(peer, pastry, membership)
        for protocol in (pastry, membership, directory):
            peer.add(protocol)
        simulation.add(peer)
        peers.append(peer)
        rings.append(pastry)
        directories.append(directory)
    assemble(rings, seed=seed)
    for peer in peers:
        simulation.start(peer.address)
    return simulation, peers, directories


def _lookups(count: int, lookups: int, seed: int) -> dict[str, Any]:
    """Hops and messages of look-ups of names that the asking peer has not looked up before."""
    simulation, peers, directories = _ring(count, seed)
    rng = random.Random(f"dht/{seed}")
    names = [f"stream-{number}" for number in range(4 * count)]
    for number, name in enumerate(names):
        directory = directories[number % count]
        simulation.call(peers[number % count].address, directory.register, name, "stream", {})
    simulation.run(until=STABLE)
    for peer in peers:
        peer.counts.clear()
        peer.furthest.clear()
    pairs = [(origin, name) for origin in range(count) for name in rng.sample(names, min(len(names), 40))]
    found: list[bool] = []
    times: list[float] = []
    for origin, name in rng.sample(pairs, min(lookups, len(pairs))):
        asked = simulation.now

        def done(answer: dict[str, tuple[Entry, ...]] | None, name: str = name, asked: float = asked) -> None:
            found.append(answer is not None and bool(answer[name]))
            times.append(simulation.now - asked)

        simulation.call(peers[origin].address, directories[origin].lookup, [name], done)
        simulation.run(until=simulation.now + 0.01)
    simulation.run(until=simulation.now + 5.0)
    counts: Counter[str] = Counter()
    most: Counter[tuple[str, int]] = Counter()
    for peer in peers:
        counts += peer.counts
        most |= peer.furthest  # the longest way of each
    total = len(found)
    hops = Counter(most.values())
    hops[0] = total - len(most)
    return {
        "peers": count,
        "lookups": total,
        "found": sum(found),
        "hops_mean": round((counts["routed"] + counts["lookup"]) / total, 3),
        "hops_most": max(hops),
        "hops": {str(each): hops[each] for each in sorted(hops)},
        "messages_a_lookup": round((2 * counts["routed"] + counts["lookup"] + counts["found"]) / total, 3),
        "virtual_p50_s": round(quantile(times, 0.5), 4),
    }


def dht(*, small: bool = False) -> dict[str, Any]:
    """Mean hops of a look-up at 500 simulated peers; messages, and the same at 20 and 88 peers, in the detail."""
    sizes, lookups = ((20,), 50) if small else ((20, 88, 500), 2000)
    rings = [_lookups(size, lookups, seed=size) for size in sizes]
    detail = {
        "way": "look-ups of one name each, by a peer that has not looked it up before; messages include answers and "
        "the acknowledgement of every hop",
        "rings": rings,
        "messages_a_lookup": rings[-1]["messages_a_lookup"],
    }
    return measurement("dht", rings[-1]["hops_mean"], "hops", detail)


# -- kernel ------------------------------------------------------------------------------------------------------------


class _Ball(Message, frozen=True):
    bounces: int


class _Player(Protocol):
    """Throws every ball back."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self.handlers = {_Ball: self._hit}

    def _hit(self, sender: str, ball: _Ball) -> None:
        self.peer.send(sender, _Ball(ball.bounces + 1))


def _light(count: int, events: int) -> float:
    """Events a CPU second of peers that throw balls at each other."""
    simulation = SimulatedPeers(1, Uniform(0.01, 0.1, 1))
    for number in range(count):
        peer = Peer(f"peer-{number}", number)
        peer.add(_Player(peer))
        simulation.add(peer)
    for number, (address, peer) in enumerate(simulation.peers.items()):
        simulation.call(address, peer.send, f"peer-{(number * 7 + 1) % count}", _Ball(0))
    began = time.process_time()
    handled = simulation.run(until=1e9, limit=events)
    return handled / (time.process_time() - began)


def _overlay(count: int, seconds: float, repeats: int) -> tuple[list[float], dict[str, Any]]:
    """Events a CPU second of whole Synergy peers that maintain their ring, failure detector and directory."""
    simulation = SimulatedPeers(1, Uniform(0.01, 0.1, 1))
    synergy = [SynergyPeer(f"peer-{number}", PeerConfig(name=f"peer-{number}", seed=number)) for number in range(count)]
    for each in synergy:
        simulation.add(each.peer)
    assemble([each.pastry for each in synergy], seed=1)
    for each in synergy:
        simulation.start(each.peer.address)
        for component in each.config.components:
            simulation.call(each.peer.address, each.directory.register, component, "component", {})
    simulation.run(until=STABLE)
    rates, events, messages = [], 0, simulation.messages
    for _ in range(repeats):
        began = time.process_time()
        handled = simulation.run(until=simulation.now + seconds)
        rates.append(handled / (time.process_time() - began))
        events += handled
    virtual = seconds * repeats
    counted = {
        "events_a_virtual_second": round(events / virtual),
        "messages_a_virtual_second": round((simulation.messages - messages) / virtual),
    }
    return rates, counted


def kernel(*, small: bool = False) -> dict[str, Any]:
    """Events/s of 500 simulated Synergy peers that maintain their overlay; the detail has those of an idle protocol."""
    peers, events, seconds, repeats = (20, 2000, 0.5, 1) if small else (500, 500_000, 10.0, 5)
    before = machine_load()
    rates, counted = _overlay(peers, seconds, repeats)
    light = spread([_light(peers, events) for _ in range(repeats)], digits=0)
    values = spread(rates, digits=0)
    detail = {
        "way": "events (messages received and wake-ups) a CPU second; whole Synergy peers keep ring, failure detector "
        "and directory, without applications",
        "peers": peers,
        "overlay": values,
        "light": light,
        "light_is": "as many peers that answer each message by one: the kernel alone",
        **counted,
        "target": 500_000,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("kernel", values["median"], "events/s", detail)
