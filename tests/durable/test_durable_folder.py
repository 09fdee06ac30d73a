"""A durable folder says what it is; what it does not know, or is damaged, is refused and left as it is."""

from __future__ import annotations

import contextlib
import errno
import random
import re
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from spark_stream.results import DeliveryProgress
from spark_stream.resumption import Resumption
from synergy_nb.dataflow.streams.log.frames import Ack, ComponentState, Data, PieceReply
from synergy_nb.dataflow.streams.log.state_pieces import Piece
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, Output, Point, Reader
from synergy_nb.dataflow.tuples import START
from synergy_nb.durable._disk_files import DiskFiles
from synergy_nb.durable.folder import DurableFolder, KeptApplication
from synergy_nb.durable.folder_copy import FolderCopy
from synergy_nb.durable.records import DurableError, mark, packed, unpacked
from synergy_nb.durable.writing import ComponentWork, carry_out
from synergy_nb.plan import source
from synergy_nb.plan.terms.known_functions import Payload, forget, payload_of
from synergy_nb.runtime.process.durable_applications import (
    check_parts,
    decided,
    keep_application,
    keep_change,
    prepare_change,
    provide_contents,
)
from synergy_nb.runtime.process.requests import Submit
from tests.connectors.broken_disk import FailingDisk, Killed
from tests.connectors.power_loss import PowerDisk

ACK = Ack(Output("app", "f"), Reader("app", "f", COPY, "durable"), ORIGIN, ORIGIN, ORIGIN)
PLAN = source("packets", rate=10.0).filter("bytes > 1").sink("large")


@pytest.fixture
def folder(tmp_path: Path) -> DurableFolder:
    made = DurableFolder(tmp_path / "folder")
    made.prepare()
    return made


def path_of(folder: DurableFolder) -> Path:
    return Path(folder.where)


def contents(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def kept(folder: DurableFolder, name: str = "large-1-abcdef") -> None:
    keep_application(folder, Submit(name, PLAN.to_bytes()), PLAN, 1.0)
    folder.files(name).append("filter@0.0", b"")


def checked(folder: DurableFolder) -> None:
    DurableFolder(folder.where).prepare()
    for each in folder.applications():
        folder.check_application(each.id)


def refused(folder: DurableFolder) -> str:
    """Why a folder is refused; nothing in it has changed then."""
    before = contents(path_of(folder))
    with pytest.raises(DurableError) as error:
        checked(folder)
    assert contents(path_of(folder)) == before
    return str(error.value).removeprefix(f"durable: {folder.where!r}: ")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    said = "it has no readable file FORMAT; expected a durable folder or an empty one"
    assert refused(DurableFolder(tmp_path)) == said


@pytest.mark.parametrize("path", [3, True, ""])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(DurableError, match=f"durable: {path!r}; expected the path of a folder"):
        DurableFolder(path)


@pytest.mark.parametrize("place", ["https://host/folder", "memory://folder", "file://folder", "://"])
def test_a_place_that_is_no_folder_of_the_system_or_a_store_is_refused_and_nothing_is_made(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DurableError, match=f"durable: {place!r}; expected a folder of this system"):
        DurableFolder(place).prepare()
    assert not list(tmp_path.iterdir())


def test_a_folder_may_be_named_by_its_url(tmp_path: Path) -> None:
    assert DurableFolder(f"file://{tmp_path}/folder").where == str(tmp_path / "folder")


def test_a_folder_of_another_version_is_refused(folder: DurableFolder) -> None:
    (path_of(folder) / "FORMAT").write_text("synergy_nb durable folder, version 7\n")
    known = "'synergy_nb durable folder, version 2' or an earlier one"
    assert refused(folder) == f"FORMAT says 'synergy_nb durable folder, version 7'; expected {known}"


def test_a_place_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DurableError, match="File exists; expected a folder that exists or can be made"):
        DurableFolder(tmp_path / "file").prepare()


