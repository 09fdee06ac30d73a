"""Measurements of a component while it works: rates, times, load and its signature. No IO, no clock."""

from __future__ import annotations

import math
from typing import Any, Final

from synergy_nb.dataflow.memory_shares import MemoryShare
from synergy_nb.dataflow.meters import Ewma, Rate, UnitCost
from synergy_nb.dataflow.streams.component.predictions import ComponentPredictions
from synergy_nb.models.signatures import WINDOW, Segment, Signature

__all__ = ["RESOLUTION", "ComponentMetrics"]

#: Seconds between two observations of a signature: tuples arrive in batches, so shorter spans have no stable mean load.
RESOLUTION: Final = 0.25


class _SignatureMeter:
    """The signature of arriving or departing tuples, with an observation every :data:`RESOLUTION` seconds at most.

    It starts with the first tuples if these come later than a window after its creation.
    """

    def __init__(self, now: float) -> None:
        self._signature = Signature(start=now)
        self._until = now
        self._begun = False
        self.tuples = 0  # tuples since the last observation; their owner counts them
        # time in seconds from which `observe` has something to do; infinite before the first tuples
        self.due = math.inf

    def observe(self, now: float, tuple_s: float = 0.0) -> None:
        """Take over the tuples that were counted, each of which takes ``tuple_s`` seconds; once it is :attr:`due`."""
        if not self._begun:
            if not self.tuples:
                return
            self._begun = True
            if now > self._until + WINDOW:
                self._signature, self._until, self.tuples = Signature(start=now), now, 0
        if now >= self._until + RESOLUTION:
            self._signature.observe(now, self.tuples, self.tuples * tuple_s)
            self._until, self.tuples = now, 0
        self.due = self._until + RESOLUTION

    def segments(self, now: float, tuple_s: float = 0.0) -> tuple[Segment, ...]:
        """Return its segments up to now, the earliest first."""
        self.observe(now, tuple_s)
        return self._signature.segments()


