"""Published profiles of operators: rate, cost and selectivity by the name of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from distributed import LocalCluster

from synergy_nb import connect_cluster, source
from synergy_nb.models.signatures import Segment
from synergy_nb.overlay.published_streams import RETAINED_PROFILES
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.runtime.process import _peer_metrics as peer_metrics
from synergy_nb.runtime.process import _service as service
from synergy_nb.runtime.process._plugin import runtime_of
from synergy_nb.runtime.process._profiles import STABLE_AFTER, Profiles
from tests.two_hosts import Pair, play, reading, trace
from tests.waiting import DEADLINE

on_loop = play  # how the tests that are coroutines run

Measured = dict[str, Any]


def stats(stream: str = "s", rate: float = 100.0, kind: str = "filter", **other: Any) -> Measured:
    return {"stream": stream, "kind": kind, "output_rate": rate, "cost": 1e-5, "selectivity": 0.5, **other}


class Published:
    """What has been published, and what is published still."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Measured]] = []
        self.now: dict[str, Measured] = {}
        self.profiles = Profiles(self._publish, self._forget)

    def _publish(self, name: str, measured: Mapping[str, float | str]) -> None:
        self.all.append((name, dict(measured)))
        self.now[name] = dict(measured)

    def _forget(self, name: str) -> None:
        del self.now[name]

    def update(self, *components: Measured, times: int = STABLE_AFTER) -> None:
        for _ in range(times):
            self.profiles.update(components)


def test_a_stable_profile_is_published_once_and_again_after_a_change_by_a_quarter() -> None:
    published = Published()
    published.update(stats(), times=STABLE_AFTER - 1)
    assert published.all == []
    published.update(stats(), stats())
    assert published.all == [("s", {"rate": 100.0, "cost": 1e-5, "selectivity": 0.5})]
    published.update(stats(rate=124.0, cost=0.8e-5, selectivity=0.6))
    assert len(published.all) == 1
    changes: list[Measured] = [{"rate": 126.0}, {"rate": 126.0, "cost": 0.7e-5}, {"cost": 0.7e-5, "selectivity": 0.7}]
    for changed in changes:
        before = len(published.all)
        published.update(stats(**changed))
        assert len(published.all) == before + 1
        assert published.now["s"].items() >= changed.items()


def test_a_rate_of_few_tuples_is_published_again_only_if_it_has_not_changed_by_chance() -> None:
    """An average over 5 s of 4 tuples/s, as few as 20 tuples, has a standard deviation of .63."""
    published = Published()
    published.update(stats(rate=4.0))
    published.update(stats(rate=5.5), stats(rate=2.5), times=1)
    published.update(stats(rate=2.5), times=1)
    assert len(published.all) == 1
    published.update(stats(rate=6.0), times=1)
    assert published.now["s"]["rate"] == 6.0


def test_a_component_that_was_removed_needs_new_measurements() -> None:
    published = Published()
    published.update(stats())
    published.update(times=1)
    published.update(stats(rate=900.0), times=STABLE_AFTER - 1)
    assert len(published.all) == 1
    published.update(stats(rate=900.0), times=1)
    assert len(published.all) == 2


def test_a_profile_contains_only_the_cost_of_its_own_operator() -> None:
    published = Published()
    published.update(stats("a", kind="sink"), stats("c", kind="source", cost=None), stats("d", kind=PART))
    assert published.now == {"c": {"rate": 100.0}, "d": {"rate": 100.0}}
    published.update(stats("e", cost=None), stats("f", cost=0.0), stats("g", selectivity=None), stats("h", rate=0.0))
    assert published.now.keys() == {"c", "d", "e", "f", "g"}
    assert published.now["e"] == published.now["f"] == {"rate": 100.0, "selectivity": 0.5}
    assert published.now["g"] == {"rate": 100.0, "cost": 1e-5}
    published.update(stats("e"))
    assert published.now["e"] == {"rate": 100.0, "cost": 1e-5, "selectivity": 0.5}


def test_of_several_components_of_one_name_the_busiest_counts() -> None:
    published = Published()
    published.update(stats(rate=10.0, cost=3e-5), stats(rate=40.0, cost=2e-5), stats(rate=20.0, kind="sink"))
    assert published.all == [("s", {"rate": 40.0, "cost": 2e-5, "selectivity": 0.5})]


def test_a_peer_keeps_publishing_its_latest_profiles() -> None:
    published = Published()
    for number in range(RETAINED_PROFILES + 3):
        published.update(stats(f"s{number}"))
    assert list(published.now) == [f"s{number}" for number in range(3, RETAINED_PROFILES + 3)]


