"""Results of the demo as one HTML page."""

from __future__ import annotations

from itertools import groupby

import duckdb

from synergy_experiments.demo._oracle import Row
from synergy_experiments.demo.job import DemoOutcome
from synergy_nb.plan.terms.units import amount, counted
from synergy_nb.reporting.formatting import seconds, share, window
from synergy_nb.widgets.report import Number, Table, Verdict, report

__all__ = ["busiest", "page", "verdicts"]


def busiest(rows: list[Row]) -> list[Row]:
    """The rows of the window with the most traffic among them."""
    windows = [list(group) for _, group in groupby(rows, key=lambda row: row[0])]
    return max(windows, key=lambda group: sum(row[4] for row in group), default=[])


def verdicts(outcome: DemoOutcome) -> list[Verdict]:
    """The results, in sentences."""
    found: list[Verdict] = []
    if outcome.check.equal:
        passes = "both passes" if outcome.spark is None else "all three passes, one with its windows on Spark,"
        text = f"All {amount(outcome.check.rows)} rows of {passes} equal DuckDB {duckdb.__version__}'s, row for row."
        found.append(Verdict("good", text))
    else:
        found.append(Verdict("bad", f"The rows do not equal DuckDB's: {outcome.check.difference}"))
    qos, wanted = outcome.qos, outcome.plan.qos
    missed, allowed = qos.get("miss_rate"), wanted.miss_rate
    if missed is not None and allowed is not None:
        kept = missed <= allowed
        text = (
            f"{share(missed)} of the results came later than {seconds(wanted.delay)} "
            f"({'within' if kept else 'above'} the {share(allowed)} asked for)."
        )
        found.append(Verdict("good" if kept else "bad", text))
    if outcome.killed is not None:
        killed = outcome.killed
        text = (
            f"{killed.peer} ({', '.join(killed.operators)}) was killed; {killed.application} was reported failed after "
            f"{seconds(killed.detected_s)} ({killed.reason}), and {killed.recomposed} was composed without it."
        )
        found.append(Verdict("good", text))
    if not outcome.given.real:
        found.append(Verdict("note", "The packets are generated: no real trace was named, or found on this machine."))
    return found


def page(outcome: DemoOutcome, version: str) -> str:
    """The page."""
    given, qos = outcome.given, outcome.qos
    first, second = given.pair
    top = busiest(outcome.rows)
    lead = (
        f"In windows of 20 minutes, the pairs of {first} and {second} with more {given.unit} than 95 % of the pairs, "
        f"over {amount(given.tuples)} {'' if given.real else 'generated '}tuples of {given.name} "
        f"({seconds(given.seconds)} of event time), composed and executed by {counted(outcome.peers, 'peer')}."
    )
    numbers = [
        Number("Delay, median", seconds(qos.get("delay_p50_s")), f"limit {seconds(qos.get('limit_s'))}"),
        Number("Delay, p99", seconds(qos.get("delay_p99_s")), f"limit {seconds(qos.get('limit_s'))}"),
        Number("Too late", share(qos.get("miss_rate")), f"at most {share(outcome.plan.qos.miss_rate)} asked for"),
        Number("Throughput", amount(round(outcome.tuples_per_s)), f"tuples/s: fast pass in {seconds(outcome.fast_s)}"),
        Number("Set up in", seconds(outcome.setup_s), f"composed; fast pass {seconds(outcome.fast_setup_s)}"),
        Number("Peers ready in", seconds(outcome.ready_s), f"{counted(outcome.peers, 'process')}, one ring"),
    ]
    if outcome.spark is not None:
        speed = amount(round(given.tuples / outcome.spark.seconds))
        numbers.append(Number("With windows on Spark", speed, f"tuples/s; started in {seconds(outcome.spark.setup_s)}"))
    tables = []
    if top:
        rows = [(f"{number}.", row[2], row[3], row[4]) for number, row in enumerate(top, start=1)]
        about = f"{window(top[0][0], top[0][1])}: the pairs above the 95th percentile, by {given.unit}."
        title = "Top pairs of the busiest window"
        tables.append(Table(title, ("", first, second, given.unit), rows, about, bar=given.unit))
    every = [(f"{row[0]:%Y-%m-%d %H:%M}", row[2], row[3], row[4]) for row in outcome.rows]
    said = "Paced pass, in the order of its sink; those of the fast pass and of DuckDB "
    said += "are the same." if outcome.check.equal else "differ."
    tables.append(Table("All rows", ("20 min from", first, second, given.unit), every, said))
    if outcome.watched is not None:
        watched = outcome.watched.select("window_start", "peer", "metric", "samples", "mean", "largest")
        values = [(f"{start:%H:%M:%S}", *rest) for start, *rest in watched.iter_rows()]
        about = (
            "A second application over the live stream of all peers: CPU as a share of the machine, ping times in "
            "seconds, by second."
        )
        columns = ("second", "peer", "metric", "samples", "mean", "largest")
        tables.append(Table("What the peers see of themselves", columns, values, about))
    return report(
        outcome.plan,
        outcome.explanation,
        outcome.events,
        title=f"Top-k traffic on {counted(outcome.peers, 'peer')}",
        lead=lead,
        verdicts=verdicts(outcome),
        numbers=numbers,
        tables=tables,
        data=outcome.to_dict(),
        footer=f"Written by synergy {version}; rows checked by DuckDB {duckdb.__version__}.",
    )
