"""Which files and hosts a plan names, and whether the owner of a peer lets the plans of others use them.

Theory of operation
-------------------
A peer reads files with the rights of its owner. So for a plan of somebody else a path counts only if it is in a folder
that the owner has named. Both are resolved first: links, ``..`` and relative paths lead nowhere else. What is not a
plain path (a URL such as ``file:///etc/passwd`` or ``s3://...``, or a pattern such as ``*.csv``) is refused, whatever
reads it, and so is a query to a DuckDB file: SQL can read and write any file. A folder in which others may write
should not be named, as a link may be put there after the check.

The plans of others name no secrets, which a peer has from its owner. They write no files: a folder that is named is
one to read from, and who reads there would believe what they write. A host counts by its name as the plan states it.
Requests follow no redirections, so none leads to another host; what a name resolves to is the peer's affair.

The paths of a plan are found here, in one place: those of sources, of tables that are looked up, of the operators
within parts on Spark, and of the destinations of sinks. The file of a model is in the content of its function, so
:class:`~synergy_nb.runtime.data.function_processes.FunctionProcesses` asks here, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from synergy_nb.plan.checks.validation import Operator
from synergy_nb.plan.derived.named_secrets import secrets_of_plan
from synergy_nb.plan.derived.spark_parts import works_of
from synergy_nb.plan.operators.catalogue import KINDS, parameters_of
from synergy_nb.plan.operators.destinations import DESTINATION
from synergy_nb.plan.operators.parameter_types import ADDRESS, ADDRESSES, FILES, PATH, URL, WEBSOCKET, host_of
from synergy_nb.plan.operators.tables import TABLE
from synergy_nb.plan.query_plan import Plan

__all__ = ["NamedPath", "allowed", "paths_of", "refused_path", "refused_paths"]

_NOT_PLAIN: Final = re.compile(r"[*?\[\]\0]|^[A-Za-z][A-Za-z0-9+.-]+:")  # patterns and URLs (a drive has one letter)


class NamedPath(NamedTuple):
    """A file or a host that a plan names."""

    # operator, field: id of the operator, and the field of it
    operator: str
    field: str
    path: str
    query: bool = False  # whether the file is read by a query in SQL
    written: bool = False  # whether it is written
    host: str = ""  # host that is named in place of a file


def allowed(path: str | os.PathLike[str], folders: Sequence[str | os.PathLike[str]]) -> bool:
    """Whether a path leads into one of some folders.

    ``path``: path as a plan states it; ``folders``: folders that the owner of a peer has named.

    Examples
    --------
    >>> allowed("/srv/traces/../../etc/passwd", ["/srv/traces"]), allowed("file:///srv/traces/a", ["/srv/traces"])
    (False, False)
    >>> allowed("/srv/traces/a.csv", ["/srv/traces"]), allowed("/srv/traces/a.csv", [])
    (True, False)
    """
    text = os.fspath(path)
    if _NOT_PLAIN.search(text):
        return False
    try:
        real = Path(text).resolve()
        return any(real.is_relative_to(Path(folder).resolve()) for folder in folders)
    except (OSError, RuntimeError, ValueError):  # links in a circle, say
        return False


def refused_path(field: str, path: str, folders: Sequence[str | os.PathLike[str]]) -> str:
    """Say why a plan of somebody else may not read a file; empty if it may.

    ``field``: field that names the file; ``path``, ``folders``: as for :func:`allowed`.

    >>> refused_path("path", "/etc/passwd", [])
    "path: '/etc/passwd'; expected no file: this peer lets the plans of others read none"
    """
    if allowed(path, folders):
        return ""
    named = ", ".join(str(folder) for folder in folders)
    none = "no file: this peer lets the plans of others read none"
    expected = f"a file in {named}, by its plain path" if named else none
    return f"{field}: {path!r}; expected {expected}"


def refused_paths(
    plan: Plan, folders: Sequence[str | os.PathLike[str]], only: str | None = None, hosts: Sequence[str] = ()
) -> str:
    """Say which file or host a plan of somebody else may not use; empty if it may use all that it names.

    ``folders``, ``hosts``: folders and hosts that the owner of the peer has named; ``only``: operator whose files and
    hosts count; None: those of all.
    """
    for name, secret in secrets_of_plan(plan):
        if only in (None, name):
            return (
                f"operator {name!r}: {secret.field}: secret {secret.name!r}; expected none in a plan of somebody else: "
                "a peer has the secrets of its owner"
            )
    for named in paths_of(plan, only):
        if named.written:
            return (
                f"operator {named.operator!r}: {named.field}: {named.path!r}; expected no destination in a plan of "
                "somebody else, which writes no files"
            )
        if named.host:
            if named.host not in {each.lower() for each in hosts}:
                expected = f"one of the hosts {', '.join(hosts)}" if hosts else "no host: none was named for guests"
                return f"operator {named.operator!r}: {named.field}: {named.path!r}; expected {expected}"
            continue
        said = (
            f"{named.field}.query; expected none in a plan of somebody else, as SQL can read any file"
            if named.query
            else refused_path(named.field, named.path, folders)
        )
        if said:
            return f"operator {named.operator!r}: {said}"
    return ""


def paths_of(plan: Plan, only: str | None = None) -> Iterator[NamedPath]:
    """Yield the files and hosts that a plan names, or that one operator of it names."""
    for name, operator in plan.operators.items():
        if only in (None, name):
            yield from _paths(operator)


def _paths(operator: Operator) -> Iterator[NamedPath]:
    for owner, kind, params in works_of(operator):
        for name, parameter in parameters_of(kind, params).items() if kind in KINDS else ():
            value = params.get(name)
            if parameter.type is PATH and value is not None:
                yield NamedPath(owner, name, str(value), "query" in params and kind == "source")
            elif parameter.type is ADDRESS and value is not None and "query" in params:
                yield NamedPath(owner, name, str(value), query=True)
            elif parameter.type in (ADDRESS, URL, WEBSOCKET) and value is not None:
                yield NamedPath(owner, name, str(value), host=host_of(str(value)))
            elif parameter.type is ADDRESSES and value is not None:
                yield from (NamedPath(owner, name, each, host=host_of(each)) for each in value)
            elif parameter.type is FILES and value is not None:  # the pattern is of names in the folder only
                yield NamedPath(owner, name, str(Path(value).parent))
            elif parameter.type is TABLE and isinstance(value, Mapping) and "path" in value:
                yield NamedPath(owner, name, str(value["path"]), "query" in value)
            elif parameter.type is DESTINATION and isinstance(value, Mapping):
                place = next(
                    (value[each] for each in ("path", "topic", "url", "table") if each in value), value["format"]
                )
                yield NamedPath(owner, name, str(place), written=True)
