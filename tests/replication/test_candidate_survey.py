"""What the survey of candidates for active replicas measures, and what is done where it could not measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from synergy_nb.algorithms.replication.candidate_survey import CandidateAnswer, CandidateQuestion
from synergy_nb.assembly import PeerConfig
from synergy_nb.events import ReplicasDeployed
from synergy_nb.plan import Plan
from synergy_nb.simulator.kernel import Uniform
from tests.replication.active_rings import query, ring_of
from tests.simulated import Ring

Drops = Callable[[str, str], bool]


def test_round_trips_that_are_longer_than_the_time_until_a_repetition_are_measured() -> None:
    far = Uniform(0.24, 0.26, 5)
    ring = Ring(7, seed=1, network=far, config=lambda n: PeerConfig(f"peer-{n}", seed=n))
    for each in ring.synergy.values():
        for other in ring.synergy:
            each.latency.forget(other)
    ring.submit("peer-2", "r", query("active 2"))
    report = ring.until_decided("r")
    assert report.status == "running", report.reason
    measured = [each.latency.one_way(other) for each in ring.synergy.values() for other in ring.synergy]
    assert all(0.23 < delay < 0.27 for delay in measured if delay is not None), (
        "an answer to a repetition is known as one"
    )


def unmeasured(ring: Ring, drops: Drops) -> None:
    """Have candidates answer without the links of which ``drops(from, to)`` says that nobody measured them."""
    for address, each in ring.synergy.items():
        survey, answered = each.survey, each.survey.candidate

        def partly(
            message: CandidateQuestion,
            plan: Plan,
            others: Sequence[str],
            at: str = address,
            answered: Callable[..., CandidateAnswer] = answered,
        ) -> CandidateAnswer:
            answer = answered(message, plan, others)
            links = {upstream: link for upstream, link in answer.links.items() if not drops(upstream, at)}
            return msgspec.structs.replace(answer, links=links)

        survey.candidate = partly  # type: ignore[method-assign]


def test_the_opposite_link_counts_where_only_that_was_measured() -> None:
    ring = ring_of(6, 10)
    unmeasured(ring, lambda at, to: at < to)
    ring.submit("peer-0", "r", query("active 2"))
    assert ring.until_decided("r").status == "running"


def test_a_link_that_nobody_measured_is_named_after_further_surveys() -> None:
    ring = ring_of(6, 10)
    surveys = list[str]()

    def drops(at: str, to: str) -> bool:
        surveys.extend({to} - {"peer-0"})
        return True

    unmeasured(ring, drops)
    ring.submit("peer-0", "r", query("active 2"))
    report = ring.until_decided("r")
    assert report.status == "rejected"
    assert "the delay between peer-0 and peer-" in report.reason
    assert "is not known: neither answered the other in time" in report.reason
    attempts, others = divmod(surveys.count("peer-1"), 3 * 5)
    assert attempts > 1, "nobody has refused: the request begins anew while it may be that peers are late"
    assert not others, "three surveys each time, each with five links of a candidate"
    assert not ring.events("r", ReplicasDeployed)


def test_a_link_that_a_further_survey_measures_is_used() -> None:
    ring = ring_of(6, 10)
    left = [12]

    def drops(_at: str, _to: str) -> bool:
        left[0] -= 1
        return left[0] > 0

    unmeasured(ring, drops)
    ring.submit("peer-0", "r", query("active 2"))
    assert ring.until_decided("r").status == "running"
    assert left[0] < 0
