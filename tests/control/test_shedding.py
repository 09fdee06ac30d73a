"""What one sender may take: rates, places, and what is told of the rest."""

from __future__ import annotations

import random

from synergy_nb.control.peer import Message, Peer, Protocol, Record
from synergy_nb.control.shedding import REPORTED_S, Allowance, Allowances, Shares, Sheds
from synergy_nb.events import FloodShed


class Asked(Message):  # type: ignore[misc]
    """A message that costs much."""


class Costly(Protocol):
    """Counts what it handles."""

    allowances = {Asked: Allowance(rate=2.0, burst=3.0)}  # noqa: RUF012

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self.asked: list[str] = []
        self.handlers = {Asked: lambda sender, _: self.asked.append(sender)}


def test_a_bucket_gives_what_its_rate_and_burst_say_and_no_more() -> None:
    rng = random.Random(1)
    for _ in range(50):
        rate, burst = rng.uniform(0.1, 50.0), rng.uniform(1.0, 20.0)
        bucket, now, tokens = Allowances(Allowance(rate, burst)), 0.0, burst  # tokens: the slow and obvious twin
        for _ in range(200):
            passed, amount = rng.expovariate(rate), rng.choice((0.5, 1.0, 2.0))
            now, tokens = now + passed, min(tokens + passed * rate, burst)
            if abs(tokens - amount) > 1e-6:
                taken = bucket.take("a", now, amount)
                assert taken == (tokens >= amount)
                tokens -= amount * taken


def test_no_sender_takes_what_others_may_have() -> None:
    bucket = Allowances(Allowance(1.0, 2.0), senders=8)
    while bucket.take("flood", 0.0):
        pass
    assert all(bucket.take(f"peer-{number}", 0.0) for number in range(100))
    assert not bucket.take("flood", 0.0), "it was forgotten while it was empty"


def test_a_place_is_left_for_whoever_has_none() -> None:
    places = Shares(64)
    while places.take("flood"):
        pass
    assert places.of("flood") == 32
    honest = [f"peer-{number}" for number in range(8)]
    assert all(places.take(each) for each in honest for _ in range(2))
    for each in honest:
        places.give_back(each, 2)
    assert places.held == 32
    assert not places.take("flood")


def test_what_was_shed_is_told_with_its_sender_and_number_at_a_limited_rate() -> None:
    sheds = Sheds()
    told = [(now, number) for now in range(100) if (number := sheds.note("a", "probes", float(now)))]
    assert told == [(0, 1), (10, 10), (20, 10), *((now, 10) for now in range(30, 100, 10))]
    assert sheds.counts == {"probes": 100}


def test_a_peer_sheds_a_flood_by_name_and_hears_others_meanwhile() -> None:
    peer = Peer("b", seed=1)
    costly = Costly(peer)
    peer.add(costly)

    def told(sender: str, messages: int, now: float) -> list[FloodShed]:
        effects = [effect for _ in range(messages) for effect in peer.receive(sender, Asked(), now)]
        return [each.event for each in effects if isinstance(each, Record) and isinstance(each.event, FloodShed)]

    (first,) = told("flood", 10, now=1.0)
    assert (first.subject, first.what, first.shed) == ("flood", "messages Asked", 1)
    assert not told("a", 1, now=1.0)
    assert costly.asked == ["flood"] * 3 + ["a"]
    (second,) = told("flood", 4, now=1.5 + REPORTED_S)
    assert second.shed == 7
    assert peer.sheds.counts == {"messages Asked": 8}
