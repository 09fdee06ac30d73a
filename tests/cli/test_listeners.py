"""What clusters listen at, and who may use it; what another user of the machine could open of a running cluster."""

from __future__ import annotations

import io
import json
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from synergy_nb import Cluster, function, source
from synergy_nb.cli import _listeners, _printing
from synergy_nb.cli._listeners import Listener, listeners, reaches
from synergy_nb.cli.commands import app


@pytest.fixture
def answers() -> Iterator[Callable[[bytes], int]]:
    """A server that says something to everybody who connects; its port."""
    opened: list[socket.socket] = []

    def serve(server: socket.socket, words: bytes) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:  # it was closed
                return
            with connection:
                connection.sendall(words)

    def make(words: bytes) -> int:
        server = socket.create_server(("127.0.0.1", 0))
        opened.append(server)
        threading.Thread(target=serve, args=(server, words), daemon=True).start()
        return int(server.getsockname()[1])

    yield make
    for each in opened:
        each.shutdown(socket.SHUT_RDWR)
        each.close()


def test_addresses_and_who_may_use_them_are_readable_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(_printing, "out", Console(file=text, width=80))
    who, path = "who has a certificate of the cluster", f"/tmp/synergy-spark-2gv9k8fn/tmp/.{'0' * 36}.sock"
    peer = Listener("peer, scheduler or worker, with TLS", "127.0.0.1:65535", 4194304, "python", 0.0, who, False)
    _printing.show_listeners([peer, peer._replace(what="socket", address=path, users="its owner")])
    said = text.getvalue()
    assert "127.0.0.1:65535" in said.split()
    assert path in "".join(line[said.index("where") :].split(" ")[0] for line in said.splitlines())
    assert all(word in said.split() for word in [*who.split(), "owner", "(4194304)"])


def asked(port: int, *, java: bool = False, ours: bool = True) -> tuple[str, bool] | None:
    found = _listeners.asked("127.0.0.1", port, psutil.Process(), java=java, ours=ours)
    return None if found is None else (found.what, found.open)


def test_dask_without_tls_is_open(answers: Callable[[bytes], int]) -> None:
    port = answers(bytes(24) + b"\x83\xabcompression\xc0\xafpickle-protocol\x05")
    assert asked(port) == asked(port, ours=False) == ("Dask's scheduler or worker, without TLS", True)


def test_ports_of_spark_are_open_unless_they_ask_for_a_secret(answers: Callable[[bytes], int]) -> None:
    refused = bytes(8) + b"\x05" + bytes(12)
    secret = answers(refused + b"java.lang.IllegalStateException at AuthRpcHandler.doAuthChallenge(")
    assert asked(secret, java=True) == ("Spark's driver or blocks", False)
    assert asked(answers(refused + b"EOF"), java=True) == ("Spark's driver or blocks, without a secret", True)


