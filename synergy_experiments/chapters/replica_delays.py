"""A5 and A6: delay costs of replicas, and the time of the protocol (section 4.5.3, figures 4.12 to 4.14).

The set-up is that of A1. *Inter-operator delay* is the mean one-way delay between the primaries of two operators of
which one reads the other; *intra-operator delay* is that from a primary to its backups; within a peer it is zero. Both
algorithms that look at delays, Synergy and Latency, are subject to the limits; the paper's other ones are not.

*Latency* "places components based solely on network latencies", the closest nodes "regardless of which have been used
for placement so far". The dissertation does not say whether a peer is nearest to itself. Both readings are run, each
compared with Synergy in all: *latency* chooses the nearest peer, the peer itself first; *latency apart* prefers peers
without a component of the application. Requests that find no place count as unavailable in ``of all``.

Findings
--------
*A5.* Neither reading does what the paper says of its Latency. *Latency* has the delays of the paper's: Synergy's are
comparable, and not shorter. But it places components together, and is far more available than Random: of what is
placed, more available than Synergy as section 4.4 has it, at no more delay. There the nearest peers win, at every size.
*Latency apart* is about as available as Random, as the paper says; but its delays are longer than Synergy's, and no
placement by latency alone would choose them. Synergy looking ahead (ours) is in no run less available than the
nearest, of all requests, as an application begins where it can end: its delays to backups are 4 to 10 % longer than
those of the nearest, as the nearest peer's link is the first to be full. Where streams are fast or links short, the
nearest peers refuse requests that it places. Where a link carries one stream it places fewer requests than section
4.4 does, as what a peer offers to one request is held against the others.

*A6.* The protocol asks all peers at once and takes a third of a second, the longest round trip. The paper's one to five
seconds include Java on PlanetLab's loaded hosts, and it does not say how its peers ask, so the numbers are not
comparable; only its statement, a few seconds at the most, is judged. Asking one peer after the other, which our
protocol does not do, would take a round trip to each: the paper's times within a factor of 1.5. That is shown, and not
judged. Peers wait a second for an answer. Between 1 of 190 pairs of the measured hosts and none have a longer round
trip; these links stay unknown, and neither of the two places a replica at the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any, Final, NamedTuple, cast

from synergy_experiments.chapters.availability import REPLICAS, requests, share_failed
from synergy_experiments.framework.claim import Cell, Check, Claim, Panel
from synergy_experiments.framework.measurements import Coordinate, Decision, Measured, Point, both
from synergy_experiments.framework.parameters import Setup, choice, number, several, wholes
from synergy_experiments.framework.verdicts import at_all, near, not_comparable, own
from synergy_experiments.worlds.replica_placements import (
    AHEAD,
    ALGORITHMS,
    PlacementCost,
    Requests,
    mean,
    placements,
    world,
)
from synergy_experiments.worlds.sweeps import algorithms
from synergy_nb.algorithms.availability import (
    ExactlyFailed,
    PlacementConfig,
    SurveyedLink,
    availability,
    costs,
    nondominated,
)

__all__ = ["CLAIMED", "Tradeoff", "delayed", "gathered", "tradeoffs"]

#: Milliseconds of table 4.14, by peers.
GATHERED: Final = {10: 1827.0, 20: 2100.0, 30: 5539.0}
#: Metric of a time to gather latencies to how a peer asks.
HOW: Final = {"in turn": "one peer after the other", "together": "as the protocol asks, all at once"}
#: The readings of Latency, and what each does.
LATENCIES: Final = {"latency": "the nearest peer, itself first", "latency apart": "the nearest peer not in use"}
SYNERGIES: Final = ("synergy", AHEAD)
ROUNDING: Final = 1e-9
ALIKE: Final = 0.05  # difference in availability up to which two algorithms count as equivalent
#: Name of a set-up to what makes streams fast or links short: bytes/s of a stream, or streams that a link carries.
SETUPS: Final[Mapping[str, Mapping[str, float]]] = {
    "600 kB/s": {"stream": 600e3},
    "1200 kB/s": {"stream": 1200e3},
    "links 2": {"link": 2},
    "links 1": {"link": 1},
    "6 peers, links 2": {"link": 2, "peers": 6, "components": 3},
    "6 peers, links 1": {"link": 1, "peers": 6, "components": 3},
}
NOT_STATED: Final = "the paper's time includes Java on loaded hosts, and it does not say how peers ask"


class Tradeoff(NamedTuple):
    """The two objectives of an algorithm: availability and delay.

    Parameters
    ----------
    availability
        Exact, the mean over the applications that are placed.
    of_all
        The same over all requests, of which those that are not placed are unavailable.
    inter, intra
        Mean delays between operators and to backups, seconds.
    efficient
        Whether no other algorithm has both a higher availability and a shorter delay, inter and intra together.
    """

    availability: float
    of_all: float
    inter: float
    intra: float
    efficient: bool


def tradeoffs(given: Requests, names: tuple[str, ...], failed: int, seed: int) -> dict[str, Tradeoff]:
    """Measure availability and delay of each algorithm, and whether it is Pareto efficient.

    Parameters
    ----------
    given, seed
        Peers and requests.
    names
        Algorithms.
    failed
        Number of peers that have failed.
    """
    met = world(given, seed)
    model = ExactlyFailed(met.topology.peers, failed)
    found: dict[str, tuple[float, float, float, float]] = {}
    for name in names:
        held = replace(given, limits=given.limits or name.startswith("latency"))
        graphs = placements(held, name, seed)
        spent = [costs(met.plans[origin], graph, met.topology.delay) for origin, graph in graphs.items()]
        available = [availability(graph, model) for graph in graphs.values()]
        found[name] = (
            mean(available),
            math.fsum(available) / len(met.plans),
            mean([each.inter_delay for each in spent]),
            mean([each.intra_delay for each in spent]),
        )
    front = nondominated({name: (available, inter + intra) for name, (available, _, inter, intra) in found.items()})
    return {name: Tradeoff(*values, efficient=name in front) for name, values in found.items()}


def delayed(given: Requests, names: tuple[str, ...], failed: int, x: int, seed: int) -> list[Point]:
    """Measure both delays, availability and Pareto efficiency of each algorithm at ``x`` peers.

    ``availability of x`` is the same over the sum of both delays in ms, for the figure.
    """
    found = tradeoffs(given, names, failed, seed)
    points: list[Point] = []
    for name, each in found.items():
        points += [Point(x, name, "inter", each.inter), Point(x, name, "intra", each.intra)]
        points += [Point(x, name, "reached", each.availability), Point(x, name, "efficient", float(each.efficient))]
        points.append(Point(x, name, "of all", each.of_all))
        near = found.get("latency")
        if near is not None and name in SYNERGIES:
            points.append(Point(x, name, "beaten", float(_beats(near, each))))
            points.append(Point(x, name, "lead", each.of_all - near.of_all))
        points += [Point(round(1e3 * (each.inter + each.intra), 3), name, f"availability of {x}", each.availability)]
    return points


def _beats(one: Tradeoff, other: Tradeoff) -> bool:
    """Whether one placement is as available, of all requests, as another and as near, and not equal in both."""
    first, second = (each.inter + each.intra for each in (one, other))
    return one.of_all >= other.of_all and first <= second and (one.of_all, first) != (other.of_all, second)


def streamed(given: Requests, names: tuple[str, ...], failed: int, x: str, seed: int) -> list[Point]:
    """Measure the availability of all requests and of those that are placed, and their delays, for one set-up ``x``."""
    found = tradeoffs(given, names, failed, seed)
    points: list[Point] = []
    for name, each in found.items():
        points.append(Point(x, name, "of all, set-ups", each.of_all))
        points.append(Point(x, name, "reached, set-ups", each.availability))
        points.append(Point(x, name, "delay, set-ups", each.inter + each.intra))
        if name in SYNERGIES and "latency" in found:
            points.append(Point(x, name, "lead, set-ups", each.of_all - found["latency"].of_all))
    return points


def _sizes(setup: Setup) -> Iterator[Cell]:
    share, chosen = cast("float", setup["share"]), algorithms(setup)
    for peers in cast("tuple[int, ...]", setup["peers"]):
        yield Cell(delayed, (requests(setup, peers=peers), chosen, share_failed(peers, share), peers))
    compared = tuple(name for name in chosen if name in (*SYNERGIES, "latency"))
    for x in SETUPS:
        changes: dict[str, Any] = {"peers": 20, **SETUPS[x]}
        changes["link"] = changes.get("link", 0) * cast("float", setup["stream"])
        given, peers = requests(setup, **changes), changes["peers"]
        if compared and x in cast("tuple[str, ...]", setup["setups"]):
            yield Cell(streamed, (given, compared, share_failed(peers, share), x))


def _compared(measured: Measured, setup: Setup) -> Iterator[Check]:
    names = algorithms(setup)
    sizes = measured.xs("inter", "synergy")
    for name in (each for each in names if each in LATENCIES):
        reading = LATENCIES[name]
        ways = [(x, measured.over_repetitions(_way, x, name)) for x in sizes]
        close = [(x, None if way is None else way.between(-0.25, 0.25)) for x, way in ways]
        yield at_all(f"inter-operator delay: a quarter of the way from Latency to Random at most ({reading})",
                     "comparable to Latency", close)  # fmt: skip
        middle = [(x, _in_the_middle(measured, x, name)) for x in sizes]
        yield at_all(
            f"intra-operator delay is between Latency's, less a twentieth, and Random's ({reading})", "between", middle
        )
        gaps = [(x, measured.difference(x, name, "random", "reached")) for x in sizes]
        alike = [(x, None if gap is None else gap.within(ALIKE)) for x, gap in gaps]
        yield at_all(f"Latency is as available as Random, within {ALIKE:g} ({reading})", "equivalent", alike)
        better = [(x, measured.higher(x, "synergy", name, "reached")) for x in sizes]
        yield at_all(f"Synergy is more available than Latency ({reading})", "Latency leads to low availability", better)
    for other in ("random", "partition"):
        shorter = [
            (f"{x:g} {metric}", _half(measured, x, other, metric)) for x in sizes for metric in ("inter", "intra")
        ]
        yield at_all(f"both delays are at most half of those of {other}", "much worse", shorter)
        better = [(x, measured.higher(x, "synergy", other, "reached")) for x in sizes]
        yield at_all(f"and availability is higher than that of {other}", "higher", better)
    yield from _nearest(measured)


def _half(measured: Measured, x: Coordinate, other: str, metric: str) -> Decision | None:
    """Whether a delay of Synergy is at most half of another's, by an interval."""
    beyond = measured.paired((x, "synergy", metric), (x, other, metric), lambda ours, theirs: ours - theirs / 2)
    return None if beyond is None else beyond.below()


