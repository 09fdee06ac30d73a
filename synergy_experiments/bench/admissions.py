"""``admission``: whether admitted plans meet their delay limits, and whether refused plans would have missed theirs.

Random plans, with random limits from 1 ms to 1 s, are submitted to peers one after the other. A plan that is admitted
runs, and its sink measures the share of late tuples. A plan that is refused is submitted once more, without a limit;
the measurements of its sink show whether it would have met the limit. A limit is met if at most the promised share of
the tuples (5 %) is late.

A plan is refused where it is projected to exceed its limit by more than the guard band of composition
(:class:`~synergy_nb.algorithms.composition.CompositionConfig`); one that is projected to exceed it by less is admitted.
Whether a plan meets its limit is judged by the limit itself. The expected shares over all limits
(``over_all_limits``) and the oracle use the same rule.

Every fourth plan is run again immediately. An oracle projects the delay that the first run had, and no projection can
be better; so its errors (``oracle``) are those that the variation of the machine causes.

The results contain the simulator's answer, too: simulated peers with the measured overheads decide on the same plans,
and simulated servers execute the tuples. So that answer depends on the model only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from synergy_experiments.bench.admissions_simulated import simulated
from synergy_experiments.bench.answers import LONGEST, SHORTEST, Answer, over_all_limits, summarised
from synergy_experiments.bench.measurements import machine_load, measurement
from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly.peer_options import LATE
from synergy_nb.events import GraphSelected
from synergy_nb.models.overheads import Overhead
from synergy_nb.plan import Plan, source
from synergy_nb.plan.builder import Stream
from synergy_nb.runtime.client.cluster import Application, Cluster
from synergy_nb.runtime.process.requests import NotAdmitted

__all__ = ["DURATION", "admission", "random_plan"]

PEERS: Final = 8
PLANS: Final = 200
WINDOW: Final = 0.2  # length of the windows of aggregates, seconds
TWICE: Final = 4  # every so many-th plan runs twice, which shows the variation that no projection can predict
GUARD_BAND: Final = CompositionConfig().guard_band  # that of the clusters here, live and simulated
WARMING: Final = 6  # number of plans for warming up, not counted: code is loaded, and latencies are measured
DURATION: Final = f"about 16 minutes: {PLANS + WARMING} plans run one after the other, in real time"


class Length(NamedTuple):
    """Least duration of a plan's stream: long enough to see whether more than 5 % of its tuples are late.

    Parameters
    ----------
    seconds
        Duration of the stream, seconds.
    tuples
        Number of tuples of the source.
    windows
        Number of windows that close, if the plan has any: the tuples of one are late together.
    """

    seconds: float = 1.5
    tuples: int = 100
    windows: int = 30


LENGTH: Final = Length()


def random_plan(rng: random.Random, names: Sequence[str], limit: float | None, length: Length = LENGTH) -> Plan:
    """A plan of up to five operators on generated packets, of which four in ten are bound to a peer.

    Parameters
    ----------
    rng
        Random generator for rates (20 to 2,000 tuples/s), kinds, costs and peers.
    names
        Names of the peers.
    limit
        Delay limit in seconds, or None.
    length
        Length of the stream.
    """
    kinds = ("filter", "project", "sample", "delay", "aggregate", "union")
    rate = _even(rng, 20.0, 2000.0)
    chosen = [rng.choice(kinds) for _ in range(rng.randint(1, 5))]
    windows = length.windows * WINDOW if "aggregate" in chosen[1:] else 0.0
    seconds = max(length.seconds, length.tuples / rate, windows)

    def packets(rate: float) -> Stream:
        seed = rng.randrange(1_000_000)
        return source("packets", rate=rate, duration=f"{seconds:g} s", speed=1, seed=seed)

    def at() -> str | None:
        return rng.choice(names) if rng.random() < 0.4 else None

    stream = packets(rate)
    for number, kind in enumerate(chosen):
        match kind:
            case "filter":
                stream = stream.filter("bytes > 50", at=at())
            case "project":
                stream = stream.project("source", bytes="bytes", at=at())
            case "sample":
                stream = stream.sample(0.9, at=at())
            case "delay":
                cost = _even(rng, 2e-5, max(min(0.2 / rate, 0.05), 3e-5))
                stream = stream.delay(f"{cost * 1e6:.6g} us", at=at())
            case "union" if number == 0:
                stream = stream.union(packets(rate / 2.0), at=at())
            case "aggregate" if number > 0:
                stream = stream.aggregate(by=["source"], window=f"{1000 * WINDOW:.0f} ms", total="sum(bytes)", at=at())
                break
    return stream.sink("out", delay=None if limit is None else f"{limit * 1e6:.0f} us")


def _even(rng: random.Random, low: float, high: float) -> float:
    """A random number between two, uniform on a logarithmic scale."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def _answer(cluster: Cluster, plan: Plan, limit: float, *, twice: bool) -> Answer:
    """Submit a plan, again without its limit if it is refused, and collect the measurements of its sink."""
    reason = ""
    free = Plan(plan.operators.values(), msgspec.structs.replace(plan.qos, delay=None), plan.name)
    try:
        application = cluster.submit(plan)
    except NotAdmitted as refusal:
        reason = str(refusal)
        try:
            application = cluster.submit(free)
        except NotAdmitted:
            return Answer(limit, reason, None, None)
    measured = _run(application)
    chosen = [event for event in application.events() if isinstance(event, GraphSelected)][-1]
    application.stop()
    once = Answer(limit, reason, chosen.quantile_s, measured)
    if not twice:
        return once
    try:
        application = cluster.submit(free)
    except NotAdmitted:  # the machine has become busy in the meantime: the first run counts
        return once
    again = _run(application)
    application.stop()
    return once._replace(again=again)


