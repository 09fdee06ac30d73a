"""What a peer remembers of an application in which it takes part."""

from __future__ import annotations

from synergy_nb.control.graph import Use
from synergy_nb.control.peer import Timer
from synergy_nb.lifecycle.messages import Graph
from synergy_nb.plan import Plan
from synergy_nb.plan.catalogue import TAP
from synergy_nb.plan.stream_sharing import taps_of

__all__ = ["Member", "deployment_of", "plan_of", "producer_of", "producers_of"]


class Member:
    """This peer's part of an application."""

    __slots__ = (
        "awaited",
        "backed",
        "confirmed",
        "delay",
        "deployed",
        "ended",
        "faults",
        "graph",
        "heard",
        "operators",
        "plan",
        "preparing",
        "projected",
        "ready",
        "running",
        "started",
        "timer",
    )

    def __init__(self, graph: Graph, plan: Plan, address: str, now: float) -> None:
        self.graph = graph
        self.plan = plan
        self.operators = {operator for operator, peer in graph.roles.peers.items() if peer == address}
        self.confirmed: dict[str, set[str]] = {}
        self.deployed: set[str] = set()
        self.preparing: set[str] = set()  # of these, parts on Spark that are not ready
        self.awaited: dict[str, tuple[str, ...]] = {}  # by operator that is followed here, who shares its stream
        self.ready: set[str] = set()  # operators whose copy here could take over
        self.faults: dict[str, str] = {}  # operators that are followed here in vain, and why
        self.delay = -1.0
        self.projected = max(graph.reached.values(), default=0.0)  # t̂ in seconds, as probes found it
        self.backed = False  # whether its backups here are committed
        self.started = False  # sources here emit
        self.running = False
        self.ended = False  # nothing but results is left of it here
        self.heard = now
        self.timer: Timer | None = None

    @property
    def time(self) -> float:
        """End-to-end execution time t̂ in seconds: measured, or until then as it was projected."""
        return self.delay if self.delay >= 0.0 else self.projected

    @property
    def offered(self) -> list[str]:
        """Operators here whose streams others may use; no follower."""
        here = self.operators & self.deployed
        return [operator for operator in here if self.plan.operators[operator].kind not in ("sink", TAP)]


def plan_of(graph: Graph) -> Plan:
    """The plan of a component graph; ValueError where they do not belong together."""
    plan = Plan.from_bytes(graph.plan)
    if graph.roles.peers.keys() != plan.operators.keys():
        known, wanted = ", ".join(graph.roles.peers), ", ".join(plan.operators)
        raise ValueError(f"peers: of {known}; expected one of each of {wanted}")
    if graph.shared.keys() != set(taps_of(plan)):
        raise ValueError(f"shared: {', '.join(graph.shared)}; expected what each tap of the plan is made by")
    return plan


def producer_of(graph: Graph, plan: Plan, tap: str) -> Use | None:
    """The component that makes the stream of a tap; its name stays when it moves."""
    makers = {(application, operator) for application, operator in plan.operators[tap].params["providers"].values()}
    found = [use for use in graph.shared[tap] if use[:2] in makers]
    return next((use for use in found if use.peer == graph.roles.peers[tap]), None)


def deployment_of(graph: Graph, operator: str) -> Use:
    """Where a component of an application is, who keeps copies of it, and who says where it goes."""
    roles = graph.roles
    follower = roles.followers.get(operator)
    copies = (*roles.backups.get(operator, ()), *(() if follower is None else (follower,)))
    return Use(graph.application, operator, roles.peers[operator], roles.epochs.get(operator, 0), graph.origin, copies)


def producers_of(graph: Graph, plan: Plan, operator: str) -> tuple[Use, ...]:
    """All components that the stream of an operator is made by, those of other applications among them."""
    found: set[Use] = set()
    waiting = [operator]
    while waiting:
        name = waiting.pop()
        if name not in graph.shared:
            found.add(deployment_of(graph, name))
        found.update(graph.shared.get(name, ()))
        waiting.extend(plan.upstream(name))
    return tuple(sorted(found))
