"""Declarations of operators: plans, validation, documentation and both engines use the same one.

A :class:`Declaration` holds all facts about a kind of operator that need no tuples. The layers above, which know
Polars and Spark, register the code that processes tuples under its ``kind``: the logic of peers by
:func:`synergy_nb.dataflow.operators.base.implements`, the form on Spark by
:func:`spark_stream.operators._registry.implements`. So a peer decodes a plan without importing either. A test
checks that no registration is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from synergy_nb.plan.operators.methods import Methods
from synergy_nb.plan.operators.parameter_types import WINDOW, ValueType
from synergy_nb.plan.operators.schemas import Derivation, Schema

__all__ = ["OWN_WINDOW", "REQUIRED", "Declaration", "Example", "Flow", "Parameter", "Replicas"]

S = TypeVar("S", bound=Methods)
REQUIRED: Final = object()
_BY_ROWS: Final = "which tuples a window of a number of rows holds depends on their order"
_NOTHING_STATED: Final = "nothing states that its result does not depend on the order"


class Parameter(NamedTuple):
    """One parameter of a kind of operator.

    Parameters
    ----------
    type
        Type of the values.
    help
        Meaning of the parameter for tables and forms: a phrase without a full stop.
    default
        Default: ``REQUIRED``, None (absent) or a normal value.
    absent
        Text about the behaviour if the parameter is absent.
    named
        Whether the value is part of the stream's name, that is whether it changes the stream.
    spelling
        Form of the argument in Python: ``plain``, ``keyword`` (by name only), ``many`` (as arguments of their own),
        ``columns`` (as names, as mappings, or column by column by name) or ``values`` (a mapping, or by name).
    leads
        Whether forms ask for it first, and labels have it, although it is not always needed.
    """

    type: ValueType
    help: str
    default: Any = REQUIRED
    absent: str = ""
    named: bool = True
    spelling: str = "plain"
    leads: bool = False

    @property
    def parse(self) -> Callable[[Any], Any]:
        """Function that returns the normal value, or raises :class:`~synergy_nb.plan.terms.units.WrongValues`."""
        return self.type.parse

    @property
    def write(self) -> Callable[[Any], Any] | None:
        """Function that returns the value for a YAML file; None: the normal value itself."""
        return self.type.write

    @property
    def default_text(self) -> str:
        """Text about the default, for people."""
        if self.absent:
            return self.absent
        if self.default is REQUIRED:
            return "needed"
        value = self.default if self.write is None or self.default is None else self.write(self.default)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, list):
            return " and ".join(value) or "none"
        if isinstance(value, float):
            return f"{value:g}"
        if value is None:
            return "none"
        return f"`{value}`" if isinstance(value, str) and self.write is None else str(value)


class Flow(NamedTuple):
    """Input of an operator per second.

    Parameters
    ----------
    consumed
        Tuples of all inputs per second.
    first
        Tuples of the first input per second.
    windows
        Windows that close per second.
    """

    consumed: float
    first: float
    windows: float


class Replicas(NamedTuple):
    """Whether replicas that read the same tuples in different orders agree, and the reason.

    Two replicas agree if they emit the same tuples between two punctuations, in any order.
    """

    agree: bool
    why: str


class Drawing(Protocol):
    """Function that makes the stream of an operator from two streams."""

    def __call__(self, packets: S, others: S, /) -> S:
        """Return the operator's stream over ``packets`` and, if it has several inputs, ``others``."""


class Example(NamedTuple):
    """A small use of an operator.

    Parameters
    ----------
    make
        Function that makes the stream of the operator from two streams of packets, with at least the columns ``link``,
        ``source`` and ``bytes``. Two tuples suffice for a result.
    sql
        Meaning of the stream in DuckDB's SQL, for the contract test: over ``in0`` and ``in1``, the inputs of the
        operator, with the position of each tuple as ``pos``. Empty where the test has cases of its own.
    windows
        Length and slide, in seconds, of the windows in table ``w`` (columns ``s`` and ``e``), if the SQL has any.
    ordered
        Whether the inputs alone determine the order of its tuples.
    """

    make: Drawing
    sql: str = ""
    windows: tuple[int, int] | None = None
    ordered: bool = True


def _same(it: Derivation) -> dict[str, str]:
    return dict(it.input)


