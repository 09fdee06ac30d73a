"""A durable folder in an object store, by the client of the store: objects, and a cluster of which all is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from synergy_nb import Cluster, ClusterError, csv, source
from synergy_nb.durable._objects import Objects
from synergy_nb.durable.folder import DurableFolder
from synergy_nb.durable.records import DurableError
from tests.durable.killed_programs import append, program, values
from tests.durable.s3_server import PAGE, s3_server
from tests.waiting import asked_until

URL = "s3://bucket/a folder"


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """The objects of a server, which clients find by their environment."""
    settings = {"ACCESS_KEY_ID": "mine", "SECRET_ACCESS_KEY": "mine", "DEFAULT_REGION": "us-east-1"}
    with s3_server() as (address, objects):
        for name, value in (settings | {"ENDPOINT_URL": address, "EC2_METADATA_DISABLED": "true"}).items():
            monkeypatch.setenv(f"AWS_{name}", value)
        yield objects


def test_objects_are_those_of_the_store(stored: dict[str, bytes]) -> None:
    objects = Objects(URL)
    assert (objects.top(), objects.names(), objects.has("a")) == (([], []), [], False)
    assert objects.create("a/f%2F1@3.0~0", b"one")
    assert objects.create("a/f%2F1@3.0~0", b"one")
    assert not objects.create("a/f%2F1@3.0~0", b"two")
    objects.put("b", b"")
    objects.put("b", b"three")
    assert stored == {"bucket/a folder/a/f%2F1@3.0~0": b"one", "bucket/a folder/b": b"three"}
    assert (objects.top(), objects.has("a"), objects.has("b"), objects.has("c")) == ((["b"], ["a"]), True, True, False)
    assert objects.read_all(["b", "a/f%2F1@3.0~0"]) == [b"three", b"one"]
    with pytest.raises(FileNotFoundError):
        objects.read("c")
    names = [f"many/{number:03}" for number in range(2 * PAGE + 1)]
    for name in names:
        stored[f"bucket/a folder/{name}"] = b""
    assert objects.names("many/") == names
    objects.remove(names)
    objects.remove(names[:1])
    assert objects.names() == ["a/f%2F1@3.0~0", "b"]


def test_a_store_that_is_not_there_is_named(stored: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(DurableError, match=r"durable: 's3://bucket/a folder': .*127.0.0.1:9.*; expected a folder that"):
        DurableFolder(URL).prepare()


@pytest.mark.slow
def test_an_application_goes_on_from_a_store_after_the_death_of_everything(
    stored: dict[str, bytes], tmp_path: Path
) -> None:
    inputs, out, file = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "plan.yaml"
    inputs.write_text("time,v\n")
    tail = source("tail", path=str(inputs), format="csv", columns={"time": "time", "v": "int"}, id="in")
    file.write_text(tail.filter("v >= 0", id="f").sink("out", to=csv(out, every="50 ms")).to_yaml())
    append(inputs, 0, 300)
    with program(URL, 2, file):
        asked_until(lambda: len(values(out)) >= 100)
        append(inputs, 300, 600)
    append(inputs, 600, 900)
    with Cluster(1, cores=1.0, spark=False, durable=URL) as cluster:
        (application,) = cluster.applications.values()
        with pytest.raises(ClusterError, match="another cluster uses it; expected one at a time"):
            Cluster(1, durable=URL)
        asked_until(lambda: len(values(out)) >= 900)
        assert "restarted from its durable folder; nothing is lost" in str(application.explain())
        application.stop()
        asked_until(lambda: not DurableFolder(URL).applications())
    assert list(map(int, values(out))) == [*range(900)]
    assert [name.removeprefix("bucket/a folder/") for name in stored] == ["FORMAT", "claim-00000002"]
