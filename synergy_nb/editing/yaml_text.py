"""YAML text that is edited in place: a change replaces the characters of one value, and no others.

The parser of plan files marks where each node begins and ends. A change is a splice at these marks, so comments, the
order of fields, quotes and blank lines stay as they are. Every change is checked: the new text is parsed again, and
must hold exactly the changed data; otherwise the change is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Self

import yaml

from synergy_nb.plan.plan_file import compose, dump
from synergy_nb.plan.units import WrongValue

__all__ = ["Path", "YamlText", "flow_text", "plain", "read_value", "yaml_data"]

#: Way from the root to a node: the number of the entry in each mapping or sequence.
Path = tuple[int, ...]

_TEXT: Final = "tag:yaml.org,2002:str"
_WIDEST: Final = 110  # characters of an entry on one line


@lru_cache(maxsize=8)
def composed(text: str) -> yaml.Node | None:
    """Nodes of a text, which nobody changes: a text is parsed once for a change, its check and its analysis."""
    return compose(text)


def plain(node: yaml.Node | None) -> Any:
    """Data of a node: scalars with tag and text, pairs of a mapping in their order, items of a sequence.

    >>> plain(compose("a: 1"))
    {'map': [[('tag:yaml.org,2002:str', 'a'), ('tag:yaml.org,2002:int', '1')]]}
    """
    if isinstance(node, yaml.MappingNode):
        return {"map": [[plain(key), plain(value)] for key, value in node.value]}
    if isinstance(node, yaml.SequenceNode):
        return {"list": [plain(item) for item in node.value]}
    return None if node is None else (node.tag, node.value)


def flow_text(value: Any) -> str:
    """Write a value as YAML on one line, which can stand within a flow mapping.

    >>> flow_text("link = 'B'"), flow_text(["a, b", "c"]), flow_text({"n": "count(*)"}), flow_text("5")
    ("link = 'B'", "['a, b', c]", '{n: count(*)}', "'5'")
    """
    if isinstance(value, str):
        return _text(value, flow=True)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(str(key), flow=True)}: {flow_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(flow_text, value))}]"
    return dump([value])[1:-1]


def _text(value: str, *, flow: bool) -> str:
    """Write a text as a scalar on one line, without quotes if it may stand without them."""
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
    if plain(read) != {"map": [[_string("k"), _string(value)]]} or read.value[0][1].style is not None:
        return quoted
    return value


def _string(text: str) -> tuple[str, str]:
    return _TEXT, text


def read_value(text: str) -> Any:
    """Read the YAML of one value; text that is none stands for itself, as a plain text with a comment does.

    >>> read_value("10 %"), read_value("[a, b]"), read_value("5"), read_value("'B' = link"), read_value("a # b")
    ('10 %', ['a', 'b'], 5, "'B' = link", 'a # b')
    """
    try:
        node: Any = compose(text)
        if node is None or (isinstance(node, yaml.ScalarNode) and node.style is None and node.value != text.strip()):
            return text
        if not isinstance(node, yaml.ScalarNode) and not node.flow_style:
            return text if "\n" not in text else yaml_data(node)
        return yaml_data(node)
    except (yaml.YAMLError, ValueError):
        return text


def yaml_data(node: yaml.Node) -> Any:
    """Values of a node, as the loader of plan files reads them."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): yaml_data(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [yaml_data(item) for item in node.value]
    if node.tag == _TEXT:
        return node.value
    return yaml.SafeLoader("").construct_object(node)


def written_value(value: Any, *, flow: bool, like: str | None = None) -> str:
    """Write a value on one line; a text has the quotes ``like`` (``'``, ``"`` or None) where that is possible."""
    if isinstance(value, str):
        if like == '"' and not re.search(r'["\\]', value) and value.isprintable():
            return f'"{value}"'
        if like == "'" and value.isprintable():
            return "'" + value.replace("'", "''") + "'"
        return _text(value, flow=flow)
    return flow_text(value)