@pytest.mark.parametrize("at", [0, 5, 40])
def test_a_damaged_application_is_refused(folder: DurableFolder, at: int) -> None:
    kept(folder)
    path = path_of(folder) / "large-1-abcdef" / "application"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert refused(folder).startswith("large-1-abcdef/application: it has another checksum than it states; expected")


@pytest.mark.parametrize(("version", "at"), [(1, 20), (2, 0), (2, 9), (2, 20), (2, -30)])
def test_a_damaged_file_of_a_component_is_refused(folder: DurableFolder, version: int, at: int) -> None:
    kept(folder)
    data = bytearray((Path(__file__).parent / f"version_{version}" / "app" / "u@0.0").read_bytes())
    data[at] ^= 1
    (path_of(folder) / "large-1-abcdef" / "filter@0.0").write_bytes(data)
    said = r"large-1-abcdef: filter@0\.0: the record at byte \d+ has another checksum"
    assert re.match(said, refused(folder))


@pytest.mark.parametrize("upgraded", [False, True])
@pytest.mark.parametrize("at", [0, 4, 11])
def test_a_file_of_version_1_whose_beginning_is_damaged_is_refused(
    folder: DurableFolder, at: int, *, upgraded: bool
) -> None:
    """Such a file does not tell its version: it was taken for one that the disk was never asked to hold."""
    kept(folder)
    (path_of(folder) / "FORMAT").write_text("synergy_nb durable folder, version 1\n")
    path = path_of(folder) / "large-1-abcdef" / "filter@0.0"
    whole = (Path(__file__).parent / "version_1" / "app" / "u@0.0").read_bytes()
    path.write_bytes(whole + whole[:40])  # the end of a record is lost
    checked(folder)
    if upgraded:
        for _ in range(2):
            folder.upgrade()
            checked(folder)
            assert path.read_bytes() == whole + mark(len(whole))
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert refused(folder).startswith("large-1-abcdef: filter@0.0: the record at byte 0 has another checksum")


@pytest.mark.parametrize("size", [0, 1, 1000, (1 << 20) + 3])
def test_the_checksum_of_a_record_follows_from_that_of_its_piece(size: int) -> None:
    data = random.Random(size).randbytes(size)
    frame = PieceReply(ACK.output, ACK.reader, Piece(1, data, zlib.crc32(data)))
    record = packed(frame)
    assert unpacked(record, "f@0.0") == [frame]
    broken = record[:-1] + bytes([record[-1] ^ 1])
    with pytest.raises(DurableError, match="another checksum than it states"):
        unpacked(broken, "f@0.0")


def test_what_the_disk_was_not_asked_to_hold_is_left_out_if_it_is_wrong(folder: DurableFolder) -> None:
    kept(folder)
    files, record = folder.files("large-1-abcdef"), packed(ACK)
    files.append("f@0.0", record)
    files.sync()
    files.append("f@0.0", record)
    path = path_of(folder) / "large-1-abcdef" / "f@0.0"
    for lost in (1, len(record) - 1, len(record)):
        path.write_bytes(path.read_bytes()[:-lost] + b"?" * lost)
        checked(folder)
        assert unpacked(path.read_bytes(), "f@0.0") == [ACK]


def test_what_a_disk_may_not_hold_is_never_said_to_be_there(folder: DurableFolder) -> None:
    kept(folder)
    disk = FailingDisk("sync", OSError(5, "Input/output error"), 1)
    files = DiskFiles(path_of(folder) / "large-1-abcdef", disk)
    files.append("f@0.0", packed(ACK))
    for _ in range(2):  # the system may say the second time that all is well
        with pytest.raises(OSError, match="Input/output error"):
            files.sync()


def test_one_cluster_uses_it_at_a_time(folder: DurableFolder) -> None:
    folder.lock()
    with pytest.raises(DurableError, match="another cluster uses it; expected one at a time"):
        DurableFolder(folder.where).lock()
    folder.unlock()
    DurableFolder(folder.where).lock()


def test_peers_that_still_write_to_it_are_waited_for(folder: DurableFolder) -> None:
    peer = DurableFolder(folder.where)
    peer.lock_as_peer()
    folder.lock()
    assert not folder.is_quiet
    with pytest.raises(DurableError, match="peers of an earlier cluster still write to it"):
        folder.check_quiet()
    peer.unlock()
    folder.check_quiet()
    DurableFolder(folder.where).lock_as_peer()


