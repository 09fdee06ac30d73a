"""Experiments name the network that they run with: measured delays where these are on this machine, else generated."""

from __future__ import annotations

from pathlib import Path

import pytest

from synergy_experiments.chapters import find
from synergy_experiments.framework.parameters import at_scale, parse
from synergy_experiments.worlds.measured_delays import matrix_path


@pytest.fixture
def without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the data set of delays."""
    monkeypatch.setenv("SYNERGY_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize("claim", ["C1", "A1", "P7", "H2", "H4", "H6"])
def test_a_set_up_without_measured_delays_says_that_its_network_is_generated(claim: str) -> None:
    for scale in ("quick", "paper"):
        setup = at_scale(find([claim])[0].parameters, scale)
        assert setup["network"] == "transit-stub"
        assert matrix_path(setup) == ""


@pytest.mark.usefixtures("without_data")
def test_measured_delays_that_are_missing_are_an_error_that_names_how_to_get_them() -> None:
    with pytest.raises(ValueError, match=r"network.*'measured'; expected transit-stub.*data fetch planetlab-rtt"):
        parse(["network=measured"], [find(["P7"])[0].parameters])


def test_measured_delays_are_used_where_they_are(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNERGY_DATA", str(real_data))
    setup = at_scale(find(["P7"])[0].parameters, "quick")
    assert setup["network"] == "measured"
    assert Path(matrix_path(setup)).is_file()
