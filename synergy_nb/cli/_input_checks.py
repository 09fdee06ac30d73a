"""Checks of the input of commands, and their exits: wrong input, failures while something runs, and JSON output."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

if TYPE_CHECKING:
    from synergy_nb.plan import Plan

FAILED: Final = 1
BAD_INPUT: Final = 2
_WHERE: Final = ("peers", "spark")  # where a plan runs


def print_error(message: str) -> None:
    """Print a message on the standard error."""
    from synergy_nb.cli._console import err

    err.print(f"synergy: {message}", markup=False, style="red", soft_wrap=True)


def refuse(message: str) -> NoReturn:
    """Exit with a message about wrong input."""
    print_error(message)
    raise typer.Exit(BAD_INPUT)


def similar_file(file: Path) -> str:
    """Return a hint at the file in the same folder with the most similar name, for an error; empty if there is none."""
    from synergy_nb.plan.terms.units import did_you_mean

    return did_you_mean(file.name, [each.name for each in file.absolute().parent.glob("*")])


def fail(message: str) -> NoReturn:
    """Exit with a message about a failure while something ran."""
    print_error(message)
    raise typer.Exit(FAILED)


@contextlib.contextmanager
def bad_input(field: str = "") -> Iterator[None]:
    """Treat a ``ValueError`` in this block as wrong input: one message, about ``field`` if given, and exit code 2."""
    try:
        yield
    except ValueError as error:
        refuse(f"{field}: {error}" if field else str(error))


@contextlib.contextmanager
def running() -> Iterator[None]:
    """Treat an error in this block as a failure of what ran: one message and exit code 1."""
    from synergy_nb.runtime.process.fork_server import ProcessStartError
    from synergy_nb.runtime.process.requests import ClusterError, NotAdmitted
    from synergy_nb.runtime.transport.wire import RemoteError

    try:
        yield
    except NotAdmitted as error:
        fail(error.reason)
    except (ClusterError, RemoteError, ProcessStartError, TimeoutError, OSError) as error:
        fail(str(error) or type(error).__name__)


def chosen_duration(option: str, given: str) -> float:
    """The value of an option that is a duration, in seconds."""
    from synergy_nb.plan.terms.units import parse_duration

    with bad_input(option):
        return parse_duration(given)
    raise AssertionError  # wrong input has ended the command


def chosen_spark(given: str | None) -> bool | str:
    """The value of ``--spark``, checked, as the argument of a cluster."""
    if given is None or given == "off":
        return given is None
    from synergy_nb.runtime.data.spark_servers import checked

    with bad_input("--spark"):
        checked(given)
    return given


def chosen_secrets(given: list[str] | None) -> dict[str, bytes]:
    """The values of ``--secret NAME=WHERE``, by name."""
    from synergy_nb.connectors.secret_values import given_secrets

    places: dict[str, bytes | str] = {}
    for each in given or []:
        name, equals, where = each.partition("=")
        if not (name and equals and where):
            refuse(f"--secret: {name!r}; expected NAME=env:VARIABLE, NAME=file:PATH or NAME=keyring:SERVICE/USER")
        places[name] = where
    try:
        return given_secrets(places)
    except ValueError as error:
        refuse(f"--secret: {str(error).removeprefix('secrets: ')}")


def check_peer_modes(discipline: str, hotspots: str) -> None:
    """Refuse an unknown scheduling discipline, or an unknown mode of hot spots."""
    from synergy_nb.plan.checks import requirements

    with bad_input():
        requirements.check_discipline("--discipline", discipline)
        requirements.check_hotspots("--hotspots", hotspots)


def check_detached(detach: bool, scheduler: str | None, others: Mapping[str, object]) -> None:
    """Refuse ``--detach`` without peers elsewhere, and with options of a run that the command waits for."""
    if detach and scheduler is None:
        refuse("--detach: expected --scheduler, too: peers that this command starts end with it")
    for option, value in others.items():
        if detach and value:
            refuse(f"--detach and {option}: expected one of them, as the command does not wait for the results")


def check_where(where: str, of_peers: Mapping[str, object]) -> bool:
    """Whether a plan is to run on Spark; refuse options that only peers have, given by name with their values."""
    from synergy_nb.plan.terms.units import did_you_mean

    if where not in _WHERE:
        refuse(f"--on: {where!r}; expected one of {', '.join(_WHERE)}{did_you_mean(where, _WHERE)}")
    if where == "peers":
        return False
    for option, value in of_peers.items():
        if value not in (None, False):
            refuse(f"{option} and --on spark: expected one of them, as no peer executes the plan")
    return True


def at_least(option: str, value: int, least: int) -> None:
    """Refuse a number below ``least``."""
    if value < least:
        refuse(f"{option}: {value}; expected a whole number of at least {least}")


def writable(option: str, path: Path) -> None:
    """Refuse a path at which no file can be written."""
    if path.is_dir():
        refuse(f"{option}: {str(path)!r} is a folder; expected a file")
    if not path.absolute().parent.is_dir():
        refuse(f"{option}: {str(path)!r}; expected a file in a folder that exists")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        refuse(f"{option}: {str(path)!r} cannot be written; expected a file that can")


def fresh(option: str, path: Path | None) -> None:
    """Refuse a path at which no new file can be made."""
    if path is not None:
        if path.exists():
            refuse(f"{option}: {str(path)!r} exists already; expected a new file")
        writable(option, path)


def parsed(file: Path) -> Plan:
    """The plan in a file; a query in SQL, whose file ends with ``.sql``, has a sink of the file's name.

    ``nexmark-q5`` is that query of the benchmark, if there is no such file.

    Raises ``PlanError``: holding everything that is wrong with it; of a query ``QueryError``.
    """
    from synergy_nb.cli._console import err
    from synergy_nb.plan import Plan

    benchmark, _, name = str(file).partition("-")
    if benchmark == "nexmark" and not file.exists():
        from synergy_experiments.nexmark import query

        with bad_input():
            return query(name)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        refuse(f"{file}: no such file; expected a query plan{similar_file(file)}")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        refuse(f"{file}: {reason}; expected a query plan in YAML")
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        if file.suffix.lower() == ".sql":
            from synergy_nb.editing.sql_queries import sql

            plan = sql(text).sink(file.stem)
        else:
            plan = Plan.from_yaml(text)
    for notice in notices:
        err.print(f"! {notice.message}", markup=False, soft_wrap=True)
    return plan


def load(file: Path) -> Plan:
    """The plan in a file; refuse a file that holds none."""
    from synergy_nb.errors import SynergyError

    try:
        return parsed(file)
    except SynergyError as error:
        refuse(f"{file}: {error}")


def print_json(value: Any) -> None:
    """Print one JSON value on the standard output, with escapes for letters that the terminal lacks."""
    value = _finite(value)
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2, default=str)
    print(text)


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by null."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
