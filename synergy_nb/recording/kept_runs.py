"""Runs that are kept: the journal, the quality of service, the plan and the versions of each, as Parquet files.

Theory of operation
-------------------
A run is an application from its submission to its end. It has a folder of its own: ``run.parquet``, a row with what is
known of it, and ``events-0000.parquet`` and so on, its events in the order in which they came. The events are columns
that anybody can query, and the events themselves, from which accounts and views are made as from a live journal. Files
are written beside their places and renamed, so a reader never sees a part of one; ``run.parquet`` is written last. What
had not been written when the writer died is missing, and nothing else.
"""

from __future__ import annotations

import errno
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, overload

import msgspec
import polars as pl

from synergy_nb.drawing.notebook_views import view_of
from synergy_nb.errors import SynergyError
from synergy_nb.events import Event, PeerTrouble, decode_events, encode_events
from synergy_nb.events.application_states import LASTING
from synergy_nb.events.journal import Journal
from synergy_nb.events.table import Events
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.naming import folder_name
from synergy_nb.plan.terms.units import counted, did_you_mean
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.reporting.formatting import rate, seconds, share
from synergy_nb.reporting.tables import as_html, as_text

__all__ = ["KeptRun", "NotARun", "RunWriter", "Runs", "create_folder", "runs"]

FORMAT: Final = 1
RUN: Final = "run.parquet"
TIME: Final = pl.Datetime("us", "UTC")
HEADING: Final = ("run", "plan", "submitted", "took", "outcome", "delay", "rows", "rate", "peers")
MOST_LETTERS: Final = 60  # of an id in the name of a folder, which has 255 bytes at most; its end tells ids apart
NAMED: Final = ("synergy-nb", "polars", "distributed", "pyspark")


class NotARun(SynergyError, ValueError):
    """A folder holds no run, or one that this version cannot read."""


