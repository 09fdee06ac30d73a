"""Quantities with units: read, written, read again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synergy_nb.plan.terms.availability import Availability, parse_availability
from synergy_nb.plan.terms.units import (
    LONGEST,
    WrongValue,
    format_duration,
    format_fraction,
    format_rate,
    format_size,
    format_throughput,
    nearest,
    parse_duration,
    parse_fraction,
    parse_rate,
    parse_size,
    parse_throughput,
)

AMOUNTS = st.one_of(
    st.floats(min_value=0, max_value=1e15, allow_nan=False),
    st.integers(0, 10**12).map(float),
    st.integers(0, 10**9).map(lambda number: number / 1000),
    st.sampled_from([60.0, 3600.0, 86400.0, 1e-6, 5e-324, 0.0]),
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2 s", 2),
        ("500 ms", 0.5),
        ("20 min", 1200),
        ("1 h", 3600),
        ("1 h 30 min", 5400),
        ("2", 2),
        (3, 3),
        (0.25, 0.25),
        ("5us", 5e-6),
        ("5 µs", 5e-6),
        ("1e3 s", 1000),
        ("2 Minutes", 120),
        ("1 day", 86400),
    ],
)
def test_durations_of_every_form_are_parsed(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "wrong", ["-3 s", "", "x", "2 parsecs", "3 kB", "s 2", True, None, math.nan, math.inf, [1], 10**400]
)
def test_a_text_that_is_no_duration_is_refused(wrong: object) -> None:
    with pytest.raises(WrongValue, match="expected a duration such as '2 s'"):
        parse_duration(wrong)


def test_the_nearest_unit_is_named() -> None:
    with pytest.raises(WrongValue, match="did you mean '20 min'"):
        parse_duration("20 mn")


@pytest.mark.parametrize(
    ("text", "fraction"), [("5 %", 0.05), ("95%", 0.95), (0.05, 0.05), (1, 1), ("0.5", 0.5), ("0.1 percent", 0.001)]
)
def test_fractions_of_every_form_are_parsed(text: object, fraction: float) -> None:
    assert parse_fraction(text) == fraction


@pytest.mark.parametrize("wrong", ["105 %", -0.1, 1.5, "5 s", True, None, math.nan, "half"])
def test_a_text_that_is_no_fraction_is_refused(wrong: object) -> None:
    with pytest.raises(WrongValue, match="a fraction between 0 and 1"):
        parse_fraction(wrong)


@pytest.mark.parametrize(
    ("text", "throughput"),
    [
        ("100 kB/s", (100e3, None)),
        ("5 MB/s", (5e6, None)),
        ("8 Mbit/s", (1e6, None)),
        ("1000 tuples/s", (None, 1000.0)),
        ("60 tuples/min", (None, 1.0)),
        (7, (7.0, None)),
    ],
)
def test_throughputs_of_every_form_are_parsed(text: object, throughput: tuple[float | None, float | None]) -> None:
    assert parse_throughput(text) == throughput


@pytest.mark.parametrize("wrong", ["5 MB", "5", "/s", "5 MB/fortnight", "10 furlongs/s", "-5 MB/s", None])
def test_a_text_that_is_no_throughput_is_refused(wrong: object) -> None:
    with pytest.raises(WrongValue, match="a throughput such as"):
        parse_throughput(wrong)


def test_sizes_and_rates_are_parsed_and_others_refused() -> None:
    assert (parse_size("64 kB"), parse_size("1 MiB"), parse_size(12)) == (64e3, 2.0**20, 12)
    assert (parse_rate("1000 tuples/s"), parse_rate("50/s"), parse_rate("50"), parse_rate(2)) == (1000, 50, 50, 2)
    with pytest.raises(WrongValue, match="a rate such as"):
        parse_rate("5 MB/s")
    with pytest.raises(WrongValue, match="a size such as"):
        parse_size("5 s")


@given(AMOUNTS)
def test_written_durations_and_sizes_are_read_as_the_same_number(amount: float) -> None:
    if amount <= LONGEST:
        assert parse_duration(format_duration(amount)) == amount
    assert parse_size(format_size(amount)) == amount
    assert parse_rate(format_rate(amount)) == amount
    assert parse_throughput(format_throughput(amount)) == (amount, None)


@given(st.one_of(st.floats(0, 1), st.integers(0, 1000).map(lambda number: number / 1000)))
def test_written_fractions_are_read_as_the_same_number(fraction: float) -> None:
    assert parse_fraction(format_fraction(fraction)) == fraction


@pytest.mark.slow
@given(st.one_of(st.text(max_size=12), st.floats(), st.none(), st.booleans()))
def test_foreign_values_are_read_or_refused(value: object) -> None:
    for parse in (parse_duration, parse_fraction, parse_size, parse_rate, parse_throughput):
        try:
            parse(value)
        except WrongValue as wrong:
            assert wrong.expected in str(wrong)  # noqa: PT017 - either outcome is right


def test_the_nearest_name_ignores_case_and_typing_errors() -> None:
    assert nearest("fliter", ["filter", "sort"]) == "filter"
    assert nearest("Filter", ["filter", "sort"]) == "filter"
    assert nearest("xyzzy", ["filter", "sort"]) is None
    assert nearest(3, ["filter"]) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("50 %", Availability(share=0.5)),
        (0.5, Availability(share=0.5)),
        ("degree 2", Availability(degree=2)),
        (" degree  3 ", Availability(degree=3)),
        ("active 3", Availability(active=3)),
        ("synchronized 2", Availability(synchronized=2)),
        ("ordered  3", Availability(ordered=3)),
    ],
)
def test_availability_is_a_share_or_replicas(value: object, expected: Availability) -> None:
    assert parse_availability(value) == expected


@pytest.mark.parametrize(
    "value", ["degree 0", "degree two", "degree -1", "active 0", "active", "2 replicas", 2, "101 %", None, True]
)
def test_an_availability_of_another_form_is_refused(value: object) -> None:
    with pytest.raises(WrongValue, match="or a number of replicas such as 'degree 2'"):
        parse_availability(value)
