"""``view``: cost of an update of the live view for the kernel, and bytes sent to the page."""

from __future__ import annotations

import math
import time
from typing import Any

from synergy_experiments.bench.measurements import machine_load, measurement, quantile
from synergy_nb.events import (
    ApplicationRunning,
    ComponentDeployed,
    ComponentMeasurements,
    PeerMeasured,
    PeerStarted,
    RequestSubmitted,
    SinkMeasured,
)
from synergy_nb.events.journal import Journal
from synergy_nb.widgets.qos_view import QoSView

__all__ = ["view"]

PEERS = 8
OPERATORS = 9
HZ = 10  # updates a second


class _CountedView(QoSView):
    """A view that counts its messages instead of sending them."""

    sizes: list[int]

    def send(self, content: Any, buffers: Any = None) -> None:
        self.sizes.append(len(str(content)) + sum(memoryview(each).nbytes for each in buffers or ()))


def _begin(journal: Journal) -> None:
    graph = {f"o{number}": f"a{number % PEERS}" for number in range(OPERATORS)}
    for number in range(PEERS):
        journal.append(PeerStarted(0.0, f"a{number}", f"a{number}", name=f"peer-{number + 1}"))
    journal.append(RequestSubmitted(0.0, "a0", "r1", plan="measured", operators=list(graph), qos={"delay": 1.0}))
    journal.append(ApplicationRunning(0.0, "a0", "r1", peers=graph))
    for operator, peer in graph.items():
        journal.append(ComponentDeployed(0.0, peer, "r1", operator=operator))


def _go_on(journal: Journal, step: int) -> None:
    """Record the events of a tenth of a second: a measurement of the sink, and one of a peer."""
    now = step / HZ
    delay = 0.02 * math.exp(0.3 * math.sin(step / 7))
    measured = SinkMeasured(
        now,
        "a0",
        "r1",
        operator=f"o{OPERATORS - 1}",
        delay_p50_s=delay,
        delay_p95_s=2 * delay,
        delay_p99_s=3 * delay,
        delay_mean_s=delay,
        delay_max_s=4 * delay,
        miss_rate=0.0,
        limit_s=1.0,
        tuples_per_s=1000.0,
        bytes_per_s=48_000.0,
        tuples=100 * step,
        finished=False,
    )
    journal.append(measured)
    peer = step % PEERS
    stats = [
        ComponentMeasurements("r1", f"o{number}", "filter", rate=1e3 + step % 9, output_rate=500.0, load=0.03,
                              processing_s=2e-6, queueing_s=1e-4, queue_tuples=3, memory_bytes=0, memory_share=None,
                              late=0)
        for number in range(OPERATORS) if number % PEERS == peer
    ]  # fmt: skip
    cpu = 0.1 + step % 7 / 100
    journal.append(
        PeerMeasured(now, f"a{peer}", "", cpu=cpu, memory=200_000_000, cores=0.5, promised=0.2, components=stats)
    )


def view(*, small: bool = False) -> dict[str, Any]:
    """CPU seconds of an update at 10 updates a second, after 100,000 points; one application on eight peers."""
    points, repeats = (2_000, 20) if small else (100_000, 300)
    before = machine_load()
    journal = Journal(1_000_000)
    _begin(journal)
    lines = 4  # of a sink: a message a tenth of a second
    history = points // lines
    clock = [0.0]
    shown = _CountedView(journal, application="r1", clock=lambda: clock[0])
    shown.sizes = []
    try:
        for step in range(1, history + 1):
            _go_on(journal, step)
        began = time.process_time()
        shown.update()
        reading = time.process_time() - began
        began = time.process_time()
        shown.on_page_message("ready", "page")
        opening, opened = time.process_time() - began, shown.sizes[-1]
        shown.sizes.clear()
        costs = []
        for step in range(history + 1, history + 1 + repeats):
            _go_on(journal, step)
            clock[0] += 1 / HZ
            began = time.process_time()
            shown.update()
            costs.append(time.process_time() - began)
            if step % 50 == 0:
                shown.on_page_message("here", "page")
    finally:
        shown.close()
    detail = {
        "points": points,
        "p99": round(quantile(costs, 0.99), 6),
        "bytes_an_update": sum(shown.sizes) // max(len(shown.sizes), 1),
        "updates": len(shown.sizes),
        "reading_the_journal": round(reading, 4),
        "events": 2 * history,
        "opening_a_page": round(opening, 4),
        "bytes_of_opening": opened,
        "target": 1e-3,
        "load": {"before": before, "after": machine_load()},
    }
    return measurement("view", round(quantile(costs, 0.5), 6), "s", detail)
