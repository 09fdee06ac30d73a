"""Applications are found again, listed and stopped; what was collected of their results stays readable."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from synergy_nb import Cluster, ClusterError, Plan, connect_cluster, plan, source, watch
from synergy_nb.reporting.application_list import UnknownApplication
from synergy_nb.runtime.client import async_cluster
from synergy_nb.runtime.client._lease_renewals import LeaseRenewals
from synergy_nb.runtime.client.async_application import ANSWERED_S
from synergy_nb.runtime.client.async_cluster import AsyncCluster
from synergy_nb.runtime.data.deliveries import POLL
from synergy_nb.runtime.process.requests import Listed, RenewLeases, pack, unpack
from tests.waiting import DEADLINE, asked_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(peers=2, cores=1.0, spark=False) as started:
        yield started


def endless(name: str, rate: str = "500 tuples/s", delay: str | None = "5 s") -> Plan:
    """Packets that go on for ever."""
    return source("packets", seed=3, rate=rate).project("bytes").sink(name, delay=delay)


def short(name: str = "short") -> Plan:
    """Packets of one second of event time, as fast as they are made."""
    packets = source("packets", seed=3, rate="200 tuples/s", duration="1 s", speed=0)
    return packets.project("bytes").sink(name, delay="30 s")


# -- finding ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_dropped_application_is_found_again_and_stopped(cluster: Cluster) -> None:
    name = cluster.submit(endless("dropped")).id
    found = cluster.applications[name]
    assert found.status == "running"
    assert found.plan == endless("dropped")
    cluster.stop(name)
    assert cluster.applications[name].status == "stopped"
    cluster.stop(name)  # again: it has ended, as was asked


def test_applications_are_a_table_with_delay_limit_peers_and_how_to_stop(cluster: Cluster) -> None:
    application = cluster.submit(endless("<b>shown</b>"))
    application.head(1)
    heading, *rows = repr(cluster.applications).splitlines()[1:]
    assert heading.split("  ")[0] == "application"
    (row,) = [line for line in rows if line.startswith(application.id)]
    for expected in ("running", "limit 5 s", *set(application.graph.values()), f'cluster.stop("{application.id}")'):
        assert expected in row
    page = cluster.applications._repr_html_()
    assert "_b_shown_b_" in page, "an id is one word"
    assert "<b>shown" not in page
    application.stop()
    (row,) = [line for line in repr(cluster.applications).splitlines() if line.startswith(application.id)]
    assert "stopped" in row
    assert "cluster.stop" not in row


@pytest.mark.slow
def test_rows_beside_a_view_come_while_a_page_is_open_and_are_taken_from_no_loop(cluster: Cluster) -> None:
    application = cluster.submit(endless("looked at", rate="200 tuples/s"))
    application.head(5)
    view = watch(application, rows=50)
    assert "rows of looked at: the last " in view.to_text(), "the first rows are there"
    view.on_page_message("ready", "a page")
    asked_until(lambda: "rows of looked at: the last 50 rows" in view.to_text())
    assert next(iter(application)).height
    application.stop()
    view.close()


def test_running_applications_come_first_and_the_mapping_is_one(cluster: Cluster) -> None:
    over = cluster.submit(short())
    over.results()
    running = cluster.submit(endless("first"))
    listed = cluster.applications
    names = list(listed)
    assert names.index(running.id) < names.index(over.id)
    assert len(listed) == len(names)
    assert over.id in listed
    assert {name: each.id for name, each in listed.items()} == {name: name for name in names}
    running.stop()


def test_a_cluster_without_applications_displays_that_none_runs() -> None:
    with Cluster(peers=1, spark=False) as empty:
        assert repr(empty.applications) == "Applications: 0 running, 0 ended"
        assert len(empty.applications) == 0
        with pytest.raises(ClusterError, match="application: 'x'; expected one that runs, and none does"):
            empty.stop("x")


def test_another_client_of_the_same_peers_finds_running_applications_and_shares_their_results(cluster: Cluster) -> None:
    mine = cluster.submit(short("of another"))
    assert mine.wait(DEADLINE) == "finished"
    running = cluster.submit(endless("left running"))
    with Cluster(cluster.scheduler, spark=False) as other:
        theirs = other.applications[mine.id]
        rows = theirs.results()
        assert rows.height > 0
        assert theirs.results().equals(rows)
        other.stop("left running")
    assert mine.results().equals(rows), "reading takes nothing from others"
    assert running.status == "stopped"
    with pytest.raises(ClusterError, match="stopped: on request"):
        running.results()


def test_a_client_that_closes_leaves_what_others_submitted(cluster: Cluster) -> None:
    running = cluster.submit(endless("stays"))
    with Cluster(cluster.scheduler, spark=False) as other:
        assert other.applications[running.id].head(3).height == 3
    assert running.status == "running"
    running.stop()


def test_what_a_client_has_submitted_ends_with_it_unless_it_was_detached(cluster: Cluster) -> None:
    with Cluster(cluster.scheduler, spark=False) as other:
        kept = other.submit(endless("goes on"), detach=True).id
        ended = other.submit(endless("ends")).id
        with pytest.raises(
            ClusterError, match="detach: True; expected False, as this program gives the rows of source"
        ):
            other.submit(source([{"v": 1}], columns={"v": "int"}).sink(), detach=True)
    assert cluster.applications[ended].status == "stopped"
    assert cluster.applications[kept].head(3).height == 3
    cluster.stop("goes on")
    with pytest.raises(ClusterError, match="detach: True; expected False, as the peers were started here"):
        cluster.submit(endless("kept"), detach=True)


def test_what_is_found_again_goes_on_while_its_finder_lives(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    running, over = cluster.submit(endless("of a killed kernel")), cluster.submit(short("already over"))
    assert over.wait(DEADLINE) == "finished"
    renewed, request = threading.Event(), AsyncCluster.request

    async def seen(it: AsyncCluster, peer: str, operation: str, payload: bytes = b"", timeout: float = 5.0) -> bytes:
        answer = await request(it, peer, operation, payload, timeout)
        if operation == "renew" and running.id in unpack(payload, RenewLeases).applications:
            renewed.set()
        return answer

    monkeypatch.setattr(async_cluster, "LeaseRenewals", partial(LeaseRenewals, every=0.01))
    monkeypatch.setattr(AsyncCluster, "request", seen)
    with Cluster(cluster.scheduler, spark=False) as other:
        listed = other.applications
        assert other.applications["already over"].results().equals(over.results())
        assert not renewed.is_set(), "a look at the list keeps nothing"
        found = other.application("of a killed kernel")
        assert (found.id, found.head(3).height, listed[found.id].status) == (running.id, 3, "running")
        assert renewed.wait(DEADLINE)
        assert other.application("already over").results().equals(over.results()), "the last one, as none runs"
        with pytest.raises(UnknownApplication, match="'nobody'; expected the id or the plan's name of one that runs"):
            other.application("nobody")
    assert running.status == "running", "whoever finds it again does not stop it"
    running.stop()


def test_coroutines_find_and_stop_applications(cluster: Cluster) -> None:
    running = cluster.submit(endless("for coroutines"))

    async def main() -> tuple[str, int, str]:
        client = await connect_cluster(cluster.scheduler, spark=False)
        try:
            listed = await client.applications()
            rows = await listed[running.id].head(5)
            await client.stop(running.id)
            return repr(listed), rows.height, (await listed[running.id].state()).status
        finally:
            await client.close()

    shown, rows, status = asyncio.run(main())
    assert running.id in shown
    assert (rows, status) == (5, "stopped")


# -- stopping --------------------------------------------------------------------------------------------------------


def test_a_plan_name_that_runs_once_is_enough_to_stop_it(cluster: Cluster) -> None:
    first, second = cluster.submit(endless("twice")), cluster.submit(endless("twice"))
    with pytest.raises(ClusterError) as caught:
        cluster.stop("twice")
    assert str(caught.value) == (
        f"application: 'twice' is the plan of {first.id}, {second.id}; expected one of these ids"
    )
    first.stop()
    cluster.stop("twice")
    assert second.status == "stopped"
    with pytest.raises(ClusterError, match=r"'twice' has ended already: twice-\S+ \(stopped\)"):
        cluster.stop("twice")


def test_a_wrong_name_is_refused_with_the_nearest_one(cluster: Cluster) -> None:
    application = cluster.submit(endless("temperatures"))
    with pytest.raises(ClusterError, match=r"'temperature'; expected the id .* did you mean 'temperatures'\?"):
        cluster.stop("temperature")
    with pytest.raises(KeyError, match=re.escape(application.id)):
        cluster.applications[application.id[:-1]]
    with pytest.raises(KeyError, match=rf"one that runs: {application.id}$"):  # nothing is near
        cluster.applications["nobody"]
    assert "nobody" not in cluster.applications
    application.stop()


# -- results that stay -----------------------------------------------------------------------------------------------


def test_collected_results_stay_after_stop_and_in_what_is_found_again(cluster: Cluster) -> None:
    application = cluster.submit(short())
    rows = application.results()
    name = application.id
    application.stop()
    assert application.results().equals(rows)
    del application
    assert cluster.applications[name].results().equals(rows)


def test_stop_collects_the_results_that_wait_at_the_sinks(cluster: Cluster) -> None:
    application = cluster.submit(short())
    assert application.wait(DEADLINE) == "finished"
    tuples = application.qos()["tuples"]
    application.stop()
    assert application.results().height == tuples > 0
    assert application.head(3).equals(application.results().head(3))
    assert list(application) == []


def test_a_client_waits_longer_than_a_peer_that_waits_itself() -> None:
    """If not, ``stop()`` on a busy machine returned before a destination had what had arrived."""
    assert ANSWERED_S > POLL


def test_a_stopped_endless_stream_returns_the_results_so_far(cluster: Cluster) -> None:
    application = cluster.submit(endless("ended"))
    some = application.head(20)
    application.stop()
    rows = application.results()
    assert rows.head(20).equals(some)
    assert rows.equals(application.results(wait=False))
    assert rows.equals(application.results(seconds=5))


@pytest.mark.slow
def test_collected_results_stay_when_the_cluster_is_closed() -> None:
    with Cluster(peers=1, spark=False) as closing:
        whole, part = closing.submit(short()), closing.submit(endless("part"))
        rows, some = whole.results(), part.head(4)
    assert whole.results().equals(rows)
    assert whole.head(2).equals(rows.head(2))
    assert part.results(wait=False).head(4).equals(some)
    with pytest.raises(ClusterError, match=r"the cluster is closed, and not all .*; .* rows? ha(s|ve) arrived"):
        part.results()


def test_the_last_numbers_of_a_stopped_application_are_those_of_its_results(cluster: Cluster) -> None:
    application = cluster.submit(endless("numbers", rate="5000 tuples/s"))
    application.head(50)
    application.stop()
    rows = application.results().height
    assert application.qos()["tuples"] == rows >= 50
    (row,) = [line for line in repr(cluster.applications).splitlines() if line.startswith(application.id)]
    assert f"  {rows:,}  " in row


def test_windows_that_are_cut_short_are_named(cluster: Cluster) -> None:
    stream = source("packets", seed=3, rate="500 tuples/s")
    both = plan(
        stream.aggregate(window="1 h", n="count(*)", id="hourly").sink("a", id="a"),
        stream.sample(0.5).sink("b", id="b"),
    )
    application = cluster.submit(both)
    assert application.notices == []
    application.head(5, "b")
    asked_until(
        lambda: any(part["memory_bytes"] for state in cluster.states().values() if state for part in state.components)
    )
    application.stop()
    (notice,) = application.notices
    assert notice == "windows were open when it was stopped, and have no result: hourly held tuples of them"
    assert notice in repr(application)


def test_rows_that_a_loop_took_are_counted(cluster: Cluster) -> None:
    application = cluster.submit(endless("looped"))
    first = next(iter(application))
    assert f"{first.height:,} row" in application.notices[0]
    application.stop()
    assert application.qos()["tuples"] == application.results().height + first.height


def test_durations_are_shown_with_a_unit_that_fits(cluster: Cluster) -> None:
    application = cluster.submit(endless("shown", delay="90 min"))
    application.head(3)
    application.stop()
    assert "(limit 1 h 30 min)" in repr(application)
    assert "limit 1 h 30 min" in repr(cluster.applications)


# -- streams without an end ------------------------------------------------------------------------------------------


def test_results_of_an_endless_stream_say_so_at_once(cluster: Cluster) -> None:
    application = cluster.submit(endless("for ever"))
    with pytest.raises(ClusterError) as caught:
        application.results()
    text = str(caught.value)
    assert "its stream is endless, as its source 'source' (packets) never ends" in text
    assert "head(100)" in text
    assert "results(seconds=5)" in text
    application.stop()


def test_head_gives_the_first_rows_and_the_same_again(cluster: Cluster) -> None:
    application = cluster.submit(endless("some"))
    ten = application.head()
    assert ten.height == 10
    assert application.head(25).head(10).equals(ten)
    assert application.head(0).columns == ten.columns
    assert application.results(wait=False).head(10).equals(ten)
    application.stop()


@pytest.mark.slow
def test_results_of_several_seconds_add_up(cluster: Cluster) -> None:
    application = cluster.submit(endless("timed"))
    first = application.head(7)
    more = application.results(seconds=0.2)
    assert more.head(7).equals(first)
    assert application.results(seconds=0.1).head(more.height).equals(more)
    assert application.head(1_000_000, seconds="200 ms").height < 1_000_000
    with pytest.raises(TimeoutError, match="still runs after 10 ms"):
        application.wait("10 ms")
    with pytest.raises(ValueError, match="timeout: 'late'; expected a duration such as"):
        application.wait("late")
    with pytest.raises(ValueError, match="timeout: '2 parsecs'; expected a duration such as"):
        cluster.submit(short(), timeout="2 parsecs")
    application.stop()


def test_head_and_results_of_a_stream_that_ends_return_all_of_its_rows(cluster: Cluster) -> None:
    application = cluster.submit(short())
    rows = application.results(seconds=30)
    assert application.head(1_000_000).equals(rows)
    assert application.results().equals(rows)
    application.stop()


def test_each_sink_has_its_own_end(cluster: Cluster) -> None:
    ends = source("packets", seed=1, rate="100 tuples/s", duration="1 s", speed=0).project("bytes").sink("ends", id="a")
    goes_on = source("packets", seed=1, rate="100 tuples/s").project("bytes").sink("goes on", id="b")
    application = cluster.submit(plan(ends, goes_on))
    rows = application.results("ends")
    assert rows.height > 0
    assert application.results("a").equals(rows)
    with pytest.raises(ClusterError, match="endless"):
        application.results("b")
    with pytest.raises(
        ClusterError, match="sink: not given; expected one of a \\(named 'ends'\\), b \\(named 'goes on'\\)"
    ):
        application.head(1)
    assert application.head(2, "b").height == 2
    application.stop()
    assert application.results("a").equals(rows)
    assert application.results("b").height >= 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seconds": 0}, "seconds: 0; expected a duration above 0, such as '2 s' or a number of seconds"),
        ({"seconds": "soon"}, "seconds: 'soon'; expected a duration such as '2 s', '500 ms', '20 min' or '1 h'"),
        ({"seconds": 1, "wait": False}, "seconds: 1; expected none together with wait=False"),
    ],
)
def test_wrong_seconds_are_refused(cluster: Cluster, arguments: dict[str, object], message: str) -> None:
    application = cluster.submit(short())
    with pytest.raises(ValueError, match=re.escape(message)):
        application.results(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n: -1; expected a number of rows"):
        application.head(-1)
    application.stop()


# -- peers that do not answer ----------------------------------------------------------------------------------------


class Silent:
    """Links to peers of which some never answer."""

    address = "client"

    def __init__(self, *silent: str) -> None:
        self.silent = silent
        self.given_up: list[str] = []

    async def request(self, to: str, operation: str, payload: bytes, timeout: float) -> bytes:
        if to not in self.silent:
            return pack(Listed([]))
        try:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
        finally:
            self.given_up.append(to)


def test_a_peer_that_does_not_answer_holds_no_list_up_for_longer_than_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(async_cluster, "STRAGGLING", 0.0)
        links: Any = Silent("c", "d")
        peers = AsyncCluster(links, {name: name for name in "abcd"})
        assert await peers.entries() == {}, "though the deadline of a request is later than that of this test"
        assert sorted(links.given_up) == ["c", "d"]

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
