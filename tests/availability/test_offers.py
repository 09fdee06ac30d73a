"""What peers offer to take when placement looks ahead, and what becomes of offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from synergy_nb.algorithms.availability import PlacementConfig
from synergy_nb.algorithms.availability._offers import Offer, best_offer, following, least_groups
from synergy_nb.algorithms.availability.link_survey import SurveyedLink
from synergy_nb.algorithms.availability.messages import Task
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.roles import Roles
from synergy_nb.events import ReplicaAccepted, ReplicaPlaced
from synergy_nb.plan import Plan
from tests.availability.lines import LOAD, Line, begin, chain, diamond, ring
from tests.placing import Placements

STREAM = 1600.0  # bytes/s of a stream of the plans
PEERS = ("a", "b", "c", "d")


def offer(
    plan: Plan,
    room: Mapping[str, float],
    *,
    most: int = 9,
    degree: int = 2,
    graph: Roles | None = None,
    returned: float = 1e9,
    cores: float = 1.0,
    uplink: float = 1e9,
    stuck: tuple[str, ...] = (),
    config: PlacementConfig | None = None,
) -> Offer | None:
    """The offer of peer a for the first component, by the number of streams that its links carry; the sink is at d."""
    candidates: dict[str, tuple[str, ...]] = dict.fromkeys(plan.operators, PEERS)
    pinned: dict[str, str] = {"source": "a", "sink": "d"}
    task = Task("r", 1, "d", plan.to_bytes(), degree, candidates, pinned, {}, stuck)
    known = graph or Roles({"source": "a"})
    operator = next(name for name in plan.operators if name not in known.peers)
    ahead = following(plan, known, operator)
    links: dict[str, SurveyedLink] = {
        peer: SurveyedLink(0.01 * place, many * STREAM, cores, 0.0, {})
        for place, (peer, many) in enumerate(room.items())
    }
    return best_offer(
        task, plan, known, "a", ahead, min(most, len(ahead)), {"a": SurveyedLink(0.0, 1e18, cores, 0.0, {}), **links},
        lambda _peer: returned * STREAM, uplink * STREAM, config or PlacementConfig(ahead=True),
    )  # fmt: skip


def test_a_peer_offers_all_that_follows_with_backups_on_the_nearest_peer_whose_link_carries_them() -> None:
    found = offer(chain(3), {"b": 2.0, "c": 3.0, "d": 9.0})
    assert found == Offer({"o0": ("c",), "o1": ("c",), "o2": ("c",)}, 1)
    assert offer(chain(3), {"c": 3.0, "d": 3.0}, degree=3) is not None  # of which the sink needs one of the link to d
    assert found.bandwidth(chain(3), Task("r", 1, "d", b"", 2, {}, {"sink": "d"}), "a") == pytest.approx(
        {"c": 3 * STREAM, "d": STREAM}
    )


def test_where_no_link_carries_all_a_member_of_the_group_can_take_the_rest() -> None:
    assert offer(chain(3), {"b": 2.0, "d": 1.0}) == Offer({"o0": ("b",)}, 1)  # its backup, and the stream to b
    assert offer(chain(3), {"b": 2.0, "d": 1.0}, returned=1.0) == Offer({"o0": ("b",), "o1": ("b",)}, 2)
    assert offer(chain(3), {"b": 2.0, "d": 1.0}, cores=0.05) == Offer({"o0": ("b",), "o1": ("b",)}, 2)


def test_after_a_failed_attempt_a_peer_offers_as_much_as_it_can() -> None:
    found = offer(chain(3), {"b": 2.0, "c": 1.0, "d": 1.0}, stuck=("x",))
    assert found == Offer({"o0": ("b",), "o1": ("b",), "o2": ("c",)}, 2)


def test_groups_on_which_the_application_depends_already_come_first() -> None:
    graph = Roles({"source": "d", "o0": "a"}, {"o0": ("c",)})
    assert offer(chain(3), {"b": 9.0, "c": 2.0, "d": 9.0}, graph=graph) == Offer({"o1": ("c",), "o2": ("c",)}, 1)
    assert least_groups([("a", "b"), ("b", "a"), ("a", "b", "c"), ("b", "c")]) == 2


def test_an_offer_is_no_greater_than_cores_links_and_the_uplink_allow() -> None:
    assert offer(chain(3), {"b": 9.0, "c": 9.0, "d": 9.0}, most=2) is not None
    assert len(offer(chain(3), {"b": 9.0, "c": 9.0, "d": 9.0}, most=2).backups) <= 2  # type: ignore[union-attr]
    assert offer(chain(1), {"b": 9.0, "d": 0.5}) is None  # the stream to the sink
    assert offer(chain(1), {"b": 9.0, "d": 9.0}, uplink=1.5) is None
    assert offer(chain(1), {"b": 9.0, "d": 9.0}, uplink=2.0) == Offer({"o0": ("b",)}, 1)


def test_backups_without_room_for_a_take_over_come_last() -> None:
    plan = chain(2)
    full = PlacementConfig(ahead=True, room_first=True)
    assert offer(plan, {"b": 9.0, "c": 9.0, "d": 9.0}, cores=0.05, config=full) == Offer(
        {"o0": ("b",), "o1": ("c",)}, 2
    )
    assert offer(plan, {"b": 9.0, "c": 9.0, "d": 9.0}, cores=0.1, config=full) == Offer({"o0": ("b",), "o1": ("b",)}, 1)


def test_what_follows_reads_only_what_follows() -> None:
    plan = diamond()
    assert following(plan, Roles({"source": "x"}), "a") == ["a", "b", "c", "c2", "u", "z"]
    assert following(plan, Roles({"source": "x", "a": "x"}), "b") == ["b"]  # its join has another input
    assert following(plan, Roles({"source": "x", "a": "x", "b": "x"}), "c") == ["c", "c2"]


# -- in the protocol ---------------------------------------------------------------------------------------------------


def ahead(peers: int = 10, **settings: Any) -> Placements:
    return ring(peers, placement=PlacementConfig(ahead=True), **settings)


def test_all_components_at_a_peer_are_decided_by_one_message_to_each_peer() -> None:
    messages = []
    for looks_ahead in (False, True):
        world = ring(placement=PlacementConfig(ahead=looks_ahead))
        before = world.simulation.messages
        graph = world.placed("peer-8", chain(6), degree=3)
        messages.append(world.simulation.messages - before)
        assert {graph.replicas[f"o{n}"] for n in range(6)} == {("peer-3", "peer-2", "peer-4")}
        times = {each.time for each in world.events("r1", ReplicaPlaced) if each.peer == "peer-4"}
        assert len(times) == (1 if looks_ahead else 6)
        world.run(2.0)
        assert world.wrong_books() == []
    assert messages[1] < messages[0]


def test_placements_at_the_same_time_do_not_divide_what_is_offered() -> None:
    """From one source, at a peer with cores for two applications, four are placed at once: each stays whole."""
    world = ahead(cores=lambda number: 0.41)
    for number in range(4):
        world.place(f"peer-{number + 5}", f"r{number}", chain(4), degree=2)
    graphs = [graph for graph, _ in world.decided(*(f"r{number}" for number in range(4)))]
    assert all(graph is not None and len(graph.hosts) == 2 for graph in graphs)
    assert sorted({graph.peers[f"o{n}"] for n in range(4)} == {"peer-3"} for graph in graphs if graph) == [
        False, False, True, True,
    ]  # fmt: skip
    world.run(2.0)
    assert world.wrong_books() == []


def test_what_is_offered_and_never_decided_is_released() -> None:
    world = ahead(4)
    world.place("peer-2", "r1", chain(3, at="peer-0"), degree=2)

    def offered() -> bool:
        return any(each.operator == "o2" for each in world.events("r1", ReplicaAccepted))

    world.simulation.run(until=60.0, stop=offered)
    (at,) = {each.peer for each in world.events("r1", ReplicaAccepted) if each.operator == "o2"}
    assert set(world.placement(at).replica_host.roles("r1")) >= {"o0", "o1", "o2"}
    world.release("r1")
    world.run(PlacementConfig().lease + 5.0)
    assert world.wrong_books() == []
    assert not world.placement(at).link_survey.holds


def test_joins_of_branches_at_one_peer_are_placed_with_them() -> None:
    graph = ahead().placed("peer-8", diamond(), degree=2)
    assert {graph.replicas[name] for name in ("a", "b", "c", "c2", "u", "z")} == {("peer-3", "peer-2")}
    narrow = ahead(cores=lambda number: 0.11)
    narrow.placed("peer-8", diamond(), degree=2)
    narrow.run(2.0)
    assert narrow.wrong_books() == []


def test_operators_of_an_offer_may_be_inputs_of_a_join() -> None:
    """Two sources with two operators each: of those before the union, the origin knows only once their hosts say so."""
    lines = [begin(name=name).delay(LOAD, id=f"{name}1").delay(LOAD, id=f"{name}2") for name in ("a", "b")]
    graph = ahead().placed("peer-8", lines[0].union(lines[1], id="u", cost=LOAD).sink("out"), degree=2)
    assert {graph.replicas[name] for name in ("a1", "a2", "b1", "b2", "u")} == {("peer-3", "peer-2")}


def test_the_next_attempt_begins_elsewhere_and_asks_again_what_links_carry() -> None:
    """From peer-1, the nearest with room, no link carries the stream to the sink; so it is stuck there once."""
    world = Placements(
        4, 1, network=Line(),
        config=lambda number: PeerConfig(name=f"peer-{number}", seed=100 + number, cores=1.0 if number else 0.06),
    )  # fmt: skip
    for sender in (0, 1):
        ledger = world.synergy["peer-3"].ledger
        before = ledger.bandwidth_from
        ledger.bandwidth_from = lambda peer, before=before, sender=sender: (  # type: ignore[misc]
            1000.0 if peer == f"peer-{sender}" else before(peer)
        )
    graph = world.placed("peer-3", chain(2, at="peer-0"), degree=1)
    assert graph.peers["o1"] not in ("peer-0", "peer-1")
    world.run(2.0)
    assert world.wrong_books() == []