def create_folder(folder: str | os.PathLike[str]) -> Path:
    """Make the folder of runs, unless it is there.

    Raises ``ValueError`` if it cannot be made or written to.
    """
    made = Path(folder).absolute()
    try:
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(made, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ValueError(
            f"runs: {os.fspath(folder)!r}: {reason}; expected a folder that exists or can be made, and be written to"
        ) from None
    return made


def _versions() -> dict[str, str]:
    """Return the versions of what runs here: of Python, of this package, and of what it executes on."""
    found = {"python": platform.python_version()}
    for name in NAMED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # Spark is an extra
            continue
    return found


class RunWriter:
    """Writes one run into a folder."""

    def __init__(self, folder: str | os.PathLike[str], application: str, plan: Plan) -> None:
        self._folder = Path(folder) / folder_name(application, MOST_LETTERS)  # a plan's name is as long as one likes
        self._application = application
        self._plan = plan
        self._parts = 0

    def write(
        self,
        events: Sequence[Event],  # those after the ones that were written before
        names: Mapping[str, str],  # address of each peer to its name
        *,
        status: str,
        reason: str,
        submitted: float,  # time in seconds
        ended: float | None,  # likewise; None while it runs
        qos: Mapping[str, Mapping[str, Any]],  # sink to its measurements
        graph: Mapping[str, str],  # operator to the name of its peer
    ) -> None:
        """Write more events, and what is known of the run now.

        Raises ``OSError`` if the folder cannot be written to.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        if events:
            table = Events(events, names).table()
            encoded = pl.Series("event", [encode_events([each]) for each in events], dtype=pl.Binary)
            self._put(table.with_columns(encoded), f"events-{self._parts:04d}.parquet")
            self._parts += 1
        row = {
            "format": FORMAT,
            "run": self._application,
            "plan": self._plan.name,
            "status": status,
            "reason": reason,
            "submitted": datetime.fromtimestamp(submitted, UTC),
            "ended": None if ended is None else datetime.fromtimestamp(ended, UTC),
            "qos": json.dumps(msgspec.to_builtins(qos)),
            "graph": json.dumps(dict(graph)),
            "names": json.dumps(dict(names)),
            "versions": json.dumps(_versions()),
            "yaml": self._plan.to_yaml(),
            "encoded": self._plan.to_bytes(),
        }
        self._put(pl.DataFrame([row], schema_overrides={"submitted": TIME, "ended": TIME}), RUN)

    def _put(self, table: pl.DataFrame, name: str) -> None:
        """Write a file beside its place, and put it there."""
        beside = self._folder / f".{name}"
        table.write_parquet(beside)
        beside.replace(self._folder / name)


class KeptRun:
    """A run that is kept.

    Attributes
    ----------
    id : str
        Id of the application.
    plan : Plan
        Plan that was submitted.
    status, reason : str
        Status when it was written last, and the reason why it failed or was stopped.
    submitted, ended : datetime
        Times of its submission and of its end; the latter is None where it had not ended.
    graph : dict
        Operator to the name of its peer.
    versions : dict
        Versions of Python and of the packages that ran it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            (row,) = pl.read_parquet(folder / RUN, glob=False).rows(named=True)
            found = row["format"]
        except (OSError, ValueError, KeyError, pl.exceptions.PolarsError) as error:
            raise NotARun(f"{folder / RUN}: {error}; expected a run, as Cluster(runs=...) writes it") from None
        if found != FORMAT:
            raise NotARun(f"{folder / RUN}: format {found}; expected {FORMAT}: read it with the version that wrote it")
        self.id: str = row["run"]
        self.status: str = row["status"]
        self.reason: str = row["reason"]
        self.submitted: datetime = row["submitted"]
        self.ended: datetime | None = row["ended"]
        self.plan = Plan.from_bytes(row["encoded"])
        self.graph: dict[str, str] = json.loads(row["graph"])
        self.versions: dict[str, str] = json.loads(row["versions"])
        self.names: dict[str, str] = json.loads(row["names"])
        self._qos: dict[str, dict[str, Any]] = json.loads(row["qos"])

    @property
    def took_s(self) -> float | None:
        """Seconds from its submission to its end; None where it had not ended."""
        return None if self.ended is None else (self.ended - self.submitted).total_seconds()

    def qos(self, sink: str | None = None) -> dict[str, Any]:
        """Return the last measurements of a sink; ``sink`` is needed only where the plan has several.

        Raises ``KeyError`` if there is no such sink.
        """
        try:
            return self._qos.get(self.plan.sink(sink), {})
        except ValueError as error:
            raise KeyError(str(error)) from None

    def events(self) -> Events:
        """Return all its events, and those of its peers meanwhile, in order of time."""
        files = sorted(self._folder.glob("events-*.parquet"))
        encoded = [data for file in files for data in pl.read_parquet(file, glob=False, columns=["event"])["event"]]
        found = [event for data in encoded for event in decode_events(data)]
        return Events(sorted(found, key=lambda event: event.time), self.names)

    def journal(self) -> Journal:
        """Return its events as a journal, as views read one."""
        found = self.events()
        journal = Journal(max(len(found), 1))
        for event in found:
            journal.append(event)
        return journal

    def explain(self) -> Explanation:
        """Explain its placement or its refusal, and what became of it, as while it ran."""
        found = self.events()
        own = [event for event in found if self.id in event.subjects or isinstance(event, PeerTrouble)]
        return Explanation(self.id, own, self.names, (self.status, self.reason))

    def watch(self) -> Any:
        """Return the view of it: the values are those that a live view has shown last."""
        return view_of("watch", self)

    def facts(self) -> dict[str, str]:
        """What a comparison shows of it, as text."""
        account = self.explain()
        found = {
            "plan": self.plan.name,
            "outcome": f"{self.status}: {self.reason}" if self.reason else self.status,
            "submitted": f"{self.submitted:%Y-%m-%d %H:%M:%S}",
            "took": seconds(self.took_s),
            "set up in": seconds(account.setup_s),
        }
        for sink in self.plan.sinks:
            record, of = self._qos.get(sink, {}), f" at {sink}" if len(self.plan.sinks) > 1 else ""
            limit = record.get("limit_s")
            found |= {
                f"delay, median{of}": seconds(record.get("delay_p50_s")),
                f"delay, 99th percentile{of}": seconds(record.get("delay_p99_s")),
                f"limit{of}": "none" if limit is None else seconds(limit),
                f"missed{of}": share(record.get("miss_rate")),
                f"rows{of}": f"{record.get('tuples', 0):,}",
                f"rate{of}": rate(record.get("tuples_per_s")),
            }
        found |= {f"{operator} at": peer for operator, peer in self.graph.items()}
        found["moves"] = str(len(account.movement.moves))
        found["take-overs"] = str(len(account.movement.takeovers))
        found["errors"] = str(sum(each.times for each in account.troubles))
        return found | {f"version of {name}": version for name, version in self.versions.items()}

    def __repr__(self) -> str:
        return as_text(f"Run {self.id}", ("what", "value"), [*self.facts().items()])

    def _repr_html_(self) -> str:
        return as_html(f"Run {self.id}", ("what", "value"), [*self.facts().items()])

    def row(self) -> tuple[str, ...]:
        """What a list of runs shows of it."""
        measured = [record for record in self._qos.values() if record.get("delay_p99_s") is not None]
        worst = max((float(record["delay_p99_s"]) for record in measured), default=None)
        limit = self.plan.qos.delay
        delay = f"p99 {seconds(worst)}, {'no limit' if limit is None else f'limit {seconds(limit)}'}"
        short = self.reason if len(self.reason) <= 60 else f"{self.reason[:59]}…"
        return (
            self.id,
            self.plan.name,
            f"{self.submitted:%Y-%m-%d %H:%M:%S}",
            "had not ended" if self.status in LASTING else seconds(self.took_s),
            f"{self.status}: {short}" if short else self.status,
            delay,
            ", ".join(f"{record.get('tuples', 0):,}" for record in self._qos.values()) or "-",
            ", ".join(rate(record.get("tuples_per_s")) for record in self._qos.values()) or "-",
            ", ".join(sorted(set(self.graph.values()))) or "-",
        )


class Comparison:
    """Two runs side by side: what, its value in the one, in the other, and whether these differ."""

    def __init__(self, one: KeptRun, other: KeptRun) -> None:
        self._heading = ("what", one.id, other.id, "")
        mine, theirs = one.facts(), other.facts()
        if one.plan.to_bytes() != other.plan.to_bytes():
            theirs["plan"] += " (another plan)"
        self.rows = [
            (name, mine.get(name, "-"), theirs.get(name, "-"), "" if mine.get(name) == theirs.get(name) else "differs")
            for name in dict.fromkeys([*mine, *theirs])
        ]

    def table(self) -> pl.DataFrame:
        """Return the rows as a table."""
        return pl.DataFrame(self.rows, schema=["what", "one", "other", "differs"], orient="row")

    def __repr__(self) -> str:
        return as_text("", self._heading, self.rows)

    def _repr_html_(self) -> str:
        return as_html("", self._heading, self.rows)


class Runs(Sequence[KeptRun]):
    """The runs of a folder, the earliest first. As the last value of a cell they are a table."""

    def __init__(self, folder: Path, found: Iterable[KeptRun]) -> None:
        self._folder = folder
        self._runs = sorted(found, key=lambda run: run.submitted)

    @overload
    def __getitem__(self, run: int | str) -> KeptRun: ...

    @overload
    def __getitem__(self, run: slice) -> Sequence[KeptRun]: ...

    def __getitem__(self, run: int | str | slice) -> KeptRun | Sequence[KeptRun]:
        """Return a run by its place, or by its id; the last one of a plan by the plan's name."""
        if not isinstance(run, str):
            return self._runs[run]
        for each in reversed(self._runs):
            if run in (each.id, each.plan.name):
                return each
        names = [name for each in self._runs for name in (each.id, each.plan.name)]
        raise KeyError(
            f"run: {run!r}; expected the id or the plan of a run in {self._folder}{did_you_mean(run, names)}"
        )

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[KeptRun]:
        return iter(self._runs)

    def compare(self, one: int | str, other: int | str) -> Comparison:
        """Return two runs side by side: outcomes, delays, rates, peers, moves, errors and versions."""
        return Comparison(self[one], self[other])

    def table(self) -> pl.DataFrame:
        """Return the runs as a table, with the columns that a notebook shows."""
        return pl.DataFrame([each.row() for each in self._runs], schema=list(HEADING), orient="row")

    @property
    def _caption(self) -> str:
        return f"{counted(len(self), 'run')} in {self._folder}"

    def __repr__(self) -> str:
        return as_text(self._caption, HEADING, [each.row() for each in self._runs])

    def _repr_html_(self) -> str:
        return as_html(self._caption, HEADING, [each.row() for each in self._runs])


def runs(folder: str | os.PathLike[str]) -> Runs:
    """Return the runs that are kept in a folder.

    Parameters
    ----------
    folder
        Folder that ``Cluster(runs=...)`` or ``synergy run --runs`` has written to.

    Raises
    ------
    NotARun
        If there is no such folder, or a run in it is damaged or of another format.

    Examples
    --------
    >>> import tempfile
    >>> from synergy_nb import runs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(runs(folder))
    0
    """
    place = Path(folder)
    if not place.is_dir():
        raise NotARun(f"runs: {os.fspath(folder)!r}; expected a folder that Cluster(runs=...) has written to")
    return Runs(place, (KeptRun(each.parent) for each in sorted(place.glob(f"*/{RUN}"))))
