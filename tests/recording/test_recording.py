"""A recorded run is replayed with the same effects, and changes of a recording are found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from synergy_nb import NotAdmitted, Simulation, source
from synergy_nb.algorithms.composition.messages import Dropped, Probe
from synergy_nb.assembly import PeerConfig, SynergyPeer
from synergy_nb.control import driver_messages as driver
from synergy_nb.control.graph import Report
from synergy_nb.control.peer import DRIVER, Instruct, Message, Send
from synergy_nb.control.roles import Roles
from synergy_nb.events import ProbeAccepted
from synergy_nb.recording.construction import Construction
from synergy_nb.recording.descriptions import DESCRIPTIONS, describe, subject
from synergy_nb.recording.recorder import RecordedPeer, encode_effects
from synergy_nb.recording.recording_file import (
    HEAD,
    MAGIC,
    ChunkWriter,
    Life,
    NotARecording,
    Received,
    Recording,
    Started,
    beginning_of,
    create,
    read,
)
from synergy_nb.recording.replay import compare, differs
from synergy_nb.recording.stepping import SteppedMessage, exchanges_of, requests_of
from tests.driver_message_examples import EXAMPLES
from tests.quick_cases import quick_first
from tests.recording.recorded import RecordedRing, plan, recorded

START = len(MAGIC) + 2
M = TypeVar("M", bound=Message)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("recording") / "run.rec")


@pytest.mark.parametrize("seed", quick_first(range(2, 6), 1))
def test_the_replay_of_a_simulated_run_has_the_same_effects(tmp_path: Path, seed: int) -> None:
    recording = read(recorded(tmp_path / "run.rec", seed))
    outcome = compare(recording)
    assert not outcome.differences
    assert not recording.notes
    assert sorted(life.name for life in recording.lives) == ["peer-1", "peer-2", "peer-3", "peer-4", "peer-4"]
    assert outcome.inputs == sum(len(life.inputs) for life in recording.lives) == len(outcome.steps)
    assert outcome.effects == sum(len(step.effects) for step in outcome.steps) > 500


@pytest.mark.slow
@pytest.mark.parametrize("salt", ["1", "2"])
def test_effects_do_not_depend_on_the_hashes_of_texts(file: Path, salt: str) -> None:
    program = (
        "import sys; from synergy_nb.recording.recording_file import read; from synergy_nb.recording.replay import *;"
        "found = compare(read(sys.argv[1])); print(found.inputs, *found.differences)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(
        [sys.executable, "-c", program, str(file)], env=environment, check=True, capture_output=True, text=True
    )
    assert told.stdout.split() == [str(compare(read(file)).inputs)]


# -- what differs is found -------------------------------------------------------------------------------------------


def changed(recording: Recording, kind: type[M], change: Callable[[M], M]) -> tuple[Life, int]:
    """Change the first recorded message of a type; gives where it is."""
    for life in recording.lives:
        for number, given in enumerate(life.inputs):
            if isinstance(given, Received) and msgspec.msgpack.decode(given.message)[0] == kind.__name__:
                message: M = msgspec.msgpack.decode(given.message, type=kind)
                altered = msgspec.Raw(msgspec.msgpack.encode(change(message)))
                life.inputs[number] = msgspec.structs.replace(given, message=altered)
                return life, number + 1
    raise AssertionError(f"no {kind.__name__} is recorded")


@pytest.mark.slow
def test_a_changed_message_changes_the_effects_and_the_first_difference_is_named(file: Path) -> None:
    recording = read(file)
    life, number = changed(
        recording, driver.SubmitPlan, lambda each: msgspec.structs.replace(each, application="another")
    )
    (found,) = compare(recording).differences
    assert (found.peer, found.number, found.input) == (life.name, number, "SubmitPlan")
    assert str(found) == (
        f"{life.name}, input {number} (SubmitPlan): effect 1, event request_submitted: subject: "
        "recorded 'runs', replayed 'another'"
    )


def test_a_changed_construction_changes_the_effects(file: Path) -> None:
    recording = read(file)
    life = recording.lives[0]
    construction = life.beginning.construction
    config = msgspec.structs.replace(construction.config, seed=construction.config.seed + 1)
    other = msgspec.structs.replace(life.beginning, construction=msgspec.structs.replace(construction, config=config))
    life.beginning = other
    (found,) = compare(recording).differences
    assert found.peer == "peer-1"


def test_a_message_of_another_version_ends_the_replay_of_its_peer(file: Path) -> None:
    recording = read(file)
    given = recording.lives[0].inputs[1]
    assert isinstance(given, Received)
    recording.lives[0].inputs[1] = msgspec.structs.replace(
        given, message=msgspec.Raw(msgspec.msgpack.encode(["Unheard", 1]))
    )
    outcome = compare(recording)
    (found,) = outcome.differences
    assert "this version cannot read the message: message 'Unheard'" in found.text
    assert len([step for step in outcome.steps if step.life is recording.lives[0]]) == 2


def test_numbers_may_be_keys_of_what_is_recorded() -> None:
    """As the inputs of a rebuilt replica: a peer that recorded could not handle the message about it."""

    def encoded(inputs: dict[int, int]) -> bytes:
        return encode_effects([Instruct(Report("app", "running", roles=Roles(inputs={"join~1": inputs})))])

    assert encoded({0: 2, 1: 3}) == encoded({1: 3, 0: 2}) != encoded({0: 3, 1: 2})


def test_an_error_of_a_handler_is_recorded_and_replayed() -> None:
    records: list[object] = []
    peer = RecordedPeer("a", 1, beginning_of(Construction("a", PeerConfig())), records.append)
    synergy = SynergyPeer("a", PeerConfig(), kernel=lambda *_: peer)
    assert synergy.peer is peer
    peer.start(1.0)
    with pytest.raises(ValueError, match="measured: 'colour'"):
        peer.receive(DRIVER, driver.StreamProfiled("s", {"colour": 1.0}), 2.0)
    with pytest.raises(ValueError, match="a peer that is recorded takes messages only"):
        peer.call(3.0, synergy.loads.withdraw)
    recording = Recording()
    life = Life(beginning_of(Construction("a", PeerConfig())))
    life.inputs = [each for each in records if isinstance(each, Started | Received)]
    recording.lives.append(life)
    assert [type(each).__name__ for each in life.inputs] == ["Started", "Received"]
    assert life.inputs[1].error.startswith("ValueError: measured: 'colour'")
    assert compare(recording).differences == []
    life.inputs[1] = msgspec.structs.replace(life.inputs[1], error="")
    (found,) = compare(recording).differences
    assert found.text.startswith("recorded no error, replayed ValueError: measured: 'colour'")


@pytest.mark.parametrize(
    ("recorded", "replayed", "text"),
    [
        ([], [], ""),
        ([[0, "b", ["Hi", 1]]], [], "effect 1: recorded Hi to b, replayed none"),
        ([], [[1, "Place", {}]], "effect 1: recorded none, replayed instruction Place"),
        ([[0, "b", ["Hi", 1]]], [[0, "c", ["Hi", 1]]], "effect 1: recorded Hi to b, replayed Hi to c"),
        ([[0, "b", ["Hi", 1]]], [[0, "b", ["Hi", 2]]], "effect 1, Hi to b: number: recorded 1, replayed 2"),
        (
            [[1, "Place", {"at": {"o": 1}}]],
            [[1, "Place", {"at": {"o": 2}}]],
            "effect 1, instruction Place: at: o: recorded 1, replayed 2",
        ),
        ([[2, ["ended", b"abc"]]], [[2, ["ended", b"abcd"]]], None),
    ],
)
def test_the_first_difference_of_effects_is_described_in_words(
    recorded: list[list[object]], replayed: list[list[object]], text: str | None
) -> None:
    found = differs(recorded, replayed, {"Hi": ("number",)})
    assert found == text if text is not None else "recorded 3 bytes, replayed 4 bytes" in found


# -- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cut_recording_is_read_up_to_the_cut(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    cut = tmp_path / "cut.rec"
    before = -1
    for size in range(START, len(data), len(data) // 23):
        cut.write_bytes(data[:size])
        recording = read(cut)
        outcome = compare(recording)
        assert not outcome.differences
        assert outcome.inputs >= before
        before = outcome.inputs
        if recording.notes:
            assert "bytes at its end are incomplete" in recording.notes[0]


def test_damage_in_the_middle_costs_the_peer_whose_chunk_it_was_what_follows(file: Path, tmp_path: Path) -> None:
    data = bytearray(file.read_bytes())
    first = START + HEAD.size + HEAD.unpack_from(data, START)[1]  # where the second chunk begins
    data[first + HEAD.size + 40] ^= 0xFF
    damaged = tmp_path / "damaged.rec"
    damaged.write_bytes(data)
    recording = read(damaged)
    assert any(f"bytes from byte {first:,} on are damaged" in note for note in recording.notes)
    assert len(recording.notes) == 2
    outcome = compare(recording)
    assert not outcome.differences
    assert 0 < outcome.inputs < compare(read(file)).inputs


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a recording; expected a file that was written with record=FILE or --record FILE"),
        (b"PK\x03\x04 something else", "not a recording"),
        (MAGIC + (7).to_bytes(2, "big"), "recording of format 7; expected format 1"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "other"
    path.write_bytes(data)
    with pytest.raises(NotARecording, match=reason):
        read(path)


def test_a_recording_needs_a_new_file_in_a_folder_that_exists(tmp_path: Path) -> None:
    path = tmp_path / "run.rec"
    assert create(path) == path
    assert read(path).lives == []
    with pytest.raises(ValueError, match=r"record: '.*run.rec' exists already; expected a new file"):
        create(path)
    with pytest.raises(ValueError, match="No such file or directory; expected a new file in a folder that exists"):
        create(tmp_path / "nowhere" / "run.rec")


def test_a_peer_that_cannot_write_records_that_once_and_goes_on(tmp_path: Path) -> None:
    path = create(tmp_path / "run.rec")
    failed: list[str] = []
    writer = ChunkWriter(path, "a", failed=failed.append)
    assert writer._file is not None
    readable = os.open(path, os.O_RDONLY)
    os.dup2(
        readable, writer._file
    )  # as a disk that went away: what is written fails, and no other thread gets its number
    os.close(readable)
    for _ in range(3):
        writer.add(Started(1.0, msgspec.Raw(b"\x90")))
        writer.flush()
    assert failed == ["Bad file descriptor"]
    writer.close()


def test_writers_do_not_mix_their_chunks_and_records_are_written_when_there_are_many(tmp_path: Path) -> None:
    path = create(tmp_path / "run.rec")
    asked: list[int] = []
    beginnings = {name: beginning_of(Construction(name, PeerConfig(name=name))) for name in "ab"}
    writers = {name: ChunkWriter(path, name, lambda: asked.append(1)) for name in "ab"}
    for name, writer in writers.items():
        writer.add(beginnings[name])
    record = Started(1.0, msgspec.Raw(msgspec.msgpack.encode([b"x" * 1000])))
    for _ in range(200):
        for writer in writers.values():
            writer.add(record)
    for writer in writers.values():
        writer.close()
    assert path.stat().st_size == START + sum(writer.written for writer in writers.values())
    lives = read(path).lives
    assert [(life.name, len(life.inputs)) for life in lives] == [("a", 200), ("b", 200)]
    assert 2 < len(asked) < 20  # once for each chunk


# -- stepping through ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stepped(file: Path) -> Callable[[str], list[SteppedMessage]]:
    steps = compare(read(file)).steps
    return lambda request: exchanges_of(request, steps)


def test_the_requests_of_a_recording_are_listed_with_their_origins(file: Path) -> None:
    found = requests_of(compare(read(file)).steps)
    assert [(each.request, each.plan, each.origin) for each in found] == [
        ("runs", "large packets", "peer-1"),
        ("refused", "impossible", "peer-2"),
        ("resilient", "robust", "peer-3"),
        ("stopped", "short", "peer-2"),
    ]
    outcomes = {each.request: each.outcome for each in found}
    assert outcomes["stopped"] == "stopped"
    assert outcomes["refused"].startswith("rejected: operator filter: delay at 4 peers")
    assert "0.001 s is allowed" in outcomes["refused"]
    assert [one.at <= two.at for one, two in pairwise(found)] == [True] * 3


@pytest.mark.slow
def test_a_decision_is_stepped_through_message_by_message(
    file: Path, stepped: Callable[[str], list[SteppedMessage]]
) -> None:
    steps = compare(read(file)).steps
    told = stepped("runs")
    names = [each.message for each in told]
    assert names[0] == "SubmitPlan"
    assert (told[0].sender, told[0].to) == ("driver", "peer-1")
    assert {"Lookup", "Found", "Probe", "Acknowledged", "Returned", "Release", "Confirm", "Begin"} <= {*names}
    assert names.index("Lookup") < names.index("Probe") < names.index("Returned") < names.index("Confirm")
    accepted = [
        effect.event.operator
        for step in steps
        for effect in step.effects
        if hasattr(effect, "event") and isinstance(effect.event, ProbeAccepted) and effect.event.subject == "runs"
    ]
    probes = [each for each in told if each.message == "Probe"]
    assert sorted(each.text.split()[1].rstrip(";") for each in probes) == sorted(accepted)
    assert all(any(said.startswith("accepted ") for said in each.outcomes) for each in probes)
    confirmed = [each.text for each in told if each.message == "Confirm"]
    assert confirmed == ["commit sink", "commit filter, which sink reads", "commit source, which filter reads"]
    assert any("running" in each.outcomes for each in told)
    assert all(one.at <= two.at for one, two in pairwise(told))
    assert not any("sim://" in each.text for each in told), "people read names, not addresses"
    assert told[-1].message in ("DelayMeasured", "Registered", "Lookup", "Found", "Lost", "End", "")


def test_the_reason_of_a_dropped_probe_is_shown_at_its_step(stepped: Callable[[str], list[SteppedMessage]]) -> None:
    told = stepped("refused")
    dropped = [each for each in told if each.message == "Dropped"]
    assert dropped
    assert all(each.to == "peer-2" for each in dropped)
    text = "filter at peer-1: delay: at most 1 ms, there would be "
    assert any(each.text.startswith(text) for each in dropped)
    checked = [each for each in told if each.message == "Probe" and each.to == "peer-1" and "check filter" in each.text]
    assert any(said.startswith(f"dropped: {text}") for each in checked for said in each.outcomes)


def test_messages_that_nobody_received_are_reported(tmp_path: Path) -> None:
    ring = RecordedRing(tmp_path / "run.rec", peers=3, seed=3)
    ring.run(10.0)
    ring.simulation.loss = 0.5
    ring.submit(1, "r", plan())
    ring.run(20.0)
    steps = compare(read(ring.close())).steps
    lost = [each for each in exchanges_of("r", steps) if not each.received]
    assert lost
    sent = {type(effect.message).__name__ for step in steps for effect in step.effects if isinstance(effect, Send)}
    assert {each.message for each in lost} <= sent
    assert not any(each.under_way for each in lost)  # they were lost long before the end


def test_messages_of_the_last_moment_are_not_called_lost() -> None:
    simulation = Simulation(peers=6, cores=1, seed=5)
    heavy = source("packets", rate="100 tuples/s").delay("50 ms", id="heavy").sink("too much", delay="2 s")
    with pytest.raises(NotAdmitted) as refusal:
        simulation.submit(heavy)
    moments = refusal.value.replay().moments  # releases were sent at the last moment
    under_way = [each for each in moments if each.under_way]
    assert under_way
    assert under_way == [each for each in moments if not each.received]
    assert "may be on its way still" in refusal.value.replay().to_text()
    assert "nobody received it" not in refusal.value.replay().to_text()
    simulation.run("2 s")
    assert all(each.received for each in refusal.value.replay().moments)


def test_every_message_is_described() -> None:
    peer = SynergyPeer("a", PeerConfig()).peer
    assert set(DESCRIPTIONS) == {*peer.message_types, *peer.driver_message_types}
    for message in EXAMPLES:
        text = describe(message)
        assert text
        assert "{m." not in text
        assert subject(message) == (getattr(message, "application", "") or getattr(message, "request", ""))
    assert subject(Probe(b"no request", "o", (), 1, 1, 0.0)) == ""
    drop = Dropped("r", 1, "filter", "peer-3", "processing capacity", 2.0, 1.25, (), 1)
    assert describe(drop) == "filter at peer-3: processing capacity: needs 2 cores, there is 1.25 cores"


def test_a_recorded_run_equals_one_without_recording(tmp_path: Path) -> None:
    journals = []
    for record in (True, False):
        ring = RecordedRing(tmp_path / f"{record}.rec", peers=3, seed=5, record=record)
        ring.submit(1, "r", plan())
        ring.run(5.0)
        journals.append([(event.kind, event.time) for event in ring.simulation.journal])
        assert read(ring.close()).lives == [] or record
    assert journals[0] == journals[1]
