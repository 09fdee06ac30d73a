"""A query that can make its stream of another one that runs reads that: with fewer conditions, or of finer windows."""

from __future__ import annotations

from typing import Any

import duckdb
import msgspec
import pytest

from synergy_nb.algorithms.composition import CompositionConfig
from synergy_nb.assembly import PeerConfig
from synergy_nb.control.driver_messages import StopApplication
from synergy_nb.control.graph import Producer
from synergy_nb.control.peer import Peer
from synergy_nb.dataflow.deployments import InputFeed
from synergy_nb.events import SharingFound
from synergy_nb.lifecycle.records import hosted_components
from synergy_nb.lifecycle.requests.alternatives import Alternatives
from synergy_nb.overlay.directory_entries import Entry
from synergy_nb.plan import Plan, source
from synergy_nb.plan.derived.stream_containment import PARTS, write_parts
from synergy_nb.reporting.explanation import Explanation
from tests.session_streams import Both, packets
from tests.simulated import Ring

WIDE, NARROW, REST = "bytes > 100", "bytes > 100 AND link = 'A'", "tests link = 'A'"
BASE = "packets[rate=100 tuples/s, seed=1]"


def counted(where: str, **stated: Any) -> Plan:
    some = source("packets", rate=100.0, seed=1, id="packets").filter(where, cost="1 ms", id="some", **stated)
    return some.aggregate("destination", "1 s", n="count(*)", cost="1 ms", id="counts").sink("all", id="sink")


def started(ring: Ring, at: str, name: str, plan: Plan) -> dict[str, str]:
    ring.submit(at, name, plan)
    report = ring.until_decided(name)
    assert report.status == "running", report.reason
    ring.run(2.0)
    return report.peers


def rests(ring: Ring, name: str) -> dict[str, tuple[str, str]]:
    found = ring.events(name, SharingFound)
    return dict(found[0].rests) if found else {}


def test_a_query_with_more_conditions_reads_the_stream_of_one_with_less() -> None:
    ring = Ring(8, seed=1, codec=True)
    first = started(ring, "peer-3", "a", counted(WIDE))
    second = started(ring, "peer-5", "b", counted(NARROW))
    assert rests(ring, "b") == {"some": (f"filter[{WIDE}]({BASE})", REST)}
    assert second["packets"] == first["some"], "in place of its source it has the stream that runs"
    told = ring.deployments[second["some"], "b"]
    assert told.assignments["some"].inputs == (InputFeed("a", "some"),)
    assert Plan.from_bytes(told.plan).operators["some"].params == {"where": "link = 'A'"}
    text = str(Explanation("b", ring.events("b"), {}))
    assert f"some reads filter[{WIDE}]({BASE}), which runs; it still {REST}" in text


def test_the_stream_of_such_a_query_is_shared_like_any_other() -> None:
    ring = Ring(8, seed=1)
    started(ring, "peer-3", "a", counted(WIDE))
    second = started(ring, "peer-5", "b", counted(NARROW))
    third = started(ring, "peer-1", "c", counted(NARROW))
    assert third == {"counts": second["counts"], "sink": "peer-1"}
    fourth = started(ring, "peer-2", "d", counted(f"{NARROW} AND source_port > 9"))
    assert rests(ring, "d") == {"some": (f"filter[{NARROW}]({BASE})", "tests source_port > 9")}, "the nearest of two"
    assert fourth["packets"] == second["some"]


@pytest.mark.parametrize("where", ["bytes > 50", "link = 'A'", "bytes > 100 OR link = 'A'"])
def test_a_query_with_other_rows_reads_the_source(where: str) -> None:
    ring = Ring(8, seed=1)
    first = started(ring, "peer-3", "a", counted(WIDE))
    second = started(ring, "peer-5", "b", counted(where))
    assert not rests(ring, "b")
    assert second["packets"] == first["packets"]


