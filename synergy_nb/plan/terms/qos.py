"""The QoS requirement of a plan, in base units."""

from __future__ import annotations

import msgspec

__all__ = ["QoS"]


class QoS(msgspec.Struct, frozen=True):
    """QoS requirement Q_ξ; None means no requirement.

    Parameters
    ----------
    delay
        End-to-end delay q_t, seconds.
    miss_rate
        Fraction of tuples that may be later than ``delay``.
    throughput
        Least throughput at the sinks, bytes/s.
    throughput_tuples
        Least throughput at the sinks, tuples/s.
    availability
        Least fraction of time for which it is available; it determines the number of replicas.
    degree
        Number of replicas of each component, including the primary, of which the others are backups.
    active
        Number of active replicas of each operator, all of which execute it.
    synchronized
        Number of replicas of each component, of which the first holds its output until the others, its backups, have
        it.
    ordered
        Number of replicas of each component that all execute it in the same order; the first one sends its output.
    replica_distance
        Round trip that two active replicas of an operator have to exceed, seconds; None if any may be next to another.
    memory
        Limit of the memory of each operator, bytes; None: the share that its peer gives it.
    scheduling
        Discipline by which peers order its tuples, one of :data:`~synergy_nb.plan.checks.requirements.DISCIPLINES`;
        None: that of each peer.
    overdue
        Policy for a tuple whose deadline has passed when it would be executed, an element of
        :data:`~synergy_nb.plan.checks.requirements.OVERDUE`; None: it is kept.
    hotspots
        Mode of hot spots of its components, an element of :data:`~synergy_nb.plan.checks.requirements.HOTSPOTS`; None:
        that of each peer.
    on_death
        Effect of the death of a peer without backups, an element of
        :data:`~synergy_nb.plan.checks.requirements.ON_DEATH`; None: restart in a durable cluster, else fail.

    Examples
    --------
    The arguments of ``sink`` are the requirement of its plan, with units:

    >>> from synergy_nb import source
    >>> plan = source("packets").sink(delay="500 ms", miss_rate="1 %", availability="99.9 %")
    >>> plan.qos.delay, plan.qos.miss_rate, plan.qos.availability
    (0.5, 0.01, 0.999)
    """

    delay: float | None = None
    miss_rate: float | None = None
    throughput: float | None = None
    throughput_tuples: float | None = None
    availability: float | None = None
    degree: int | None = None
    active: int | None = None
    synchronized: int | None = None
    ordered: int | None = None
    replica_distance: float | None = None
    memory: float | None = None
    scheduling: str | None = None
    overdue: str | None = None
    hotspots: str | None = None
    on_death: str | None = None

    @property
    def numbers(self) -> dict[str, float]:
        """Numeric fields that are set, by name."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if isinstance(value, (int, float))}
