"""A figure of a paper beside ours, for notebooks."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree as ET

import pytest

from synergy_experiments.paper_figure import paper_figure


@pytest.mark.slow
def test_numbers_and_verdicts_of_both_are_shown() -> None:
    found = paper_figure("a2", placements=2, components="3,5")
    shown = found._repr_html_()
    image = re.search(r"base64,([^']+)'", shown)
    assert image is not None
    assert ET.fromstring(base64.b64decode(image[1])).tag.endswith("svg")
    assert "dissertation 4.3.1" in shown
    for check in found.result.checks:
        assert check.verdict in shown
        assert check.name in repr(found)


@pytest.mark.slow
def test_a_stored_result_is_shown_without_measuring() -> None:
    found = paper_figure("A2", stored=True)
    assert (found.result.setup["scale"], found.result.setup["repeat"]) == ("paper", 10)
    assert "10 repetitions at paper scale" in found._repr_html_()
    assert "10 repetitions at paper scale" in repr(found)
    assert "3 repetitions at quick scale" in repr(paper_figure("A2", placements=2, components="3,5"))


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="'A22'; expected all, or one of"):
        paper_figure("A22")
    with pytest.raises(ValueError, match=r"'placement'; expected one of .*did you mean 'placements'"):
        paper_figure("A2", placement=3)
    with pytest.raises(ValueError, match="placements: 3; expected no parameters of the set-up with stored=True"):
        paper_figure("A2", stored=True, placements=3)
    with pytest.raises(ValueError, match="no result of B1 is stored; expected one of A1, A2"):
        paper_figure("B1", stored=True)
