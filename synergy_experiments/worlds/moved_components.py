"""A component that moves between simulated peers on a wide area, until the release at its old peer.

Whole peers run in virtual time (:class:`~synergy_nb.simulator.peer_world.PeerWorld`): the origin O leads the move, the
component goes from S to T, its inputs come from the peers U. What S and T need for themselves, such as to save and
restore the state, takes a millisecond.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import polars as pl

from synergy_nb.control.driver_messages import PredictionsMade, SlackLost
from synergy_nb.dataflow.prediction_reports import PeerPrediction, Prediction, SlackViolation
from synergy_nb.events import MigrationAnswered, MigrationDecided
from synergy_nb.lifecycle.decider import component_name
from synergy_nb.plan import Plan, source
from synergy_nb.simulator.kernel import Network
from synergy_nb.simulator.network import Topology, measured, transit_stub
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults

__all__ = ["Timing", "migrated", "moved", "network_of", "placed_query"]

LIMIT_S: Final = 60.0  # delay limit of the application, seconds
WARM_S: Final = 2.0  # seconds that the application runs before the move
STEADY: Final = Faults(delay=(0.0, 0.0), capture=0.001)


class Timing(NamedTuple):
    """Times of one move, in seconds since the command at the origin, or since the request of the old peer.

    Parameters
    ----------
    decided
        Time at which the origin has completed the move, or at which the new peer's answer has arrived.
    released
        Time at which the old peer has released the component.
    bound
        The dissertation's two round trips: RTT(S, T) + max RTT(S, U).
    """

    decided: float
    released: float
    bound: float


def network_of(path: str, peers: Sequence[str], seed: int) -> Topology:
    """Peers on random hosts of a matrix of measured delays, or of a transit-stub network if there is no path."""
    return measured(path, peers, seed=seed) if path else transit_stub(peers, seed=seed)


def placed_query(inputs: int, *, led_by_old: bool) -> tuple[Plan, dict[str, str]]:
    """A component ``x`` of so many inputs, and a peer for each operator; the origin may be the peer that it leaves."""
    streams = [source("packets", rate=50.0, seed=number, id=f"u{number}") for number in range(inputs)]
    moving = streams[0].union(*streams[1:], id="x") if inputs > 1 else streams[0].filter("bytes > 0", id="x")
    peers = {f"u{number}": f"U{number}" for number in range(inputs)} | {"x": "S", "out": "S" if led_by_old else "O"}
    return moving.sink(id="out", delay=LIMIT_S), peers


def packets(seconds: float, rng: random.Random, rate: float = 50.0) -> pl.DataFrame:
    """Packets of so many seconds."""
    count = int(seconds * rate)
    columns = {name: [rng.choice("ABC") for _ in range(count)] for name in ("link", "source", "destination")}
    ports = {name: [rng.randrange(1024) for _ in range(count)] for name in ("source_port", "destination_port")}
    times = pl.Series([round(1e6 * number / rate) for number in range(count)], dtype=pl.Int64).cast(pl.Datetime("us"))
    return pl.DataFrame({"time": times, **columns, **ports, "bytes": [rng.randrange(1, 1500) for _ in range(count)]})


def moved(network: Callable[[Sequence[str]], Network], inputs: int, seed: int, *, led_by_old: bool = False) -> Timing:
    """Time of a move, from the command at the origin.

    Parameters
    ----------
    network
        Function from the names of the peers to the delays between them.
    inputs
        Number of inputs of the component, each from a peer of its own.
    seed
        Seed of the placement and of the tuples.
    led_by_old
        Whether the origin of the application is the peer that the component leaves.
    """
    world, _, bound = _running(network, inputs, seed, led_by_old=led_by_old)
    began = world.now
    used = world.synergy["S"].ledger.load
    outcome = world.move("app", "x", "T")
    world.until(lambda: bool(outcome), 30.0)
    decided = world.now - began
    world.until(lambda: world.synergy["S"].ledger.load < used, 30.0)
    if outcome != [""]:
        raise RuntimeError(f"x has not moved: {outcome}")
    return Timing(decided, world.now - began, bound)


def migrated(
    network: Callable[[Sequence[str]], Network], inputs: int, seed: int, *, led_by_old: bool = False
) -> Timing:
    """Time of a migration with all six phases, from the request of the old peer to the new one; see :func:`moved`.

    The driver of the old peer reports that the component has no slack. The new peer is the only one that offers it.
    """
    world, plan, bound = _running(network, inputs, seed, led_by_old=led_by_old)
    name, target = component_name(plan, "x"), world.synergy["T"]
    target.probing.offers.add(name)
    world.control.call("T", target.loads.offer, name, {})
    world.run(WARM_S)
    rate, used = 50.0 * inputs, world.synergy["S"].ledger.load
    slow = Prediction(
        "app", "x", rate, rate, "", 2.0 * LIMIT_S, 2.0 * LIMIT_S, "last measurement", 0, 0, -1, 0.001, 0.1
    )
    world.control.report("S", PredictionsMade(PeerPrediction((slow,), rate, rate, 1.0, 1.0)))
    world.control.report("S", SlackLost(SlackViolation(slow, -LIMIT_S, 0.1, 5, 1.0)))
    world.until(lambda: world.synergy["S"].ledger.load < used, 30.0)
    journal = tuple(world.control.journal)
    began = next((event.time for event in journal if isinstance(event, MigrationDecided)), None)
    answered = next((event.time for event in journal if isinstance(event, MigrationAnswered) and event.accepted), None)
    if began is None or answered is None or world.where("app")["x"] != "T":
        raise RuntimeError("x has not migrated")
    return Timing(answered - began, world.now - began, bound)


def _running(
    network: Callable[[Sequence[str]], Network], inputs: int, seed: int, *, led_by_old: bool
) -> tuple[PeerWorld, Plan, float]:
    """Run the application; return its world, its plan, and the two round trips in seconds."""
    plan, peers = placed_query(inputs, led_by_old=led_by_old)
    names = ("O", "S", "T", *(f"U{number}" for number in range(inputs)))
    delays, rng = network(names), random.Random(seed)
    world = PeerWorld(seed, names, STEADY, network=delays)
    world.pace = 0.05
    world.deploy("app", plan, peers, {name: packets(60.0, rng) for name in plan.sources})
    world.until(lambda: world.status("app") == "running")
    world.run(WARM_S)

    def rtt(one: str, other: str) -> float:
        return 2.0 * delays.delay(one, other)

    return world, plan, rtt("S", "T") + max(rtt("S", f"U{number}") for number in range(inputs))