def test_an_application_is_kept_until_it_is_dropped(folder: DurableFolder) -> None:
    kept(folder)
    keep_application(folder, Submit("large-1-abcdef", PLAN.to_bytes(), epoch=5), PLAN, 9.0)
    (found,) = folder.applications()
    assert (found.id, found.placement, found.submitted, found.epoch) == ("large-1-abcdef", "composed", 1.0, 5)
    assert found.plan == PLAN.to_bytes()
    folder.drop(found.id)
    assert folder.applications() == []


def test_what_peers_have_not_accepted_yet_is_known_as_such(folder: DurableFolder) -> None:
    kept(folder)
    assert [each.decided for each in folder.applications()] == [False]
    folder.accept("large-1-abcdef")
    assert [each.decided for each in folder.applications()] == [True]
    folder.drop("large-1-abcdef")
    folder.accept("large-1-abcdef")  # it has ended meanwhile
    assert folder.applications() == []


@pytest.mark.parametrize("id_", ["{}/photos", "../photos", "..", ".", "", "a/../../photos", "FORMAT"])
def test_no_id_leads_out_of_the_folder(folder: DurableFolder, id_: str) -> None:
    """An application that had ended, such as a guest's that was refused, was removed with all files of the owner."""
    photos = path_of(folder).parent / "photos"
    photos.mkdir()
    (photos / "one").write_bytes(b"1")
    kept(folder)
    named = id_.format(path_of(folder).parent)
    with contextlib.suppress(OSError):  # there is no such folder, or a file is there
        folder.files(named).append("f@0.0", b"2")
    with contextlib.suppress(OSError):
        folder.drop(named)
    assert [each.name for each in photos.iterdir()] == ["one"]
    assert len(folder.applications()) == 1
    folder.check()


def test_functions_are_kept_with_the_plan(folder: DurableFolder) -> None:
    code = Payload(b"code")
    mine, other = f"mine@{code.digest}", f"other@{code.digest[::-1]}"
    folder.keep(KeptApplication("app", b"", "composed", 0.0), {f"apply:{mine}": code.encoded()})
    folder.keep(KeptApplication("lie", b"", "composed", 1.0), {f"apply:{other}": code.encoded()})
    found, lie = folder.applications()
    assert folder.content(found, f"apply:{mine}") == code.encoded()
    provide_contents(folder, found)
    assert payload_of(mine) == code.encoded()
    forget(mine)
    with pytest.raises(DurableError, match=f"lie: function: '{other}': what has come is other code, with the hash"):
        provide_contents(folder, lie)


def saved(folder: DurableFolder, number: int, **head: object) -> None:
    """Write the state of a sink, of which this number says the epoch."""
    copy, at = FolderCopy(Output("app", "out", number)), Point(number, START)
    said = {"at": None, "latest": 0, "position": 0, "forwarded": 0, "late": 0, "held": {}, **head}
    for frame in (
        Data(copy.output, copy.reader, at, (), True),
        ComponentState(copy.output, copy.reader, 0, {}, at, at, msgspec.msgpack.encode(said)),
    ):
        files, work = folder.files("app"), ComponentWork("out", number, copy.take(frame, 0.0))
        assert carry_out(files, [work]).error is None


