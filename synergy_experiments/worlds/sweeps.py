"""Common parts of the simulated experiments of section 2.4.2: their set-up, and the comparison of policies.

The dissertation states the network, the numbers of peers, components and operators, the replication degree, the slack
of 30 % and Zipf's exponent. It does not state rates, processing times, capacities, arrival times of requests, and the
number of queries; our values are in the set-up and can be changed. Rates of 5 to 15 tuples/s and processing times of 5
to 15 ms give an operator a load of a tenth of a peer: 100 requests are then "a reasonable load for all algorithms" that
check resources, and 500 are too many for those that do not share.

*Limits.* The requirement is "30% higher than the time needed for the application to execute in isolation"
(dissertation) or "30% higher than its projected execution time" (Middleware 2006). Neither says in which placement. All
three readings are run, on the same networks and requests: 1.3 times the mean over all placements, the least, and the
least projected time. The name of a metric contains the reading: ``success (least)``.

*A load for all algorithms.* With the processing times above, Greedy and Random overload peers at 100 requests, as by
Zipf's law 44 of them ask for the same query. The paper calls that number reasonable for all. So figures also have a
load at which no algorithm overloads a peer: 100 requests whose processing times are lower by a stated factor
(``light``).

*What an oracle could serve.* A request whose tuples take longer than its limit in every placement on idle peers, with
no work beside their own, cannot be served by anybody; :func:`best_possible` counts the others. It is an upper bound of
what an oracle could serve that knows all loads, delays and requests: exact where peers are lightly loaded, and above it
where requests take capacity from each other.

*Policies that check nothing* serve the same requests at the same delays whatever the limits, so Greedy and Random run
once for all readings. Only their share of tuples on time is known for the first reading alone.

Requests never end, so the load is that of all admitted ones. Components are not deployed, as the dissertation
treats deployment in an experiment of its own (C11): otherwise the policies would differ in how much they deploy.
Candidates are probed at random, as without a service that monitors delays; ``--set choice=nearest`` uses one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, cast

from synergy_experiments.flows.workload import Parameters
from synergy_experiments.framework.claim import Cell, Check, Panel, metric_of
from synergy_experiments.framework.measurements import Coordinate, Decision, Measured
from synergy_experiments.framework.parameters import Parameter, Setup, choice, number, numbers, several, whole, wholes
from synergy_experiments.framework.verdicts import at_all, own
from synergy_experiments.worlds.composed_requests import compose
from synergy_experiments.worlds.scenario import Scenario
from synergy_nb.algorithms.composition import POLICIES

__all__ = [
    "COMPARED",
    "LIGHT",
    "LIGHTER",
    "ORACLE",
    "READINGS",
    "SIMULATED",
    "WORDS",
    "algorithms",
    "best_possible",
    "cells",
    "light",
    "not_overloaded",
    "others",
    "panels",
    "readings",
    "scenario",
    "simulated",
    "unchecked",
]

COMPARED: Final = ("synergy", "composition", "greedy", "random")
READINGS: Final = ("mean", "least", "projected")
LIGHT: Final = ", light"
ORACLE: Final = "no placement serves more"
#: Reading of the limit of a request, in words.
WORDS: Final = {
    "mean": "limits over the mean placement",
    "least": "limits over the least placement",
    "projected": "limits over the least projected time",
}

#: Parameters of the set-up that all experiments share; each replaces those that it varies.
SIMULATED: Final[Mapping[str, Parameter]] = {
    "peers": whole("peers on a transit-stub network of 1500 routers", 500, least=2),
    "requests": whole("requests", 100),
    "arrivals": number("requests a second", 9.0, least=0.01),
    "components": whole("unique components", 200),
    "replication": whole("peers that offer each component", 5),
    "operators": wholes("least and greatest number of operators of a query", (2, 10), count=2),
    "population": whole("number of different queries", 500),
    "zipf": number("exponent of their popularity", 1.6),
    "sources": whole("source streams", 20),
    "rates": numbers("least and greatest tuples/s of a source", (5.0, 15.0), least=1e-3, count=2),
    "costs": numbers("least and greatest processing time in seconds", (0.005, 0.015), least=1e-9, count=2),
    "branching": number("share of the queries that have two branches", 0.0, most=1.0),
    "slack": number("slack of a request over its time in isolation, as a share", 0.3),
    "readings": several("readings of the time that limits are relative to", READINGS),
    "ratio": number("probing ratio", 0.1, least=1e-9, most=1.0),
    "at_least": whole("candidates that are probed in any case", 2),
    "budget": whole("paths that are probed", 8),
    "choice": choice("candidates that are probed", ["random", "balanced", "nearest"]),
    "origin": choice(
        "where a request is submitted: beside its client, nearest to what, or anywhere",
        ["client", "source", "sink", "near", "random"],
    ),
    "window": number("virtual seconds of tuples that are counted", 60.0, least=1.0),
    "algorithms": several("policies compared", tuple(POLICIES), COMPARED),
}

#: The parameter of experiments that are also run at a load which is reasonable for all policies (:func:`light`).
LIGHTER: Final[Mapping[str, Parameter]] = {
    "light": number("factor of lower processing times, with which no policy is to overload a peer", 0.04, least=1e-6),
}

_WORKLOAD: Final = {each.name for each in fields(Parameters)}
_SCENARIO: Final = {each.name for each in fields(Scenario)} - {"workload"}


def scenario(setup: Setup, **changes: Any) -> Scenario:
    """Return the scenario of a set-up, with the varied parameters of an experiment."""
    chosen: dict[str, Any] = {**setup, **changes}
    workload = Parameters(**{name: value for name, value in chosen.items() if name in _WORKLOAD})
    return Scenario(workload, **{name: value for name, value in chosen.items() if name in _SCENARIO})


def simulated(given: Scenario, seed: int) -> dict[str, float]:
    """Simulate a scenario and return its metrics."""
    return compose(given, seed).metrics()


def unchecked(given: Scenario, suffix: str, limits: tuple[str, ...], seed: int) -> dict[str, float]:
    """Simulate a policy that checks nothing, once, and return its metrics under several readings of the limits.

    Parameters
    ----------
    given
        Scenario under the first reading.
    suffix
        Second part of the names of readings in metrics.
    limits
        Readings.
    seed
        Seed of the simulation.
    """
    outcome = compose(given, seed)
    found = {metric_of(name, f"{limits[0]}{suffix}"): value for name, value in outcome.metrics().items()}
    for other in limits[1:]:
        requests = _under(given, other).world(seed)[1].requests
        same = {name: value for name, value in outcome.metrics().items() if name not in ("on_time", "relative_delay")}
        same["success"] = outcome.success_within([each.limit for each in requests])
        found |= {metric_of(name, f"{other}{suffix}"): value for name, value in same.items()}
    return found


def best_possible(given: Scenario, seed: int) -> dict[str, float]:
    """Return the share of requests that some placement on otherwise idle peers would serve, as projected."""
    fastest = _under(given, "projected").world(seed)[1].requests
    requests = given.world(seed)[1].requests
    possible = [best.isolated <= each.limit for best, each in zip(fastest, requests, strict=True)]
    return {"success": sum(possible) / max(len(possible), 1)}


def _under(given: Scenario, reading: str) -> Scenario:
    """Return the same scenario under another reading of the limits."""
    return replace(given, workload=replace(given.workload, isolated=cast("Any", reading)))


def readings(setup: Setup) -> tuple[str, ...]:
    """Return the readings of the limits of a set-up."""
    return cast("tuple[str, ...]", setup["readings"])


def light(setup: Setup) -> dict[str, tuple[float, ...]]:
    """Return the processing times with which no algorithm overloads a peer: those of the set-up times ``light``."""
    factor = cast("float", setup["light"])
    return {"costs": tuple(factor * cost for cost in cast("tuple[float, ...]", setup["costs"]))}


def cells(
    setup: Setup, varied: str, places: Sequence[Coordinate], *, oracle: bool = False, **changes: Any
) -> Iterator[Cell]:
    """Yield a cell for every policy at every value of the varied parameter, under every reading of the limits.

    Where the set-up has a factor ``light``, each is also measured with lower processing times. With ``oracle``, there
    is also what no placement can exceed.
    """
    loads: dict[str, dict[str, Any]] = {"": {}} | ({LIGHT: light(setup)} if "light" in setup else {})
    checking = [policy for policy in algorithms(setup) if POLICIES[policy].enforce]
    free = [policy for policy in algorithms(setup) if policy not in checking]
    limits = readings(setup)
    for name, load in loads.items():
        for place in places:
            for reading in limits:
                chosen = {**changes, **load, varied: place, "isolated": reading}
                for policy in checking:
                    given = scenario(setup, **chosen, policy=policy)
                    yield Cell(simulated, (given,), place, policy, reading=f"{reading}{name}")
                if oracle:
                    given = scenario(setup, **chosen)
                    yield Cell(best_possible, (given,), place, ORACLE, reading=f"{reading}{name}")
            for policy in free:
                given = scenario(setup, **{**changes, **load, varied: place, "isolated": limits[0]}, policy=policy)
                yield Cell(unchecked, (given, name, limits), place, policy)


def panels(metric: str, label: str, *, lighter: bool = False, **options: Any) -> tuple[Panel, ...]:
    """Return a panel for each reading of the limits; with ``lighter``, also for the lower processing times."""
    names = [f"{reading}{name}" for reading in READINGS for name in ("", *([LIGHT] if lighter else []))]
    return tuple(Panel(metric_of(metric, name), f"{label}\nlimits: {name}", **options) for name in names)


def not_overloaded(measured: Measured, setup: Setup) -> Check:
    """Check that no policy overloads a peer with our lower processing times, in any repetition."""
    greatest: dict[str, float] = {}
    for policy in algorithms(setup):
        for metric in (metric_of("most_load", f"{reading}{LIGHT}") for reading in readings(setup)):
            for x in measured.xs(metric, policy):
                where = f"{policy} at {x}"
                most = max(measured.values(x, policy, metric).values())
                greatest[where] = max(greatest.get(where, 0.0), most)
    name = "no policy overloads a peer in any network, with the lower processing times"
    points = ((each, Decision.fact(most < 1.0)) for each, most in greatest.items())
    return own(at_all(name, "a reasonable load for all algorithms", points))


def algorithms(setup: Setup) -> tuple[str, ...]:
    """Return the compared policies."""
    return cast("tuple[str, ...]", setup["algorithms"])


def others(setup: Setup) -> list[str]:
    """Return the policies with which Synergy is compared, without variants of Synergy."""
    return [policy for policy in algorithms(setup) if policy in COMPARED[1:]]
