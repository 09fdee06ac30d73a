"""A journal of all that a report shows, and the structure of its page."""

from __future__ import annotations

from html.parser import HTMLParser

from synergy_nb.events import (
    ApplicationRunning,
    CandidatesFound,
    Event,
    GraphEvaluated,
    GraphSelected,
    ProbeDropped,
    ProbingEnded,
    RequestSubmitted,
    SinkMeasured,
)
from synergy_nb.plan import Plan

A, B = "tcp://10.0.0.1:1", "tcp://10.0.0.2:2"


def measured(time: float, p50: float | None, p99: float | None, tuples: int) -> Event:
    return arrived(time, A, "r1", p50, p99, tuples)


def arrived(time: float, peer: str, application: str, p50: float | None, p99: float | None, tuples: int) -> Event:
    return SinkMeasured(
        time,
        peer,
        application,
        operator="sink",
        delay_p50_s=p50,
        delay_p95_s=p99,
        delay_p99_s=p99,
        delay_mean_s=p50,
        delay_max_s=p99,
        miss_rate=None,
        limit_s=1.0,
        tuples_per_s=0.0,
        bytes_per_s=0.0,
        tuples=tuples,
        finished=False,
    )


def journal(plan: Plan) -> list[Event]:
    peers = dict.fromkeys(plan.operators, A) | {"aggregate": B}
    other = dict.fromkeys(plan.operators, A)
    return [
        RequestSubmitted(10.0, A, "r1", plan="top", operators=list(plan.operators), qos={}),
        CandidatesFound(10.0, A, "r1", candidates={name: [A, B] for name in plan.operators}, free={}),
        ProbeDropped(
            10.1, A, "r1", operator="sort", at=B, condition="processing capacity", required=0.5, available=0.25
        ),
        GraphEvaluated(10.1, A, "r1", peers=peers, phi=0.125, delay_s=0.004, unqualified=""),
        GraphEvaluated(10.1, A, "r1", peers=other, phi=None, delay_s=2.0, unqualified="delay"),
        ProbingEnded(10.1, A, "r1", attempt=1, paths=4, dropped=1, graphs=2, qualified=1, complete=True),
        GraphSelected(10.1, A, "r1", peers=peers, phi=0.125, delay_s=0.004),
        ApplicationRunning(10.2, A, "r1", peers=peers),
        arrived(10.2, B, "another", 9.0, 9.0, 1),
        measured(11.2, 0.005, 0.012, 100),
        measured(12.2, None, None, 100),
        measured(13.2, 0.006, 1.5, 150),
    ]


class Structure(HTMLParser):
    """Checks that elements are nested, and gathers text."""

    EMPTY = frozenset({"meta", "br", "rect", "line", "path", "polygon", "polyline", "circle"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(page: str) -> Structure:
    structure = Structure()
    structure.feed(page)
    assert not structure.open
    return structure