class ComponentMetrics:
    """The measurements of one component.

    ``measure_s``: seconds over which rates and loads are averaged; ``now``: time at which the component starts, in
    seconds.
    """

    def __init__(self, *, measure_s: float, share: MemoryShare, now: float, speed: float = 1.0) -> None:
        self.share = share  # share of the peer's memory that the component may use, bytes
        self.kind = ""  # kind of its operator
        self.stream = ""  # name of its work, see `Plan.work_name`
        self.apart = False  # whether it waits for another process, and is executed beside the others
        self.external = False  # executed by another engine, which reports its own times
        self.arrivals = Rate(measure_s, now)
        self._input_signature, self._output_signature = _SignatureMeter(now), _SignatureMeter(now)
        self.departures = Rate(measure_s, now)
        self.speed = speed  # at which its peer last executed it, see ``work``
        self.waited_s = 0.0  # seconds that its present execution slept rather than computed
        self.busy = Rate(measure_s, now)  # work at unit speed
        self.tuple_s = Ewma()
        self.unit = UnitCost()  # work at unit speed
        self.planned_s = 0.0  # work of a tuple in its plan, seconds
        self._batches, self._batches_s = 0, 0.0  # executions of tuples, and their seconds
        self._queued, self._queued_s = 0, 0.0  # tuples that were taken from a queue, and their seconds there
        self.spent_s = 0.0
        self.prediction: ComponentPredictions | None = None  # None if hot spots are off
        self.late = 0
        self.dropped = 0  # tuples dropped because their deadline had passed
        self.tuples_in = 0
        self.tuples_out = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def arrived(self, tuples: int, now: float, size: int = 0) -> None:
        """Count ``tuples`` that arrived for the first time, in chunks of so many bytes."""
        self.tuples_in += tuples
        self.bytes_in += size
        if tuples:
            self.arrivals.readings.append((tuples, now))
        if self.prediction is not None:
            self.prediction.arrived(tuples, now)
        meter = self._input_signature
        meter.tuples += tuples
        if now >= meter.due or (tuples and meter.due == math.inf):
            meter.observe(now, self._tuple_s)
            self.arrivals.count()
            self.busy.count()

    def entered(self, tuples: int, now: float) -> None:
        """Count ``tuples`` that entered the system here: they are no load, so nobody reads a signature of them."""
        self.tuples_in += tuples
        if tuples:
            self.arrivals.add(tuples, now)
        if self.prediction is not None:
            self.prediction.arrived(tuples, now)

    def departed(self, tuples: int, now: float) -> None:
        """Count ``tuples`` that were added to its stream."""
        if self.kind == "sink":  # nobody reads its stream, so there is no signature of it
            if tuples:
                self.departures.add(tuples, now)
            return
        if tuples:
            self.departures.readings.append((tuples, now))
        meter = self._output_signature
        meter.tuples += tuples
        if now >= meter.due or (tuples and meter.due == math.inf):
            meter.observe(now)
            self.departures.count()

    def slept(self, seconds: float) -> None:
        """Count seconds that the present execution slept rather than computed."""
        self.waited_s += seconds

    def take_slept(self, most: float) -> float:
        """Return the seconds that the execution which has ended slept, at most so many, and count anew."""
        slept, self.waited_s = min(self.waited_s, most), 0.0
        return slept

    def segments(self, now: float) -> tuple[Segment, ...]:
        """Return its recent load as a signature (section 2.3.4): segments of constant load in cores, earliest first."""
        return self._input_signature.segments(now, self._tuple_s)

    def stream_segments(self, now: float) -> tuple[Segment, ...]:
        """Return the signature of its stream: rates only, as the loads are those of the readers."""
        return self._output_signature.segments(now)

    @property
    def work(self) -> float:
        """Work of a tuple: the seconds that it takes at a peer of speed 1, without waiting and without other programs.

        It is measured without the overhead of an item, else planned. The planned one counts only up to the measured one
        that includes this overhead.
        """
        cost = self.unit.seconds
        if cost is not None:
            return cost
        return min(self.planned_s, self.tuple_s.moving * self.speed) if self.tuple_s.count else self.planned_s

    @property
    def processing(self) -> float:
        """Processing time τ of a tuple at this peer in seconds, at the speed at which it was last executed."""
        return self.work / self.speed

    @property
    def _tuple_s(self) -> float:
        """Return the estimated work for one more tuple, seconds."""
        cost = self.unit.seconds
        return self.planned_s if cost is None else cost

    def executed(self, tuples: int, seconds: float, finished: float, speed: float = 1.0) -> None:
        """Count one execution of ``tuples``, which took ``seconds`` at a speed and ended at ``finished``."""
        self.speed = speed
        self.spent_s += seconds
        self.busy.readings.append((seconds * speed, finished))
        if tuples:
            self.tuple_s.add(seconds / tuples, tuples)
            self.unit.add(tuples, seconds * speed)
            self._batches += 1
            self._batches_s += seconds

    def _cost(self) -> float | None:
        cost = self.unit.seconds
        if cost is None or self.external:
            return None
        return cost + max(self.spent_s - self.tuple_s.total, 0.0) * self.speed / self.tuple_s.count

    def measurements(self, now: float) -> dict[str, Any]:
        """Return the measurements as plain values: seconds, bytes, tuples/s, cores; ``busy`` is a share of its time.

        ``cost`` is the work of one more tuple, in seconds at a peer of speed 1, see
        :class:`~synergy_nb.dataflow.meters.UnitCost`, including punctuations; other than
        ``processing_s``, it excludes the overhead of a batch. It is None where there
        are too few executions for an estimate, or another engine executes.
        """
        executed = self.tuples_in - self.dropped
        known = self.prediction
        return {
            "kind": self.kind,
            "stream": self.stream,
            "tuples_in": self.tuples_in,
            "tuples_out": self.tuples_out,
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "rate": self.arrivals.per_second(now),
            "output_rate": self.departures.per_second(now),
            "processing_s": self.tuple_s.mean,
            "batch_s": self._batches_s / self._batches if self._batches else 0.0,
            "queueing_s": self._queued_s / self._queued if self._queued else 0.0,
            "load": (load := self.busy.per_second(now)),
            "busy": load / self.speed,
            "memory_bytes": self.share.used,
            "memory_share": self.share.limit if self.share.limit < math.inf else None,
            "late": self.late,
            "dropped": self.dropped,
            "cost": self._cost(),
            "selectivity": self.tuples_out / executed if executed > 0 else None,
            "slack": known.slack if known is not None else None,
            "predicted_s": known.time.seconds if known is not None else None,
            "measured_s": known.times.last if known is not None else None,
            "predicted_rate": known.predicted_rate.rate if known is not None else None,
            "prediction_off": known.deviations.ratio if known is not None else None,
        }
