"""YAML text that is edited in place: a change replaces the characters of one value, and no others.

The parser of plan files marks where each node of a text begins and ends. A change replaces the characters between two
marks, so comments, the order of fields, quotes and blank lines stay as they are. Each change is checked: the new text
is parsed again, and must hold exactly the data that the change asked for; otherwise the change is refused.

*Flow style* is YAML in brackets and braces (``[a, b]``, ``{x: 1}``), *block style* is YAML by lines and indentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Self

import yaml

from synergy_nb.plan.terms.units import WrongValue
from synergy_nb.plan.text.plan_file import compose, dump

#: Way from the root to a node: the number of the entry, from 0, in each mapping or sequence on the way.
Path = tuple[int, ...]

_STRING_TAG: Final = "tag:yaml.org,2002:str"
_LONGEST_LINE: Final = 110  # largest number of characters of an entry on one line


@lru_cache(maxsize=8)
def parsed_nodes(text: str) -> yaml.Node | None:
    """Parse a text; the nodes are never changed, so that a change, its check and its analysis share one parse."""
    return compose(text)


def tagged_data(node: yaml.Node | None) -> Any:
    """Data of a node, to be compared: tag and text of a scalar, pairs of a mapping in order, items of a sequence.

    >>> tagged_data(compose("a: 1"))
    {'map': [[('tag:yaml.org,2002:str', 'a'), ('tag:yaml.org,2002:int', '1')]]}
    """
    if isinstance(node, yaml.MappingNode):
        return {"map": [[tagged_data(key), tagged_data(value)] for key, value in node.value]}
    if isinstance(node, yaml.SequenceNode):
        return {"list": [tagged_data(item) for item in node.value]}
    return None if node is None else (node.tag, node.value)


def flow_text(value: Any) -> str:
    """Write a value as YAML on one line that may stand in a flow mapping.

    >>> flow_text("link = 'B'"), flow_text(["a, b", "c"]), flow_text({"n": "count(*)"}), flow_text("5")
    ("link = 'B'", "['a, b', c]", '{n: count(*)}', "'5'")
    """
    if isinstance(value, str):
        return _scalar_text(value, flow=True)
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{_scalar_text(str(key), flow=True)}: {flow_text(each)}" for key, each in value.items())
            + "}"
        )
    if isinstance(value, Sequence):
        return f"[{', '.join(map(flow_text, value))}]"
    return dump([value])[1:-1]


def _scalar_text(value: str, *, flow: bool) -> str:
    """Write a text as a scalar on one line; it has quotes only if it needs them."""
    if not value.isprintable():
        return dump([value], style='"')[1:-1]
    double = "'" in value and not re.search(r'["\\]', value)
    quoted = f'"{value}"' if double else "'" + value.replace("'", "''") + "'"
    if not value or value != value.strip() or value.endswith(":") or (value[0] in "?-:" and value[1:2] in ("", " ")):
        return quoted
    try:
        read: Any = compose(f"{{k: {value}}}" if flow else f"k: {value}")
    except yaml.YAMLError:
        return quoted
    if tagged_data(read) != {"map": [[_string_data("k"), _string_data(value)]]} or read.value[0][1].style is not None:
        return quoted
    return value


def _string_data(text: str) -> tuple[str, str]:
    return _STRING_TAG, text


def read_value(text: str) -> Any:
    """Read the YAML text of one value; text that is not the YAML of one value, or has a comment, is returned as it is.

    >>> read_value("10 %"), read_value("[a, b]"), read_value("5"), read_value("'B' = link"), read_value("a # b")
    ('10 %', ['a', 'b'], 5, "'B' = link", 'a # b')
    """
    try:
        node: Any = compose(text)
        if node is None or (isinstance(node, yaml.ScalarNode) and node.style is None and node.value != text.strip()):
            return text
        if not isinstance(node, yaml.ScalarNode) and not node.flow_style:
            return text if "\n" not in text else node_value(node)
        return node_value(node)
    except (yaml.YAMLError, ValueError):
        return text


def node_value(node: yaml.Node) -> Any:
    """Python value of a node, as the loader of plan files reads it."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): node_value(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [node_value(item) for item in node.value]
    if node.tag == _STRING_TAG:
        return node.value
    return yaml.SafeLoader("").construct_object(node)


