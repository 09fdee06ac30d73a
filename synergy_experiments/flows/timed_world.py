"""The data plane of peers with stated times: when each tuple enters, how long each one is executed, how long links are.

Theory of operation
-------------------
:class:`~synergy_experiments.flows.stream_world.StreamWorld` draws batches, delays and faults. Here nothing is drawn: a
source emits each tuple by itself at its time, a peer executes one chunk after another, and each tuple takes the time
that is stated for its component. So queues, and the time of a hot spot, can be computed by hand. The peers are the same
hosting values; applications are deployed in the second before time 0.

A source promises that no earlier tuple follows at its end only, right behind each tuple, or with the next tuple
(:class:`Promises`).

Examples
--------
A component that takes 10 ms a tuple predicts so:

>>> from synergy_nb.plan import source
>>> plan = source("python", name="n", columns={"v": "int"}, rate=10.0, id="n").filter("v >= 0", id="f").sink("out")
>>> world = TimedWorld(("a", "b"), {("app", "f"): 0.010}, hop=0.050)
>>> world.begin("app", plan, {"n": "a", "f": "b", "sink": "a"}, {"n": [number / 10 for number in range(50)]})
>>> world.run(5.0)
>>> time, peer, report = world.predictions[-1]
>>> (time, peer), [(each.operator, each.rate, round(each.predicted, 3)) for each in report.components]
((3.5, 'b'), [('f', 10.0, 0.01)])
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from synergy_experiments.flows.stream_world import StreamWorld
from synergy_nb.dataflow.deployments import Deployment
from synergy_nb.dataflow.logic import Logic
from synergy_nb.dataflow.prediction_reports import PeerPrediction, SlackViolation
from synergy_nb.dataflow.streams.component.component import Component
from synergy_nb.dataflow.streams.component.execution import Work
from synergy_nb.dataflow.streams.hosting.effects import Effect
from synergy_nb.dataflow.streams.hosting.hosting import Hosting
from synergy_nb.dataflow.streams.log.values import Chunk, chunks_of
from synergy_nb.dataflow.tuples import END, Batch, Item, Punctuation
from synergy_nb.models.hot_spot_config import HotSpotConfig
from synergy_nb.plan import Plan
from synergy_nb.simulator.kernel import Network
from synergy_nb.simulator.scripted_faults import Faults

__all__ = ["Promises", "TimedWorld"]


class Promises(enum.Enum):
    """The time at which a source promises that no tuple follows that is earlier than, or as early as, its last one."""

    AT_THE_END = "at the end"  #: When all of its tuples have entered.
    AT_ONCE = "at once"  #: Right behind the tuple.
    WITH_THE_NEXT = "with the next tuple"  #: When the next tuple enters.


class TimedWorld(StreamWorld):
    """Peers that execute each tuple in a stated time.

    Parameters
    ----------
    peers
        Addresses.
    service
        Application and operator to the seconds that a tuple takes there; 0 for all others.
    hop
        Seconds that a frame takes from one peer to another.
    hotspots
        Parameters of hot spots.
    network
        Delays between peers, which ``hop`` is added to; None: ``hop`` alone.
    promises
        Time at which sources promise that no earlier tuple follows.

    Attributes
    ----------
    predictions : list of (float, str, PeerPrediction)
        Reports of peers: time in seconds, address, report.
    violations : list of (float, str, SlackViolation)
        Reports of components without slack: time in seconds, address, report.
    """

    def __init__(
        self,
        peers: Sequence[str],
        service: Mapping[tuple[str, str], float],
        hop: float = 0.0,
        hotspots: HotSpotConfig | None = None,
        network: Network | None = None,
        promises: Promises = Promises.AT_THE_END,
    ) -> None:
        super().__init__(1, peers, Faults(delay=(hop, hop)), hotspots=hotspots, network=network)
        self.now = -1.0
        self.promises = promises
        self.seconds = dict(service)
        self.predictions: list[tuple[float, str, PeerPrediction]] = []
        self.violations: list[tuple[float, str, SlackViolation]] = []
        self.emissions: dict[tuple[str, str], Sequence[float]] = {}

    def begin(
        self,
        application: str,
        plan: Plan,
        peers: Mapping[str, str],
        times: Mapping[str, Sequence[float]],
        *,
        shares: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        """Deploy an application.

        Parameters
        ----------
        application, plan
            Id and plan.
        peers
            Operator to the peer that executes it.
        times
            Source to the seconds at which its tuples enter; the column ``v`` of each has its number.
        shares
            Source to the application and operator whose stream it shares, instead of tuples of its own.
        """
        inputs = {}
        for name, seconds in times.items():
            self.emissions[application, name] = seconds
            moments = pl.Series("time", [round(each * 1e6) for each in seconds], dtype=pl.Int64).cast(pl.Datetime("us"))
            inputs[name] = pl.DataFrame([moments, pl.Series("v", range(len(seconds)), dtype=pl.Int64)])
        self.deploy(application, plan, peers, inputs, shares=shares)

    def set_limits(self, peer: str, application: str, limits: Mapping[str, float]) -> None:
        """Set departure limits: operator to the greatest age in seconds at which a tuple may leave it."""
        self.hosting(peer).predictions.set_limits(application, limits)

    def hosting(self, peer: str) -> Hosting:
        """Return the hosting of a peer."""
        return self.nodes[peer].hosting

    def _create(self, deployment: Deployment, component: Component) -> Logic | None:
        planned_s = self.seconds.get((component.application, component.operator), 0.0)
        logic = super()._create(deployment, component)
        component.agree(component.terms, component.kind, planned_s=planned_s)
        return logic

    def _carry_out(self, peer: str, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, PeerPrediction):
                self.predictions.append((self.now, peer, effect))
            elif isinstance(effect, SlackViolation):
                self.violations.append((self.now, peer, effect))
        super()._carry_out(peer, effects)

    def _work(self, peer: str) -> None:
        node = self.nodes[peer]
        work = node.hosting.next(self.now, self._light if node.busy else None)
        if work is None:
            return
        seconds = self.seconds.get((work.component.application, work.component.operator), 0.0) * work.rows
        node.busy = node.busy or seconds > 0.0
        self.after(seconds, self._finish_timed, peer, work, self.now, seconds)

    def _light(self, component: Component, _chunk: Chunk) -> bool:
        """Whether a component takes no time: it is executed beside others, as light work of live peers is."""
        return not self.seconds.get((component.application, component.operator), 0.0)

    def _finish_timed(self, peer: str, work: Work, began: float, seconds: float) -> None:
        node = self.nodes[peer]
        if seconds > 0.0:
            node.busy = False

        def finish(hosting: Hosting) -> list[Effect]:
            outcome = work.run(lambda: self.now, hosting.limits.window)
            outcome.started = began
            tuple_s = self.seconds.get((work.component.application, work.component.operator), 0.0)
            outcome.spent = [(rows, rows * tuple_s) for rows, _ in outcome.spent]
            self._measure(work, outcome)
            return hosting.finished(work, outcome, self.now)

        self._at(peer, finish)

    def _read(self, peer: str, key: tuple[str, str]) -> None:
        """Emit all tuples of a source, each at its time; at its event time if no other was stated."""
        script = self.nodes[peer].scripts[key]
        table = self._inputs[key[0]][key[1]]
        stamps: list[int] = table.get_column("time").cast(pl.Int64).to_list()
        times = self.emissions.get(key, [stamp / 1e6 for stamp in stamps])

        def emit(items: Sequence[Item], hosting: Hosting) -> list[Effect]:
            if self.nodes[peer].scripts.get(key) is not script:
                return []
            return hosting.emit(*key, chunks_of(items, hosting.components[key].log.end), self.now)

        for number, at in enumerate(times):
            items: list[Item] = [Batch(table.slice(number, 1), number, at)]
            if self.promises is Promises.AT_ONCE:
                items.append(Punctuation(stamps[number] + 1, number + 1, at))
            elif self.promises is Promises.WITH_THE_NEXT:
                items.insert(0, Punctuation(stamps[number], number, at))
            self.after(at - self.now, self._at, peer, partial(emit, items))
        last = times[-1] if times else 0.0
        self.after(last - self.now, self._at, peer, partial(emit, [Punctuation(END, len(times), last)]))
