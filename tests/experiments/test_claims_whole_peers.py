"""B4: whole peers under the load of P4 to P6, and verdicts that can fail."""

from __future__ import annotations

import pytest

from synergy_experiments.chapters import find
from synergy_experiments.framework.measurements import Measured, Point
from synergy_experiments.framework.parameters import at_scale
from synergy_experiments.worlds.monitors_under_load import NOTHING, PREDICTION, REACTION
from synergy_experiments.worlds.whole_monitors import FLOW, WHOLE, whole_monitored


@pytest.mark.slow
def test_whole_peers_execute_the_applications_of_the_flow_model() -> None:
    points = whole_monitored(1, (PREDICTION,), 8, 1.0, 0.85, 2.5, 5.0, 4.0, 1)
    found = {(point.algorithm, point.metric): point.value for point in points}
    ours, theirs = f"{PREDICTION}, {WHOLE}", f"{PREDICTION}, {FLOW}"
    assert found[ours, "applications"] == found[theirs, "applications"] == 8.0
    assert found[ours, "miss rate"] == found[ours, "migrations"] == found[theirs, "miss rate"] == 0.0
    assert found[ours, "delay"] == pytest.approx(found[theirs, "delay"], rel=0.3)


def checked(missed: float) -> dict[str, str]:
    """Verdicts where so many results are missed with prediction at ten applications a peer."""
    points = []
    for policy, rates in ((NOTHING, (0.0, 0.4)), (REACTION, (0.0, 0.2)), (PREDICTION, (0.0, missed))):
        for model in (WHOLE, FLOW):
            for x, rate in zip((4, 10), rates, strict=True):
                values = {"miss rate": rate, "delay with misses": 20 * rate, "applications": 8.0 * x, "ran": 8.0 * x}
                values["migrations"] = 8.0 * x / 3.0 if policy == PREDICTION else 0.0
                points += [Point(x, f"{policy}, {model}", metric, value) for metric, value in values.items()]
    (claim,) = find(["B4"])
    found = list(claim.checks(Measured([points, points]), at_scale(claim.parameters, "quick")))
    assert {check.judges for check in found} == {"own"}, "all are of our own prediction"
    return {check.name: check.verdict for check in found}


def test_verdicts_follow_what_was_measured() -> None:
    assert set(checked(0.1).values()) == {"holds"}
    failed = {name for name, verdict in checked(0.5).items() if verdict != "holds"}
    assert any("at most half" in name for name in failed)
    assert any("P5" in name or "delay" in name for name in failed)
