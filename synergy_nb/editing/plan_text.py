"""A plan as YAML text whose operators are edited in place, in all forms of a plan file.

``operators`` may be a mapping or a list, in block or flow style, empty or absent. A new operator is written in the
style of the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import yaml

from synergy_nb.editing.yaml_text import Path, YamlText, read_value, yaml_data
from synergy_nb.plan.plan_file import INPUT_FIELDS
from synergy_nb.plan.units import WrongValue

__all__ = ["EMPTY", "Place", "PlanText"]

#: Text of a new plan.
EMPTY: Final = "format: 1\nname: plan\noperators:\n"
_BEFORE: Final = {"qos": ("name", "format"), "name": ("format",)}  # fields that a new field follows


class Place(NamedTuple):
    """Where an operator is in the text.

    Parameters
    ----------
    path
        Path of the mapping of its fields.
    fields
        Fields as stated; None if it is no mapping.
    inputs
        Field that names its inputs; empty if it has none.
    """

    path: Path
    fields: dict[str, Any] | None
    inputs: str

    @property
    def streams(self) -> list[str]:
        """Ids of the operators whose streams it reads, by port."""
        stated = (self.fields or {}).get(self.inputs)
        return [] if stated is None else [str(each) for each in (stated if isinstance(stated, list) else [stated])]


class PlanText:
    """The text of a plan; changes return another one.

    Parameters
    ----------
    text
        YAML text.

    Raises
    ------
    yaml.YAMLError
        If it cannot be read.
    WrongValue
        If it is no mapping with fields.
    """

    def __init__(self, text: str | YamlText) -> None:
        self.yaml = text if isinstance(text, YamlText) else YamlText(text)
        if self.yaml.root is None:
            joined = self.yaml.text + ("" if not self.yaml.text or self.yaml.text.endswith("\n") else "\n") + EMPTY
            self.yaml = YamlText(joined)
        if not isinstance(self.yaml.root, yaml.MappingNode):
            raise WrongValue(self.yaml.text.strip()[:60], "a mapping with the fields format, name, qos, operators")
        self.operators: dict[str, Place] = {}
        self.listed = False
        at = self.yaml.find((), "operators")
        self.path: Path | None = None if at is None else (at,)
        if self.path is None:
            return
        node = self.yaml.node(self.path)
        self.listed = isinstance(node, yaml.SequenceNode)
        if isinstance(node, yaml.ScalarNode):
            return
        for number, entry in enumerate(node.value):
            item = entry if self.listed else entry[1]
            stated = yaml_data(item) if isinstance(item, yaml.MappingNode) else None
            name = str((stated or {}).get("id", "")) if self.listed else str(entry[0].value)
            if (name or not self.listed) and name not in self.operators:
                inputs = next((field for field in INPUT_FIELDS if field in (stated or {})), "")
                self.operators[name] = Place((*self.path, number), stated, inputs)

    @property
    def text(self) -> str:
        """The text."""
        return self.yaml.text

    def fields(self, operator: str) -> dict[str, Any]:
        """Fields of an operator.

        Raises
        ------
        WrongValue
            If there is no such operator, or it is no mapping of fields.
        """
        place = self.operators.get(operator)
        if place is None:
            raise WrongValue(operator, f"an operator of the plan ({', '.join(self.operators) or 'it has none'})")
        if place.fields is None:
            raise WrongValue(operator, "an operator with fields, such as kind and input")
        return place.fields

    def readers(self, operator: str) -> list[str]:
        """Operators that read the stream of an operator, in the order of the text."""
        return [name for name, place in self.operators.items() if operator in place.streams]

    # -- changes -------------------------------------------------------------------------------------------------

    def add(self, operator: str, fields: Mapping[str, Any], after: str | None = None) -> Self:
        """Add an operator after another one, or as the last."""
        made = self
        if made.path is None:
            made = made._with(made.yaml.insert((), len(made._entries(())), "operators", None))
        assert made.path is not None
        number = len(made._entries(made.path))
        if after is not None:
            number = made.operators[after].path[-1] + 1
        near = list(made.operators.values())
        model = near[min(number, len(near)) - 1] if near else None
        block = model is not None and not self.yaml.is_flow(model.path)
        if made.listed:
            return made._with(made.yaml.insert(made.path, number, None, {"id": operator, **fields}, block=block))
        return made._with(made.yaml.insert(made.path, number, operator, dict(fields), block=block))

    def remove(self, operator: str) -> Self:
        """Remove an operator; its readers stay as they are."""
        self._known(operator)
        path = self.operators[operator].path
        return self._with(self.yaml.remove(path[:-1], path[-1]))

    def rename(self, operator: str, name: str) -> Self:
        """Rename an operator; its readers stay as they are."""
        self._known(operator)
        path = self.operators[operator].path
        if self.listed:
            return self.set(operator, "id", name)
        return self._with(self.yaml.rename(path[:-1], path[-1], name))

    def set(self, operator: str, field: str, value: Any, raw: str | None = None) -> Self:
        """Set a field of an operator, or an entry of a field as ``columns.total``; None removes it."""
        self.fields(operator)
        return self._set(self.operators[operator].path, field, value, raw)

    def set_top(self, field: str, value: Any, raw: str | None = None) -> Self:
        """Set a field of the plan, or of its requirement as ``qos.delay``; None removes it."""
        return self._set((), field, value, raw)

    def set_inputs(self, operator: str, inputs: Sequence[str]) -> Self:
        """Set the inputs of an operator; what remains of them keeps its form."""
        fields = self.fields(operator)
        place = self.operators[operator]
        before = place.streams
        if list(inputs) == before:
            return self
        if not inputs:
            return self.set(operator, place.inputs, None)
        if not place.inputs:
            number = 1 + list(fields).index("kind") if "kind" in fields else 1 if self.listed else 0
            key, value = ("input", inputs[0]) if len(inputs) == 1 else ("inputs", list(inputs))
            return self._with(self.yaml.insert(place.path, number, key, value))
        at = self.yaml.find(place.path, place.inputs)
        assert at is not None
        path = (*place.path, at)
        node, changed = self.yaml.node(path), self.yaml
        if isinstance(node, yaml.SequenceNode) and len(before) == len(node.value):
            kept = [each for each in before if each in inputs]
            same = len(set(before)) == len(before) and len(set(inputs)) == len(inputs)
            if same and [each for each in inputs if each in before] == kept and kept:
                for number in reversed(range(len(before))):
                    if before[number] not in inputs:
                        changed = changed.remove(path, number)
                for number, each in enumerate(inputs):
                    if each not in before:
                        changed = changed.insert(path, number, None, each)
                return self._with(changed)
            if len(inputs) == len(before):
                for number, each in enumerate(inputs):
                    if each != before[number]:
                        changed = changed.replace((*path, number), each)
                return self._with(changed)
            return self._with(changed.replace(path, list(inputs)))
        if len(inputs) > 1 and place.inputs == "input":
            changed = changed.rename(place.path, at, "inputs")
        return self._with(changed.replace(path, inputs[0] if len(inputs) == 1 else list(inputs)))

    # -- parts ---------------------------------------------------------------------------------------------------

    def _set(self, path: Path, field: str, value: Any, raw: str | None) -> Self:
        name, _, inner = field.partition(".")
        at = self.yaml.find(path, name)
        if inner:
            if at is None or not isinstance(self.yaml.node((*path, at)), yaml.MappingNode):
                if value is None:
                    return self
                stated = None if at is None else yaml_data(self.yaml.node((*path, at)))
                if isinstance(stated, list) and all(isinstance(each, str) for each in stated):  # columns by their names
                    return self._put(path, at, name, {**{each: each for each in stated}, inner: value}, None)
                return self._put(path, at, name, {inner: value}, None)
            entries = self._entries((*path, at))
            number = self.yaml.find((*path, at), inner)
            if value is None and number is not None and len(entries) == 1:
                return self._with(self.yaml.remove(path, at))
            return self._put((*path, at), number, inner, value, raw)
        return self._put(path, at, name, value, raw)

    def _put(self, path: Path, at: int | None, name: str, value: Any, raw: str | None) -> Self:
        """Set, insert or remove the entry of the mapping at a path."""
        if value is None:
            return self if at is None else self._with(self.yaml.remove(path, at))
        if at is None:
            made = self._with(self.yaml.insert(path, self._number(path, name), name, value))
            if raw is None or made.path == path:
                return made
            at = made.yaml.find(path, name)
            assert at is not None
            return made._with(made.yaml.replace((*path, at), value, raw))
        node = self.yaml.node((*path, at))
        if isinstance(node, yaml.MappingNode) and node.value and isinstance(value, Mapping) and value:
            merged = self._merged((*path, at), value)
            if merged is not None:
                return merged
        if yaml_data(node) == value and type(yaml_data(node)) is type(value) and raw is None:
            return self
        return self._with(self.yaml.replace((*path, at), value, raw))

    def _merged(self, path: Path, value: Mapping[str, Any]) -> Self | None:
        """Set a mapping entry by entry, if what remains of it stays in its order and new entries come last."""
        before = yaml_data(self.yaml.node(path))
        kept = [name for name in before if name in value]
        if not kept or list(value)[: len(kept)] != kept:
            return None
        changed = self.yaml
        for number in reversed(range(len(before))):
            name = list(before)[number]
            if name not in value:
                changed = changed.remove(path, number)
            elif before[name] != value[name] or type(before[name]) is not type(value[name]):
                changed = changed.replace((*path, number), value[name])
        for name in list(value)[len(kept) :]:
            changed = changed.insert(path, len(changed.node(path).value), name, value[name])
        return self._with(changed)

    def _number(self, path: Path, name: str) -> int:
        """Number that a new entry gets: the last, or after the fields that it usually follows."""
        entries = self._entries(path)
        if path or name not in _BEFORE:
            return len(entries)
        keys = [key.value for key, _ in entries]
        return next((keys.index(each) + 1 for each in _BEFORE[name] if each in keys), 0)

    def _entries(self, path: Path) -> list[Any]:
        node = self.yaml.node(path)
        return [] if isinstance(node, yaml.ScalarNode) else list(node.value)

    def _known(self, operator: str) -> None:
        if operator not in self.operators:
            self.fields(operator)

    def _with(self, changed: YamlText) -> Self:
        return type(self)(changed)


def stated_value(value: Any) -> tuple[Any, str | None]:
    """Value of a field that a form or a program gives, and its text if that is YAML."""
    return (read_value(value), value.strip()) if isinstance(value, str) else (value, None)
