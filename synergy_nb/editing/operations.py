"""Operations on the text of a plan, as values: what people do to a plan in an editor, each applied to the present text.

An operation names operators by id, so operations that two people or programs make at the same time merge; one whose
operator is gone is answered with a problem, and changes nothing.

>>> parsed([{"op": "connect", "from": "packets", "to": "filter"}])
[Connect(start='packets', end='filter', port=None)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from synergy_nb.errors import SynergyError
from synergy_nb.plan.units import nearest
from synergy_nb.plan.validation import Problem

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
    "parsed",
]


class EditError(SynergyError, ValueError):
    """Operations cannot be applied to the text of a plan; nothing has changed.

    Parameters
    ----------
    problems
        Problems, each with the operator and the field.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[EditError], tuple[tuple[Problem, ...]]]:
        return EditError, (self.problems,)


class Operation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op", kw_only=True):
    """Base of the operations; as JSON, its field ``op`` is the name of the class in small letters."""


class Add(Operation, frozen=True, tag="add"):
    """Add an operator.

    Parameters
    ----------
    kind
        Kind of the operator.
    operator
        Wanted id; a number makes it unique. Default: the kind.
    fields
        Field to value: YAML text, or a value.
    inputs
        Ids of the operators that it reads.
    """

    kind: str
    operator: str | None = None
    fields: dict[str, Any] = {}
    inputs: list[str] = []


class Between(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from", "end": "to"}):
    """An edge: the operator that is read, the one that reads it, and the number of its input from 0."""

    start: str
    end: str
    port: int | None = None


class Insert(Operation, frozen=True, tag="insert"):
    """Add an operator on an edge, which reads the start of the edge, and which its end reads instead.

    Parameters
    ----------
    kind, operator, fields
        Kind, wanted id and fields of the operator, see :class:`Add`.
    inputs
        Ids of further operators that it reads.
    between
        Edge: ``{"from": id, "to": id, "port": number of the input or None}``.
    """

    kind: str
    between: Between
    operator: str | None = None
    fields: dict[str, Any] = {}
    inputs: list[str] = []


class Remove(Operation, frozen=True, tag="remove"):
    """Remove an operator; the readers of one with a single input read this input instead."""

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
        Number of the input, from 0; one that is taken is replaced. None: the next one, or the only one.
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
    """Give an operator another id; its readers follow."""

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
        YAML text or a value; None removes the field.
    """

    operator: str
    field: str
    value: Any = None


class Qos(Operation, frozen=True, tag="qos"):
    """Set a field of the QoS requirement; a value of None removes it."""

    field: str
    value: Any = None


class Name(Operation, frozen=True, tag="name"):
    """Set the name of the plan."""

    value: str


class Paste(Operation, frozen=True, tag="paste"):
    """Add the operators of a YAML text, such as that of :func:`copied`; ids that are taken get a number."""

    yaml: str


_ANY: Final[Any] = Add | Insert | Remove | Connect | Disconnect | Rename | Set | Qos | Name | Paste
_MOST: Final = 1000  # operations of one gesture


def parsed(operations: Any) -> list[Operation]:
    """Operations of JSON values, or as they are.

    Raises
    ------
    EditError
        If one is none.
    """
    given = list(operations) if isinstance(operations, (list, tuple)) else [operations]
    found: list[Operation] = []
    problems = []
    if len(given) > _MOST:
        raise EditError([Problem("", "operations", len(given), f"at most {_MOST} operations at once")])
    for number, each in enumerate(given, start=1):
        if isinstance(each, Operation):
            found.append(each)
            continue
        try:
            found.append(msgspec.convert(each, _ANY))
        except (msgspec.ValidationError, TypeError, RecursionError) as error:
            kinds = [str(kind.__struct_config__.tag) for kind in _ANY.__args__]
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
