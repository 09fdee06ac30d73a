"""Real traces by name: their description, the search for local copies, and downloads that the user asks for.

The traces belong to others and are not part of this project. :data:`DATASETS` says in which archive and under which
file name each is published; :func:`find` searches the usual folders; :func:`fetch` downloads from an address that the
user states, and checks what it gets.

The archive publishes no checksums. :data:`DATASETS` has those of the contents that were at hand for measurements of
this project; for the others, the first download is recorded, and each later one has to be the same.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import os
import re
import tempfile
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from synergy_nb.plan.terms.units import counted, did_you_mean

__all__ = ["DATASETS", "RECORD", "Dataset", "DownloadedFile", "FoundDataset", "fetch", "find", "folders", "listing"]

CHUNK: Final = 1 << 18
RECORD: Final = "checksums.json"  # file with the checksums of first downloads, beside them


class Dataset(msgspec.Struct, frozen=True):
    """A trace that the papers or this project use.

    Parameters
    ----------
    name, title
        Short name, and a description of one line.
    archive, file
        URL of the archive, and the file's name there.
    local
        File names that :func:`find` searches for, the preferred one first.
    format
        Parameter ``format`` of a trace source that reads it; empty if it is no trace.
    rows
        Number of tuples that the archive states; None if it does not.
    size
        Size of the archive's file in bytes, rounded by the archive; None if unknown.
    sha256
        SHA-256 checksum of its content, unpacked if it is gzipped, of the copy that this project has measured with;
        None if unknown.
    terms
        Licence or terms of use.
    """

    name: str
    title: str
    archive: str
    file: str
    local: tuple[str, ...]
    format: str
    rows: int | None
    size: int | None
    sha256: str | None
    terms: str


class FoundDataset(msgspec.Struct, frozen=True):
    """Result of a search for a dataset: its ``path`` or None; ``looked`` lists the folders that were searched."""

    dataset: Dataset
    path: str | None
    looked: tuple[str, ...]


class DownloadedFile(NamedTuple):
    """A downloaded file."""

    path: Path
    sha256: str  # SHA-256 checksum of its bytes
    # checksum that it was compared with: stated, by the user; known, of the content, of DATASETS; recorded, of the
    # first download; or none, if this was the first one, which is recorded
    check: str


def _packets(name: str, what: str, archive: str, rows: int | None, size: int | None, terms: str) -> Dataset:
    """A packet trace of the archive, which is published as a packed folder of text files."""
    text = f"{name}.tcp"
    return Dataset(
        name=name,
        title=what,
        archive=f"Internet Traffic Archive, {archive}",
        file=f"{name}.tar.Z",
        local=(f"{text}.gz", text),
        format="tcp",
        rows=rows,
        size=size,
        sha256=None,
        terms=terms,
    )


_CITED: Final = "may be freely redistributed; cite Paxson and Floyd 1995"
_SEE: Final = "see the archive's page of the trace"

#: *LBL-TCP-3* is the packet trace of the dissertation, *DEC-PKT-1* that of the paper on resilient placement. The seven
#: traces of figure 2.21 are not named; as far as we know, these are the seven packet traces of the archive in this
#: format.
DATASETS: Final[tuple[Dataset, ...]] = (
    Dataset(
        name="sdsc-http",
        title="one day of all HTTP requests to the SDSC web server, 22 August 1995",
        archive="Internet Traffic Archive, SDSC-HTTP",
        file="sdsc-http.txt.Z",
        local=("sdsc-http.txt.gz", "sdsc-http.txt"),
        format="http",
        rows=28_338,
        size=None,
        sha256="564bbc83dcca3a9768cdbaba41e99d7a0a579eaec256907ef9d486d299fa34db",
        terms="use unrestricted, as for all of the archive; sites are renumbered",
    ),
    _packets(
        "lbl-tcp-3",
        "two hours of all wide-area TCP packets of the Lawrence Berkeley Laboratory, 20 January 1994",
        "LBL-TCP-3",
        1_800_000,
        16_000_000,
        _CITED,
    ),
    _packets(
        "lbl-pkt-4",
        "one hour of all wide-area TCP packets of the Lawrence Berkeley Laboratory, 21 January 1994",
        "LBL-PKT",
        1_300_000,
        10_000_000,
        _CITED,
    ),
    _packets(
        "lbl-pkt-5",
        "one hour of all wide-area TCP packets of the Lawrence Berkeley Laboratory, 28 January 1994",
        "LBL-PKT",
        1_300_000,
        9_000_000,
        _CITED,
    ),
    _packets(
        "dec-pkt-1",
        "one hour of all wide-area TCP packets of Digital Equipment Corporation, 8 March 1995",
        "DEC-PKT",
        2_153_462,
        None,
        _SEE,
    ),
    *(
        _packets(
            f"dec-pkt-{number}",
            f"another hour, number {number} of four, of the same as dec-pkt-1",
            "DEC-PKT",
            None,
            None,
            _SEE,
        )
        for number in (2, 3, 4)
    ),
    Dataset(
        name="nasa-http",
        title="HTTP requests to the web server of NASA's Kennedy Space Center, July 1995",
        archive="Internet Traffic Archive, NASA-HTTP",
        file="NASA_access_log_Jul95.gz",
        local=("NASA_access_log_Jul95.gz", "NASA_access_log_Jul95"),
        format="ncsa",
        rows=None,
        size=20_700_000,
        sha256=None,
        terms="may be freely redistributed; no analysis of hosts beyond general traffic patterns",
    ),
    Dataset(
        name="nasa-http-rate",
        title="requests per second to the same server, July and August 1995, one count a line",
        archive="derived from the Internet Traffic Archive's NASA-HTTP",
        file="NASA_access_log_Jul95.gz, NASA_access_log_Aug95.gz",
        local=("nasa-http-requests-per-second.txt.gz",),
        format="",
        rows=5_059_950,
        size=None,
        sha256="15f09f6ce82bee15fb50d0be367ae86614dc51b00df59b15ab3d5eaeddeb64a4",
        terms="as nasa-http",
    ),
    Dataset(
        name="planetlab-rtt",
        title="round-trip times in milliseconds between 490 PlanetLab hosts, array rtt_ms of shape (490, 490)",
        archive="NetLatency-Data",
        file="PlanetLabData",
        local=("planetlab-rtt-490.npz",),
        format="",
        rows=240_100,
        size=None,
        sha256="767db21bcc066482214aa7a2b8d4d02628f53b7e32855a74dd69c59986bf7164",
        terms="MIT licence",
    ),
)


def folders(environ: Mapping[str, str] = os.environ, here: str | Path = ".") -> list[Path]:
    """Folders of datasets: ``SYNERGY_DATA``, then ``datasets`` and ``../shared/data`` relative to ``here``."""
    named = environ.get("SYNERGY_DATA")
    base = Path(here).resolve()
    return [*([Path(named).expanduser()] if named else []), base / "datasets", base.parent / "shared" / "data"]


def find(name: str, environ: Mapping[str, str] = os.environ, here: str | Path = ".") -> FoundDataset:
    """Search for a local copy of a dataset.

    Raises
    ------
    ValueError
        If no dataset has this name.
    """
    dataset = next((known for known in DATASETS if known.name == name), None)
    if dataset is None:
        names = [known.name for known in DATASETS]
        hint = did_you_mean(name, names)
        raise ValueError(f"dataset: {name!r}; expected one of {', '.join(names)}{hint}")
    looked = folders(environ, here)
    for folder in looked:
        for local in dataset.local:
            if (folder / local).is_file():
                return FoundDataset(dataset, str((folder / local).resolve()), tuple(map(str, looked)))
    return FoundDataset(dataset, None, tuple(map(str, looked)))


def listing(environ: Mapping[str, str] = os.environ, here: str | Path = ".") -> list[FoundDataset]:
    """Search for local copies of all datasets."""
    return [find(dataset.name, environ, here) for dataset in DATASETS]


def fetch(
    name: str,
    url: str,
    sha256: str | None = None,
    to: str | Path = "datasets",
    *,
    progress: Callable[[int, int | None], None] | None = None,
    timeout: float = 60.0,
) -> DownloadedFile:
    """Download a file from an address that the user states, and store it only if its checksum is right.

    Parameters
    ----------
    name
        Name of a dataset of :data:`DATASETS`. The file gets the name at the end of ``url`` if :func:`find` searches for
        it or the archive publishes it under this name, and the first name that is searched for otherwise.
    url
        Address with the scheme http, https or file.
    sha256
        Expected checksum of the downloaded bytes, 64 hexadecimal digits. None for the known one of the content; where
        none is known, the one of the first download to this folder, which is recorded in :data:`RECORD`.
    to
        Target folder, which is made if it does not exist. A file there with this checksum is not downloaded again; a
        file with another checksum is an error and stays unchanged.
    progress
        Function that is called with the bytes so far and the total bytes (None if unknown).
    timeout
        Time limit for an answer of the server, seconds.

    Raises
    ------
    ValueError
        If an argument is invalid, the download fails, or the content has another checksum; then nothing is stored.
    """
    dataset = find(name).dataset
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https", "file") or not (parts.netloc or parts.scheme == "file") or not parts.path:
        raise ValueError(f"url: {url!r}; expected an http, https or file address of one file")
    if sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", sha256.strip().lower()):
        raise ValueError(f"sha256: {sha256!r}; expected 64 hexadecimal digits")
    ending = urllib.parse.unquote(parts.path).rpartition("/")[2]
    folder = Path(to)
    target = folder / (ending if ending in (*dataset.local, dataset.file) else dataset.local[0])
    packed = target.name == dataset.file and target.name not in dataset.local  # in a format that is not read here
    expected, check = _expected(dataset, target, sha256, packed=packed)
    if target.exists():
        with target.open("rb") as file:
            present = hashlib.file_digest(file, "sha256").hexdigest()
        compared = _of_content(target) if check == "known" else present
        if expected in (None, compared):
            return _recorded(DownloadedFile(target, present, check))
        raise ValueError(f"to: {target} is there with sha256 {compared}; expected {expected}, or another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=folder)
    except OSError as error:
        raise ValueError(f"to: {str(to)!r}: {error.strerror}; expected a folder that can be written") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            found = _download(url, file, timeout, progress)
        compared = _of_content(Path(temporary)) if check == "known" else found
        if expected not in (None, compared):
            raise ValueError(f"{url}: sha256 {compared}; expected {expected}; nothing is stored")
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return _recorded(DownloadedFile(target, found, check))


def _expected(dataset: Dataset, target: Path, stated: str | None, *, packed: bool) -> tuple[str | None, str]:
    """The checksum that a file has to have, or None; and where the checksum is from."""
    if stated is not None:
        return stated.strip().lower(), "stated"
    if dataset.sha256 is not None and not packed:
        return dataset.sha256, "known"
    before = _records(target.parent).get(target.name)
    return before, "none" if before is None else "recorded"


def _records(folder: Path) -> dict[str, str]:
    """File names and the checksums of their first downloads to a folder."""
    path = folder / RECORD
    try:
        found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError(f"to: {path} cannot be read; expected the checksums of earlier downloads, or no such file")
    return cast("dict[str, str]", found)


def _recorded(fetched: DownloadedFile) -> DownloadedFile:
    """Record the checksum of a file that is downloaded for the first time."""
    if fetched.check == "none":
        folder = fetched.path.parent
        records = {**_records(folder), fetched.path.name: fetched.sha256}
        (folder / RECORD).write_text(json.dumps(records, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return fetched


def _of_content(path: Path) -> str:
    """Checksum of the content of a file, unpacked if it is gzipped."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if zipped else path.open("rb") as content:
            while chunk := content.read(CHUNK):
                digest.update(chunk)
    except (OSError, EOFError, zlib.error):
        return "unreadable"
    return digest.hexdigest()


def _download(url: str, file: Any, timeout: float, progress: Callable[[int, int | None], None] | None) -> str:
    """Download ``url`` into ``file`` and return its checksum."""
    opener = urllib.request.OpenerDirector()
    # No ftp and no data addresses, not even by redirection.
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.FileHandler,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    digest = hashlib.sha256()
    size = 0
    try:
        with opener.open(url, timeout=timeout) as answer:
            length = answer.headers.get("Content-Length")
            total = int(length) if length is not None and length.isdigit() else None
            while chunk := answer.read(CHUNK):
                digest.update(chunk)
                file.write(chunk)
                size += len(chunk)
                if progress is not None:
                    progress(size, total)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise ValueError(f"{url}: not downloaded after {counted(size, 'byte')}: {reason}") from None
    if total is not None and size != total:
        raise ValueError(f"{url}: the connection ended after {size} of {counted(total, 'byte')}")
    return digest.hexdigest()