def _nearest(measured: Measured) -> Iterator[Check]:
    """Say where the nearest peers win against Synergy, and whether they do against Synergy looking ahead."""
    for name in SYNERGIES:
        for metric, where in (("lead", "at each size"), ("lead, set-ups", "with fast streams and short links")):
            places = [(x, measured.always(x, name, metric, _not_below)) for x in measured.xs(metric, name)]
            if places:
                statement = f"{name}: in every repetition as available as the nearest, of all requests, {where}"
                yield own(at_all(statement, "never worse than the nearest (ours)", places))
        nearer = [(x, measured.always(x, name, "beaten", _none)) for x in measured.xs("beaten", name)]
        if nearer:
            statement = f"{name}: in no repetition are the nearest peers as available, of all requests, and nearer"
            yield own(at_all(statement, "never worse than the nearest (ours)", nearer))


def _not_below(lead: float) -> bool:
    return lead >= -ROUNDING


def _none(beaten: float) -> bool:
    return beaten == 0.0


def _way(measured: Measured, x: Coordinate, latency: str) -> float | None:
    """Return how far Synergy's inter-operator delay is on the way from Latency's (0) to Random's (1)."""
    low, found, high = (measured.mean(x, name, "inter") for name in (latency, "synergy", "random"))
    if low is None or found is None or high is None or high <= low:
        return None
    return (found - low) / (high - low)


