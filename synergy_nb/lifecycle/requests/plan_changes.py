"""Another plan takes the place of that of a durable application, which goes on from what its folder has.

Theory of operation
-------------------
A change has two steps, and each composes the application anew, as after a death: its components go on from the folder.

1. :meth:`RequestChanges.begin`: it executes both plans (:mod:`synergy_nb.plan.derived.plan_transitions`). The folder
   still says that its plan is the old one. So whatever dies, and whatever fails, the old plan goes on: the sinks have
   given nothing that this one would not give.
2. Once the folder has the state of all sinks from which the new plan can go on, the session is ended
   (:meth:`RequestChanges.interrupt`). Then the driver replaces the plan in the folder, in one step of the disk, and
   the application goes on with the plan that the folder has (:meth:`RequestChanges.settle`).

Whoever has asked for the change asks again within a minute, or it is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from synergy_nb.control.peer import Peer
from synergy_nb.events.application_states import State
from synergy_nb.lifecycle.records.request import Request
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.active_replicas import degrees_of
from synergy_nb.plan.derived.placement_modes import SPREAD, decider_of

__all__ = ["BEGUN", "RequestChanges", "check_durable"]

BEGUN: Final = "another plan is to take the place of its own"
NO_REPLICAS: Final = (
    "availability: active replicas; expected none or backups, such as 'degree 2', as a durable cluster replaces the "
    "plan"
)
LOOKS_S: Final = 30.0  # seconds between two looks whether somebody has asked for a change again


class RequestChanges:
    """The changes of plans of the applications that a peer leads."""

    def __init__(
        self,
        peer: Peer,
        requests: Mapping[str, Request],
        # interrupt, compose: functions that end the session of a request that runs, for a reason, and that compose it
        # anew after that
        interrupt: Callable[[Request, str], None],
        compose: Callable[[Request, str], None],
    ) -> None:
        self._peer = peer
        self._requests = requests
        self._interrupt = interrupt
        self._compose = compose
        self._asked: set[str] = set()  # applications for whose changes somebody has asked since the last look
        self._interrupted: set[str] = set()  # applications between the two steps
        self._ended: dict[str, str] = {}  # application to why its last change was given up

    def begin(self, name: str, both: Plan) -> None:
        """Execute both plans from now on.

        Raises ``ValueError`` if that is not possible.
        """
        request = self._requests.get(name)
        if request is None or request.state is not State.RUNNING or request.on_hold or request.changing is not None:
            what = "is not known here" if request is None else f"is {request.status}"
            what = "changes its plan" if request is not None and request.changing is not None else what
            raise ValueError(f"application: {name!r} {what}; expected one that runs")
        decided_by = _decided_by(request, both)
        check_durable(both, decided_by)
        if "active" in (decided_by, request.decided_by):
            raise ValueError(NO_REPLICAS)
        for operator, node in both.operators.items():
            if node.engine == "spark":
                raise ValueError(
                    f"operator {operator!r}: engine: 'spark'; expected none in both plans, as this cluster is durable: "
                    "stop the application, and submit the new plan"
                )
        request.begin_change(both, decided_by)
        self._asked.add(name)
        self._ended.pop(name, None)
        self._compose_anew(request, BEGUN)
        self._peer.after(LOOKS_S, self._look, request, both, False)

    def ask(self, name: str) -> None:
        """Note that the change is still wanted; raises ``ValueError`` with the reason if it was given up."""
        self._changing(name)
        self._asked.add(name)

    def give_up(self, name: str, reason: str) -> None:
        """Have the old plan go on alone."""
        request = self._changing(name)
        if request.running:
            self._compose_anew(request, reason)
        else:  # while it is composed of both, nobody has any of its rows yet
            self._asked.discard(name)

    def interrupt(self, name: str) -> None:
        """End the session in which both plans run, as the sinks are ready for the new one."""
        request = self._changing(name)
        if request.state is not State.RUNNING:
            raise ValueError(f"application: {name!r} is {request.status}; expected one that runs")
        self._interrupt(request, "another plan has caught up, and takes the place of its own")
        self._interrupted.add(name)

    def settle(self, name: str, plan: Plan | None) -> None:
        """Go on with the plan that the folder has: with the new one, or with None the old one.

        Raises ``ValueError`` if the application has ended meanwhile.
        """
        self._interrupted.discard(name)
        request = self._requests.get(name)
        if request is None or request.state is not State.DISCOVERING:
            raise ValueError(f"application: {name!r} has ended; expected one that goes on")
        self._end(request, "" if plan is not None else "the new plan could not be kept", plan)
        self._compose(request, "its plan is decided")

    # -- what happens meanwhile --------------------------------------------------------------------------------------

    def resumed(self, request: Request, reason: str) -> None:
        """It is composed anew: with the old plan alone, unless that begins a change."""
        if request.changing is not None and reason != BEGUN:
            self._end(request, reason)
            request.begin_anew()

    def refused(self, request: Request, reason: str) -> bool:
        """Go on with the old plan if the peers have refused both; whether they were both."""
        if request.changing is None:
            return False
        self._end(request, reason)
        request.restart(self._peer.now)
        self._compose(request, reason)
        return True

    def succeeded(self, request: Request) -> None:
        """Lead an application on: with its own plan, if its origin has died while that was changed."""
        switches = request.alternative.plan.transition.switches
        if any(len(each.inputs) > 1 for each in switches.values()):
            self._compose_anew(request, "its origin has died while its plan was changed")

    def _look(self, request: Request, both: Plan, silent: bool) -> None:
        """Give a change up for which nobody asks any more; ``silent``: whether nobody had at the last look."""
        name = request.name
        if self._requests.get(name) is not request or request.changing is not both or name in self._interrupted:
            return
        asked = name in self._asked
        self._asked.discard(name)
        if silent and not asked and request.running:
            self._compose_anew(request, "nobody has asked for its new plan for half a minute")
        else:
            self._peer.after(LOOKS_S, self._look, request, both, not asked)

    def _compose_anew(self, request: Request, reason: str) -> None:
        self._interrupt(request, reason)
        self._compose(request, reason)

    def _changing(self, name: str) -> Request:
        request = self._requests.get(name)
        if request is None or request.changing is None or name in self._interrupted:
            raise ValueError(self._ended.get(name) or f"application: {name!r}; expected one whose plan changes")
        return request

    def _end(self, request: Request, reason: str, plan: Plan | None = None) -> None:
        self._asked.discard(request.name)
        known = {name: why for name, why in self._ended.items() if name in self._requests}
        self._ended = {**known, request.name: reason}
        going = request.plan if plan is None else plan
        request.end_change(going, _decided_by(request, going))


def _decided_by(request: Request, plan: Plan) -> str:
    """The decider of another plan of an application, whose peers are found in the same way."""
    mode = "resilient" if request.decided_by == "resilient" else "composed"
    return decider_of(plan, SPREAD if request.spread else mode)


def check_durable(plan: Plan, decided_by: str) -> None:
    """Raise ``ValueError`` if a folder could have no copy of some component of a plan."""
    if decided_by == "active" and any(each.passive > 1 for each in degrees_of(plan).values()):
        raise ValueError(
            "availability: active replicas beside backups; expected one of the two, as this cluster is durable"
        )
    for name, operator in plan.operators.items():
        if operator.engine == "spark" and operator.kind == "source":
            raise ValueError(
                f"operator {name!r}: engine: 'spark'; expected 'peer', as this cluster is durable, and no query "
                "reads a source on from where another one was"
            )
