"""A durable folder in an object store: objects that are written once, and clusters that find each other by claims."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from synergy_nb.dataflow.streams.log.frames import Ack
from synergy_nb.dataflow.streams.log.values import COPY, ORIGIN, Output, Reader
from synergy_nb.durable import _object_place
from synergy_nb.durable._object_files import ObjectFiles
from synergy_nb.durable._object_place import BEAT_S, LEASE_S, POLL_S, ObjectPlace
from synergy_nb.durable._objects import Objects
from synergy_nb.durable.folder import DurableFolder, KeptApplication
from synergy_nb.durable.folder_copy import FolderWork, Write
from synergy_nb.durable.records import DurableError, packed, unpacked
from synergy_nb.durable.writing import ComponentWork, carry_out, fence
from synergy_nb.lifecycle.records.attempts import EPOCHS_OF_START
from synergy_nb.plan import source
from synergy_nb.runtime.process._claimant import ProcessClaimant
from tests.connectors.broken_disk import Killed
from tests.durable.memory_objects import AtOnce, MemoryObjects

URL = "s3://bucket/folder"
ACK = Ack(Output("app", "f"), Reader("app", "f", COPY, "durable"), ORIGIN, ORIGIN, ORIGIN)
PLAN = source("packets", rate=10.0).filter("bytes > 1").sink("large")


class Program:
    """A program that starts a cluster, on a machine whose processes it knows."""

    def __init__(self, name: str = "first", machine: str = "one", dead: tuple[str, ...] = ()) -> None:
        self.token = self.process = name
        self.machine = machine
        self.dead = dead
        self.waited = 0.0
        self.then: Callable[[], object] = lambda: None  # what happens while it waits
        self.again: Callable[[], bool] = lambda: False  # step that it takes again and again

    def lives(self, process: str) -> bool:
        return process not in self.dead

    def wait(self, seconds: float) -> None:
        self.waited += seconds
        self.then()

    def every(self, seconds: float, step: Callable[[], bool]) -> Callable[[], None]:
        assert seconds == BEAT_S
        self.again = step
        return lambda: None


def folder_in(objects: Objects, program: Program | None = None) -> DurableFolder:
    return DurableFolder(ObjectPlace(URL, objects, program))


def prepared(objects: Objects, program: Program | None = None) -> DurableFolder:
    folder = folder_in(objects, program)
    folder.prepare()
    return folder


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


# -- objects -----------------------------------------------------------------------------------------------------------


def test_objects_are_read_listed_and_removed_by_name() -> None:
    found = Objects("memory://bucket/objects", MemoryFileSystem())
    assert found.top() == ([], [])
    assert found.names() == []
    assert not found.has("a/1")
    found.put("a/1", b"one")
    found.put("b", b"two")
    found.put("b", b"three")
    assert found.top() == (["b"], ["a"])
    assert (found.names(), found.names("a/"), found.names("c/")) == (["a/1", "b"], ["a/1"], [])
    assert (found.has("a/1"), found.has("a"), found.has("a/2")) == (True, True, False)
    assert found.read_all(["b", "a/1"]) == [b"three", b"one"]
    assert found.read_all([]) == []
    with pytest.raises(FileNotFoundError):
        found.read("c")
    found.remove(["a/1"])
    found.remove([])
    assert found.names() == ["b"]


def test_an_object_is_created_by_one_alone() -> None:
    found = Objects("memory://bucket/created", MemoryFileSystem())
    assert found.create("a", b"one")
    assert found.create("a", b"one")  # the answer to the first try was lost
    assert not found.create("a", b"two")
    assert found.read("a") == b"one"


def test_whatever_a_store_raises_is_an_error_of_the_system() -> None:
    class Refusing(MemoryFileSystem):  # type: ignore[misc] # fsspec has no types
        def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_more: Any) -> None:
            raise KeyError(path) if mode == "create" else FileNotFoundError(path)

    found = Objects("memory://bucket", Refusing())
    with pytest.raises(OSError, match="KeyError: '/bucket/a'"):
        found.create("a", b"")
    with pytest.raises(OSError, match="the store takes nothing there") as error:
        found.put("a", b"")
    assert not isinstance(error.value, FileNotFoundError)  # which says that an application has ended


# -- the folder --------------------------------------------------------------------------------------------------------


def test_an_application_is_kept_until_it_is_dropped(objects: MemoryObjects) -> None:
    folder = prepared(objects)
    folder.keep(KeptApplication("app", PLAN.to_bytes(), "composed", 1.0, decided=False), {"f": b"function"})
    assert objects.names() == ["FORMAT", "app/application", "app/content-0", "app/fences/@0.fence"]
    (kept,) = folder.applications()
    assert not kept.decided
    assert not folder.has_begun(kept)
    folder.accept("app")
    (kept,) = prepared(objects).applications()
    assert kept.decided
    assert folder.has_begun(kept)
    assert folder.content(kept, "f") == b"function"
    assert folder.has("app")
    folder.drop("app")
    assert objects.names() == ["FORMAT"]
    assert not folder.has("app")
    assert folder.applications() == []


def test_what_is_left_of_others_is_removed(objects: MemoryObjects) -> None:
    folder = prepared(objects)
    folder.keep(KeptApplication("app", b"", "composed", 1.0), {})
    fence(folder.files("app"), {"f": 3, "g": 1})
    fence(folder.files("app"), {"f": 4})
    objects.put("gone/f@0.0~0", b"")
    objects.put("app/f@0.0~1", b"of a file whose first object is gone")
    folder.clean()
    fences = [f"app/fences/{name}.fence" for name in ("@0", "f@4", "g@1")]
    assert objects.names() == ["FORMAT", "app/application", *fences]  # a late peer may still write


def test_a_prefix_of_something_else_is_refused_and_left_as_it_is(objects: MemoryObjects) -> None:
    objects.put("mine/photo", b"mine")
    before = dict(objects.found)
    with pytest.raises(DurableError, match=f"durable: '{URL}': it has no readable file FORMAT"):
        folder_in(objects).prepare()
    assert objects.found == before


def test_a_folder_of_the_system_that_was_copied_to_a_store_is_refused(objects: MemoryObjects) -> None:
    objects.put("FORMAT", b"synergy_nb durable folder, version 2\n")
    with pytest.raises(DurableError, match=r"version 2'; expected 'synergy_nb durable objects, version 2'$"):
        folder_in(objects).prepare()


def test_a_store_that_lets_two_create_an_object_is_refused(
    objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(name: str, data: bytes) -> bool:
        objects.put(name, data)
        return True

    monkeypatch.setattr(objects, "create", create)
    with pytest.raises(DurableError, match="creates an object that is there already; expected a folder"):
        folder_in(objects).prepare()
    assert objects.names() == []


def test_a_store_that_fails_is_named(objects: MemoryObjects) -> None:
    objects.error = OSError("no such bucket")
    with pytest.raises(DurableError, match=f"durable: '{URL}': no such bucket; expected a folder"):
        folder_in(objects).prepare()


def test_the_package_of_a_store_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_more: Any, **_others: Any) -> None:
        raise ImportError

    monkeypatch.setattr(_object_place, "Objects", missing)
    with pytest.raises(DurableError, match="expected the package gcsfs: pip install gcsfs"):
        DurableFolder("gs://bucket/folder")


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("s3://", "expected the name of a bucket after s3://"),
        ("s3:///", "expected the name of a bucket after s3://"),
        ("s3://bucket/data[1]", r"expected none of \* \? \[, which stand for other names"),
        ("s3://bucket/*", r"expected none of \* \? \["),
    ],
)
def test_a_url_that_names_no_prefix_is_refused(url: str, wrong: str) -> None:
    with pytest.raises(DurableError, match=wrong):
        DurableFolder(url)


def test_operators_on_spark_are_refused(objects: MemoryObjects, tmp_path: Path) -> None:
    on_spark = source("packets", rate=10.0).filter("bytes > 1", engine="spark", id="f").sink("large")
    folder = prepared(objects)
    folder.check_engines(PLAN)
    with pytest.raises(DurableError, match="operator 'f': engine: 'spark'; expected 'peer', as Spark keeps no"):
        folder.check_engines(on_spark)
    with pytest.raises(DurableError, match="expected a folder of this system"):
        folder.checkpoints("app")
    DurableFolder(tmp_path).check_engines(on_spark)


# -- one cluster at a time ---------------------------------------------------------------------------------------------


def claims(objects: Objects) -> list[str]:
    return [name for name in objects.names() if name.startswith("claim-")]


def test_a_second_cluster_is_refused_until_the_first_lets_go(objects: MemoryObjects) -> None:
    first, program = prepared(objects, Program()), Program("second")
    first.lock()
    with pytest.raises(DurableError, match="another cluster uses it; expected one at a time"):
        folder_in(objects, program).lock()
    assert claims(objects) == ["claim-00000001"]
    first.unlock()
    second = folder_in(objects, program)
    second.lock()
    assert program.waited == 0.0
    assert claims(objects) == ["claim-00000002"]
    second.unlock()
    second.unlock()


def test_a_cluster_goes_on_at_once_if_the_program_before_does_not_live(objects: MemoryObjects) -> None:
    prepared(objects, Program()).lock()
    program = Program("second", dead=("first",))
    folder_in(objects, program).lock()
    assert program.waited == 0.0
    assert claims(objects) == ["claim-00000002"]


def test_a_claim_of_another_machine_has_to_stay_the_same_for_a_while(objects: MemoryObjects) -> None:
    first, second = Program(), Program("second", "two", dead=("first",))  # a process of that number is none of its
    prepared(objects, first).lock()
    second.then = lambda: first.again() if second.waited >= BEAT_S else None
    with pytest.raises(DurableError, match="another cluster uses it"):
        folder_in(objects, second).lock()
    assert second.waited == BEAT_S
    second.then, second.waited = (lambda: None), 0.0
    folder_in(objects, second).lock()
    assert second.waited == LEASE_S
    assert not first.again()
    assert claims(objects) == ["claim-00000002"]


def test_a_cluster_that_ends_while_another_one_waits_is_followed_at_once(objects: MemoryObjects) -> None:
    first, second = prepared(objects, Program()), Program("second", "two")
    first.lock()
    second.then = first.unlock
    folder_in(objects, second).lock()
    assert second.waited == POLL_S


def test_of_two_clusters_that_start_at_once_one_is_refused(objects: MemoryObjects) -> None:
    prepared(objects, Program()).lock()
    second, third = Program("second", "two"), Program("third", "three")
    faster = folder_in(objects, third)
    second.then = lambda: faster.lock() if second.waited == LEASE_S else None
    with pytest.raises(DurableError, match="another cluster uses it"):
        folder_in(objects, second).lock()
    assert claims(objects) == ["claim-00000002"]


def test_a_claim_is_renewed_as_soon_as_the_store_is_there_again(objects: MemoryObjects) -> None:
    program = Program()
    folder = prepared(objects, program)
    folder.lock()
    objects.error = OSError("no answer")
    assert program.again()
    before, objects.error = objects.read("claim-00000001"), None
    assert program.again()
    assert objects.read("claim-00000001") != before
    objects.error = OSError("no answer")
    folder.unlock()  # the next cluster waits a while


def test_a_cluster_that_is_late_leaves_the_claim_of_another_one(objects: MemoryObjects) -> None:
    folder = prepared(objects, Program())
    folder.lock()
    objects.create("claim-00000002", b"{}")
    before = dict(objects.found)
    folder.unlock()
    assert objects.found == before


def test_a_damaged_claim_is_named(objects: MemoryObjects) -> None:
    prepared(objects)
    objects.put("claim-00000001", b"?")
    with pytest.raises(DurableError, match=r"claim-00000001: .*; expected a folder whose files can be locked"):
        folder_in(objects, Program()).lock()


def test_a_process_is_known_by_its_number_and_its_start() -> None:
    me, pid = ProcessClaimant(), os.getpid()
    began = float(me.process.removeprefix(f"{pid} "))
    assert me.lives(me.process)
    assert not me.lives(f"{pid} {began - 60.0}")  # of an earlier process
    assert not me.lives(f"{1 << 30} {began}")
    assert me.token != ProcessClaimant().token
    assert me.machine == ProcessClaimant().machine
    left, over = [True, False], threading.Event()

    def step() -> bool:
        if len(left) == 1:
            over.set()
        return left.pop(0)

    end = me.every(0.001, step)
    assert over.wait(60.0)
    end()


def test_a_cluster_that_was_stopped_for_long_notes_and_forgets_nothing(objects: MemoryObjects) -> None:
    first, peer = prepared(objects, Program()), folder_in(objects)
    first.lock()
    peer.lock_as_peer()
    peer.keep(KeptApplication("app", b"", "composed", 0.0, decided=False), {})
    second = folder_in(objects, Program("second", "two"))
    second.lock()
    before = dict(objects.found)
    with pytest.raises(OSError, match="a later cluster uses it"):
        peer.keep(KeptApplication("new", b"", "composed", 0.0), {})
    with pytest.raises(OSError, match="a later cluster uses it"):
        peer.accept("app")
    peer.drop("app")
    assert objects.found == before
    second.drop("app")
    assert [each.id for each in second.applications()] == []


def test_a_peer_that_is_late_is_answered_by_nobody_and_removes_nothing(objects: MemoryObjects) -> None:
    folder = prepared(objects)
    folder.keep(KeptApplication("app", b"", "composed", 0.0, decided=False), {})
    late = folder.files("app")
    written = carry_out(late, [work("f@7.0"), work("f@7.1")])
    assert not work("").outdated_by(written.fences)
    folder.shut_out("app", EPOCHS_OF_START)
    done = carry_out(late, [work("f@7.1", removed="f@7.0")])
    assert (done.number, done.error) == (1, None)
    assert work("").outdated_by(done.fences) == EPOCHS_OF_START
    assert folder.files("app").names() == ["f@7.0", "f@7.1"]
    (kept,) = folder.applications()
    assert folder.has_begun(kept)  # so what goes on has the epoch of the fence, or a later one
    assert not ComponentWork("f", EPOCHS_OF_START, FolderWork([], [])).outdated_by(done.fences)


def work(name: str, removed: str = "") -> ComponentWork:
    writes = [Write(name, ACK), *([Write(removed, None)] if removed else [])]
    return ComponentWork("f", 7, FolderWork(writes, []))


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(objects: MemoryObjects) -> ObjectFiles:
    return ObjectFiles(objects, "app", AtOnce())


def test_a_file_is_a_row_of_objects(objects: MemoryObjects, files: ObjectFiles) -> None:
    record = packed(ACK)
    for _ in range(2):
        files.append("f@0.0", record)
        files.append("f@0.0", record)
        files.sync()
    files.sync()
    assert objects.names() == ["app/f@0.0~0", "app/f@0.0~1"]
    other = ObjectFiles(objects, "app", AtOnce())
    assert other.names() == ["f@0.0"]
    assert unpacked(other.read("f@0.0"), "f@0.0") == 4 * [ACK]
    files.append("f@0.0", record)
    files.sync()
    assert unpacked(other.read("f@0.0"), "f@0.0") == 4 * [ACK]  # as it was when it was listed
    other.names()
    assert unpacked(other.read("f@0.0"), "f@0.0") == 5 * [ACK]
    files.remove("f@0.0", "f@0.1")
    assert objects.names() == []
    with pytest.raises(FileNotFoundError):
        other.read("f@0.0")


def test_what_a_store_does_not_take_is_written_later_in_the_same_order(
    objects: MemoryObjects, files: ObjectFiles
) -> None:
    record = packed(ACK)
    files.append("f@0.0", record)
    objects.error = OSError("no answer")
    for _ in range(2):
        with pytest.raises(OSError, match="no answer"):
            files.sync()
        files.append("f@0.1", record)
    objects.error, objects.lost = None, OSError("the answer was lost")
    with pytest.raises(OSError, match="the answer was lost"):
        files.sync()
    assert objects.names() == ["app/f@0.0~0"]
    files.sync()
    assert [unpacked(files.read(name), name) for name in files.names()] == [[ACK], 2 * [ACK]]


def test_a_later_object_of_a_component_is_there_only_with_the_earlier_ones(
    objects: MemoryObjects, files: ObjectFiles
) -> None:
    for name in ("f@0.p1", "f@0.0", "g@0.0", "f@0.1"):
        files.append(name, packed(ACK))
    objects.left = 2
    with pytest.raises(Killed):
        files.sync()
    assert objects.names() == ["app/f@0.0~0", "app/f@0.p1~0"]


def test_nobody_writes_in_place_of_what_another_one_has_written(objects: MemoryObjects, files: ObjectFiles) -> None:
    files.append("f@0.0", packed(ACK))
    files.sync()
    other = ObjectFiles(objects, "app", AtOnce())
    other.append("f@0.0", packed(ACK) + packed(ACK))
    with pytest.raises(OSError, match="somebody else writes it"):
        other.sync()
    assert unpacked(files.read("f@0.0"), "f@0.0") == [ACK]


def test_a_file_that_lacks_an_object_is_damaged(objects: MemoryObjects, files: ObjectFiles) -> None:
    for _ in range(3):
        files.append("f@0.0", packed(ACK))
        files.sync()
    objects.remove(["app/f@0.0~1"])
    with pytest.raises(DurableError, match=r"f@0.0: it has the parts \[0, 2\]; expected all up to the last"):
        files.read("f@0.0")


def test_a_file_that_is_being_removed_is_not_there(objects: MemoryObjects, files: ObjectFiles) -> None:
    for _ in range(3):
        files.append("f@0.0", packed(ACK))
        files.sync()
    objects.left = 1
    with pytest.raises(Killed):
        files.remove("f@0.0")
    assert len(objects.names()) == 2
    assert files.names() == []
