"""A death without backups is not the end: the origin composes the application anew, if its plan asks for that."""

from __future__ import annotations

import pytest

from synergy_nb.plan import Plan, source
from synergy_nb.simulator.simulation import Simulation


def plan(on_death: str | None) -> Plan:
    packets = source("packets", rate="200 tuples/s", duration="5 s", seed=1, id="s", at="peer-1")
    return packets.filter("bytes > 100", id="f").count(window="1 s", id="c").sink("out", on_death=on_death, at="peer-1")


def run(on_death: str | None, *, kills: int) -> tuple[str, str, list[tuple[object, ...]]]:
    """How an application ends of which peers are killed that execute a part of it, and its rows."""
    simulation = Simulation(5, seed=3)
    application = simulation.submit(plan(on_death), spread=True, origin="peer-1")
    for _ in range(kills):
        simulation.run("3 s")
        victims = sorted({peer for peer in application.graph.values() if peer != "peer-1"})
        simulation.kill(victims[0])
    application.wait()
    return application.status, str(application.explain()), application.results(wait=False).rows()


def test_it_goes_on_from_what_its_sources_still_have_and_each_row_is_there_once() -> None:
    status, account, rows = run("restart", kills=2)
    assert status == "finished"
    assert account.count("composed anew: peer-") == 2
    assert "restarted from the beginning of its sources; nothing is lost" in account
    assert rows == run(None, kills=0)[2]


@pytest.mark.parametrize("on_death", [None, "fail"])
def test_it_fails_unless_its_plan_asks_for_a_restart(on_death: str | None) -> None:
    assert run(on_death, kills=1)[0] == "failed"


def test_the_successor_of_its_origin_composes_it_anew_too() -> None:
    """The origin dies, and with it the filter, which has no backup."""

    def rows_of(*, kill: bool) -> list[tuple[object, ...]]:
        simulation = Simulation(5, seed=3)
        packets = source("packets", rate="200 tuples/s", duration="5 s", seed=1, id="s")
        counts = packets.filter("bytes > 100", id="f").count(window="1 s", id="c")
        wanted = counts.sink("out", on_death="restart", at="peer-3")
        application = simulation.submit(wanted, spread=True, origin="peer-2")
        assert application.graph["f"] == "peer-2"
        simulation.run("3 s")
        if kill:
            simulation.kill("peer-2")
        assert application.wait() == "finished"
        assert ("led on: by peer-3, as its origin peer-2 died" in str(application.explain())) == kill
        assert ("composed anew: its origin peer-2 died, and with it peer-2 (f)" in str(application.explain())) == kill
        return application.results(wait=False).rows()

    assert rows_of(kill=True) == rows_of(kill=False)
