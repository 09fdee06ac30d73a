"""``hotspots``: tuples beyond their limit under a load that rises, and the delay that a migration adds."""

from __future__ import annotations

import gzip
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_experiments.bench.measurements import machine_load, measurement, quantile, spread
from synergy_nb.events import ComponentMoved, MigrationDecided, SourceStarted
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.plan import Plan, source
from synergy_nb.runtime.client.cluster import Application, Cluster
from synergy_nb.traces import datasets

__all__ = ["arrivals", "fits", "hotspots", "stretches"]

Array = npt.NDArray[np.float64]

DATASET: Final = "nasa-http-rate"
SPEED: Final = 60  # seconds of the trace in a second
COST: Final = 10.0e-3  # seconds of a tuple at the component that may move
LIMIT: Final = 0.5  # seconds
LOADS: Final = (0.8, 1.2)  # of the shared peer, in the first and the second half of a run
STEADY: Final = 0.4  # of it the load of the application whose rate does not rise
TRIED: Final = 16  # stretches of which those are taken in which either application alone fits a peer
BURST: Final = 2.0  # seconds; over no such time the rising application alone has more load than a peer can do
PEERS: Final = 5
ORIGIN, SHARED = "peer-1", "peer-2"
AROUND: Final = 1.0  # seconds before a migration, and after it, of which delays count
POLICIES: Final[Mapping[str, HotSpotConfig]] = {
    "prediction": HotSpotConfig(),
    "reaction": HotSpotConfig(predict=False),
    "no migration": HotSpotConfig(mode="off"),
}
KEYS: Final = 420_000  # of a state of 10 MB
FILLING: Final = 8.0  # seconds in which it grows
RATE: Final = 1000.0  # tuples/s after that
EVERY: Final = 3.0  # seconds between two moves of it
ADDED: Final = 0.05  # goal: seconds that a migration adds to the 99th percentile of delays


# -- the load ----------------------------------------------------------------------------------------------------------


def counts() -> tuple[Array, str]:
    """Tuples of each second of a trace, and its name; bursts are generated where the trace is missing."""
    path = datasets.find(DATASET).path
    if path is not None:
        with gzip.open(path, "rt", encoding="ascii") as lines:
            return np.fromiter((float(line) for line in lines), dtype=np.float64), DATASET
    rng = np.random.default_rng(1)
    busy = np.repeat(rng.pareto(1.5, 4000) + 1.0, rng.integers(30, 300, 4000))
    return rng.poisson(np.minimum(busy, 50.0)).astype(np.float64), "generated bursts"


def stretches(found: Array, seconds: int, ratio: float) -> Iterator[Array]:
    """Stretches of a trace whose second half has about ``ratio`` times as many tuples as their first, nearest first.

    Parameters
    ----------
    found
        Tuples of each second.
    seconds
        Length of a stretch, seconds; those with fewer than two tuples a second do not count, and none overlap.
    ratio
        Tuples of the second half for each of the first.

    Examples
    --------
    >>> trace = np.array([3.0, 3.0, 3.0, 3.0, 1.0, 1.0, 4.0, 4.0])
    >>> [each.tolist() for each in stretches(trace, 4, 1.0)]
    [[3.0, 3.0, 3.0, 3.0], [1.0, 1.0, 4.0, 4.0]]
    """
    total = np.concatenate([[0.0], np.cumsum(found)])
    half = seconds // 2
    begins = np.arange(len(found) - seconds + 1)
    first, second = total[begins + half] - total[begins], total[begins + 2 * half] - total[begins + half]
    off = np.where(first + second >= 2 * seconds, np.abs(second / np.maximum(first, 1.0) - ratio), np.inf)
    while np.isfinite(off).any():
        begin = int(np.argmin(off))
        yield found[begin : begin + seconds]
        off[max(begin - seconds + 1, 0) : begin + seconds] = np.inf


def fits(times: Array, cost: float) -> bool:
    """Whether tuples of so many seconds each never have more load than a peer can do, over :data:`BURST` seconds."""
    within = np.searchsorted(times, times + BURST) - np.arange(len(times))
    return bool((within * cost <= BURST).all())


def arrivals(found: Array, rates: tuple[float, float], speed: float = SPEED) -> Array:
    """Times of tuples in seconds; their rate varies like that of a trace that is replayed at a speed.

    Parameters
    ----------
    found
        Tuples of each second of the trace.
    rates
        Mean rates of the first and the second half, tuples/s.
    speed
        Seconds of the trace in a second.
    """
    half = len(found) // 2
    parts: list[Array] = []
    for number, (part, rate) in enumerate(zip((found[:half], found[half : 2 * half]), rates, strict=True)):
        share = np.concatenate([[0.0], np.cumsum(part)]) / max(part.sum(), 1.0)
        tuples = (np.arange(round(rate * half / speed)) + 0.5) / max(round(rate * half / speed), 1)
        parts.append(number * half / speed + np.interp(tuples, share, np.arange(half + 1) / speed))
    return np.concatenate(parts)


