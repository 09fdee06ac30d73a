"""docs/plans.md agrees with the code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs import generate
from synergy_nb.plan import Operator, Plan, Problem, Stream, source
from synergy_nb.plan.checks.validation import check_parameters
from synergy_nb.plan.operators.catalogue import KINDS, parameters_of
from synergy_nb.plan.operators.declaration import REQUIRED, Parameter
from synergy_nb.plan.operators.engines import ENGINES
from synergy_nb.plan.operators.parameter_types import TYPES
from synergy_nb.plan.operators.sources import CONNECTORS, FORMATS, NEXMARK, TRACE_SCHEMAS
from synergy_nb.plan.sql.sql import AGGREGATES, FUNCTIONS
from synergy_nb.plan.terms.qos import QoS
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "plans.md").read_text(encoding="utf-8")
PARTS: dict[str, str] = dict(re.findall(r"^#{2,3} ([^\n]+)\n(.*?)(?=^#{2,3} |\Z)", PAGE, re.MULTILINE | re.DOTALL))
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROSE = re.sub(r"^```.*?^```", "", PAGE, flags=re.MULTILINE | re.DOTALL)
LINES = re.findall(r"^    (\w+(?: = |: \{).*)$", PROSE, re.MULTILINE)


def part_of(name: str) -> str:
    """The section on a kind or connector."""
    (found,) = (text for title, text in PARTS.items() if name in re.split(r"\W+", title.partition(":")[0]))
    return found


def missing(part: str, names: Mapping[str, Parameter]) -> list[str]:
    return [name for name in names if f"`{name}`" not in part and f"`{name}=`" not in part]


def test_generated_text_and_code_equal_the_declarations() -> None:
    assert generate.page(PAGE) == PAGE, "run python -m docs.generate"
    assert generate.METHODS.read_text(encoding="utf-8") == generate.methods(), "run python -m docs.generate"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "source"])
def test_every_kind_is_documented_with_its_parameters(kind: str) -> None:
    part = part_of(kind)
    assert not missing(part, KINDS[kind].parameters)
    assert f"kind: {kind}" in part


@pytest.mark.parametrize("connector", CONNECTORS)
def test_every_connector_is_documented_with_its_parameters(connector: str) -> None:
    part = part_of(connector)
    assert not missing(part, CONNECTORS[connector])
    assert f"connector: {connector}" in part
    help_text = source.__doc__ or ""
    assert all(f"``{name}``" in help_text for name in CONNECTORS[connector])


@pytest.mark.parametrize(("connector", "speed"), [("trace", 0.0), ("packets", 1.0)])
def test_the_default_of_speed_is_as_documented(connector: str, speed: float) -> None:
    assert CONNECTORS[connector]["speed"].default == speed
    assert re.search(rf"^\| `speed` \| .* \| {speed:g} \|$", part_of(connector), re.MULTILINE)
    assert "The default is 0 for traces and 1 for packets" in PAGE


def test_types_formats_columns_functions_and_requirements_are_named() -> None:
    names = [*TYPES, *FORMATS, "id", "cost", "selectivity", "at", "engine", *ENGINES]
    names += [name for name in QoS.__struct_fields__ if name not in ("throughput_tuples", "degree", "active")]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
    assert [name for name in FUNCTIONS if name not in PARTS["Expressions"]] == []
    assert [name for name in AGGREGATES if name not in PARTS["Aggregate calls"]] == []
    for stream, schema in TRACE_SCHEMAS.items():
        part = part_of("trace" if stream in FORMATS else stream)
        assert [column for column in schema if f"`{column}`" not in part] == []
    for table, schema in NEXMARK.items():
        assert [name for name in (table, *schema) if f"`{name}`" not in part_of("nexmark")] == []


def test_the_plan_file_is_valid_and_equals_the_python() -> None:
    (text,) = (text for language, text in BLOCKS if language == "yaml")
    plan = Plan.from_yaml(text)
    assert plan.validate() == []
    assert plan == Plan.from_yaml((ROOT / "notebooks" / "top_pairs.yaml").read_text(encoding="utf-8"))
    built = run(python()[:1])["query"]
    assert (built.stream_name("sink"), built.qos) == (plan.stream_name("result"), plan.qos)


def python() -> list[str]:
    """Python of the page: the blocks, then the lines."""
    blocks = [text for language, text in BLOCKS if language == "python"]
    return blocks + [line for line in LINES if re.match(r"\w+ = ", line)]


def run(pieces: list[str]) -> dict[str, Any]:
    """Names after running ``pieces``, every stream among them made a plan."""
    names: dict[str, Any] = {}
    for piece in pieces:
        exec(piece, names)
        for value in list(names.values()):
            if isinstance(value, Stream):
                assert value.sink().validate() == []
    return names


def test_the_python_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fares.csv").write_text("city,fare\nBonn,2.5\n")
    monkeypatch.chdir(tmp_path)
    names = run(python())
    assert {type(names["query"]), type(names["both"])} == {Plan}
    plans = [value.sink() for value in names.values() if isinstance(value, Stream)]
    assert {operator.kind for each in plans for operator in each.operators.values()} == set(KINDS)


def test_the_lines_of_files_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hosts.csv").write_text("host,site\n10.0.0.1,Bonn\n")
    monkeypatch.chdir(tmp_path)
    lines = [line for line in LINES if re.match(r"\w+: ", line)]
    seen = set()
    for line in lines:
        ((name, spec),) = yaml.safe_load(re.sub(r"\bon:", '"on":', line)).items()
        kind = spec.pop("kind")
        seen.add(spec.get("connector", kind))
        inputs = spec.pop("inputs", [spec.pop("input", None)])
        spec.pop("at", None)
        least, most = KINDS[kind].inputs
        number = sum(each is not None for each in inputs)
        assert least <= number <= (most or number), line
        problems: list[Problem] = []
        check_parameters(Operator(name, kind, spec), problems)
        assert problems == [], line
        needed = [field for field, each in parameters_of(kind, spec).items() if each.default is REQUIRED]
        assert set(needed) <= set(spec), line
    assert seen == (set(KINDS) | set(CONNECTORS)) - {"source"}


def test_group_columns_come_out_in_alphabetical_order() -> None:
    plan = source("packets").aggregate(by=["source", "destination"], window="1 s", n="count(*)").sink()
    assert list(plan.schema("aggregate"))[3:] == ["destination", "source", "n"]
