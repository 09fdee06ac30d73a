"""What a batch costs on its way from source to sink, in calls of our functions: counted, so that it does not creep up.

A limit is what was counted last, and a tenth more: timers that fire while a machine is slow cost a few calls. Who makes
a batch cheaper lowers it.
"""

from __future__ import annotations

import asyncio

import pytest

from synergy_experiments.bench.batches import ONE_S, ROWS, STEP_S, Calls, counted
from synergy_nb.control.ledger import Ledger
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


@pytest.mark.parametrize(("promise", "most"), [(False, 216), (True, 256)])
def test_a_batch_costs_no_more_calls_than_before(promise: bool, most: float) -> None:
    assert calls(ROWS, promise=promise, seconds=STEP_S) <= most


def test_a_leg_passes_no_more_functions_than_before() -> None:
    _, _, leg = asyncio.run(counted(ROWS, promise=False, count=1, seconds=STEP_S))
    assert "arrivals.Arrivals.add" in leg, "the link passes a frame to whom it concerns"
    assert not [name for name in leg if name.startswith(("_service.", "host.", "_peer_driver."))], "nobody hands it on"
    assert len(leg) <= 82


def test_a_promise_alone_costs_less_than_a_tuple_and_a_tuple_little_more_than_a_batch() -> None:
    promise, one = (calls(rows, promise=True, seconds=ONE_S) for rows in (0, 1))
    assert promise <= 256
    assert one <= 360
    assert promise < 0.85 * one


def test_tuples_that_are_gathered_cost_together_little_more_than_one_alone() -> None:
    """Half a second of a source of 10 tuples/s, at once and in turn."""
    gathered, one = calls(5, promise=True, seconds=5 * ONE_S), calls(1, promise=True, seconds=ONE_S)
    assert gathered < 0.35 * 5 * one


def test_what_is_left_at_a_peer_costs_as_much_with_many_applications_as_with_one() -> None:
    ledger = Ledger(cores=1.0, bandwidth=1e6)
    found: list[int] = []
    for number in range(100):
        ledger.reserve(f"r{number}", "filter", 0.001, None, 0.0)
        assert not ledger.commit(f"r{number}", "filter", 0.001, {})
        calls = Calls()
        with calls.counted():
            ledger.residual_cores("")  # as each acknowledgement of a stream asks
        found.append(calls.ours)
    assert found[-1] == found[0]
    assert ledger.residual_cores("") == pytest.approx(0.9)
