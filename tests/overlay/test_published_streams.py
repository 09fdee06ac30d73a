"""What a peer says of its streams: offers and profiles under one name, and what looks them up finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.lifecycle.requests.alternatives import _profiles
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.overlay.published_streams import PublishedStreams
from synergy_nb.plan.derived.spark_parts import Profile
from tests.overlay_world import World


class Register:
    """A directory that remembers what it was told, in this order, and what it holds."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any] | None]] = []
        self.held: dict[str, dict[str, Any]] = {}

    def register(self, name: str, kind: str, attributes: Mapping[str, Any]) -> None:
        assert kind == "stream"
        self.told.append((name, dict(attributes)))
        self.held[name] = dict(attributes)

    def unregister(self, name: str, kind: str) -> None:
        assert kind == "stream"
        self.told.append((name, None))
        del self.held[name]


def said() -> tuple[Register, PublishedStreams]:
    register = Register()
    return register, PublishedStreams(register)  # type: ignore[arg-type] # only these two calls are made


def test_a_stream_has_one_entry_for_its_offer_and_its_profile() -> None:
    register, streams = said()
    streams.profile("s", {"rate": 10.0, "cost": 1e-5, "selectivity": 0.5})
    streams.offer("s", "a", "filter", {"rate": 7.0, "delay": 0.2})
    assert register.held == {
        "s": {"application": "a", "operator": "filter", "delay": 0.2, "rate": 10.0, "cost": 1e-5, "selectivity": 0.5}
    }
    streams.withdraw("s", "a", "filter")
    assert register.held == {"s": {"rate": 10.0, "cost": 1e-5, "selectivity": 0.5}}
    streams.offer("s", "b", "count")
    streams.forget("s")
    assert register.held == {"s": {"application": "b", "operator": "count"}}
    streams.withdraw("s", "b", "count")
    assert register.held == {}
    assert register.told[-1] == ("s", None)


def test_the_oldest_offer_is_advertised_and_the_next_one_when_it_is_withdrawn() -> None:
    register, streams = said()
    for application in "abc":
        streams.offer("s", application, "filter")
    assert len(register.told) == 1
    assert streams.offered("s") == ("a", "filter")
    streams.withdraw("s", "b", "filter")
    assert len(register.told) == 1
    streams.offer("s", "a", "filter", {"delay": 0.1})  # again: it keeps its place
    assert register.held["s"] == {"application": "a", "operator": "filter", "delay": 0.1}
    streams.withdraw("s", "a", "filter")
    assert register.held["s"] == {"application": "c", "operator": "filter"}
    streams.withdraw("s", "a", "filter")
    streams.withdraw("t", "a", "filter")
    streams.withdraw("s", "c", "filter")
    assert streams.offered("s") is None
    assert register.held == {}


def test_nothing_is_published_twice_and_profiles_are_bounded() -> None:
    register = Register()
    streams = PublishedStreams(register, retained=2)  # type: ignore[arg-type]
    for _ in range(3):
        streams.profile("s", {"rate": 1.0})
        streams.forget("t")
    assert register.told == [("s", {"rate": 1.0})]
    streams.offer("t", "a", "filter")
    for name in ("t", "u", "s", "v"):
        streams.profile(name, {"rate": 2.0})
    assert register.held == {
        "s": {"rate": 2.0},
        "v": {"rate": 2.0},
        "t": {"application": "a", "operator": "filter"},
    }
    register, streams = said()
    for number in range(70):
        streams.profile(f"s{number}", {"rate": 1.0})
    assert list(register.held) == [f"s{number}" for number in range(6, 70)]
    with pytest.raises(ValueError, match="measured: 'speed'; expected one of rate, cost, selectivity"):
        streams.profile("s", {"speed": 1.0})


CALLS = st.tuples(
    st.sampled_from(["offer", "withdraw", "profile", "forget"]), st.sampled_from("st"), st.sampled_from("abc"),
    st.integers(1, 3),
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(CALLS, max_size=30))
def test_entries_equal_those_of_a_simple_implementation(calls: list[tuple[str, str, str, int]]) -> None:
    register, streams = said()
    offers: list[tuple[str, str, int]] = []
    profiles: dict[str, int] = {}
    for what, name, application, value in calls:
        if what == "offer":
            streams.offer(name, application, "o", {"delay": value})
            known = [(at, offer) for at, offer in enumerate(offers) if offer[:2] == (name, application)]
            if known:
                offers[known[0][0]] = (name, application, value)
            else:
                offers.append((name, application, value))
        elif what == "withdraw":
            streams.withdraw(name, application, "o")
            offers = [offer for offer in offers if offer[:2] != (name, application)]
        elif what == "profile":
            streams.profile(name, {"rate": value})
            profiles[name] = value
        else:
            streams.forget(name)
            profiles.pop(name, None)
        expected: dict[str, dict[str, Any]] = {name: {"rate": rate} for name, rate in profiles.items()}
        for stream, owner, delay in reversed(offers):
            offered = {"delay": delay, "application": owner, "operator": "o"}
            expected[stream] = {**expected.get(stream, {}), **offered}
        assert register.held == expected


def test_hosts_are_found_with_what_they_offer_and_have_measured() -> None:
    world = World(12, assembled=True)
    world.run(0.5)
    streams = {address: PublishedStreams(world.directory[address]) for address in world.live}
    world.call("p3", streams["p3"].offer, "packets", "a", "source", {"delay": 0.25})
    world.call("p3", streams["p3"].profile, "packets", {"rate": 40.0})
    world.call("p7", streams["p7"].profile, "packets", {"rate": 30.0, "cost": 2e-6})
    world.run(1.0)
    found = world.lookup("p9", ["packets"])
    assert found is not None
    assert {entry.host: entry.attributes for entry in found["packets"]} == {
        "p3": {"delay": 0.25, "application": "a", "operator": "source", "rate": 40.0},
        "p7": {"rate": 30.0, "cost": 2e-6},
    }
    world.call("p3", streams["p3"].withdraw, "packets", "a", "source")
    world.call("p7", streams["p7"].forget, "packets")
    world.run(1.0)
    found = world.lookup("p9", ["packets"])
    assert found is not None
    assert [(entry.host, entry.attributes) for entry in found["packets"]] == [("p3", {"rate": 40.0})]


def test_of_several_profiles_that_of_the_busiest_host_counts() -> None:
    entries = {
        "s": (
            Entry("s", "p1", "stream", {"rate": 5.0, "cost": 1.0}, 30.0),
            Entry("s", "p2", "stream", {"rate": 50, "selectivity": 0.5, "application": "a", "operator": "o"}, 30.0),
            Entry("s", "p3", "stream", {"application": "b", "operator": "o"}, 30.0),
        ),
        "t": (Entry("t", "p3", "stream", {"application": "b", "operator": "o"}, 30.0),),
    }
    assert _profiles(entries) == {"s": Profile(rate=50.0, selectivity=0.5)}


def test_a_peer_has_a_protocol_of_published_streams() -> None:
    synergy = SynergyPeer("p", PeerConfig())
    synergy.peer.call(0.0, synergy.streams.offer, "s", "a", "filter")
    assert [(entry.name, entry.kind) for entry in synergy.directory.registered] == [("s", "stream")]