def test_what_is_read_stays_until_its_last_reader_has_ended_and_then_nobody_states_it() -> None:
    ring = Ring(8, seed=4)
    first = started(ring, "peer-3", "a", counted(WIDE))
    started(ring, "peer-5", "b", counted(NARROW))
    ring.simulation.report("peer-3", StopApplication("a"))
    ring.run(2.0)
    assert (first["some"], "a", "some") in ring.deployed
    ring.simulation.report("peer-5", StopApplication("b"))
    ring.run(5.0)
    assert not ring.deployed
    found: list[Any] = []
    ring.simulation.call("peer-1", ring.synergy["peer-1"].directory.lookup, [BASE], found.append, 3.0)
    ring.run(3.0)
    assert not any(PARTS in entry.attributes for entry in found[0][BASE])
    assert started(ring, "peer-5", "c", counted(NARROW))
    assert not rests(ring, "c")


def test_without_sharing_no_stream_is_read() -> None:
    config = CompositionConfig(sharing="off")
    ring = Ring(6, seed=10, config=lambda n: PeerConfig(f"peer-{n}", seed=n, composition=config))
    started(ring, "peer-1", "a", counted(WIDE))
    started(ring, "peer-2", "b", counted(NARROW))
    assert not ring.events("b", SharingFound)


def test_if_peers_refuse_the_stream_the_query_is_composed_without_it() -> None:
    made = msgspec.json.encode((Producer("a", "some", "peer-1"),)).decode()
    name = f"filter[{WIDE}]({BASE})"
    runs = {"application": "a", "operator": "some", "producers": made}
    entries = {
        BASE: (Entry(BASE, "peer-1", "stream", {**runs, "operator": "packets", PARTS: write_parts([[WIDE]])}, 60.0),)
    }
    finder = Alternatives(Peer("x", 1), lambda _: False, "live", lambda: None, backtracks=False)
    plan = counted(NARROW)
    assert finder.containing(plan, entries) == {name}
    running = Entry(name, "peer-1", "stream", {**runs, "rate": 70.0}, 60.0)
    several = finder.of("r", plan, {**entries, name: (running,)})
    assert [dict(each.rests) for each in several] == [{"some": (name, REST)}, {}, {}]
    assert [list(each.shared) for each in several] == [["packets"], ["packets"], []]
    assert several[0].plan.rate("packets") == 70.0
    assert [each.rests for each in finder.of("r", plan, entries)] == [{}, {}], "it runs no more"


def messages(monkeypatch: pytest.MonkeyPatch, where: tuple[str, ...], *, states: bool) -> int:
    """Messages of a minute in which applications start."""
    with monkeypatch.context() as patched:
        if not states:
            patched.setattr(hosted_components, "stated_part", lambda *_: None)
        ring = Ring(8, seed=3)
        for number, each in enumerate(where):
            started(ring, f"peer-{number}", f"app-{number}", counted(each))
        ring.run(60.0 - ring.simulation.now)
        return ring.simulation.messages


