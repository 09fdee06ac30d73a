"""A live run on Dask workers is recorded, and replayed without them: the same effects, in the same order."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from synergy_nb import Cluster, ClusterError, NotAdmitted, source
from synergy_nb.control import driver_messages as driver
from synergy_nb.recording.moments import Replay
from synergy_nb.recording.recording_file import Received, read
from synergy_nb.recording.replay import compare
from synergy_nb.recording.stepping import exchanges_of, requests_of

SECRET = b"a key that nobody may read: 32b."


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], Replay]:
    """A recorded run of four peers, the ids of its applications by what became of them, and a replay while it ran."""
    file = tmp_path_factory.mktemp("live") / "run.rec"
    packets = source("packets", rate="1000 tuples/s", duration="1 s", speed=0.0, seed=1)
    endless = source("packets", rate="500 tuples/s", seed=2)
    with Cluster(4, cores=1.0, record=file, secrets={"secret": SECRET}) as cluster:
        finished = cluster.submit(
            packets.filter("bytes > 100").encrypt("link", key="secret").sink("finished"), origin="peer-1"
        )
        assert finished.results().height > 0
        with pytest.raises(NotAdmitted) as refused:
            cluster.submit(endless.filter("bytes > 0", cost="2 s").sink("refused"), origin="peer-2")
        assert refused.value.replay().outcome.startswith("rejected")
        moved = cluster.submit(endless.filter("bytes > 10", id="large", at="peer-3").sink("moved"), origin="peer-1")
        while moved.graph["large"] != "peer-4":
            with contextlib.suppress(ClusterError):  # peers of a busy machine may answer too late
                cluster.move(moved, "large", "peer-4")
        replayed = moved.replay()
        moved.stop()
        failed = cluster.submit(endless.filter("bytes > 20", id="large", at="peer-4").sink("failed"), origin="peer-2")
        cluster.kill("peer-4")
        assert failed.wait(60.0) == "failed"
    return file, {"finished": finished.id, "stopped": moved.id, "failed": failed.id}, replayed


@pytest.mark.slow
def test_the_replay_of_a_live_run_has_the_same_effects(live: tuple[Path, dict[str, str], Replay]) -> None:
    recording = read(live[0])
    assert not recording.notes
    assert {life.name for life in recording.lives} == {f"peer-{number}" for number in range(1, 5)}
    outcome = compare(recording)
    assert [str(each) for each in outcome.differences] == []
    assert outcome.inputs == sum(len(life.inputs) for life in recording.lives)
    kinds = Counter(
        msgspec.msgpack.decode(given.message)[0]
        for life in recording.lives
        for given in life.inputs
        if isinstance(given, Received)
    )
    assert {
        "JoinRing",
        "OverheadsMeasured",
        "SparkOffered",
        "SubmitPlan",
        "MoveComponent",
        "LinkFailed",
    } <= kinds.keys()
    assert kinds["SubmitPlan"] == 4


@pytest.mark.slow
def test_a_replay_on_other_inputs_has_other_effects(live: tuple[Path, dict[str, str], Replay]) -> None:
    recording = read(live[0])
    life = next(each for each in recording.lives if each.name == "peer-2")
    number, given = next(
        (number, given)
        for number, given in enumerate(life.inputs)
        if isinstance(given, Received) and msgspec.msgpack.decode(given.message)[0] == "SubmitPlan"
    )
    submitted = msgspec.msgpack.decode(given.message, type=driver.SubmitPlan)
    changed = msgspec.structs.replace(submitted, application="somebody-elses")
    life.inputs[number] = msgspec.structs.replace(given, message=msgspec.Raw(msgspec.msgpack.encode(changed)))
    (found,) = compare(recording).differences
    assert (found.peer, found.number, found.input) == ("peer-2", number + 1, "SubmitPlan")
    assert "recorded" in found.text
    assert "replayed 'somebody-elses'" in found.text


@pytest.mark.slow
def test_a_live_recording_contains_the_outcome_of_each_request(live: tuple[Path, dict[str, str], Replay]) -> None:
    steps = compare(read(live[0])).steps
    requests = {each.request: each for each in requests_of(steps)}
    assert len(requests) == 4
    for outcome, request in live[1].items():
        assert requests[request].outcome.split(":")[0] == outcome
    assert "peer-4" in requests[live[1]["failed"]].outcome
    moved = exchanges_of(live[1]["stopped"], steps)
    names = [each.message for each in moved]
    assert names[0] == "SubmitPlan"
    assert names.index("MoveComponent") < names.index("Follow") < names.index("Followed") < names.index("GraphChanged")
    assert names.index("GraphChanged") < names.index("StopApplication")
    assert {each.sender for each in moved} >= {"driver", "peer-1", "peer-3", "peer-4"}
    assert not any("tcp://" in each.text for each in moved)
    failed = exchanges_of(live[1]["failed"], steps)
    assert any(said.startswith("failed: ") and "peer-4" in said for each in failed for said in each.outcomes)


def test_a_replay_on_a_cluster_that_records_has_every_message(live: tuple[Path, dict[str, str], Replay]) -> None:
    now, later = live[2], Cluster.replay(live[0], live[1]["stopped"])
    assert now.made_from == "the recording run.rec: every message as it was"
    assert now.outcome == "running"
    assert later.outcome == "stopped"
    same = [(moment.title, moment.sender, moment.to) for moment in now.moments if moment.received]
    # peers look nothing up elsewhere where their own part of the directory has it, which follows from random addresses
    assert {"Probe", "Follow", "Followed"} <= {title for title, _, _ in same}
    assert len(same) > 20
    assert set(same) <= {(moment.title, moment.sender, moment.to) for moment in later.moments}


def test_no_secret_and_no_row_is_recorded(live: tuple[Path, dict[str, str], Replay]) -> None:
    assert SECRET not in live[0].read_bytes()
    assert SECRET[:8] not in live[0].read_bytes()


@pytest.mark.slow
def test_the_command_replays_in_another_process(live: tuple[Path, dict[str, str], Replay]) -> None:
    def synergy(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "synergy_nb", "replay", str(live[0]), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True)

    listed = synergy()
    assert all(request in listed.stdout for request in live[1].values())
    assert "effects as recorded" in listed.stderr
    found = json.loads(synergy("--json", "--request", live[1]["finished"]).stdout)
    assert found["same"]
    assert found["messages"][0]["message"] == "SubmitPlan"
    assert found["messages"][0]["since_s"] == 0.0


def test_workers_whose_peers_run_already_are_not_recorded(tmp_path: Path) -> None:
    file = tmp_path / "again.rec"
    with Cluster(1, spark=False) as cluster:
        with pytest.raises(ClusterError, match=r"record: a peer runs on worker tls://.* already; expected none"):
            Cluster(cluster.scheduler, spark=False, record=file)
        assert not file.exists()
        file.touch()
        with pytest.raises(ValueError, match=r"record: '.*again.rec' exists already; expected a new file"):
            Cluster(1, record=file)
