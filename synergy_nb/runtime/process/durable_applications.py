"""What a durable folder has of applications beside their rows: kept by origins, submitted again by a new cluster."""

from __future__ import annotations

import msgspec

from synergy_nb.control.graph import Report
from synergy_nb.durable.folder import DurableFolder, KeptApplication
from synergy_nb.durable.records import DurableError
from synergy_nb.durable.restoring import has_changed, restored
from synergy_nb.events.application_states import Status
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.lifecycle.requests.decider import needed_contents
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.plan_transitions import Transitions, transitions
from synergy_nb.plan.derived.spark_parts import cones
from synergy_nb.plan.tables.lookup_tables import keep_encoded
from synergy_nb.plan.terms.known_functions import receive
from synergy_nb.runtime.data.spark_servers import KeptCheckpoint, unavailable
from synergy_nb.runtime.process.contents import is_table, name_of, piece
from synergy_nb.runtime.process.requests import Submit

__all__ = [
    "check_parts",
    "decided",
    "is_over",
    "keep_application",
    "keep_change",
    "prepare_change",
    "provide_contents",
]


def keep_application(folder: DurableFolder, request: Submit, plan: Plan, now: float) -> None:
    """Keep an application that is submitted at this peer, or started again; ``now``: time in seconds."""
    known = folder.application(request.application)
    if known is not None:
        folder.keep(msgspec.structs.replace(known, epoch=request.epoch), {})
        return
    kept = KeptApplication(request.application, plan.to_bytes(), request.placement, now, request.epoch, decided=False)
    folder.keep(kept, {component: _whole(component) for component in needed_contents(plan)})


def decided(folder: DurableFolder, application: KeptApplication) -> KeptApplication:
    """Return an application with the plan that goes on: its last one, unless its sinks have gone on with that before.

    Only before the application is started. Raises ``DurableError`` if a file was damaged.
    """
    if not application.before:
        return application
    old, new = Plan.from_bytes(application.before), Plan.from_bytes(application.plan)
    if has_changed(folder.files(application.id), old, new):
        return application
    return msgspec.structs.replace(application, plan=application.before, before=b"")


def check_parts(folder: DurableFolder, application: KeptApplication) -> None:
    """Check the checkpoints from which the parts on Spark of an application go on, and remove all others.

    Only before the application is started. Raises ``DurableError`` if a part could not go on.
    """
    plan = Plan.from_bytes(application.plan)
    parts = cones(plan, {name for name, each in plan.operators.items() if each.engine == "spark"})
    if not parts or unavailable():
        return  # the cluster will say why it does not execute them
    files, location = folder.files(application.id), folder.checkpoints(application.id)
    copies = {part: found.copy for part in parts if (found := restored(files, part)) is not None}
    kept = {
        part: KeptCheckpoint.of(copy.state.head, location) for part, copy in copies.items() if copy.state is not None
    }
    for part, checkpoint in kept.items():
        if checkpoint.problem:
            raise DurableError(
                f"durable: {folder.where!r}: {application.id}: {part}: {checkpoint.problem}; remove "
                f"{location.parent} to forget the application"
            )
    folder.keep_checkpoints(application.id, {each.path for each in kept.values()})


def prepare_change(folder: DurableFolder, application: str, old: Plan, new: Plan) -> Transitions:
    """Return the plans by which another plan takes the place of that of an application.

    Raises ``ValueError`` if it cannot, or if the folder does not have the application.
    """
    known = folder.application(application)
    if known is None:
        raise ValueError(f"application: {application!r}; expected one that the durable folder has")
    number = known.changes + 1
    folder.keep(msgspec.structs.replace(known, changes=number), {})
    return transitions(application, old, new, number, folder.operators(application))


def keep_change(folder: DurableFolder, application: str, old: Plan, change: Transitions) -> None:
    """Keep another plan of an application, in one step, beside the old one.

    Raises ``OSError`` if the disk does not take it, or if a later change has begun meanwhile.
    """
    known = folder.application(application)
    if known is None:
        raise OSError(f"{application} has left the durable folder")
    if known.changes != change.number:
        raise OSError("a later change of the plan has begun")
    needed = needed_contents(change.new)
    missing = {component: _whole(component) for component in needed if component not in known.contents}
    folder.keep(msgspec.structs.replace(known, plan=change.new.to_bytes(), before=old.to_bytes()), missing)


def is_over(report: Report, request: Request | None) -> bool:
    """Whether an application is never started again: it has finished, its user has stopped it, or it never ran."""
    match report.status:
        case Status.FINISHED:
            return True
        case Status.STOPPED:
            return not report.reason
        case Status.REJECTED:
            return request is not None and not request.epoch and not request.restarts
    return False


def _whole(component: str) -> bytes:
    """Return a function or a table that this peer has, encoded."""
    found = b""
    while (some := piece(component, len(found))) is not None:
        found += some.data
        if len(found) >= some.size or not some.data:
            return found
    raise ValueError(f"content of {component!r}; expected one that this peer has")


def provide_contents(folder: DurableFolder, application: KeptApplication) -> None:
    """Have this process provide the functions and tables of an application, as the program that submitted it did.

    Raises ``DurableError`` if one is not what its plan names.
    """
    for component in application.contents:
        data = folder.content(application, component)
        if is_table(component):
            keep_encoded(name_of(component), data)
        else:
            try:
                receive(name_of(component), data)
            except ValueError as error:
                raise DurableError(f"durable: {folder.where!r}: {application.id}: {error}") from None
