"""Every event is declared once, recorded somewhere, and shown to people or deliberately a detail."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import polars as pl
import pytest

import synergy_nb.events
from synergy_nb.events import (
    ENDINGS,
    REFUSED,
    ApplicationEnded,
    CandidatesFound,
    Event,
    Handlers,
    LinkBroken,
    PeerTrouble,
    ProbeAccepted,
    ProjectedImpact,
    Severity,
    SourceStarted,
    declared,
    decode_events,
    encode_events,
)
from synergy_nb.events.table import Events
from synergy_nb.reporting import facts
from synergy_nb.reporting.troubles import SENTENCES, gathered
from synergy_nb.widgets._journal_series import JournalSeries
from tests.syntax_trees import nodes_of, syntax_tree

PACKAGE = Path(synergy_nb.events.__file__).parent.parent
PRODUCT = [kind for kind in declared() if kind.__module__.startswith("synergy_nb.")]
#: Events that neither the account of a request nor the live view takes, with who shows them.
ELSEWHERE = {"SourceStarted": "synergy_nb/widgets/_charts.py"}


@cache
def trees() -> dict[str, ast.Module]:
    """Syntax trees of the product's modules, without those that declare events or only measure the product."""
    paths = (path for path in PACKAGE.rglob("*.py") if not {"events", "experiments"} & set(path.parts))
    return {str(path.relative_to(PACKAGE.parent)): syntax_tree(path.read_text("utf-8")) for path in paths}


@cache
def calls() -> tuple[tuple[str, ast.Call], ...]:
    """Every call, with its module."""
    return tuple(
        (name, node) for name, tree in trees().items() for node in nodes_of(tree) if isinstance(node, ast.Call)
    )


def records() -> Iterator[tuple[str, ast.Call]]:
    """Every call that writes to a journal, with its module."""
    for name, node in calls():
        if isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if called in ("record", "_record") and node.args:
                yield name, node


def names(tree: ast.AST) -> set[str]:
    """What a tree mentions, by its last name."""
    found = {node.id for node in nodes_of(tree) if isinstance(node, ast.Name)}
    return found | {node.attr for node in nodes_of(tree) if isinstance(node, ast.Attribute)}


@cache
def written() -> frozenset[str]:
    """Names in calls that write to a journal, and names of what is made: clients make events themselves."""
    made = (node.func for _, node in calls())
    return frozenset(
        {name for _, call in records() for name in names(call)}
        | {each.id for each in made if isinstance(each, ast.Name)}
    )


@pytest.mark.parametrize("kind", PRODUCT, ids=lambda kind: kind.__name__)
def test_every_event_is_recorded_somewhere_and_shown_or_a_detail(kind: type[Event]) -> None:
    by_status = kind in ENDINGS.values() and "ENDINGS" in written()
    assert kind.__name__ in written() or by_status, "nothing records it"
    shown = kind in facts.SHOWN | JournalSeries.SHOWN.kinds | SENTENCES.kinds
    if kind.__name__ in ELSEWHERE:
        assert not shown
        assert kind.__name__ in names(trees()[ELSEWHERE[kind.__name__]])
    else:
        assert shown == (kind.severity is not Severity.DETAIL)


def test_errors_of_peers_have_a_sentence_and_are_shown_in_the_view() -> None:
    troubles = {kind for kind in PRODUCT if issubclass(kind, PeerTrouble)}
    assert troubles == SENTENCES.kinds
    assert troubles <= JournalSeries.SHOWN.kinds
    assert all(kind.severity >= Severity.WARNING for kind in troubles)


@pytest.mark.slow
def test_nothing_is_recorded_by_a_name_in_quotes() -> None:
    quoted = [(name, call) for name, call in records() if isinstance(call.args[0], ast.Constant | ast.JoinedStr)]
    no_peer = "''"  # a simulated world names the peer before the event
    untyped = [f"{name}:{call.lineno}" for name, call in quoted if ast.unparse(call.args[0]) != no_peer]
    assert untyped == []
    assert sum(1 for _ in records()) > 50, "the calls are found"


def test_each_event_has_a_unique_kind_and_a_docstring() -> None:
    assert len({kind.__struct_config__.tag for kind in PRODUCT}) == len(PRODUCT) > 60
    assert {kind.__name__ for kind in PRODUCT} <= set(synergy_nb.events.__all__)
    assert all(kind.__doc__ and kind.__doc__ != Event.__doc__ for kind in PRODUCT)
    assert LinkBroken(0.0, "a", "b", "closed").kind == "link_broken"


