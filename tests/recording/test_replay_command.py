"""``synergy replay``: its output, its refusals, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from synergy_nb.cli import _replay_command as replay_command
from synergy_nb.cli.commands import app
from synergy_nb.recording.recording_file import MAGIC, ChunkWriter, Received, create, read
from tests.recording.recorded import recorded

pytestmark = pytest.mark.usefixtures("wide_terminal")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("recording") / "run.rec")


def synergy(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, ["replay", *arguments], input=typed)


def refused(*arguments: str) -> str:
    result = synergy(*arguments)
    assert result.exit_code == 2, result.output
    assert not result.stdout
    return result.stderr.removeprefix("synergy: ").strip()


@pytest.mark.slow
def test_a_recording_lists_its_requests_and_says_that_the_effects_are_the_same(file: Path) -> None:
    result = synergy(str(file))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["request", "plan", "submitted", "at", "time", "outcome"]
    assert [line.split()[0] for line in lines[1:] if line[0] != " "] == ["runs", "refused", "resilient", "stopped"]
    assert "rejected: operator filter: delay at 4 peers" in result.stdout
    assert result.stderr.startswith("replayed 5 peers, ")
    assert result.stderr.strip().endswith("effects as recorded")


@pytest.mark.slow
def test_a_request_has_one_line_a_message(file: Path) -> None:
    result = synergy(str(file), "--request", "stopped")
    assert result.exit_code == 0
    heading, *lines = result.stdout.splitlines()
    assert heading == "stopped: plan short, submitted at peer-2: stopped"
    assert lines[0].startswith("   0.0000 s  driver → peer-2  SubmitPlan ")
    assert lines[0].endswith(", composed → request submitted")
    found = json.loads(synergy(str(file), "--request", "stopped", "--json").stdout)
    assert len(lines) == len(found["messages"])
    assert any("StopApplication" in line and line.endswith("stop the application → stopped") for line in lines)
    assert any(" Probe " in line and " → accepted filter, " in line for line in lines)


@pytest.mark.slow
def test_at_a_terminal_messages_come_one_after_the_other(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = synergy(str(file), "--request", "stopped", "--step").stdout.splitlines()
    assert len(piped) > 20
    monkeypatch.setattr(replay_command, "_at_a_terminal", lambda: True)
    stepped = synergy(str(file), "--request", "stopped", "--step", typed="\n\nq\n").stdout.splitlines()
    assert stepped[1] == "Enter: the next message; q and Enter: end"
    assert [line for line in stepped[2:] if line] == piped[1:4]


@pytest.mark.slow
def test_as_json_there_is_all_of_it(file: Path) -> None:
    found = json.loads(synergy(str(file), "--json").stdout)
    assert found["same"]
    assert found["notes"] == found["differences"] == []
    # a life begins in the file when the peer first writes, which depends on how much it has to write
    assert sorted(each["name"] for each in found["peers"]) == ["peer-1", "peer-2", "peer-3", "peer-4", "peer-4"]
    assert [each["request"] for each in found["requests"]] == ["runs", "refused", "resilient", "stopped"]
    asked = json.loads(synergy(str(file), "--json", "--request", "refused").stdout)
    assert asked["request"]["outcome"].startswith("rejected: ")
    first = asked["messages"][0]
    assert first == {
        "since_s": 0.0,
        "at": first["at"],
        "sender": "driver",
        "to": "peer-2",
        "message": "SubmitPlan",
        "text": first["text"],
        "outcomes": ["request submitted"],
        "received": True,
        "under_way": False,
    }


@pytest.mark.slow
def test_other_effects_are_named_and_the_command_fails(file: Path, tmp_path: Path) -> None:
    changed = create(tmp_path / "changed.rec")
    for number, life in enumerate(read(file).lives):
        writer = ChunkWriter(changed, str(number))
        writer.add(life.beginning)
        for given in life.inputs:
            record = given
            if life.name == "peer-2" and isinstance(given, Received) and b"SubmitPlan" in bytes(given.message):
                record = msgspec.structs.replace(given, sender="sim://1")
            writer.add(record)
        writer.close()
    result = synergy(str(changed))
    assert result.exit_code == 1
    assert "! peer-2, input " in result.stderr
    assert "(SubmitPlan): effect 1, event request_submitted" not in result.stderr
    assert "(SubmitPlan): effect 1: recorded event request_submitted, replayed event message_refused" in result.stderr
    assert "the effects of 1 peer differ from those recorded" in result.stderr


def test_an_incomplete_recording_is_replayed_and_the_loss_reported(file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.rec"
    cut.write_bytes(file.read_bytes()[:-100])
    result = synergy(str(cut))
    assert result.exit_code == 0
    assert "bytes at its end are incomplete: they are left out" in result.stderr
    empty = create(tmp_path / "empty.rec")
    result = synergy(str(empty))
    assert (result.exit_code, result.stdout) == (0, "no request was submitted\n")
    assert result.stderr == "replayed 0 peers, 0 inputs: the same 0 effects as recorded\n"


@pytest.mark.slow
def test_bad_input_is_refused_in_one_sentence(file: Path, tmp_path: Path) -> None:
    near = file.with_name("run.re")
    assert refused(str(near)) == f"{near}: no such file; expected a recording; did you mean 'run.rec'?"
    assert refused(str(file.parent)) == f"{file.parent}: Is a directory; expected a recording"
    assert refused(str(file), "--request", "stoped") == (
        "--request: 'stoped'; expected one of runs, refused, resilient, stopped; did you mean 'stopped'?"
    )
    assert refused(str(file), "--step").startswith("--step: no --request is given; expected --request ID")
    other = tmp_path / "plan.yaml"
    other.write_text("format: 1")
    assert refused(str(other)).startswith(
        f"{other}: not a recording; expected a file that was written with record=FILE"
    )
    other.write_bytes(MAGIC + (9).to_bytes(2, "big"))
    assert refused(str(other)).startswith(f"{other}: recording of format 9; expected format 1")
    assert "expected none, as the recording holds no request" in refused(
        str(create(tmp_path / "empty.rec")), "--request", "r"
    )


def test_a_run_is_not_recorded_over_a_file_that_is_there(file: Path, tmp_path: Path) -> None:
    for command in (["run", "plan.yaml"], ["up"]):
        result = CliRunner().invoke(app, [*command, "--record", str(file)])
        assert result.exit_code == 2
        assert f"--record: '{file}' exists already; expected a new file" in result.stderr
        result = CliRunner().invoke(app, [*command, "--record", str(tmp_path / "nowhere" / "run.rec")])
        assert result.exit_code == 2
        assert "expected a file in a folder that exists" in result.stderr
