"""What a peer tells its driver of an application: what it has committed, who reads it, and what is left of it."""

from __future__ import annotations

import msgspec
import pytest

from synergy_nb.control.graph import Producer
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed, SharedProducer, SharedReader
from synergy_nb.lifecycle.records.messages import (
    Begin,
    Confirm,
    Confirmed,
    End,
    Follow,
    Followed,
    Graph,
    GraphChanged,
    Refused,
    Share,
    TakeOver,
)
from synergy_nb.lifecycle.sessions.deploying import EPOCHS, needed_by, remaining_times, version_of
from synergy_nb.plan import source
from synergy_nb.plan.derived.active_replicas import replicated
from synergy_nb.plan.derived.stream_sharing import reduced
from tests.one_peer import OnePeer

PEERS = {"s": "a", "f": "b", "g": "b", "out": "o"}
PLAN = source("packets", rate=10, id="s").filter("bytes > 1", id="f").filter("bytes > 2", id="g").sink("out", id="out")
INPUTS = (Producer("r", "s", "a", 0, "o"), Producer("r", "f", "b", 0, "o"))
GRAPH = Graph("r", 2, "o", PLAN.to_bytes(), Roles(PEERS))


def sharer(name: str, *, delay: str | None = None, epoch: int = 0, operator: str = "g") -> Graph:
    """An application of the peer p whose sink at d reads the stream of g of the application r."""
    plan = source("packets", rate=10, id="s").filter("bytes > 1", id="f").filter("bytes > 2", id="g")
    tapped = reduced(plan.sink("out", id="other", delay=delay), {"g": {"b": ("r", "g")}})
    made = (*INPUTS, Producer("r", operator, "b", epoch, "o"))
    return Graph(name, 1, "p", tapped.to_bytes(), Roles({"g": "b", "other": "d"}), {"g": made})


class Host:
    """Peer b, which executes f and g of r."""

    def __init__(self, graph: Graph = GRAPH, *, running: bool = True) -> None:
        self.one = OnePeer("b")
        self.graph = graph
        self._told: list[Deployment] = []
        self.confirm("g", "out")
        self.confirm("f", "g")
        if running:
            self.one.receive("o", Begin("r", graph.attempt))
        self.before = self.one.told(Deployment)

    def confirm(self, operator: str, reader: str, graph: Graph | None = None) -> None:
        graph = graph or self.graph
        self.one.receive(graph.roles.peers[reader], Confirm(graph, operator, reader))

    def shares(self, graph: Graph) -> list[str]:
        """A sharer is admitted, and its graph is deployed here; gives why not."""
        self.one.receive("p", Share(graph))
        if "g" in graph.roles.peers and graph.roles.peers["g"] == "b":
            self.one.receive("d", Confirm(graph, "g", "other"))
        self.one.receive("p", Begin(graph.application, graph.attempt))
        return [message.reason for _, message in self.one.sent(Refused)]

    def told(self, application: str = "r") -> list[Deployment]:
        """What the driver has been told of an application since this was asked last."""
        self._told += self.one.told(Deployment)
        found = [each for each in self._told if each.application == application]
        self._told = [each for each in self._told if each.application != application]
        return found


def test_the_version_grows_with_the_attempt_first_and_with_the_epoch_of_its_graph_then() -> None:
    graphs = [msgspec.structs.replace(GRAPH, attempt=1, epoch=EPOCHS - 1), GRAPH, GRAPH.changed(GRAPH.roles)]
    assert [version_of(each) for each in graphs] == [2 * EPOCHS - 1, 2 * EPOCHS, 2 * EPOCHS + 1]


def test_an_application_needs_its_own_components_and_those_whose_streams_it_shares() -> None:
    assert needed_by(GRAPH) == {("r", name) for name in PEERS}
    assert needed_by(sharer("q")) == {("q", "g"), ("q", "other"), ("r", "s"), ("r", "f"), ("r", "g")}