class YamlText:
    """A YAML text and its nodes; changes return another one.

    Parameters
    ----------
    text
        The text.

    Raises
    ------
    yaml.YAMLError
        If the text is not one YAML document.

    Examples
    --------
    >>> text = YamlText("a: {x: 1}  # one\\nb: 'two'\\n")
    >>> print(text.insert((0,), 1, "y", 2).replace((1,), "three").text)
    a: {x: 1, y: 2}  # one
    b: 'three'
    <BLANKLINE>
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.root = composed(text)

    # -- reading -------------------------------------------------------------------------------------------------

    def node(self, path: Path) -> Any:
        """The node at a path."""
        node: Any = self.root
        for number in path:
            node = node.value[number][1] if isinstance(node, yaml.MappingNode) else node.value[number]
        return node

    def find(self, path: Path, key: str) -> int | None:
        """Number of the entry of a mapping with a key; None if there is none, or no mapping."""
        node = self.node(path)
        if not isinstance(node, yaml.MappingNode):
            return None
        return next((number for number, (each, _) in enumerate(node.value) if each.value == key), None)

    def is_flow(self, path: Path) -> bool:
        """Whether the node at a path is within a flow collection, or is one."""
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
        start, end = self._extent(path[:-1], path[-1])
        return self.text.count("\n", 0, start) + 1, self.text.count("\n", 0, end) + 1

    def source(self, path: Path) -> str:
        """The text of an entry: key and value of a mapping, or the item of a sequence."""
        start, end = self._extent(path[:-1], path[-1])
        return self.text[start:end]

    # -- changing ------------------------------------------------------------------------------------------------

    def replace(self, path: Path, value: Any, raw: str | None = None) -> Self:
        """Replace the value at a path.

        Parameters
        ----------
        path
            Path of the value.
        value
            New value.
        raw
            Text of the value on one line, if it has a spelling that should remain.
        """
        node = self.node(path)
        flow = self.is_flow(path[:-1])
        style = node.style if isinstance(node, yaml.ScalarNode) else None
        unquoted = isinstance(value, str) and style in ("'", '"') and raw is not None and raw[:1] not in ("'", '"')
        text = raw if raw is not None and not unquoted and _spells(raw, value, flow=flow) else None
        if text is None:
            text = written_value(value, flow=flow, like=style)
        start, end = node.start_mark.index, _end(node, self.text)
        if start == end:  # an empty value
            before = self.text[start - 1 : start]
            text = f" {text}" if before in (":", "-", "?") else f": {text}" if before != " " else text
        elif not isinstance(node, yaml.ScalarNode) and not node.flow_style and path:  # lines below their key
            begin = self._value_start(path)
            if not self.text[begin:start].strip():
                start, text = begin, f" {text}"
        return self._spliced(start, end, text, path, value)

    def rename(self, path: Path, number: int, key: str) -> Self:
        """Replace the key of an entry of the mapping at a path."""
        node = self.node(path).value[number][0]
        text = written_value(key, flow=self.is_flow(path), like=node.style)
        expected = plain(self.root)
        _at(expected, path)["map"][number][0] = _string(key)
        return self._checked(node.start_mark.index, node.end_mark.index, text, expected)

    def remove(self, path: Path, number: int) -> Self:
        """Remove an entry of the mapping or sequence at a path; a comment on lines of its own stays."""
        expected = plain(self.root)
        entries = next(iter(_at(expected, path).values()))
        del entries[number]
        if not entries and not self.node(path).flow_style:  # a block without entries is an empty value
            expected = _put(expected, path, ("tag:yaml.org,2002:null", ""))
        start, end = self._removed(path, number)
        return self._checked(start, end, "", expected)

    def insert(self, path: Path, number: int, key: str | None, value: Any, *, block: bool = False) -> Self:
        """Insert an entry into the mapping or sequence at a path.

        Parameters
        ----------
        path
            Path of the mapping or sequence.
        number
            Number that the entry gets.
        key
            Key of the entry; None in a sequence.
        value
            Value of the entry.
        block
            Whether a mapping as value is written in several lines, where that is possible.
        """
        node = self.node(path)
        expected = plain(self.root)
        item = plain(compose(flow_text(value))) if value != "" else _string("")
        added = item if key is None else [_string(key), item]
        if isinstance(node, yaml.ScalarNode) or not node.value:
            return self._insert_first(path, key, value, added, block=block)
        next(iter(_at(expected, path).values())).insert(number, added)
        if node.flow_style:
            at, text = self._flow_place(node, number, _entry(key, value, flow=True))
        else:
            at, text = self._block_place(node, number, key, value, block=block)
        return self._checked(at, at, text, expected)

    # -- places --------------------------------------------------------------------------------------------------

    def _extent(self, path: Path, number: int) -> tuple[int, int]:
        """First and one past the last character of an entry."""
        node = self.node(path)
        if isinstance(node, yaml.MappingNode):
            key, value = node.value[number]
            return key.start_mark.index, max(key.end_mark.index, _end(value, self.text))
        item = node.value[number]
        return item.start_mark.index, _end(item, self.text)

    def _value_start(self, path: Path) -> int:
        """One past the colon or dash before a value in block style."""
        node = self.node(path[:-1])
        if isinstance(node, yaml.MappingNode):
            key = node.value[path[-1]][0]
            return self.text.index(":", key.end_mark.index) + 1
        return self._dash(node.value[path[-1]]) + 1

    def _dash(self, item: Any) -> int:
        return self.text.rindex("-", 0, item.start_mark.index + (item.start_mark.index == _end(item, self.text)))

    def _line(self, index: int) -> tuple[int, int]:
        """Begin and end of the line with a character, with its line break."""
        end = self.text.find("\n", index)
        return self.text.rfind("\n", 0, index) + 1, len(self.text) if end < 0 else end + 1

    def _removed(self, path: Path, number: int) -> tuple[int, int]:
        node = self.node(path)
        start, end = self._extent(path, number)
        last = number == len(node.value) - 1
        following = None if last else self._extent(path, number + 1)[0]
        comma = re.compile(r"[ \t]*,").match(self.text, end) if node.flow_style else None
        begin = self._dash(node.value[number]) if isinstance(node, yaml.SequenceNode) and not node.flow_style else start
        left, right = self._line(begin)[0], self._line(max(end - 1, begin))[1]
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
        if number and not re.search(r"[\n#]", before := self.text[self._extent(path, number - 1)[1] : start]):
            return start - len(before), end
        return start, comma.end() if comma else end

    def _block_place(self, node: Any, number: int, key: str | None, value: Any, *, block: bool) -> tuple[int, str]:
        column = node.start_mark.column if key is not None else self._column(self._dash(node.value[0]))
        indent = " " * column
        lines = _block_entry(key, value, indent, self._break, block=block)
        if number == 0:
            first = node.value[0][0] if key is not None else node.value[0]
            at = first.start_mark.index if key is not None else self._dash(node.value[0])
            return at, f"{lines}{self._break}{indent}"
        previous = node.value[number - 1]
        end = _end(previous[1] if key is not None else previous, self.text)
        if key is not None:
            end = max(end, previous[0].end_mark.index)
        at = self._line(max(end - 1, 0))[1]
        if at == len(self.text) and not self.text.endswith("\n"):
            return at, f"{self._break}{indent}{lines}"
        return at, f"{indent}{lines}{self._break}"

    def _flow_place(self, node: Any, number: int, entry: str) -> tuple[int, str]:
        ends = [_end(each[1], self.text) if isinstance(each, tuple) else _end(each, self.text) for each in node.value]
        starts = [(each[0] if isinstance(each, tuple) else each).start_mark.index for each in node.value]
        neighbour = starts[min(number, len(starts) - 1)]
        left = self._line(neighbour)[0]
        below = not self.text[left:neighbour].strip() and left > node.start_mark.index  # it begins its own line
        if number < len(starts):
            return starts[number], f"{entry},{self._break}{self.text[left:neighbour]}" if below else f"{entry}, "
        if not below:
            return ends[-1], f", {entry}"
        comma = re.compile(r"\s*,").match(self.text, ends[-1])
        line = f"{self._break}{self.text[left:neighbour]}{entry}"
        return (comma.end(), f"{line},") if comma else (ends[-1], f",{line}")

    def _insert_first(self, path: Path, key: str | None, value: Any, added: Any, *, block: bool) -> Self:
        """Insert into an empty collection, or in place of an empty value."""
        node = self.node(path)
        expected = _put(plain(self.root), path, {"list" if key is None else "map": [added]})
        start, end = node.start_mark.index, _end(node, self.text)
        if self.is_flow(path[:-1]) or not path:
            entry = _entry(key, value, flow=True)
            text = f"[{entry}]" if key is None else f"{{{entry}}}"
            return self._checked(start, end, text if start < end else f" {text}", expected)
        above = self.node(path[:-1])
        column = above.start_mark.column + 2
        lines = _block_entry(key, value, " " * column, self._break, block=block)
        begin = self._value_start(path)
        if self.text[begin:start].strip():
            begin = start
        rest = self.text[end : self._line(max(end - 1, 0))[1]]
        kept = rest.rstrip()  # a comment
        return self._checked(begin, end + len(kept), f"{kept}{self._break}{' ' * column}{lines}", expected)

    def _column(self, index: int) -> int:
        return index - self._line(index)[0]

    @property
    def _break(self) -> str:
        return "\r\n" if "\r\n" in self.text else "\n"

    # -- the check -----------------------------------------------------------------------------------------------

    def _spliced(self, start: int, end: int, text: str, path: Path, value: Any) -> Self:
        item = plain(compose(flow_text(value))) if value != "" else _string("")
        return self._checked(start, end, text, _put(plain(self.root), path, item))

    def _checked(self, start: int, end: int, text: str, expected: Any) -> Self:
        changed = self.text[:start] + text + self.text[end:]
        try:
            made = type(self)(changed)
        except yaml.YAMLError:
            made = None
        if made is None or _folded(plain(made.root)) != _folded(expected):
            line = self.text.count("\n", 0, start) + 1
            shown = self.text[start:end].strip() or text.strip()
            expected_text = f"YAML at line {line} that can be changed in place; write it in another way"
            raise WrongValue(" ".join(shown.split())[:60], expected_text)
        return made


def _folded(data: Any) -> Any:
    """Data with one spelling of an empty value."""
    if isinstance(data, dict):
        return {kind: [_folded(each) for each in entries] for kind, entries in data.items()}
    if isinstance(data, list):
        return [_folded(each) for each in data]
    return None if data is not None and data[0] == "tag:yaml.org,2002:null" else data


def _at(data: Any, path: Path) -> Any:
    for number in path:
        data = data["map"][number][1] if "map" in data else data["list"][number]
    return data


def _put(data: Any, path: Path, value: Any) -> Any:
    """Replace the data at a path, and return the data of the root."""
    if not path:
        return value
    above = _at(data, path[:-1])
    if "map" in above:
        above["map"][path[-1]][1] = value
    else:
        above["list"][path[-1]] = value
    return data


def _end(node: Any, text: str) -> int:
    """One past the last character of a node; its mark is behind the comments that follow a block."""
    if isinstance(node, yaml.ScalarNode):
        end: int = node.end_mark.index
        if node.style in ("|", ">"):
            end = node.start_mark.index + len(text[node.start_mark.index : end].rstrip())
        return end
    if node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    if isinstance(node, yaml.SequenceNode):
        return _end(last, text)
    key: int = last[0].end_mark.index
    return max(key, _end(last[1], text))


def _spells(raw: str, value: Any, *, flow: bool) -> bool:
    """Whether a text on one line reads as the value where it is to stand."""
    if "\n" in raw or raw != raw.strip() or not raw:
        return False
    try:
        read = compose(f"{{k: {raw}}}" if flow else f"k: {raw}")
    except yaml.YAMLError:
        return False
    wanted = _string(value) if isinstance(value, str) else plain(compose(flow_text(value)))
    return bool(plain(read) == {"map": [[_string("k"), wanted]]})


def _entry(key: str | None, value: Any, *, flow: bool) -> str:
    text = written_value(value, flow=flow)
    return text if key is None else f"{_text(key, flow=flow)}: {text}"


def _block_entry(key: str | None, value: Any, indent: str, newline: str, *, block: bool) -> str:
    """Text of an entry of a block collection, whose first line begins at its column."""
    entry = _entry(key, value, flow=False)
    if not isinstance(value, Mapping) or not value or not (block or len(indent) + len(entry) > _WIDEST):
        return entry if key is not None else f"- {entry}"
    inner = [_entry(name, each, flow=False) for name, each in value.items()]
    if key is None:
        return "- " + f"{newline}{indent}  ".join(inner)
    return f"{_text(key, flow=False)}:" + "".join(f"{newline}{indent}  {line}" for line in inner)