def test_the_sinks_say_with_which_of_two_plans_an_application_goes_on(folder: DurableFolder) -> None:
    """Whoever leads may be cut off as it keeps the new plan, so that another one goes on with the old plan."""
    values = source("packets", rate="1 tuple/s", id="s")
    old, new = (values.filter(f"bytes > {least}", id="f").sink("out", id="out") for least in (1, 2))
    folder.keep(KeptApplication("app", old.to_bytes(), "composed", 0.0), {})

    def goes_on() -> bytes:
        (kept,) = folder.applications()
        return decided(folder, kept).plan

    assert goes_on() == old.to_bytes()
    change = prepare_change(folder, "app", old, new)
    assert goes_on() == old.to_bytes()
    keep_change(folder, "app", old, change)
    saved(folder, 0, change=1, own=0, ready=True, low={0: 1, 1: 1})
    assert goes_on() == change.new.to_bytes()
    saved(folder, 1, change=0, own=0, ready=False, low={0: 2})
    assert goes_on() == old.to_bytes()
    saved(folder, 2, change=2, own=0, ready=True, low={0: 3, 2: 3})  # for the next change, which is not kept yet
    assert goes_on() == old.to_bytes()
    assert prepare_change(folder, "app", old, new).number == 2
    with pytest.raises(OSError, match="a later change of the plan has begun"):
        keep_change(folder, "app", old, change)
    saved(folder, 3, change=1, own=1, ready=False, low={1: 2})
    assert goes_on() == change.new.to_bytes()


def test_what_is_left_of_others_is_removed(folder: DurableFolder) -> None:
    (path_of(folder) / "gone").mkdir()
    (path_of(folder) / "gone" / "f@0.0").write_bytes(b"")
    kept(folder)
    folder.clean()
    assert [each.name for each in path_of(folder).iterdir() if each.is_dir()] == ["large-1-abcdef"]


def test_a_write_that_the_disk_does_not_take_leaves_the_file_as_it_was(folder: DurableFolder) -> None:
    kept(folder)
    disk = FailingDisk("write", OSError(28, "No space left on device"), 0)
    files = DiskFiles(path_of(folder) / "large-1-abcdef", disk)
    files.append("f@0.0", b"first")
    before, disk.times = files.read("f@0.0"), 1
    with pytest.raises(OSError, match="No space"):
        files.append("f@0.0", b"second")
    assert files.read("f@0.0") == before


def test_a_file_that_a_full_disk_did_not_take_at_first_has_marks_from_its_beginning(folder: DurableFolder) -> None:
    kept(folder)
    disk, record = FailingDisk("write", OSError(28, "No space left on device"), 1), packed(ACK)
    files = DiskFiles(path_of(folder) / "large-1-abcdef", disk)
    with pytest.raises(OSError, match="No space"):
        files.append("f@0.0", record)
    files.append("f@0.0", record)
    files.sync()
    path = path_of(folder) / "large-1-abcdef" / "f@0.0"
    path.write_bytes(path.read_bytes() + b"?" * len(record))  # what came last when the power failed
    checked(folder)
    assert unpacked(path.read_bytes(), "f@0.0") == [ACK]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_kept_is_there_after_power_failures_and_what_was_dropped_is_not(seed: int, tmp_path: Path) -> None:
    rng, disk = random.Random(seed), PowerDisk(tmp_path / "disk")
    folder = DurableFolder(tmp_path / "disk" / "folder", disk)
    certain: dict[str, int] = {}  # application to the epoch that was kept
    for number in range(12):
        name, before = f"app-{number % 3}", dict(certain)
        disk.left, disk.done = rng.choice((3, 6, 9, 12, 99)), 0
        possible = [before]
        try:
            folder.prepare()
            if rng.random() < 0.3:
                possible.append({each: epoch for each, epoch in before.items() if each != name})
                folder.drop(name)
            else:
                possible.append({**before, name: number})
                folder.keep(KeptApplication(name, b"plan", "composed", 0.0, number), {"apply:f@1": b"code"})
            possible = possible[1:]
        except Killed:
            pass
        disk.lose(rng.getrandbits(32))
        folder.prepare()
        certain = {each.id: each.epoch for each in folder.applications()}
        assert certain in possible
        assert all(folder.content(each, "apply:f@1") == b"code" for each in folder.applications())


# -- checkpoints of Spark --------------------------------------------------------------------------------------------