def test_it_has_no_component_of_this_peer_that_is_not_committed_and_all_of_others() -> None:
    graph = msgspec.structs.replace(GRAPH, roles=Roles({"s": "b", "f": "c", "g": "b", "out": "o"}))
    host = OnePeer("b")
    host.receive("o", Confirm(graph, "g", "out"))
    (first,) = host.told(Deployment)
    assert (first.application, first.version, first.running, first.plan) == ("r", 2 * EPOCHS, False, graph.plan)
    assert first.assignments == {
        "f": Assignment("c", inputs=(InputFeed("r", "s"),)),
        "g": Assignment("b", inputs=(InputFeed("r", "f"),)),
        "out": Assignment("o", inputs=(InputFeed("r", "g"),), sink=True),
    }
    host.receive("c", Confirm(graph, "s", "f"))
    (second,) = host.told(Deployment)
    assert second.assignments == first.assignments | {"s": Assignment("b")}
    host.receive("c", Confirm(graph, "s", "f"))
    host.receive("o", Confirm(graph, "g", "out"))
    assert host.told(Deployment) == [], "what has not changed is not told again"


def test_sources_run_once_they_may_and_that_is_told_once() -> None:
    host = Host(running=False)
    host.one.receive("o", Begin("r", 1), Begin("other", 2))
    assert host.told() == []
    host.one.receive("o", Begin("r", 2), Begin("r", 2))
    assert [each.running for each in host.told()] == [True]


def test_backups_here_are_named_once_they_are_committed_and_those_elsewhere_at_once() -> None:
    graph = msgspec.structs.replace(GRAPH, roles=Roles(PEERS, {"f": ("c", "e"), "g": ("c",)}))
    host = OnePeer("c")
    at_c = msgspec.structs.replace(graph, roles=Roles({**PEERS, "out": "c"}, dict(graph.roles.backups)))
    host.receive("o", Confirm(at_c, "out", ""))
    (first,) = host.told(Deployment)
    assert {name: each.backups for name, each in first.assignments.items()} == {
        "s": (), "f": ("e",), "g": (), "out": (),
    }  # fmt: skip
    host.receive("o", Share(at_c))
    (second,) = host.told(Deployment)
    assert {name: each.backups for name, each in second.assignments.items() if each.backups} == {
        "f": ("c", "e"), "g": ("c",),
    }  # fmt: skip
    assert host.sent(Confirmed) == [("o", Confirmed("r", 2, "c"))]


def test_a_follower_and_its_move_are_named_once_it_is_committed_here_and_those_elsewhere_at_once() -> None:
    moving = GRAPH.changed(Roles(PEERS, followers={"f": "c"}, epochs={"g": 3}))
    host = Host()
    host.one.receive("o", GraphChanged(moving))
    (told,) = host.told()
    assert (told.version, told.assignments["f"].follower, told.assignments["f"].move) == (
        2 * EPOCHS + 1,
        "c",
        2 * EPOCHS + 1,
    )
    assert (told.assignments["g"].epoch, told.assignments["g"].move) == (3, 0)
    new = OnePeer("c")
    new.receive(
        "o",
        Confirm(msgspec.structs.replace(moving, roles=Roles({**PEERS, "out": "c"}, followers={"f": "c"})), "out", ""),
    )
    (told,) = new.told(Deployment)
    assert (told.assignments["f"].follower, told.assignments["f"].move) == ("", 0)


def test_predicted_times_and_the_epochs_of_moved_components_are_those_of_the_graph() -> None:
    graph = msgspec.structs.replace(
        GRAPH, reached={"s": 0.01, "f": 0.02, "g": 0.04, "out": 0.05}, roles=Roles(PEERS, epochs={"f": 2})
    )
    told = Host(graph).before[-1]
    assert told.remaining == pytest.approx({"s": 0.04, "f": 0.03, "g": 0.01, "out": 0.0})
    assert {name: each.epoch for name, each in told.assignments.items()} == {"s": 0, "f": 2, "g": 0, "out": 0}