def test_a_stream_of_varying_rate_is_published_with_its_signature() -> None:
    def bursts(high: float) -> dict[tuple[str, str], tuple[Segment, ...]]:
        return {("a", "o"): (Segment(3.0, 2.0, 0.0, high), Segment(5.0, 8.0, 0.0, 25.0))}

    published = Published()
    component = stats(application="a", operator="o")
    for _ in range(STABLE_AFTER):
        published.profiles.update([component], bursts(400.0))
    assert published.now["s"]["signature"] == "2:400 8:25"
    published.profiles.update([component], bursts(500.0))  # the highest rate is 4.17 times the mean one rather than 4
    assert len(published.all) == 1
    published.profiles.update([component], bursts(100.0))
    assert published.now["s"]["signature"] == "2:100 8:25"
    published.profiles.update([component], bursts(30.0))  # of no account
    assert published.now["s"].keys() == {"rate", "cost", "selectivity"}
    published.profiles.update([component], {})
    assert len(published.all) == 3


def test_only_the_window_of_a_signature_is_published() -> None:
    """The first segment may have begun long before, or when the clock did: only its end belongs to the window."""
    published = Published()
    component = stats(application="a", operator="o")
    segments = (Segment(0.0, 1e9, 0.0, 1e-6), Segment(1e9, 1.0, 0.0, 10.0), Segment(1e9 + 1.0, 7.0, 0.0, 80.0))
    for _ in range(STABLE_AFTER):
        published.profiles.update([component], {("a", "o"): segments})
    assert published.now["s"]["signature"] == "2:1e-06 1:10 7:80"


def test_few_tuples_at_a_high_rate_are_no_burst() -> None:
    published = Published()
    component = stats(application="a", operator="o")
    segments = (Segment(0.0, 6.0, 0.0, 100.0), Segment(6.0, 0.05, 0.0, 400.0), Segment(6.05, 4.0, 0.0, 100.0))
    for _ in range(STABLE_AFTER):
        published.profiles.update([component], {("a", "o"): segments})
    assert "signature" not in published.now["s"]


@pytest.mark.slow
async def test_published_profiles_are_those_that_the_host_measured() -> None:
    pair = Pair(read=reading(300, 1000))
    plan = trace().filter("bytes % 4 = 0").sink()
    pair.deploy("app", plan, dict.fromkeys(plan.operators, "a"))
    await pair.results("a", "app")
    published = Published()
    published.update(*pair.net["a"].stats())
    assert published.now.keys() == {plan.stream_name("source"), plan.stream_name("filter")}
    assert published.now[plan.stream_name("source")].keys() == {"rate"}
    measured = published.now[plan.stream_name("filter")]
    assert measured["selectivity"] == 0.25
    assert 0.0 < measured["cost"] < 1e-3


@pytest.mark.slow
def test_a_running_peer_keeps_its_profiles_in_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_metrics, "EVERY", 0.02)
    plan = source("packets", rate="5000 tuples/s").filter("bytes > 0").sink("all")

    async def main() -> dict[str, Measured]:
        options = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
        async with LocalCluster(asynchronous=True, silence_logs=50, **options) as existing:  # type: ignore[no-untyped-call]
            cluster = await connect_cluster(existing.scheduler_address)
            try:
                running = await cluster.submit(plan)
                host = runtime_of(next(iter(existing.workers.values()))).host
                assert isinstance(host, service.Service)
                published, known = asyncio.Event(), host.synergy.streams.profile

                def profile(name: str, measured: Mapping[str, float | str]) -> None:
                    known(name, measured)
                    # on a busy machine some of the tuples that it has taken are not executed at first
                    executed = float(measured.get("selectivity", 0.0)) > 0.5
                    if name == plan.stream_name("filter") and "cost" in measured and executed:
                        published.set()

                monkeypatch.setattr(host.synergy.streams, "profile", profile)
                await asyncio.wait_for(published.wait(), DEADLINE)
                said = {entry.name: dict(entry.attributes) for entry in host.synergy.directory.registered}
                await running.stop()
            finally:
                await cluster.close()
        return said

    said = asyncio.run(main())
    assert said[plan.stream_name("filter")]["selectivity"] == pytest.approx(1.0, abs=0.5)  # what waits has come, too
    assert 0.0 < said[plan.stream_name("filter")]["cost"] < 1e-2
    assert said[plan.stream_name("source")]["rate"] > 0.0