def written_value(value: Any, *, flow: bool, like: str | None = None) -> str:
    """Write a value on one line; a text gets the quotes ``like`` (``'``, ``"`` or None) where that is possible."""
    if isinstance(value, str):
        if like == '"' and not re.search(r'["\\]', value) and value.isprintable():
            return f'"{value}"'
        if like == "'" and value.isprintable():
            return "'" + value.replace("'", "''") + "'"
        return _scalar_text(value, flow=flow)
    return flow_text(value)


class YamlText:
    """A YAML text with its nodes. A change leaves it as it is, and returns a new one.

    Raises ``yaml.YAMLError`` if the text is not one YAML document.

    Examples
    --------
    >>> text = YamlText("a: {x: 1}  # one\\nb: 'two'\\n")
    >>> print(text.insert((0,), 1, "y", 2).replace((1,), "three").text)
    a: {x: 1, y: 2}  # one
    b: 'three'
    <BLANKLINE>
    """

    def __init__(self, text: str) -> None:
        self.text = text  # YAML text of one document
        self.root = parsed_nodes(text)

    # -- reading -------------------------------------------------------------------------------------------------

    def node(self, path: Path) -> Any:
        """The node at a path."""
        node: Any = self.root
        for number in path:
            node = node.value[number][1] if isinstance(node, yaml.MappingNode) else node.value[number]
        return node

    def find(self, path: Path, key: str) -> int | None:
        """Number of the entry with this key in the mapping at a path; None if there is no such entry or no mapping."""
        node = self.node(path)
        if not isinstance(node, yaml.MappingNode):
            return None
        return next((number for number, (each, _) in enumerate(node.value) if each.value == key), None)

    def is_flow(self, path: Path) -> bool:
        """Whether the node at a path is a collection in flow style, or is in one."""
        node: Any = self.root
        for number in (*path, -1):
            if node is None or isinstance(node, yaml.ScalarNode):
                return False
            if node.flow_style:
                return True
            if number >= 0:
                node = node.value[number][1] if isinstance(node, yaml.MappingNode) else node.value[number]
        return False

    def lines(self, path: Path) -> tuple[int, int]:
        """First and last line of an entry, counted from 1."""
        start, end = self._entry_range(path[:-1], path[-1])
        return self.text.count("\n", 0, start) + 1, self.text.count("\n", 0, end) + 1

    def source(self, path: Path) -> str:
        """The text of an entry: key and value of a mapping, or the item of a sequence."""
        start, end = self._entry_range(path[:-1], path[-1])
        return self.text[start:end]

    # -- changing ------------------------------------------------------------------------------------------------

    def replace(self, path: Path, value: Any, raw: str | None = None) -> Self:
        """Replace the value at a path.

        ``value``: new value; ``raw``: YAML text of the value on one line, which is kept if it reads as the value; None:
        the text is made from it.
        """
        node = self.node(path)
        flow = self.is_flow(path[:-1])
        style = node.style if isinstance(node, yaml.ScalarNode) else None
        unquoted = isinstance(value, str) and style in ("'", '"') and raw is not None and raw[:1] not in ("'", '"')
        text = raw if raw is not None and not unquoted and _reads_as(raw, value, flow=flow) else None
        if text is None:
            text = written_value(value, flow=flow, like=style)
        start, end = node.start_mark.index, _end_of(node, self.text)
        if start == end:  # an empty value
            before = self.text[start - 1 : start]
            text = f" {text}" if before in (":", "-", "?") else f": {text}" if before != " " else text
        elif not isinstance(node, yaml.ScalarNode) and not node.flow_style and path:  # lines below their key
            begin = self._value_start(path)
            if not self.text[begin:start].strip():
                start, text = begin, f" {text}"
        return self._splice_value(start, end, text, path, value)

    def rename(self, path: Path, number: int, key: str) -> Self:
        """Replace the key of an entry of the mapping at a path."""
        node = self.node(path).value[number][0]
        text = written_value(key, flow=self.is_flow(path), like=node.style)
        expected = tagged_data(self.root)
        _data_at(expected, path)["map"][number][0] = _string_data(key)
        return self._splice(node.start_mark.index, node.end_mark.index, text, expected)

    def remove(self, path: Path, number: int) -> Self:
        """Remove an entry of the mapping or sequence at a path; a comment on lines of its own stays."""
        expected = tagged_data(self.root)
        entries = next(iter(_data_at(expected, path).values()))
        del entries[number]
        if not entries and not self.node(path).flow_style:  # a block without entries is an empty value
            expected = _with_data_at(expected, path, ("tag:yaml.org,2002:null", ""))
        start, end = self._range_to_remove(path, number)
        return self._splice(start, end, "", expected)

    def insert(self, path: Path, number: int, key: str | None, value: Any, *, block: bool = False) -> Self:
        """Insert an entry into the mapping or sequence at a path.

        ``number``: number that the entry gets; ``key``: key of the entry; None in a sequence; ``block``: whether a
        value that is a mapping is written in several lines, where that is possible.
        """
        node = self.node(path)
        expected = tagged_data(self.root)
        item = tagged_data(compose(flow_text(value))) if value != "" else _string_data("")
        added = item if key is None else [_string_data(key), item]
        if isinstance(node, yaml.ScalarNode) or not node.value:
            return self._insert_first(path, key, value, added, block=block)
        next(iter(_data_at(expected, path).values())).insert(number, added)
        if node.flow_style:
            at, text = self._flow_insertion(node, number, _entry_text(key, value, flow=True))
        else:
            at, text = self._block_insertion(node, number, key, value, block=block)
        return self._splice(at, at, text, expected)

    # -- character positions -------------------------------------------------------------------------------------

    def _entry_range(self, path: Path, number: int) -> tuple[int, int]:
        """Position of the first character of an entry, and the position after its last one."""
        node = self.node(path)
        if isinstance(node, yaml.MappingNode):
            key, value = node.value[number]
            return key.start_mark.index, max(key.end_mark.index, _end_of(value, self.text))
        item = node.value[number]
        return item.start_mark.index, _end_of(item, self.text)

    def _value_start(self, path: Path) -> int:
        """Position after the colon or dash that precedes a value in block style."""
        node = self.node(path[:-1])
        if isinstance(node, yaml.MappingNode):
            key = node.value[path[-1]][0]
            return self.text.index(":", key.end_mark.index) + 1
        return self._dash_index(node.value[path[-1]]) + 1

    def _dash_index(self, item: Any) -> int:
        """Position of the dash before an item of a sequence in block style."""
        return self.text.rindex("-", 0, item.start_mark.index + (item.start_mark.index == _end_of(item, self.text)))

    def _line_range(self, index: int) -> tuple[int, int]:
        """Begin and end of the line that holds a character; its line break belongs to it."""
        end = self.text.find("\n", index)
        return self.text.rfind("\n", 0, index) + 1, len(self.text) if end < 0 else end + 1

    def _range_to_remove(self, path: Path, number: int) -> tuple[int, int]:
        """Characters that go with an entry: also its comma, or its whole line if nothing else is on it."""
        node = self.node(path)
        start, end = self._entry_range(path, number)
        last = number == len(node.value) - 1
        following = None if last else self._entry_range(path, number + 1)[0]
        comma = re.compile(r"[ \t]*,").match(self.text, end) if node.flow_style else None
        begin = (
            self._dash_index(node.value[number])
            if isinstance(node, yaml.SequenceNode) and not node.flow_style
            else start
        )
        left, right = self._line_range(begin)[0], self._line_range(max(end - 1, begin))[1]
        after = self.text[comma.end() if comma else end : right]
        alone = not self.text[left:begin].strip() and (not after.strip() or after.lstrip().startswith("#"))
        if alone and (not node.flow_style or "\n" in self.text[left:right]) and not (node.flow_style and left == 0):
            if right == len(self.text) and not self.text.endswith("\n") and left > 0 and not node.flow_style:
                return left - 1 - (self.text[left - 2 : left - 1] == "\r"), right  # the line break before the last line
            return left, right
        if not node.flow_style:  # the first entry, on the line of a dash or of a brace around it
            return start, end if following is None else following
        if following is not None and "#" not in self.text[end:following]:
            return start, following
        if number and not re.search(r"[\n#]", before := self.text[self._entry_range(path, number - 1)[1] : start]):
            return start - len(before), end
        return start, comma.end() if comma else end

    def _block_insertion(self, node: Any, number: int, key: str | None, value: Any, *, block: bool) -> tuple[int, str]:
        """Position and text of a new entry of a collection in block style."""
        column = node.start_mark.column if key is not None else self._column_of(self._dash_index(node.value[0]))
        indent = " " * column
        lines = _block_entry_text(key, value, indent, self._line_break, block=block)
        if number == 0:
            first = node.value[0][0] if key is not None else node.value[0]
            at = first.start_mark.index if key is not None else self._dash_index(node.value[0])
            return at, f"{lines}{self._line_break}{indent}"
        previous = node.value[number - 1]
        end = _end_of(previous[1] if key is not None else previous, self.text)
        if key is not None:
            end = max(end, previous[0].end_mark.index)
        at = self._line_range(max(end - 1, 0))[1]
        if at == len(self.text) and not self.text.endswith("\n"):
            return at, f"{self._line_break}{indent}{lines}"
        return at, f"{indent}{lines}{self._line_break}"

    def _flow_insertion(self, node: Any, number: int, entry: str) -> tuple[int, str]:
        """Position and text, with its comma, of a new entry of a collection in flow style."""
        ends = [
            _end_of(each[1], self.text) if isinstance(each, tuple) else _end_of(each, self.text) for each in node.value
        ]
        starts = [(each[0] if isinstance(each, tuple) else each).start_mark.index for each in node.value]
        neighbour = starts[min(number, len(starts) - 1)]
        left = self._line_range(neighbour)[0]
        below = not self.text[left:neighbour].strip() and left > node.start_mark.index  # it begins its own line
        if number < len(starts):
            return starts[number], f"{entry},{self._line_break}{self.text[left:neighbour]}" if below else f"{entry}, "
        if not below:
            return ends[-1], f", {entry}"
        comma = re.compile(r"\s*,").match(self.text, ends[-1])
        line = f"{self._line_break}{self.text[left:neighbour]}{entry}"
        return (comma.end(), f"{line},") if comma else (ends[-1], f",{line}")

    def _insert_first(self, path: Path, key: str | None, value: Any, added: Any, *, block: bool) -> Self:
        """Insert into an empty collection, or in place of an empty value."""
        node = self.node(path)
        expected = _with_data_at(tagged_data(self.root), path, {"list" if key is None else "map": [added]})
        start, end = node.start_mark.index, _end_of(node, self.text)
        if self.is_flow(path[:-1]) or not path:
            entry = _entry_text(key, value, flow=True)
            text = f"[{entry}]" if key is None else f"{{{entry}}}"
            return self._splice(start, end, text if start < end else f" {text}", expected)
        above = self.node(path[:-1])
        column = above.start_mark.column + 2
        lines = _block_entry_text(key, value, " " * column, self._line_break, block=block)
        begin = self._value_start(path)
        if self.text[begin:start].strip():
            begin = start
        rest = self.text[end : self._line_range(max(end - 1, 0))[1]]
        kept = rest.rstrip()  # a comment
        return self._splice(begin, end + len(kept), f"{kept}{self._line_break}{' ' * column}{lines}", expected)

    def _column_of(self, index: int) -> int:
        """Column of a character, from 0."""
        return index - self._line_range(index)[0]

    @property
    def _line_break(self) -> str:
        """Line break that the text uses."""
        return "\r\n" if "\r\n" in self.text else "\n"

    # -- the check -----------------------------------------------------------------------------------------------

    def _splice_value(self, start: int, end: int, text: str, path: Path, value: Any) -> Self:
        """Replace characters by the text of a value, and check that the value at the path is the only change."""
        item = tagged_data(compose(flow_text(value))) if value != "" else _string_data("")
        return self._splice(start, end, text, _with_data_at(tagged_data(self.root), path, item))

    def _splice(self, start: int, end: int, text: str, expected: Any) -> Self:
        """Replace the characters from ``start`` to ``end``, and check that the result holds the expected data."""
        changed = self.text[:start] + text + self.text[end:]
        try:
            made = type(self)(changed)
        except yaml.YAMLError:
            made = None
        if made is None or _empty_values_as_none(tagged_data(made.root)) != _empty_values_as_none(expected):
            line = self.text.count("\n", 0, start) + 1
            shown = self.text[start:end].strip() or text.strip()
            expected_text = f"YAML at line {line} that can be changed in place; write it in another way"
            raise WrongValue(" ".join(shown.split())[:60], expected_text)
        return made