def _run(application: Application) -> float | None:
    """Wait for the end of an application; return the 95th percentile of its delays, seconds."""
    application.results()
    found: float | None = application.qos()["delay_p95_s"]
    return found


def _oracle(answers: Sequence[Answer]) -> dict[str, float]:
    """Accuracy of admission if it had projected the delays of another run of the same plan."""
    pairs = [(each.again, each.measured) for each in answers if each.again and each.measured]
    return over_all_limits([*pairs, *((measured, again) for again, measured in pairs)], GUARD_BAND)


def _mean_stages(measured: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, Overhead]:
    """Mean overhead of each stage over the peers that have measured it."""
    found: dict[str, Overhead] = {}
    for stage in sorted({stage for each in measured for stage in each}):
        known = [each[stage] for each in measured if stage in each]
        found[stage] = Overhead(sum(mean for mean, _ in known) / len(known), sum(v for _, v in known) / len(known))
    return found


def admission(
    *, small: bool = False, seed: int = 1, progress: Callable[[float], None] = lambda _share: None
) -> dict[str, Any]:
    """Share of the admitted plans that met their limit, and of the refused ones that would have met it, live.

    Parameters
    ----------
    small
        Whether only four short plans run, as a check.
    seed
        Seed of plans and limits.
    progress
        Callback with the share of the plans that have run, from 0 to 1.
    """
    count, length = (4, Length(0.3, 0, 0)) if small else (PLANS, LENGTH)
    before = machine_load()
    rng = random.Random(seed)
    answers: list[Answer] = []
    plans: list[Plan] = []
    peers = 2 if small else PEERS
    with Cluster(peers) as cluster:
        states = [state for state in cluster.states().values() if state is not None]
        names, cores = sorted(state.name for state in states), states[0].cores
        for number in range(count + WARMING):
            limit = _even(rng, SHORTEST, LONGEST)
            plan = random_plan(rng, names, limit, length)
            answer = _answer(cluster, plan, limit, twice=number % TWICE == 0)
            if number >= WARMING:
                answers.append(answer)
                plans.append(plan)
            progress((number + 1) / (count + WARMING))
        measured = [state.overheads for state in cluster.states().values() if state is not None]
    found = summarised(answers, GUARD_BAND)
    stages = _mean_stages(measured)
    detail = {
        "plans": count,
        "seed": seed,
        "limits_s": [SHORTEST, LONGEST],
        "late": LATE,
        "guard_band": GUARD_BAND,
        **found,
        "oracle": _oracle(answers),
        "simulated": summarised(simulated(plans, stages, names, cores), GUARD_BAND),
        "overheads_s": {stage: round(each.mean, 6) for stage, each in stages.items()},
        "targets": {"admitted_kept": 0.95, "refused_would_have_kept": 0.05},
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("admission", found["admitted_kept"], "of those admitted", detail)
