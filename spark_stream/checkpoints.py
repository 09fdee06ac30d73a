"""Checkpoints of queries, and their copies when a query continues on another server.

Spark ends a run of a query when another run begins with its checkpoint, but only on the same server. So a query that
continues on another server does not use the old checkpoint: the new server copies it to its own location, up to the
last micro-batch that the new peer knows of, with the plan of the next one, and begins with the copy. A run that has
lost its peer, and does not know that yet, goes on writing to the old location, which nobody reads any more; and the
endpoint of its former peer, if that still exists, refuses it (:mod:`spark_stream._exchange`).

A task within Spark makes the copy, since only Spark has to reach the locations of both servers: a folder that both
machines have, or a URL. It needs nothing there but pyarrow (:func:`_run` ships it by value).

What a query continues from comes from another peer, which may lie. So only a folder counts as one of this server's that
is in its location, after links were followed, and has the name of the query; no other one is written or removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from spark_stream.resumption import Resumption, claim, is_claimed
from synergy_nb.dataflow.tuples import END

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.connect.session import SparkSession

    from spark_stream._spool import Offset
    from spark_stream.results import DeliveryProgress
    from synergy_nb.dataflow.streams.log.values import Point

__all__ = ["Checkpoint", "copied", "location_of", "problem", "unreachable"]

TRIES: Final = 3  # number of attempts to copy a checkpoint from which Spark removes old files meanwhile
COPIES: Final = 8  # files that are copied at the same time
_NAME: Final = re.compile(r"[A-Za-z0-9-]+")  # name of a query, and of its folder
_VERSION: Final = re.compile(r"(\d+)[._].*(?:delta|snapshot|changelog|zip)")  # name of a file of one version of a state

_SCHEMAS: Final = re.compile(r"state/\d+/_metadata/")  # beginning of the name of a file that names schemas of a state
_SCHEMA: Final = re.compile(r'"[^"]*?(/state/\d+/_stateSchema/[^"]*)"')  # path of such a schema, in JSON


def location_of(session: SparkSession, folder: Path | None) -> str:
    """The folder or URL where a server stores checkpoints.

    ``folder``: folder that it has on this machine, if it is one of this machine.
    """
    if folder is not None:
        return str(folder)
    location = session.conf.get("spark.sql.streaming.checkpointLocation", None)
    return str(location or session.conf.get("spark.sql.warehouse.dir")).rstrip("/")


def unreachable(session: SparkSession, checkpoint: str, location: str) -> str:
    """The reason why a server cannot use its location for checkpoints, as a task there has found; empty if it can."""
    return _run(session, lambda: _check_access(checkpoint, location))


class Checkpoint:
    """The checkpoint of a query at one peer: its location, its owner, and its removal.

    It is *placed* when a server is known, and *opened* when a query begins with it.
    """

    def __init__(self, name: str, since: Resumption, epoch: int) -> None:
        self.server: str | None = None  # name of the server that executes it; None before `place`
        self.where = ""  # folder or URL of the checkpoint; empty before `open`
        self.version = since.version  # version of Spark that has written it
        self.former = since.former  # folders or URLs of its checkpoints on other servers
        self.folder: Path | None = None  # folder of the query on this machine; None if Spark is on another one
        self.name = name  # name of the query at this peer, which distinguishes it from its names at other peers
        self.since = since  # progress of the query at another peer
        self._epoch = epoch  # number of peers that had the query before

    def place(self, server: str, folder: Path | None) -> None:
        """Say which server executes the query, and which folder the query has on this machine, if it has one.

        Raises ``ValueError`` if the other peer gives the query a name, or a folder, that is none of its own.
        """
        if not _NAME.fullmatch(self.since.name):
            raise ValueError(f"a part on Spark continues as {self.since.name!r}; expected letters, digits and hyphens")
        if folder is not None:
            if self._stays_at(server):
                folder = folder.parent / self._checked(str(folder.parent)).removesuffix("/checkpoint")
            folder.mkdir(parents=True, exist_ok=True)
            if not is_claimed(folder, self._epoch):
                claim(folder, self._epoch)
        self.server, self.folder = server, folder

    def _stays_at(self, server: str | None) -> bool:
        """Whether the query continues on the server where it was."""
        return bool(self.since.checkpoint) and self.since.server == server

    def _checked(self, location: str) -> str:
        """The place of the checkpoint of the other peer in the location of this server, where it continues."""
        since = self.since
        place = own_place(since.checkpoint, location, since.name)
        if place is None:
            raise ValueError(
                f"a part on Spark continues with {since.checkpoint!r}; expected a folder of {since.name} in {location}"
            )
        return place

    @property
    def is_known(self) -> bool:
        """Whether its location is known, here or at the peer from which the query comes."""
        return bool(self.where or self.since.checkpoint)

    def resumption(self, handed: DeliveryProgress, inputs: tuple[tuple[Offset, Point], ...]) -> Resumption:
        """Create the state from which another peer continues, given the delivered results and the committed inputs."""
        if self.server is None or not self.where:  # without a new checkpoint, the previous one is valid
            return msgspec.structs.replace(self.since, handed=handed, inputs=inputs)
        return Resumption(self.since.name, handed, inputs, self.server, self.where, self.former, self.version)

    @property
    def is_claimed(self) -> bool:
        """Whether another peer has continued the query on the same server."""
        return self.folder is not None and is_claimed(self.folder, self._epoch)

    def open(self, session: SparkSession) -> str:
        """The checkpoint with which the query begins, copied first if it is on another server.

        Raises ``ValueError`` if the server cannot have that copy, or the checkpoint is none of the query.
        """
        since, stays = self.since, self._stays_at(self.server)
        if self.where:
            return self.where
        if stays:
            if self.folder is None:
                self._checked(location_of(session, None))
            where = since.checkpoint
        elif self.folder is not None:
            where = str(self.folder / "checkpoint")
        else:
            where = f"{location_of(session, None)}/{self.name}"
        if not stays:
            self.version = str(session.version)
        if since.checkpoint and not stays:
            self.former = (*since.former, since.checkpoint)
            source, batch, destination = since.checkpoint, since.handed.batch, where
            why = other_version(since, self.version) or _run(session, lambda: copied(source, destination, batch))
            if why:
                raise ValueError(refusal(self.server or "", since, why))
        self.where = where  # only now: a snapshot names it, and others begin with it
        return where

    def leave_former(self) -> None:
        """Remove the former checkpoints that are beside this one, as nobody continues with them any more."""
        former, self.former = self.former, ()
        for each in former if self.folder is not None else ():
            assert self.folder is not None
            place = own_place(each, str(self.folder.parent), self.since.name)
            own = None if place is None else self.folder.parent / place.removesuffix("/checkpoint")
            if own is not None and own.name != self.folder.name:
                shutil.rmtree(own, ignore_errors=True)

    def clear(self, session: SparkSession | None) -> None:
        """Remove this checkpoint, and those of its former ones that are in the location of this server.

        One that another server has in a location of its own stays there.

        ``session``: session of the query; None if there is none any more.
        """
        if self.server is None or self.is_claimed:
            return
        gone = self.former if self.folder is not None else (*self.former, *filter(None, (self.where,)))
        if session is not None and gone:
            name, own = self.since.name, None if self.folder is None else self.folder.parent
            with contextlib.suppress(Exception):
                location = location_of(session, own)
                _run(session, lambda: _removed(gone, location, name))
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def refusal(server: str, since: Resumption, why: str) -> str:
    """Sentence that names both servers and the reason why one cannot continue with the other's checkpoint."""
    return f"Spark at {server} cannot go on with the checkpoint of Spark at {since.server}, {since.checkpoint}: {why}"


