"""How notebooks and terminals show an application: its status, its quality of service, and the peers that run it."""

from __future__ import annotations

import html
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from synergy_nb.errors import harmless
from synergy_nb.plan import Plan, QoS
from synergy_nb.plan.terms.units import amount
from synergy_nb.reporting.formatting import rate, seconds

__all__ = ["application_rows", "rows_as_html", "rows_as_text"]


def application_rows(
    plan: Plan,
    status: str,
    reason: str,
    qos: Mapping[str, Mapping[str, Any]],
    graph: Mapping[str, str],
    backups: Mapping[str, Sequence[str]],
) -> Iterator[tuple[str, str]]:
    """Yield the rows that describe an application: what, and its value.

    ``plan``, ``status``, ``reason``: plan of the application, its status, and why it failed or was stopped; ``qos``:
    sink to its measurements, empty where none was made; ``graph``, ``backups``: operator to the name of its peer, and
    to the names of the peers of its backups.
    """
    yield "status", f"{status}: {reason}" if reason else status
    for sink, record in qos.items():
        dropped = ", ".join(f"{number:,} at {name}" for name, number in (record.get("dropped") or {}).items())
        if dropped:
            yield "dropped", f"{dropped}, as their deadline had passed"
        if record.get("delay_p50_s") is None:
            continue
        limit = "no limit" if record["limit_s"] is None else f"limit {seconds(record['limit_s'])}"
        middle, most = seconds(record["delay_p50_s"]), seconds(record["delay_p99_s"])
        yield f"delay at {sink}", f"p50 {middle}, p99 {most} ({limit})"
        yield f"tuples at {sink}", f"{amount(record['tuples'])}, {rate(record['tuples_per_s'])}"
        yield from _outcomes(plan.qos, record)
    yield "runs on", ", ".join(f"{name}@{peer}" for name, peer in graph.items()) or "-"
    if backups:
        copies = (f"{name}@{peer}" for name, peers in backups.items() for peer in peers)
        yield "backups", ", ".join(copies) or "none is left"


def rows_as_text(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """Write rows as text below a caption."""
    return harmless("\n".join([caption, *(f"  {name}: {text}" for name, text in rows)]))


def rows_as_html(caption: str, rows: Iterable[tuple[str, str]]) -> str:
    """Write rows as a table for a notebook."""
    shown = "".join(
        f"<tr><th style='text-align: left'>{html.escape(name)}</th>"
        f"<td style='text-align: left'>{html.escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table><caption>{html.escape(caption)}</caption>{shown}</table>"


def _outcomes(qos: QoS, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each requested limit with the measurement at a sink, and whether the limit is met."""
    rows: list[tuple[str, float | None, float | None, Callable[[float, float], bool]]] = [
        ("misses", qos.miss_rate, record["miss_rate"], operator.le),
        ("bytes/s", qos.throughput, record["bytes_per_s"], operator.ge),
        ("tuples/s", qos.throughput_tuples, record["tuples_per_s"], operator.ge),
    ]
    for name, limit, found, met in rows:
        if limit is not None and found is not None:
            yield name, f"{found:.4g}, limit {limit:.4g}: {'met' if met(found, limit) else 'missed'}"
