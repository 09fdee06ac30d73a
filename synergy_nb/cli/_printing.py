"""Results of the command line for a terminal."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from synergy_nb import __version__
from synergy_nb.cli._console import fields, out
from synergy_nb.cli._doctor import Finding
from synergy_nb.cli._input_checks import print_json
from synergy_nb.cli._listeners import Listener
from synergy_nb.cli._run_command import RunOutcome
from synergy_nb.plan import Plan
from synergy_nb.plan.checks.replica_degrees import asks_for_active
from synergy_nb.plan.derived.replica_agreement import agreement_text, readings
from synergy_nb.plan.derived.replication_techniques import technique_sentences
from synergy_nb.plan.terms.units import amount, counted
from synergy_nb.plan.text import operator_texts
from synergy_nb.reporting.formatting import DISCIPLINE_NAMES, HOTSPOT_MODES, cell, rate, seconds, share, window
from synergy_nb.reporting.measurements import lacking_rows
from synergy_nb.traces import Info
from synergy_nb.traces.datasets import RECORD, DownloadedFile, FoundDataset
from synergy_nb.traces.times import readable
from synergy_nb.widgets import report as pages

WORST = 5  # maximum number of errors of peers that are shown
_MARKS = {"good": ("✓", "green"), "note": ("!", "yellow"), "bad": ("✕", "red")}


def _heading(text: str) -> None:
    out.print(Text(f"\n{text}", style="bold"))


# -- plans -------------------------------------------------------------------------------------------------------------


def plan_dict(plan: Plan) -> dict[str, Any]:
    """A plan as plain values."""
    return {
        "name": plan.name,
        "qos": {field: getattr(plan.qos, field) for field in plan.qos.__struct_fields__},
        "operators": {
            name: {
                "kind": operator.kind,
                "params": operator.params,
                "inputs": list(operator.inputs),
                "at": operator.at,
                "columns": plan.schema(name),
                "input_rate": plan.input_rate(name),
                "rate": plan.rate(name),
                "cores": plan.load(name),
                "bytes_per_s": plan.bandwidth(name),
                "stream": plan.stream_name(name),
                "key": plan.stream_key(name),
            }
            for name, operator in plan.operators.items()
        },
    }


def requirement(plan: Plan) -> str:
    """The QoS requirement in words."""
    qos = plan.qos
    parts = [
        f"delay {seconds(qos.delay)}" if qos.delay is not None else "",
        f"at most {share(qos.miss_rate)} later" if qos.miss_rate is not None else "",
        f"at least {amount(qos.throughput)} bytes/s" if qos.throughput is not None else "",
        f"at least {rate(qos.throughput_tuples)}" if qos.throughput_tuples is not None else "",
        f"availability {share(qos.availability)}" if qos.availability is not None else "",
        f"{counted(qos.degree, 'replica')} of each component" if qos.degree is not None else "",
        f"{counted(qos.active, 'active replica')} of each operator" if qos.active is not None else "",
        f"{counted(qos.synchronized, 'synchronized replica')} of each component" if qos.synchronized else "",
        f"{counted(qos.ordered, 'replica')} of each component in one order" if qos.ordered else "",
        *operator_texts.own_requests(plan.operators.values()),
        f"{seconds(qos.replica_distance)} between replicas" if qos.replica_distance is not None else "",
        DISCIPLINE_NAMES[qos.scheduling] if qos.scheduling is not None else "",
        "later tuples are dropped" if qos.overdue == "drop" else "",
        HOTSPOT_MODES.get(qos.hotspots or "", ""),
    ]
    return ", ".join(filter(None, parts)) or "none asked for"


def show_plan(plan: Plan) -> None:
    """Print the drawing of a plan, and a row for each operator."""
    out.print(Text(plan.name, style="bold"))
    out.print(Text(f"quality of service: {requirement(plan)}", style="dim"))
    out.print()
    out.print(Text("\n".join("  " + line for line in plan.to_text({}).splitlines()), no_wrap=True, overflow="ellipsis"))
    out.print()
    if asks_for_active(plan.operators.values(), plan.qos):
        lines = [*readings(plan).values(), *agreement_text(plan).splitlines()]
        out.print(Text("\n".join(f"  {line}" for line in lines)))
        out.print()
    if techniques := technique_sentences(plan):
        out.print(Text("\n".join(f"  {line}" for line in techniques.values())))
        out.print()
    table = Table(box=None, pad_edge=False)
    table.add_column("operator", no_wrap=True)
    table.add_column("does", overflow="fold", style="dim")
    table.add_column("out", justify="right", no_wrap=True)
    table.add_column("cores", justify="right", no_wrap=True)
    for name, operator in plan.operators.items():
        does = operator.kind if operator.kind == name else f"{operator.kind}"
        said = operator_texts.brief(operator)
        pinned = f" at {operator.at}" if operator.at else ""
        own = f" ({operator.availability})" if operator.availability else ""
        table.add_row(name, f"{does} {said}{pinned}{own}".strip(), rate(plan.rate(name)), f"{plan.load(name):.2g}")
    out.print(table)


# -- runs --------------------------------------------------------------------------------------------------------------


def show_run(plan: Plan, run: RunOutcome, *, explain: bool) -> None:
    """Print the rows of a run, its quality of service, and the peers of its operators."""
    for sink, followed in run.sinks.items():
        _heading(f"{plan.operators[sink].params['name']}: {counted(followed.count, 'row')}")
        show_rows(followed.table, followed.count)
    out.print()
    rows = [("status", f"{run.status}: {run.reason}" if run.reason else run.status)]
    for file in [each.file for each in run.sinks.values() if each.file is not None]:
        rest = "" if file.complete else ", not all: the query did not end well"
        rows.append(("file", f"{file.path if file.complete else file.part}: {counted(file.rows, 'row')}{rest}"))
    for sink, record in run.qos.items():
        where = f" at {sink}" if len(run.qos) > 1 else ""
        if record and record.get("dropped"):
            rows.append((f"dropped{where}", f"{_dropped(record)}, as their deadline had passed"))
        if record and record.get("delay_p50_s") is not None:
            missed = f"{share(record['miss_rate'])} {'missed' if record.get('dropped') else 'later'}"
            limit = f"; limit {seconds(record['limit_s'])}, {missed}" if record["limit_s"] else ""
            delay = f"p50 {seconds(record['delay_p50_s'])}, p99 {seconds(record['delay_p99_s'])}{limit}"
            rows.append((f"delay{where}", delay))
            rows.append((f"output{where}", rate(record["tuples_per_s"])))
    places: dict[str, list[str]] = {}
    for operator, peer in run.placement.items():
        places.setdefault(peer, []).append(operator)
    rows.append(("runs on", "; ".join(f"{peer}: {', '.join(places[peer])}" for peer in sorted(places))))
    rows.append(("set-up", f"{seconds(run.setup_s)}, {counted(run.peers, 'peer')} in all; ran {seconds(run.seconds)}"))
    if run.explanation.coverage:
        rows.append(("replicas", run.explanation.coverage))
    rows += lacking_rows(run.explanation.losses.late, run.explanation.losses.skipped)
    rows += [("error", run.explanation.error_line(each)) for each in run.explanation.troubles[-WORST:]]
    fields(rows)
    if explain:
        _heading("Why there")
        out.print(Text(str(run.explanation)))


def show_detached(detached: tuple[str, str], *, as_json: bool) -> None:
    """Print where an application runs that was submitted to go on without this command."""
    application, scheduler = detached
    if as_json:
        print_json({"application": application, "scheduler": scheduler, "status": "running"})
        return
    fields([("runs", application), ("peers", scheduler)])
    out.print(Text(f"\nPython reads and stops it: cluster = Cluster({scheduler!r})", style="dim"))
    for call in (f"cluster.applications[{application!r}].head()", f"cluster.stop({application!r})"):
        out.print(Text(f"    {call}", style="dim"))


def _dropped(record: Mapping[str, Any]) -> str:
    """Number of tuples that each operator has dropped, in words."""
    return ", ".join(f"{counted(number, 'tuple')} at {name}" for name, number in record["dropped"].items())


def show_rows(table: pl.DataFrame | None, count: int) -> None:
    """Print the first rows of a result, with as many columns as fit."""
    if table is None or not table.height:
        return
    shown = Table(box=None, pad_edge=False)
    windowed = {"window_start", "window_end"} <= set(table.columns)
    rest = [name for name in table.columns if not windowed or name not in ("time", "window_start", "window_end")]
    if windowed:
        shown.add_column("window", no_wrap=True)
    for name in rest:
        number = table.schema[name].is_numeric()
        shown.add_column(name, justify="right" if number else "left", overflow="ellipsis", no_wrap=True)
    for row in readable(table).iter_rows(named=True):
        bounds = [Text(window(row["window_start"], row["window_end"]))] if windowed else []
        shown.add_row(*bounds, *(Text(cell(row[name])) for name in rest))
    out.print(shown)
    if count > table.height:
        out.print(Text(f"the first {amount(table.height)} of {counted(count, 'row')}; --limit shows more", style="dim"))


def write_report(path: Path, plan: Plan, run: RunOutcome) -> None:
    """The run as one HTML page."""
    tables = []
    for sink, followed in run.sinks.items():
        table = followed.table
        if table is not None:
            about = "" if followed.count <= table.height else f"The first of {counted(followed.count, 'row')}."
            tables.append(
                pages.Table(plan.operators[sink].params["name"], table.columns, readable(table).rows(), about)
            )
    good = run.status in ("finished", "stopped")
    text = f"{run.application} has {run.status}{f': {run.reason}' if run.reason else ''}."
    numbers = [
        pages.Number("Set up in", seconds(run.setup_s), f"on {counted(run.peers, 'peer')}"),
        pages.Number(
            "Rows", amount(sum(followed.count for followed in run.sinks.values())), f"in {seconds(run.seconds)}"
        ),
    ]
    for sink, record in run.qos.items():
        if record and record.get("delay_p50_s") is not None:
            where = f" at {sink}" if len(run.qos) > 1 else ""
            limit = f"limit {seconds(record['limit_s'])}" if record["limit_s"] else "no limit"
            numbers.append(pages.Number(f"Delay, median{where}", seconds(record["delay_p50_s"]), limit))
            numbers.append(pages.Number(f"Delay, 99th percentile{where}", seconds(record["delay_p99_s"]), limit))
        if record and record.get("dropped"):
            where = f" at {sink}" if len(run.qos) > 1 else ""
            numbers.append(pages.Number(f"Missed{where}", share(record["miss_rate"]), f"dropped: {_dropped(record)}"))
    page = pages.report(
        plan,
        run.explanation,
        run.events,
        title=plan.name,
        verdicts=[pages.Verdict("good" if good else "bad", text)],
        numbers=numbers,
        tables=tables,
        data=run.to_dict(plan, explain=False),
        footer=f"Written by synergy {__version__}.",
    )
    path.write_text(page, encoding="utf-8")


# -- data --------------------------------------------------------------------------------------------------------------


def dataset_dict(found: FoundDataset) -> dict[str, Any]:
    """A dataset as plain values."""
    described: dict[str, Any] = {name: getattr(found.dataset, name) for name in found.dataset.__struct_fields__}
    return described | {"local": list(found.dataset.local), "path": found.path, "looked": list(found.looked)}


def _rows(number: int | None) -> str:
    return "-" if number is None else amount(number)


def show_datasets(found: list[FoundDataset]) -> None:
    """Print a row for each dataset."""
    table = Table(box=None, pad_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("here", no_wrap=True)
    table.add_column("what", overflow="fold", style="dim")
    for each in found:
        here = Text("✓ yes", style="green") if each.path is not None else Text("no", style="dim")
        table.add_row(each.dataset.name, _rows(each.dataset.rows), here, each.dataset.title)
    out.print(table)
    if found and any(each.path is None for each in found):
        out.print(Text(f"\nLooked in {', '.join(found[0].looked)}.", style="dim"))
        out.print(Text("synergy data fetch NAME --url ADDRESS gets a copy of yours, and checks it.", style="dim"))


def show_fetched(name: str, fetched: DownloadedFile, *, as_json: bool) -> None:
    """Print where a downloaded file is, and what it was compared with."""
    size = fetched.path.stat().st_size
    if as_json:
        print_json({"name": name, **fetched._asdict(), "path": str(fetched.path), "bytes": size})
        return
    told = {
        "stated": "sha256 as stated",
        "known": "content as in our measurements, by sha256",
        "recorded": "sha256 as in the first download",
        "none": f"unchecked: no checksum of it is known; sha256 {fetched.sha256} is recorded in {RECORD}",
    }[fetched.check]
    out.print(f"{name}: {fetched.path} ({counted(size, 'byte')}); {told}", markup=False, soft_wrap=True)


def show_dataset(found: FoundDataset) -> None:
    """Print all properties of one dataset."""
    dataset = found.dataset
    fields(
        [
            ("name", dataset.name),
            ("what", dataset.title),
            ("from", f"{dataset.archive}, file {dataset.file}"),
            ("rows", _rows(dataset.rows)),
            ("terms", dataset.terms),
            ("here", found.path or f"no; looked in {', '.join(found.looked)} for {', '.join(dataset.local)}"),
        ]
    )


def show_trace(info: Info) -> None:
    """Print format, columns, time span and disorder of a trace."""
    rows = [
        ("file", f"{info.path}, {counted(info.size, 'byte')}"),
        ("format", info.format),
        ("tuples", amount(info.rows)),
        ("event time", f"{info.first} to {info.last} ({seconds(info.duration)})"),
        ("columns", ", ".join(f"{name} {kind}" for name, kind in info.columns.items())),
        ("disorder", "none" if not info.disorder else f"up to {seconds(info.disorder)}"),
    ]
    if info.malformed:
        rows.append(("malformed", f"{counted(info.malformed, 'line', 'is', 'are')} skipped; {info.complaint}"))
    if info.doubt:
        rows.append(("implausible", info.doubt))
    fields(rows)


# -- measurements and findings -----------------------------------------------------------------------------------------


def _figure(entry: dict[str, Any]) -> str:
    value, unit = entry["value"], entry["unit"]
    if value is None:
        return "not measured"
    return seconds(value) if unit == "s" else f"{amount(value)} {unit}"


def show_measurement(found: dict[str, Any]) -> None:
    """Print a measurement, and those of other systems."""
    rows = [(str(found["name"]), _figure(found))]
    rows += [(f"  {peer['name']}", _beside(peer)) for peer in found.get("peers") or ()]
    rows += [
        (f"  {name.replace('_', ' ')}", cell(value))
        for name, value in (found.get("detail") or {}).items()
        if _brief(value)
    ]
    fields(rows)


def _beside(peer: dict[str, Any]) -> str:
    """Figure of another system, its processor time and our ratio to it; or the reason why it was not measured."""
    detail = peer.get("detail") or {}
    if detail.get("note"):
        return str(detail["note"])
    parts = [_figure(peer)]
    if detail.get("cpu_s_a_million") is not None:
        parts.append(f"{detail['cpu_s_a_million']:.3g} processor seconds a million")
    if detail.get("ours_to_theirs") is not None:
        parts.append(f"ours to theirs {detail['ours_to_theirs']:.3g}")
    return ", ".join(parts)


def _brief(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def show_finding(finding: Finding) -> None:
    """Print one line about a finding, and a second one with its advice, if any."""
    mark, colour = _MARKS[finding.state]
    line = Table.grid(padding=(0, 1))
    line.add_column(width=1)
    line.add_column(width=10, style="bold")
    line.add_column(overflow="fold")
    line.add_row(Text(mark, style=colour), finding.name, Text(finding.found))
    if finding.advice:
        line.add_row("", "", Text(finding.advice, style=colour))
    out.print(line)


def show_listeners(found: Sequence[Listener]) -> None:
    """Print a table of what listens where, since when, and who may use it."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("", "what", "where", "process", "since", "who may use it"):
        # ports are readable if they are not folded; paths of sockets are longer
        table.add_column(name, overflow="fold", min_width=len("127.0.0.1:65535") if name == "where" else None)
    for each in found:
        mark, colour = _MARKS["bad" if each.open else "good"]
        since = dt.datetime.fromtimestamp(each.since).strftime("%m-%d %H:%M")  # noqa: DTZ006 - of the machine
        process = f"{each.program} ({each.process})"
        users = Text(each.users, style=colour if each.open else "")
        table.add_row(Text(mark, style=colour), each.what, Text(each.address), Text(process), since, users)
    out.print(table)
