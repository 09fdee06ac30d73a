"""Run a plan on peers and follow it to its end, for ``synergy run``."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import polars as pl

from synergy_nb.dataflow.sinks.protocol import SinkFailed
from synergy_nb.events import Event
from synergy_nb.lifecycle.requests.origins import POLICIES
from synergy_nb.plan import Plan, PlanError, Problem
from synergy_nb.plan.derived.named_secrets import secrets_of_plan
from synergy_nb.plan.derived.repeatable_results import results_name
from synergy_nb.plan.terms.units import counted, did_you_mean, nearest
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.runtime.client.cluster import Application, Cluster
from synergy_nb.runtime.client.result_files import ResultFile
from synergy_nb.runtime.process.requests import ClusterError
from synergy_nb.runtime.transport.wire import RemoteError
from synergy_nb.traces import trace_files

POLL: Final = 0.2  # seconds between two looks at the application


class SinkOutput:
    """Output of one sink: the number of its tuples, the first of them, and the file that has all of them."""

    def __init__(self, limit: int, file: ResultFile | None = None) -> None:
        self.count = 0
        self.error = ""
        self.file = file
        self.file_error: OSError | SinkFailed | None = None
        self._limit = limit
        self._tables: list[pl.DataFrame] = []
        self._have = 0

    def add(self, table: pl.DataFrame) -> None:
        """Add a table."""
        if self.file is not None:
            self.file.add(table)
        self.count += table.height
        if self._have < self._limit:
            first = table.head(self._limit - self._have)
            self._tables.append(first)
            self._have += first.height

    @property
    def table(self) -> pl.DataFrame | None:
        """The first tuples; None if there was none."""
        return pl.concat(self._tables) if self._tables else None


class RunOutcome(msgspec.Struct, frozen=True):
    """The outcome of a run."""

    # application, status, reason: id of the application; `finished`, `failed` or `stopped`; and the reason
    application: str
    status: str
    reason: str
    # peers, placement, setup_s, seconds: number of peers, peer of each operator, time of the set-up, and time from then
    # to the end, seconds
    peers: int
    placement: dict[str, str]
    setup_s: float
    seconds: float
    # sinks, qos: results of each sink, and its QoS measurements
    sinks: dict[str, SinkOutput]
    qos: dict[str, dict[str, Any]]
    # explanation, events: reasons for the placement; the journal of the application
    explanation: Explanation
    events: list[Event]

    def to_dict(self, plan: Plan, *, explain: bool) -> dict[str, Any]:
        """The output of ``synergy run --json``, as plain values."""
        found: dict[str, Any] = {
            "application": self.application,
            "plan": plan.name,
            "status": self.status,
            "reason": self.reason,
            "peers": self.peers,
            "placement": self.placement,
            "setup_s": self.setup_s,
            "seconds": self.seconds,
            "results": {
                sink: {"rows": followed.count, "sample": plain_rows(followed.table)}
                | ({} if followed.file is None else {"file": str(followed.file.path)})
                for sink, followed in self.sinks.items()
            },
            "qos": self.qos,
        }
        return found | ({"explanation": self.explanation.to_dict()} if explain else {})


def plain_rows(table: pl.DataFrame | None) -> list[dict[str, Any]]:
    """Rows of a table as values that JSON can hold."""
    if table is None:
        return []
    rows = table.with_columns(
        pl.col(pl.Datetime).dt.to_string("%Y-%m-%dT%H:%M:%S%.6f"), pl.col(pl.Binary).bin.encode("hex")
    )
    return rows.to_dicts()


def check(plan: Plan, *, peers: int | None, secrets: Mapping[str, bytes] | None) -> None:
    """Refuse a plan that cannot run from the command line, before anything is started.

    ``peers``: number of peers that will be started on this machine; None if peers, and so files, are on other machines;
    ``secrets``: their values by name; None if peers have their own.

    Raises ``PlanError``: holding everything that cannot run.
    """
    problems: list[Problem] = []
    names = [f"peer-{number}" for number in range(1, (peers or 0) + 1)]
    for name, operator in plan.operators.items():
        params = operator.params
        if params.get("connector") == "python":
            expected = "another one, such as trace or packets: rows of your own come from Python, as source(rows)"
            problems.append(Problem(name, "connector", "python", expected))
        if peers is None:
            continue
        if operator.at is not None and operator.at not in names:
            problems.append(Problem(name, "at", operator.at, f"one of {', '.join(names)}", nearest(operator.at, names)))
        if params.get("connector") == "trace":
            try:
                trace_files.sniff(params["path"])
            except ValueError as error:
                if not Path(params["path"]).is_file() or "format not recognised" not in str(error):
                    found, _, expected = str(error).partition("; expected ")
                    problems.append(Problem(name, "path", found, expected or "a trace that can be read"))
    for name, (field, secret) in secrets_of_plan(plan):
        if secrets is not None and secret not in secrets:
            expected = f"--secret {secret}=env:VARIABLE, --secret {secret}=file:PATH or --secret {secret}=keyring:..."
            problems.append(Problem(name, field, secret, expected))
    if problems:
        raise PlanError(problems)


def check_origin(origin: str | None, peers: int | None) -> str | None:
    """Refuse an invalid origin, before anything is started.

    ``origin``: name of a peer, one of :data:`~synergy_nb.lifecycle.requests.origins.POLICIES`, or None; ``peers``:
    number of peers that will be started on this machine; None if peers run already, with names of their own.

    Returns the origin.

    Raises ``ValueError``: naming the value and what was expected.
    """
    names = [f"peer-{number}" for number in range(1, (peers or 0) + 1)]
    if origin is None or peers is None or origin in (*POLICIES, *names):
        return origin
    hint = did_you_mean(origin, POLICIES)
    raise ValueError(f"{origin!r}; expected {', '.join(POLICIES)}, or one of {', '.join(names)}{hint}")


def execute(
    plan: Plan,
    cluster: Cluster,
    options: Mapping[str, Any],  # arguments of `submit`: placement and origin
    files: Mapping[str, Path],  # sink to the file that is to have its results
    *,
    limit: int,  # number of rows to collect from each sink
    # time after which the application is stopped, seconds; None to run until its streams end, or an interrupt
    duration: float | None,
    progress: Any,  # receiver of the progress (`stage` and `share`), and of warnings (`note`)
) -> RunOutcome:
    """Submit a plan, collect its results until it ends, and stop it.

    Raises ``ClusterError`` if it is not admitted; ``OSError`` if a file of results cannot be written.
    """
    progress.stage(f"composing {plan.name}")
    application = cluster.submit(plan, **options)
    for notice in application.notices:
        progress.note(notice)
    written: dict[str, ResultFile] = {}
    try:
        for sink, path in files.items():
            written[sink] = _file(application, sink, path)
            if written[sink].repeated:
                found = counted(written[sink].repeated, "row")
                progress.note(f"{path} goes on after {found} of an earlier run, in {written[sink].part}")
        return _executed(plan, cluster, application, written, limit, duration, progress)
    except BaseException:
        for file in written.values():
            file.abandon()
        raise


def _file(application: Application, sink: str, path: Path) -> ResultFile:
    """Return the file of the results of a sink.

    Raises ``OSError`` if it cannot be written.
    """
    plan, name = application.plan, application.id
    whole = plan.operators.keys() <= application.graph.keys()  # nothing is on Spark, or is read from others
    stream = results_name(plan, sink, name) if whole else f"{plan.stream_name(sink)} of {name}"
    try:
        return ResultFile(path, plan.schema(sink), stream)
    except (OSError, SinkFailed) as error:
        application.stop()
        raise OSError(f"--out: {str(path)!r} cannot be written: {error}") from None


def _executed(
    plan: Plan,
    cluster: Cluster,
    application: Application,
    written: Mapping[str, ResultFile],
    limit: int,
    duration: float | None,
    progress: Any,
) -> RunOutcome:
    began = time.monotonic()
    sinks = {sink: SinkOutput(limit, written.get(sink)) for sink in plan.sinks}
    readers = [
        threading.Thread(target=_read, args=(application, sink, followed), name=f"results of {sink}", daemon=True)
        for sink, followed in sinks.items()
    ]
    for reader in readers:
        reader.start()
    # whether peers write results: the application lasts until these are there, also when a disk is full
    kept = any(plan.operators[sink].params.get("to") is not None for sink in plan.sinks)
    ends = "Ctrl-C ends it" if duration is None else f"for {duration:g} s"
    progress.stage(f"running on {counted(len(set(application.graph.values())), 'peer')}; {ends}")
    stopped = ""
    try:
        while not any(each.file_error for each in sinks.values()):
            if not any(reader.is_alive() for reader in readers) and not (kept and _lasts(application)):
                break
            elapsed = time.monotonic() - began
            if duration is not None:
                progress.share(min(elapsed / duration, 1.0))
                if elapsed >= duration:
                    stopped = f"after {duration:g} s, as asked"
                    break
            time.sleep(POLL)
    except KeyboardInterrupt:
        stopped = "by an interrupt"
    for sink, each in sinks.items():
        if each.file_error is not None:
            application.stop()
            raise OSError(f"--out: {str(written[sink].path)!r} cannot be written: {each.file_error}")
    status = "stopped" if stopped else application.status
    if not stopped and status == "running":  # all results have arrived, and the origin will report the end soon
        status = application.wait(10.0)
    reason = stopped or application.reason
    found = RunOutcome(
        application=application.id,
        status=status,
        reason=reason,
        peers=len(cluster.peers),
        placement=application.graph,
        setup_s=application.setup_s,
        seconds=time.monotonic() - began,
        sinks=sinks,
        qos={sink: application.qos(sink) for sink in plan.sinks},
        explanation=application.explain(),
        events=application.events(),
    )
    if status in ("stopped", "finished"):
        before = application.notices
        application.stop()
        for notice in application.notices:
            if notice not in before:
                progress.note(notice)
    for reader in readers:
        reader.join(60.0 if written else 5.0)  # a file has all results that had arrived
    whole = status in ("stopped", "finished") and not any(reader.is_alive() for reader in readers)
    for each in sinks.values():
        if each.file is not None:
            try:
                good = whole and not each.error
                each.file.close(complete=good, ended=good and status == "finished")
            except (OSError, SinkFailed) as error:
                raise OSError(f"--out: {str(each.file.path)!r} cannot be written: {error}") from None
    return found


def _lasts(application: Application) -> bool:
    """Whether an application has not ended within the time between two looks."""
    try:
        application.wait(POLL)
    except TimeoutError:
        return True
    return False


def submit_detached(plan: Plan, cluster: Cluster, options: Mapping[str, Any], progress: Any) -> tuple[str, str]:
    """Submit a plan that goes on without this command; return the id of the application and the scheduler's address."""
    progress.stage(f"composing {plan.name}")
    application = cluster.submit(plan, detach=True, **options)
    for notice in application.notices:
        progress.note(notice)
    return application.id, cluster.scheduler


def _read(application: Application, sink: str, followed: SinkOutput) -> None:
    try:
        for table in application.stream(sink):
            followed.add(table)
    except (ClusterError, RemoteError) as error:  # the application failed or was stopped, which its status shows
        followed.error = str(error)
    except (OSError, SinkFailed) as error:  # the file of the results cannot be written: the disk may be full
        followed.file_error = error
