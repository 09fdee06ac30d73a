"""Plans that are made to harm whoever reads them: each is one error, in words, that does not repeat all of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import yaml

from synergy_nb.plan import Plan, PlanError, source

MOST = 6000  # characters of an error
ALIASES = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True))


def _where(condition: str) -> Callable[[], object]:
    return lambda: source("packets").filter(condition).sink("x")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (_where("regexp_matches(link, '(a{1000}){1000}')"), "written out, have at most 50,000"),
        (_where("regexp_extract(link, '((.{100}){100}){100}') = 'a'"), "written out, have at most 50,000"),
        (_where("(" * 10_000 + "bytes > 1" + ")" * 10_000), "expected"),
        (_where(" AND ".join(["bytes > 1"] * 20_000)), "expected"),
        (_where(f"bytes IN ({', '.join(map(str, range(50_000)))})"), "expected"),
        (_where(f"link = '{'x' * 1_000_000}'"), "expected"),
        (lambda: source("packets").count(window="1e18 s").sink("x"), "expected a window"),
        (lambda: source("packets").sink("x", delay="1e300 s"), "at most 300 years"),
        (lambda: source("packets").delay(10**18).sink("x"), "at most 300 years"),
        (lambda: source("packets").filter("bytes > 1", id="x" * 1_000_000).sink("x"), "expected"),
        (lambda: source("packets").sink("x" * 1_000_000), "name of 1 to 200"),
        (lambda: Plan.from_yaml(ALIASES + "operators: *h"), "no anchors and aliases"),
        (lambda: Plan.from_yaml("name: !!python/object/apply:os.system [id]"), "expected YAML"),
        (lambda: Plan.from_yaml("name: " + "x" * 2_000_000), "at most 1000000 characters"),
        (lambda: Plan.from_yaml("name: x\n" + "a: 1\n" * 5000), "the plan has 5002 problems:"),
        (lambda: Plan.from_yaml("name: x\n" + "a: 1\n" * 5000), "- and 4952 more"),
        *(
            (partial(Plan.from_yaml, "name: " + text), "nested at most 50 deep")
            for text in ("[" * 100_000, "{" * 100_000, "[{" * 100_000, "\n" + "- " * 100_000, "\n" + "? " * 100_000)
        ),
    ],
)
def test_a_weapon_is_one_short_error(made: Callable[[], object], expected: str) -> None:
    with pytest.raises(PlanError) as refused:
        made()
    assert expected in str(refused.value)
    assert len(str(refused.value)) < MOST


@pytest.mark.parametrize("pattern", ["(a{200}){200}", ".{1000}", "(.{100}){40}", "[^é]{1000}"])
def test_patterns_that_engines_can_write_out_are_taken(pattern: str) -> None:
    _where(f"regexp_matches(link, '{pattern}')")()


def test_deep_yaml_is_refused_before_it_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = []
    fetch = yaml.SafeLoader.fetch_more_tokens

    def counting(loader: yaml.SafeLoader) -> Any:
        fetched.append(1)
        return fetch(loader)

    monkeypatch.setattr(yaml.SafeLoader, "fetch_more_tokens", counting)
    with pytest.raises(PlanError):
        Plan.from_yaml("name: " + "[" * 100_000)
    assert len(fetched) < 100, "its scanner needs eleven seconds for all of them"
    nested = "format: 1\nqos: " + "[" * 49 + "]" * 49
    with pytest.raises(PlanError, match="qos"):
        Plan.from_yaml(nested)
