"""What of a plan others may read: streams that have no beginning, and the sources that never end."""

from __future__ import annotations

import pytest

from synergy_nb.plan import Stream, source
from synergy_nb.plan.derived.stream_sharing import endless_sources, is_live

ENDLESS = source("packets", rate=5, id="endless")
FINITE = source("packets", rate=5, count=100, id="finite")
PEERS = source("peers", id="peers")


@pytest.mark.parametrize(
    ("stream", "endless", "live"),
    [
        (ENDLESS.filter("bytes > 9"), ("endless",), True),
        (FINITE.filter("bytes > 9"), (), False),
        (ENDLESS.filter("bytes > 9").union(FINITE.sample(0.5)), ("endless",), False),
        (ENDLESS.filter("bytes > 9").union(ENDLESS.sample(0.5)), ("endless",), True),
        (ENDLESS.project(n="1").union(PEERS.project(n="1")), ("endless", "peers"), True),
    ],
)
def test_a_stream_is_live_if_all_its_sources_are_endless(stream: Stream, endless: tuple[str, ...], live: bool) -> None:
    plan = stream.sink(id="out")
    assert sorted(endless_sources(plan, "out")) == sorted(endless)
    assert is_live(plan, "out") is live


def test_only_the_sources_of_a_stream_itself_count() -> None:
    plan = FINITE.filter("bytes > 9", id="f").union(ENDLESS, id="both").sink()
    assert (endless_sources(plan, "f"), endless_sources(plan, "both")) == ((), ("endless",))
