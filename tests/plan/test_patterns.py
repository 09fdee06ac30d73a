"""Regular expressions mean the same to Polars as to DuckDB, and the same to Python where it has the same syntax."""

from __future__ import annotations

import re

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings

from synergy_nb.plan.sql.patterns import read_pattern, read_replacement
from synergy_nb.plan.terms.units import WrongValue
from tests.pattern_cases import PATTERNS, TEXTS

DUCK = duckdb.connect()


@pytest.mark.slow
@settings(max_examples=200)
@given(PATTERNS)
def test_the_first_match_is_that_of_duckdb(pattern: str) -> None:
    plain = read_pattern(pattern).plain
    found = pl.Series(TEXTS).str.extract(plain, 0).fill_null("").to_list()
    theirs = DUCK.execute("SELECT list_transform(?, lambda t: regexp_extract(t, ?))", [TEXTS, pattern]).fetchall()[0][0]
    assert found == theirs


@settings(max_examples=30)
@given(PATTERNS)
def test_what_may_be_empty_and_how_many_groups_there_are(pattern: str) -> None:
    read = read_pattern(pattern)
    python = re.compile(pattern, re.ASCII)
    assert read.groups == python.groups
    shortest = [found.end() - found.start() for text in TEXTS for found in python.finditer(text)]
    assert read.empty or 0 not in shortest


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        (r"^(\d+)-[a-c]*$", r"\A([0-9]+)\-[a-c]*\z"),
        ("(?is)a.", "[aA](?s:.)"),
        ("(?i)[a-cé_]1", "[a-cABCéÉ\\x5F]1"),
        ("(?P<name>a)(?<other>b)", "(a)(b)"),
        ("a{,3}b{2,}c{2}{", r"a{0,3}b{2,}c{2}\{"),
        ("[]^a]", r"[\x5D\x5Ea]"),
        ("[a&&b~~c-]", r"[a\x26\x26b\x7E\x7Ec\x2D]"),
        (r"\x41\t\#", r"A\x09\#"),
    ],
)
def test_how_a_pattern_is_written(pattern: str, plain: str) -> None:
    assert read_pattern(pattern).plain == plain


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a(?=b)", r"without (?= at character 2"),
        ("(?<!a)b", "without (?< at character 1"),
        ("(a", "a closing parenthesis for '(' at character 1"),
        ("a)", "an opening parenthesis for ')' at character 2"),
        ("[a", "a closing bracket for '[' at character 1"),
        ("[z-a]", "a range from a lower to a higher character at character 3"),
        ("[[:alpha:]]", "without [: in a class at character 2"),
        (r"[\D]", r"without \D in a class"),
        ("*a", "something to repeat at character 1"),
        ("{2}a", "something to repeat at character 1"),
        ("^*", "something to repeat at character 2"),
        ("a**", "one repetition"),
        ("a++", "no possessive one"),
        ("a{1001}", "at most 1000"),
        ("a{3,2}", "{m,n} in order"),
        (r"(a)\1", r"without \1 at character 4"),
        (r"\p{L}", r"without \p at character 1"),
        ("a\\", "a character after the backslash at character 2"),
        ("(" * 101 + ")" * 101, "nested less deeply"),
    ],
)
def test_a_pattern_outside_of_the_subset_is_refused_by_its_place(pattern: str, why: str) -> None:
    with pytest.raises(WrongValue) as caught:
        read_pattern(pattern)
    assert why in str(caught.value)


def test_replacements_are_read() -> None:
    assert read_replacement(r"<\1>\\\0$", 1) == ["<", 1, ">", "\\", 0, "$"]
    assert read_replacement("", 0) == []
    with pytest.raises(WrongValue, match="the last group of the pattern, not"):
        read_replacement(r"\2", 1)
    for wrong in ("\\", r"\n"):
        with pytest.raises(WrongValue, match="for a backslash"):
            read_replacement(wrong, 1)
