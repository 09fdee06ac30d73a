"""The YAML text of a plan, whose operators and fields are edited in place.

All forms of a plan file can be edited: ``operators`` may be a mapping or a list, in block or flow style, empty or
absent. A new operator is written in the style of the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

import yaml

from synergy_nb.editing._yaml_text import Path, YamlText, node_value, read_value
from synergy_nb.plan.terms.units import WrongValue
from synergy_nb.plan.text.plan_file import INPUT_FIELDS

__all__ = ["EMPTY", "OperatorEntry", "PlanText"]

#: Text of a new plan.
EMPTY: Final = "format: 1\nname: plan\noperators:\n"
_FOLLOWED: Final = {
    "qos": ("name", "format"),
    "name": ("format",),
}  # new field of the plan to the fields after which it is written


class OperatorEntry(NamedTuple):
    """The entry of an operator in the text."""

    path: Path
    fields: dict[str, Any] | None  # fields of the operator to their values; None if the entry is no mapping
    input_field: str  # name of the field that holds the inputs (`input` or `inputs`); empty if the operator has none

    @property
    def inputs(self) -> list[str]:
        """Ids of the operators whose streams this one reads, in the order of its inputs."""
        stated = (self.fields or {}).get(self.input_field)
        return [] if stated is None else [str(each) for each in (stated if isinstance(stated, list) else [stated])]


class PlanText:
    """The text of a plan. A change leaves it as it is, and returns a new one.

    Raises ``yaml.YAMLError`` if the text is not YAML; ``WrongValue`` if the text is not a mapping.
    """

    def __init__(self, text: str | YamlText) -> None:
        self.yaml = text if isinstance(text, YamlText) else YamlText(text)  # the text with its nodes
        if self.yaml.root is None:
            joined = self.yaml.text + ("" if not self.yaml.text or self.yaml.text.endswith("\n") else "\n") + EMPTY
            self.yaml = YamlText(joined)
        if not isinstance(self.yaml.root, yaml.MappingNode):
            raise WrongValue(self.yaml.text.strip()[:60], "a mapping with the fields format, name, qos, operators")
        # entry of each operator by its id; of two operators with one id, only the first is here
        self.operators: dict[str, OperatorEntry] = {}
        self.is_list = False  # whether `operators` is a list, of which each item states its `id`
        at = self.yaml.find((), "operators")
        # path of the value of `operators`; None if the text has no such field
        self.path: Path | None = None if at is None else (at,)
        if self.path is None:
            return
        node = self.yaml.node(self.path)
        self.is_list = isinstance(node, yaml.SequenceNode)
        if isinstance(node, yaml.ScalarNode):
            return
        for number, child in enumerate(node.value):
            item = child if self.is_list else child[1]
            stated = node_value(item) if isinstance(item, yaml.MappingNode) else None
            name = str((stated or {}).get("id", "")) if self.is_list else str(child[0].value)
            if (name or not self.is_list) and name not in self.operators:
                input_field = next((field for field in INPUT_FIELDS if field in (stated or {})), "")
                self.operators[name] = OperatorEntry((*self.path, number), stated, input_field)

    @property
    def text(self) -> str:
        """The text of the plan."""
        return self.yaml.text

    def fields(self, operator: str) -> dict[str, Any]:
        """Fields of an operator to their values.

        Raises ``WrongValue`` if there is no such operator, or its entry is no mapping.
        """
        entry = self.operators.get(operator)
        if entry is None:
            raise WrongValue(operator, f"an operator of the plan ({', '.join(self.operators) or 'it has none'})")
        if entry.fields is None:
            raise WrongValue(operator, "an operator with fields, such as kind and input")
        return entry.fields

    def readers(self, operator: str) -> list[str]:
        """Ids of the operators that read the stream of an operator, in the order of the text."""
        return [name for name, entry in self.operators.items() if operator in entry.inputs]

    # -- changes -------------------------------------------------------------------------------------------------

    def add(self, operator: str, fields: Mapping[str, Any], after: str | None = None) -> Self:
        """Add an operator after the operator ``after`` or, if that is None, as the last one."""
        made = self
        if made.path is None:
            made = made._changed(made.yaml.insert((), len(made._entries_at(())), "operators", None))
        assert made.path is not None
        number = len(made._entries_at(made.path))
        if after is not None:
            number = made.operators[after].path[-1] + 1
        near = list(made.operators.values())
        model = near[min(number, len(near)) - 1] if near else None
        block = model is not None and not self.yaml.is_flow(model.path)
        if made.is_list:
            return made._changed(made.yaml.insert(made.path, number, None, {"id": operator, **fields}, block=block))
        return made._changed(made.yaml.insert(made.path, number, operator, dict(fields), block=block))

    def remove(self, operator: str) -> Self:
        """Remove an operator; its readers stay as they are."""
        self._require(operator)
        path = self.operators[operator].path
        return self._changed(self.yaml.remove(path[:-1], path[-1]))

    def rename(self, operator: str, name: str) -> Self:
        """Rename an operator; its readers stay as they are."""
        self._require(operator)
        path = self.operators[operator].path
        if self.is_list:
            return self.set(operator, "id", name)
        return self._changed(self.yaml.rename(path[:-1], path[-1], name))

    def set(self, operator: str, field: str, value: Any, raw: str | None = None) -> Self:
        """Set a field of an operator, or one entry of a field, such as ``columns.total``.

        ``field``: name of the field, or of the field and its entry; ``value``: new value; None removes the field or the
        entry; ``raw``: YAML text of the value as it was typed, see :meth:`YamlText.replace`.
        """
        self.fields(operator)
        return self._set_field(self.operators[operator].path, field, value, raw)

    def set_top(self, field: str, value: Any, raw: str | None = None) -> Self:
        """Set a field of the plan, or of its requirement, such as ``qos.delay``; arguments as of :meth:`set`."""
        return self._set_field((), field, value, raw)

    def set_inputs(self, operator: str, inputs: Sequence[str]) -> Self:
        """Set the ids of the operators that an operator reads; inputs that stay keep their text and comments."""
        fields = self.fields(operator)
        entry = self.operators[operator]
        before = entry.inputs
        if list(inputs) == before:
            return self
        if not inputs:
            return self.set(operator, entry.input_field, None)
        if not entry.input_field:
            number = 1 + list(fields).index("kind") if "kind" in fields else 1 if self.is_list else 0
            key, value = ("input", inputs[0]) if len(inputs) == 1 else ("inputs", list(inputs))
            return self._changed(self.yaml.insert(entry.path, number, key, value))
        at = self.yaml.find(entry.path, entry.input_field)
        assert at is not None
        path = (*entry.path, at)
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
                return self._changed(changed)
            if len(inputs) == len(before):
                for number, each in enumerate(inputs):
                    if each != before[number]:
                        changed = changed.replace((*path, number), each)
                return self._changed(changed)
            return self._changed(changed.replace(path, list(inputs)))
        if len(inputs) > 1 and entry.input_field == "input":
            changed = changed.rename(entry.path, at, "inputs")
        return self._changed(changed.replace(path, inputs[0] if len(inputs) == 1 else list(inputs)))

    # -- steps of a change ---------------------------------------------------------------------------------------

    def _set_field(self, path: Path, field: str, value: Any, raw: str | None) -> Self:
        """Set a field of the mapping at a path, or an entry of the field after a dot."""
        name, _, inner = field.partition(".")
        at = self.yaml.find(path, name)
        if inner:
            if at is None or not isinstance(self.yaml.node((*path, at)), yaml.MappingNode):
                if value is None:
                    return self
                stated = None if at is None else node_value(self.yaml.node((*path, at)))
                if isinstance(stated, list) and all(isinstance(each, str) for each in stated):  # columns by their names
                    return self._set_entry(path, at, name, {**{each: each for each in stated}, inner: value}, None)
                return self._set_entry(path, at, name, {inner: value}, None)
            entries = self._entries_at((*path, at))
            number = self.yaml.find((*path, at), inner)
            if value is None and number is not None and len(entries) == 1:
                return self._changed(self.yaml.remove(path, at))
            return self._set_entry((*path, at), number, inner, value, raw)
        return self._set_entry(path, at, name, value, raw)

    def _set_entry(self, path: Path, at: int | None, name: str, value: Any, raw: str | None) -> Self:
        """Replace, insert or remove an entry of the mapping at a path; ``at`` is its number, None if it is new."""
        if value is None:
            return self if at is None else self._changed(self.yaml.remove(path, at))
        if at is None:
            made = self._changed(self.yaml.insert(path, self._new_number(path, name), name, value))
            if raw is None or made.path == path:
                return made
            at = made.yaml.find(path, name)
            assert at is not None
            return made._changed(made.yaml.replace((*path, at), value, raw))
        node = self.yaml.node((*path, at))
        if isinstance(node, yaml.MappingNode) and node.value and isinstance(value, Mapping) and value:
            merged = self._set_entries((*path, at), value)
            if merged is not None:
                return merged
        if node_value(node) == value and type(node_value(node)) is type(value) and raw is None:
            return self
        return self._changed(self.yaml.replace((*path, at), value, raw))

    def _set_entries(self, path: Path, value: Mapping[str, Any]) -> Self | None:
        """Set a mapping entry by entry; None unless those that stay keep their order and new ones come last."""
        before = node_value(self.yaml.node(path))
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
        return self._changed(changed)

    def _new_number(self, path: Path, name: str) -> int:
        """Number for a new entry: after the fields that it usually follows (``_FOLLOWED``), otherwise the last one."""
        entries = self._entries_at(path)
        if path or name not in _FOLLOWED:
            return len(entries)
        keys = [key.value for key, _ in entries]
        return next((keys.index(each) + 1 for each in _FOLLOWED[name] if each in keys), 0)

    def _entries_at(self, path: Path) -> list[Any]:
        node = self.yaml.node(path)
        return [] if isinstance(node, yaml.ScalarNode) else list(node.value)

    def _require(self, operator: str) -> None:
        """Raise the error of :meth:`fields` if there is no such operator; its entry need not be a mapping."""
        if operator not in self.operators:
            self.fields(operator)

    def _changed(self, changed: YamlText) -> Self:
        return type(self)(changed)


def read_field(value: Any) -> tuple[Any, str | None]:
    """Value of a field from a form or a program, and its YAML text; the text is None if a program gave a value."""
    return (read_value(value), value.strip()) if isinstance(value, str) else (value, None)
