"""The applications of a cluster, live or simulated: their states, and the choice of one by id or by plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from synergy_nb.events.application_states import LASTING
from synergy_nb.plan import Plan
from synergy_nb.plan.terms.units import did_you_mean
from synergy_nb.reporting.cluster_errors import ClusterError
from synergy_nb.reporting.formatting import seconds, share
from synergy_nb.reporting.tables import as_html, as_text

__all__ = ["Applications", "Identified", "ListedApplication", "UnknownApplication", "chosen_id"]

T = TypeVar("T")
HEADING = ("application", "state", "delay", "tuples", "peers", "stop with")
ENDED_SHOWN = 10  # maximum number of ended applications that a table shows: the latest ones
LONGEST = 60  # maximum number of characters of a reason in a table


class UnknownApplication(ClusterError, KeyError):
    """No application has this id; the message lists the existing ids."""

    __str__ = Exception.__str__


class Identified(Protocol):
    """A handle of an application."""

    @property
    def id(self) -> str:
        """Id of the application."""


class ListedApplication(msgspec.Struct, frozen=True):
    """An application in the list of a cluster, as it was when the list was made."""

    plan: Plan  # submitted plan
    # status, reason: status of the application, and why it failed or was stopped, in words
    status: str
    reason: str
    qos: Mapping[str, Mapping[str, Any]]  # operator id of each sink to its measurements
    peers: frozenset[str]  # names of the peers that execute it


class Applications(Mapping[str, T], Generic[T]):
    """Id to application, at the time of the request: running ones first, then ended ones.

    Parameters
    ----------
    entries
        Id of each application to its state, for the table.
    handles
        Id of each application to the handle that this mapping returns.
    owner
        Name of the variable by which the table stops an application.
    """

    def __init__(
        self, entries: Mapping[str, ListedApplication], handles: Mapping[str, T], owner: str = "cluster"
    ) -> None:
        running = [name for name, entry in entries.items() if entry.status in LASTING]
        ended = [name for name in entries if name not in set(running)]
        self._entries = {name: entries[name] for name in (*running, *ended)}
        self._handles = handles
        self._ended = ended
        self._owner = owner

    def __getitem__(self, application: str) -> T:
        try:
            return self._handles[chosen_id(application, self._entries, ended=True)]
        except UnknownApplication:
            raise
        except ClusterError as error:  # several run: a mapping has no such key
            raise UnknownApplication(str(error)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def _caption(self) -> str:
        running = len(self._entries) - len(self._ended)
        hidden = max(len(self._ended) - ENDED_SHOWN, 0)
        rest = f" ({hidden} of them not shown)" if hidden else ""
        return f"Applications: {running} running, {len(self._ended)} ended{rest}"

    def _rows(self) -> list[Sequence[str]]:
        hidden = set(self._ended[:-ENDED_SHOWN])
        return [_row(name, entry, self._owner) for name, entry in self._entries.items() if name not in hidden]

    def __repr__(self) -> str:
        return as_text(self._caption, HEADING, self._rows()) if self._entries else self._caption

    def _repr_html_(self) -> str:
        return as_html(self._caption, HEADING, self._rows())


def chosen_id(named: str, entries: Mapping[str, ListedApplication], *, ended: bool = False) -> str:
    """Return the id that ``named`` stands for: the id itself, or the name of the plan of exactly one that runs.

    ``entries``: applications in the order of submission; ``ended``: whether the name may stand for the last one that
    has ended, if none runs.

    Raises ClusterError if there is none, or several applications have that plan; the message names them.
    """
    if named in entries:
        return named
    alike = {name: entry.status for name, entry in entries.items() if entry.plan.name == named}
    running = [name for name, status in alike.items() if status in LASTING]
    if len(running) == 1:
        return running[0]
    if running:
        raise ClusterError(f"application: {named!r} is the plan of {', '.join(running)}; expected one of these ids")
    if alike and ended:
        return list(alike)[-1]
    if alike:
        ends = ", ".join(f"{name} ({status})" for name, status in alike.items())
        raise ClusterError(f"application: {named!r} has ended already: {ends}; expected one that runs")
    raise UnknownApplication(_unknown(named, entries))


def _unknown(named: Any, entries: Mapping[str, ListedApplication]) -> str:
    running = [name for name, entry in entries.items() if entry.status in LASTING]
    plans = {entry.plan.name for entry in entries.values()}
    at_work = {entries[name].plan.name for name in running}
    hint = did_you_mean(named, (*running, *at_work)) or did_you_mean(named, (*entries, *plans))
    if not running:
        return f"application: {named!r}; expected one that runs, and none does{hint}"
    return f"application: {named!r}; expected the id or the plan's name of one that runs: {', '.join(running)}{hint}"


def _row(name: str, entry: ListedApplication, owner: str) -> Sequence[str]:
    reason = entry.reason
    short = reason if len(reason) <= LONGEST else reason[: LONGEST - 1] + "…"
    return (
        name,
        f"{entry.status}: {short}" if short else entry.status,
        _delay(entry),
        ", ".join(f"{record['tuples']:,}" for record in entry.qos.values()) or "-",
        ", ".join(sorted(entry.peers)) or "-",
        f'{owner}.stop("{name}")' if entry.status in LASTING else "-",
    )


def _delay(entry: ListedApplication) -> str:
    """Return the delay that 99 of 100 tuples meet, at the sink where it is longest, and the limit."""
    limit = entry.plan.qos.delay
    limit_text = "no limit" if limit is None else f"limit {seconds(limit)}"
    measured = [record for record in entry.qos.values() if record["delay_p99_s"] is not None]
    if not measured:
        return f"not measured yet, {limit_text}" if entry.status in LASTING else f"-, {limit_text}"
    worst = max(measured, key=lambda record: float(record["delay_p99_s"]))
    missed = worst["miss_rate"]
    late = f", {share(missed)} missed" if missed else ""
    return f"p99 {seconds(worst['delay_p99_s'])}, {limit_text}{late}"
