"""The operations by which an editor changes the text of a plan: add an operator, connect two, set a field and so on.

An operation names operators by their ids. So operations that two people or programs make at the same time can both be
applied; one whose operator no longer exists gives a problem, and changes nothing.

>>> parse_operations([{"op": "connect", "from": "packets", "to": "filter"}])
[Connect(start='packets', end='filter', port=None)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from synergy_nb.errors import SynergyError
from synergy_nb.plan.checks.validation import Problem
from synergy_nb.plan.terms.units import nearest

__all__ = [
    "Add",
    "Connect",
    "Disconnect",
    "EditError",
    "Insert",
    "Name",
    "Operation",
    "Paste",
    "Qos",
    "Remove",
    "Rename",
    "Set",
    "parse_operations",
]


class EditError(SynergyError, ValueError):
    """Operations cannot be applied to the text of a plan, which has not changed."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)  # problems of the operations, each with operator and field
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[EditError], tuple[tuple[Problem, ...]]]:
        return EditError, (self.problems,)


class Operation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op", kw_only=True):
    """Base of the operations; in JSON, the field ``op`` holds the name of the class in small letters."""


class Add(Operation, frozen=True, tag="add"):
    """Add an operator."""

    kind: str
    # wanted id of the operator; if it is taken, it gets a number. Default: the kind
    operator: str | None = None
    fields: dict[str, Any] = {}  # name of each field to its YAML text or its value
    inputs: list[str] = []  # ids of the operators that the new one reads


class Edge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from", "end": "to"}):
    """An edge of the graph of a plan."""

    start: str  # id of the operator that is read, in JSON `from`
    end: str  # id of the operator that reads it, in JSON `to`
    port: int | None = None  # number of the input of `end`, from 0; None: the first one that reads `start`


class Insert(Operation, frozen=True, tag="insert"):
    """Add an operator on an edge: it reads the operator at the start, and the one at the end reads it."""

    # kind, operator, fields: kind, wanted id and fields of the operator, see `Add`
    kind: str
    between: Edge
    operator: str | None = None
    fields: dict[str, Any] = {}
    inputs: list[str] = []  # ids of further operators that the new one reads


class Remove(Operation, frozen=True, tag="remove"):
    """Remove an operator; if it had a single input, its readers then read that."""

    operator: str


class Connect(Operation, frozen=True, tag="connect", rename={"start": "from", "end": "to"}):
    """Make the operator ``to`` read the operator ``from``."""

    start: str  # id of the operator that is read, in JSON `from`
    end: str  # id of the operator that reads it, in JSON `to`
    # number of the input of `end`, from 0; a taken one is replaced. None: the next free one, otherwise the last
    port: int | None = None


class Disconnect(Operation, frozen=True, tag="disconnect", rename={"start": "from", "end": "to"}):
    """Make the operator ``to`` no longer read the operator ``from``; fields as of :class:`Connect`."""

    start: str
    end: str
    port: int | None = None


class Rename(Operation, frozen=True, tag="rename"):
    """Change the id of an operator, also where others name it as their input."""

    operator: str  # present id
    to: str


class Set(Operation, frozen=True, tag="set"):
    """Set a field of an operator."""

    operator: str
    field: str  # field, such as `where`, or one entry of a field, such as `columns.total`
    value: Any = None  # YAML text or value of the field; None removes the field


class Qos(Operation, frozen=True, tag="qos"):
    """Set a field of the QoS requirement."""

    field: str  # name of the field, such as `delay`
    value: Any = None  # YAML text or value of the field; None removes the field


class Name(Operation, frozen=True, tag="name"):
    """Set the name of the plan."""

    value: str  # new name


class Paste(Operation, frozen=True, tag="paste"):
    """Add the operators of a YAML text, such as that of :func:`~synergy_nb.editing._applying.copy_operators`.

    If the plan has no operators, and the text states a name or a requirement, the text becomes that of the plan.
    """

    yaml: str  # YAML text of operators; ids that are taken get a number


_OPERATIONS: Final[Any] = Add | Insert | Remove | Connect | Disconnect | Rename | Set | Qos | Name | Paste
_MOST_OPERATIONS: Final = 1000  # largest number of operations of one gesture
_MOST_LEVELS: Final = 100  # maximum depth of lists and mappings within each other


def _is_nested_deeply(value: Any) -> bool:
    """Whether a value is nested deeper than is accepted, whatever depth of calls Python permits at present."""
    level = [value]
    for _ in range(_MOST_LEVELS):
        outer = [each.values() if isinstance(each, Mapping) else each for each in level if _is_container(each)]
        level = [inner for each in outer for inner in each]
        if not level:
            return False
    return True


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, tuple, Mapping))


def parse_operations(operations: Any) -> list[Operation]:
    """Read operations.

    ``operations``: operations, or JSON values that describe them: one, or a list.

    Raises ``EditError`` if a value describes no operation, or there are too many.
    """
    given = list(operations) if isinstance(operations, (list, tuple)) else [operations]
    found: list[Operation] = []
    problems = []
    if len(given) > _MOST_OPERATIONS:
        raise EditError([Problem("", "operations", len(given), f"at most {_MOST_OPERATIONS} operations at once")])
    for number, each in enumerate(given, start=1):
        if isinstance(each, Operation):
            found.append(each)
            continue
        if _is_nested_deeply(each):
            expected = f"values in at most {_MOST_LEVELS} lists and mappings within each other"
            problems.append(Problem("", f"operations[{number}]", type(each).__name__, expected))
            continue
        try:
            found.append(msgspec.convert(each, _OPERATIONS))
        except (msgspec.ValidationError, TypeError, RecursionError) as error:
            kinds = [str(kind.__struct_config__.tag) for kind in _OPERATIONS.__args__]
            stated = each.get("op") if isinstance(each, Mapping) else None
            known = isinstance(stated, str) and stated in kinds
            expected = (
                f"an operation with the fields of {stated!r} ({error})" if known else f"one of {', '.join(kinds)}"
            )
            field = f"operations[{number}]" + ("" if known else ".op")
            shown = stated if isinstance(stated, str) else type(each if stated is None else stated).__name__
            problems.append(Problem("", field, shown, expected, None if known else nearest(stated, kinds)))
    if problems:
        raise EditError(problems)
    return found
