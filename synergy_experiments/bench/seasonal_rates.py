"""``seasons``: whether the season of earlier days tells the rates of later ones, and the limits that these break.

A trace of later days is replayed at a day in 24 s and in some minutes, with the profile of the days before, with one
whose day is shifted by half a day (*wrong*), and with none.

- *Errors*: the mean rate of the seconds ahead is predicted by the last value, and by the season: believed as it is, and
  weighed by its past errors as peers do. The error is that of the seconds in which the season rises, as nobody acts on
  a fall, over that of the last value.
- *Foretold*: simulated peers that only observe replay five of the days in one run, beside an even load on the peer.
  *Precision* is the share of their hot spots after which a tuple was late within the time for which they predict;
  *recall* the share of the times with late tuples before which there was a hot spot, by no more than that.
- *Late*: peers that migrate replay each of these days in a run of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from synergy_experiments.bench.measurements import measurement
from synergy_experiments.bench.profiled_admissions import DAY, nasa_days
from synergy_nb import Simulation
from synergy_nb.events import HotSpotDetected
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.models.season_weight import SeasonWeight
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.stream_seasons import Season
from synergy_nb.simulator.simulated_application import SimulatedApplication
from synergy_nb.traces.profiles.facts import facts_of
from synergy_nb.traces.profiles.profiling import profile_of
from synergy_nb.traces.profiles.surveys import surveyed
from synergy_nb.traces.profiles.trace_profile import TraceProfile

__all__ = ["seasons"]

Array = npt.NDArray[np.float64]
PACES: Final = (3600.0, 1200.0, 600.0, 144.0)  # seconds of event time per second: a day in 24 s to 10 min
AHEAD: Final = (1, 2, 5, 10)  # seconds
ARMS: Final = ("none", "right", "wrong")
COST_MS: Final = 10.0  # of a tuple
EVEN: Final = 25.0  # tuples/s of the load beside it
RATE: Final = 70.0  # tuples/s of a mean day of the profile, in the replay
LIMIT: Final = 0.5  # seconds
WEEK: Final = slice(2, 7)  # days that peers replay: those of a week's work
LOOK: Final = 0.25  # seconds between two looks at how many tuples were late
HORIZON: Final = HotSpotConfig().horizon


def seasons(*, small: bool = False) -> dict[str, Any]:
    """Errors of rates that the season of earlier days foretells, and hot spots and late tuples by it.

    The value is the error at the fastest replay, five seconds ahead.
    """
    found = _generated() if small else nasa_days()
    if found is None:
        return measurement("seasons", 0.0, "of the last value's error", {"note": "no real trace was found here"})
    profile, days = found
    profiles = {"right": profile, "wrong": _shifted(profile)}
    errors = {
        f"a day in {DAY / pace:g} s": {
            f"{ahead} s ahead": {name: _errors(_hours(each), days, pace, ahead) for name, each in profiles.items()}
            for ahead in AHEAD
        }
        for pace in (PACES[:1] if small else PACES)
    }
    arms = ARMS[:2] if small else ARMS
    with tempfile.TemporaryDirectory() as folder:
        place, replayed = Path(folder), days[WEEK]
        for name, each in profiles.items():
            each.save(place / f"{name}.json")
        seconds = _written(place, profile, replayed, 0.5 if small else 1.0)
        foretold = {arm: _foretold(place, arm, seconds, len(replayed)) for arm in arms}
        late = {arm: [_late(place, arm, seconds, number) for number in range(len(replayed))] for arm in arms}
    detail = {
        "errors": errors,
        "foretold": foretold,
        "late": {arm: {"tuples": sum(each), "by_day": each} for arm, each in late.items()},
        "days": len(days),
        "replayed": len(replayed),
        "strength": profile.season.daily if profile.season else None,
    }
    fastest = errors[f"a day in {DAY / PACES[0]:g} s"]["5 s ahead"]
    return measurement("seasons", fastest["right"]["weighed"], "of the last value's error", detail)


def _hours(profile: TraceProfile) -> tuple[float, ...]:
    facts = facts_of(profile)
    assert facts is not None
    return facts.hours


def _shifted(profile: TraceProfile) -> TraceProfile:
    """A profile whose day is half a day later."""
    season = profile.season
    assert season is not None
    hours = [*season.hours[12:], *season.hours[:12]]
    return msgspec.structs.replace(profile, season=msgspec.structs.replace(season, hours=hours))


# -- errors of rates ---------------------------------------------------------------------------------------------------


def _errors(hours: tuple[float, ...], days: Sequence[pl.DataFrame], pace: float, ahead: int) -> dict[str, float]:
    """Errors of the mean rates of the seconds ahead as a multiple of those of the last value, where a season rises."""
    season, weight = Season(hours, pace), SeasonWeight(ahead)
    micros = pl.concat([each["time"] for each in days]).to_physical().to_numpy()
    first = int(micros[0])
    rates: Array = np.bincount(((micros - first) / 1e6 / pace).astype(np.int64)).astype(np.float64)
    sums = np.concatenate([[0.0], np.cumsum(rates)])
    last = believed = weighed = 0.0
    for second in range(len(rates) - ahead):
        rise, rate = season.rise(first + int((second + 1) * pace * 1e6), ahead), float(rates[second])
        weight.add(rate, rise)
        came = float(sums[second + 1 + ahead] - sums[second + 1]) / ahead
        if rise > 1.0:
            last += abs(rate - came)
            believed += abs(rate * rise - came)
            weighed += abs(rate * (1.0 + weight.value * (rise - 1.0)) - came)
    return {"believed": round(believed / last, 4), "weighed": round(weighed / last, 4)}


# -- simulated peers ---------------------------------------------------------------------------------------------------


def _written(folder: Path, profile: TraceProfile, days: Sequence[pl.DataFrame], share: float) -> float:
    """Write every so many-th row of each day, of all days, and an even load; return the length of a day, seconds.

    ``share``: share of each day that is written, from its beginning.
    """
    pace, every = PACES[0], max(round(profile.rate * PACES[0] / RATE), 1)
    seconds = DAY / pace * share
    kept = [
        each.filter(pl.col("time") < each["time"][0] + timedelta(days=share)).gather_every(every).select("time")
        for each in days
    ]
    for name, table in [*((str(number), each) for number, each in enumerate(kept)), ("all", pl.concat(kept))]:
        table.with_row_index("v").with_columns(pl.col("v").cast(pl.Int64)).write_parquet(folder / f"{name}.parquet")
    for name, count in (("even", 1), ("even all", len(days))):
        times = (np.arange(round(seconds * count * EVEN)) / EVEN * pace * 1e6).astype(np.int64)
        even = pl.DataFrame({"time": pl.Series(times).cast(pl.Datetime("us")), "v": np.arange(len(times))})
        even.write_parquet(folder / f"{name}.parquet")
    return seconds


def _begun(folder: Path, arm: str, rows: str, even: str, mode: str) -> tuple[Simulation, list[SimulatedApplication]]:
    """Submit a replay and the even load, whose operators of known cost share a peer."""
    simulation = Simulation(4, network="local", cores=1.0, seed=3, hotspots=HotSpotConfig(mode=mode, rest=0.0))

    def query(name: str, rate: float, at: str | None, **more: str) -> Plan:
        trace = source("trace", path=str(folder / f"{name}.parquet"), format="parquet", columns={"v": "int"},
                       speed=PACES[0], rate=rate, id="rows", at="peer-1", **more)  # fmt: skip
        return trace.delay(f"{COST_MS:g} ms", id="slow", at=at).sink("out", delay=LIMIT, id="out")

    beside = simulation.submit(query(even, EVEN, None), origin="peer-1")
    if beside.graph["slow"] == "peer-1":
        simulation.move(beside, "slow", "peer-2")
    # the mean rate of the night, so that it is admitted
    known = {} if arm == "none" else {"profile": str(folder / f"{arm}.json")}
    replay = simulation.submit(query(rows, RATE / 2.0, beside.graph["slow"], **known), origin="peer-1")
    return simulation, [beside, replay]


def _missed(applications: Sequence[SimulatedApplication]) -> int:
    """Tuples of all applications that were late."""
    qos = [each.qos() for each in applications]
    return sum(round(float(each["miss_rate"] or 0.0) * int(each["tuples"])) for each in qos)


def _foretold(folder: Path, arm: str, seconds: float, days: int) -> dict[str, Any]:
    """What peers that move nothing predict of all days, beside what comes."""
    simulation, applications = _begun(folder, arm, "all", "even all", "observe")
    looks: list[tuple[float, int]] = [(simulation.now, 0)]
    while looks[-1][0] < looks[0][0] + seconds * days + 2.0:
        simulation.run(LOOK)
        looks.append((simulation.now, _missed(applications)))
    late = [now for (_, before), (now, after) in pairwise(looks) if after > before]
    begins = [now for number, now in enumerate(late) if not number or now - late[number - 1] > HORIZON]
    alarms = sorted({event.time for event in simulation.events() if isinstance(event, HotSpotDetected)})
    simulation.close()
    right = sum(any(alarm <= now <= alarm + HORIZON + LIMIT + LOOK for now in late) for alarm in alarms)
    told = [[begin - alarm for alarm in alarms if 0.0 <= begin - alarm <= HORIZON + LIMIT + LOOK] for begin in begins]
    return {
        "hot_spots": len(alarms),
        "precision": round(right / len(alarms), 3) if alarms else None,
        "times_with_late_tuples": len(begins),
        "recall": round(sum(bool(each) for each in told) / len(begins), 3) if begins else None,
        "seconds_before": round(float(np.mean([max(each) for each in told if each])), 2) if any(told) else None,
        "late": looks[-1][1],
    }


def _late(folder: Path, arm: str, seconds: float, day: int) -> int:
    """Late tuples of one day where peers migrate."""
    simulation, applications = _begun(folder, arm, str(day), "even", "on")
    simulation.run(seconds + 5.0)
    found = _missed(applications)
    simulation.close()
    return found


def _generated() -> tuple[TraceProfile, list[pl.DataFrame]]:
    """The profile of six days with a rise from night to day, and three later days."""
    hours = [25] * 6 + [35, 50, 65, 80] + [90] * 8 + [80, 65, 50, 35, 25, 25]
    moments = np.concatenate([np.arange(rate) * 3600.0 / rate + 3600.0 * hour for hour, rate in enumerate(hours)])

    def table(day: int) -> pl.DataFrame:
        return pl.DataFrame({"time": pl.Series(((moments + DAY * day) * 1e6).astype(np.int64)).cast(pl.Datetime("us"))})

    known = pl.concat([table(day) for day in range(6)])
    later = [table(day) for day in range(6, 9)]
    return profile_of("earlier days", surveyed([known], {"time": "time"}, 60_000_000), None), later
