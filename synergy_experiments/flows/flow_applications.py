"""Applications of the flow simulator: graphs of components on peers, fed by sources.

A component serves every tuple of its inputs, as a union does, and emits as many tuples as its selectivity says to each
consumer. An output of an aggregate has the birth time of the input that made it due. With ``match``, a component waits
for the n-th tuple of each input, and serves these as one tuple with the birth time of the oldest. So its delay is that
of the longest path (equation 2.8), as for a join of the branches of one stream. A join of independent streams is
modelled without ``match``: every tuple is looked up in the other window when it arrives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from synergy_nb.plan import Plan

__all__ = ["Application", "Arrivals", "Component", "Service", "Tap", "from_plan"]

Tap = tuple[str, str]
"""A stream of another application: its name, and the component that gives the stream."""

UNLIMITED: Final = 1 << 62


@dataclass(frozen=True)
class Service:
    """Processing times τ of a component, in seconds on a peer of speed 1.

    Made by :meth:`constant`, :meth:`exponential` or :meth:`drawn`.

    Examples
    --------
    >>> Service.exponential(0.01).mean
    0.01
    >>> Service.drawn([0.01, 0.03]).mean
    0.02
    """

    kind: Literal["constant", "exponential", "drawn"]
    mean: float
    times: tuple[float, ...] = field(default=(), repr=False)

    @classmethod
    def constant(cls, seconds: float) -> Service:
        """The same for every tuple."""
        return cls("constant", _seconds("seconds", seconds))

    @classmethod
    def exponential(cls, mean: float) -> Service:
        """Exponentially distributed."""
        return cls("exponential", _seconds("mean", mean))

    @classmethod
    def drawn(cls, times: npt.ArrayLike) -> Service:
        """As given, one after the other, from the beginning again after the last."""
        values = np.asarray(times, dtype=np.float64)
        if values.ndim != 1 or not values.size or not (np.isfinite(values) & (values >= 0.0)).all():
            raise ValueError(f"times: {times!r}; expected at least one number of seconds from 0")
        return cls("drawn", float(values.mean()), tuple(values.tolist()))


@dataclass(frozen=True)
class Arrivals:
    """When a source gives tuples, counted from the start of its application.

    Made by :meth:`poisson`, :meth:`periodic`, :meth:`on_off` or :meth:`trace`.

    Parameters
    ----------
    tuples
        Largest number of tuples.
    duration
        Seconds after which no more come.
    """

    kind: Literal["poisson", "periodic", "on_off", "trace"]
    high: float = 0.0
    low: float = 0.0
    on: float = 0.0
    off: float = 0.0
    random: bool = False
    times: tuple[float, ...] = field(default=(), repr=False)
    tuples: int = UNLIMITED
    duration: float = math.inf

    def __post_init__(self) -> None:
        if self.kind != "trace" and not 0.0 < self.high < math.inf:
            raise ValueError(f"rate: {self.high}; expected a positive number of tuples/s")
        if self.kind == "on_off":
            if not 0.0 <= self.low < math.inf:
                raise ValueError(f"low: {self.low}; expected a number of tuples/s from 0")
            for name, value in (("on", self.on), ("off", self.off)):
                if not 0.0 < value < math.inf:
                    raise ValueError(f"{name}: {value}; expected a positive number of seconds")
        if self.tuples < 0 or not self.duration >= 0.0:
            raise ValueError(f"tuples, duration: {self.tuples}, {self.duration}; expected numbers from 0")

    @classmethod
    def poisson(cls, rate: float, *, tuples: int = UNLIMITED, duration: float = math.inf) -> Arrivals:
        """Regular traffic: independent exponential times between tuples."""
        return cls("poisson", rate, tuples=tuples, duration=duration)

    @classmethod
    def periodic(cls, rate: float, *, tuples: int = UNLIMITED, duration: float = math.inf) -> Arrivals:
        """One tuple every 1 / rate seconds."""
        return cls("periodic", rate, tuples=tuples, duration=duration)

    @classmethod
    def on_off(
        cls,
        high: float,
        low: float,
        on: float,
        off: float,
        *,
        random: bool = False,
        tuples: int = UNLIMITED,
        duration: float = math.inf,
    ) -> Arrivals:
        """Bursty traffic: segments of ``on`` seconds at the rate ``high`` and of ``off`` seconds at ``low``, by turns.

        Within a segment arrivals are Poisson. With ``random``, lengths of segments are exponential with these means.
        """
        return cls("on_off", high, low, on, off, random, tuples=tuples, duration=duration)

    @classmethod
    def trace(cls, times: npt.ArrayLike) -> Arrivals:
        """Tuples at given seconds, in ascending order."""
        values = np.asarray(times, dtype=np.float64)
        if values.ndim != 1 or not np.isfinite(values).all() or (np.diff(values, prepend=0.0) < 0.0).any():
            raise ValueError("times: expected finite numbers of seconds from 0, in ascending order")
        return cls("trace", times=tuple(values.tolist()))

    @property
    def rate(self) -> float:
        """Mean tuples/s in the long run."""
        if self.kind == "on_off":
            return (self.high * self.on + self.low * self.off) / (self.on + self.off)
        if self.kind == "trace":
            return len(self.times) / self.times[-1] if self.times and self.times[-1] > 0.0 else 0.0
        return self.high


@dataclass(frozen=True)
class Component:
    """A component of an application.

    Parameters
    ----------
    peer
        Peer that executes the component; None for outside, without queues and link delays, where only processing takes
        time.
    service
        Distribution of its processing times, by default none. A component without processing time waits for its turn
        all the same.
    inputs
        Components of its application that it reads, or streams of other applications.
    selectivity
        Tuples out over tuples in, from 0.
    random
        Whether selectivity is a matter of chance, tuple by tuple. Otherwise it adds up: with .4, the third, fifth,
        eighth, tenth tuple give one.
    match
        Whether the n-th tuples of all inputs are taken together.
    size
        Bytes of a tuple that it gives, for links of finite bandwidth.
    """

    peer: str | None = None
    service: Service = Service("constant", 0.0)
    inputs: Sequence[str | Tap] = ()
    selectivity: float = 1.0
    random: bool = False
    match: bool = False
    size: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("selectivity", self.selectivity), ("size", self.size)):
            if not 0.0 <= value < math.inf:
                raise ValueError(f"{name}: {value}; expected a finite number from 0")


@dataclass(frozen=True)
class Application:
    """An application's component graph λ, and what feeds it.

    Parameters
    ----------
    name
        Name of the application.
    components
        Components by operator; inputs before those that read them.
    sources
        Operators without inputs to the arrivals that feed them.
    sinks
        Operators at which delays are taken; by default all that no other of the application reads.
    limit
        Delay q_t beyond which a tuple is late, in seconds.

    Raises
    ------
    ValueError
        If it is not a graph of this form; the message names the mistake.
    """

    name: str
    components: Mapping[str, Component]
    sources: Mapping[str, Arrivals] = field(default_factory=dict)
    sinks: Sequence[str] = ()
    limit: float = math.inf

    def __post_init__(self) -> None:
        known: set[str] = set()
        read: set[str] = set()
        for operator, component in self.components.items():
            own = [each for each in component.inputs if isinstance(each, str)]
            for each in own:
                if each not in known:
                    raise self._wrong(operator, "inputs", each, "a component named before")
            if bool(component.inputs) == (operator in self.sources):
                raise self._wrong(operator, "inputs", component.inputs, "inputs, or a source that feeds it")
            known.add(operator)
            read.update(own)
        for operator in (*self.sources, *self.sinks):
            if operator not in known:
                raise self._wrong(operator, "component", None, "one of the application's")
        if not self.sinks:
            object.__setattr__(self, "sinks", tuple(operator for operator in self.components if operator not in read))
        if not self.sinks:
            raise self._wrong("", "components", dict(self.components), "at least one")

    def _wrong(self, operator: str, what: str, value: Any, expected: str) -> ValueError:
        return ValueError(f"application {self.name!r}, {operator!r}, {what}: {value!r}; expected {expected}")


def from_plan(
    name: str,
    plan: Plan,
    peers: Mapping[str, str],
    *,
    taps: Mapping[str, Tap] | None = None,
    arrivals: Mapping[str, Arrivals] | None = None,
    service: Literal["constant", "exponential"] = "exponential",
    random: bool = False,
) -> Application:
    """A composed request: its plan ξ, executed by its component graph λ.

    Parameters
    ----------
    name
        Name of the application.
    plan
        Plan whose profiles give processing times, selectivities and sizes of tuples, and whose delay is the limit.
    peers
        Operator to the peer that executes it. What is not in it is not executed.
    taps
        Operators that are not executed for it, for their stream runs already: to the application and component that
        give it.
    arrivals
        Arrivals of the sources; by default Poisson arrivals at the rate that the plan states.
    service
        Distribution of processing times about their profiled means.
    random
        Whether selectivities are a matter of chance.

    Examples
    --------
    >>> from synergy_nb.plan import source
    >>> slow = source("peers", rate=50).delay("2 ms").sink("all", delay="1 s")
    >>> application = from_plan("a", slow, {"source": "v1", "delay": "v2", "sink": "v1"})
    >>> application.components["delay"].service, application.limit
    (Service(kind='exponential', mean=0.002), 1.0)
    """
    taps = taps or {}
    components: dict[str, Component] = {}
    sources: dict[str, Arrivals] = {}
    for operator in plan.operators:
        if operator not in peers:
            continue
        inputs: list[str | Tap] = []
        for upstream in plan.upstream(operator):
            if upstream not in peers and upstream not in taps:
                raise ValueError(f"peers: {upstream!r} is missing; expected its peer, or a tap that stands for it")
            inputs.append(upstream if upstream in peers else taps[upstream])
        if not inputs:
            given = (arrivals or {}).get(operator)
            sources[operator] = given if given is not None else Arrivals.poisson(plan.input_rate(operator))
        components[operator] = Component(
            peer=peers[operator],
            service=Service(service, plan.processing_time(operator)),
            inputs=inputs,
            selectivity=plan.selectivity(operator),
            random=random,
            size=plan.tuple_bytes(operator),
        )
    limit = math.inf if plan.qos.delay is None else plan.qos.delay
    return Application(name, components, sources, [sink for sink in plan.sinks if sink in components], limit)


def _seconds(field_name: str, value: float) -> float:
    if not 0.0 <= value < math.inf:
        raise ValueError(f"{field_name}: {value}; expected a finite number of seconds from 0")
    return float(value)