class Declaration(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A kind of operator.

    Parameters
    ----------
    kind
        Name in plans, under which logic and form on Spark are registered.
    help
        Description of the operator in a few sentences; ``note`` is the text that follows the table of parameters.
    python, yaml
        Example code for the documentation.
    example
        Example for measurements and the contract test; None for sources, and for operators that need a key or a
        table.
    inputs
        Least and greatest number of inputs; None: no upper limit.
    ports
        Names of the inputs after the first, in Python.
    parameters
        Parameters by name; those of a source follow from its connector, see ``catalogue.CONNECTORS``.
    columns
        Function that returns the columns of the stream, and records problems.
    shaping
        Parameters on which the columns depend; ``inputs`` if they have to fit each other.
    cost
        Core-seconds per tuple, unless stated or measured; ``cost_from`` names the parameter that states it.
    selectivity
        Tuples out over tuples in, unless stated or measured; ``output_rate`` computes the tuples out
        if they are no fixed ratio.
    guessed
        Whether the selectivity depends on the data, so that its default is only a guess.
    commutative
        Whether the order of the inputs means nothing.
    bare
        Parameter whose value is in the stream's name without the parameter's name.
    component
        Parameter that distinguishes components of this kind: a peer that offers one need not offer all.
    shipped
        Whether a component of this kind needs a content that the plan only names, the code of a function or a table: a
        peer has the component only if it has the content, so that nobody deploys it elsewhere.
    keys
        Parameter with the columns that form groups, where each window has one tuple for each group; empty if there is
        none.
    state
        Kind of state: ``tuples`` of the input; ``groups`` if no more is kept of a window than its results; ``table``, a
        table of the plan, which never changes; empty for no state.
    span
        Function that returns the least time for which each tuple stays in the state, seconds of event time. None: its
        window, or that of its input, if it keeps ``tuples``, else 0.
    product
        Whether each tuple is matched with those of the other input: work and results grow with the product of the
        rates.
    waits
        Whether it emits the tuples of a window when the watermark reaches the window's end.
    retains_all
        Whether its stream has the tuples of its input, one for one, in the same windows.
    preserves_order
        Whether its stream is in the order of its first input.
    uses
        Function that returns the expressions of all columns on which the stream depends; None: it depends on all of
        them.
    needs_order
        Reason why the result depends on the order of the input; empty if it does not.
    agrees
        Reason why replicas agree that read their inputs in different orders; empty if they do not, so that they sort.
    needs_no_order
        Function that returns the reason why the order does not matter with some parameters, although it does in
        general; empty for other parameters.
    remedy
        Remedy for an operator that needs too much memory.
    off_spark
        Reason why Spark cannot execute it, empty if it can; where that depends on the parameters, a function of these.
    brief
        Function that returns its parameters in a few words.
    """

    kind: str
    help: str
    note: str = ""
    python: tuple[str, ...] = ()
    yaml: tuple[str, ...] = ()
    example: Example | None = None
    inputs: tuple[int, int | None] = (1, 1)
    ports: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = {}
    columns: Callable[[Derivation], dict[str, str] | None] = _same
    shaping: frozenset[str] = frozenset()
    cost: float = 1e-6
    cost_from: str = ""
    selectivity: float = 1.0
    output_rate: Callable[[Mapping[str, Any], Flow], float] | None = None
    guessed: bool = False
    commutative: bool = False
    bare: str = ""
    component: str = ""
    shipped: bool = False
    keys: str = ""
    state: str = ""
    span: Callable[[Mapping[str, Any]], float] | None = None
    product: bool = False
    waits: bool = False
    retains_all: bool = False
    preserves_order: bool = False
    uses: Callable[[Mapping[str, Any]], Iterable[str]] | None = None
    needs_order: str = ""
    agrees: str = ""
    needs_no_order: Callable[[Mapping[str, Any]], str] = lambda _: ""
    remedy: str = ""
    off_spark: str | Callable[[Mapping[str, Any]], str] = "nothing implements it on Spark"
    brief: Callable[[Mapping[str, Any]], str] = lambda _: ""

    def replicas(self, params: Mapping[str, Any]) -> Replicas:
        """Whether replicas of an operator with these parameters agree, and the reason."""
        if (params.get("window") or {}).get("kind") == "count":
            return Replicas(False, _BY_ROWS)
        why = self.agrees or self.needs_no_order(params)
        return Replicas(True, why) if why else Replicas(False, self.needs_order or _NOTHING_STATED)

    def schema(self, it: Derivation, parameters: Mapping[str, Parameter]) -> Schema | None:
        """Derive the columns of an operator's stream; None if they cannot be known.

        ``it.params`` gets canonical expressions, ``it.window`` the window of the stream, ``it.wrongs`` the problems,
        and ``it.likely`` the columns that are known nevertheless.
        A mistake that does not change the columns, such as one in a condition, does not hide them from later operators;
        nor does a mistake in one parameter hide those in others.
        """
        if any(schema is None for schema in it.inputs) or (self.inputs[0] and not it.inputs):
            _check_syntax(it, parameters)
            return None
        before = len(it.wrongs)
        schema = self.columns(it)
        it.likely = schema or {}
        wrong = {each.field.partition(".")[0] for each in it.wrongs[before:]} | set(it.faulty)
        return None if wrong & self.shaping else schema

    def tuples(self, params: Mapping[str, Any], flow: Flow) -> float:
        """Output rate in tuples/s, used if neither profile nor plan states it."""
        if self.keys and params.get(self.keys) == []:
            return min(flow.windows, flow.consumed)  # one group
        return flow.consumed * self.selectivity if self.output_rate is None else self.output_rate(params, flow)


def _check_syntax(it: Derivation, parameters: Mapping[str, Parameter]) -> None:
    """Check only the syntax of expressions, as the columns are unknown."""
    it.inputs = ()
    for field, parameter in parameters.items():
        if field not in it.params:
            continue
        if parameter.type.name == "condition":
            it.expression(field, it.params[field])
        elif parameter.type.name in ("expressions", "calls", "over"):
            aggregate, over = parameter.type.name == "calls", parameter.type.name == "over"
            for name, text in it.params[field].items():
                it.expression(f"{field}.{name}", text, aggregate=aggregate, over=over)


#: Parameter ``window`` of an operator that uses the windows of its input if the input has windows.
OWN_WINDOW: Final = Parameter(
    WINDOW, "needed if the input has no windows, refused if it has: see [windows](#windows)", None, "those of the input"
)
