"""The applications of a cluster: their states, and the choice of one by its id or the name of its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from synergy_nb.events.application_states import LASTING
from synergy_nb.plan.units import did_you_mean
from synergy_nb.reporting.formatting import seconds, share
from synergy_nb.reporting.tables import as_html, as_text
from synergy_nb.runtime.client.async_application import AsyncApplication
from synergy_nb.runtime.process.requests import ApplicationState, ClusterError

__all__ = ["Applications", "Identified", "ListedApplication", "UnknownApplication", "chosen_id"]

T = TypeVar("T")
HEADING = ("application", "state", "delay", "tuples", "peers", "stop with")
ENDED_SHOWN = 10  # ended applications that a table shows, the latest ones
LONGEST = 60  # characters of a reason in a table


class UnknownApplication(ClusterError, KeyError):
    """No application has this id; the message lists the existing ids."""

    __str__ = Exception.__str__


class Identified(Protocol):
    """A handle of an application."""

    @property
    def id(self) -> str:
        """Id of the application."""


class ListedApplication(msgspec.Struct, frozen=True):
    """An application in the list of a cluster: its handle, and its state when the list was made."""

    handle: AsyncApplication
    state: ApplicationState


class Applications(Mapping[str, T], Generic[T]):
    """Id to application, at the time of the request: running ones first, then ended ones.

    Parameters
    ----------
    entries
        Id of each application to its handle and state, for the table.
    handles
        Id of each application to the handle that this mapping returns.
    """

    def __init__(self, entries: Mapping[str, ListedApplication], handles: Mapping[str, T]) -> None:
        running = [name for name, entry in entries.items() if entry.state.status in LASTING]
        ended = [name for name in entries if name not in set(running)]
        self._entries = {name: entries[name] for name in (*running, *ended)}
        self._handles = handles
        self._ended = ended

    def __getitem__(self, application: str) -> T:
        try:
            return self._handles[chosen_id(application, self._entries)]
        except UnknownApplication:
            raise
        except ClusterError as error:  # several run, or all have ended: a mapping has no such key
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
        return [_row(name, entry) for name, entry in self._entries.items() if name not in hidden]

    def __repr__(self) -> str:
        return as_text(self._caption, HEADING, self._rows()) if self._entries else self._caption

    def _repr_html_(self) -> str:
        return as_html(self._caption, HEADING, self._rows())


def chosen_id(named: str, entries: Mapping[str, ListedApplication]) -> str:
    """Return the id that ``named`` stands for: the id itself, or the name of the plan of exactly one that runs.

    Raises
    ------
    ClusterError
        If there is none, or several applications have that plan; the message names them.
    """
    if named in entries:
        return named
    alike = {name: entry.state.status for name, entry in entries.items() if entry.handle.plan.name == named}
    running = [name for name, status in alike.items() if status in LASTING]
    if len(running) == 1:
        return running[0]
    if running:
        raise ClusterError(f"application: {named!r} is the plan of {', '.join(running)}; expected one of these ids")
    if alike:
        ends = ", ".join(f"{name} ({status})" for name, status in alike.items())
        raise ClusterError(f"application: {named!r} has ended already: {ends}; expected one that runs")
    raise UnknownApplication(_unknown(named, entries))


def _unknown(named: Any, entries: Mapping[str, ListedApplication]) -> str:
    running = [name for name, entry in entries.items() if entry.state.status in LASTING]
    plans = {entry.handle.plan.name for entry in entries.values()}
    at_work = {entries[name].handle.plan.name for name in running}
    hint = did_you_mean(named, (*running, *at_work)) or did_you_mean(named, (*entries, *plans))
    if not running:
        return f"application: {named!r}; expected one that runs, and none does{hint}"
    return f"application: {named!r}; expected the id or the plan's name of one that runs: {', '.join(running)}{hint}"


def _row(name: str, entry: ListedApplication) -> Sequence[str]:
    state, handle = entry.state, entry.handle
    reason = handle.cluster.readable(state.reason)
    short = reason if len(reason) <= LONGEST else reason[: LONGEST - 1] + "…"
    return (
        name,
        f"{state.status}: {short}" if short else state.status,
        _delay(handle.plan.qos.delay, state),
        ", ".join(f"{record['tuples']:,}" for record in state.qos.values()) or "-",
        ", ".join(sorted({handle.cluster.name(address) for address in state.roles.peers.values()})) or "-",
        f'cluster.stop("{name}")' if state.status in LASTING else "-",
    )


def _delay(limit: float | None, state: ApplicationState) -> str:
    """Return the delay that 99 of 100 tuples meet, at the sink where it is longest, and the limit."""
    limit_text = "no limit" if limit is None else f"limit {seconds(limit)}"
    measured = [record for record in state.qos.values() if record["delay_p99_s"] is not None]
    if not measured:
        return f"not measured yet, {limit_text}" if state.status in LASTING else f"-, {limit_text}"
    worst = max(measured, key=lambda record: float(record["delay_p99_s"]))
    missed = worst["miss_rate"]
    late = f", {share(missed)} missed" if missed else ""
    return f"p99 {seconds(worst['delay_p99_s'])}, {limit_text}{late}"
