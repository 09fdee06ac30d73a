"""What a batch costs on its way from source to sink, in calls of our functions: counted, so that it does not creep up.

A limit is what was counted last, and a tenth more: timers that fire while a machine is slow cost a few calls. Who makes
a batch cheaper lowers it.
"""

from __future__ import annotations

import asyncio

import pytest

from synergy_experiments.bench.batches import ONE_S, ROWS, STEP_S, counted
from synergy_nb.runtime.data import stream_driver

COUNT = 20  # batches

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def always_light(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine executes few tuples on the loop's thread, too, so that the count is the same everywhere."""
    monkeypatch.setattr(stream_driver, "LIGHT_SECONDS", 10.0)


def calls(rows: int, *, promise: bool, seconds: float) -> float:
    ours, _, _ = asyncio.run(counted(rows, promise=promise, count=COUNT, seconds=seconds))
    return ours


@pytest.mark.parametrize(("promise", "most"), [(False, 340), (True, 400)])
def test_a_batch_costs_no_more_calls_than_before(promise: bool, most: float) -> None:
    assert calls(ROWS, promise=promise, seconds=STEP_S) <= most


def test_a_leg_passes_no_more_functions_than_before() -> None:
    _, _, leg = asyncio.run(counted(ROWS, promise=False, count=1, seconds=STEP_S))
    assert "arrivals.Arrivals.add" in leg, "the link passes a frame to whom it concerns"
    assert not [name for name in leg if name.startswith(("_service.", "host.", "_peer_driver."))], "nobody hands it on"
    assert len(leg) <= 101


def test_a_promise_alone_costs_less_than_a_tuple_and_a_tuple_little_more_than_a_batch() -> None:
    promise, one = (calls(rows, promise=True, seconds=ONE_S) for rows in (0, 1))
    assert promise <= 380
    assert one <= 520
    assert promise < 0.85 * one
