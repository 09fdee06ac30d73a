"""Results of the demo for a terminal."""

from __future__ import annotations

import re

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from synergy_experiments.demo.job import WATCHED_SECONDS, DemoOutcome
from synergy_experiments.demo.page import busiest, verdicts
from synergy_nb.plan.terms.units import amount, counted
from synergy_nb.reporting.formatting import cell, rate, seconds, share, window

__all__ = ["printed"]

_MARKS = {"good": ("✓", "green"), "bad": ("✕", "red"), "note": ("!", "yellow")}


def printed(outcome: DemoOutcome, console: Console) -> None:
    """Print the peer of each operator and why, the top pairs, the measurements, and the comparison with DuckDB."""
    given, qos = outcome.given, outcome.qos
    kind = "real" if given.real else "generated"
    console.print()
    console.print(Text(f"Top-k traffic on {counted(outcome.peers, 'peer')}", style="bold"))
    console.print(
        Text(
            f"{given.name}: {amount(given.tuples)} {kind} tuples, {seconds(given.seconds)} of event time. The pairs of "
            f"{' and '.join(given.pair)} with more {given.unit} than 95 % of the pairs, in windows of 20 minutes.",
            style="dim",
        )
    )
    console.print()
    _placement(outcome, console)
    if outcome.watched is not None:
        _watched(outcome, console)
    _top(outcome, console)
    measures = Table.grid(padding=(0, 2))
    measures.add_column(style="bold", no_wrap=True)
    measures.add_column(overflow="fold")
    delay = f"p50 {seconds(qos.get('delay_p50_s'))}, p99 {seconds(qos.get('delay_p99_s'))}"
    measures.add_row("delay", f"{delay}; limit {seconds(qos.get('limit_s'))}, {share(qos.get('miss_rate'))} later")
    measures.add_row(
        "throughput", f"{rate(outcome.tuples_per_s)} from the input to the results ({seconds(outcome.fast_s)})"
    )
    measures.add_row(
        "set-up",
        f"{counted(outcome.peers, 'peer')} ready in {seconds(outcome.ready_s)}; composed and started in "
        f"{seconds(outcome.setup_s)}, the fast pass in {seconds(outcome.fast_setup_s)}",
    )
    if outcome.spark is not None:
        spark = outcome.spark
        measures.add_row(
            "on Spark",
            f"{', '.join(spark.operators)} by {spark.peer}: {rate(given.tuples / spark.seconds)} "
            f"({seconds(spark.seconds)}), after {seconds(spark.setup_s)} to start it",
        )
    console.print(measures)
    console.print()
    for sort, text in verdicts(outcome):
        mark, colour = _MARKS[sort]
        line = Table.grid(padding=(0, 1))
        line.add_column()
        line.add_column(overflow="fold")
        line.add_row(Text(mark, style=f"bold {colour}"), Text(text))
        console.print(line)


def _placement(outcome: DemoOutcome, console: Console) -> None:
    console.print(Text("Where each operator runs, and why", style="bold"))
    table = Table(box=None, pad_edge=False)
    table.add_column("operator", no_wrap=True)
    table.add_column("peer", no_wrap=True, style="cyan")
    table.add_column("why", style="dim", overflow="fold")
    for operator in outcome.plan.operators:
        table.add_row(operator, outcome.placement[operator], _shorter(outcome.explanation.why(operator)))
    console.print(table)
    console.print()


def _shorter(why: str) -> str:
    """A sentence without its list of peers, which the report has."""
    return re.sub(r"in the graph of (least \w+)[^;]*;", r"\1:", re.sub(r" \(peer-[^()]*\)", "", why))


def _top(outcome: DemoOutcome, console: Console) -> None:
    top = busiest(outcome.rows)
    if not top:
        console.print(Text("No pair stands out in any window.", style="dim"))
        return
    title = f"Top pairs of the busiest window, {window(top[0][0], top[0][1])}"
    console.print(Text(title, style="bold"))
    table = Table(box=None, pad_edge=False)
    table.add_column(outcome.given.pair[0], overflow="fold")
    table.add_column(outcome.given.pair[1], overflow="fold")
    table.add_column(outcome.given.unit, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, style="blue")
    most = top[0][4]
    for _, _, first, second, total in top[:10]:
        table.add_row(cell(first), cell(second), amount(total), "█" * max(round(20 * total / most), 1) if most else "")
    console.print(table)
    if len(top) > 10:
        console.print(Text(f"and {len(top) - 10} more", style="dim"))
    console.print()


def _watched(outcome: DemoOutcome, console: Console) -> None:
    assert outcome.watched is not None
    last = outcome.watched.filter(pl.col("window_start") == pl.col("window_start").max())
    console.print(Text("What the peers see of themselves, in the last second of the live stream", style="bold"))
    table = Table(box=None, pad_edge=False)
    for name in ("peer", "metric"):
        table.add_column(name, no_wrap=True)
    for name in ("samples", "mean", "largest"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in last.iter_rows(named=True):
        said = share if row["metric"] == "cpu" else seconds
        table.add_row(row["peer"], row["metric"], str(row["samples"]), said(row["mean"]), said(row["largest"]))
    console.print(table)
    console.print(Text(f"{counted(outcome.watched.height, 'row')} in {WATCHED_SECONDS:g} s", style="dim"))
    console.print()
