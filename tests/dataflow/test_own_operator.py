"""A user's own operator: a declaration and a logic, found by their kind."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import polars as pl
import pytest

from synergy_nb.dataflow.operators import base
from synergy_nb.dataflow.operators.base import OperatorLogic, implements
from synergy_nb.dataflow.tuples import Batch
from synergy_nb.lifecycle.records.spark_offer import SparkOffer
from synergy_nb.lifecycle.requests._engine_choice import choose
from synergy_nb.plan import Plan, PlanError, source
from synergy_nb.plan.checks.memory_estimates import on_peers, retained_bytes
from synergy_nb.plan.operators import catalogue as declared
from synergy_nb.plan.operators.declaration import OWN_WINDOW, Declaration, Example, Parameter
from synergy_nb.plan.operators.engines import off_spark
from synergy_nb.plan.operators.parameter_types import COLUMN, integer
from synergy_nb.plan.operators.schemas import Derivation
from synergy_nb.runtime.process._calibration import CalibrationCase, calibration_cases, make_cases, make_plans
from synergy_nb.runtime.process.fork_server import ProcessStartError
from tests.example_plans import problems_of
from tests.feeding import through


def _clipped(it: Derivation) -> dict[str, str]:
    if "column" in it.params:
        it.column("column", it.params["column"], it.input, ("int",))
    return dict(it.input)


CLIP = Declaration(
    kind="clip",
    help="Values of a column that are too large become the largest that may be.",
    parameters={"column": Parameter(COLUMN, "column of type int"), "most": Parameter(integer(0), "largest value", 100)},
    columns=_clipped,
    example=Example(lambda packets, _: packets.operator("clip", column="bytes", most=1)),
    preserves_order=True,
    agrees="it processes each tuple alone",
)


class Clip(OperatorLogic):
    """Its logic."""

    def process(self, port: int, table: pl.DataFrame, batch: Batch, kept: pl.Series | None) -> Iterable[pl.DataFrame]:
        """The rows, with smaller values."""
        column = self.context.params["column"]
        return (table.with_columns(pl.col(column).clip(upper_bound=self.context.params["most"])),)


@pytest.fixture(autouse=True)
def clip() -> Iterator[None]:
    """The operator is declared and implemented while a test runs."""
    declared.declare(CLIP)
    implements("clip")(Clip)
    yield
    del declared.DECLARED["clip"], base.REGISTRY["clip"]


def test_a_plan_uses_an_own_operator_like_any_other() -> None:
    plan = source("packets", seed=1, count=50).operator("clip", column="bytes", id="small").filter("bytes > 40").sink()
    assert plan.stream_name("small") == "clip[column='bytes'](packets[count=50, seed=1])"
    assert plan == Plan.from_yaml(plan.to_yaml()) == Plan.from_bytes(plan.to_bytes())
    assert "kind: clip" in plan.to_yaml()
    packets = pl.DataFrame({"time": [1, 2], "bytes": [7, 1500]}).cast({"time": pl.Datetime("us")})
    packets = packets.with_columns(link=pl.lit("A"), source=pl.lit("a"), destination=pl.lit("b"))
    packets = packets.with_columns(source_port=pl.lit(1), destination_port=pl.lit(2)).select(
        list(plan.schema("source"))
    )
    assert through(plan, "small", {"source": packets})["bytes"].to_list() == [7, 100]
    assert off_spark("clip", plan.operators["small"].params) == "nothing implements it on Spark"


def test_faults_of_an_own_operator_are_named_like_those_of_any_other() -> None:
    (kind, column) = problems_of(lambda: source("packets").operator("clip", column="byte", most=-1).sink())
    assert str(kind) == "operator 'clip', most: -1; expected an integer of at least 0"
    assert column.nearest == "bytes"


def test_an_own_operator_is_calibrated_by_its_example() -> None:
    packets = source("packets")
    assert CLIP.example is not None
    specimen = CalibrationCase(CLIP.example.make(packets, packets).sink(), "clip")
    assert specimen.execute(specimen.items()) == 2
    assert "clip" in {case.kind for case in calibration_cases()}


def test_plans_of_calibration_are_made_once_and_those_of_kinds_that_are_declared_later_too() -> None:
    """Fork servers make them before they fork, and before users' own operators are imported."""
    own = declared.DECLARED.pop("clip")
    made = make_plans()
    assert all(one is other for one, other in zip(made, make_plans(), strict=True))
    declared.declare(own)
    assert len(make_plans()) == len(made) + 1


def test_the_first_peer_of_a_process_has_the_cases_that_were_made_before_and_makes_those_of_own_operators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def make(plan: Plan, operator: str) -> CalibrationCase:
        made.append(plan.operators[operator].kind)
        return CalibrationCase(plan, operator)

    monkeypatch.setattr(f"{CalibrationCase.__module__}.CalibrationCase", make)
    make_cases()
    before = made.copy()
    assert "clip" not in before
    kinds = [case.kind for case in calibration_cases()]
    assert made == [*before, "clip"]
    assert kinds == [case.kind for case in calibration_cases()] == made[len(before) + 1 :]


def test_an_example_that_starts_threads_is_named_before_a_fork_server_forks() -> None:
    """As Polars does with its first expression: no forked peer would have started."""
    ended = threading.Event()

    def make(packets: Any, _: Any) -> Any:
        threading.Thread(target=ended.wait).start()
        return packets.operator("clip", column="bytes", most=1)

    declared.DECLARED["clip"] = msgspec.structs.replace(CLIP, example=Example(make))
    try:
        with pytest.raises(ProcessStartError, match="the example of operator 'clip' has started threads, for which"):
            make_plans()
    finally:
        ended.set()


def test_an_own_operator_that_keeps_tuples_needs_the_memory_of_its_window_unless_it_states_less() -> None:
    for state, span, needed in (("tuples", None, 3600.0), ("groups", None, 0.0), ("tuples", lambda _: 60.0, 60.0)):
        declared.DECLARED["clip"] = msgspec.structs.replace(
            CLIP, parameters={"window": OWN_WINDOW}, columns=lambda it: dict(it.input), state=state, span=span
        )
        packets = source("packets", rate="1000 tuples/s", seed=1)
        plan = packets.operator("clip", window="1 h").sink()
        assert retained_bytes(plan, "clip") == needed * 1000 * plan.tuple_bytes("source")


def test_an_own_operator_keeps_one_of_its_input_s_windows_and_stays_on_peers() -> None:
    declared.DECLARED["clip"] = msgspec.structs.replace(
        CLIP, parameters={"window": OWN_WINDOW}, columns=lambda it: dict(it.input), state="tuples"
    )
    sums = source("packets", rate="1e6/s").aggregate("source", "1 h", n="count(*)", selectivity=0.1)
    plan = sums.operator("clip").sink()
    assert retained_bytes(plan, "clip") == pytest.approx(3600 * 1e5 * plan.tuple_bytes("aggregate"))
    assert "clip" not in choose(plan, SparkOffer(), {}).reasons
    assert "clip" in on_peers(plan, spark=True)
    with pytest.raises(
        PlanError, match="operator 'clip', engine: 'spark'; expected peer or auto: nothing implements it"
    ):
        sums.operator("clip", engine="spark").sink()


def test_a_kind_is_declared_once_and_before_its_logic() -> None:
    with pytest.raises(ValueError, match="operator kind 'clip' is declared twice"):
        declared.declare(CLIP)
    with pytest.raises(ValueError, match="kind: 'clap' is not declared"):
        implements("clap")
