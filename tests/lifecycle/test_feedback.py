"""Feedback: predicted times are carried where they have changed, and again after some rounds, as it may be lost."""

from __future__ import annotations

from synergy_nb.control.peer import Send
from synergy_nb.lifecycle.records.messages import ApplicationTimes, ComponentTimes, Feedback, TimesReported
from synergy_nb.plan import source
from tests.simulated import Ring

PLAN = source("packets", rate=10, id="s", at="peer-1").filter("bytes > 9", id="f", at="peer-2").sink("out", id="out")


class Led:
    """An origin, and what its feedback to the peer of the filter carries."""

    def __init__(self) -> None:
        self.ring = Ring(4, seed=5)
        self.ring.submit("peer-0", "r", PLAN)
        assert self.ring.until_decided("r").status == "running"
        self.ring.run(2.0)
        self.origin = self.ring.synergy["peer-0"].peer
        self.attempt = self.ring.synergy["peer-0"].session.graph("r").attempt  # type: ignore[union-attr]

        self.helpless: tuple[str, ...] = ()  # in the last feedback

    def report(self, seconds: float, sender: str = "peer-2", attempt: int = 0, operator: str = "f") -> None:
        times = ApplicationTimes("r", attempt or self.attempt, {operator: ComponentTimes(seconds, seconds, {})})
        self.origin.receive(sender, TimesReported((times,)), self.origin.now)

    def rounds(self, number: int) -> list[dict[str, float]]:
        """The times in the feedback of so many rounds."""
        found: list[dict[str, float]] = []
        while len(found) < number:
            due = self.origin.next_timer
            assert due is not None
            for effect in self.origin.tick(due):
                if isinstance(effect, Send) and effect.to == "peer-2" and isinstance(effect.message, Feedback):
                    (measured,) = effect.message.measured
                    self.helpless = measured.helpless
                    found.append({name: each.seconds for name, each in measured.times.items()})
        return found


def test_times_are_carried_once_they_change_and_again_after_ten_rounds() -> None:
    led = Led()
    assert led.rounds(2) == [{}] * 2
    led.report(0.2)
    assert led.rounds(11) == [{"f": 0.2}, *[{}] * 9, {"f": 0.2}]
    led.report(0.205)
    assert led.rounds(1) == [{}], "a small change waits for the next round that carries any"
    led.report(0.25)
    assert led.rounds(2) == [{"f": 0.25}, {}]


def test_times_of_another_attempt_or_of_a_peer_without_the_component_do_not_count() -> None:
    led = Led()
    led.report(0.2, sender="peer-3")
    led.report(0.2, attempt=led.attempt + 1)
    led.report(0.2, operator="out")
    assert led.rounds(2) == [{}] * 2


def test_a_peer_counts_as_helpless_for_ten_seconds() -> None:
    led = Led()
    feedbacks = led.ring.synergy["peer-0"].session.feedbacks
    began = led.origin.now
    feedbacks.note_helpless("r", "f")
    feedbacks.note_helpless("unknown", "f")
    carried: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}  # by whether the ten seconds are over
    while led.origin.now < began + 12.0:
        led.rounds(1)
        carried[led.origin.now >= began + 10.0].add(led.helpless)
    assert carried == {False: {("f",)}, True: {()}}