def test_the_longest_way_to_a_sink_counts_and_the_fastest_of_the_replicas_on_it() -> None:
    split = source("packets", rate=10, id="s")
    quick, slow = split.filter("bytes > 1", id="q"), split.filter("bytes > 2", id="l")
    both = quick.union(slow, id="u").sink("out", id="out")
    reached = {"s": 1.0, "q": 2.0, "l": 5.0, "u": 5.5, "out": 6.0}
    assert remaining_times(reached, both) == {"s": 5.0, "q": 4.0, "l": 1.0, "u": 0.5, "out": 0.0}
    assert remaining_times({name: reached[name] for name in ("s", "q", "out")}, both) == {
        "s": 1.0,
        "q": 0.0,
        "out": 0.0,
    }
    replicas = replicated(split.filter("bytes > 1", id="f").sink("out", id="out", availability="active 2"), 2)
    first, second = (name for name in replicas.operators if name.startswith("f"))
    reached = {"s": 1.0, first: 4.0, second: 2.0, "out": 3.0}
    assert remaining_times(reached, replicas) == {"s": 2.0, first: 0.0, second: 1.0, "out": 0.0}


def test_readers_of_other_applications_are_named_while_their_application_runs() -> None:
    host = Host()
    shared = sharer("q", delay="2 s")
    assert host.shares(shared) == []
    told = host.told()
    assert [each.assignments["g"].shared_readers for each in told][-1] == (SharedReader("q", "other", 0, "d"),)
    last = told[-1]
    assert last.limits == {"g": 2.0, "f": 2.0, "s": 2.0}
    assert last.requires == {"q": version_of(shared)}
    assert set(last.witnesses) == {"a", "b", "d"}
    assert last.assignments["f"].shared_readers == ()
    host.one.receive("p", End("q", 1, "stopped"))
    last = host.told()[-1]
    assert (last.assignments["g"].shared_readers, last.limits, last.requires, last.witnesses) == ((), {}, {}, ())


def test_of_several_sharers_the_least_limit_counts_and_readers_are_in_the_order_of_their_names() -> None:
    host = Host()
    for name, delay in (("z", "3 s"), ("q", "2 s"), ("m", None), ("n", "9 s")):
        assert host.shares(sharer(name, delay=delay)) == []
    told = host.told()[-1]
    assert told.limits == {"g": 2.0, "f": 2.0, "s": 2.0}
    assert [each.application for each in told.assignments["g"].shared_readers] == ["m", "n", "q", "z"]
    host.one.receive("p", End("q", 1, "stopped"))
    assert host.told()[-1].limits == {"g": 3.0, "f": 3.0, "s": 3.0}


def test_the_deployment_of_a_sharer_says_where_what_it_reads_is() -> None:
    host = Host()
    host.shares(sharer("q"))
    told = host.told("q")[-1]
    assert told.assignments == {"other": Assignment("d", inputs=(InputFeed("r", "g"),), sink=True)}
    assert told.shared_producers == (SharedProducer("r", "g", "b"),)
    assert told.producer_epochs == {"r": {"s": 0, "f": 0, "g": 0}}


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (sharer("q", epoch=1), "g: g of r at b has moved"),
        (
            msgspec.structs.replace(sharer("q"), shared={"g": (Producer("r", "out", "b", 0, "o"),)}),
            "g: out of r at b has ended",
        ),
    ],
)
def test_a_sharer_of_what_is_not_here_is_refused_and_says_why(graph: Graph, why: str) -> None:
    host = Host()
    host.one.receive("p", Share(graph))
    assert [(to, each.operator, each.reason) for to, each in host.one.sent(Refused)] == [("p", "g", why)]


def test_a_stream_whose_component_is_moving_is_not_shared() -> None:
    host = Host()
    host.one.receive("o", GraphChanged(GRAPH.changed(Roles(PEERS, followers={"g": "c"}))))
    host.one.receive("p", Share(sharer("q")))
    assert [each.reason for _, each in host.one.sent(Refused)] == ["g: g of r at b is moving"]


