"""Plans as bytes: what is written is read again, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.plan import Plan, PlanError, source
from synergy_nb.plan.checks.source_sizes import SourceSize
from synergy_nb.plan.query_plan import DecodedPlans
from tests.example_plans import figure_2_6, monitoring, problems_of


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.__setitem__(0, 2),
        lambda raw: raw[3][1].__setitem__("kind", "fliter"),
        lambda raw: raw[3][1].__setitem__("inputs", ["compare"]),
        lambda raw: raw[3][1]["params"].clear(),
        lambda raw: raw[3].pop(),
        lambda raw: raw[4]["filter"].__setitem__("link", "text"),
        lambda raw: raw[5].pop("filter"),
    ],
    ids=["format", "kind", "order", "parameters", "schemas", "type", "windows"],
)
def test_bytes_that_are_no_plan_are_refused(change: Callable[[Any], object]) -> None:
    raw = msgspec.msgpack.decode(monitoring().to_bytes())
    change(raw)
    problems_of(lambda: Plan.from_bytes(msgspec.msgpack.encode(raw)))


@given(st.binary(max_size=60), st.integers(0, 10_000))
def test_damaged_bytes_are_refused(junk: bytes, at: int) -> None:
    whole = figure_2_6().to_bytes()
    for data in (
        junk,
        whole[: at % len(whole)],
        whole[: at % len(whole)] + junk + whole[at % len(whole) + len(junk) :],
    ):
        try:
            read = Plan.from_bytes(data)
        except PlanError:
            continue
        for operator in read.operators:
            read.stream_key(operator)
            assert read.load(operator) >= 0
            assert read.bandwidth(operator) >= 0


def test_validation_finds_faults_of_decoded_plans() -> None:
    raw = msgspec.msgpack.decode(monitoring().to_bytes())
    raw[3][1]["params"]["where"] = "lnk = 'B'"
    read = Plan.from_bytes(msgspec.msgpack.encode(raw))
    assert [(each.operator, each.field) for each in read.validate()] == [("filter", "where")]


def test_what_the_author_stated_at_a_default_stays_in_the_bytes_and_does_not_make_another_plan() -> None:
    stated = source("packets", seed=1, rate="1000 tuples/s").filter("bytes > 1", engine="auto").sink()
    silent = source("packets", seed=1).filter("bytes > 1").sink()
    for written in (stated, silent):
        read = Plan.from_bytes(written.to_bytes())
        assert read.to_yaml() == written.to_yaml()
        assert read.to_python() == written.to_python()
        assert Plan.from_yaml(read.to_yaml()).to_bytes() == written.to_bytes()
    assert "rate: 1000 tuples/s" in stated.to_yaml()
    assert "engine: auto" in stated.to_yaml()
    assert stated == silent == Plan.from_bytes(stated.to_bytes())
    assert hash(stated) == hash(silent)


def test_what_an_author_stated_at_its_default_is_written_whatever_was_encoded_before_and_kept_with_sizes() -> None:
    stated = source("packets", rate="10/s", id="s").filter("bytes > 9", engine="auto", id="f").sink("x")
    silent = source("packets", rate="10/s", id="s").filter("bytes > 9", id="f").sink("x")
    assert stated == silent
    assert "engine: auto" in stated.to_yaml()
    assert "engine" not in silent.to_yaml()
    assert Plan.from_bytes(stated.to_bytes()).to_yaml() == stated.to_yaml()
    encoded = silent.to_bytes()
    silent.stating({"f": {"engine"}})
    assert silent.to_bytes() != encoded
    assert "engine: auto" in Plan.from_bytes(silent.to_bytes()).to_yaml()
    known = stated.sized({"s": SourceSize(rows=5.0)})
    assert known.sizes["s"].rows == 5.0
    assert known.to_yaml() == stated.to_yaml()
    assert known.sized({}) is known


def test_decoded_plans_are_kept_up_to_a_number_of_bytes_the_latest_ones() -> None:
    encoded = [source("packets", seed=1, rate=1.0).sink(f"s{number}").to_bytes() for number in range(4)]
    decoded = DecodedPlans(3 * len(encoded[0]))
    first, second, third = (decoded.of(data) for data in encoded[:3])
    assert decoded.of(encoded[0]) is first  # and is the latest one again
    decoded.of(encoded[3])
    assert decoded.of(encoded[2]) is third
    assert decoded.of(encoded[0]) is first
    again = decoded.of(encoded[1])
    assert again == second
    assert again is not second


def test_a_plan_of_more_bytes_than_are_kept_is_kept_until_the_next_one() -> None:
    large, small = (source("packets", seed=1, rate=1.0).sink(name).to_bytes() for name in ("s" * 40, "s"))
    decoded = DecodedPlans(len(small))
    found = decoded.of(large)
    assert decoded.of(large) is found
    after = decoded.of(small)
    assert decoded.of(small) is after
    assert decoded.of(large) is not found
