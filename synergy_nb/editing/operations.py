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
    """Operations cannot be applied to the text of a plan, which has not changed.

    Parameters
    ----------
    problems
        Problems of the operations, each with operator and field.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[EditError], tuple[tuple[Problem, ...]]]:
        return EditError, (self.problems,)


class Operation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op", kw_only=True):
    """Base of the operations; in JSON, the field ``op`` holds the name of the class in small letters."""


class Add(Operation, frozen=True, tag="add"):
    """Add an operator.

    Parameters
    ----------
    kind
        Kind of the operator.
    operator
        Wanted id of the operator; if it is taken, it gets a number. Default: the kind.
    fields
        Name of each field to its YAML text or its value.
    inputs
        Ids of the operators that the new one reads.
    """

    kind: str
    operator: str | None = None
    fields: dict[str, Any] = {}
    inputs: list[str] = []


class Edge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from", "end": "to"}):
    """An edge of the graph of a plan.

    Parameters
    ----------
    start
        Id of the operator that is read, in JSON ``from``.
    end
        Id of the operator that reads it, in JSON ``to``.
    port
        Number of the input of ``end``, from 0; None: the first one that reads ``start``.
    """

    start: str
    end: str
    port: int | None = None


class Insert(Operation, frozen=True, tag="insert"):
    """Add an operator on an edge: the new one reads the start of the edge, and the end of the edge reads the new one.

    Parameters
    ----------
    kind, operator, fields
        Kind, wanted id and fields of the operator, see :class:`Add`.
    inputs
        Ids of further operators that the new one reads.
    between
        Edge on which the operator is inserted.
    """

    kind: str
    between: Edge
    operator: str | None = None
    fields: dict[str, Any] = {}
    inputs: list[str] = []


class Remove(Operation, frozen=True, tag="remove"):
    """Remove an operator; if it had a single input, its readers then read that.

    Parameters
    ----------
    operator
        Id of the operator.
    """

    operator: str


class Connect(Operation, frozen=True, tag="connect", rename={"start": "from", "end": "to"}):
    """Make the operator ``to`` read the operator ``from``.

    Parameters
    ----------
    start
        Id of the operator that is read, in JSON ``from``.
    end
        Id of the operator that reads it, in JSON ``to``.
    port
        Number of the input of ``end``, from 0; a taken one is replaced. None: the next free one, otherwise the last.
    """

    start: str
    end: str
    port: int | None = None


class Disconnect(Operation, frozen=True, tag="disconnect", rename={"start": "from", "end": "to"}):
    """Make the operator ``to`` no longer read the operator ``from``; fields as of :class:`Connect`."""

    start: str
    end: str
    port: int | None = None


class Rename(Operation, frozen=True, tag="rename"):
    """Change the id of an operator, also where others name it as their input.

    Parameters
    ----------
    operator
        Present id.
    to
        New id.
    """

    operator: str
    to: str


class Set(Operation, frozen=True, tag="set"):
    """Set a field of an operator.

    Parameters
    ----------
    operator
        Id of the operator.
    field
        Field, such as ``where``, or one entry of a field, such as ``columns.total``.
    value
        YAML text or value of the field; None removes the field.
    """

    operator: str
    field: str
    value: Any = None


class Qos(Operation, frozen=True, tag="qos"):
    """Set a field of the QoS requirement.

    Parameters
    ----------
    field
        Name of the field, such as ``delay``.
    value
        YAML text or value of the field; None removes the field.
    """

    field: str
    value: Any = None


class Name(Operation, frozen=True, tag="name"):
    """Set the name of the plan.

    Parameters
    ----------
    value
        New name.
    """

    value: str


class Paste(Operation, frozen=True, tag="paste"):
    """Add the operators of a YAML text, such as that of :func:`~synergy_nb.editing._applying.copy_operators`.

    If the plan has no operators, and the text states a name or a requirement, the text becomes that of the plan.

    Parameters
    ----------
    yaml
        YAML text of operators; ids that are taken get a number.
    """

    yaml: str


_OPERATIONS: Final[Any] = Add | Insert | Remove | Connect | Disconnect | Rename | Set | Qos | Name | Paste
_MOST_OPERATIONS: Final = 1000  # largest number of operations of one gesture
_MOST_LEVELS: Final = 100  # of lists and mappings within each other


def _is_nested_deeply(value: Any) -> bool:
    """Whether a value has more levels than are accepted, whatever depth of calls Python permits at present."""
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

    Parameters
    ----------
    operations
        Operations, or JSON values that describe them: one, or a list.

    Raises
    ------
    EditError
        If a value describes no operation, or there are too many.
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
