"""Checks of a submission against its cluster: names of peers, files, Spark, rows of sources."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from synergy_nb.lifecycle.requests.origins import POLICIES
from synergy_nb.plan import Plan
from synergy_nb.plan.tables.lookup_tables import changed
from synergy_nb.plan.terms.units import counted, did_you_mean, type_of
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.traces.text_files import kind_of

__all__ = ["check_detached", "check_submission", "known_peers_phrase", "unknown_peers"]


def unknown_peers(plan: Any, origin: str | None, names: Mapping[str, str]) -> bool:
    """Whether a submission names peers that a cluster does not have; ``names`` maps peer address to name."""
    if not isinstance(plan, Plan):
        return False
    wanted = {operator.at for operator in plan.operators.values()} - {None}
    wanted |= {origin} - {None, *POLICIES}
    return not wanted <= {*names, *names.values()}


def known_peers_phrase(living: Iterable[str]) -> str:
    """Return words for the peers that a name may refer to.

    >>> known_peers_phrase(["peer-1", "peer-2"]), known_peers_phrase([])
    ('a peer that lives: peer-1, peer-2', 'a peer that lives, and none does')
    """
    named = ", ".join(living)
    return f"a peer that lives: {named}" if named else "a peer that lives, and none does"


def check_submission(
    plan: Plan,
    # name of the peer that becomes its origin, or the rule by which one is chosen; None: the default rule
    origin: str | None,
    feeds: Mapping[str, Any],  # rows of sources, by operator id or name
    names: Mapping[str, str],  # peer address to name
    living: Iterable[str],  # names of the peers that answer
    no_spark: str,  # reason why the cluster has no Spark; empty if it has
    *,
    local: bool,  # whether all peers run on this machine and see its files
) -> tuple[str | None, dict[str, Any]]:
    """Check a submission and raise one error for all that the cluster lacks, before anything is started.

    Returns: origin to use (what was given, or else the peer to which the first sink is bound that is bound to one), and
    the rows of each fed source by operator id.

    Raises ``ClusterError`` if the cluster lacks anything; the message names all of it.
    """
    if not isinstance(plan, Plan):
        raise ClusterError(_no_plan(plan))
    wrong: list[str] = []
    known = set(names.values())
    if origin is not None and origin not in known and origin not in POLICIES:
        hint = did_you_mean(origin, POLICIES)
        wrong.append(f"origin: {origin!r}; expected {', '.join(POLICIES)}, or {known_peers_phrase(living)}{hint}")
    bound = origin if origin in known else None
    for operator, stated in plan.operators.items():
        pinned = None if stated.at is None else names.get(stated.at, stated.at)
        if pinned is not None and pinned not in known:
            wrong.append(f"operator {operator!r}: at: {pinned!r}; expected {known_peers_phrase(living)}")
        elif pinned is not None and stated.kind == "sink" and origin is None:
            bound = bound or pinned
        if stated.engine == "spark" and no_spark:
            wrong.append(f"operator {operator!r}: engine: 'spark'; this cluster has no Spark: {no_spark}")
        path = stated.params.get("path")
        if local and path is not None and (fault := _wrong_path(Path(path), stated.params.get("connector"))):
            wrong.append(f"operator {operator!r}: path: {path!r}{fault}")
        table = stated.params.get("table")
        if (
            isinstance(table, Mapping)
            and (local or Path(table.get("path", "")).is_file())
            and (fault := changed(table))
        ):
            wrong.append(f"operator {operator!r}: table: {fault}")
    feeding = _feeding(plan, feeds, wrong)
    if wrong:
        heading = [f"the submission has {counted(len(wrong), 'problem')}:"] if len(wrong) > 1 else []
        raise ClusterError("\n  - ".join([*heading, *wrong]))
    return bound or origin, feeding


def check_detached(fed: Collection[str], *, started_here: bool) -> None:
    """Refuse to detach an application from a client without which it cannot go on.

    ``fed``: sources whose rows come from the client; ``started_here``: whether the client has started the peers, which
    end with it.

    Raises ``ClusterError``: saying what ends with the client.
    """
    if started_here:
        raise ClusterError(
            "detach: True; expected False, as the peers were started here and end with this cluster: an application "
            "goes on without its client on peers that run elsewhere, such as those of `synergy up`"
        )
    if fed:
        raise ClusterError(f"detach: True; expected False, as this program gives the rows of {', '.join(sorted(fed))}")


def _feeding(plan: Plan, feeds: Mapping[str, Any], wrong: list[str]) -> dict[str, Any]:
    """Return the rows of each fed source by operator id; append errors to ``wrong``."""
    feeding: dict[str, Any] = {}
    named = {
        plan.operators[each].params["name"]: each
        for each in plan.sources
        if plan.operators[each].params["connector"] == "python"
    }
    for name, operator in named.items():
        given = next((rows[key] for rows in (feeds, plan.rows) for key in (operator, name) if key in rows), None)
        if given is None:
            wrong.append(f"operator {operator!r}: feeds has no {name!r}; expected rows for this source")
        else:
            feeding[operator] = given
    known = {*named, *named.values()}
    for name in feeds:
        if name not in known:
            wanted = ", ".join(sorted(known)) or "none: the plan has no python source"
            wrong.append(f"feeds: {name!r} is no source of the plan; expected {wanted}")
    return feeding


def _no_plan(given: Any) -> str:
    file = "; Plan.from_yaml(text) reads the text of a plan's file" if isinstance(given, str | Path) else ""
    return f"plan: {type_of(given)}; expected a Plan, which .sink() at the end of a stream returns{file}"


def _wrong_path(path: Path, connector: str | None) -> str:
    """What is wrong with a path on this machine, and what is expected; empty if nothing is."""
    waits = connector in ("directory", "tail")  # what is not there yet may come, in a folder that is
    if waits and not path.parent.is_dir():
        return "; expected one in a folder that is there"
    if connector == "directory" and path.is_dir():
        return f": a directory; expected a pattern of the names of its files, too, such as {str(path / '*.csv')!r}"
    if connector == "directory" or (waits and not path.exists()):
        return ""
    if not path.exists():
        return f"; expected a file that is there{_near(path)}"
    kind = kind_of(path)
    return f": {kind}; expected a file" if kind else ""


def _near(missing: Path) -> str:
    """Say where a relative path was looked for, and which file there has a similar name."""
    looked = "" if missing.is_absolute() else f"; looked in {Path.cwd()}"
    return looked + did_you_mean(missing.name, [each.name for each in missing.absolute().parent.glob("*")])