def test_when_an_application_has_ended_what_others_read_stays_until_they_end() -> None:
    host = Host(msgspec.structs.replace(GRAPH, roles=Roles(PEERS, {"g": ("c",), "f": ("c",)})))
    host.shares(sharer("q"))
    host.told()
    host.one.receive("o", End("r", 2, "stopped", "stopped"))
    left = host.told()[-1]
    assert set(left.assignments) == {"s", "f", "g"}, "all that the stream comes from"
    assert [each.backups for each in left.assignments.values()] == [(), (), ()]
    assert left.assignments["g"].shared_readers == (SharedReader("q", "other", 0, "d"),)
    assert left.assignments["g"].inputs == (InputFeed("r", "f"),)
    assert (left.witnesses, left.requires, left.shared_producers) == ((), {}, ())
    host.one.receive("p", End("q", 1, "stopped"))
    ended = host.told()
    assert [each.assignments for each in ended] == [{}]


def test_what_an_ended_application_had_from_others_is_named_while_others_need_it() -> None:
    """An application t reads h of q, which reads g of r: when q has ended, h goes on, and so does what it reads."""
    stream = source("packets", rate=10, id="s").filter("bytes > 1", id="f").filter("bytes > 2", id="g")
    whole = stream.filter("bytes > 3", id="h").sink("out", id="other", delay="3 s")
    made = (*INPUTS, Producer("r", "g", "b", 0, "o"))
    between = reduced(whole, {"g": {"b": ("r", "g")}})
    second = Graph("q", 1, "p", between.to_bytes(), Roles({"g": "b", "h": "b", "other": "d"}), {"g": made})
    end = reduced(whole, {"h": {"b": ("q", "h")}}).to_bytes()
    third = Graph("t", 1, "v", end, Roles({"h": "b", "other": "e"}), {"h": (*made, Producer("q", "h", "b", 0, "p"))})
    host = Host()
    host.one.receive("p", Share(second))
    host.one.receive("d", Confirm(second, "h", "other"))
    host.one.receive("p", Begin("q", 1))
    host.one.receive("v", Share(third))
    host.one.receive("e", Confirm(third, "h", "other"))
    host.one.receive("v", Begin("t", 1))
    assert host.one.sent(Refused) == []
    assert host.told()[-1].limits == {"g": 3.0, "f": 3.0, "s": 3.0}
    assert host.told("q")[-1].limits == {"h": 3.0}
    host.one.receive("p", End("q", 1, "stopped", "stopped"))
    left = host.told("q")[-1]
    assert left.assignments["h"].inputs == (InputFeed("r", "g"),)
    assert left.shared_producers == (SharedProducer("r", "g", "b"),)
    assert left.producer_epochs == {"r": {"s": 0, "f": 0, "g": 0}}
    host.one.receive("o", Follow(GRAPH.changed(GRAPH.roles.with_follower("g", "c")), "g"))
    why = "q reads its stream; q has ended, and its components run on for other applications"
    assert [each.refusal for _, each in host.one.sent(Followed)] == [why]
    host.one.receive("v", End("t", 1, "stopped", "stopped"))
    ended = host.told("q")[-1]
    assert (ended.assignments, ended.shared_producers, ended.producer_epochs) == ({}, (), {})
    host.one.receive("o", Follow(GRAPH.changed(GRAPH.roles.with_follower("g", "c")), "g"))
    assert [each.refusal for _, each in host.one.sent(Followed)] == [""]


def test_a_component_that_is_taken_over_here_stays_for_those_that_were_known_to_share_it() -> None:
    roles = Roles(PEERS, {"g": ("c",)})
    one = OnePeer("c")
    one.receive("o", Share(msgspec.structs.replace(GRAPH, roles=roles)))
    shared = sharer("q")
    made = (*INPUTS, Producer("r", "g", "b", 0, "o", ("c",)))
    one.receive("p", Share(msgspec.structs.replace(shared, shared={"g": made})))
    taken = GRAPH.changed(roles.replaced({"g": "c"}, {"g": ()}))
    one.receive("o", TakeOver(taken, "g"), End("r", 2, "stopped", "stopped"))
    assert set(one.told(Deployment)[-1].assignments) == {"f", "g", "s"}
    assert one.synergy.ledger.requests == {"r"}


