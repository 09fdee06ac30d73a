"""Sources that several peers read: rows go on before the death of one of them is known, once each."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from synergy_nb import Cluster, PlanError, Simulation, source
from synergy_nb.assembly import PeerConfig
from synergy_nb.dataflow.streams.component.execution import ExecutionOutcome, Work
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import original, replicated
from synergy_nb.runtime.process import starting
from synergy_nb.simulator.peer_world import PeerWorld
from synergy_nb.simulator.scripted_faults import Faults
from tests import replica_schedules
from tests.moving_schedules import table

COLUMNS = {"time": "time", "n": "int"}


def query(availability: str | None, window: str = "500 ms", **params: Any) -> Plan:
    packets = source("packets", seed=1, id="packets", availability=availability, **params)
    large = packets.filter("bytes > 100", id="large").aggregate("source", window, n="count(*)", id="counts")
    return large.sink("out", id="out", availability="active 3")


@pytest.mark.parametrize(
    ("connector", "params", "why"),
    [
        ("socket", {"address": "a:1"}, "a server sends what it sends once"),
        ("websocket", {"url": "wss://a/b"}, "a server sends what it sends once"),
        ("sse", {"url": "https://a/b"}, "a server sends what it sends once"),
        ("http", {"url": "https://a/b", "format": "json"}, "a page has other rows when another peer asks for it"),
        ("mqtt", {"server": "a:1", "topic": "t"}, "a broker sends each client what comes while that one is connected"),
        ("python", {"name": "x"}, "a program sends each of its rows to one peer"),
        ("kafka", {"servers": "a:1", "topic": "t", "start": "latest"}, "begin at different messages"),
    ],
)
def test_what_two_peers_would_read_differently_is_refused_with_the_reason(
    connector: str, params: dict[str, Any], why: str
) -> None:
    rows = source(connector, **params, columns=COLUMNS, id="rows", availability="active 2")
    with pytest.raises(PlanError) as raised:
        rows.filter("n > 0").sink("out", availability="active 2")
    said = str(raised.value)
    assert "operator 'rows', availability: 'active 2'; expected 'degree ...', of which one peer reads" in said
    assert why in said


def test_each_peer_that_reads_counts_and_no_other_plan_changes() -> None:
    assert list(replicated(query(None), 2).operators) == ["packets", "large", "large~1", "counts", "counts~1", "out"]
    assert list(replicated(query("degree 2"), 2).operators) == list(replicated(query(None), 2).operators)
    expanded = replicated(query("active 3"), {"packets": 3, "large": 2, "counts": 1})
    assert expanded.operators["large~1"].inputs == ("packets", "packets~1", "packets~2")
    assert expanded.operators["large~1"].ports == (0, 0, 0)
    assert expanded.load("packets~2") == expanded.load("packets") > 0.0
    pinned = source("packets", id="packets", at="peer-1").filter("bytes > 0", id="large")
    assert "packets~1" not in replicated(pinned.sink("out", availability="active 2"), 2).operators


@pytest.mark.slow
def test_the_readers_are_apart_and_the_account_says_who_reads() -> None:
    """A simulation composes the plan, kills a reader, and has another peer read in its place."""
    simulation = Simulation(peers=6, network="local", seed=4)
    alone = simulation.submit(query(None, count=10, rate=100.0))
    application = simulation.submit(query("active 3", count=800, rate=100.0))
    where = application.graph
    readers = [where[name] for name in ("packets", "packets~1", "packets~2")]
    assert len({*readers, application.origin}) == 4, "apart, and not where the application ends anyway"
    account = str(application.explain())
    assert "packets (source): 3 peers read it: order and event times follow from what they read" in account
    assert "packets to large 9 streams" in account
    assert "availability='active 3' at the source has 3 read it" in str(alone.explain())
    members = simulation.world.synergy[readers[0]].session.members
    assert "packets" not in members[application.id].sharable_operators, "who shared it would end with this reader"
    simulation.run(0.5)
    simulation.kill(readers[0])
    assert simulation.until(lambda: application.graph.get("packets", readers[0]) != readers[0], 10.0)
    simulation.pace(application, "packets", 4.0)
    found = application.results()
    columns = ["window_start", "source", "n"]
    undisturbed = Simulation(peers=3, network="local", seed=1).submit(query(None, count=800, rate=100.0)).results()
    assert found.select(columns).sort(columns).rows() == undisturbed.select(columns).sort(columns).rows()


class Timed(PeerWorld):
    """Whole peers, with the times at which results arrive at the sink."""

    PEERS = tuple("abcdefg")
    HOP_S = 0.012  # longest delay of a link
    HOPS = 4  # links from a source to the sink

    def __init__(self, availability: str) -> None:
        own = PeerConfig(components=(), cores=16.0, placement=None)
        super().__init__(5, self.PEERS, Faults(delay=(0.002, self.HOP_S)), config=own)
        self.arrived: list[float] = []
        self.pace = 0.05
        expanded = replicated(query(availability, "50 ms"), 2)
        where = {name: "b" if original(name) == name else "c" for name in expanded.operators} | {"out": "a"}
        where |= {"packets": "d", "packets~1": "e"} if "packets~1" in expanded.operators else {"packets": "d"}
        backups = {} if "packets~1" in expanded.operators else {"packets": ("e",)}
        self.deploy("app", expanded, where, {"packets": table(self.rng, 900, 60_000_000)}, backups=backups)
        assert self.until(lambda: self.status("app") == "running")

    def _measure(self, work: Work, outcome: ExecutionOutcome) -> None:
        super()._measure(work, outcome)
        if work.component.kind == "sink" and any(chunk.rows for chunk in work.chunks):
            self.arrived.append(self.now)

    def gap_until_known(self, peer: str) -> float:
        """Longest time without a result from the crash of a peer until the graph is without it, seconds."""
        self.run(2.0)
        crashed = self.now
        self.crash(peer)
        assert self.until(lambda: self.where("app")["packets"] != peer, 30.0)
        times = [crashed, *(time for time in self.arrived if time > crashed), self.now]
        return max(after - before for before, after in pairwise(times))

    def rows(self) -> list[tuple[Any, ...]]:
        found = self.results["app", "out"]
        assert self.until(lambda: found.ended, 300.0), self.failures()
        return sorted(found.rows.rows())


@pytest.mark.slow
def test_no_result_waits_until_the_death_of_a_reader_is_known() -> None:
    """The greatest gap at the sink is that of an undisturbed run; with a backup it is that of the failure detector."""
    undisturbed = Timed("active 2")
    wanted = undisturbed.rows()
    usual = max(after - before for before, after in pairwise(undisturbed.arrived)) + Timed.HOPS * Timed.HOP_S
    gaps = []
    for availability in ("active 2", "degree 2"):
        world = Timed(availability)
        gaps.append(world.gap_until_known("d"))
        assert world.rows() == wanted
    assert gaps[0] <= usual < gaps[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [21, 25])
def test_no_schedule_loses_or_doubles_rows_of_readers_that_crash_hang_and_move(seed: int) -> None:
    replica_schedules.run(seed, entries=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 12])
def test_readers_that_die_are_rebuilt_and_no_row_is_lost_or_doubled(seed: int) -> None:
    assert replica_schedules.run_whole(seed, entries=True)


def write(path: Path, start: int, stop: int) -> None:
    """Append rows to a file of lines."""
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(f"{n / 1000},{n}\n" for n in range(start, stop)))


@pytest.mark.slow(20)
@pytest.mark.parametrize("known", [False, True], ids=["before it is known", "after it is known"])
def test_on_real_peers_a_file_is_read_on_though_a_reader_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    """Rows that are written after the kill come; once the reader is rebuilt, the other one may die, too."""
    pings = 4.0 * PeerConfig().pings if known else 600.0  # with the latter nobody ever finds a death
    monkeypatch.setattr(starting, "_pings", lambda peers: pings)
    path = tmp_path / "rows.csv"
    path.write_text("time,n\n", encoding="utf-8")
    write(path, 0, 500)
    rows = source("tail", path=path, format="csv", columns=COLUMNS, id="rows", availability="active 2")
    plan = rows.filter("n >= 0", id="kept").sink("out", availability="active 2")
    with Cluster(4, cores=1.0, spark=False) as cluster:
        application = cluster.submit(plan, origin="peer-1")
        written = 500

        def more(rows: int) -> None:
            nonlocal written
            write(path, written, written + rows)
            written += rows

        def all_come() -> None:
            """All rows have come, once each and in order."""
            assert application.head(written)["n"].to_list() == list(range(written))

        all_come()
        where = application.graph
        first, second = where["rows"], where["rows~1"]
        assert len({first, second, "peer-1"}) == 3
        cluster.kill(first)
        more(500)
        all_come()
        if not known:
            assert application.graph == where, "nobody knows of a death"
            return
        lost = {name for name, peer in where.items() if peer == first}
        while not lost <= application.explain().rebuilt.keys():
            more(5)  # by rows that both readers have, what follows knows that it could do without either
            all_come()
        cluster.kill(second)
        more(500)
        all_come()
        application.stop()