def _written(path: Path, times: Array, values: int = 2**62) -> None:
    """Write tuples with these event times, and a number of values in turn."""
    pl.DataFrame(
        {"time": pl.Series((times * 1e6).astype(np.int64)).cast(pl.Datetime("us")), "v": np.arange(len(times)) % values}
    ).write_parquet(path, compression="uncompressed")


def _query(path: Path, rate: float) -> Plan:
    rows = source(
        "trace", path=str(path), format="parquet", columns={"v": "int"}, speed=1, rate=rate, id="rows", at=ORIGIN
    )
    return rows.delay(COST, id="work").sink("out", delay=LIMIT, id="out")


# -- a run -------------------------------------------------------------------------------------------------------------


class _Collector:
    """The results of an application, as they arrive."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.came: list[tuple[float, pl.DataFrame]] = []
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        self.came.extend((time.time(), table) for table in self.application)

    def delays(self) -> list[tuple[float, float]]:
        """Time of arrival of each tuple at the client, and its delay since it was due, seconds."""
        self._thread.join()
        started = next(event.time for event in self.application.events() if isinstance(event, SourceStarted))
        return [
            (arrived, arrived - started - micros / 1e6)
            for arrived, table in self.came
            for micros in table.get_column("time").cast(pl.Int64).to_list()
        ]


class _Run(NamedTuple):
    """A run under one policy: tuples, those beyond the limit, migrations, and delays before and during these."""

    tuples: int
    missed: int
    migrations: int
    before: list[float]
    during: list[float]


def _run(paths: Sequence[Path], rates: Sequence[float], config: HotSpotConfig) -> _Run:
    """Run two applications whose components of known cost share a peer at first."""
    with Cluster(PEERS, cores=1.0, spark=False, hotspots=config) as cluster:
        collectors = []
        for path, rate in zip(paths, rates, strict=True):
            application = cluster.submit(_query(path, rate), origin=ORIGIN)
            if application.graph["work"] != SHARED:
                cluster.move(application, "work", SHARED)
            collectors.append(_Collector(application))
        found = [collector.delays() for collector in collectors]
        decided = {event.subject: event.time for event in cluster.events() if isinstance(event, MigrationDecided)}
        moved = [
            event
            for event in cluster.events()
            if isinstance(event, ComponentMoved) and event.time > decided.get(event.subject, float("inf"))
        ]
        qos = [collector.application.qos() for collector in collectors]
    spans = [(decided[event.subject], event.time) for event in moved]
    every = [pair for delays in found for pair in delays]
    return _Run(
        sum(int(each["tuples"]) for each in qos),
        round(sum(float(each["miss_rate"] or 0.0) * int(each["tuples"]) for each in qos)),
        len(moved),
        [delay for arrived, delay in every if any(begin - AROUND <= arrived < begin for begin, _ in spans)],
        [delay for arrived, delay in every if any(begin <= arrived <= end + AROUND for begin, end in spans)],
    )


def _p99(delays: Sequence[float]) -> float | None:
    return round(quantile(delays, 0.99), 4) if delays else None


def _ratio(share: float, of: float) -> float | None:
    return round(share / of, 2) if of else None


def _with_state(keys: int, filling: float, rate: float, moves: int, every: float) -> dict[str, Any]:
    """Move a component with a large state to and fro while nothing else happens; delays before and during that."""
    seconds = filling + every * (moves + 1)
    read: Array = np.arange(round(seconds * rate), dtype=np.float64) / rate
    kept: Array = np.arange(keys, dtype=np.float64) * (filling / keys)
    columns = {"v": "int"}
    with tempfile.TemporaryDirectory() as folder, Cluster(3, cores=1.0, spark=False) as cluster:
        sides = []
        for name, times, values in (("kept", kept, keys), ("read", read, 100)):
            path = Path(folder) / f"{name}.parquet"
            _written(path, times, values)
            sides.append(
                source(
                    "trace", path=str(path), format="parquet", columns=columns, speed=1, rate=rate, id=name, at=ORIGIN
                )
            )
        plan = sides[1].join(sides[0], on="v", within="1 h", id="joined", at=SHARED).sink("out", id="out")
        application = cluster.submit(plan, origin=ORIGIN)
        collector = _Collector(application)
        started = time.time()
        spans: list[tuple[float, float]] = []
        held = 0
        for number in range(moves):
            threading.Event().wait(max(started + filling + every * (number + 0.7) - time.time(), 0.0))
            states = [state for state in cluster.states().values() if state is not None]
            known = [each for state in states for each in state.components if each["operator"] == "joined"]
            held = max([held, *(int(each["memory_bytes"]) for each in known)])
            began = time.time()
            cluster.move(application, "joined", "peer-3" if application.graph["joined"] == SHARED else SHARED)
            spans.append((began, time.time()))
        found = collector.delays()
    before = [delay for arrived, delay in found if any(begin - AROUND <= arrived < begin for begin, _ in spans)]
    during = [delay for arrived, delay in found if any(begin <= arrived <= end + AROUND for begin, end in spans)]
    arrived = np.sort(np.array([each for each, _ in found]))
    gaps = np.diff(arrived)
    inside = np.array([any(begin <= each <= end + AROUND for begin, end in spans) for each in arrived[:-1]])
    outside = (arrived[:-1] > spans[0][0] - AROUND) & ~inside
    before_p99, during_p99 = _p99(before), _p99(during)
    return {
        "state_bytes": held,
        "rate": rate,
        "moves": len(spans),
        "seconds": spread([end - begin for begin, end in spans], digits=4),
        "delay_p99_s": {"before": before_p99, "during": during_p99},
        "added_p99_s": round(during_p99 - before_p99, 4) if before_p99 is not None and during_p99 is not None else None,
        "longest_gap_s": {
            "before": round(float(gaps[outside].max()), 4) if outside.any() else None,
            "during": round(float(gaps[inside].max()), 4) if inside.any() else None,
        },
        "rows": len(found),
        "lost": len(read) - len(found),
        "target": {"added_p99_s": ADDED},
    }


def hotspots(*, small: bool = False) -> dict[str, Any]:
    """Share of tuples beyond the limit with prediction, by reaction and without migration; delays in a migration."""
    seconds, repeats = (2.0, 1) if small else (40.0, 2)
    before = machine_load()
    found, trace = counts()
    length = round(seconds * SPEED)
    first, second = ((load - STEADY) / COST for load in LOADS)
    steady = arrivals(next(stretches(found, length, 1.0)), (STEADY / COST, STEADY / COST))
    every = [arrivals(each, (first, second)) for each in islice(stretches(found, length, second / first), TRIED)]
    rising = [times for times in every if fits(times, COST)] or every  # generated bursts may exceed a peer anywhere
    repeats = min(repeats, len(rising))
    runs: dict[str, list[_Run]] = {name: [] for name in POLICIES}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("steady.parquet", "rising.parquet")]
        _written(paths[0], steady)
        for times in rising[:repeats]:
            _written(paths[1], times)
            for name, config in POLICIES.items():
                runs[name].append(_run(paths, (STEADY / COST, first), config))
    policies = {}
    for name, those in runs.items():
        earlier, later = ([delay for run in those for delay in getattr(run, each)] for each in ("before", "during"))
        policies[name] = {
            "missed": spread([run.missed / run.tuples for run in those], digits=5),
            "tuples": [run.tuples for run in those],
            "migrations": [run.migrations for run in those],
            "delay_p99_s": {"before": _p99(earlier), "during": _p99(later)},
        }
    shares = {name: sum(run.missed for run in those) / sum(run.tuples for run in those) for name, those in runs.items()}
    ordered = sum(one.missed < two.missed < three.missed for one, two, three in zip(*runs.values(), strict=True))
    state = _with_state(*(20_000, 1.0, 500.0, 1, 1.5) if small else (KEYS, FILLING, RATE, 6, EVERY))
    detail = {
        "way": f"two applications of {COST * 1000:g} ms a tuple and a limit of {LIMIT * 1000:g} ms share a peer of "
        f"{PEERS}; rates as in {trace} at {SPEED} times its speed, scaled so that the load of the peer is {LOADS[0]:g} "
        f"in the first half of {seconds:g} s and {LOADS[1]:g} in the second, in {repeats} stretches of it whose "
        f"second half comes nearest to {second / first:g} times the requests of the first, where either application "
        "alone fits a peer; policies in turn on the same tuples; delays at the client, "
        "in the second before a decision, and from then until a second after the migration. With a state: a join with "
        "so many tuples on one side moves to and fro between idle peers",
        "trace": trace,
        "policies": policies,
        "missed_with_prediction": round(shares["prediction"], 5),
        "missed_by_reaction": round(shares["reaction"], 5),
        "missed_without_migration": round(shares["no migration"], 5),
        "reaction_to_prediction": _ratio(shares["reaction"], shares["prediction"]),
        "no_migration_to_reaction": _ratio(shares["no migration"], shares["reaction"]),
        "stretches": f"prediction misses less than reaction, that less than no migration: {ordered} of {repeats}",
        "with_state": state,
        "lost": state["lost"],
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("hotspots", shares["prediction"], "of all tuples", detail)
