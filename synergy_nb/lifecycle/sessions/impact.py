"""The third condition of step 2 (section 2.3.1): the impact of one more component on the QoS of applications at a peer.

The peer knows all that the projection needs: its components and their users, the delay limits q_t, and the measured
end-to-end times t̂ from the feedback of the origins. Before the first measurement, t̂ is the time that was projected
when the application was composed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from synergy_nb.control.ledger import Ledger
from synergy_nb.lifecycle.records.hosted_components import ComponentId, Components, HostedComponent
from synergy_nb.lifecycle.records.members import Member
from synergy_nb.lifecycle.records.spark_offer import SparkOffer
from synergy_nb.models.projection import Impact, Load, Local, LocalApplication, ProjectionConfig, impacts, refused
from synergy_nb.models.projectors import Traffic, sojourn_times
from synergy_nb.models.signatures import Pattern
from synergy_nb.plan import Plan
from synergy_nb.plan.derived.spark_parts import PART
from synergy_nb.plan.derived.stream_signatures import Rates, arrivals, scaled, together

__all__ = ["Impacts"]

QUEUED: Final = 1e-9  # seconds: less queued work than this counts as none


class Impacts:
    """Projects the impact of requests on the applications at one peer.

    Notes
    -----
    Loads are shares of what the peer's thread can do, since tuples wait for it; those of parts on Spark are shares of
    all cores of the peer.
    """

    def __init__(
        self,
        components: Components,
        members: Mapping[str, Member],
        ledger: Ledger,
        config: ProjectionConfig | None = None,  # parameters of the projection; None if impact is not projected
        # function that returns the properties of the Spark server of this peer, or None where it has none
        spark: Callable[[], SparkOffer | None] = lambda: None,
        # function that returns the processing time τ of (plan, operator) at this peer, seconds
        processing: Callable[[Plan, str], float] = Plan.processing_time,
    ) -> None:
        self.config = config
        self._spark = spark
        self._processing = processing
        self._components = components
        self._members = members
        self._ledger = ledger
        self._known: dict[str, LocalApplication] = {}
        # application with promised times to the work of a tuple here and what was promised, in seconds, and the number
        # of its components here
        self._promised: dict[str, tuple[float, float, int]] = {}

    @property
    def refuses(self) -> bool:
        """Whether this peer refuses because of projected impact: not if it admits in spite of limits."""
        return self.config is not None and self._ledger.enforce

    def processing(self, plan: Plan, operator: str) -> float:
        """Processing time τ of a component at this peer, seconds; for a part on Spark, measured micro-batches."""
        asked, offer = plan.operators[operator], self._spark()
        if asked.kind != PART or offer is None:
            return self._processing(plan, operator)
        batches: int = asked.params["batches"]
        return max(plan.processing_time(operator), batches * offer.micro_batch)

    def project(
        self, request: str, plan: Plan, operator: str, beside: Sequence[str], so_far: float
    ) -> tuple[float, list[Impact]]:
        """Project the impact of executing one more operator at this peer.

        ``beside``: other operators of the same request that would be executed at this peer; ``so_far``: time from a
        source until a tuple of the request arrives at this peer, seconds.

        Returns: execution time x of the operator at this peer, waiting included, seconds.

        Returns: impact on each application at this peer, except the request itself.
        """
        tau = self.processing(plan, operator)
        if self.config is None:
            return tau, []
        queued = self._queued(plan, operator, tau)
        background = self._load(plan, [each for each in beside if each != operator])
        load = self._load(plan, [operator]) if queued > QUEUED else 0.0
        asking = LocalApplication(request, [Local(operator, queued, load)], time=so_far + tau, limit=None)
        running = [each for name, each in self.running().items() if name != request]
        projected = impacts(running, asking, self.config, background)
        return projected[-1].after - so_far, projected[:-1]

    def refusal(self, member: Member, operator: str, *, agreed: bool = False) -> str:
        """The reason to refuse an operator because it would harm an application at this peer; empty if it harms none.

        Probes have checked this already. But since then other applications may have been admitted, and a graph may
        place more operators at this peer than the single path that a probe saw. Where origins have ``agreed``, only
        applications without promised times are checked.
        """
        if not self.refuses:
            return ""
        name, plan = member.graph.application, member.plan
        found = self.project(name, plan, operator, sorted(member.deployed), 0.0)[1]
        victim = refused(each for each in found if not agreed or each.application not in self._promised)
        return "" if victim is None else f"QoS impact on {victim}"

    def running(self) -> dict[str, LocalApplication]:
        """Applications with components at this peer, as inputs of the projection."""
        touched = self._components.touched
        for user in touched:  # only changed applications are updated: set-up costs the same however many run
            here = self._components.of(user) if user in self._members else []
            application = self._application(user, here) if here else None
            if application is not None and application.components:
                self._known[user] = application
                self._note_promised(user, here)
            else:
                self._known.pop(user, None)
                self._promised.pop(user, None)
        touched.clear()
        for user, application in self._known.items():
            application.time = self._members[user].execution_time
        return self._known

    def _note_promised(self, user: str, here: Sequence[tuple[ComponentId, HostedComponent]]) -> None:
        member = self._members[user]
        if not member.graph.promised or member.plan.qos.delay is None:
            self._promised.pop(user, None)
            return
        work, promised, many = 0.0, 0.0, 0
        for (_, operator), component in here:
            queued = self._queued(component.plan, operator, self.processing(component.plan, operator))
            if component.promised is not None and queued > QUEUED:
                work, promised, many = work + queued, promised + component.promised, many + 1
        self._promised[user] = work, promised, many

    def grown(self, member: Member | None = None, operator: str = "") -> dict[str, float]:
        """By how much longer the components here now take than their applications were promised.

        ``member``, ``operator``: component that would be executed here, too; none by default.

        Returns: application with a limit and promised times to the seconds, summed over its components here: for
        parallel ones that is more than what its delay grows by. Infinite if the peer would be overloaded.
        """
        config = self.config or ProjectionConfig()
        traffic = Traffic.together([each.traffic("maximum") for each in self.running().values()])
        accounts = dict(self._promised)
        if member is not None and operator:
            name, plan = member.graph.application, member.plan
            queued = self._queued(plan, operator, self.processing(plan, operator))
            if queued <= QUEUED:
                return {}
            new = LocalApplication(name, [Local(operator, queued, self._load(plan, [operator]))], time=0.0)
            traffic = traffic.plus(new.traffic("maximum"))
            if plan.qos.delay is not None and operator in member.graph.promised:
                work, promised, many = accounts.get(name, (0.0, 0.0, 0))
                accounts[name] = work + queued, promised + member.graph.promised[operator], many + 1
        times = sojourn_times(config.projector, traffic, config.interval, config.confidence, config.interval)
        return {
            name: float(work * times.stretch + many * times.waiting) - promised
            for name, (work, promised, many) in accounts.items()
            if many
        }

    def _application(self, user: str, here: Sequence[tuple[ComponentId, HostedComponent]]) -> LocalApplication:
        member = self._members[user]
        parts: list[Local] = []
        upstream: dict[str, tuple[str, ...]] = {name: member.plan.upstream(name) for name in member.plan.operators}
        before: dict[str, str] = {}  # tap to the last component at this peer that produces its stream
        for (owner, operator), component in here:
            queued = self._queued(component.plan, operator, self.processing(component.plan, operator))
            if queued <= QUEUED:
                continue
            name = operator
            if owner != user:
                name = f"{owner}/{operator}"  # no id holds a slash, so this is neither an own operator nor another one
                for tap in self._taps(member, (owner, operator)):
                    upstream[name] = (before[tap],) if tap in before else ()
                    upstream[tap] = (name,)
                    before[tap] = name
            counted = owner == user or (owner not in component.users and user == min(component.users))
            load: Load = 0.0
            if counted:  # a component with several users does its work once
                load = component.load or self._load(component.plan, [operator])
            parts.append(Local(name, queued, load))
        return LocalApplication(user, parts, upstream, time=member.execution_time, limit=member.plan.qos.delay)

    @staticmethod
    def _taps(member: Member, component: ComponentId) -> Iterator[str]:
        for tap, producers in member.graph.shared.items():
            if any(producer[:2] == component for producer in producers):
                yield tap

    def _load(self, plan: Plan, operators: Sequence[str]) -> Load:
        """Load of several operators together; as a pattern where their plan has signatures of their inputs."""
        total, even = 0.0, 0.0
        varied: list[Rates] = []
        for operator in operators:
            share = self._share(plan, operator)
            rates = arrivals(plan, operator)
            total += share
            if len(rates) > 1 and share > 0.0:
                varied.append(scaled(rates, share))
            else:
                even += share
        if not varied:
            return total
        return Pattern.of([(seconds, load + even) for seconds, load in together(varied)], total)

    def _share(self, plan: Plan, operator: str) -> float:
        """Load of an operator as a share of what executes it: the peer's thread, or Spark."""
        ledger = self._ledger
        return plan.load(operator) / (ledger.machine if plan.on_spark(operator) else ledger.server)

    @staticmethod
    def _queued(plan: Plan, operator: str, tau: float) -> float:
        """Work that a tuple adds to the queue, seconds; a tuple for Spark adds its share of a micro-batch only."""
        if plan.operators[operator].kind != PART:
            return tau
        rate = plan.input_rate(operator)
        return plan.load(operator) / rate if rate else 0.0