def _in_the_middle(measured: Measured, x: Coordinate, latency: str) -> Decision | None:
    """Whether Synergy's intra-operator delay is between Latency's, less a twentieth, and Random's, by intervals."""
    ours = (x, "synergy", "intra")
    above = measured.paired(ours, (x, latency, "intra"), lambda one, other: one - 0.95 * other)
    below = measured.paired(ours, (x, "random", "intra"), lambda one, other: one - other)
    return None if above is None or below is None else both(above.above(), below.below())


# -- A6 ----------------------------------------------------------------------------------------------------------------


def gathered(given: Requests, seed: int) -> dict[str, float]:
    """Measure the mean time until a peer knows its links to all others, seconds: ``together``, and ``in turn``.

    Every peer asks as placement does, and counts from its first question to the last answer, or until it has waited for
    that for a second (``survey`` of the placement's parameters). ``known`` is the share of the links with a shorter
    round trip whose latency is known then; ``too far`` is the share of all links whose round trip is longer.
    """
    together, measured = _gathered(given, seed, at_once=given.peers)
    in_turn, _ = _gathered(given, seed, at_once=1)
    topology = world(given, seed).topology
    links = list(permutations(topology.peers, 2))
    near = {
        link for link in links if topology.delay(*link) + topology.delay(*reversed(link)) < PlacementConfig().survey
    }
    known = len(measured & near) / len(near) if near else 1.0
    return {"together": together, "in turn": in_turn, "known": known, "too far": 1.0 - len(near) / len(links)}


