"""What an operator is: one declaration, from which plans, checks, pages, forms and both engines know it.

A :class:`Declaration` holds all that is known of a kind of operator without a tuple at hand. What works on tuples is
registered under its ``kind`` in the layers above, where Polars and Spark are: the logic of peers by
:func:`synergy_nb.dataflow.operators.base.implements`, the form on Spark by
:func:`spark_stream.operators.registry.implements`. So a peer reads a plan without importing either, and one test holds
that none is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from synergy_nb.plan.methods import Methods
from synergy_nb.plan.parameter_types import WINDOW, ValueType
from synergy_nb.plan.schemas import Derivation, Schema

__all__ = ["OWN_WINDOW", "REQUIRED", "Declaration", "Example", "Flow", "Parameter", "Replicas"]

S = TypeVar("S", bound=Methods)
REQUIRED: Final = object()
_BY_ROWS: Final = "which tuples a window of a number of rows holds depends on their order"


class Parameter(NamedTuple):
    """One parameter of a kind of operator.

    Parameters
    ----------
    type
        Type of its values.
    help
        Meaning of the parameter for tables and forms: a phrase without a full stop.
    default
        ``REQUIRED``, None (absent) or a normal value.
    absent
        Words for what holds where it is absent.
    named
        Whether the value is part of the stream's name, that is whether it changes the stream.
    spelling
        Form of the argument in Python: ``plain``, ``keyword`` (by name only), ``many`` (as arguments of their own),
        ``columns`` (as names, as mappings, or column by column by name) or ``values`` (a mapping, or by name).
    """

    type: ValueType
    help: str
    default: Any = REQUIRED
    absent: str = ""
    named: bool = True
    spelling: str = "plain"

    @property
    def parse(self) -> Callable[[Any], Any]:
        """Gives the normal value, or raises :class:`~synergy_nb.plan.units.WrongValues`."""
        return self.type.parse

    @property
    def write(self) -> Callable[[Any], Any] | None:
        """Gives what a YAML file holds; None: the normal value itself."""
        return self.type.write

    @property
    def default_text(self) -> str:
        """What holds where it is left out, for people."""
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
    """What comes to an operator in a second.

    Parameters
    ----------
    taken
        Tuples of all inputs.
    first
        Tuples of the first input.
    windows
        Windows that close.
    """

    taken: float
    first: float
    windows: float


class Replicas(NamedTuple):
    """Whether replicas of an operator agree that read the same tuples in different orders, and why.

    Two replicas agree if the tuples that they give between two punctuations are the same, in whatever order.
    """

    agree: bool
    why: str


class Drawing(Protocol):
    """Makes the stream of an operator from two streams."""

    def __call__(self, packets: S, others: S, /) -> S:
        """Draw the operator up behind ``packets`` and, if it has several inputs, ``others``."""


class Example(NamedTuple):
    """A small use of an operator.

    Parameters
    ----------
    make
        Makes the stream of the operator from two streams of packets, with at least the columns ``link``, ``source`` and
        ``bytes``. Of two tuples it gives a result.
    sql
        Meaning of the stream in DuckDB's SQL, for the contract test: over ``in0`` and ``in1``, the inputs of the
        operator, with the position of each tuple as ``pos``. Empty where the test has cases of its own.
    windows
        Length and slide, in seconds, of the windows in table ``w`` (columns ``s`` and ``e``), if the SQL has any.
    ordered
        Whether the order of its tuples depends on nothing but the inputs.
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
        Name in plans; logic and form on Spark are registered under it.
    help
        Description of the operator in a few sentences; ``note`` is the text that follows the table of parameters.
    python, yaml
        Lines of code for the documentation.
    example
        A small use, for measurements and the contract test; None of sources, and of what needs a key.
    inputs
        Least and greatest number of inputs; None: as many as one likes.
    ports
        Names of the inputs behind the first in Python.
    parameters
        Parameters by name; those of a source follow from its connector, see ``catalogue.CONNECTORS``.
    columns
        Gives the columns of its stream, and notes what does not fit.
    shaping
        Parameters on which the columns depend; ``inputs`` if they have to fit each other.
    cost
        Seconds of a core for a tuple, unless stated or measured; ``cost_from`` names the parameter that states it.
    selectivity
        Tuples out over tuples in, unless stated or measured; ``given`` computes the tuples out where there is no ratio.
    guessed
        Whether that depends on the tuples, so that the default says nothing of how many there will be.
    commutative
        Whether the order of the inputs means nothing.
    bare
        Parameter that alone stands in the stream's name, without its own.
    component
        Parameter that tells components of this kind apart: not every peer that has one has all.
    state
        ``tuples`` that it keeps, or a tuple for each of the ``groups`` of a window; empty: it keeps nothing.
    span
        Seconds of event time for which it keeps each tuple, at least.
    product
        Whether each tuple meets those of the other input: work and results grow with the product of the rates.
    waits
        Whether it gives the tuples of a window when the watermark has reached the window's end.
    keeps_all
        Whether its stream has the tuples of its input, one for one, in the same windows.
    keeps_order
        Whether its stream is in the order of its first input.
    needs_order
        Reason why the result depends on the order of the input; empty if it does not.
    agrees
        Reason why replicas agree that read their inputs in different orders; empty if they do not.
    remedy
        Remedy for an operator that needs too much memory.
    off_spark
        Gives the reason why Spark cannot execute it; empty if it can.
    brief
        Gives its parameters in a few words.
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
    given: Callable[[Mapping[str, Any], Flow], float] | None = None
    guessed: bool = False
    commutative: bool = False
    bare: str = ""
    component: str = ""
    state: str = ""
    span: Callable[[Mapping[str, Any]], float] = lambda _: 0.0
    product: bool = False
    waits: bool = False
    keeps_all: bool = False
    keeps_order: bool = False
    needs_order: str = ""
    agrees: str = ""
    remedy: str = ""
    off_spark: Callable[[Mapping[str, Any]], str] = lambda _: ""
    brief: Callable[[Mapping[str, Any]], str] = lambda _: ""

    def replicas(self, params: Mapping[str, Any]) -> Replicas:
        """Whether replicas of an operator with these parameters agree, and why."""
        if (params.get("window") or {}).get("kind") == "count":
            return Replicas(False, _BY_ROWS)
        return Replicas(False, self.needs_order) if self.needs_order else Replicas(True, self.agrees)

    def schema(self, it: Derivation, parameters: Mapping[str, Parameter]) -> Schema | None:
        """The columns of an operator's stream; None if they cannot be known.

        ``it.params`` gets canonical expressions, ``it.window`` the window of the stream, ``it.wrongs`` what is wrong.
        A mistake that leaves the columns as they are, such as one in a condition, does not hide them from what follows;
        nor does a mistake in one parameter hide those in others.
        """
        if any(schema is None for schema in it.inputs) or (self.inputs[0] and not it.inputs):
            _check_syntax(it, parameters)
            return None
        before = len(it.wrongs)
        schema = self.columns(it)
        wrong = {each.field.partition(".")[0] for each in it.wrongs[before:]} | set(it.faulty)
        return None if wrong & self.shaping else schema

    def tuples(self, params: Mapping[str, Any], flow: Flow) -> float:
        """Tuples that come out in a second, where neither profile nor plan says."""
        return flow.taken * self.selectivity if self.given is None else self.given(params, flow)


def _check_syntax(it: Derivation, parameters: Mapping[str, Parameter]) -> None:
    """Without the columns, look at least at the syntax of expressions."""
    it.inputs = ()
    for field, parameter in parameters.items():
        if field not in it.params:
            continue
        if parameter.type.name == "condition":
            it.expression(field, it.params[field])
        elif parameter.type.name in ("expressions", "calls"):
            for name, text in it.params[field].items():
                it.expression(f"{field}.{name}", text, aggregate=parameter.type.name == "calls")


#: Window of an operator that takes those of its input where it has any.
OWN_WINDOW: Final = Parameter(
    WINDOW, "needed if the input has no windows, refused if it has: see [windows](#windows)", None, "those of the input"
)