@pytest.mark.slow
def test_whoever_finds_nothing_to_read_costs_few_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each host of a filter registers it once under the name of its base, and renews it with its other entries."""
    where = tuple(f"bytes > {least}" for least in (600, 500, 400, 300))  # none has all rows of a later one
    with_parts, without = (messages(monkeypatch, where, states=states) for states in (True, False))
    assert with_parts - without <= 10 * len(where)


class Rows(Both):
    """Applications over one source of given rows."""

    def begin(self, at: str, name: str, plan: Plan) -> dict[str, str]:
        self.submit(at, name, plan)
        return self.until_running(name)

    def rows(self, name: str) -> list[tuple[object, ...]]:
        self.until_ended(name)
        return self.streams.results[name, "sink"].rows.rows()


def selecting(where: str, at: str, **stated: Any) -> Plan:
    return packets(0).filter(where, id="some", at=at).sink(id="sink", **stated)


def changed(ring: Rows, what: str, operator: str) -> list[str]:
    """Let the peer of an operator die or its component move: that of a at peer-3, or that of b; gives how it went."""
    if what == "the owner dies":
        ring.crash("peer-3")
        ring.run(4.0)
    elif what == "the owner moves":
        return ring.move("peer-0", "a", operator, "peer-7")
    elif what == "the reader moves":
        return ring.move("peer-5", "b", operator, "peer-7")
    return [""]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["nothing", "the owner dies", "the owner moves", "the reader moves"])
@pytest.mark.parametrize("columns", [(), ("link", "destination_port", "bytes")])
def test_the_rows_are_those_of_duckdb_from_where_it_joined(what: str, columns: tuple[str, ...]) -> None:
    ring = Rows(10, 7, sources=1)
    wide, narrow = "bytes >= 200", "bytes >= 300 AND link = 'A'"
    ring.begin("peer-0", "a", selecting(wide, "peer-3", **({"availability": "degree 2"} if "dies" in what else {})))
    ring.run(0.2)
    given_rows = packets(0).project(*columns, id="few", at="peer-6") if columns else packets(0)
    ring.begin("peer-5", "b", given_rows.filter(narrow, id="some", at="peer-6").sink(id="sink"))
    assert rests(ring, "b")
    ring.run(0.3)
    outcome = changed(ring, what, "some")
    given = ring.streams.inputs["s0"]
    assert given.height
    kept = ", ".join(("time", *columns)) if columns else "*"
    query = f"SELECT {kept} FROM given WHERE {narrow} ORDER BY destination_port"
    wanted = duckdb.execute(query).fetchall()
    found = ring.rows("b")
    assert outcome == [""]
    assert len(found) > len(wanted) // 3
    assert found == wanted[len(wanted) - len(found) :], "in order"


def test_a_projection_reads_a_wider_one() -> None:
    ring = Ring(8, seed=1, codec=True)
    some = source("packets", rate=100.0, seed=1, id="packets").filter(WIDE, cost="1 ms", id="some")
    first = started(ring, "peer-3", "a", some.project("link", "bytes", id="few").sink("all", id="sink"))
    narrow = some.filter("link = 'A'", id="more").project("bytes", id="few").sink("all", id="sink")
    second = started(ring, "peer-5", "b", narrow)
    wide = f"project[columns={{link, bytes}}](filter[{WIDE}]({BASE}))"
    assert rests(ring, "b") == {"few": (wide, "tests link = 'A' and projects bytes")}
    assert second["some"] == first["few"]
    assert f"few reads {wide}, which runs; it still tests link = 'A' and projects bytes" in str(
        Explanation("b", ring.events("b"), {})
    )


# -- coarser windows ---------------------------------------------------------------------------------------------------

CALLS = {"n": "count(*)", "total": "sum(bytes)"}


def aggregated(window: str, by: tuple[str, ...] = ("link", "destination_port"), where: str = "", **calls: str) -> Plan:
    some = source("packets", rate=100.0, seed=1, id="packets")
    some = some.filter(where, cost="1 ms", id="some") if where else some
    return some.aggregate(by, window, values=calls or CALLS, cost="1 ms", id="sums").sink("all", id="sink")


def test_coarser_windows_are_made_of_the_nearest_that_run() -> None:
    ring = Ring(8, seed=1, codec=True)
    first = started(ring, "peer-3", "a", aggregated("1 s"))
    second = started(ring, "peer-5", "b", aggregated("10 s", ("link",), mean="avg(bytes)", **CALLS))
    made = "n of n, total of total"
    finer = aggregated("1 s").stream_name("sums")
    assert rests(ring, "b") == {"sums": (finer, f"combines windows of 1 s: mean of n and total, {made}")}
    assert second["packets"] == first["sums"], "in place of its source it has the stream that runs"
    told = ring.deployments[second["sums"], "b"]
    assert told.assignments["sums"].inputs == (InputFeed("a", "sums"),)
    assert f"sums reads {finer}, which runs; it still combines windows of 1 s" in str(
        Explanation("b", ring.events("b"), {})
    )
    third = started(ring, "peer-1", "c", aggregated("1 min", (), **CALLS))
    ten = aggregated("10 s", ("link",), mean="avg(bytes)", **CALLS).stream_name("sums")
    assert rests(ring, "c") == {"sums": (ten, f"combines windows of 10 s: {made}")}, "the nearest of two"
    assert third["packets"] == second["sums"]
    fourth = started(ring, "peer-2", "d", aggregated("1 min", (), **CALLS))
    assert fourth == {"sums": third["sums"], "sink": "peer-2"}, "its own name is that of the whole"


def test_a_count_of_coarser_windows_is_an_aggregate() -> None:
    ring = Ring(8, seed=1)
    first = started(ring, "peer-3", "a", aggregated("1 s"))
    counting = source("packets", rate=100.0, seed=1, id="packets").count(window="10 s", id="counts")
    second = started(ring, "peer-5", "b", counting.sink("all", id="sink"))
    finer = aggregated("1 s").stream_name("sums")
    assert rests(ring, "b") == {"counts": (finer, "combines windows of 1 s: n of n")}
    assert second["packets"] == first["sums"]
    assert ring.deployments[second["counts"], "b"].assignments["counts"].inputs == (InputFeed("a", "sums"),)


def test_rows_of_some_groups_are_tested_behind_the_finer_windows() -> None:
    ring = Ring(8, seed=1)
    started(ring, "peer-3", "a", aggregated("1 s", where="bytes > 100"))
    started(ring, "peer-5", "b", aggregated("10 s", (), where="bytes > 100 AND link = 'A'"))
    left = "tests link = 'A' and combines windows of 1 s: n of n, total of total"
    assert rests(ring, "b") == {"sums": (aggregated("1 s", where="bytes > 100").stream_name("sums"), left)}


def test_finer_windows_that_lack_a_value_are_told() -> None:
    ring = Ring(8, seed=1)
    first = started(ring, "peer-3", "a", aggregated("1 s"))
    second = started(ring, "peer-5", "b", aggregated("10 s", most="max(bytes)"))
    assert not rests(ring, "b")
    assert second["packets"] == first["packets"]
    text = str(Explanation("b", ring.events("b"), {}))
    finer = aggregated("1 s").stream_name("sums")
    assert f"sums does not read {finer}, which runs: max(bytes) is not among its values" in text


def windows(length: str, by: tuple[str, ...], at: str, **stated: Any) -> Plan:
    return packets(0).aggregate(by, length, values=CALLS, id="sums", at=at).sink(id="sink", **stated)


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["nothing", "the owner dies", "the owner moves", "the reader moves", "the reader dies"]
)
def test_coarser_windows_are_those_of_duckdb_from_the_second_on(what: str) -> None:
    ring = Rows(10, 7, sources=1)
    backups: Any = {"availability": "degree 2"}
    ring.begin(
        "peer-0", "a", windows("20 ms", ("link", "bytes"), "peer-3", **(backups if "owner dies" in what else {}))
    )
    ring.run(0.2)
    ring.begin("peer-5", "b", windows("100 ms", ("link",), "peer-6"))
    assert rests(ring, "b")["sums"][1] == "combines windows of 20 ms: n of n, total of total"
    ring.run(0.3)
    outcome = changed(ring, what, "sums")
    given = ring.streams.inputs["s0"]
    assert given.height
    query = (
        "SELECT time_bucket(INTERVAL 100 MILLISECONDS, time) AS s, link, count(*), sum(bytes) FROM given GROUP BY ALL"
    )
    wanted = {(start, link): (n, total) for start, link, n, total in duckdb.execute(query).fetchall()}
    ring.until_ended("b")
    table = ring.streams.results["b", "sink"].rows
    found = {(start, link): (n, total) for start, link, n, total in table.select("window_start", "link", *CALLS).rows()}
    assert outcome == [""]
    assert len(found) == table.height > len(wanted) // 3
    first = min(start for start, _ in found)
    assert {key: value for key, value in found.items() if key[0] > first} == {
        key: value for key, value in wanted.items() if key[0] > first
    }
    assert all(value <= wanted[key] for key, value in found.items()), "the first has what came since it joined"
