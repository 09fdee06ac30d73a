"""A peer that states no load, accepts whatever it is asked for, and does nothing: who is promised most learns that."""

from __future__ import annotations

import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import DelayMeasured
from synergy_nb.control.roles import Roles
from synergy_nb.events import PeerDistrusted
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.messages import Graph
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.kept_promises import BROKEN, JUDGED, REMEMBERED, KeptPromises
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.plan import Plan, source
from tests.composition.plans import chain
from tests.one_peer import OnePeer
from tests.simulated import Ring

LIAR = "peer-11"
ORIGINS = ("peer-0", "peer-7")
STEADY = chain(rate=10.0)
WINDOWED = source("packets", rate=10.0).aggregate(total="sum(bytes)", window="1 s").sink("out", delay="2 s")


def config(number: int) -> PeerConfig:
    name, honest = f"peer-{number}", CompositionConfig(ratio=0.25, sharing="off")
    if name != LIAR:
        return PeerConfig(name=name, seed=number, composition=honest)
    return PeerConfig(
        name=name, seed=number, cores=1000.0, composition=CompositionConfig(ratio=0.25, sharing="off", enforce=False)
    )


def kept(ring: Ring, count: int) -> list[bool]:
    """Submit applications one after the other; whether each kept its limit: what comes to the liar goes nowhere."""
    verdicts = []
    for number in range(count):
        for origin in ORIGINS:
            name = f"{origin}-{number}"
            ring.submit(origin, name, chain(rate=10.0 + number))
            peers = ring.until_decided(name).peers
            assert ring.status(name) == "running"
            if LIAR not in peers.values():
                ring.simulation.report(peers["sink"], DelayMeasured(name, 0.1))
            verdicts.append(LIAR not in peers.values())
        ring.run(JUDGED + 1.0)
    return verdicts


@pytest.mark.slow
def test_a_peer_that_promises_all_and_does_nothing_is_chosen_last() -> None:
    ring = Ring(12, 3, config=config)
    verdicts = kept(ring, BROKEN + 3)
    assert not any(verdicts[: BROKEN * len(ORIGINS)])
    assert all(verdicts[BROKEN * len(ORIGINS) :])
    named = {(each.peer, each.subject) for each in ring.simulation.journal if isinstance(each, PeerDistrusted)}
    assert named == {(origin, LIAR) for origin in ORIGINS}


class Asked:
    """The verdicts of one origin, o, on applications that it is told of; ``delay``: what their sinks have measured."""

    def __init__(self) -> None:
        self.one = OnePeer("o")
        self.delay: float | None = 0.1
        self.promises = KeptPromises(self.one.synergy.peer, lambda _: self.delay)

    def requested(self, peers: dict[str, str], plan: Plan = STEADY) -> Request:
        """A request that is being set up."""
        request = Request("r", plan, "composed", 0.0)
        for state in (State.DECIDING, State.ESTABLISHING):
            request.enter(state)
        limit = self.one.synergy.membership.answers.after(60.0, (), lambda: None)
        request.set_up(Graph("r", 1, "o", plan.to_bytes(), Roles(peers)), limit)
        return request

    def runs(self, peers: dict[str, str], plan: Plan = STEADY, seconds: float = JUDGED + 1.0) -> None:
        request = self.requested(peers, plan)
        request.begin(self.one.now)
        self.one.call(self.promises.set_up, request, "")
        self.one.wait(seconds)

    def offered(self, *hosts: str) -> list[str]:
        found = {"filter": tuple(Entry("filter", host, "component", {}, 30.0) for host in hosts)}
        return [each.host for each in self.promises.trusted(found)["filter"]]


def test_who_keeps_as_much_as_it_breaks_is_trusted_again_and_verdicts_are_forgotten() -> None:
    asked = Asked()
    asked.delay = 2.1  # the limit is 2 s
    for other in "abc":
        asked.runs({"x": "l", "y": other, "z": "o"})
    assert [(each.subject, each.broken, each.kept) for each in asked.one.noted(PeerDistrusted)] == [("l", BROKEN, 0)]
    assert asked.offered("a", "l") == ["a"]
    assert asked.offered("l") == ["l"], "nobody else offers it"
    asked.delay = 2.0
    for _ in range(BROKEN + 1):
        asked.runs({"x": "l"})
    assert asked.offered("a", "l") == ["a", "l"]
    asked.delay = 2.1
    for _ in range(BROKEN + 1):
        asked.runs({"x": "l"})
    assert asked.offered("a", "l") == ["a"]
    asked.one.wait(REMEMBERED)
    asked.one.call(lambda: None)  # it is that late
    assert asked.offered("a", "l") == ["a", "l"]


def test_of_many_verdicts_the_latest_count() -> None:
    asked = Asked()
    for number in range(72):
        asked.delay = 2.1 if number >= 40 else 2.0  # the limit is 2 s
        asked.runs({"x": "l"}, seconds=0.0 if number not in {39, 71} else JUDGED + 1.0)
    assert asked.offered("a", "l") == ["a"], "of the last 64 it has broken 32"


@pytest.mark.parametrize(
    ("plan", "delay", "seconds", "breaks"),
    [
        (STEADY, -1.0, JUDGED + 1.0, True),
        (STEADY, -1.0, JUDGED - 1.0, False),
        (chain(rate=0.3), -1.0, JUDGED + 1.0, False),
        (STEADY, None, JUDGED + 1.0, False),
        (WINDOWED, -1.0, JUDGED + 1.0, False),
        (WINDOWED, 9.0, JUDGED + 1.0, True),
    ],
    ids=["nothing came", "not long enough", "too few to tell", "another leads it", "a window is open", "late"],
)
def test_silence_breaks_a_promise_where_results_should_have_come(
    plan: Plan, delay: float | None, seconds: float, breaks: bool
) -> None:
    asked = Asked()
    asked.delay = delay
    for _ in range(BROKEN):
        asked.runs({"x": "l"}, plan, seconds)
    assert (asked.offered("a", "l") == ["a"]) == breaks


@pytest.mark.parametrize("silent", [True, False])
def test_who_does_not_confirm_what_it_has_accepted_breaks_a_promise_and_who_refuses_does_not(silent: bool) -> None:
    asked = Asked()
    for _ in range(BROKEN):
        request = asked.requested({"x": "l"})
        if silent:
            request.time_out()
        asked.one.call(asked.promises.set_up, request, "no")
    assert asked.offered("a", "l") == (["a"] if silent else ["a", "l"])