def problem(since: Resumption, version: str) -> str:
    """Why no query can continue from where another one was, as its files say; empty if nothing speaks against it.

    ``version``: version of the Spark that is to continue it.
    """
    if not since.checkpoint or since.handed.emitted == END:  # it begins anew, or asks for nothing any more
        return ""
    system, path = _at(since.checkpoint)
    if since.handed.batch >= 0 and not system.get_file_info(f"{path}/metadata").is_file:
        return f"the checkpoint {since.checkpoint} is not there; expected that nobody removes it"
    why = _incomplete(system, path, since.handed.batch) or other_version(since, version)
    return f"the checkpoint {since.checkpoint}: {why}" if why else ""


def other_version(since: Resumption, version: str) -> str:
    """Why a version of Spark may not read a checkpoint; empty if it is of the same release, or of an unknown one."""
    if not since.version or _release(since.version) == _release(version):
        return ""
    return f"it is of Spark {since.version}; expected the same release, and this is {version}"


def _release(version: str) -> list[str]:
    return re.findall(r"\d+", version)[:2]


# -- within Spark ----------------------------------------------------------------------------------------------------


def _run(session: SparkSession, task: Callable[[], str]) -> str:
    """What a task within Spark says."""
    from pyspark import cloudpickle  # noqa: PLC0415 - imports Spark

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 - within Spark

        for _ in batches:
            try:
                answer = task()
            except Exception as error:  # noqa: BLE001 - the caller gets it as a text
                answer = f"{type(error).__name__}: {error}"
            yield pa.RecordBatch.from_pydict({"answer": [answer]})

    rows = session.range(0, 1, 1, 1).mapInArrow(work, "answer string").collect()
    return "".join(row.answer for row in rows)


