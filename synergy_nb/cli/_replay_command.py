"""``synergy replay``: the contents of a recording, a comparison of its replay, and a request step by step."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from synergy_nb.cli._input_checks import fail, print_json, refuse, similar_file
from synergy_nb.cli._options import Json

if TYPE_CHECKING:
    from synergy_nb.recording.recording_file import Recording
    from synergy_nb.recording.replay import ReplayOutcome
    from synergy_nb.recording.stepping import Requested, SteppedMessage

QUIT: Final = "q"


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A recording, written by record=FILE or --record FILE.")],
    request: Annotated[
        str | None, typer.Option(metavar="ID", help="Show the messages of this request, one a line.")
    ] = None,
    step: Annotated[bool, typer.Option("--step", help="At a terminal, wait for Enter after each message.")] = False,
    as_json: Json = False,
) -> None:
    """Replay a recorded run, compare its effects, and step through the messages of a request."""
    if step and request is None:
        refuse("--step: no --request is given; expected --request ID, whose messages are shown")
    from synergy_nb.recording.replay import compare
    from synergy_nb.recording.stepping import exchanges_of, requests_of

    recording = _read(file)
    outcome = compare(recording)
    requests = requests_of(outcome.steps)
    chosen = None if request is None else _chosen(request, requests)
    exchanges = [] if chosen is None else exchanges_of(chosen.request, outcome.steps)
    if as_json:
        found = _summary(recording, outcome)
        if chosen is None:
            found["requests"] = [_plain(each) for each in requests]
        else:
            found["request"] = _plain(chosen)
            found["messages"] = [_message(each, chosen) for each in exchanges]
        print_json(found)
    elif chosen is None:
        _show_requests(requests)
    else:
        _show_exchanges(chosen, exchanges, step=step and _at_a_terminal())
    _conclude(recording, outcome)


def _read(file: Path) -> Recording:
    from synergy_nb.recording.recording_file import NotARecording, read

    try:
        found = read(file)
    except NotARecording as error:
        refuse(str(error))
    except FileNotFoundError:
        refuse(f"{file}: no such file; expected a recording{similar_file(file)}")
    except OSError as error:
        refuse(f"{file}: {error.strerror}; expected a recording")
    return found


def _chosen(request: str, requests: list[Requested]) -> Requested:
    from synergy_nb.plan.terms.units import WrongValue, nearest

    names = [each.request for each in requests]
    found = next((each for each in requests if each.request == request), None)
    if found is None:
        expected = f"one of {', '.join(names)}" if names else "none, as the recording holds no request"
        refuse(f"--request: {WrongValue(request, expected, nearest(request, names))}")
    return found


def _plain(value: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(value)


def _message(exchange: SteppedMessage, chosen: Requested) -> dict[str, Any]:
    found = _plain(exchange)
    return {"since_s": exchange.at - chosen.at, **found, "outcomes": list(exchange.outcomes)}


def _summary(recording: Recording, outcome: ReplayOutcome) -> dict[str, Any]:
    return {
        "peers": [{"name": life.name, "address": life.address, "inputs": len(life.inputs)} for life in recording.lives],
        "notes": recording.notes,
        "inputs": outcome.inputs,
        "effects": outcome.effects,
        "same": not outcome.differences,
        "differences": [_plain(each) for each in outcome.differences],
    }


def _show_requests(requests: list[Requested]) -> None:
    from datetime import datetime

    from rich.table import Table
    from rich.text import Text

    from synergy_nb.cli._console import out

    if not requests:
        out.print("no request was submitted")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("request", "plan", "submitted at", "time", "outcome"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "request")
    for each in requests:
        when = f"{datetime.fromtimestamp(each.at).astimezone():%H:%M:%S.%f}"[:-3]
        table.add_row(*map(Text, (each.request, each.plan, each.origin, when, each.outcome)))
    out.print(table)


def _at_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _show_exchanges(chosen: Requested, exchanges: list[SteppedMessage], *, step: bool) -> None:
    from synergy_nb.cli._console import out
    from synergy_nb.recording.moments import not_received

    said = f"{chosen.request}: plan {chosen.plan}, submitted at {chosen.origin}: {chosen.outcome}"
    out.print(said, markup=False, soft_wrap=True, style="bold")
    if step:
        out.print(f"Enter: the next message; {QUIT} and Enter: end", markup=False)
    ways = [f"{each.sender} → {each.to}" for each in exchanges]
    width = max(map(len, ways), default=0)
    name = max((len(each.message) for each in exchanges), default=0)
    for each, way in zip(exchanges, ways, strict=True):
        line = f"{each.at - chosen.at:9.4f} s  {way:<{width}}  {each.message:<{name}}  {each.text}"
        outcomes = (*each.outcomes, *(() if each.received else (not_received(each.under_way),)))
        if outcomes:
            line = f"{line} → {'; '.join(outcomes)}" if each.text else f"{line}{'; '.join(outcomes)}"
        out.print(line.rstrip(), markup=False, soft_wrap=True)
        if step and input().strip().lower() == QUIT:
            return


def _conclude(recording: Recording, outcome: ReplayOutcome) -> None:
    """Print on the standard error what is missing, and whether the replay has the same effects."""
    from synergy_nb.cli._console import err
    from synergy_nb.plan.terms.units import counted
    from synergy_nb.recording.recording_file import version

    for note in recording.notes:
        err.print(f"! {note}", markup=False, soft_wrap=True)
    others = sorted({life.beginning.version for life in recording.lives} - {version()})
    if others:
        err.print(f"! recorded by version {', '.join(others)}, replayed by {version() or 'another'}", markup=False)
    replayed = f"{counted(len(recording.lives), 'peer')}, {counted(outcome.inputs, 'input')}"
    if not outcome.differences:
        effects = counted(outcome.effects, "effect")
        err.print(f"replayed {replayed}: the same {effects} as recorded", markup=False, soft_wrap=True)
        return
    for each in outcome.differences:
        err.print(f"! {each}", markup=False, soft_wrap=True)
    fail(f"replayed {replayed}: the effects of {counted(len(outcome.differences), 'peer')} differ from those recorded")
