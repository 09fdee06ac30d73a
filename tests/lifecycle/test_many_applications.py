"""The cost of many applications, counted: messages, sums, projections, events, entries."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from typing import Any

import polars as pl
import pytest

from synergy_nb.control import ledger as ledgers
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.ledger import Ledger
from synergy_nb.control.peer import Message, Peer
from synergy_nb.events import ProbeAccepted
from synergy_nb.lifecycle.records import messages
from synergy_nb.lifecycle.sessions import impact
from synergy_nb.models._change_points import RateChanges
from synergy_nb.plan import Plan, source
from synergy_nb.traces.packets import Parameters, tables
from tests.quick_cases import quick_first
from tests.simulated import Ring


def small(number: int) -> Plan:
    """A plan over three peers that loads them by next to nothing."""
    stream = source("python", name=f"n{number}", columns={"v": "float"}, rate=1.0, at="peer-1")
    return stream.filter(f"v > {number}", at="peer-2").sink("out", delay="10 s")


def ring_of(applications: int) -> Ring:
    """Peers whose ``peer-0`` leads so many applications."""
    ring = Ring(4, seed=1)
    for number in range(applications):
        ring.submit("peer-0", f"a{number}", small(number))
        assert ring.until_decided(f"a{number}").status == "running"
    return ring


def test_feedback_of_many_applications_takes_as_many_messages_as_that_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: Counter[tuple[str, str]] = Counter()
    told: Counter[str] = Counter()
    send = Peer.send

    def count(self: Peer, to: str, message: Message) -> None:
        if isinstance(message, messages.Feedback) and to != self.address:
            sent[self.address, to] += 1
            told[to] += len(message.measured)
        send(self, to, message)

    rings = {applications: ring_of(applications) for applications in (1, 20)}
    monkeypatch.setattr(Peer, "send", count)
    found = {}
    for applications, ring in rings.items():
        sent.clear()
        told.clear()
        ring.run(10.0)
        found[applications] = dict(sent), dict(told)
    assert found[1][0] == found[20][0] == {("peer-0", "peer-1"): 10, ("peer-0", "peer-2"): 10}
    assert found[20][1] == {peer: 20 * times for peer, times in found[1][1].items()}


def test_a_long_round_of_feedback_goes_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synergy_nb.lifecycle.sessions.feedback.PER_MESSAGE", 3)
    ring = ring_of(8)
    ring.run(15.0)  # longer than a lease
    assert all(ring.status(f"a{number}") == "running" for number in range(8))


def test_feedback_ends_with_the_last_application_and_begins_again() -> None:
    ring = ring_of(2)
    session = ring.synergy["peer-0"].session
    for number in range(2):
        ring.simulation.report("peer-0", StopApplication(f"a{number}"))
    ring.run(3.0)
    assert session.feedbacks._timer is None
    ring.submit("peer-0", "again", small(7))
    assert ring.until_decided("again").status == "running"
    ring.run(15.0)
    assert ring.status("again") == "running"


def test_setting_up_one_more_application_projects_only_that_one_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = ring_of(12)
    ring.run(2.0)
    for each in ring.synergy.values():
        each.session.impacts.running()
    made: Counter[str] = Counter()
    application = impact.Impacts._application

    def count(self: Any, user: str, here: Any) -> Any:
        made[user] += 1
        return application(self, user, here)

    monkeypatch.setattr(impact.Impacts, "_application", count)
    ring.submit("peer-0", "one more", small(100))
    assert ring.until_decided("one more").status == "running"
    ring.run(2.0)
    for each in ring.synergy.values():
        known = each.session.impacts.running()
        assert set(known) == {user for user in known if each.session.components.of(user)}
    assert set(made) <= {"one more"}
    assert ring.synergy["peer-2"].session.impacts.running().keys() == {"one more", *(f"a{n}" for n in range(12))}
    ring.simulation.report("peer-0", StopApplication("one more"))
    ring.run(2.0)
    assert "one more" not in ring.synergy["peer-2"].session.impacts.running()


def test_residual_resources_are_known_without_summing_commitments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Ledger(cores=100.0, bandwidth=1e9)
    for number in range(50):
        assert ledger.commit(f"a{number}", "filter", 0.5, {("peer-2", "source"): 1000.0}) == ""
    ledger.reserve("asking", "filter", 0.5, ("peer-2", "source"), 1000.0)
    taken: list[str] = []
    add_up = ledgers._sum

    def count(claims: Any, resource: str) -> float:
        taken.append(resource)
        return add_up(claims, resource)

    monkeypatch.setattr(ledgers, "_sum", count)
    assert ledger.residual_cores("another") == pytest.approx(100.0 - 50 * 0.5 - 0.5)
    assert ledger.residual_bandwidth("another", "peer-2") == pytest.approx(1e9 - 51e3)
    assert len(taken) == 2  # of the one reservation, whoever else runs


@pytest.mark.parametrize("seed", quick_first(range(4), 1))
def test_running_sums_equal_adding_up_all_that_was_promised(seed: int) -> None:
    rng = random.Random(seed)
    ledger = Ledger(cores=8.0, bandwidth=1e6)
    operators, peers = ["f", "g"], ["p1", "p2"]
    for _ in range(3000):
        request, operator = f"r{rng.randrange(12)}", rng.choice(operators)
        cores, link = rng.random(), (rng.choice(peers), "up")
        match rng.randrange(6):
            case 0:
                ledger.reserve(request, operator, cores, link, 1e5 * rng.random())
            case 1:
                ledger.commit(request, operator, cores, {link: 1e5 * rng.random()})
            case 2:
                ledger.reserve_additional(request, operator, cores, {link: 1e5 * rng.random()})
            case 3:
                ledger.drop(request, operator)
            case 4:
                ledger.expire(request)
            case _:
                ledger.release(request)
        for resource, left in (("", ledger.residual_cores("x")), ("p1", ledger.residual_bandwidth("x", "p1"))):
            slow = ledger._capacity(resource)
            for share in ledger._shares.values():
                slow -= ledgers._sum(share.committed, resource) + share.reserved_amount(resource)
            assert left == pytest.approx(slow, abs=1e-6 if resource else 1e-12)
        assert ledger.overbooked() is None
    for number in range(12):
        ledger.release(f"r{number}")
    assert ledger.residual_cores("x") == 8.0
    assert ledger.load == 0.0


@pytest.mark.slow
def test_the_journal_of_a_set_up_does_not_grow_with_running_applications() -> None:
    ring = ring_of(12)
    told = {
        len(event.impacts)
        for number in (0, 11)
        for event in ring.events(f"a{number}", ProbeAccepted)
        if event.peer == "peer-2"
    }
    assert told == {0, 4}
    first = [impact.application for impact in ring.events("a11", ProbeAccepted)[0].impacts]
    assert len(set(first)) == len(first)


def test_a_silent_stream_takes_no_memory_for_changes_of_its_rate() -> None:
    silent, busy = RateChanges(), RateChanges()
    for number in range(1, 2000):
        busy.observe(number * 0.1, 0)
        silent.observe(number * 0.1, 0)
    for number in range(2000, 4000):
        busy.observe(number * 0.1, 5)
    assert not silent.ages
    assert 0 < len(busy.ages) < 14


@pytest.mark.parametrize(("rate", "most"), [(0.1, 2048), (10.0, 2048), (1000.0, 12_000), (1e6, 80_000)])
def test_a_slow_source_does_not_hold_the_packets_of_hours(rate: float, most: int) -> None:
    made = islice(tables(Parameters(seed=1, rate=rate)), 4)
    assert 0 < max(table.height for table in made) <= most


def test_packets_are_the_same_however_many_are_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = Parameters(seed=3, rate=100.0, count=5000)
    few = pl.concat(list(tables(parameters)))
    monkeypatch.setattr("synergy_nb.traces.packets.LEAST", 65_536)
    assert few.equals(pl.concat(list(tables(parameters))))
