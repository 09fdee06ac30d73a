"""The archive of Spark's classes: servers map it, and it is written anew where it is damaged.

That a server starts without one that is damaged shows the doctor's test in ``test_cli``.
"""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException

from spark_stream import class_archive, java, launching
from spark_stream._settings import Archives
from spark_stream.class_archive import ArchiveNotWritten
from spark_stream.java import Java
from spark_stream.server import Server
from synergy_nb.cli import _doctor as doctor


def mapped(pid: int | None) -> list[str]:
    """The archives that a process has mapped."""
    assert pid is not None
    return [each.path for each in psutil.Process(pid).memory_maps() if each.path.endswith(".jsa")]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(psutil.Process, "memory_maps"), reason="this system does not say what is mapped")
def test_a_server_maps_the_archive(spark_server: Server) -> None:
    paths = launching.archive_paths(java.find())
    if all(path.is_file() for path in paths):  # make test has written them before
        assert set(map(str, paths)) <= set(mapped(spark_server.pid))
        return
    assert class_archive.write() == paths.spark
    with Server() as server:
        server.ready()
        assert set(map(str, paths)) <= set(mapped(server.pid))


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Archives:
    """Archives in a folder of the test, which no Java writes: that of Spark's classes has 2 MB."""

    def of_java(runtime: Java, archive: Path) -> str:
        archive.touch()
        return ""

    def of_spark(runtime: Java, home: Path, archives: Archives) -> str:
        archives.spark.write_bytes(bytes(2_000_000))
        return ""

    paths = Archives(tmp_path / "new" / "java.jsa", tmp_path / "new" / "spark.jsa")
    monkeypatch.setattr(launching, "archive_paths", lambda runtime: paths)
    monkeypatch.setattr(class_archive, "_is_whole", lambda runtime, archive, folder: archive.is_file())
    monkeypatch.setattr(class_archive, "_of_java", of_java)
    monkeypatch.setattr(class_archive, "_recorded", of_spark)
    return paths


def test_an_archive_that_cannot_be_written_is_said_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded: Archives
) -> None:
    runtime = Java(tmp_path / "java", "17.0.1", "PATH")
    (tmp_path / "new").touch()
    with pytest.raises(ArchiveNotWritten, match="new: File exists; expected a writable folder"):
        class_archive.write(runtime)
    (tmp_path / "new").unlink()
    assert class_archive.write(runtime) == recorded.spark
    assert class_archive.write(runtime) == recorded.spark, "it is replaced"
    for step, left in (("_recorded", set(recorded)), ("_of_java", {recorded.spark})):
        for path in set(recorded) - left:
            path.unlink()
        monkeypatch.setattr(class_archive, step, lambda *given: "no class data sharing")
        with pytest.raises(ArchiveNotWritten, match=r"Java 17\.0\.1 of PATH wrote no archive: no class data sharing"):
            class_archive.write(runtime)
        assert set((tmp_path / "new").iterdir()) == left, "the former ones stay, and nothing else is left"


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "other bytes"])
def test_a_damaged_archive_of_java_is_written_anew_and_a_whole_one_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str
) -> None:
    paths = Archives(tmp_path / "java.jsa", tmp_path / "spark.jsa")
    monkeypatch.setattr(launching, "archive_paths", lambda runtime: paths)
    monkeypatch.setattr(class_archive, "_recorded", lambda runtime, home, archives: archives.spark.touch() or "")
    class_archive.write()
    whole = paths.java.stat()
    class_archive.write()
    assert paths.java.stat().st_mtime_ns == whole.st_mtime_ns
    content = bytearray(paths.java.read_bytes())
    if damage == "cut":
        del content[len(content) // 2 :]
    else:
        middle = slice(len(content) // 2, len(content) // 2 + 4096)
        content[middle] = bytes(each ^ 0xFF for each in content[middle])
    paths.java.unlink()  # it is not writable
    paths.java.write_bytes(content)
    class_archive.write()
    assert paths.java.stat().st_size == whole.st_size
    assert class_archive._is_whole(java.find(), paths.java, tmp_path)
    assert set(tmp_path.iterdir()) == set(paths)


def test_a_server_that_gives_no_answer_is_a_reason(monkeypatch: pytest.MonkeyPatch, recorded: Archives) -> None:
    def silent(runtime: Java, home: Path, archives: Archives) -> str:
        raise PySparkException("the session has ended\nJVM stacktrace: ...")

    monkeypatch.setattr(class_archive, "_recorded", silent)
    with pytest.raises(ArchiveNotWritten, match=r"gave no answer: the session has ended$"):
        class_archive.write(Java(recorded.java, "17.0.1", "PATH"))


def test_the_doctor_says_whether_there_is_one_and_writes_it(
    monkeypatch: pytest.MonkeyPatch, recorded: Archives
) -> None:
    without = doctor.archive_finding()
    assert (without.state, without.advice) == ("note", "synergy doctor --archive writes it")
    assert doctor.written_archive_finding().found.endswith(str(recorded.spark))
    assert doctor.archive_finding().found == f"2 MB at {recorded.spark}"
    monkeypatch.setattr(class_archive, "_recorded", lambda *given: "no class data sharing")
    assert doctor.written_archive_finding().state == "bad"
    assert doctor.archive_finding().state == "good", "the former one is still there"
