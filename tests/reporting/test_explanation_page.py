"""An explanation as a notebook shows it: operators that open, candidates as bars, graphs folded."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from synergy_nb.events import (
    ApplicationRejected,
    GraphEvaluated,
    GraphSelected,
    ProbeDropped,
)
from synergy_nb.reporting.explanation import Explanation
from tests.qos_story import NAMES as STORY_NAMES
from tests.qos_story import PEERS, actively_replicated, filtered

NAMES = {"tcp://a": "peer-1", "tcp://b": "peer-2", "tcp://c": "peer-3"}


def explained() -> Explanation:
    """A request with two graphs, of which one was chosen, and three dropped probes."""
    found = {"filter": "tcp://a", "sort": "tcp://b"}
    return Explanation(
        "pairs-1",
        [
            ProbeDropped(1.0, "tcp://a", "pairs-1", "filter", "tcp://c", "processing", 0.5, 0.2),
            ProbeDropped(1.0, "tcp://a", "pairs-1", "filter", "tcp://b", "delay", 1.0, 4.0),
            ProbeDropped(1.0, "tcp://a", "pairs-1", "sort", "tcp://c", "component", 0.0, 0.0, "it is <not> there"),
            GraphEvaluated(2.0, "tcp://a", "pairs-1", {"filter": "tcp://b", "sort": "tcp://b"}, 3.25, 0.02),
            GraphEvaluated(2.0, "tcp://a", "pairs-1", found, 1.5, 0.01),
            GraphSelected(2.0, "tcp://a", "pairs-1", found, 1.5, 0.01),
        ],
        NAMES,
    )


def test_each_operator_opens_and_shows_its_dropped_candidates() -> None:
    explanation = explained()
    page = explanation._repr_html_()
    root = ET.fromstring(page)
    titles = [" ".join("".join(each.itertext()).split()) for each in root.iter("summary")]
    assert len(titles) == 4
    assert titles[0].startswith("filter")
    assert "peer-1" in titles[0]
    assert "2 probes dropped" in titles[0]
    assert titles[2] == "2 complete graphs, by φ"
    bars = re.findall(r"width:([\d.]+)%;background[^>]*></span><span title='required'[^>]*left:([\d.]+)%", page)
    assert bars == [("32.0", "80.0"), ("80.0", "20.0")]  # too little processing; too much delay
    assert "it is &lt;not&gt; there" in page
    assert "a limit of 1 s, 4 s projected" in page


def test_the_chosen_graph_is_first_and_the_whole_account_is_there() -> None:
    explanation = explained()
    page = explanation._repr_html_()
    rows = re.findall(r"<tr><td[^>]*>([^<]*)</td>.*?</tr>", page)
    assert rows == ["1.5", "3.25"]
    assert page.index("set up") < page.index("qualified")
    for line in str(explanation).splitlines():
        assert line.strip().replace("<", "&lt;").replace(">", "&gt;") in page


def test_active_replicas_are_in_the_row_of_their_operator_and_in_the_graph() -> None:
    journal = [event for event in actively_replicated() if event.subject == "top-1"]
    alone = GraphEvaluated(1.0, PEERS[0], "top-1", dict.fromkeys(filtered().operators, PEERS[0]), 1.0, 0.1)
    page = Explanation("top-1", [alone, *journal], STORY_NAMES)._repr_html_()
    titles = [" ".join(each.itertext()) for each in ET.fromstring(page).iter("summary")]
    assert titles[:4] == [
        "source peer-1",
        "filter peer-3, peer-4 2 active replicas",
        "project peer-3",
        "sink peer-1",
    ]
    assert "filter~2 at peer-4: " in page
    assert "lost: filter at peer-2: peer-2 died" in page
    assert "lost: project~2 at peer-4: out of memory" in page
    assert titles[4] == "2 complete graphs, by φ"
    assert "filter peer-2 and peer-3 and peer-4" in page


def test_a_request_that_was_refused_has_no_peers() -> None:
    refused = Explanation("r", [ApplicationRejected(0.0, "tcp://a", "r", "no <peers>")], {})
    assert "rejected: no &lt;peers&gt;" in refused._repr_html_()
    assert len(list(ET.fromstring(refused._repr_html_()).iter("details"))) == 1