def _is_remote(location: str) -> bool:
    """Whether a location is the URL of a store, rather than a folder."""
    return "://" in location and not location.startswith("file:")


def _at(location: str) -> tuple[Any, str]:
    """The file system of a location, and the path there."""
    import pyarrow.fs as pafs  # noqa: PLC0415 - within Spark

    if location.startswith("file:"):
        return pafs.LocalFileSystem(), "/" + unquote(location.removeprefix("file:")).lstrip("/")
    if not _is_remote(location):
        return pafs.LocalFileSystem(), location
    found: tuple[Any, str] = pafs.FileSystem.from_uri(re.sub("^s3[an]:", "s3:", location))
    return found


def _check_access(checkpoint: str, location: str) -> str:
    """Why a checkpoint cannot be read, or a location not be written, from here."""
    system, path = _at(checkpoint)
    if not system.get_file_info(f"{path}/metadata").is_file:
        return "it is not to be found there"
    system, path = _at(location)
    system.create_dir(path, recursive=True)
    trial = f"{path}/.{uuid.uuid4().hex}"
    with system.open_output_stream(trial) as stream:
        stream.write(b"?")
    system.delete_file(trial)
    return ""


def own_place(checkpoint: str, location: str, name: str) -> str | None:
    """The path of a checkpoint of a query below a location; None if it is elsewhere, or of another query.

    Of folders the paths count to which links lead; URLs are compared as they are, without asking a store.
    """
    path, root = (each if _is_remote(each) else os.path.realpath(_at(each)[1]) for each in (checkpoint, location))
    place = path.removeprefix(f"{root.rstrip('/')}/")
    return place if re.fullmatch(rf"{re.escape(name)}(-\d+)?(/checkpoint)?", place) else None


def _removed(checkpoints: tuple[str, ...], location: str, name: str) -> str:
    """Remove the checkpoints of a query that are in a location; the others stay."""
    for checkpoint in checkpoints:
        if own_place(checkpoint, location, name) is not None:
            system, path = _at(checkpoint)
            with contextlib.suppress(FileNotFoundError):
                system.delete_dir(path)
    return ""


