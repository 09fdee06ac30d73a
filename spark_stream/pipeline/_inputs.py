"""The raw files that a user names by paths, folders and patterns, and the layout that they have in common."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from synergy_nb.plan.terms.units import did_you_mean
from synergy_nb.traces.raw_files import RawLayout, raw_layout

_SIGNS: Final = frozenset("*?[")  # signs of patterns
_WIDER: Final = {("float", "int"): "float", ("date", "time"): "time"}


def raw_files(inputs: Iterable[str | Path], *, coming: bool = False) -> list[Path]:
    """All files that are named: each once, in the order of the arguments, and of their paths within a folder.

    Files and folders whose names begin with a point or a low line are left out of folders.

    ``coming``: whether a folder or pattern may hold no file yet. Raises ``ValueError`` if a path does not exist, or a
    folder or pattern holds no file.
    """
    found: dict[Path, None] = {}
    for given in inputs:
        path = Path(given)
        if path.is_dir():
            files = sorted(each for each in path.rglob("*") if each.is_file() and not _hidden(each.relative_to(path)))
            if not files and not coming:
                raise ValueError(f"{path}: a folder without files; expected raw traces in it")
        elif path.exists():
            files = [path]
        elif _SIGNS & set(str(given)):
            files = sorted(Path(each) for each in glob.glob(str(given), recursive=True) if Path(each).is_file())  # noqa: PTH207 - it is absolute or not
            if not files and not coming:
                raise ValueError(f"{given}: no file has such a path; expected a pattern of raw traces")
        else:
            hint = did_you_mean(path.name, [each.name for each in path.absolute().parent.glob("*")])
            raise ValueError(f"{path}: no such file or folder; expected a raw trace{hint}")
        found.update(dict.fromkeys(each.resolve() for each in files))
    if not found and not coming:
        raise ValueError("inputs: none; expected paths of raw traces, folders or patterns")
    return list(found)


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def common_layout(files: Sequence[Path], options: Mapping[str, Any]) -> RawLayout:
    """The layout of all files: of columns that one file has as integers and another as numbers, the wider type.

    ``options``: arguments of :func:`.raw_layout`. Raises ``ValueError`` if they differ in more than that.
    """
    first, *others = files
    layout = raw_layout(first, **options)
    for path in others:
        found = raw_layout(path, **options)
        if found.format != layout.format:
            raise ValueError(
                f"{path}: format {found.format!r}, but {first} has {layout.format!r}; expected files of one format"
            )
        if options.get("columns") is None and found.columns != layout.columns:
            layout = _widened(layout, found, first, path)
    return layout


def check_fits(path: Path, layout: RawLayout, first: Path, options: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if a raw file does not have the layout of those that are prepared, of which one is named.

    ``options``: arguments of :func:`.raw_layout`.
    """
    found = raw_layout(path, **options)
    if found.format != layout.format:
        raise ValueError(
            f"{path}: format {found.format!r}, but {first} has {layout.format!r}; expected files of one format"
        )
    if options.get("columns") is not None:
        return
    wider = _widened(layout, found, first, path)
    for name, kind in wider.columns.items():
        if (known := layout.columns.get(name)) != kind:
            has = "none" if known is None else f"type {known}"
            raise ValueError(
                f"{path}: column {name!r}: type {found.columns[name]}, but the data that is prepared has {has}; "
                "expected files with the same columns, or another folder"
            )


def _widened(layout: RawLayout, found: RawLayout, first: Path, path: Path) -> RawLayout:
    kinds = dict(layout.columns)
    if kinds.keys() != found.columns.keys() and layout.format != "jsonl":
        names = ", ".join(sorted(kinds.keys() ^ found.columns.keys())) or "in another order"
        raise ValueError(f"{path}: other columns than {first}: {names}; expected files with the same columns")
    for name, kind in found.columns.items():
        mine = kinds.get(name, kind)
        kinds[name] = kind if mine == kind else _WIDER.get((min(mine, kind), max(mine, kind)), "str")
    schema = {"time": "time", **{name: kind for name, kind in kinds.items() if name != layout.clock}}
    return msgspec.structs.replace(layout, columns=kinds, schema=schema)