def _empty_values_as_none(data: Any) -> Any:
    """Data in which each empty value is None, as YAML has several texts for it (``null``, ``~`` and nothing)."""
    if isinstance(data, dict):
        return {kind: [_empty_values_as_none(each) for each in entries] for kind, entries in data.items()}
    if isinstance(data, list):
        return [_empty_values_as_none(each) for each in data]
    return None if data is not None and data[0] == "tag:yaml.org,2002:null" else data


def _data_at(data: Any, path: Path) -> Any:
    """Data at a path in tagged data."""
    for number in path:
        data = data["map"][number][1] if "map" in data else data["list"][number]
    return data


def _with_data_at(data: Any, path: Path, value: Any) -> Any:
    """Replace the data at a path, and return the data of the root."""
    if not path:
        return value
    above = _data_at(data, path[:-1])
    if "map" in above:
        above["map"][path[-1]][1] = value
    else:
        above["list"][path[-1]] = value
    return data


def _end_of(node: Any, text: str) -> int:
    """Position after the last character of a node: the parser's own mark of a block is after the comments below it."""
    if isinstance(node, yaml.ScalarNode):
        end: int = node.end_mark.index
        if node.style in ("|", ">"):
            end = node.start_mark.index + len(text[node.start_mark.index : end].rstrip())
        return end
    if node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    if isinstance(node, yaml.SequenceNode):
        return _end_of(last, text)
    key: int = last[0].end_mark.index
    return max(key, _end_of(last[1], text))


