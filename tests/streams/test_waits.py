"""Each wait of a component is recorded once, with its owner: what a peer reads off cursors and inputs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from synergy_nb.dataflow.deployments import FOLDER, Assignment
from synergy_nb.dataflow.streams.hosting._waits import LONGEST_S, NOTICED_S, OFTEN
from synergy_nb.dataflow.streams.log.log import Limits
from synergy_nb.dataflow.tuples import END
from synergy_nb.events import (
    DestinationBroken,
    DestinationMended,
    Event,
    SourceBroken,
    SourceMended,
    WaitBegun,
    WaitEnded,
    Why,
)
from synergy_nb.reporting.stalls import OpenWaits, Stall, stalls
from tests.streams.items import batch, promise
from tests.streams.peers import Peers

SMALL = Limits(window=2000, retain=4000, results=3000, piece=1 << 20)


class Watched:
    """Peers that look once a second who waits."""

    def __init__(self, inputs: int = 1, limits: Limits = SMALL) -> None:
        self.peers = Peers(inputs, limits).begin()
        self.journal: list[Event] = []
        self.silent: set[str] = set()
        self.known = ""  # of a full sink

    def look(self, seconds: int = 1, then: Callable[[], object] = lambda: None) -> list[Event]:
        """Let seconds pass; return what was recorded meanwhile, and call ``then`` before each look."""
        before = len(self.journal)
        for _ in range(seconds):
            self.peers.later(1.0)
            then()
            for peer, hosting in self.peers.hostings.items():
                if peer not in self.peers.dead:
                    hosting.waits.look(
                        self.peers.now,
                        self._recorder(peer),
                        self.silent.__contains__,
                        lambda component: "nobody speaks" if component.operator == "n" else self.known,
                    )
        return self.journal[before:]

    def _recorder(self, peer: str) -> Any:
        def record(kind: type[Event], subject: str, **fields: Any) -> None:
            self.journal.append(kind(self.peers.now, peer, subject, **fields))

        return record

    def give(self, rows: int = 1) -> None:
        """Emit the next tuples of the source, and their promise."""
        end = self.peers.hostings["s"].components["app", "n"].log.end.position
        self.peers.emit("n", batch(end, rows), promise(10 * (end + rows), end + rows))

    @property
    def stalls(self) -> list[Stall]:
        waits = OpenWaits()
        for event in self.journal:
            waits.add(event)
        return stalls(waits, self.peers.now)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def both(found: list[Event]) -> list[tuple[str, Why]]:
    return [(each.operator, each.why) for each in found if isinstance(each, WaitBegun)]


def test_who_goes_on_waits_for_nobody(watched: Watched) -> None:
    times = iter(range(1, 100))
    assert watched.look(10, lambda: watched.peers.emit("n", promise(next(times), 0))) == []


def test_a_silent_source_is_the_end_of_a_chain_within_five_seconds(watched: Watched) -> None:
    watched.give()
    last = watched.peers.now
    assert sorted(both(watched.look(4))) == [("n", Why.SILENT), ("out", Why.INPUT), ("u", Why.INPUT)]
    assert all(event.time - last <= 5.0 for event in watched.journal)
    (stall,) = watched.stalls
    assert stall.operators == ("out", "u", "n")
    assert not stall.moves
    assert str(stall) == (
        "waiting: out waits for u, which waits for n at peer s, which has given nothing for 3 s: nobody speaks; "
        "see whether what it reads still gives rows"
    ), "what was given was seen at the first look"


def test_a_wait_is_recorded_once_and_so_is_its_end(watched: Watched) -> None:
    watched.look(4)
    assert watched.look(10) == []
    watched.give()
    over = watched.look()
    assert sorted((each.operator, round(each.seconds)) for each in over if isinstance(each, WaitEnded)) == [
        ("n", 14), ("out", 14), ("u", 14),
    ]  # fmt: skip
    assert len(over) == 3
    assert watched.stalls == []


def test_who_pauses_often_is_recorded_later_each_time(watched: Watched) -> None:
    took: list[float] = []
    for _ in range(10):
        watched.give()
        watched.look()
        began = watched.peers.now
        for _ in range(70):
            if ("n", Why.SILENT) in both(watched.look()):
                break
        took.append(watched.peers.now - began)
    assert took[: OFTEN + 1] == pytest.approx([3.0] * (OFTEN + 1))
    assert took[OFTEN + 1 : OFTEN + 3] == pytest.approx([5.0, 10.0])
    assert took[-1] == pytest.approx(LONGEST_S)
    assert NOTICED_S < 3.0


def test_rows_without_a_promise_have_a_part_that_is_silent(watched: Watched) -> None:
    watched.give(2)
    positions = iter(range(2, 100))
    found = watched.look(6, lambda: watched.peers.emit("n", batch(next(positions), 1)))
    assert ("n", Why.UNPROMISED) in both(found)
    (stall,) = watched.stalls
    assert stall.moves
    assert "n at peer s, which gives rows, but has not promised for" in stall.text


def test_an_input_waits_for_the_one_that_is_behind() -> None:
    watched = Watched(2)
    times = iter(range(1, 100))
    watched.peers.emit("m", promise(1_000_000, 0))
    found = watched.look(6, lambda: watched.peers.emit("n", promise(3_000_000 * next(times), 0)))
    assert sorted(both(found)) == [("m", Why.SILENT), ("out", Why.INPUT), ("u", Why.INPUT)]
    (stall,) = watched.stalls
    assert stall.operators == ("out", "u", "m")
    assert "is 11 s behind its other inputs and has given nothing" in stall.text


def test_an_ended_stream_waits_for_nobody(watched: Watched) -> None:
    watched.peers.emit("n", batch(0, 1), promise(END, 1))
    assert watched.look(5) == []


def fill(watched: Watched, rows: int = 40) -> None:
    """Give rows as long as there is room."""
    hosting = watched.peers.hostings["s"]
    for _ in range(200):
        if not hosting.may_emit("app", "n"):
            return
        watched.give(rows)
    raise AssertionError("there is always room")


def test_results_that_nobody_reads_fill_a_sink_and_all_before_it(watched: Watched) -> None:
    watched.peers.reads = False
    found = watched.look(6, lambda: fill(watched))
    assert ("out", Why.RESULTS) in both(found)
    (stall,) = watched.stalls
    assert stall.operators == ("n", "u", "out")
    assert stall.text == (
        "n waits for room at u, which waits for room at out at peer z, which has been full for 5 s: "
        "nobody reads its results"
    )


def test_a_slow_reader_of_results_is_one(watched: Watched) -> None:
    watched.peers.reads = False
    watched.look(3, lambda: fill(watched))

    def read_little() -> None:
        hosting = watched.peers.hostings["z"]
        (chunk, *_) = hosting.results("app", "out", watched.peers.collected, 1)
        watched.peers.collected = chunk.end
        watched.peers.do("z", hosting.collected("app", "out", chunk.end, chunk.end, watched.peers.now))
        watched.peers.execute("z")
        watched.peers.deliver()
        fill(watched)

    watched.look(6, read_little)
    (stall,) = watched.stalls
    assert stall.moves
    assert "out at peer z, which retains as much as it may: its results have been read more slowly" in stall.text


def test_a_component_that_executes_for_long_says_so(watched: Watched) -> None:
    hosting = watched.peers.hostings["x"]
    watched.peers.emit("n", batch(0, 1), promise(10, 1), deliver=False)
    while watched.peers.frames:
        sender, to, frame = watched.peers.frames.popleft()
        watched.peers.do(to, hosting.receive(sender, frame, watched.peers.now)) if to == "x" else None
    work = hosting.next(watched.peers.now)
    assert work is not None
    assert ("u", Why.EXECUTION) in both(watched.look(4))
    assert any(stall.operators == ("out", "u") and "executing one batch" in stall.text for stall in watched.stalls)
    watched.peers.do("x", hosting.finished(work, work.run(lambda: watched.peers.now), watched.peers.now))
    watched.peers.deliver()
    assert any(isinstance(each, WaitEnded) and each.operator == "u" for each in watched.look())


def test_a_folder_that_takes_nothing_is_waited_for_once_it_has_taken_nothing_for_seconds(watched: Watched) -> None:
    peers = watched.peers
    peers.dead.add(FOLDER)
    feeds = peers.deployment.assignments["u"].inputs
    peers.assign("u", Assignment("x", 0, (FOLDER,), "", feeds, synchronized=(FOLDER,)))
    watched.look(3)
    watched.give()
    assert ("u", Why.FOLDER) not in both(watched.look(2))
    assert ("u", Why.FOLDER) in both(watched.look(3))


def test_a_reader_at_a_silent_peer_has_a_silent_peer(watched: Watched) -> None:
    watched.peers.dead.add("x")
    watched.silent.add("x")
    watched.look(4, lambda: fill(watched))
    texts = {stall.operators: str(stall) for stall in watched.stalls}
    (one,) = texts.values()
    assert "u at peer x, and that peer does not answer" in one
    assert "see whether its process runs" in one


def test_what_is_outside_and_broken_explains_a_silent_source(watched: Watched) -> None:
    where = "s", "app", "n"
    watched.look(2)
    watched.journal.append(SourceBroken(watched.peers.now, *where, reason="broker at 127.0.0.1:9", tries=1, wait_s=1.0))
    watched.look(4)
    (stall,) = watched.stalls
    assert stall.label == "stalled"
    assert stall.operators == ("out", "u", "n")
    assert stall.text.endswith("n at peer s, which has not reached for 4 s what it needs: broker at 127.0.0.1:9")
    watched.journal.append(SourceMended(watched.peers.now, *where, seconds=4.0))
    (stall,) = watched.stalls
    assert (stall.label, stall.why) == ("waiting", Why.SILENT)


def test_a_destination_that_cannot_be_written_to_explains_a_full_sink(watched: Watched) -> None:
    watched.known = "what it writes to takes less than comes"
    watched.peers.reads = False
    watched.look(6, lambda: fill(watched))
    (stall,) = watched.stalls
    assert stall.text.endswith("out at peer z, which has been full for 5 s: what it writes to takes less than comes")
    assert stall.remedy.startswith("see what slows that down")
    at = watched.peers.now, "z", "app", "out"
    watched.journal.append(DestinationBroken(*at, reason="/data: No space left on device", tries=1, wait_s=1.0))
    (stall,) = watched.stalls
    assert stall.operators == ("n", "u", "out")
    assert stall.text.endswith("which has not reached for 0 s what it needs: /data: No space left on device")
    watched.journal.append(DestinationMended(*at, seconds=1.0))
    (stall,) = watched.stalls
    assert stall.why is Why.RESULTS