def test_spark_connect_is_open_without_a_token(
    answers: Callable[[bytes], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = answers(b"\x00\x00\x00\x04" + bytes(5))
    monkeypatch.setattr(psutil.Process, "environ", lambda _: {})
    assert asked(port, java=True) == ("Spark Connect, without TLS or token", True)
    monkeypatch.setattr(psutil.Process, "environ", lambda _: {"SPARK_CONNECT_AUTHENTICATE_TOKEN": "secret"})
    assert asked(port, java=True) == ("Spark Connect, without TLS", False)


def test_nothing_is_said_of_other_programs(answers: Callable[[bytes], int]) -> None:
    assert asked(answers(b"SSH-2.0-somebody\r\n"), ours=False) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which sockets listen")
def test_a_socket_is_as_open_as_its_mode_and_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as abstract:
        server.bind(str(path))
        server.listen()
        abstract.bind(f"\0synergy-test-{os.getpid()}")
        abstract.listen()
        found = {name: (each.users, each.open) for name, each in _listeners.sockets(psutil.Process())}
        assert found[f"@synergy-test-{os.getpid()}"] == ("everybody on this machine", True)
        assert found[str(path)] == ("its owner", False)  # a folder of pytest's is the owner's alone


def test_modes_say_what_others_reach() -> None:
    outside = next(
        folder for folder in (Path("/tmp"), Path("/var/tmp")) if folder.is_dir() and os.access(folder, os.W_OK)
    )
    folder = outside / f"synergy-reaches-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        file = folder / "file"
        file.touch(0o600)
        assert not reaches(file)
        file.chmod(0o644)
        assert reaches(file)
        folder.chmod(0o700)
        assert not reaches(file)
        assert not reaches(folder / "missing")
    finally:
        file.unlink()
        folder.rmdir()


def test_the_command_says_what_is_open_and_fails(monkeypatch: pytest.MonkeyPatch, wide_terminal: None) -> None:
    shut = Listener(
        "peer, scheduler or worker, with TLS", "127.0.0.1:1", 7, "python", 0.0, "who has a certificate", False
    )
    monkeypatch.setattr(_listeners, "listeners", lambda: [shut])
    good = CliRunner().invoke(app, ["doctor", "--security"])
    assert good.exit_code == 0
    assert "who has a certificate" in good.output
    monkeypatch.setattr(_listeners, "listeners", lambda: [shut._replace(address="0.0.0.0:2", open=True), shut])
    bad = CliRunner().invoke(app, ["doctor", "--security"])
    assert bad.exit_code != 0
    assert "open to others: 0.0.0.0:2" in bad.output
    told = CliRunner().invoke(app, ["doctor", "--security", "--json"])
    assert [each["open"] for each in json.loads(told.stdout)] == [True, False]
    monkeypatch.setattr(_listeners, "listeners", list)
    assert "no cluster of yours listens" in CliRunner().invoke(app, ["doctor", "--security"]).output


# -- a running cluster -------------------------------------------------------------------------------------------------


@function(columns={"twice": "int"})
def twice(batch):  # type: ignore[no-untyped-def]
    return batch.select("time", twice=batch["bytes"] * 2)


def _files(process: psutil.Process) -> Iterator[Path]:
    """Files that a process has open, those in memory too."""
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            if stat.S_ISREG(descriptor.stat().st_mode):
                yield descriptor
        except OSError:
            continue  # it was closed meanwhile


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the files of processes")
@pytest.mark.parametrize("mask", [0o022, 0o000])
def test_another_user_gets_nothing_of_a_cluster_but_ports_with_tls(tmp_path: Path, mask: int) -> None:
    before, here = os.umask(mask), {*Path("/tmp").iterdir(), *Path("/dev/shm").iterdir()}
    running = psutil.Process().children(recursive=True)  # of other tests, such as JupyterLab
    try:
        record = tmp_path / "recording"
        with Cluster(2, record=record, spark=False) as cluster:
            packets = source("packets", rate="1000 tuples/s", speed=0, at="peer-1")
            application = cluster.submit(packets.apply(twice, at="peer-1").sink("all", at="peer-2"))
            application.head(1)
            children = psutil.Process().children(recursive=True)
            started = [each for each in children if each not in running]
            forked_by = [each for each in children if any(each in one.parents() for one in started)]
            ours = [psutil.Process(), *dict.fromkeys([*forked_by, *started])]
            own = {each.readlink() for each in _files(psutil.Process())}
            found = listeners(ours)
            assert [each for each in found if each.open] == []
            assert len([each for each in found if each.users == "who has a certificate of the cluster"]) >= 3
            memory = 0
            for process in ours[1:]:
                for file in _files(process):
                    name = str(file.readlink())
                    if name.startswith("/memfd:synergy"):
                        memory += 1
                        assert stat.S_IMODE(file.stat().st_mode) == 0o600
                    elif Path(name) not in own and not name.startswith((sys.prefix, sys.base_prefix, "/usr", "/proc")):
                        assert not file.stat().st_mode & 0o066, name
            assert memory, "nothing was shared"
            made = {*Path("/tmp").iterdir(), *Path("/dev/shm").iterdir()} - here
            assert [each for each in made if each.exists() and "synergy" in each.name and reaches(each)] == []
            assert stat.S_IMODE(record.stat().st_mode) == 0o600
            application.stop()
    finally:
        os.umask(before)