def _gathered(given: Requests, seed: int, *, at_once: int) -> tuple[float, set[tuple[str, str]]]:
    """Return the mean time, seconds, and the links whose latency is known then."""
    met = world(given, seed)
    run = PlacementCost(met, seed)
    simulation, began, done = run.simulation, run.simulation.now, dict[str, float]()
    measured: set[tuple[str, str]] = set()

    def survey_next(address: str, left: list[str]) -> None:
        protocol = run.peers[address].placement
        assert protocol is not None
        if not left:
            done[address] = simulation.now - began
            return

        def answered(links: dict[str, SurveyedLink]) -> None:
            measured.update((address, peer) for peer in links)
            survey_next(address, left[at_once:])

        protocol.link_survey.survey(left[:at_once], answered)

    for address in met.topology.peers:
        others = [peer for peer in met.topology.peers if peer != address]
        simulation.call(address, survey_next, address, others)
    simulation.run(began + 600.0, stop=lambda: len(done) == given.peers)
    return mean(list(done.values())), measured


def _gathering(setup: Setup) -> Iterator[Cell]:
    for peers in cast("tuple[int, ...]", setup["peers"]):
        yield Cell(gathered, (requests(setup, peers=peers),), peers, "synergy")


def _times(measured: Measured, _: Setup) -> Iterator[Check]:
    sizes = measured.xs("together", "synergy")
    least, most = min(GATHERED), max(GATHERED)
    for metric, how in HOW.items():
        growth = measured.paired((most, "synergy", metric), (least, "synergy", metric), lambda one, other: one / other)
        name = f"time with {most} peers over that with {least}, {how}"
        yield near(name, GATHERED[most] / GATHERED[least], growth, 0.5, 1.5, unit="")
    known = [(x, measured.always(x, "synergy", "known", lambda share: share == 1.0)) for x in sizes]
    limit = PlacementConfig().survey
    yield own(at_all(f"by then every latency is known where the round trip is below the survey's limit of {limit:g} s",
                 "(ours)", known))  # fmt: skip
    for x in sizes:
        far = measured.estimate(x, "synergy", "too far")
        if far is not None:
            why = "peers beyond the limit count as silent, and get no replica from the asking peer"
            yield not_comparable(f"share of links with a longer round trip, {x} peers", "not stated", far, why, "%")
    for peers, said in GATHERED.items():
        for metric, how in HOW.items():
            ours = measured.estimate(peers, "synergy", metric)
            if ours is not None:
                yield not_comparable(f"seconds with {peers} peers, {how}", said / 1e3, ours, NOT_STATED, "s")


_SHARED: Final = {name: each for name, each in REPLICAS.items() if name not in ("peers", "failed", "samples")}

CLAIMED: Final = (
    Claim(
        id="A5",
        title="inter- and intra-operator delay",
        source="dissertation 4.5.3, figures 4.12 and 4.13",
        says="inter-operator delay comparable to Latency's, intra-operator delay between Latency's and Random's",
        parameters={
            **_SHARED,
            "limits": choice("whether optimal, random and partition obey the limits, as both readings of Latency do",
                             ["off", "on"]),
            "peers": wholes("peers", (10, 20, 30), (10, 15, 20, 25, 30), least=2),
            "share": number("share of failing peers, for the figure with availability", 0.15, most=1.0),
            "algorithms": several("algorithms compared", ALGORITHMS,
                                  ("synergy", AHEAD, "latency", "latency apart", "optimal", "random", "partition")),
            "setups": several("set-ups with fast streams or short links", tuple(SETUPS)),
        },
        cells=_sizes,
        checks=_compared,
        panels=(
            Panel("inter", "inter-operator delay (ms)", factor=1e3),
            Panel("intra", "intra-operator delay (ms)", factor=1e3),
            Panel("reached", "availability of what is placed (%)", factor=100.0),
            Panel("of all, set-ups", "availability of all requests (%)", "bars", factor=100.0,
                  xlabel="fast streams or short links"),
            Panel("delay, set-ups", "inter- and intra-operator delay (ms)", "bars", factor=1e3,
                  xlabel="fast streams or short links"),
            Panel("availability of 20", "availability at 20 peers (%)", "points", 100.0,
                  xlabel="inter- and intra-operator delay (ms)", runs=True),
        ),
        xlabel="peers",
        repeat=(3, 10),
        shares=("reached*", "of all*", "efficient", "beaten", "availability of*"),
    ),
    Claim(
        id="A6",
        title="gathering latencies",
        source="dissertation 4.5.3, table 4.14",
        says="1827, 2100 and 5539 ms at 10, 20 and 30 peers",
        parameters={
            **{name: each for name, each in _SHARED.items() if name == "network"},
            "peers": wholes("peers", tuple(GATHERED), least=2),
        },
        cells=_gathering,
        checks=_times,
        panels=(
            Panel("in turn", "one after the other (ms)", factor=1e3),
            Panel("together", "all at once (ms)", factor=1e3),
        ),
        xlabel="peers",
        paper=tuple(Point(peers, "synergy", "in turn", value / 1e3) for peers, value in GATHERED.items()),
        repeat=(3, 10),
        shares=("known", "too far"),
    ),
)  # fmt: skip
