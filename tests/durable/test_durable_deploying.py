"""What a peer tells its driver of a durable application, what it refuses, and how it starts one again."""

from __future__ import annotations

from typing import Any

import pytest

from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import SubmitPlan
from synergy_nb.control.roles import Roles
from synergy_nb.dataflow.deployments import FOLDER, Deployment
from synergy_nb.events import ApplicationRestarted
from synergy_nb.lifecycle.records.messages import Confirm, Graph
from synergy_nb.lifecycle.records.session_config import SessionConfig
from synergy_nb.lifecycle.session import EPOCHS_OF_ATTEMPT
from synergy_nb.plan import Plan, source
from tests.one_peer import OnePeer
from tests.simulated import Ring

CONFIG = SessionConfig(durable=True)


def lines(name: str) -> Any:
    return source("socket", address="127.0.0.1:9", format="csv", columns={"time": "time", "v": "int"}, id=name)


def packets(name: str) -> Any:
    return source("packets", rate="10 tuples/s", id=name)


def told(plan: Plan, session: SessionConfig, backups: dict[str, tuple[str, ...]] | None = None) -> Deployment:
    """What the peer of the sink is told to deploy."""
    peers = {name: "c" if each.kind == "sink" else "a" for name, each in plan.operators.items()}
    one = OnePeer("c", session=session)
    graph = Graph("r", 1, "o", plan.to_bytes(), Roles(peers, backups or {}))
    one.receive("o", Confirm(graph, "out", ""))
    (found,) = one.told(Deployment)
    assert isinstance(found, Deployment)
    return found


@pytest.mark.parametrize(
    ("plan", "waited"),
    [
        (packets("s").filter("bytes > 1", id="f").sink("out", id="out"), {"out"}),
        (lines("s").filter("v > 1", id="f").sink("out", id="out"), {"s", "out"}),
        (packets("s").union(packets("t"), id="u").sink("out", id="out"), {"u", "out"}),
    ],
    ids=["repeatable", "unrepeatable", "several inputs"],
)
def test_readers_wait_for_the_folder_where_nobody_could_make_the_same_again(plan: Plan, waited: set[str]) -> None:
    assignments = told(plan, CONFIG).assignments
    assert {name for name, each in assignments.items() if FOLDER in each.synchronized} == waited
    assert all(each.backups == (FOLDER,) for each in assignments.values())
    assert all(FOLDER not in told(plan, SessionConfig()).assignments[name].backups for name in assignments)


def test_the_folder_is_no_peer_and_executes_nothing() -> None:
    plan = packets("s").filter("bytes > 1", id="f").sink("out", id="out", availability="ordered 2")
    deployment = told(plan, CONFIG, {"f": ("b",)})
    assert deployment.assignments["f"].backups == ("b", FOLDER)
    assert deployment.assignments["f"].followers == ("b",)
    assert FOLDER not in deployment.peers


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (
            packets("s").filter("bytes > 1", id="f").sink("out", availability="active 2", replica_distance="1 ms"),
            "active",
        ),
        (packets("s").filter("bytes > 1", id="f", engine="spark").sink("out"), "operator 'f': engine: 'spark'"),
    ],
    ids=["active replicas", "Spark"],
)
def test_what_a_folder_could_not_have_is_refused(plan: Plan, said: str) -> None:
    one = OnePeer("o", session=CONFIG)
    with pytest.raises(ValueError, match=f"{said}.*as this cluster is durable"):
        one.synergy.requests.submit("r", plan)


def test_no_plan_takes_the_place_of_a_durable_one() -> None:
    one = OnePeer("o", session=CONFIG)
    with pytest.raises(ValueError, match=r"application: 'r' keeps its plan; .* in a durable cluster"):
        one.synergy.requests.submit("s", packets("s").sink("out"), beside="r")


def test_each_start_has_epochs_of_its_own_and_says_what_is_lost() -> None:
    ring = Ring(2, seed=1, config=PeerConfig(session=CONFIG, components=("filter", "sink", "source:socket")))
    plan = lines("s").filter("v > 1", id="f").sink("out", id="out")
    ring.simulation.report("peer-0", SubmitPlan("r", plan.to_bytes(), epoch=7 << 20))
    assert ring.until_decided("r").status == "running"
    epochs = ring.synergy["peer-0"].requests["r"].graph.roles.epochs
    assert epochs.keys() == plan.operators.keys()
    assert {each - (7 << 20) for each in epochs.values()} < set(range(0, 4 * EPOCHS_OF_ATTEMPT, EPOCHS_OF_ATTEMPT))
    (restarted,) = ring.events("r", ApplicationRestarted)
    assert restarted.kept
    assert restarted.lost == {"s": "lines that were sent until it runs again"}