def _reads_as(raw: str, value: Any, *, flow: bool) -> bool:
    """Whether a text on one line, at the place where it will be written, is read as the value."""
    if "\n" in raw or raw != raw.strip() or not raw:
        return False
    try:
        read = compose(f"{{k: {raw}}}" if flow else f"k: {raw}")
    except yaml.YAMLError:
        return False
    wanted = _string_data(value) if isinstance(value, str) else tagged_data(compose(flow_text(value)))
    return bool(tagged_data(read) == {"map": [[_string_data("k"), wanted]]})


def _entry_text(key: str | None, value: Any, *, flow: bool) -> str:
    """Text of an entry on one line."""
    text = written_value(value, flow=flow)
    return text if key is None else f"{_scalar_text(key, flow=flow)}: {text}"


def _block_entry_text(key: str | None, value: Any, indent: str, newline: str, *, block: bool) -> str:
    """Text of an entry in block style; its first line has no indentation, as it is written at its column."""
    entry = _entry_text(key, value, flow=False)
    if not isinstance(value, Mapping) or not value or not (block or len(indent) + len(entry) > _LONGEST_LINE):
        return entry if key is not None else f"- {entry}"
    inner = [_entry_text(name, each, flow=False) for name, each in value.items()]
    if key is None:
        return "- " + f"{newline}{indent}  ".join(inner)
    return f"{_scalar_text(key, flow=False)}:" + "".join(f"{newline}{indent}  {line}" for line in inner)
