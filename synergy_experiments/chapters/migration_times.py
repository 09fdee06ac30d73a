"""P7: time of a migration on a wide area (sections 3.4.4 and 3.5).

A component that reads one or several streams moves between peers on random hosts of a matrix of round-trip times, or of
a transit-stub network where that is not at hand. Measured is the time from the command to move, at the origin of the
application, to the moment at which the old peer has released the component. The origin is the peer that the component
leaves, as in the dissertation, where that leads the migration; or it is another one. With request and reply, the time
begins when the old peer sends the request to the new one: all six phases. Beside it is the time that the dissertation's
phases need at least: a round trip of the old peer to the new one, and one to the farthest peer upstream.

Findings
--------
The dissertation's phases take two round trips: request and reply between the old peer and the new one, update request
and reply between the old peer and those upstream; and then the time in which the queue of the old peer is executed. So
its bound is of all phases, and it compares with a move *with request and reply*. Here the command to move is one more
message each way, as the component's state has to arrive: the command goes to the new peer, and a snapshot with it; the
old peer has those upstream send to the new one at the same time, which catches up and reports that. So from the command
a move that the old peer leads takes the way upstream, from there to the new peer, and back. With request and reply it
takes no longer, as the move begins while the new peer decides whether it accepts. Nothing has to be drained, as the new
peer executes what waits at the old one, too. An origin elsewhere has to hear that the new peer is ready, and the old
one has to hear from it. The dissertation's 1144 ms are of other hosts, years and machines.

On 200 placements with measured delays, all phases led by the old peer take .79 times two round trips with one stream,
.79 with two and 1.36 with four (the placements of a run together). If another peer leads, it is 1.02, .97 and 1.49. The
least that is possible while the leader alone changes the graph is .75, .75 and .76, and 1.00, .96 and .95. So with one
and two streams there is nothing left to gain but another leader. With four, the new peer has to measure the round trips
to peers upstream before it can project, as it did not do so in the two seconds since the start; from the command on it
is .80 and 1.21. Where the origin waited for answers to its graph, migrations that another peer leads took 1.48 and 1.37
times two round trips with one and two streams on 40 other placements, where 1.15 and 1.13 is the least.

In one or two of 200 placements the new peer refuses, as a peer beside it in the graph is 2.7 to 3.0 s away there and
back: it waits a second for the answer by which it measures that. The share is a metric; times are of the others.

Until the old peer sent the snapshot without being asked, a move took 1.4 times the two round trips from the command,
and until it had those upstream send to the new peer, .98 to 1.07 times; with request and reply 1.31 to 1.37, and 1.2
until the move began before the reply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import mean, median, quantiles
from typing import Final

from synergy_experiments.framework.claim import Cell, Check, Claim, Judged, Panel
from synergy_experiments.framework.measurements import Coordinate, Measured, Point
from synergy_experiments.framework.parameters import Setup, whole, wholes
from synergy_experiments.framework.verdicts import at_all, not_comparable, own
from synergy_experiments.worlds.measured_delays import matrix_path, network
from synergy_experiments.worlds.moved_components import migrated, moved, network_of

__all__ = ["CLAIMED", "times"]

PAPER_S: Final = 1.144
BOUND: Final = "two round trips"
OLD: Final = "led by the old peer"
OTHER: Final = "led by another peer"
WITH_REQUEST: Final = ", with request and reply"
LEAST: Final = "least"  # time as long as the leader alone changes the graph
GOAL: Final = 1.15  # times two round trips
NEAR: Final = 1.05  # times the least time
IN_ALL: Final = "times two round trips, all placements together"
#: In the dissertation the old peer leads: only its times judge a statement of the paper.
LEADERS: Final[tuple[tuple[str, Judged], ...]] = ((OLD, "paper"), (OTHER, "own"))
TYPICAL: Final = "times two round trips, median placement"
REFUSED: Final = "placements in which the new peer refuses"
WITHIN: Final = f"placements within {GOAL:g} times two round trips"


def times(inputs: int, algorithm: str, path: str, placements: int, seed: int) -> list[Point]:
    """Times of moves on random placements, and how many times as long as two round trips they are.

    Parameters
    ----------
    inputs
        Number of streams that the component reads.
    algorithm
        Whether the old peer or another one leads the move.
    path
        Path of a matrix of round-trip times; empty for a transit-stub network.
    placements
        Number of placements, each with a move.
    seed
        Seed of the placements.
    """
    seeds = range(1000 * seed, 1000 * seed + placements)
    found = [moved(partial(network_of, path, seed=own), inputs, own, led_by_old=algorithm == OLD) for own in seeds]
    whole = [migrated(partial(network_of, path, seed=own), inputs, own, led_by_old=algorithm == OLD) for own in seeds]
    accepted = [each for each in whole if each is not None]
    points = [Point(inputs, f"{algorithm}{WITH_REQUEST}", REFUSED, 1.0 - len(accepted) / len(whole))]
    for name, values in (
        (algorithm, [(each.released, each.bound) for each in found]),
        (f"{algorithm}{WITH_REQUEST}", [(each.released, each.bound) for each in accepted]),
        (f"{LEAST}, {algorithm}", [(each.least, each.bound) for each in accepted]),
        *([(BOUND, [(each.bound, each.bound) for each in found])] if algorithm == OLD else []),
    ):
        seconds, bounds = zip(*values, strict=True)
        tenths = quantiles(seconds, n=10)
        numbers = {"mean": mean(seconds), "median": tenths[4], "90th percentile": tenths[8]}
        if name != BOUND:
            shares = [own / bound for own, bound in values]
            numbers[IN_ALL] = sum(seconds) / sum(bounds)
            numbers[TYPICAL] = median(shares)
            numbers[WITHIN] = mean(each <= GOAL for each in shares)
        points += [Point(inputs, name, metric, value) for metric, value in numbers.items()]
    return points


def _cells(setup: Setup) -> Iterator[Cell]:
    inputs = setup["inputs"]
    assert isinstance(inputs, tuple)
    for each in inputs:
        for algorithm in (OLD, OTHER):
            yield Cell(times, (each, algorithm, matrix_path(setup), setup["placements"]))


def _checks(measured: Measured, setup: Setup) -> Iterator[Check]:
    inputs = setup["inputs"]
    assert isinstance(inputs, tuple)
    for leader, judges in LEADERS:
        time = measured.over_repetitions(_mean_time, f"{leader}{WITH_REQUEST}", inputs)
        why = "milliseconds of another network and other machines"
        check = not_comparable(f"mean time of all phases in ms, {leader}", 1000.0 * PAPER_S, time, why, "ms")
        yield check._replace(judges=judges)
    for leader, limit in ((OLD, 1.0), (OTHER, GOAL)):
        for metric in (IN_ALL, TYPICAL):
            found = [(x, measured.estimate(x, f"{leader}{WITH_REQUEST}", metric)) for x in inputs]
            short = [(x, None if times is None else times.at_most(limit)) for x, times in found]
            yield own(
                at_all(f"at most {limit:g} {metric}, {leader}", "our aim: two round trips, without draining", short)
            )
        whole, least = f"{leader}{WITH_REQUEST}", f"{LEAST}, {leader}"
        near_least = [(x, measured.not_above((x, whole, IN_ALL), (x, least, IN_ALL), NEAR)) for x in inputs]
        name = f"at most {NEAR:g} times the least time while the leader alone changes the graph, {leader}"
        yield own(at_all(name, "our aim", near_least))


def _mean_time(measured: Measured, algorithm: str, inputs: Sequence[Coordinate]) -> float | None:
    """Return the mean time of a move over all placements, in milliseconds."""
    times = [measured.mean(x, algorithm, "mean") for x in inputs]
    return None if None in times else 1000.0 * mean(time for time in times if time is not None)


_P7: Final = Claim(
    id="P7",
    title="time of a migration",
    source="dissertation 3.5",
    says="a migration took 1144 ms on average, with all phases of the protocol",
    parameters={
        "inputs": wholes("numbers of streams that the component reads, each from a peer of its own", (1, 2, 4)),
        "placements": whole("random placements in a repetition, each with a move", 10, 20, least=2),
        "network": network(),
    },
    cells=_cells,
    checks=_checks,
    panels=(
        Panel("median", "median time of a move (ms)", factor=1000.0),
        Panel(IN_ALL, "times two round trips,\nall placements together", bounds=((1.0, "two round trips"),)),
        Panel("90th percentile", "90th percentile (ms)", factor=1000.0),
    ),
    xlabel="streams that the component reads",
    paper=[Point(1, "dissertation", "mean", PAPER_S)],
    repeat=(2, 10),
    shares=("placements*",),
)  # fmt: skip

CLAIMED: Final = (_P7,)