def test_the_old_peer_of_a_component_that_swaps_places_with_its_backup_keeps_a_snapshot() -> None:
    roles = Roles(PEERS, {"g": ("c",)})
    host = Host(msgspec.structs.replace(GRAPH, roles=roles))
    moving = host.graph.changed(roles.with_follower("g", "c"))
    host.one.receive("o", Follow(moving, "g", backup=True))
    assert {name: each.keeps for name, each in host.told()[-1].assignments.items()} == {
        "s": False, "f": False, "g": True, "out": False,
    }  # fmt: skip


def test_backups_that_readers_wait_for_are_named_as_such_and_those_that_execute_too() -> None:
    stream = source("packets", rate=10, id="s").filter("bytes > 1", id="f", availability="synchronized 2")
    plan = stream.filter("bytes > 2", id="g", availability="ordered 2").sink("out", id="out")
    graph = Graph("r", 2, "o", plan.to_bytes(), Roles(PEERS, {"f": ("c",), "g": ("d",)}))
    told = Host(graph).before[-1].assignments
    assert {name: (each.synchronized, each.in_order) for name, each in told.items()} == {
        "s": ((), False), "f": (("c",), False), "g": ((), True), "out": ((), False),
    }  # fmt: skip


def test_a_replica_says_of_which_operator_it_is_one_and_from_whose_state_it_begins() -> None:
    stream = source("packets", rate=10, id="s").filter("bytes > 1", id="f")
    plan = replicated(stream.sink("out", id="out", availability="active 2"), 2)
    first, second = (name for name in plan.operators if name.startswith("f"))
    peers = {"s": "a", first: "b", second: "", "out": "o"}
    rebuilding = Roles(peers).rebuilding(second, first, "c")
    graph = Graph("r", 2, "o", plan.to_bytes(), rebuilding)
    host = OnePeer("b")
    host.receive("o", Confirm(graph, first, "out"))
    (told,) = host.told(Deployment)
    assert set(told.assignments) == {"s", first, "out"}, "the lost one is nowhere"
    assert told.assignments[first] == Assignment("b", 0, ("c",), inputs=(InputFeed("r", "s"),), replica_of="f")
    assert told.assignments["out"].inputs == (InputFeed("r", first), InputFeed("r", ""))
    assert (told.assignments["out"].ports, told.assignments["out"].numbers) == ((0, 0), ())
    rebuilt = graph.changed(rebuilding.with_rebuilt(plan, second))
    host.receive("o", GraphChanged(rebuilt))
    (told,) = host.told(Deployment)
    made = told.assignments[second]
    assert (made.active, made.epoch, made.rebuilt, made.state_from, made.replica_of) == ("c", 1, 1, first, "f")
    assert told.assignments[first].rebuilt == 0
    assert told.assignments["out"].feeds == {0: InputFeed("r", first), 2: InputFeed("r", second)}


def test_when_an_application_has_ended_for_good_nothing_is_left_and_that_is_told_once() -> None:
    host = Host()
    host.one.receive("o", End("r", 2, "stopped", "stopped"), End("r", 2, "stopped", "stopped"))
    assert [each.assignments for each in host.told()] == [{}]


def test_sinks_with_results_stay_and_read_nothing() -> None:
    at_b = msgspec.structs.replace(GRAPH, roles=Roles({**PEERS, "out": "b"}))
    one = OnePeer("b")
    one.receive("o", Confirm(at_b, "out", ""), Begin("r", 2))
    assert set(one.told(Deployment)[-1].assignments["out"].inputs) == {InputFeed("r", "g")}
    one.receive("o", End("r", 2, "it has ended", "finished"))
    (left,) = one.told(Deployment)
    assert left.assignments == {"out": Assignment("b", sink=True)}
    one.receive("o", End("r", 2, "discarded"))
    assert [each.assignments for each in one.told(Deployment)] == [{}]


def test_what_never_was_here_is_not_ended() -> None:
    one = OnePeer("b")
    one.receive("o", End("r", 2, "stopped"))
    assert one.told(Deployment) == []


def test_what_has_no_prediction_is_on_no_way() -> None:
    assert remaining_times({}, PLAN) == {}
    assert remaining_times({"s": 1.0, "out": 5.0}, PLAN) == {"s": 0.0, "out": 0.0}
