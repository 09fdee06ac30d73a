"""A hot spot at a live peer that is half as fast as the others is cured: they count with their own speed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from distributed import LocalCluster

from synergy_nb import Application, Cluster, NotAdmitted
from synergy_nb.models.overheads import Overhead
from synergy_nb.plan import Plan
from synergy_nb.runtime.data.instances import Waiting
from synergy_nb.runtime.process._peer_reports import REFERENCE_S, MeasuredOverheads
from synergy_nb.runtime.process._plugin import runtime_of
from synergy_nb.runtime.process.processor_share import ProcessorShare
from tests.migration import rising_rates
from tests.migration.rising_rates import check_rows, replayed, until_moved, written
from tests.waiting import asked_until

pytestmark = pytest.mark.slow

SLOWER = 2.0
LITTLE = Overhead(1e-4, 0.0)
COST = "5 ms"
RATES = [(4.0, 80.0), (116.0, 130.0)]  # .8 and 1.3 at the slow peer, .4 and .65 at others


def slow_down(monkeypatch: pytest.MonkeyPatch, slow: str, measured: Mapping[str, MeasuredOverheads]) -> None:
    """Have a component of known cost take longer at one peer, and its calibration measure just that; nothing spins.

    Other work on this machine, which is other load at all three peers, is not seen.
    """
    wait, called = Waiting.__call__, MeasuredOverheads.called

    def longer(self: Waiting, seconds: float) -> None:
        wait(self, seconds * (SLOWER if getattr(self._component, "peer", "") == slow else 1.0))

    def call(self: MeasuredOverheads, _: float) -> None:
        called(self, REFERENCE_S * (SLOWER if self is measured[slow] else 1.0))

    for name in ("measured", "calls"):  # how long stages of the way take on a busy machine is no matter here
        known = getattr(MeasuredOverheads, name)
        monkeypatch.setattr(MeasuredOverheads, name, lambda self, known=known: dict.fromkeys(known(self), LITTLE))
    monkeypatch.setattr(Waiting, "__call__", longer)
    monkeypatch.setattr(MeasuredOverheads, "called", call)
    monkeypatch.setattr(ProcessorShare, "at", lambda *_: 1.0)
    for each in measured.values():
        each.discount()


def admitted(cluster: Cluster, plan: Plan, origin: str) -> Application:
    """Submit a plan; the overheads from before :func:`slow_down` count until the next calibration."""
    found: list[Application] = []

    def submitted() -> bool:
        with contextlib.suppress(NotAdmitted):
            found.append(cluster.submit(plan, origin=origin))
        return bool(found)

    asked_until(submitted)
    return found[0]


def test_a_hot_spot_at_a_slowed_peer_is_cured_by_one_that_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seen: another peer refused it, as it took the time at the slow one for its own."""
    options = {"processes": False, "n_workers": 3, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(silence_logs=50, **options) as existing, Cluster(existing, cores=1.0, spark=False) as cluster:  # type: ignore[no-untyped-call]
        home, slow, other = cluster.peers
        hosts: dict[str, Any] = {each.address: runtime_of(each).host for each in existing.workers.values()}
        measured = {address: host.overheads for address, host in hosts.items()}
        slow_down(monkeypatch, cluster.peers[slow], measured)
        monkeypatch.setattr(rising_rates, "ORIGIN", home)
        trace = tmp_path / "rising.parquet"
        wanted = written(trace, RATES)
        plan = replayed(trace, RATES).delay(COST, id="work").sink("out", delay="1500 ms", id="out")
        application = admitted(cluster, plan, home)
        if application.graph["work"] != slow:
            cluster.move(application, "work", slow)
        until_moved(cluster, application)
        assert application.graph["work"] in (home, other)
        check_rows(application, wanted)