def copied(checkpoint: str, destination: str, batch: int) -> str:
    """Copy a checkpoint up to a micro-batch; return an empty text, or the reason why that is impossible.

    Also the plan of the next micro-batch is copied, if Spark has made one: some results of it may have been passed on,
    which readers have, and which are made again at the same positions only from the same rows.

    ``checkpoint``: folder or URL of the checkpoint; ``destination``: folder or URL of the copy; files that exist there
    are removed; ``batch``: number of the last micro-batch of which the new peer knows, so that Spark has the offsets
    and may have committed it; -1 if it knows of none.
    """
    here, path = _at(checkpoint)
    there, target = _at(destination)
    for tries in range(TRIES):
        if why := _incomplete(here, path, batch):
            return why
        committed = _committed(here, path, batch)
        planned = batch + 1 if committed == batch else batch
        # only now: what is committed meanwhile does not count, nor what is planned after that
        names = [name for name in _names(here, path) if _counts(name, committed, planned, batch)]
        if there.get_file_info(target).type.name != "NotFound":
            there.delete_dir(target)
        for folder in sorted({name.rpartition("/")[0] for name in names}):
            there.create_dir(f"{target}/{folder}", recursive=True)
        try:
            with ThreadPoolExecutor(COPIES) as pool:
                list(pool.map(lambda name: _copy(here, f"{path}/{name}", there, f"{target}/{name}"), names))
            for name in names:
                if _SCHEMAS.match(name):
                    _point(there, f"{target}/{name}", destination)
        except FileNotFoundError:  # of an earlier micro-batch, which is not needed any more
            if tries == TRIES - 1:
                raise
        else:
            break
    return ""


def _committed(system: Any, path: str, batch: int) -> int:
    """The last micro-batch that a checkpoint has committed, of those up to one; -1 if there is none."""
    return max((number for number in _numbers(system, f"{path}/commits") if number <= batch), default=-1)


def _incomplete(system: Any, path: str, batch: int) -> str:
    """Why a checkpoint does not reach up to a micro-batch; empty if it does."""
    committed = _committed(system, path, batch)
    if committed < batch - 1 or (committed < batch and batch not in _numbers(system, f"{path}/offsets")):
        return f"it ends with micro-batch {committed}; expected {batch}"
    return ""


def _names(system: Any, path: str) -> list[str]:
    """Files below a path, without those that are being written."""
    import pyarrow.fs as pafs  # noqa: PLC0415 - within Spark

    found = system.get_file_info(pafs.FileSelector(path, recursive=True, allow_not_found=True))
    names = (info.path[len(path) :].lstrip("/") for info in found if info.is_file)
    return [name for name in names if not any(part.startswith(".") for part in name.split("/"))]


def _numbers(system: Any, path: str) -> set[int]:
    return {int(name) for name in _names(system, path) if name.isdecimal()}


def _counts(name: str, committed: int, planned: int, batch: int) -> bool:
    """Whether a file of a checkpoint counts: up to the last micro-batch that is committed, planned, or known."""
    folder, _, rest = name.partition("/")
    number = re.match(r"(\d+)(?:\.crc)?$", rest)
    if folder in ("offsets", "commits") and number is not None:
        return int(number[1]) <= (planned if folder == "offsets" else committed)
    version = _VERSION.match(name.rpartition("/")[2]) if folder == "state" else None
    return version is None or int(version[1]) <= batch + 1


def _point(system: Any, path: str, checkpoint: str) -> None:
    """Let a file that names the schemas of a state name those of its own checkpoint; Spark writes whole paths."""
    with system.open_input_stream(path) as stream:
        text = stream.read().decode()
    text = _SCHEMA.sub(lambda found: f'"{checkpoint}{found[1]}"', text)
    with system.open_output_stream(path) as stream:
        stream.write(text.encode())


def _copy(here: Any, source: str, there: Any, target: str) -> None:
    if here.equals(there):
        here.copy_file(source, target)
        return
    with here.open_input_stream(source) as stream, there.open_output_stream(target) as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
