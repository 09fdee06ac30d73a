"""An explanation as a page of a notebook: a table of operators that open, graphs and the whole account folded.

Each operator shows its peer; opened, it shows why it runs there, and the candidates that were dropped, each with a bar
of what it had beside what was required. Colours are those of the page, so both themes are right, and no colour carries
information alone.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from typing import Final

from synergy_nb.events import GraphEvaluated, ProbeDropped
from synergy_nb.plan.derived.active_replicas import original
from synergy_nb.plan.terms.units import counted
from synergy_nb.reporting._account import compared, lines
from synergy_nb.reporting._reasons import Reasons
from synergy_nb.reporting.formatting import seconds

MOST_GRAPHS: Final = 40
MOST_DROPPED: Final = 40  # maximum number of candidates that are shown of one operator
ROW: Final = (
    "display:grid;grid-template-columns:minmax(110px,1fr) minmax(90px,1fr) 3fr;gap:2px 14px;align-items:baseline"
)
RULE: Final = "border-top:1px solid color-mix(in srgb,currentColor 18%,transparent);padding:3px 0"
SOFT: Final = "opacity:.75"


def page(explanation: Reasons) -> str:
    """Write the account of a request as HTML, self-contained and without a script."""
    took = "" if explanation.course.setup_s is None else f", set up in {seconds(explanation.course.setup_s)}"
    outcome = f"<strong>{_text(explanation.request)}</strong>: {_text(explanation.course.outcome)}{took}"
    parts = [f"<p style='margin:0 0 6px'>{outcome}</p>"]
    parts += [f"<p style='margin:0 0 6px'>{_text(str(stall))}</p>" for stall in explanation.stalls]
    parts += [_operators(explanation), _graphs(explanation)]
    account = html.escape("\n".join(lines(explanation)))
    parts.append(_folded("The whole account as text", f"<pre style='white-space:pre-wrap'>{account}</pre>"))
    return f"<div style='max-width:900px'>{''.join(parts)}</div>"


def _operators(explanation: Reasons) -> str:
    """A row of each operator, which opens; its replicas and backups are in it."""
    found = [
        *explanation.peers,
        *(drop.operator for drop in explanation.composition.dropped),
        *explanation.composition.candidates,
    ]
    names = list(dict.fromkeys(map(original, found)))
    if not names:
        return ""
    cells = "<span>operator</span><span>peer</span><span></span>"  # as wide as a row, behind the mark that opens it
    head = f"<div style='{ROW};{SOFT};width:calc(100% - 1.4em);margin-left:1em'>{cells}</div>"
    rows = [head]
    for name in names:
        dropped = [drop for drop in explanation.composition.dropped if original(drop.operator) == name]
        accepted = sorted(
            {probe.peer for probe in explanation.composition.accepted if original(probe.operator) == name}
        )
        replicas = [each for each in explanation.peers if original(each) == name]
        backups = _backups(explanation, name)
        at = ", ".join(map(explanation.where, replicas)) or "none"
        told = ", ".join(filter(None, (
            counted(len(replicas), "active replica") if len(replicas) > 1 else "",
            f"{'backup' if len(backups) == 1 else 'backups'} {', '.join(backups)}" if backups else "",
            f"{counted(len(accepted), 'peer')} accepted" if accepted else "",
            f"{counted(len(dropped), 'probe')} dropped" if dropped else "",
        )))  # fmt: skip
        cells = f"<span>{_text(name)}</span><span>{_text(at)}</span><span style='{SOFT}'>{told}</span>"
        row = f"<span style='{ROW}'>{cells}</span>"
        inside = [f"<p style='margin:4px 0'>{_text(each)}</p>" for each in _reasons(explanation, replicas, backups)]
        inside += [f"<p style='margin:4px 0'>{_text(each)}</p>" for each in _losses(explanation, name)]
        if accepted:
            inside.append(f"<p style='margin:4px 0;{SOFT}'>accepted by {_text(', '.join(accepted))}</p>")
        inside += _bars(explanation, dropped)
        rows.append(
            f"<details style='{RULE}'><summary style='cursor:pointer'>"
            f"<span style='display:inline-block;width:calc(100% - 1.4em);vertical-align:top'>{row}</span></summary>"
            f"<div style='margin:2px 0 8px 1.4em'>{''.join(inside)}</div></details>"
        )
    return "".join(rows)


def _backups(explanation: Reasons, operator: str) -> list[str]:
    return (
        []
        if explanation.replication.replicated is None
        else list(explanation.replication.replicated.backups.get(operator, ()))
    )


def _reasons(explanation: Reasons, replicas: list[str], backups: list[str]) -> Iterable[str]:
    """Why the replicas of an operator are where they are."""
    for name in replicas:
        begin = f"{name} at {explanation.where(name)}: " if len(replicas) > 1 else ""
        yield f"{begin}{explanation.why(name)}"
        yield from (f"backup at {peer}: {explanation.why_replica(name, peer)}" for peer in backups)


def _losses(explanation: Reasons, operator: str) -> Iterable[str]:
    """The active replicas that an operator has lost, as HTML."""
    for lost in explanation.of_replicas.replicas_lost:
        gone = [name for name in lost.operators if original(name) == operator]
        if gone:
            yield f"lost: {', '.join(gone)} at {lost.at}: {lost.reason}"


def _bars(explanation: Reasons, dropped: list[ProbeDropped]) -> Iterable[str]:
    """A bar for each dropped candidate: what it had, beside the line of what was required."""
    for drop in dropped[:MOST_DROPPED]:
        words = explanation.readable(drop.explanation) or compared(drop)
        bar = ""
        most = 1.25 * max(drop.required, drop.available)
        if math.isfinite(most) and most > 0.0 and not drop.explanation:
            had, line = (100.0 * value / most for value in (drop.available, drop.required))
            bar = (
                "<span style='display:block;position:relative;height:10px;margin:3px 0;max-width:360px;"
                "background:color-mix(in srgb,currentColor 10%,transparent)'>"
                "<span style='position:absolute;inset:0 auto 0 0;"
                f"width:{had:.1f}%;background:color-mix(in srgb,currentColor 45%,transparent)'></span>"
                f"<span title='required' style='position:absolute;top:-2px;bottom:-2px;left:{line:.1f}%;"
                "border-left:2px solid currentColor'></span></span>"
            )
        yield (
            f"<div style='{ROW};margin:2px 0'><span>{_text(drop.at)}</span><span>{_text(drop.condition)}</span>"
            f"<span>{bar}{_text(words)}</span></div>"
        )
    if len(dropped) > MOST_DROPPED:
        yield f"<p style='{SOFT}'>and {len(dropped) - MOST_DROPPED} more</p>"


def _graphs(explanation: Reasons) -> str:
    """All complete graphs by φ, folded."""
    if not explanation.composition.graphs:
        return ""
    selected = explanation.composition.selected
    chosen = selected.peers if selected is not None else None
    graphs = list(explanation.composition.graphs)
    if selected is not None and all(graph.peers != chosen for graph in graphs):  # replicas were placed after it
        graphs.append(
            GraphEvaluated(
                selected.time, selected.peer, selected.subject, selected.peers, selected.phi, selected.delay_s
            )
        )
    ranked = sorted(graphs, key=lambda graph: (graph.peers != chosen, graph.phi or math.inf))
    rows = []
    for graph in ranked[:MOST_GRAPHS]:
        phi = "-" if graph.phi is None else f"{graph.phi:.4g}"
        verdict = "set up" if graph.peers == chosen else graph.unqualified or "qualified"
        where = _where(graph.peers)
        cells = "".join(f"<td style='text-align:left;vertical-align:top'>{_text(text)}</td>"
                        for text in (phi, seconds(graph.delay_s), verdict, where))  # fmt: skip
        rows.append(f"<tr>{cells}</tr>")
    head = "".join(f"<th style='text-align:left'>{text}</th>" for text in ("φ", "projected delay", "verdict", "peers"))
    more = f"<p>and {len(ranked) - MOST_GRAPHS} more</p>" if len(ranked) > MOST_GRAPHS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"
    return _folded(f"{counted(len(ranked), 'complete graph')}, by φ", table)


def _where(peers: Mapping[str, str]) -> str:
    """Operators with their peers; the active replicas of one together."""
    together: dict[str, list[str]] = {}
    for name, peer in peers.items():
        together.setdefault(original(name), []).append(peer)
    return ", ".join(f"{operator} {' and '.join(found)}" for operator, found in together.items())


def _folded(title: str, content: str) -> str:
    return f"<details style='{RULE}'><summary style='cursor:pointer'>{_text(title)}</summary>{content}</details>"


def _text(words: str) -> str:
    return html.escape(words, quote=True)
