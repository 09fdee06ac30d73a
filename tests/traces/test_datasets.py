"""Datasets: found where they are, fetched only as stated, and never half."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from synergy_nb.plan.operators.sources import FORMATS
from synergy_nb.traces.datasets import DATASETS, RECORD, fetch, find, folders, listing

CONTENT = b"0.010445 2 1 2436 23 2\n" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def original(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "lbl-tcp-3.tcp"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def server() -> Iterator[str]:
    """Answers by the path: content, half of it, a redirection to a file, nothing."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind = self.path.rpartition("/")[0].strip("/")
            if kind == "away":
                self.send_response(302)
                self.send_header("Location", "file:///etc/hostname")
                self.end_headers()
            elif kind in ("whole", "half"):
                self.send_response(200)
                self.send_header("Content-Length", str(len(CONTENT)))
                self.end_headers()
                self.wfile.write(CONTENT if kind == "whole" else CONTENT[:5000])
            else:
                self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            """Say nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_every_known_dataset_has_title_terms_and_format() -> None:
    assert len({dataset.name for dataset in DATASETS}) == len(DATASETS)
    for dataset in DATASETS:
        assert dataset.title
        assert dataset.terms
        assert dataset.local
        assert dataset.format in ("", *FORMATS)


def test_a_dataset_is_looked_for_in_the_usual_folders_in_order(tmp_path: Path) -> None:
    here = tmp_path / "repository"
    named, own, shared = tmp_path / "named", here / "datasets", tmp_path / "shared" / "data"
    environ = {"SYNERGY_DATA": str(named)}
    assert find("lbl-tcp-3", environ, here).path is None
    for folder in (shared, own, named):
        folder.mkdir(parents=True)
        (folder / "lbl-tcp-3.tcp").write_text("x")
        assert find("lbl-tcp-3", environ, here).path == str((folder / "lbl-tcp-3.tcp").resolve())
    assert find("lbl-tcp-3", {}, here).path == str(own / "lbl-tcp-3.tcp")
    assert len(folders({}, here)) == 2
    at_hand = {found.dataset.name for found in listing(environ, here) if found.path is not None}
    assert at_hand == {"lbl-tcp-3"}


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"dataset: 'sdsc-htp'; expected one of .*; did you mean 'sdsc-http'"):
        find("sdsc-htp")


def test_fetch_from_a_file_and_not_twice(tmp_path: Path, original: Path) -> None:
    target, found, check = fetch("lbl-tcp-3", original.as_uri(), SHA256.upper(), tmp_path / "new" / "folder")
    assert (found, check) == (SHA256, "stated")
    assert target == tmp_path / "new" / "folder" / "lbl-tcp-3.tcp"
    assert target.read_bytes() == CONTENT
    assert target.stat().st_mode & 0o777 == 0o644
    original.unlink()
    assert fetch("lbl-tcp-3", original.as_uri(), SHA256, target.parent).path == target
    assert left_in(target.parent) == ["lbl-tcp-3.tcp"]


def test_fetch_by_http_tells_its_progress(tmp_path: Path, server: str) -> None:
    told: list[tuple[int, int | None]] = []
    url = f"{server}/whole/some-other-name"
    target = fetch("lbl-tcp-3", url, SHA256, tmp_path / "to", progress=lambda *step: told.append(step)).path
    assert target.name == "lbl-tcp-3.tcp.gz"
    assert target.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("none", "not downloaded after 0 bytes: Not Found"),
        ("half", "after 5000 "),
        ("away", "not downloaded after 0 bytes: .*not allowed"),
    ],
)
def test_a_failed_download_leaves_nothing(tmp_path: Path, server: str, kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fetch("lbl-tcp-3", f"{server}/{kind}/lbl-tcp-3.tcp", SHA256, tmp_path / "to")
    assert left_in(tmp_path / "to") == []


def test_a_file_with_another_checksum_is_not_kept(tmp_path: Path, original: Path) -> None:
    with pytest.raises(ValueError, match=f"sha256 {SHA256}; expected {'0' * 64}; nothing is stored"):
        fetch("lbl-tcp-3", original.as_uri(), "0" * 64, tmp_path / "to")
    assert left_in(tmp_path / "to") == []


def test_a_first_download_without_a_known_checksum_is_unchecked_and_every_later_one_must_equal_it(
    tmp_path: Path, original: Path
) -> None:
    first = fetch("lbl-tcp-3", original.as_uri(), to=tmp_path / "to")
    assert first.check == "none"
    assert json.loads((tmp_path / "to" / RECORD).read_text()) == {"lbl-tcp-3.tcp": SHA256}
    first.path.unlink()
    assert fetch("lbl-tcp-3", original.as_uri(), to=tmp_path / "to").check == "recorded"
    first.path.unlink()
    original.write_bytes(CONTENT[:-1])
    with pytest.raises(ValueError, match=f"expected {SHA256}; nothing is stored"):
        fetch("lbl-tcp-3", original.as_uri(), to=tmp_path / "to")
    assert left_in(tmp_path / "to") == [RECORD]
    (tmp_path / "to" / RECORD).write_text("[]")
    with pytest.raises(ValueError, match="expected the checksums of earlier downloads"):
        fetch("lbl-tcp-3", original.as_uri(), to=tmp_path / "to")


def test_a_content_of_known_checksum_is_checked_packed_or_not(
    tmp_path: Path, original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [msgspec.structs.replace(each, sha256=SHA256) for each in DATASETS if each.name == "lbl-tcp-3"]
    monkeypatch.setattr("synergy_nb.traces.datasets.DATASETS", known)
    packed = original.with_name("lbl-tcp-3.tcp.gz")
    packed.write_bytes(gzip.compress(CONTENT))
    for path in (original, packed):
        assert fetch("lbl-tcp-3", path.as_uri(), to=tmp_path / "to").check == "known"
        assert fetch("lbl-tcp-3", path.as_uri(), to=tmp_path / "to").check == "known"  # it is there
    assert left_in(tmp_path / "to") == ["lbl-tcp-3.tcp", "lbl-tcp-3.tcp.gz"]
    for wrong in (gzip.compress(CONTENT[1:]), gzip.compress(CONTENT)[:-9]):
        packed.write_bytes(wrong)
        with pytest.raises(ValueError, match=f"expected {SHA256}; nothing is stored"):
            fetch("lbl-tcp-3", packed.as_uri(), to=tmp_path / "other")
        assert left_in(tmp_path / "other") == []


def test_a_file_packed_by_the_archive_keeps_its_name(tmp_path: Path, original: Path) -> None:
    published = original.with_name("sdsc-http.txt.Z")
    published.write_bytes(b"packed")
    fetched = fetch("sdsc-http", published.as_uri(), to=tmp_path / "to")
    assert (fetched.path.name, fetched.check) == ("sdsc-http.txt.Z", "none")  # its known checksum is of its content


def test_a_file_of_another_content_is_left_alone(tmp_path: Path, original: Path) -> None:
    present = tmp_path / "to" / "lbl-tcp-3.tcp"
    present.parent.mkdir()
    present.write_text("mine")
    with pytest.raises(ValueError, match=f"is there with sha256 .*; expected {SHA256}, or another folder"):
        fetch("lbl-tcp-3", original.as_uri(), SHA256, present.parent)
    assert present.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "url", "sha256", "message"),
    [
        ("nothing", "http://127.0.0.1/x", SHA256, "dataset: 'nothing'; expected one of"),
        ("lbl-tcp-3", "ftp://127.0.0.1/x", SHA256, "url: 'ftp://127.0.0.1/x'; expected an http, https or file address"),
        ("lbl-tcp-3", "lbl-tcp-3.tcp", SHA256, "url: 'lbl-tcp-3.tcp'; expected an http"),
        ("lbl-tcp-3", "http://127.0.0.1", SHA256, "url: 'http://127.0.0.1'; expected"),
        ("lbl-tcp-3", "http://127.0.0.1/x", "abc", "sha256: 'abc'; expected 64 hexadecimal digits"),
        ("lbl-tcp-3", "file:///no/such/file", SHA256, "file:///no/such/file: not downloaded after 0 bytes"),
    ],
)
def test_a_wrong_argument_of_fetch_is_named_and_nothing_is_stored(
    tmp_path: Path, name: str, url: str, sha256: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fetch(name, url, sha256, tmp_path / "to")
    assert left_in(tmp_path / "to") == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, original: Path) -> None:
    with pytest.raises(ValueError, match=r"to: .*; expected a folder that can be written"):
        fetch("lbl-tcp-3", original.as_uri(), SHA256, original / "below-a-file")
