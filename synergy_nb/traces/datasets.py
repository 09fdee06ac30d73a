"""Real traces by name: their description, the search for local copies, and downloads that the user asks for.

The traces belong to others and are not part of this project. :data:`DATASETS` says in which archive and under which
file name each is published; :func:`find` searches the usual folders; :func:`fetch` downloads from an address that the
user states and accepts only content with the checksum that the user states.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from synergy_nb.plan.units import did_you_mean

__all__ = ["DATASETS", "Dataset", "Found", "fetch", "find", "folders", "listing"]

CHUNK: Final = 1 << 18


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
        SHA-256 checksum of the first of ``local``; None if unknown.
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


class Found(msgspec.Struct, frozen=True):
    """Result of a search for a dataset: its ``path`` or None; ``looked`` lists the folders that were searched."""

    dataset: Dataset
    path: str | None
    looked: tuple[str, ...]


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
        sha256=None,
        terms="use unrestricted, as for all of the archive; sites are renumbered",
    ),
    Dataset(
        name="lbl-tcp-3",
        title="two hours of all wide-area TCP packets of the Lawrence Berkeley Laboratory, 20 January 1994",
        archive="Internet Traffic Archive, LBL-TCP-3",
        file="lbl-tcp-3.tar.Z",
        local=("lbl-tcp-3.tcp.gz", "lbl-tcp-3.tcp"),
        format="tcp",
        rows=1_800_000,
        size=16_000_000,
        sha256=None,
        terms="may be freely redistributed; cite Paxson and Floyd 1995",
    ),
    Dataset(
        name="dec-pkt-1",
        title="one hour of all wide-area TCP packets of Digital Equipment Corporation, 8 March 1995",
        archive="Internet Traffic Archive, DEC-PKT",
        file="dec-pkt-1.tar.Z",
        local=("dec-pkt-1.tcp.gz", "dec-pkt-1.tcp"),
        format="tcp",
        rows=2_153_462,
        size=None,
        sha256=None,
        terms="see the archive's page of the trace",
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
        sha256=None,
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
        sha256=None,
        terms="MIT licence",
    ),
)


def folders(environ: Mapping[str, str] = os.environ, here: str | Path = ".") -> list[Path]:
    """Folders of datasets: ``SYNERGY_DATA``, then ``datasets`` and ``../shared/data`` relative to ``here``."""
    named = environ.get("SYNERGY_DATA")
    base = Path(here).resolve()
    return [*([Path(named).expanduser()] if named else []), base / "datasets", base.parent / "shared" / "data"]


def find(name: str, environ: Mapping[str, str] = os.environ, here: str | Path = ".") -> Found:
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
                return Found(dataset, str((folder / local).resolve()), tuple(map(str, looked)))
    return Found(dataset, None, tuple(map(str, looked)))


def listing(environ: Mapping[str, str] = os.environ, here: str | Path = ".") -> list[Found]:
    """Search for local copies of all datasets."""
    return [find(dataset.name, environ, here) for dataset in DATASETS]


def fetch(
    name: str,
    url: str,
    sha256: str,
    to: str | Path = "datasets",
    *,
    progress: Callable[[int, int | None], None] | None = None,
    timeout: float = 60.0,
) -> Path:
    """Download a file from an address that the user states, and store it only if its checksum is the stated one.

    Parameters
    ----------
    name
        Name of a dataset of :data:`DATASETS`. The file gets the name at the end of ``url`` if :func:`find` searches for
        it, and the dataset's first name otherwise.
    url
        Address with the scheme http, https or file.
    sha256
        Expected checksum of the downloaded bytes, 64 hexadecimal digits.
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
    expected = sha256.strip().lower()
    if not re.fullmatch(r"[0-9a-f]{64}", expected):
        raise ValueError(f"sha256: {sha256!r}; expected 64 hexadecimal digits")
    ending = urllib.parse.unquote(parts.path).rpartition("/")[2]
    folder = Path(to)
    target = folder / (ending if ending in dataset.local else dataset.local[0])
    if target.exists():
        with target.open("rb") as file:
            present = hashlib.file_digest(file, "sha256").hexdigest()
        if present == expected:
            return target
        raise ValueError(f"to: {target} is there with sha256 {present}; expected {expected}, or another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=folder)
    except OSError as error:
        raise ValueError(f"to: {str(to)!r}: {error.strerror}; expected a folder that can be written") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            found = _download(url, file, timeout, progress)
        if found != expected:
            raise ValueError(f"{url}: sha256 {found}; expected {expected}; nothing is stored")
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return target


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
        raise ValueError(f"{url}: not downloaded after {size} bytes: {reason}") from None
    if total is not None and size != total:
        raise ValueError(f"{url}: the connection ended after {size} of {total} bytes")
    return digest.hexdigest()