def some() -> Events:
    impacts = [ProjectedImpact("app-2", 0.1, 0.2, 0.5)]
    return Events(
        [
            CandidatesFound(0.5, "a", "app-1", candidates={"filter": ["a", "b"]}, free={"a": 1.5}, sequence=0),
            ProbeAccepted(
                1.25,
                "b",
                "app-1",
                operator="filter",
                via=["a"],
                capacity=0.5,
                bandwidth=None,
                so_far_s=0.01,
                impacts=impacts,
                sequence=4,
            ),
            LinkBroken(1_700_000_000.0, "a", "b", "closed", sequence=5),
        ]
    )


def test_events_survive_their_encoding() -> None:
    assert decode_events(encode_events(list(some()))) == list(some())
    with pytest.raises(msgspec.ValidationError):
        decode_events(msgspec.msgpack.encode([["no_such_event", 0.0, "a", "", -1]]))


def test_events_are_a_table_of_all_or_with_the_fields_of_one_type() -> None:
    found = some().table()
    assert found.columns == ["time", "peer", "kind", "severity", "subject", "detail", "sequence"]
    assert found["kind"].to_list() == ["candidates_found", "probe_accepted", "link_broken"]
    assert found.filter(pl.col("severity") >= "warning")["subject"].to_list() == ["b"]
    assert str(found["time"][2]) == "2023-11-14 22:13:20"
    assert found["detail"][0] == '{"candidates": {"filter": ["a", "b"]}, "free": {"a": 1.5}}'
    probes = some().table(ProbeAccepted)
    assert probes.select("operator", "via", "bandwidth", "so_far_s", "impacts", "sequence").rows() == [
        ("filter", ["a"], None, 0.01, '[["app-2", 0.1, 0.2, 0.5]]', 4)
    ]
    assert probes.schema["bandwidth"] == pl.Float64
    assert some().table(PeerTrouble)["kind"].to_list() == ["link_broken"]
    assert Events().table(SourceStarted).schema["operator"] == pl.String
    with pytest.raises(TypeError, match="kind: 'ProbeDropped'; expected a type of events"):
        some().table("ProbeDropped")  # type: ignore[arg-type]
    assert [event.subject for event in some().of(PeerTrouble)] == ["b"]


def test_a_table_names_peers_by_their_names_wherever_they_are() -> None:
    one, ten = "tcp://h:1", "tcp://h:10"
    events = Events(
        [
            CandidatesFound(0.5, one, "app-1", candidates={"filter": [one, ten]}, free={one: 1.5}),
            ProbeAccepted(
                1.0, ten, "app-1", operator="filter", via=[one], capacity=0.5, bandwidth=None, so_far_s=0.0, impacts=[]
            ),
            LinkBroken(2.0, one, ten, f"{ten} has closed it"),
        ],
        {one: "peer-1", ten: "peer-2"},
    )
    found = events.table()
    assert found["peer"].to_list() == ["peer-1", "peer-2", "peer-1"]
    assert found["subject"].to_list() == ["app-1", "app-1", "peer-2"]
    assert json.loads(found["detail"][0]) == {"candidates": {"filter": ["peer-1", "peer-2"]}, "free": {"peer-1": 1.5}}
    assert events.table(ProbeAccepted)["via"].to_list() == [["peer-1"]]
    assert events.table(LinkBroken)["reason"].to_list() == ["peer-2 has closed it"]
    assert [event.peer for event in events] == [one, ten, one], "the events are unchanged"


@pytest.mark.parametrize("table", [some().table(), some().table(ProbeAccepted), Events().table()])
def test_a_table_of_events_is_written_as_parquet(table: pl.DataFrame) -> None:
    file = io.BytesIO()
    table.write_parquet(file)
    file.seek(0)
    assert pl.read_parquet(file).equals(table)


def test_handlers_take_a_base_class_a_union_and_no_type_twice() -> None:
    handlers = Handlers()

    @handlers.add
    def ended(event: ApplicationEnded | SourceStarted) -> str:
        return event.kind

    assert handlers.kinds == {*ENDINGS.values(), SourceStarted}
    assert handlers.get(LinkBroken) is None
    with pytest.raises(TypeError, match="SourceStarted has handlers ended and started"):

        @handlers.add
        def started(event: SourceStarted) -> str:
            return event.operator


def test_an_error_that_several_peers_met_is_gathered_once() -> None:
    (found,) = gathered([LinkBroken(1.0, "a", "c", "closed"), LinkBroken(2.0, "b", "c", "closed")])
    assert (found.peers, found.times, found.first, found.last) == (("a", "b"), 2, 1.0, 2.0)


def test_links_that_broke_as_a_process_ended_are_no_error_beside_its_death() -> None:
    ended = [LinkBroken(1.0, "a", "c", "closed"), LinkBroken(2.0, "b", "c", REFUSED)]
    (found,) = gathered([*ended, LinkBroken(3.0, "a", "d", "closed")])
    assert (found.link, found.peers) == ("d", ("a",))