def with_part(folder: DurableFolder, batch: int, version: str = "") -> Path:
    """Have an application whose part on Spark has handed over some micro-batches; returns its checkpoint."""
    plan = source("packets", rate=10.0).filter("bytes > 1", engine="spark").sink("large")
    keep_application(folder, Submit("app", plan.to_bytes()), plan, 1.0)
    checkpoint, output = folder.checkpoints("app") / "q-1" / "checkpoint", Output("app", "filter")
    since = Resumption(
        "q", DeliveryProgress(batch, 0, 0, 0, ()), (), "unix:///tmp/gone", f"/moved/q-1/{checkpoint.name}", (), version
    )
    reader, head = Reader("app", "filter", COPY, "durable"), msgspec.msgpack.encode(since)
    files = folder.files("app")
    files.append("filter@0.0", packed(Data(output, reader, ORIGIN, (), True)))
    files.append("filter@0.0", packed(ComponentState(output, reader, 0, {0: ORIGIN}, ORIGIN, ORIGIN, head, ())))
    for kind in ("offsets", "commits"):
        (checkpoint / kind).mkdir(parents=True)
        for number in range(batch + 1):
            (checkpoint / kind / str(number)).write_text("v1")
    (checkpoint / "metadata").write_text("{}")
    return checkpoint


def test_what_no_snapshot_names_of_checkpoints_is_removed_before_an_application_starts(folder: DurableFolder) -> None:
    checkpoint = with_part(folder, 3)
    left = folder.checkpoints("app") / "q-2" / "checkpoint"
    left.mkdir(parents=True)
    (application,) = folder.applications()
    check_parts(folder, application)
    assert not left.exists()
    assert (checkpoint / "commits" / "3").exists()


@pytest.mark.parametrize("what", ["removed", "damaged", "of another version"])
def test_a_checkpoint_from_which_no_query_can_go_on_is_refused_and_left_as_it_is(
    folder: DurableFolder, what: str
) -> None:
    checkpoint = with_part(folder, 3, version="3.1.2" if what == "of another version" else "")
    said = "it is of Spark 3.1.2; expected the same release, and this is"
    if what == "removed":
        checkpoint.rename(checkpoint.parents[3] / "elsewhere")
        said = "is not there; expected that nobody removes it"
    if what == "damaged":
        (checkpoint / "commits" / "2").unlink()
        (checkpoint / "commits" / "3").unlink()
        said = "it ends with micro-batch 1; expected 3"
    before = contents(path_of(folder))
    (application,) = folder.applications()
    with pytest.raises(DurableError, match=f"app: filter: the checkpoint {checkpoint}.*{said}"):
        check_parts(folder, application)
    assert contents(path_of(folder)) == before


def test_what_a_query_writes_after_its_application_has_ended_is_removed_when_it_ends(folder: DurableFolder) -> None:
    checkpoint = with_part(folder, 3)
    folder.clear_ended("app")
    assert checkpoint.exists()
    folder.drop("app")
    checkpoint.mkdir(parents=True)
    folder.clear_ended("app")
    assert not folder.has("app")


@pytest.mark.parametrize("seed", range(4))
def test_what_spark_has_written_is_held_before_a_snapshot_is_acknowledged(tmp_path: Path, seed: int) -> None:
    disk = PowerDisk(tmp_path / "disk")
    made = DurableFolder(tmp_path / "disk" / "folder", disk)
    made.prepare()
    checkpoint = with_part(made, 1)
    files = made.files("app")
    files.sync_checkpoints()
    (checkpoint / "offsets" / "2").write_text("v1")
    files.sync_checkpoints()
    (checkpoint / "offsets" / "3").write_text("v1")
    disk.lose(seed)
    assert {"0", "1", "2"} <= {each.name for each in (checkpoint / "offsets").iterdir()}
    assert all(each.read_text() == "v1" for each in (checkpoint / "offsets").iterdir() if each.name != "3")
    assert (checkpoint / "metadata").read_text() == "{}"


def test_a_disk_that_may_not_hold_a_checkpoint_is_not_asked_again(folder: DurableFolder) -> None:
    with_part(folder, 1)
    disk = FailingDisk("sync", OSError(errno.ENOSPC, "No space left on device"), 1)
    files = DiskFiles(path_of(folder) / "app", disk, folder.checkpoints("app"))
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            files.sync_checkpoints()
