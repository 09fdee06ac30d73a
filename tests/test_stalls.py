"""An application that hangs says for whom it waits: in ``explain()``, in the view and in the journal, by one body.

What is read off cursors and inputs has tests of its own (``test_waits``), and the reasons that neither driver can
provoke alike.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from distributed import LocalCluster

from synergy_nb import Cluster, Simulation, connect_cluster, csv, function, source
from synergy_nb.events import Event, WaitBegun, WaitEnded, Why
from synergy_nb.plan import Plan
from synergy_nb.recording._event_words import said
from synergy_nb.reporting.bottlenecks import bottleneck
from synergy_nb.reporting.peer_states import PeerState
from synergy_nb.runtime.client.following import follow_journals
from tests.following import heard
from tests.waiting import DEADLINE, run_loop

PEERS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=PEERS, cores=1, spark=False, hotspots="off") as started:
        yield started


def told(application: Any, pattern: str) -> str:
    """Let time pass until explain() and the view say something; return the line of explain()."""
    view = application.watch()
    try:
        for _ in range(int(2 * DEADLINE)):
            lines = [line.strip() for line in str(application.explain()).splitlines() if re.search(pattern, line)]
            if lines and re.search(pattern, repr(view), re.IGNORECASE):
                return str(lines[0])
            application.results(seconds=0.5)
    finally:
        view.close()
    raise AssertionError(f"nobody says {pattern!r}: {application.explain()}; {view!r}")


def first_wait(application: Any, why: Why, *, still: bool = False) -> WaitBegun:
    """Wait until a component of a live application waits for a reason, without reading any result.

    ``still``: until it gives nothing any more either.
    """
    found: list[WaitBegun] = []

    def there(events: list[Event]) -> bool:
        waits = (event for event in events if isinstance(event, WaitBegun))
        ours = (event for event in waits if event.subject == application.id and event.why is why)
        found.extend(event for event in ours if not (still and event.moves))
        return bool(found)

    heard(follow_journals(application.cluster), there)
    return found[0]


def over(application: Any, operator: str) -> None:
    """Let time pass until an operator goes on."""
    for _ in range(int(2 * DEADLINE)):
        if any(event.operator == operator for event in application.events().of(WaitEnded)):
            return
        application.results(seconds=0.5)
    raise AssertionError(f"{operator} still waits")


def _late() -> Plan:
    one = source("packets", seed=1, rate="200 tuples/s", id="one")
    two = source("packets", seed=2, rate="200 tuples/s", id="two")
    counts = one.union(two, id="both").aggregate(window="100 ms", by="link", n="count(*)", id="n")
    return counts.sink("late", id="out")


def test_a_window_waits_for_one_source_that_is_late(either: Any) -> None:
    application = either.submit(_late())
    application.head(5)
    either.pace(application, "two", 0.0)
    line = told(
        application, r"(?i)waiting: out waits for n, which waits for both, which waits for two at peer-\d, which is"
    )
    assert re.search(
        r"behind its other inputs and has given nothing for [\d.]+ m?s: its pace was set to 0; see wh", line
    )
    found = {event.operator: event for event in application.events().of(WaitBegun)}
    assert found["two"].why is Why.SILENT
    assert said(found["both"])[0].startswith("both waits for two")
    either.pace(application, "two", 1.0)
    over(application, "both")
    for _ in range(int(2 * DEADLINE)):  # on a busy machine those after it wait a little longer
        if "waits for" not in str(application.explain()):
            break
        application.results(seconds=0.5)
    assert "waits for" not in str(application.explain())
    application.stop()


def test_a_slow_operator_uses_up_the_credit_of_its_source(either: Any) -> None:
    packets = source("packets", seed=1, speed=0, id="packets")
    application = either.submit(packets.delay("20 us", id="slow").sink("credit", id="out"))
    line = told(application, r"(?i)held up: packets waits for room at slow at peer-\d, which is busy: it takes")
    assert "make it cheaper" in line
    limits = application.bottleneck()
    assert limits
    assert (limits.operator, limits.peer, limits.measure) == ("slow", application.graph["slow"], "credit")
    assert repr(limits).startswith(f"slow at {limits.peer} limits the rate: its producers have used up ")
    application.stop()
    assert repr(application.bottleneck()) == f"no operator limits the rate: {application.id} is stopped"


def test_a_source_has_a_pace_of_its_own(either: Any) -> None:
    packets = source("packets", seed=1, rate="200 tuples/s", id="packets")
    application = either.submit(packets.filter("bytes > 0", id="all").sink("paced", id="out"))
    own = (
        r"no operator limits the rate: packets gives [\d,.]+ tuples/s, which is its own pace; "
        r"the busiest operator is \w+, which works [\d.e-]+ % of the time"
    )
    for _ in range(int(2 * DEADLINE)):  # a busy machine holds up anything for a moment
        application.results(seconds=0.5)
        limits = application.bottleneck()
        if re.fullmatch(own, repr(limits)):
            break
    assert not limits, limits
    assert (limits.operator, limits.measure) == ("", "")
    application.stop()


def test_results_that_are_read_slowly_limit_the_rate() -> None:
    """By the states of peers: what a sink may retain is used up, and so is all credit before it."""

    def stats(operator: str, windows: dict[str, dict[str, float]]) -> dict[str, Any]:
        measured = {"output_rate": 9e5, "rate": 9e5, "processing_s": 1e-7, "busy": 0.2}
        return {"application": "a", "operator": operator, "windows": windows, **measured}

    parts = [stats("packets", {"a": {"out": 1.0}}), stats("out", {"": {"out": 1.02}})]
    plan = source("packets", id="packets").sink("unread", id="out")
    state = PeerState("p", "p", 0, 0.0, 1.0, 0.0, [], ["a"], parts, [], 0, 0)
    graph = {"packets": "p", "out": "p"}
    limits = bottleneck("a", plan, "running", graph, {"p": state})
    assert (limits.operator, limits.measure, limits.value) == ("out", "results", 1.0)
    assert str(limits) == "out at p limits the rate: 100 % of the results that it may retain have not been read"
    parts[1]["windows"], parts[0]["windows"], parts[0]["busy"] = {}, {}, 0.97
    assert bottleneck("a", plan, "running", graph, {"p": state}).measure == "busy"
    parts[0]["windows"] = {"a": {"out": 0.9}}
    hung = bottleneck("a", plan, "running", {"packets": "p", "out": "q"}, {"p": state, "q": None})
    assert str(hung).endswith("have used up 90 % of the credit that it gives them; q does not answer")
    silent = bottleneck("a", plan, "running", graph, {"p": None})
    assert str(silent) == "which operator limits the rate is not known: p does not answer"


def test_a_suspended_peer_is_named(either: Any) -> None:
    packets = source("packets", seed=1, rate="200 tuples/s", id="packets", at="peer-2")
    work = packets.filter("bytes > 0", id="work", at="peer-3")
    application = either.submit(work.sink("suspended", id="out", at="peer-1"), origin="peer-1")
    application.head(5)
    either.suspend("peer-3")
    if isinstance(either, Cluster):
        first_wait(application, Why.INPUT)  # each question waits for the peer that does not answer
    for _ in range(int(2 * DEADLINE)):
        found = str(application.explain())
        if "out waits for work at peer-3, and that peer does not answer" in found:
            break
        application.results(wait=False)
        if isinstance(either, Simulation):
            either.run(0.5)
    assert "stalled: out waits for work at peer-3, and that peer does not answer; " in found
    assert "see whether its process runs" in found
    either.resume("peer-3")
    over(application, "out")
    application.stop()


# -- what only live peers do -------------------------------------------------------------------------------------------


@function(columns={"n": "int"}, deterministic=True)
def stuck(batch: pl.DataFrame) -> pl.DataFrame:
    """A call that never returns, as of a service that does not answer."""
    threading.Event().wait()
    return batch.select(n=pl.lit(1))


@pytest.mark.slow
def test_a_function_that_hangs_is_named(cluster: Cluster) -> None:
    packets = source("packets", seed=1, rate="200 tuples/s", id="packets")
    application = cluster.submit(packets.apply(stuck, id="stuck").sink("hangs", id="out"))
    line = told(application, r"(?i)stalled: out waits for stuck at peer-\d, which has been executing one batch for")
    assert "a call that never returns has to be ended" in line
    application.stop()


@pytest.mark.slow
def test_results_that_nobody_reads_fill_the_sink(cluster: Cluster) -> None:
    packets = source("packets", seed=1, speed=0, id="packets")
    application = cluster.submit(packets.sink("unread", id="out"))
    for why in (Why.RESULTS, Why.ROOM):
        first_wait(application, why, still=True)
    assert re.search(r"packets waits for room at out at peer-\d, which has been full for .*nobody reads its results; "
                     r"read them, by results\(\)", str(application.explain()))  # fmt: skip
    application.stop(collect=False)


@pytest.mark.slow
def test_what_a_source_cannot_reach_is_named_until_it_can(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = source("tail", path=path, format="csv", columns={"time": "time", "n": "int"}, id="rows")
    application = cluster.submit(rows.filter("n >= 0", id="all").sink("unreachable", id="out"))
    line = told(application, r"(?i)stalled: out waits for all, which waits for rows at peer-\d, which has not reached")
    assert str(path) in line
    assert line.endswith("see whether that runs, and can be reached from its peer; it is tried again and again")
    assert re.fullmatch(
        r"no operator limits the rate: out waits for all, which waits for rows at peer-\d, which has not reached .*",
        repr(application.bottleneck()),
    )
    path.write_text("time,n\n0.1,1\n", encoding="utf-8")
    application.head(1)
    assert "has not reached" not in str(application.explain())
    application.stop()


@pytest.mark.slow
def test_who_stops_an_application_is_told_what_its_destination_lacks(cluster: Cluster, tmp_path: Path) -> None:
    packets = source("packets", seed=1, rate="200 tuples/s", duration="1 s", speed=0, id="packets")
    path = tmp_path / "rows.csv"
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        application = cluster.submit(packets.sink("locked", id="out", to=csv(path)))
        told(application, r"(?i)stalled: out at peer-\d has not reached for .*: another process writes to it")
        application.stop()
        (notice,) = application.notices
    assert notice.startswith("rows that had arrived are not in its destination: out at peer-")
    assert path.read_bytes() == b""


def fill_the_disk_of(file: Path) -> None:
    """Make an open file of this process one that has no space left."""
    full = os.open("/dev/full", os.O_WRONLY)
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if descriptor.readlink() == file:
                os.dup2(full, int(descriptor.name))
    os.close(full)


@pytest.mark.slow
def test_a_full_disk_ends_a_recording_and_says_so(tmp_path: Path) -> None:
    options: dict[str, Any] = {"processes": False, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    file = tmp_path / "run.rec"

    async def recorded() -> str:
        async with LocalCluster(n_workers=2, asynchronous=True, silence_logs=50, **options) as workers:  # type: ignore[no-untyped-call]
            cluster = await connect_cluster(workers.scheduler_address, spark=False, record=file)
            packets = source("packets", seed=1, rate="200 tuples/s", id="packets")
            application = await cluster.submit(packets.sink("recorded", id="out"))
            await application.head(5)
            fill_the_disk_of(file)  # now: explain() has the errors since the application began
            account = ""
            for _ in range(int(2 * DEADLINE)):
                account = str(await application.explain())
                if "the recording of" in account:
                    break
                await application.results(seconds=0.5)
            await cluster.close()
            return account

    assert "ends here: No space left on device" in run_loop(recorded())
