"""Names are free text: frames of plans of any name arrive at their component, and ids are valid."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_stream.part import Part, named
from synergy_nb.dataflow.deployments import Assignment, Deployment, InputFeed, SharedProducer, SharedReader
from synergy_nb.dataflow.streams.log.frames import Data, Frame, Subscribe, Unsubscribe
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.streams.log.values import ORIGIN, Output, Reader
from synergy_nb.dataflow.streams.log.wire import decode, encode
from synergy_nb.plan import Operator, Plan, PlanError, source
from synergy_nb.plan.terms.naming import is_id, is_name, suggested_id
from synergy_nb.reporting.explanation import Explanation
from synergy_nb.widgets.qos_view import QoSView
from synergy_nb.widgets.report import report
from tests.backed_hosts import BACKED, Hosts, undisturbed, windowed
from tests.qos_story import NAMES, story, top_pairs
from tests.quick_cases import quick_first
from tests.report_pages import journal, parsed
from tests.two_hosts import Pair, numbers, play, reading, trace

on_loop = play  # how the tests that are coroutines run

NASTY = [
    "credit: risk",
    "credit:x",
    "state: x",
    "replica: x",
    "settled: x",
    "data:x",
    "results:x/y",
    "in/out",
    "a/filter>sink:0",
    "a>b",
    "50 % / day",
    "%2F",
    "../../etc",
    "größte Aufträge",
    "注文",
    "🚀 <b>&amp;</b>",
    "two\nlines\ttab",
    "'\"--></style>&#x26;",
    "x" * 200,
]
TEXT = st.text(min_size=1, max_size=20) | st.text("%/>:a\n", min_size=1, max_size=8) | st.sampled_from(NASTY)


# -- what peers say --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(TEXT, TEXT, TEXT, TEXT, st.integers(-2, 99), st.integers(0, 1 << 40))
def test_a_decoded_frame_has_exactly_the_names_it_was_made_with(
    application: str, upstream: str, operator: str, peer: str, port: int, epoch: int
) -> None:
    output, reader = Output(application, upstream, epoch), Reader(application, operator, port, peer, epoch)
    frames: list[Frame] = [
        Data(output, reader, ORIGIN),
        Subscribe(output, reader, None),
        Unsubscribe(output, reader, operator),
    ]
    for frame in frames:
        found = decode(encode(frame))
        assert type(found) is type(frame)
        assert (found.output, found.reader) == (output, reader)  # type: ignore[union-attr]


@pytest.mark.slow
@given(TEXT, TEXT, TEXT, TEXT)
def test_a_decoded_deployment_has_exactly_the_names_it_was_made_with(
    application: str, upstream: str, operator: str, peer: str
) -> None:
    readers = (SharedReader(application, operator, 0, peer),)
    assignment = Assignment(peer, backups=(peer,), inputs=(InputFeed(application, upstream),), shared_readers=readers)
    order = Deployment(application, 1, {operator: assignment}, (SharedProducer(application, upstream, peer),))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(order), type=Deployment) == order


# -- between hosts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NASTY, ids=range(len(NASTY)))
async def test_streams_of_a_plan_of_any_name_cross_peers(name: str) -> None:
    """With windows so small that the sender would wait for ever if nobody said what was consumed."""

    pair = Pair(read=reading(20, 40), limits=Limits(4096))
    query = trace().filter("bytes % 2 = 0").sink()
    pair.deploy(name, query, {"source": "a", "filter": "b", "sink": "a"})
    assert numbers(await pair.results("a", name)) == list(range(0, 800, 2))
    refused = [event for runtime in pair.runtimes.values() for event in runtime.events if event[0] == "data_refused"]
    assert not refused
    assert not pair.failed


@pytest.mark.parametrize("name", quick_first(["settled: a/b>c:0", "in/out", "state: x", "注文\n🚀"], 1))
async def test_a_backup_of_a_plan_of_any_name_takes_over(name: str) -> None:
    expected = await undisturbed(windowed(), 20)
    hosts = Hosts(windowed(), BACKED, name)
    hosts.tell()
    await hosts.push(8)
    await hosts.covered("b")
    hosts.lose("p")
    hosts.take_over("p")
    await hosts.push(12)
    assert (await hosts.finish()).equals(expected)
    assert not hosts.failed


# -- at the boundary ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NASTY, ids=range(len(NASTY)))
def test_a_plan_of_any_name_is_the_same_after_a_journey(name: str) -> None:
    query = Plan(trace().sink().operators.values(), name=name)
    assert Plan.from_bytes(query.to_bytes()) == query
    assert Plan.from_yaml(query.to_yaml()) == query
    assert Plan.from_bytes(query.to_bytes()).name == name


@pytest.mark.parametrize(
    "name", ["", " ", "x" * 201, "\n", "half a pair \ud83d", "a\0b", "\x1b[31m", "\uffff", None, 7]
)
def test_texts_that_are_no_names_are_refused(name: Any) -> None:
    assert not is_name(name)
    with pytest.raises(PlanError, match=r"name: .*; expected a name of 1 to 200 characters"):
        Plan(trace().sink().operators.values(), name=name)


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("a>b", "a b"),
        ("in/out", "in out"),
        ("credit: risk", "credit risk"),
        ("-x", "x"),
        (" blank", "blank"),
        ("two  blanks", "two blanks"),
        ("two\nlines", "two lines"),
        ("source/", "source 2"),
        ("🚀 start", "start"),
        ("x" * 101, "x" * 96),
        ("🚀", None),
        ("", None),
    ],
)
def test_an_id_that_is_none_is_refused_with_one_that_would_be(wrong: str, hint: str | None) -> None:
    said = f"; did you mean {hint!r}?" if hint else ""
    expected = "expected an id of 1 to 100 characters: letters, digits, '_', '-', '.' and single spaces between words"
    with pytest.raises(PlanError) as raised:
        Plan(
            [
                Operator("source", "source", {"connector": "packets"}),
                Operator(wrong, "filter", {"where": "bytes > 1"}, ("source",)),
                Operator("sink", "sink", {}, (wrong,)),
            ]
        )
    (problem,) = raised.value.problems
    assert (problem.operator, problem.field, problem.value, problem.nearest) == (wrong, "id", wrong, hint)
    assert str(problem).endswith(" ".join(f"{expected}{said}".split()))


def test_an_id_is_checked_in_builder_file_and_bytes() -> None:
    with pytest.raises(PlanError, match=r"operator 'a/b', id: 'a/b'; expected an id .*; did you mean 'a b'\?"):
        source("packets").filter("bytes > 1", id="a/b").sink()
    text = "format: 1\noperators:\n  p: {kind: source, connector: packets}\n  'a>b': {kind: sink, input: p}\n"
    with pytest.raises(PlanError, match=r"operator 'a>b', id: 'a>b'; expected an id .*; did you mean 'a b'\?"):
        Plan.from_yaml(text)
    good = source("packets").sink(id="a-b")
    with pytest.raises(PlanError, match="expected an id"):
        Plan.from_bytes(good.to_bytes().replace(b"a-b", b"a/b"))


def test_text_that_cannot_be_written_down_is_refused_by_name() -> None:
    with pytest.raises(
        PlanError, match=r"operator 'filter', where: .*; expected a text .* that can be written as UTF-8"
    ):
        source("packets").filter("link = '\ud83d'").sink()


@pytest.mark.parametrize("right", ["a", "_", "0", "by source", "größte-7.2", "注文", "योजना", "a.b-c_d", "x" * 100])
def test_letters_of_any_script_make_an_id(right: str) -> None:
    assert is_id(right)
    query = source("packets").filter("bytes > 1", id=right).sink()
    assert Plan.from_yaml(query.to_yaml()) == query


@pytest.mark.slow
@given(st.text(max_size=120), st.sets(st.text(max_size=3), max_size=5))
def test_a_suggested_id_is_one_and_is_free(text: str, taken: set[str]) -> None:
    found = suggested_id(text, taken)
    assert found is None or (is_id(found) and found not in taken)


# -- pages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NASTY, ids=range(len(NASTY)))
def test_no_name_breaks_a_page(name: str) -> None:
    query = Plan(top_pairs().operators.values(), {"delay": "1 s"}, name)
    application = f"{name}-1-0a1b2c"
    ET.fromstring(query.to_svg())
    events = [msgspec.structs.replace(each, subject=application) for each in journal(query) if each.subject == "r1"]
    page = parsed(report(query, Explanation(application, events, NAMES), events, title=name))
    assert "".join(page.text).count(name) >= 2
    assert not page.seen & {"script", "b"}
    view = QoSView(story(5, application=application), query, names=NAMES)
    ET.fromstring(view.to_svg())
    ET.fromstring(view._repr_mimebundle_()[0]["text/html"])
    assert "sink" in view.to_text()
    view.close()


# -- streams and files -----------------------------------------------------------------------------------------------


def test_a_name_of_a_peer_is_not_taken_for_another_stream() -> None:
    """The stream name of a trace says which peer's file it is; without quotes these two would be called alike."""
    one = source("trace", path="f.tcp", format="tcp", at="p, packets").union(trace()).sink()
    other = source("trace", path="f.tcp", format="tcp", at="p").union(trace()).sink()
    assert one.stream_name("union") != other.stream_name("union")
    assert '@"p, packets"' in one.stream_name("union")


@pytest.mark.parametrize("name", NASTY, ids=range(len(NASTY)))
def test_the_folder_of_a_query_on_spark_has_a_harmless_name(name: str) -> None:
    query = trace().sink()
    found = {named(Part(name, "sink", query, ("source",), ())) for _ in range(50)}
    assert len(found) == 50
    for each in found:
        assert each.replace("-", "").isalnum()
        assert each.isascii()
        assert len(each) <= 100
