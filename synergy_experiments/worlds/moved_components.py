"""A component that moves between simulated peers on a wide area, until the release at its old peer.

Whole peers run in virtual time (:class:`~synergy_nb.simulator.peer_world.PeerWorld`): the origin O leads the move, the
component goes from S to T, its inputs come from the peers U. What S and T need for themselves, such as to save and
restore the state, takes a millisecond.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

import polars as pl

from synergy_nb.control.driver_messages import PredictionsMade, SlackLost
from synergy_nb.dataflow.prediction_reports import PeerPrediction, Prediction, SlackViolation
from synergy_nb.events import Event, HotSpotDismissed, MigrationAnswered, MigrationDecided, MigrationEnded
from synergy_nb.lifecycle.requests.decider import component_name
from synergy_nb.plan import Plan, source
from synergy_nb.simulator.kernel import Network
from synergy_nb.simulator.network import Topology, measured, transit_stub
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults

__all__ = ["Timing", "migrated", "moved", "network_of", "placed_query"]

Happened = TypeVar("Happened", bound=Event)

LIMIT_S: Final = 60.0  # delay limit of the application, seconds
WARM_S: Final = 2.0  # seconds that the application runs before the move
READ_S: Final = 30.0  # seconds for which there are tuples
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
    least
        Least time as long as the origin alone changes the graph: from S over the farthest U to T, and from there over O
        back.
    """

    decided: float
    released: float
    bound: float
    least: float


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
    world, _, bound, least = _set_up(network, inputs, seed, led_by_old=led_by_old)
    world.run(WARM_S)
    began = world.now
    used = world.synergy["S"].ledger.load
    outcome = world.move("app", "x", "T")
    world.until(lambda: bool(outcome), 30.0)
    decided = world.now - began
    world.until(lambda: world.synergy["S"].ledger.load < used, 30.0)
    if outcome != [""]:
        raise RuntimeError(f"x has not moved: {outcome}")
    return Timing(decided, world.now - began, bound, least)


def migrated(
    network: Callable[[Sequence[str]], Network], inputs: int, seed: int, *, led_by_old: bool = False
) -> Timing | None:
    """Time of a migration with all six phases, from the request of the old peer to the new one; see :func:`moved`.

    None where the new peer refuses, as when a peer that it would read from does not answer it within a second.

    The driver of the old peer reports that the component has no slack. The new peer is the only one that offers it. The
    old peer may have released the component before it hears the answer of the new one, as peers upstream pass the graph
    on; the new peer accepted when it said that it was ready, so the answer has arrived by then.
    """
    world, plan, bound, least = _set_up(network, inputs, seed, led_by_old=led_by_old)
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
    released = world.now
    world.until(lambda: _first(world, MigrationEnded) is not None, 30.0)
    began, answered = _first(world, MigrationDecided), _first(world, MigrationAnswered)
    ended = _first(world, MigrationEnded)
    if began is not None and answered is not None and not answered.accepted:
        return None
    if began is None or answered is None or ended is None or ended.failure or world.where("app")["x"] != "T":
        raise RuntimeError(f"x has not migrated: {ended or answered or began or _first(world, HotSpotDismissed)}")
    return Timing(min(answered.time, released) - began.time, released - began.time, bound, least)


def _first(world: PeerWorld, kind: type[Happened]) -> Happened | None:
    """The first event of a kind; None if there is none yet."""
    return next((event for event in world.control.journal if isinstance(event, kind)), None)


def _set_up(
    network: Callable[[Sequence[str]], Network], inputs: int, seed: int, *, led_by_old: bool
) -> tuple[PeerWorld, Plan, float, float]:
    """Run the application; return its world, its plan, the two round trips, and the least time, in seconds."""
    plan, peers = placed_query(inputs, led_by_old=led_by_old)
    upstream = [f"U{number}" for number in range(inputs)]
    names = ("O", "S", "T", *upstream)
    delays, rng = network(names), random.Random(seed)
    world = PeerWorld(seed, names, STEADY, network=delays)
    world.pace = 0.05
    world.deploy("app", plan, peers, {name: packets(READ_S, rng) for name in plan.sources})
    world.until(lambda: world.status("app") == "running")
    way, origin = delays.delay, peers["out"]
    bound = 2.0 * way("S", "T") + 2.0 * max(way("S", each) for each in upstream)
    over = max(way("S", "T"), *(way("S", each) + way(each, "T") for each in upstream))
    back = way("T", "S") if origin == "S" else way("T", origin) + way(origin, "S")
    return world, plan, bound, over + back
